"""Panels of one result: what is drawn, how it is labelled, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import LogNorm

import veilsum as vs
from veilsum.errors import VeilsumError
from veilsum.privacy import NetworkDP, NoPrivacy, SignalDP
from veilsum.results import figures, style
from veilsum.simulation import Record

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")

PATHS = Record(every=1)
RING = vs.networks.lazy_metropolis(vs.networks.load("ring:9"))
FAMILY = vs.families.LogNormal1p(sigma=1.0)


def run(
    algorithm: Any = "average",
    privacy: Any = None,
    record: Any = PATHS,
    network: Any = RING,
    family: Any = FAMILY,
    **options: Any,
) -> Any:
    signals = options.pop("signals", {"mu": 2.0})
    privacy = privacy or SignalDP(epsilon=1.0, radius=1.0)
    rounds, replicas = options.pop("rounds", 12), options.pop("replicas", 3)
    return vs.sweep(
        signals,
        network,
        family,
        privacy,
        algorithm,
        rounds,
        replicas=replicas,
        record=record,
        **options,
    ).result


def categorical(**options: Any) -> Any:
    family = vs.families.Categorical(3)
    return run(family=family, signals={"p": [0.2, 0.3, 0.5]}, **options)


def drawn(ax: Axes) -> Any:
    """Force the drawing, where deferred mistakes show."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.canvas.draw()
    return ax


def dashed(ax: Axes) -> Any:
    return [line for line in ax.lines if line.get_linestyle() == "--"]


def test_paths_draw_a_private_and_a_clean_line_per_agent_and_the_target() -> None:
    result = run()
    ax = drawn(figures.paths(result, agents=4))
    assert len(ax.lines) == 2 * 4 + 1
    assert ax.get_xlabel() == "round t"
    assert ax.get_ylabel() == "estimate of E[ξ],  ξ = log(1 + s)"
    assert ax.lines[0].get_ydata()[0] == result.trace.target[0, 0]
    private, clean = ax.lines[1], ax.lines[2]
    assert private.get_color() == clean.get_color()
    np.testing.assert_array_equal(private.get_ydata(), result.trace.private[:, 0, 0, 0, 0])
    np.testing.assert_array_equal(clean.get_ydata(), result.trace.noiseless[:, 0, 0, 0])


def test_paths_of_more_agents_than_recorded_draw_those_recorded() -> None:
    assert len(figures.paths(run(record=Record(every=2, agents=[0, 5]))).lines) == 5


def test_paths_say_which_component_they_show() -> None:
    ax = drawn(figures.paths(categorical(), agents=2))
    assert ax.get_ylabel() == "estimate of E[ξ], component 0 of 3"


def test_paths_of_an_online_algorithm_start_with_its_first_signal() -> None:
    ax = drawn(figures.paths(run("learn"), agents=1))
    assert ax.lines[1].get_xdata()[0] == 1
    assert ax.get_xscale() == "log"


def test_paths_of_an_online_algorithm_with_two_rounds_keep_both() -> None:
    ax = drawn(figures.paths(run("learn", rounds=1), agents=1))
    assert (ax.get_xscale(), len(ax.lines[1].get_xdata())) == ("linear", 2)


def test_paths_without_protection_are_clean() -> None:
    ax = drawn(figures.paths(run(privacy=NoPrivacy()), agents=3))
    assert len(ax.lines) == 3 + 1
    assert len(dashed(ax)) == 3
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["without noise", "target"]


@pytest.mark.parametrize("record", [Record(), Record(estimates=False)])
def test_paths_that_were_not_recorded_are_refused_with_the_remedy(record: Any) -> None:
    with pytest.raises(VeilsumError, match=r"run it with Record\(every=1, agents=\[\.\.\.\]\)"):
        figures.paths(run(record=record))


def test_paths_of_no_agents_are_refused() -> None:
    with pytest.raises(VeilsumError, match="agents"):
        figures.paths(run(), agents=0)


@pytest.mark.parametrize(("algorithm", "scale"), [("average", "linear"), ("learn", "log")])
def test_errors_over_rounds(algorithm: Any, scale: Any) -> None:
    result = run(algorithm)
    ax = drawn(figures.errors(result))
    assert (ax.get_xscale(), ax.get_yscale()) == (scale, "log")
    assert ax.get_xlabel() == "round t"
    assert ax.get_ylabel() == r"$\ell_2$ norm over agents"
    lines = {line.get_label(): line for line in ax.lines}
    assert set(lines) == {c.label for c in (style.PRIVACY, style.TOTAL, style.DECENTRALISATION)}
    final = [lines[c.label].get_ydata()[-1] for c in (style.TOTAL, style.PRIVACY)]
    np.testing.assert_allclose(final, result.errors[:2])
    assert len(ax.collections) == 3  # a band each


def test_errors_of_one_replica_have_no_band() -> None:
    ax = drawn(figures.errors(run(replicas=1)))
    assert not ax.collections
    assert len(ax.get_legend().get_texts()) == 3


def test_errors_without_protection_are_the_cost_of_decentralisation() -> None:
    ax = drawn(figures.errors(run(privacy=NoPrivacy())))
    assert [line.get_label() for line in ax.lines] == [style.DECENTRALISATION.label]


def test_errors_that_are_zero_leave_the_panel_empty() -> None:
    ax = drawn(figures.errors(run(privacy=NoPrivacy(), signals=np.ones(9)), evaluation=True))
    assert all(np.all(line.get_ydata() > 0) for line in ax.lines)


def test_rounding_does_not_squeeze_the_errors() -> None:
    complete = vs.networks.max_degree(vs.networks.load("complete:6"))
    ax = drawn(figures.errors(run(network=complete, rounds=40)))
    low, high = ax.get_ylim()
    assert low >= 0.9e-6 * high


def test_errors_of_a_sweep_are_drawn_over_epsilon_as_in_the_paper() -> None:
    result = run(epsilons=(10.0, 0.1, 1.0), record=Record(estimates=False))
    ax = drawn(figures.errors(result))
    assert (ax.get_xlabel(), ax.get_xscale()) == ("privacy budget ε", "log")
    shape = {line.get_label(): line.get_linestyle() for line in ax.lines}
    assert shape == {
        style.PRIVACY.label: "-",
        style.TOTAL.label: "--",
        style.DECENTRALISATION.label: ":",
    }
    assert list(ax.lines[0].get_xdata()) == [0.1, 1.0, 10.0]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), result.errors.privacy[[1, 2, 0]])


def test_no_label_calls_a_norm_an_mse() -> None:
    axes = [figures.errors(run()), figures.errors(run(epsilons=(1.0, 2.0)))]
    words = [text for ax in axes for text in (ax.get_ylabel(), *_legend(ax))]
    assert not any("mse" in word.lower() for word in words)


def _legend(ax: Axes) -> Any:
    legend = ax.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def dots(ax: Axes) -> Any:
    return [c for c in ax.collections if isinstance(c, PathCollection)]


def test_network_draws_every_link_and_colours_every_agent() -> None:
    result = run(record=Record())
    ax = drawn(figures.network(result))
    links = next(c for c in ax.collections if isinstance(c, LineCollection))
    assert len(links.get_segments()) == 9
    (coloured,) = dots(ax)
    apart = np.abs(result.trace.private[-1, :, 0, 0, 0] - result.trace.target[0, 0])
    np.testing.assert_allclose(coloured.get_array(), np.sort(apart))
    assert ax.get_figure().axes[1].get_ylabel() == "|estimate - target| at round 12"


def test_network_colours_all_agents_when_paths_of_a_few_were_recorded() -> None:
    (coloured,) = dots(drawn(figures.network(run(record=Record(every=1, agents=[2, 3])))))
    assert len(coloured.get_offsets()) == 9


def test_measured_signals_are_never_drawn_without_noise() -> None:
    signals = np.arange(9.0)
    shown = drawn(figures.paths(run(signals=signals)))
    assert len(dashed(shown)) == 0
    assert len(shown.lines) == 9
    for bare in (run(signals=signals, privacy=NoPrivacy()), run("first-order", signals=signals)):
        with pytest.raises(VeilsumError, match="measured signals with protection"):
            figures.paths(bare)
    reported = drawn(figures.paths(run(signals=signals), evaluation=True))
    assert (len(dashed(reported)), len(reported.lines)) == (9, 9 + 9 + 1)


def test_what_compares_with_the_truth_about_measured_signals_must_be_asked_for() -> None:
    """It used to be drawn: errors, the target in paths, and colours by the distance to it."""
    result = run(signals=np.arange(9.0))
    with pytest.raises(VeilsumError, match="evaluation=True"):
        result.plot_errors()
    drawn(result.plot_errors(evaluation=True))
    held, target = result.trace.final[:, 0, 0, 0], result.trace.target[0, 0]
    for asked, middle in ((False, held.mean()), (True, target)):
        coloured = dots(drawn(result.plot_network(evaluation=asked)))[0]
        np.testing.assert_allclose(coloured.get_array(), np.sort(np.abs(held - middle)))
    shown = figures.compare({"a": result})
    assert not [ax for ax in shown.axes if ax.get_ylabel() == style.NORM]
    assert target not in [np.ravel(line.get_ydata())[0] for ax in shown.axes for line in ax.lines]
    reported = figures.compare({"a": result}, evaluation=True)
    assert "SECRET" in reported.get_supxlabel()
    assert "noise:" not in reported.get_supxlabel()


def test_sweeps_over_measured_signals_show_estimates_with_their_intervals(tmp_path: Any) -> None:
    result = run(signals=np.arange(9.0), epsilons=(0.5, 1.0))
    ax: Any = figures.compare({"a": result}).axes[0]
    assert ax.get_ylabel() == "estimate of mu, 95% interval\nof the mean of these readings"
    for k, epsilon in enumerate((0.5, 1.0)):
        x, y = (part[k] for part in ax.containers[0].lines[0].get_data())
        assert (x, y) == (epsilon, result.released(epsilon)[0]["mu"])
    reported = figures.network_figure("a", result, evaluation=True).axes[0]
    assert reported.get_title().startswith("SECRET")
    assert not figures.network_figure("a", result, False).axes[0].get_title().startswith("SECRET")
    names = {path.name for path in figures.save_all({"a": result}, tmp_path, evaluation=True)}
    assert names == {
        f"{n}.secret.{kind}" for n in ("compare", "network") for kind in ("png", "svg")
    }


def test_network_without_estimates_is_the_graph_alone() -> None:
    ax = drawn(figures.network(run(record=Record(estimates=False))))
    assert len(dots(ax)) == 1
    assert len(ax.get_figure().axes) == 1


def test_network_measures_all_components() -> None:
    result = categorical(record=Record(), privacy=NoPrivacy())
    coloured = dots(drawn(figures.network(result)))[0]
    apart = np.linalg.norm(result.trace.noiseless[-1, :, 0] - result.trace.target[0], axis=1)
    np.testing.assert_allclose(coloured.get_array(), np.sort(apart))


def test_network_of_wide_errors_has_a_logarithmic_scale() -> None:
    signals = 10.0 ** np.arange(9)
    result = run(record=Record(), privacy=NoPrivacy(), signals=signals, rounds=1)
    flat = run(record=Record(), privacy=NoPrivacy(), signals=np.ones(9), rounds=1)
    wide = run(record=Record(), network=vs.networks.lazy_metropolis(vs.networks.load("path:40")))
    assert not isinstance(dots(drawn(figures.network(flat)))[0].norm, LogNorm)
    assert isinstance(dots(drawn(figures.network(wide)))[0].norm, LogNorm)
    drawn(figures.network(result))


def test_panels_draw_where_they_are_asked_to() -> None:
    grid = style.figure(9, 3).subplots(1, 3)
    result = run(privacy=NetworkDP(epsilon=1.0))
    assert result.plot_paths(grid[0]) is grid[0]
    assert result.plot_errors(grid[1]) is grid[1]
    assert result.plot_network(grid[2]) is grid[2]
    drawn(grid[0])


def test_drawing_needs_neither_pyplot_nor_a_display() -> None:
    code = (
        "import sys; from veilsum.results import figures, style; style.figure(1, 1).canvas.draw();"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    environment = {"PATH": "", "MPLBACKEND": "TkAgg", "HOME": "/tmp"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
