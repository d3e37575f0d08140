"""What runs over the same measured signals guarantee together, and where it stands."""

from typing import Any

import numpy as np
import pytest

import veilsum as vs
from veilsum.errors import VeilsumError
from veilsum.families import LogNormal, Normal
from veilsum.front.of_runs import of_runs
from veilsum.front.table import as_csv
from veilsum.privacy import NetworkDP, NoPrivacy, SignalDP, Status
from veilsum.results.combined import combined_guarantee
from veilsum.simulation import Record
from veilsum.simulation.seeds import FreshSeed

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")

MIXING = vs.networks.metropolis(vs.networks.load("florentine-families"))
VALUES = np.random.default_rng(3).normal(2.0, 1.0, 15)
FAMILY = Normal(sigma=1.0)


def run(
    privacy: Any,
    algorithm: Any = "average",
    rounds: Any = 5,
    signals: Any = VALUES,
    family: Any = FAMILY,
    **more: Any,
) -> Any:
    return vs.sweep(signals, MIXING, family, privacy, algorithm, rounds, **more).result


def test_replicas_over_measured_signals_add_up() -> None:
    """4,000 replicas at 0.1 average the noise away; they used to say epsilon = 0.1."""
    result = run(SignalDP(0.1, radius=1.0), replicas=4000, rng=1)
    assert np.abs(result.trace.mean.mean() - VALUES.mean()) < 0.1
    assert result.guarantee.epsilon == pytest.approx(400.0)
    assert result.run_guarantee().epsilon == 0.1
    assert "epsilon = 400" in str(result.guarantee)
    (row,) = of_runs({"run": result}).rows
    assert (row.epsilon, row.cells["epsilon of all 4000"]) == (0.1, "400")
    assert row.guarantee == result.guarantee


def test_epsilons_add_up_and_one_can_be_asked_for() -> None:
    result = run(SignalDP(1.0, radius=1.0), epsilons=(0.25, 0.5), replicas=3)
    assert result.guarantee.epsilon == 3 * 0.75
    assert result.run_guarantee(0.5).epsilon == 0.5
    assert result.run_guarantee(0.5, replicas=3).epsilon == 1.5
    assert result.guarantee_at(0.25).epsilon == 0.75
    with pytest.raises(VeilsumError, match="was not run"):
        result.run_guarantee(0.75)


def test_deltas_add_up_until_nothing_is_left() -> None:
    family, privacy = (
        LogNormal(sigma=1.0, bounds=(0.5, 50.0)),
        SignalDP(1.0, 0.01, sensitivity="smooth"),
    )
    few = run(privacy, signals=np.exp(VALUES).clip(0.5, 50.0), family=family, replicas=3).guarantee
    assert (few.epsilon, few.delta, few.status) == (3.0, pytest.approx(0.03), "proved")
    many = run(
        privacy, signals=np.exp(VALUES).clip(0.5, 50.0), family=family, replicas=200
    ).guarantee
    assert many.status == "none"
    assert "200 runs" in many.reason


def test_an_algorithm_that_shares_its_budget_over_rounds_pays_all_of_it_in_every_run() -> None:
    stream = np.tile(VALUES[:, None], 5)
    one = run(SignalDP(1.0, radius=1.0), "first-order-online", signals=stream)
    several = run(SignalDP(1.0, radius=1.0), "first-order-online", signals=stream, replicas=5)
    assert several.guarantee.epsilon == pytest.approx(5 * one.guarantee.epsilon)
    assert several.guarantee.for_stream(5).epsilon == pytest.approx(
        5 * one.guarantee.for_stream(5).epsilon
    ), "a total composes on"


def made_once(privacy: Any, algorithm: Any) -> Any:
    return run(privacy, algorithm, signals=np.tile(VALUES[:, None], 5)).guarantee


def test_variants_that_state_nothing_for_neighbours_still_add_up_for_the_signals() -> None:
    """A total whose status is none would state the signals' guarantee of one run."""
    made = run(NetworkDP(1.0, radius=1.0), "jacobi", replicas=6).guarantee
    assert made.status in ("none", "refuted")
    assert (made.signals.status, made.signals.epsilon) == ("proved", 6.0)


def test_network_protection_adds_up_for_the_signals_alone_too() -> None:
    made = run(
        NetworkDP(1.0, radius=1.0), "learn-network", signals=np.tile(VALUES[:, None], 5), replicas=4
    ).guarantee
    assert (made.epsilon, made.signals.epsilon) == (4.0, 4.0)
    one = made_once(NetworkDP(1.0, radius=1.0), "learn-network")
    assert made.for_messages(3).epsilon == pytest.approx(4 * one.for_messages(3).epsilon)
    assert made.transcript.epsilon == pytest.approx(4 * one.transcript.epsilon)


def test_signals_that_were_drawn_keep_the_guarantee_of_one_run() -> None:
    result = run(SignalDP(1.0), signals={"mu": 1.0}, epsilons=(0.5, 2.0), replicas=7)
    assert result.guarantee.epsilon == 2.0
    assert combined_guarantee({"a": result}) is None


def test_variants_add_up_and_the_weakest_status_counts() -> None:
    results = {
        "near": run(SignalDP(1.0, radius=1.0), replicas=2),
        "far": run(SignalDP(0.5, radius=3.0), "jacobi"),
        "hidden": run(NetworkDP(0.25, radius=1.0)),
        "bare": run(NoPrivacy()),
        "drawn": run(SignalDP(9.0, radius=1.0), signals={"mu": 0.0}),
    }
    made = combined_guarantee(results)
    assert made is not None
    assert made.epsilon == 2 * 1.0 + 0.5 + 0.25
    assert (made.unit.radius, made.unit.neighbours) == (1.0, False)
    assert made.status is Status.PROVED, "of the signals alone, all are"
    answers = of_runs(results)
    assert answers.promises[0].startswith(
        "All of near, far, hidden together (2.75): Proved: if one value"
    )
    rows = {row.name: row for row in answers.rows}
    assert (rows["near"].epsilon, rows["near"].cells["epsilon of all 2"]) == (1.0, "2")
    assert rows["bare"].value is None
    assert [name for name, row in rows.items() if "error" in row.cells] == ["drawn"]


def test_without_a_seed_measured_signals_get_entropy_and_drawn_ones_zero() -> None:
    """`rng` used to be 0 unless said otherwise: everyone could draw the noise again."""
    one, two = run(SignalDP(1.0, radius=1.0)), run(SignalDP(1.0, radius=1.0))
    assert one.trace.mean != two.trace.mean
    assert not one.problem.seed_is_known
    assert isinstance(one.problem.seed, FreshSeed)
    number = str(int(one.problem.seed))
    sheet = of_runs({"run": one})
    shown = (str(sheet), sheet._repr_html_(), as_csv(sheet), repr(one.problem), repr(one))
    for text in (*shown, f"{one.problem.seed} {one.problem.seed!r}"):
        assert number not in text
    drawn = [run(SignalDP(1.0, radius=1.0), signals={"mu": 0.0}) for _ in range(2)]
    assert drawn[0].trace.mean == drawn[1].trace.mean
    assert drawn[0].problem.seed == 0


def test_a_given_seed_is_said_and_not_shown() -> None:
    given = run(SignalDP(1.0, radius=1.0), rng=987_654_321)
    sheet = of_runs({"run": given})
    assert "as secret as the signals; leave it out" in " ".join(str(sheet).split())
    shown = f"{sheet} {sheet._repr_html_()} {as_csv(sheet)} {sheet.to_dict()}"
    assert "987654321" not in f"{shown} {given!r} {given.problem!r}"
    assert "A seed was given" not in str(of_runs({"run": run(SignalDP(1.0, radius=1.0))}))


def test_epsilons_of_drawn_signals_share_their_draws_and_those_of_measured_ones_do_not() -> None:
    for signals, alike in (({"mu": 0.0}, True), (VALUES, False)):
        trace = run(
            SignalDP(1.0, radius=1.0), signals=signals, epsilons=(0.5, 1.0), record=Record(), rng=3
        ).trace
        perturbed = trace.private[-1, :, :, 0, 0] - trace.noiseless[-1, :, 0]
        assert np.allclose(perturbed[:, 0], 2 * perturbed[:, 1]) == alike
