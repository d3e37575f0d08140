"""The files of results: what may be released and, separately, evaluations against the truth.

    summary.json, results.nc or results-NAME.nc, figures      what agents would know
    evaluation.secret.json, evaluation.secret.nc, ...         on request, of measured signals

Synthetic signals belong to nobody: their errors and targets are in the files of the first kind, and
there are none of the second. A secret file is named so, says so in its first field, and is readable
by its owner only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from veilsum import _extras
from veilsum.results.summary import as_json, evaluation_summary, summary

if TYPE_CHECKING:
    import xarray as xr

    from veilsum.results.result import Result

SECRET_SUFFIX = ".secret"
OWNER_ONLY = 0o600


def write_all(
    results: Mapping[str, Result],
    folder: str | os.PathLike[str],
    *,
    evaluate: bool | Iterable[str] = False,
    figures: bool = True,
) -> list[Path]:
    """Write results into a folder: what `veilsum run` writes.

    Parameters
    ----------
    results
        Results by name.
    folder
        Created if it does not exist; files of the same names are replaced.
    evaluate
        Whether to write evaluations of measured signals, in secret files: of all results, or of
        those that are named.
    figures
        Whether to draw figures.

    Returns
    -------
    list of Path
        The files that were written.

    Examples
    --------
    >>> import veilsum, tempfile
    >>> scenario = veilsum.Scenario.parse(veilsum.scenario.template()).with_(replicas=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_all(veilsum.run(scenario), folder, figures=False)
    >>> [path.name for path in written]
    ['summary.json', 'results-jacobi.nc', 'results-average.nc', 'results-no-privacy.nc']
    """
    if figures:
        _extras.require("drawing figures", "plot", otherwise="figures=False")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "summary.json"]
    written[0].write_text(as_json(summary(results)), encoding="utf-8")
    for name, result in results.items():
        written.append(folder / f"{_stem('results', name, results)}.nc")
        result.to_netcdf(written[-1])
    if figures:
        written += _figures(results, folder)
    chosen = evaluated(results, evaluate)
    return written + (_evaluation(chosen, folder, figures) if chosen else [])


def evaluated(results: Mapping[str, Result], evaluate: bool | Iterable[str]) -> dict[str, Result]:
    """The results on measured signals that an evaluation is asked for."""
    names = list(results) if evaluate is True else list(evaluate or ())
    return {name: r for name, r in results.items() if r.measured and name in names}


def stale_secrets(folder: str | os.PathLike[str], written: Iterable[Path]) -> list[Path]:
    """Secret files in a folder that an earlier run has left: those not just written."""
    return sorted(set(Path(folder).rglob(f"*{SECRET_SUFFIX}.*")) - set(written))


def private_file(path: Path) -> Path:
    """Create an empty file that its owner only can read and write, in place of an earlier one.

    What is written into it later is never readable by anyone else.
    """
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY))
    return path


def _evaluation(results: Mapping[str, Result], folder: Path, figures: bool) -> list[Path]:
    written = [private_file(folder / f"evaluation{SECRET_SUFFIX}.json")]
    written[0].write_text(as_json(evaluation_summary(results)), encoding="utf-8")
    for name, result in results.items():
        stem = _stem("evaluation", name, results)
        written.append(private_file(folder / f"{stem}{SECRET_SUFFIX}.nc"))
        _netcdf(result.evaluation(), written[-1])
    return written + (_figures(results, folder, evaluation=True) if figures else [])


def _netcdf(data: xr.Dataset, path: Path) -> None:
    """Write into the existing file, so that its permissions hold at every moment."""
    path.write_bytes(data.to_netcdf(engine="scipy"))


def _stem(word: str, name: str, results: Mapping[str, Result]) -> str:
    return word if len(results) == 1 else f"{word}-{name}"


def _figures(results: Mapping[str, Result], folder: Path, evaluation: bool = False) -> list[Path]:
    """An overview, and the variants side by side: more than fit in figures-2, ..., evenly."""
    from veilsum.results import figures, overview

    drawn = {n: r for n, r in results.items() if evaluation or r.releasable}
    names, parts = list(drawn), -(-len(drawn) // figures.MOST_VARIANTS)
    written = (
        overview.save(drawn, folder, evaluation) if overview.drawable(drawn, evaluation) else []
    )
    for k in range(parts):
        target = folder / f"figures-{k + 1}" if k else folder
        ends = (-(-len(names) * part // parts) for part in (k, k + 1))
        some = {name: drawn[name] for name in names[slice(*ends)]}
        written += figures.save_all(some, target, evaluation)
    return written
