"""An agent's part in a masked sum: on the grid exactly, its noise drawn ahead and given out once."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.agents.ledger.conftest import make_problem
from veilsum import families
from veilsum.agents.manifest import Manifest
from veilsum.agents.release import ContributionMechanism, ReleaseMechanism, make_mechanism
from veilsum.agents.release.reserve import DEPTH
from veilsum.errors import AgentError, SignalError
from veilsum.privacy import Batches, MaskedDP, Noise
from veilsum.scenario import Scenario
from veilsum.testing import PredictableEntropy

SCENARIO = """
network = {graph = "complete:4"}
family = {name = "normal", sigma = 1.0, bounds = [0.0, 10.0]}
signals = {draw = {mu = 5.0}}
privacy = {protect = "signal", mode = "masked", epsilon = 1.0, colluders = 1}
algorithm = {name = "masked-sum", rounds = 10}
"""


def terms(text: str = SCENARIO) -> Any:
    problem = Scenario.parse(text).build().problem
    return Manifest.of(problem, "four"), problem


def test_readings_are_added_up_on_the_grid_without_an_error() -> None:
    manifest, problem = terms()
    made = make_mechanism(manifest, problem, "0")
    assert isinstance(made, ContributionMechanism)
    step = Fraction(made.step)
    signals = [0.1, 9.87654321, 3.0, 12.0, -4.0]  # the last two beyond the bounds
    clipped = [min(max(Fraction(x), Fraction(0)), Fraction(10)) for x in signals]
    expected = sum((x / step + Fraction(1, 2)) // 1 for x in clipped)
    found = made.contribution(3, signals)
    assert found.statistic == (expected,)
    assert (found.query, found.readings) == (3, 5)
    assert str(expected) not in f"{found!r} {made!r} {made.noise!r}"


def test_the_cost_and_the_noise_are_those_of_the_masked_terms() -> None:
    manifest, problem = terms()
    made = ContributionMechanism(manifest, problem, "1")
    assert made.event().epsilon == 1.0
    assert (made.terms.n, made.terms.honest, made.terms.attempts) == (4, 3, 1)
    assert "up to 1 of the other members together" in str(made.guarantee)


NUMBER = families.Normal(1.0, bounds=(0.0, 10.0))
VECTOR = families.MultivariateNormal((0.01 * np.eye(64)).tolist(), bounds=(0.0, 1.0))
TWICE = MaskedDP(1.0, colluders=4, absent=2, attempts=2)


@pytest.mark.parametrize(
    ("algorithm", "request_made", "family"),
    [
        ("masked-sum", TWICE, NUMBER),
        ("masked-learn", TWICE, NUMBER),
        ("masked-learn", replace(TWICE, batches=Batches(2.0, longest=4)), NUMBER),
        ("masked-sum", replace(TWICE, delta=2e-6, radius=math.inf), VECTOR),
        ("masked-learn", replace(TWICE, delta=2e-6, radius=math.inf), VECTOR),
    ],
)
def test_what_is_composed_is_a_query_with_all_its_attempts(
    algorithm: str, request_made: MaskedDP, family: Any
) -> None:
    """Two sessions of epsilon = 0.5: no window or stream costs less than one of its readings."""
    problem = make_problem(algorithm, request_made, family, 50, "ring:20")
    manifest = Manifest.of(problem, "twenty")
    made = ContributionMechanism(manifest, problem, "0")
    found, event = made.guarantee, made.guarantee.event
    assert event is not None
    assert (made.event().epsilon, found.epsilon) == (0.5, 1.0), "the ledger charges by the session"
    assert (event.epsilon, event.delta) == (found.epsilon, found.delta)
    assert found.noise is Noise.EXACT
    if not problem.algorithm.online:
        return
    for one in (found.for_stream(1), found.for_window(1)):
        assert one.epsilon >= found.epsilon
        assert one.delta >= found.delta
    assert found.for_stream(4).epsilon >= 4 * found.epsilon
    session = found.released_exactly(made.event())  # the weakened variant composes sessions
    assert session.for_stream(1).epsilon < found.epsilon


def test_the_reserve_draws_what_the_exact_sampler_draws() -> None:
    manifest, problem = terms()
    made = ContributionMechanism(
        manifest, problem, "1", entropy=PredictableEntropy(5, simulation_only=True)
    )
    again = PredictableEntropy(5, simulation_only=True)
    expected = [tuple(map(int, made.terms.noise.draw(1, again))) for _ in range(DEPTH)]
    assert [made.noise.draw() for _ in range(DEPTH)] == expected


def test_what_cannot_be_summed_is_refused() -> None:
    manifest, problem = terms()
    made = ContributionMechanism(manifest, problem, "0")
    for bad in (float("nan"), "much", (1.0, 2.0)):
        with pytest.raises(SignalError) as problem_found:
            made.contribution(1, [bad])
        assert "much" not in str(problem_found.value)
    with pytest.raises(AgentError, match="at least one reading"):
        made.contribution(1, [])
    with pytest.raises(AgentError, match="no member"):
        ContributionMechanism(manifest, problem, "stranger")
    other = replace(problem, family=families.Normal(2.0, bounds=(0.0, 10.0)))
    with pytest.raises(AgentError, match="takes the family of its network"):
        ContributionMechanism(manifest, other, "0")
    local = SCENARIO.replace('mode = "masked", ', "").replace(", colluders = 1", "")
    local = local.replace("masked-sum", "average")
    manifest, problem = terms(local)
    with pytest.raises(AgentError, match="need a ReleaseMechanism"):
        ContributionMechanism(manifest, problem, "0")
    assert isinstance(make_mechanism(manifest, problem, "0"), ReleaseMechanism)
