"""The sheet: what is asked of it in a line, the order of its answers, and what it never shows."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilsum as vs
from tests.front.studies import DRAWN, GROUPS, MEASURED, READINGS, SEVERAL, study, vector
from veilsum.errors import VeilsumError
from veilsum.front.of_runs import of_runs
from veilsum.front.sheet import VERDICTS, Answer, Answers, groups, ordered
from veilsum.scenario import Scenario, run

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")


def sheet(text: str = SEVERAL) -> Answers:
    return run(Scenario.parse(text))


def test_the_best_answer_is_asked_in_a_line() -> None:
    answers = sheet()
    best = answers.results[answers.best.name]
    assert answers.best.status == "proved"
    assert answers.value == best.released(answers.best.epsilon)[0]["mu"]
    assert answers.interval == (answers.low, answers.high) == best.interval["mu"]
    assert answers.low < answers.value < answers.high
    assert answers.guarantee == best.guarantee
    assert not answers.releasable, "the noise is simulated"
    assert repr(answers) == "Answers('A small ring': private, sweep, open)"


def test_one_run_is_a_sheet_of_its_own() -> None:
    answers = sheet()
    one = answers["sweep"]
    assert [row.epsilon for row in one.rows] == [0.5, 2.0]
    assert one.result is answers.results["sweep"]
    assert list(one) == ["sweep"]
    assert len(one) == 1
    assert {row.run for row in one.curves()} == {"sweep"}
    with pytest.raises(KeyError, match="there is no 'sweeps'; there are private, sweep, open"):
        answers["sweeps"]
    with pytest.raises(VeilsumError, match=r'has 3 runs; .*answers\["NAME"\]\.result'):
        _ = answers.result


def test_a_sheet_of_other_verbs_is_taken_apart_by_its_rows() -> None:
    rows = (Answer("a", "x", 1.0), Answer("a", "y", 2.0), Answer("b", "x", 3.0))
    answers = Answers("n", "title", "about", rows)
    assert list(answers) == ["a", "b"]
    assert [row.quantity for row in answers["a"].rows] == ["x", "y"]
    assert answers["b"].value == 3.0
    with pytest.raises(VeilsumError, match="a promises nothing"):
        _ = answers.guarantee
    with pytest.raises(VeilsumError, match="there is no answer"):
        _ = replace(answers, rows=()).best


def test_estimate_and_sweep_return_sheets() -> None:
    family, request = vs.families.Normal(1.0, bounds=(0.0, 9.0)), vs.privacy.SignalDP(1.0)
    one = vs.estimate(READINGS, "ring:7", family, request, rounds=5)
    several = vs.sweep({"mu": 3.0}, "ring:7", family, request, rounds=5, epsilons=(1.0, 2.0))
    assert isinstance(one, Answers)
    assert one.value == one.result.estimate["mu"]
    assert [row.epsilon for row in several.rows] == [1.0, 2.0]


def test_the_long_table_is_a_frame() -> None:
    answers = sheet()
    frame = answers.to_frame()
    assert set(frame.run) == {"private", "sweep", "open"}
    assert frame.value.dtype == np.float64
    assert (frame.status != "").all()
    mine = frame[(frame.run == "private") & (frame.quantity == "error")]
    result = answers.results["private"]
    assert list(mine["round"]) == list(range(6))
    per_agent = result.trace.total[:, 0].mean(axis=-1) / math.sqrt(7)
    np.testing.assert_allclose(mine.value, per_agent)


def test_str_is_the_screen_and_html_the_inside_of_the_page(tmp_path: Path) -> None:
    answers = sheet()
    text, inside = str(answers), answers._repr_html_()
    assert text.splitlines()[0] == "A small ring"
    assert "PROVED" in text
    page, _ = answers.save(tmp_path / "a")
    assert inside in page.read_text()
    assert "<style" not in inside
    assert "<html" not in inside


# Order


def test_groups_are_by_verdict_then_kind_and_best_first() -> None:
    rows = [
        Answer("worst", status="none"), Answer("far", status="proved", kind="a", epsilon=9.0),
        Answer("other", status="proved", kind="b", epsilon=1.0), Answer("made-up", status="odd"),
        Answer("near", status="proved", kind="a", epsilon=1.0), Answer("wrong", status="refuted"),
        Answer("said", status="claimed"), Answer("seen", status="estimated"),
    ]  # fmt: skip
    found = ordered(rows, lambda row: row.epsilon or 0.0)
    assert [row.name for row in found] == [
        "near", "far", "other", "seen", "said", "wrong", "worst", "made-up",
    ]  # fmt: skip
    assert [heading for heading, _ in groups(found)] == [
        "PROVED, a", "PROVED, b", "ESTIMATED", "CLAIMED", "REFUTED", "NO PROMISE", "ODD",
    ]  # fmt: skip


def test_runs_are_in_that_order_and_targets_never_share_a_group() -> None:
    """Two kinds of target: the mean of the signals and E xi; and two statistics."""
    answers = sheet(GROUPS)
    statuses = [row.status for row in answers.rows]
    assert statuses == sorted(statuses, key=VERDICTS.index)
    assert [row.name for row in answers.rows][:2] == ["good", "weak"]
    target = {
        name: (r.problem.algorithm.online, r.problem.family.formula)
        for name, r in answers.results.items()
    }
    for heading, rows in groups(answers.rows):
        assert len({target[row.name] for row in rows}) == 1, heading
        errors = [float(answers.results[row.name].errors.total) for row in rows]
        assert errors == sorted(errors)
    assert len({target[name] for name in answers}) == 3
    by_verdict_alone = {row.status: set() for row in answers.rows}  # type: dict[str, set[Any]]
    for row in answers.rows:
        by_verdict_alone[row.status].add(target[row.name])
    assert any(len(found) > 1 for found in by_verdict_alone.values()), "the weakened variant mixes"


def test_a_run_that_diverged_to_nan_is_last_of_its_group() -> None:
    results = dict(sheet(GROUPS).results)
    lost = replace(results["good"].trace, total=results["good"].trace.total * math.nan)
    results["good"] = replace(results["good"], trace=lost)
    assert [row.name for row in of_runs(results).rows][:2] == ["weak", "good"]
    assert "good" in str(of_runs(results))


# Measured signals


def measured(folder: Path, **changed: Any) -> Answers:
    return run(study(folder, MEASURED), **changed)


def test_measured_signals_are_ordered_by_their_intervals_and_compared_with_nothing(
    tmp_path: Path,
) -> None:
    text = MEASURED + "".join(
        f'[[variant]]\nname = "{name}"\nprivacy.epsilon = {epsilon}\n'
        for name, epsilon in (("wide", 0.5), ("narrow", 8.0))
    )
    answers = run(study(tmp_path, text))
    assert list(answers) == ["narrow", "wide"]
    assert not answers.secret
    assert not set(answers.to_frame().quantity) - {"mu"}
    assert "error" not in str(answers)
    assert answers.to_frame()["round"].isna().all()


def test_simulated_noise_of_measured_signals_may_not_be_released(tmp_path: Path) -> None:
    """The warning of the screen and `releasable` say the same."""
    answers = measured(tmp_path)
    assert not answers.releasable
    assert "Release nothing" in str(answers)
    drawn_by_agents = of_runs({n: replace(r, noise="exact") for n, r in answers.results.items()})
    assert drawn_by_agents.releasable
    assert "Release nothing" not in str(drawn_by_agents)
    bare = run(Scenario.load(study(tmp_path, unprotected())))
    exact = of_runs({n: replace(r, noise="exact") for n, r in bare.results.items()})
    assert not exact.releasable


def unprotected() -> str:
    return MEASURED.replace('"signal"\nepsilon = 1.0', '"nothing"')


def test_unprotected_measured_signals_have_no_answer(tmp_path: Path) -> None:
    answers = run(study(tmp_path, unprotected()))
    assert answers.value is None
    assert answers.interval is None
    assert "withheld" in str(answers)
    assert "withheld" in answers._repr_html_()
    (row,) = answers.to_dict()["answers"]
    assert row["value"] is None
    assert row["status"] == "none"
    assert set(answers.to_frame().value.dropna()) == set()


def test_the_truth_makes_a_secret_sheet(tmp_path: Path) -> None:
    answers = measured(tmp_path, truth=True)
    assert answers.secret
    assert not answers.releasable
    assert answers.title.startswith("SECRET")
    assert {"error", "noise", "disagreement"} <= set(answers.to_frame().quantity)
    drawn = run(Scenario.parse(DRAWN), truth=True)
    assert not drawn.secret, "drawn signals are nobody's"


def test_what_bounds_did_to_measured_signals_is_on_the_secret_sheet_alone(tmp_path: Path) -> None:
    text = MEASURED.replace("[0.0, 9.0]", "[0.0, 4.0]").replace(
        "s.csv", 's.csv"\nclip = [0.0, 4.0]', 1
    )
    text = text.replace('4.0]"', "4.0]")
    said = "the bounds moved"
    assert said in str(run(study(tmp_path, text), truth=True))
    assert said not in str(run(study(tmp_path, text)))


def test_vectors_are_arrays_with_an_interval_for_each_component() -> None:
    answers = sheet(vector(4))
    low, high = answers.low, answers.high
    assert answers.value.shape == low.shape == high.shape == (4,)
    assert (low < answers.value).all()
    assert (answers.value < high).all()
