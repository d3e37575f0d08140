"""Every experiment runs with few rounds, and its CSV files hold what its figure shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.paper.veilsum_data import data  # noqa: F401 - a fixture for all
from veilsum import paper
from veilsum.paper.reproduction import FAILED, SKIPPED


@pytest.mark.parametrize("id", paper.names())
def test_an_experiment_runs_quickly(id: Any, tmp_path: Any) -> None:
    experiment = paper.EXPERIMENTS[id]
    heard: list[str] = []
    (report,) = paper.reproduce([experiment], tmp_path, seed=1, quick=True, progress=heard.append)
    if report.verdict == SKIPPED:
        assert experiment.needs_data
        pytest.skip(report.reason)
    assert report.verdict != FAILED, report.reason
    assert heard == experiment.variants
    assert report.outputs[0] in (f"{id}.svg", f"{id}.png")
    assert f"{id}.csv" in report.outputs
    assert len(report.findings) == len(experiment.claims)
    assert all(finding["sentence"].endswith(".") for finding in report.findings)
    assert any(ch.isdigit() for ch in report.sentence)
    for name in report.outputs:
        assert (tmp_path / name).stat().st_size > 0


def plotted(figure: Any) -> Any:
    """Ordinates of all lines of data, round after round."""
    lines = [line for ax in figure.axes for line in ax.get_lines()]
    return np.concatenate([np.asarray(line.get_ydata(), float) for line in lines])


@pytest.mark.parametrize("id", ["fig-mse-us", "fig-paths-us", "fig-naive", "fig-dynamic"])
def test_the_tables_hold_every_plotted_number(id: Any, tmp_path: Any) -> None:
    experiment = paper.EXPERIMENTS[id]
    measured = experiment.measure(experiment, paper.Context(seed=2, quick=True))
    for name, table in measured.tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    read = [pd.read_csv(path) for path in tmp_path.glob("*.csv")]
    known = np.concatenate([t.select_dtypes("number").to_numpy().ravel() for t in read])
    known = np.sort(np.append(known[np.isfinite(known)], [1.67, 0.0, 1.0]))
    wanted = plotted(experiment.draw(measured))
    near = known[np.clip(np.searchsorted(known, wanted), 0, len(known) - 1)]
    below = known[np.clip(np.searchsorted(known, wanted) - 1, 0, len(known) - 1)]
    off = np.minimum(np.abs(near - wanted), np.abs(below - wanted))
    assert wanted.size >= 40
    assert (off <= 1e-12 * np.abs(wanted)).all()


def test_the_same_seed_gives_the_same_bytes(tmp_path: Any) -> None:
    experiment = paper.EXPERIMENTS["fig-directed"]
    for name in ("a", "b"):
        folder = tmp_path / name
        reports = paper.reproduce(
            [experiment], folder, seed=4, quick=True, figures=folder / "figures"
        )
        assert [path.name for path in paper.sheet(reports, folder).save(folder)]
    for path in ("fig-directed.csv", "fig-directed.svg", "figures/fig-directed.svg",
                 "figures/fig-directed.png", "paper.html"):  # fmt: skip
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes()
