"""The files of results: what may be released, and apart from it what compares with the truth.

    summary.json, results.nc or results-NAME.nc, figures      what agents would know
    evaluation.secret.json, evaluation.secret.nc, ...         on request, of measured signals

Signals that were drawn are nobody's: their errors and targets stand in the first kind of file, and
there is no second. A secret file says so in its name and in its first field, and its owner alone
can read it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from murmura.report import summary
from murmura.report.secret import SUFFIX, owned

if TYPE_CHECKING:
    import xarray as xr

    from murmura.report.result import Result


def write(
    results: Mapping[str, Result],
    directory: str | os.PathLike[str],
    about: Mapping[str, Any] | None = None,
    seconds: Mapping[str, float] | None = None,
    evaluation: bool | Iterable[str] = False,
    figures: bool = True,
) -> list[Path]:
    """Write results by name into a folder, and give the paths of all files.

    `about` and `seconds` go into summary.json (`report.summary`). `evaluation` asks for the truth
    about measured signals, of all results or of those that are named.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "summary.json"]
    written[0].write_text(_json(summary.summary(results, about, seconds)), encoding="utf-8")
    for name, result in results.items():
        written.append(folder / f"{_stem('results', name, results)}.nc")
        result.to_netcdf(written[-1])
    if figures:
        written += _figures(results, folder)
    asked = evaluated(results, evaluation)
    return written + (_evaluation(asked, folder, figures) if asked else [])


def evaluated(results: Mapping[str, Result], evaluation: bool | Iterable[str]) -> dict[str, Result]:
    """The results on measured signals for which an evaluation is asked."""
    names = list(results) if evaluation is True else list(evaluation or ())
    return {name: r for name, r in results.items() if r.measured and name in names}


def left_over(directory: str | os.PathLike[str], written: Iterable[Path]) -> list[Path]:
    """Secret files in a folder that are not among those just written: of an earlier run."""
    return sorted(set(Path(directory).rglob(f"*{SUFFIX}.*")) - set(written))


def _evaluation(results: Mapping[str, Result], folder: Path, figures: bool) -> list[Path]:
    written = [owned(folder / f"evaluation{SUFFIX}.json")]
    written[0].write_text(_json(summary.evaluation(results)), encoding="utf-8")
    for name, result in results.items():
        stem = _stem("evaluation", name, results)
        written.append(owned(folder / f"{stem}{SUFFIX}.nc"))
        _netcdf(result.evaluation(), written[-1])
    return written + (_figures(results, folder, evaluation=True) if figures else [])


def _netcdf(data: xr.Dataset, path: Path) -> None:
    """Write into the file that is there, so that nobody else may read it at any moment."""
    path.write_bytes(data.to_netcdf(engine="scipy"))


def _stem(word: str, name: str, results: Mapping[str, Result]) -> str:
    return word if len(results) == 1 else f"{word}-{name}"


def _json(said: Any) -> str:
    return f"{json.dumps(said, indent=2, allow_nan=False, ensure_ascii=False)}\n"


def _figures(results: Mapping[str, Result], folder: Path, evaluation: bool = False) -> list[Path]:
    """Draw as many variants as fit one figure, and the others in folders of their own."""
    from murmura.report import figures

    shown = {n: r for n, r in results.items() if evaluation or r.releases}
    names, most = list(shown), figures.MOST_VARIANTS
    written: list[Path] = []
    for k in range(0, len(names), most):
        place = folder / f"figures-{k // most + 1}" if k else folder
        some = {name: shown[name] for name in names[k : k + most]}
        written += figures.save_all(some, place, evaluation)
    return written
