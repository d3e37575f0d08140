"""[privacy] mode = "masked": what goes with it, and a run from a file."""

from typing import Any

import pytest

from veilsum.errors import ScenarioError
from veilsum.privacy import MaskedDP, SignalDP
from veilsum.scenario import Scenario

BASE = """
name = "masked"
[network]
graph = "ring:9"
[family]
name = "normal"
sigma = 1.0
[signals]
draw = {{ mu = 2.0 }}
[privacy]
protect = "signal"
epsilon = 1.0
{privacy}
[algorithm]
name = "{algorithm}"
rounds = 40
{more}
"""
MASKED = 'mode = "masked"\ncolluders = 2\nabsent = 1'


def scenario(privacy: str = MASKED, algorithm: str = "masked-sum", more: str = "") -> Any:
    return Scenario.parse(BASE.format(privacy=privacy, algorithm=algorithm, more=more))


def test_a_masked_sum_runs_from_a_file() -> None:
    problem = scenario().build().problem
    assert problem.privacy == MaskedDP(1.0, radius=1.0, colluders=2, absent=1)
    assert problem.algorithm.hops == 4
    assert problem.guarantee.epsilon == 1.0


def test_epsilon_is_that_of_the_query_whatever_the_attempts() -> None:
    """`epsilon = 1` with `absent` set guaranteed 2: a second attempt came unasked, and cost as much."""
    once = scenario().build().problem
    again = scenario(f"{MASKED}\nattempts = 2").build().problem
    assert (once.guarantee.epsilon, again.guarantee.epsilon) == (1.0, 1.0)
    one, two = (p.plan.mechanism(1.0, 1).terms for p in (once, again))
    assert (one.attempts, one.epsilon, two.attempts, two.epsilon) == (1, 1.0, 2, 0.5)
    assert two.noise.variance > 3.9 * one.noise.variance  # weakened: the noise of one session


def test_a_variant_with_the_other_mode_takes_over_what_both_have() -> None:
    more = '[[variant]]\nname = "m"\n[[variant]]\nname = "l"\nprivacy = { mode = "local" }\n'
    more += 'algorithm = { name = "average" }\n'
    made = scenario(more=more)
    assert made.build("m").problem.privacy.masked
    assert made.build("l").problem.privacy == SignalDP(1.0, radius=1.0)


@pytest.mark.parametrize(
    ("privacy", "algorithm", "match"),
    [
        ("colluders = 2", "average", "only with mode"),
        (f'{MASKED}\nmechanism = "hybrid"', "masked-sum", "without mechanism"),
        (MASKED, "average", "MaskedDP goes with masked-learn"),
        ("", "masked-sum", "MaskedDP goes with masked-learn"),
        ('mode = "masked"\ncolluders = 8', "masked-sum", "n - colluders - 2 absent"),
        ('mode = "masked"\ncolluders = 0\nattempts = 2', "masked-sum", "attempts must be at most"),
        ('mode = "masked"\nabsent = 1', "masked-sum", "which somebody must state"),
    ],
)
def test_what_does_not_go_with_it_is_refused(privacy: str, algorithm: str, match: str) -> None:
    with pytest.raises(ScenarioError, match=match):
        scenario(privacy, algorithm).build()


def test_somebody_states_how_many_may_collude() -> None:
    """A default would be the number that a careless user publishes under."""
    with pytest.raises(TypeError, match="colluders"):
        MaskedDP(1.0)  # type: ignore[call-arg]
    assert MaskedDP(1.0, colluders=0).colluders == 0


@pytest.mark.parametrize(
    ("algorithm", "options", "said"),
    [
        ("masked-sum", "", r"algorithm\.rounds: .*no result before round 20, and rounds = 4"),
        ("masked-learn", "delay = 4", r"algorithm\.rounds: .*a delay of 4 rounds has no result"),
        ("masked-sum", "hops = 3", r"algorithm: hops = 3 is less than the diameter .*, 4"),
    ],
)
def test_the_section_that_is_wrong_is_named(algorithm: str, options: str, said: str) -> None:
    text = BASE.format(privacy=MASKED, algorithm=algorithm, more=options)
    with pytest.raises(ScenarioError, match=said):
        Scenario.parse(text.replace("rounds = 40", "rounds = 4")).build()


def test_more_hops_than_the_diameter_take_longer() -> None:
    assert scenario(more="hops = 5").build().problem.algorithm.arrival == 25


@pytest.mark.parametrize(
    ("steps", "epsilon", "said"),
    [
        (2**40, 0.5, r"coarser grid \(fewer steps\) or a larger epsilon"),
        (1, 1e5, r"finer grid \(more steps\) or a smaller epsilon"),
    ],
)
def test_a_grid_that_does_not_fit_says_which_way(steps: int, epsilon: float, said: str) -> None:
    text = BASE.format(privacy=f"{MASKED}\nsteps = {steps}", algorithm="masked-sum", more="")
    with pytest.raises(ScenarioError, match=said):
        Scenario.parse(text.replace("epsilon = 1.0", f"epsilon = {epsilon}")).build()
