"""Plans that compare local noise with the masked sum."""

import tomllib
from dataclasses import replace
from typing import Any

import pytest

from veilsum import algorithms, families, networks, theory
from veilsum.algorithms.masked_session import RECORD_BYTES
from veilsum.algorithms.summed import CROSSINGS
from veilsum.errors import PrivacyError, VeilsumError
from veilsum.privacy import Batches, MaskedDP, NetworkDP, SignalDP, plan
from veilsum.simulation import Problem, SyntheticSignals

BOTH_WAYS = CROSSINGS * RECORD_BYTES

RING, NORMAL = networks.metropolis("ring:21"), families.Normal(sigma=1.0)
SOURCE = SyntheticSignals(NORMAL, {"mu": 2.0}, 21, seed=1)
LOCAL = Problem(RING, algorithms.Average(), NORMAL, SOURCE, SignalDP(1.0), rounds=60)


MADE = algorithms.get("masked-sum", RING)


def by_name(found: Any) -> dict[str, Any]:
    return {c.algorithm: c for c in reversed(found.candidates)}


def test_without_colluders_every_other_member_is_trusted() -> None:
    found = theory.plan(LOCAL, colluders=0)
    assert found.best.algorithm == "masked-sum"
    assert found.best.trust.startswith(
        "that no other member tries to learn a signal, not even by itself, and 0 are absent"
    )


def test_the_masked_sum_wins_where_there_is_time_for_it() -> None:
    found = theory.plan(LOCAL, colluders=4, absent=2)
    assert found.best.algorithm == "masked-sum"
    each = by_name(found)
    # sqrt(2)/eps over sqrt(n h) against sqrt(n): sqrt(h) = sqrt(15) times less noise
    ratio = each["chebyshev"].split.privacy / found.best.split.privacy
    assert ratio == pytest.approx(15**0.5, rel=1e-3)
    assert found.best.split.disagreement == 0.0
    assert "at most 4 of the other members" in found.best.trust
    assert each["chebyshev"].trust.startswith("nobody")
    assert found.best.rounds == 50  # five floods over ten hops: nothing changes after them
    assert found.best.bytes == 21 * BOTH_WAYS  # two links, one direction each
    assert each["average"].bytes == 2 * 60 * 111
    for line in ('mode = "masked"', "colluders = 4", "absent = 2", "attempts = 1"):
        assert f"privacy.{line}\n" in found.toml()
    assert found.problem.guarantee.epsilon == 1.0  # as guaranteed as local noise


def test_local_noise_is_left_where_there_is_not() -> None:
    found = theory.plan(LOCAL, error=0.4, rounds=49, colluders=4)
    assert found.best.algorithm != "masked-sum"
    short = by_name(found)["masked-sum"]
    assert not short.reached
    assert "no result before round 50" in short.reason
    assert theory.plan(LOCAL, error=0.4, rounds=50, colluders=4).best.algorithm == "masked-sum"


def test_an_epsilon_and_rounds_are_solved_for() -> None:
    found = theory.plan(LOCAL, error=0.1, colluders=4)
    assert found.best.epsilon is not None
    best = replace(found.problem, epsilons=(found.best.epsilon,))
    assert theory.expected(best).total[-1, 0] / 21**0.5 == pytest.approx(0.1, rel=2e-3)
    assert theory.plan(LOCAL, error=0.1, epsilon=1.0, colluders=4).best.rounds == 50


def test_a_masked_request_is_compared_with_local_noise() -> None:
    made = algorithms.get("masked-sum", RING)
    asked = MaskedDP(1.0, colluders=4, absent=2, attempts=2)
    todo = Problem(RING, made, NORMAL, SOURCE, asked, rounds=60)
    found = theory.plan(todo)
    assert found.best.algorithm == "masked-sum"
    assert "a query may take 2 sessions" in found.best.trust
    assert {"average", "jacobi", "chebyshev"} <= by_name(found).keys()


def guaranteed(candidate: Any, todo: Problem) -> float:
    """What the scenario lines of a candidate guarantee, asked of the guarantee itself."""
    name, asked = candidate.algorithm, todo.privacy
    privacy = asked if name.startswith("masked") else SignalDP(1.0, batches=asked.batches)
    made = replace(todo, algorithm=algorithms.get(name, RING), privacy=privacy, rounds=60)
    return replace(made, epsilons=(candidate.epsilon,)).guarantee.epsilon


@pytest.mark.parametrize("name", ["masked-sum", "masked-learn"])
@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_all_candidates_guarantee_the_same_epsilon(name: str, attempts: int) -> None:
    asked = MaskedDP(0.5, colluders=4, absent=2, attempts=attempts)
    todo = Problem(RING, algorithms.get(name, RING), NORMAL, SOURCE, asked, rounds=60)
    assert todo.guarantee.epsilon == 0.5
    for found in (theory.plan(todo), theory.plan(todo, epsilon=0.5)):
        assert {c.epsilon for c in found.candidates} == {0.5}
        assert {guaranteed(c, todo) for c in found.candidates} == {0.5}
        assert tomllib.loads(found.toml())["variant"][0]["privacy"]["epsilon"] == 0.5
    one, other = (theory.plan(todo, epsilon=1.0), theory.plan(todo, epsilon=2.0))
    assert by_name(other)[name].split.privacy < by_name(one)[name].split.privacy
    for candidate in theory.plan(todo, error=0.2).candidates:  # the smallest one of each
        if candidate.reached:
            assert guaranteed(candidate, todo) == pytest.approx(candidate.epsilon)


def test_two_attempts_double_the_noise_at_the_same_guarantee() -> None:
    """Weakened: with the session's epsilon as the plan's, both would have the same noise."""
    one, two = (
        by_name(theory.plan(replace(LOCAL, privacy=asked, algorithm=MADE), epsilon=1.0))
        for asked in (MaskedDP(1.0, colluders=4, absent=2, attempts=a) for a in (1, 2))
    )
    ratio = two["masked-sum"].split.privacy / one["masked-sum"].split.privacy
    assert ratio == pytest.approx(2.0, rel=1e-3)
    assert two["chebyshev"].split.privacy == one["chebyshev"].split.privacy


def test_requests_that_guarantee_the_same() -> None:
    asked = MaskedDP(0.5, radius=2.0, colluders=4, absent=2, batches=Batches(2.0, 8))
    assert asked.local() == SignalDP(0.5, radius=2.0, batches=Batches(2.0, 8))
    again = MaskedDP.like(asked.local(), colluders=4, absent=2, attempts=2)
    assert again == replace(asked, attempts=2)
    smooth = SignalDP(1.0, delta=0.01, sensitivity="smooth")
    with pytest.raises(PrivacyError, match="sensitivity global"):
        MaskedDP.like(smooth, colluders=1)


STREAM = Problem(RING, algorithms.Learn(), NORMAL, SOURCE, SignalDP(1.0), rounds=40)


def test_a_stream_is_compared_with_a_session_for_every_reading_or_batch() -> None:
    found = theory.plan(STREAM, colluders=4, absent=2)
    each = by_name(found)
    assert found.best.algorithm == "masked-learn"
    assert {"learn", "learn-network"} <= each.keys()
    best = found.best
    assert (best.rounds, best.flooding, each["learn"].flooding) == (40, 50, 0)
    assert best.bytes == 40 * 21 * BOTH_WAYS  # a session for every reading
    assert best.split.disagreement == 0.0
    assert best.split.sampling == pytest.approx((21 * 40) ** -0.5)
    assert best.error < each["learn"].error
    assert "at most 4 of the other members" in best.trust
    assert found.offer is not None  # batches: fewer sessions, less noise
    assert found.offer.batches == Batches(2.0, 4)
    assert found.offer.bytes < best.bytes / 3
    assert found.offer.error < best.error
    assert tomllib.loads(found.toml())["variant"][0]["algorithm"]["name"] == "masked-learn"


def test_a_masked_stream_is_compared_with_local_noise_in_the_same_batches() -> None:
    made = algorithms.get("masked-learn", RING, restarts=1)
    asked = MaskedDP(1.0, colluders=4, absent=2, attempts=2, batches=Batches(2.0, 8))
    todo = Problem(RING, made, NORMAL, SOURCE, asked, rounds=40)
    found = theory.plan(todo, error=0.1)
    assert found.best.algorithm == "masked-learn"
    assert found.best.epsilon is not None
    again = theory.expected(found.problem)
    assert again.total[-1, 0] / 21**0.5 == pytest.approx(0.1, rel=2e-3)
    assert found.best.bytes == 2 * asked_sessions(40) * 21 * BOTH_WAYS  # each query twice
    assert by_name(found)["learn"].batches == Batches(2.0, 8)
    assert tomllib.loads(found.toml())["variant"][0]["privacy"]["batches"] == {
        "growth": 2.0,
        "longest": 8,
    }


def asked_sessions(rounds: int) -> int:
    return sum(1 for t in range(1, rounds + 1) if Batches(2.0, 8).closes(t))


def test_the_interval_of_a_masked_sum_has_no_mixing_in_it() -> None:
    """Bounds 0 to 4, one session of 21 members: the quantile of GDL(21/17), and nothing else."""
    bounded = families.Normal(sigma=1.0, bounds=(0.0, 4.0))
    source = SyntheticSignals(bounded, {"mu": 2.0}, 21, seed=1)
    request = MaskedDP(1.0, radius=float("inf"), colluders=4, attempts=1)
    made = algorithms.get("masked-sum", RING)
    found = theory.precision(Problem(RING, made, bounded, source, request, rounds=50))
    assert found is not None
    terms = plan(request, bounded, members=21).mechanism()
    exact = terms.terms.noise_of(21).quantile(0.95) * terms.step / 21
    assert found.half_width == pytest.approx(exact + terms.step / 2, rel=1e-9)
    normal = 1.96 * 2**0.5 * 4 / (21 * 17) ** 0.5
    assert found.half_width > 1.04 * normal  # its tails are heavier
    assert found.agents is not None
    assert found.agents == pytest.approx(21 * found.half_width / 0.4, rel=0.1)  # 1/n, not 1/sqrt(n)
    absent = MaskedDP(1.0, radius=float("inf"), colluders=2, absent=2, attempts=1)
    some = algorithms.get("masked-sum", RING, missing=2)
    lacking = theory.precision(Problem(RING, some, bounded, source, absent, rounds=50))
    assert lacking is not None
    fewer = plan(absent, bounded, members=21).mechanism()
    noise = fewer.terms.noise_of(19).quantile(0.95) * fewer.step / 19
    mixing = 2.0 * 2 * 2 / 21
    assert lacking.half_width == pytest.approx(noise + fewer.step / 2 + mixing, rel=1e-9)


def test_without_colluders_nothing_changes_and_misfits_are_refused() -> None:
    assert "masked-sum" not in by_name(theory.plan(LOCAL))
    with pytest.raises(PrivacyError, match="n - colluders"):
        theory.plan(LOCAL, colluders=20)
    with pytest.raises(VeilsumError, match="absent = 2 belongs to a masked sum"):
        theory.plan(LOCAL, absent=2)
    with pytest.raises(VeilsumError, match="ask for SignalDP"):
        theory.plan(replace(LOCAL, privacy=NetworkDP(1.0)), colluders=1)


def test_colluders_and_absentees_replace_those_of_a_masked_request() -> None:
    made = algorithms.get("masked-sum", RING)
    asked = MaskedDP(1.0, colluders=4, absent=2, attempts=2)
    todo = Problem(RING, made, NORMAL, SOURCE, asked, rounds=60)
    more = theory.plan(todo, colluders=9)
    assert "at most 9 of the other members collude and 2 are" in more.best.trust
    assert more.best.error > theory.plan(todo).best.error
    fewer = theory.plan(todo, absent=3).best.trust
    assert "at most 4 of the other members collude and 3 are" in fewer
    with pytest.raises(PrivacyError, match="n - colluders"):
        theory.plan(todo, colluders=16)
