"""Plans that compare local noise with the masked sum."""

from dataclasses import replace
from typing import Any

import pytest

from murmura import algorithms, families, networks, theory
from murmura.errors import MurmuraError, PrivacyError
from murmura.privacy import MaskedDP, NetworkDP, SignalDP
from murmura.simulation import Problem, SyntheticSignals

RING, NORMAL = networks.metropolis("ring:21"), families.Normal(sigma=1.0)
SOURCE = SyntheticSignals(NORMAL, {"mu": 2.0}, 21, seed=1)
LOCAL = Problem(RING, algorithms.Average(), NORMAL, SOURCE, SignalDP(1.0), rounds=60)


def by_name(found: Any) -> dict[str, Any]:
    return {c.algorithm: c for c in reversed(found.candidates)}


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
    assert found.best.bytes == 21 * 405  # two links, one direction each
    assert each["average"].bytes == 2 * 60 * 111
    assert 'mode = "masked"\ncolluders = 4\nabsent = 2\nattempts = 1' in found.toml()
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
    todo = Problem(RING, made, NORMAL, SOURCE, MaskedDP(1.0, colluders=4, absent=2), rounds=60)
    found = theory.plan(todo)
    assert found.best.algorithm == "masked-sum"
    assert "a query may take 2 sessions" in found.best.trust
    assert {"average", "jacobi", "chebyshev"} <= by_name(found).keys()


def test_without_colluders_nothing_changes_and_misfits_are_refused() -> None:
    assert "masked-sum" not in by_name(theory.plan(LOCAL))
    with pytest.raises(PrivacyError, match="n - colluders"):
        theory.plan(LOCAL, colluders=20)
    with pytest.raises(MurmuraError, match="ask for SignalDP"):
        theory.plan(replace(LOCAL, privacy=NetworkDP(1.0)), colluders=1)
