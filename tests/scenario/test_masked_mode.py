"""[privacy] mode = "masked": what goes with it, and a run from a file."""

from typing import Any

import pytest

from murmura.errors import ScenarioError
from murmura.privacy import MaskedDP, SignalDP
from murmura.scenario import Scenario

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
    assert problem.privacy == MaskedDP(1.0, colluders=2, absent=1)
    assert problem.algorithm.hops == 4
    assert problem.guarantee.epsilon == 2.0  # two attempts


def test_a_variant_with_the_other_mode_takes_over_what_both_have() -> None:
    more = '[[variant]]\nname = "m"\n[[variant]]\nname = "l"\nprivacy = { mode = "local" }\n'
    more += 'algorithm = { name = "average" }\n'
    made = scenario(more=more)
    assert made.build("m").problem.privacy.masked
    assert made.build("l").problem.privacy == SignalDP(1.0)


@pytest.mark.parametrize(
    ("privacy", "algorithm", "match"),
    [
        ("colluders = 2", "average", "only with mode"),
        (f'{MASKED}\nmechanism = "hybrid"', "masked-sum", "without mechanism"),
        (MASKED, "average", "MaskedDP goes with masked-sum"),
        ("", "masked-sum", "MaskedDP goes with masked-sum"),
        ('mode = "masked"\ncolluders = 8', "masked-sum", "n - colluders - 2 absent"),
        ('mode = "masked"\nattempts = 2', "masked-sum", "attempts must be at most"),
    ],
)
def test_what_does_not_go_with_it_is_refused(privacy: str, algorithm: str, match: str) -> None:
    with pytest.raises(ScenarioError, match=match):
        scenario(privacy, algorithm).build()
