"""Several results side by side, and the files that are written."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import veilsum as vs
from veilsum.errors import VeilsumError
from veilsum.privacy import NetworkDP, NoPrivacy, SignalDP
from veilsum.results import figures, style
from veilsum.simulation import Record

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")

PATHS = Record(every=1, agents=[0, 3])
RING = vs.networks.lazy_metropolis(vs.networks.load("ring:9"))
FAMILY = vs.families.LogNormal1p(sigma=1.0)


def run(
    algorithm: Any = "average",
    privacy: Any = None,
    record: Any = PATHS,
    family: Any = FAMILY,
    signals: Any = None,
    **options: Any,
) -> Any:
    signals, privacy = signals or {"mu": 2.0}, privacy or SignalDP(epsilon=1.0)
    return vs.sweep(
        signals, RING, family, privacy, algorithm, 8, replicas=2, record=record, **options
    ).result


@pytest.fixture(scope="module")
def results() -> Any:
    return {
        "local": run(),
        "online": run("learn-network", NetworkDP(epsilon=2.0)),
        "baseline": run(privacy=NoPrivacy()),
    }


def titles(figure: Any) -> Any:
    return [ax.get_title() for ax in figure.axes]


def test_compare_puts_paths_above_errors(results: Any) -> None:
    figure = figures.compare(results)
    figure.canvas.draw()
    assert len(figure.axes) == 6
    assert titles(figure)[:3] == [
        "local\naverage, signal DP\nε = 1",
        "online\nlearn-network, network DP\nε = 2",
        "baseline\naverage, no privacy",
    ]
    assert [len(ax.lines) for ax in figure.axes] == [5, 5, 3, 3, 3, 1]
    upper, lower = figure.axes[:3], figure.axes[3:]
    assert len({ax.get_ylim() for ax in upper}) == len({ax.get_ylim() for ax in lower}) == 1
    assert all(ax.get_xlabel() == "round t" for ax in figure.axes)
    assert upper[0].get_ylabel().startswith("estimate of E[ξ]")
    assert lower[0].get_ylabel() == style.NORM


def test_the_caption_says_how_far_guarantees_are_proved(results: Any) -> None:
    caption = figures.compare(results).get_supxlabel()
    assert caption == (
        "guarantees: local (proved); online (proved); baseline (none). noise: simulated"
    )


def test_the_caption_of_baselines_says_that_there_is_no_noise(results: Any) -> None:
    caption = figures.compare({"baseline": results["baseline"]}).get_supxlabel()
    assert caption == "guarantees: baseline (none). noise: none"


@pytest.mark.parametrize("count", [1, 2, 6])
def test_compare_takes_one_to_six(results: Any, count: Any) -> None:
    figure = figures.compare({f"variant {i}": results["local"] for i in range(count)})
    figure.canvas.draw()
    assert len(figure.axes) == 2 * count
    edges = [text.get_window_extent() for text in figure.legends[0].get_texts()]
    assert all(edge.x0 >= 0 and edge.x1 <= figure.bbox.width for edge in edges)


@pytest.mark.parametrize("count", [0, 7])
def test_compare_refuses_other_counts(results: Any, count: Any) -> None:
    with pytest.raises(VeilsumError, match=f"1 to 6 results; found {count}"):
        figures.compare({f"variant {i}": results["local"] for i in range(count)})


def test_compare_without_paths_shows_errors_alone() -> None:
    assert len(figures.compare({"a": run(record=Record()), "b": run(record=None)}).axes) == 2


def test_compare_says_which_paths_are_missing(results: Any) -> None:
    figure = figures.compare({"a": results["local"], "b": run(record=Record())})
    assert [text.get_text() for text in figure.axes[1].texts] == ["paths not recorded"]


def test_different_statistics_do_not_share_an_axis(results: Any) -> None:
    family, signals = vs.families.Categorical(3), {"p": [0.2, 0.3, 0.5]}
    other = run("learn", family=family, signals=signals)
    figure = figures.compare({"a": results["local"], "b": other})
    assert figure.axes[0].get_ylim() != figure.axes[1].get_ylim()
    assert figure.axes[1].get_ylabel() == "estimate of E[ξ], component 0 of 3"


def test_sweeps_are_compared_over_epsilon(results: Any) -> None:
    sweep = run(epsilons=(0.1, 1.0, 10.0), record=Record(estimates=False))
    figure = figures.compare(
        {"sweep": sweep, "one": results["online"], "none": run(privacy=NoPrivacy())}
    )
    figure.canvas.draw()
    assert titles(figure) == [style.PRIVACY.label, style.TOTAL.label]
    privacy, total = figure.axes
    assert [np.size(line.get_xdata()) for line in privacy.lines] == [3, 1]
    assert sum(line.get_linestyle() == ":" for line in total.lines) == 3
    assert {ax.get_xlabel() for ax in figure.axes} == {"privacy budget ε"}
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[0] == "sweep: average, signal DP"
    assert labels[-2:] == [style.DECENTRALISATION.label, "10 to 90% of replicas"]


def test_save_all_writes_png_and_svg(results: Any, tmp_path: Any) -> None:
    written = figures.save_all(results, tmp_path / "new" / "figures")
    names = ["compare.png", "compare.svg", "network.png", "network.svg"]
    assert [path.name for path in written] == names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written[::2])
    assert all("<svg" in path.read_text(encoding="utf-8") for path in written[1::2])


def test_save_all_leaves_out_a_network_without_estimates(tmp_path: Any) -> None:
    written = figures.save_all({"a": run(record=Record(estimates=False))}, tmp_path)
    assert [path.name for path in written] == ["compare.png", "compare.svg"]


def test_save_all_draws_the_network_of_the_first_run_that_kept_estimates(
    results: Any, tmp_path: Any
) -> None:
    fuller = run(privacy=NetworkDP(epsilon=3.0), record=Record())
    bare = run(record=Record(estimates=False))
    alone = figures.save_all({"full": fuller}, tmp_path / "alone")
    both = figures.save_all({"bare": bare, "full": fuller, **results}, tmp_path / "both")
    assert both[-1].read_bytes() == alone[-1].read_bytes()


def test_files_are_the_same_whenever_they_are_written(results: Any, tmp_path: Any) -> None:
    first = figures.save_all(results, tmp_path / "first")
    second = figures.save_all(results, tmp_path / "second")
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes(), a.name
    assert "<dc:date>" not in first[1].read_text(encoding="utf-8")


def test_figures_are_freed(results: Any) -> None:
    figure = weakref.ref(figures.compare({"a": results["local"]}))
    gc.collect()
    assert figure() is None
