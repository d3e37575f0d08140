"""One picture of all variants: errors over rounds by target."""

from typing import Any

import pytest

import veilsum as vs
from veilsum import families, networks
from veilsum.errors import VeilsumError
from veilsum.privacy import Batches, MaskedDP, NetworkDP, NoPrivacy, SignalDP
from veilsum.results import overview, targets, write_all

RING, NORMAL = networks.metropolis("ring:9"), families.Normal(sigma=1.0)
MASKED = MaskedDP(1.0, colluders=2, attempts=1)


def run(privacy: Any, algorithm: str, rounds: int = 20, **kwargs: Any) -> Any:
    return vs.sweep(
        {"mu": 2.0}, RING, NORMAL, privacy, algorithm, rounds=rounds, replicas=3, rng=1, **kwargs
    ).result


def several() -> dict[str, Any]:
    stream = MaskedDP(1.0, colluders=2, attempts=1, batches=Batches(2.0))
    with pytest.warns(vs.errors.PrivacyWarning, match="Refuted"):
        refuted = run(NetworkDP(1.0), "average")
    return {
        "mixed": refuted,
        "average": run(SignalDP(1.0), "average"),
        "masked": run(MASKED, "masked-sum"),
        "stream": run(SignalDP(1.0), "learn"),
        "masked-stream": run(stream, "masked-learn"),
    }


def test_a_panel_for_each_target_and_a_line_for_each_variant() -> None:
    results = several()
    panels: list[Any] = overview.draw(results).axes
    left, right = panels
    assert "against the mean of the signals" in left.get_title()
    assert "against E ξ" in right.get_title()
    lines = {each.get_label().split("  ")[-1].split(" (")[0]: each for each in left.get_lines()}
    found = {name.split(",")[0]: lines[name] for name in lines}
    styles = {name: found[name].get_linestyle() for name in ("mixed", "average", "masked")}
    assert styles == {"mixed": "--", "average": "-", "masked": "-"}
    assert list(found["masked"].get_xdata()) == [20]  # no estimate before
    total = results["masked"].trace.total[20, 0].mean()
    assert found["masked"].get_ydata()[0] == pytest.approx(total)
    labels = [text.get_text() for text in right.get_legend().get_texts()]
    assert any("masked-stream (masked-learn), 5 x 20 rounds, proved" in text for text in labels)
    assert targets.duration_of(results["masked"]) == "20"


def test_the_legend_lies_within_its_panel() -> None:
    """Longer names make wider panels, and none of the words hangs over the edge."""
    results = {f"a-variant-with-a-long-name-{name}": one for name, one in several().items()}
    figure = overview.draw(results)
    figure.draw_without_rendering()
    panels: list[Any] = figure.axes
    for panel in panels:
        panel_box, box = panel.get_window_extent(), panel.get_legend().get_window_extent()
        assert panel_box.x0 <= box.x0
        assert box.x1 <= panel_box.x1


def test_what_the_numbers_assume_is_below_them() -> None:
    words: Any = overview.draw(several())._supxlabel  # type: ignore[attr-defined]
    assert "Noise: simulated." in words.get_text()
    assert "proved against up to 2 colluding members" in words.get_text()
    assert "statistic" not in words.get_text()  # they have one in common
    alone = run(MaskedDP(1.0, colluders=0, attempts=1), "masked-sum")
    words = overview.draw({"one": alone, "same": alone})._supxlabel  # type: ignore[attr-defined]
    assert "Masked sums: proved against whoever is no member." in words.get_text()


def test_errors_of_different_statistics_say_so() -> None:
    """And which statistic lacks the floor that a proof needs; one statistic needs no words."""
    published = SignalDP(1.0, delta=0.01, sensitivity="smooth-as-published")
    with pytest.warns(vs.errors.PrivacyWarning, match="Refuted"):
        paper = vs.sweep(
            {"mu": 2.0}, RING, families.LogNormal(sigma=1.0), published, "average", rounds=5, rng=1
        ).result
    ours = vs.sweep(
        {"mu": 2.0},
        RING,
        families.LogNormal1p(sigma=1.0),
        SignalDP(1.0),
        "average",
        rounds=5,
        rng=1,
    ).result
    several_statistics = {"paper": paper, "ours": ours, "again": ours}
    which, why = targets.different_statistics(several_statistics)
    assert which.startswith("The statistic ξ is log s in paper; log(1 + s) in ours and again:")
    assert why.startswith("For log s no noise can be proved private without a public floor: near 0")
    words: Any = overview.draw(several_statistics)._supxlabel  # type: ignore[attr-defined]
    assert which in words.get_text()
    assert why in words.get_text()
    assert targets.different_statistics({"ours": ours, "again": ours}) == []
    unprotected = vs.sweep(
        {"mu": 2.0}, RING, families.LogNormal(sigma=1.0), NoPrivacy(), "average", rounds=5, rng=1
    ).result
    assert len(targets.different_statistics({"ours": ours, "none": unprotected})) == 1


def test_it_is_written_beside_the_others(tmp_path: Any) -> None:
    results = several()
    written = {path.name for path in write_all(results, tmp_path)}
    assert {"overview.png", "overview.svg", "compare.png"} <= written
    alone = {path.name for path in write_all({"a": results["average"]}, tmp_path / "alone")}
    assert "overview.png" not in alone


def test_seven_variants_are_drawn_four_and_three(tmp_path: Any) -> None:
    one = run(SignalDP(1.0), "average")
    written = write_all({f"v{k}": one for k in range(7)}, tmp_path)
    assert [path.parent.name for path in written if path.name == "compare.png"][1:] == ["figures-2"]
    assert not any(path.parent.name == "figures-3" for path in written)


def test_sweeps_and_measured_signals_are_refused() -> None:
    one = run(SignalDP(1.0, radius=1.0), "average")
    sweep = run(SignalDP(1.0, radius=1.0), "average", epsilons=(0.5, 1.0))
    with pytest.raises(VeilsumError, match="draw others with compare"):
        overview.draw({"a": one, "b": sweep})
    with pytest.raises(VeilsumError, match="2 to 12 results"):
        overview.draw({"a": one})
    measured = vs.estimate(
        [float(k) for k in range(9)], RING, NORMAL, SignalDP(1.0, radius=1.0), rounds=5
    ).result
    assert not overview.drawable({"a": measured, "b": measured})
    assert overview.drawable({"a": measured, "b": measured}, evaluation=True)
