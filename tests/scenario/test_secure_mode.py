"""algorithm.name = "secure-sum": the mode need not be stated, nor what is covered."""

from typing import Any

import pytest

from veilsum.agents.feasibility import refusal
from veilsum.errors import ScenarioError
from veilsum.privacy import SecureSumDP, SignalDP
from veilsum.reports import sign_off
from veilsum.scenario import Scenario

BASE = """
name = "secure"
network.graph = "ring:9"
family = {{ name = "normal", sigma = 1.0 }}
signals.draw = {{ mu = 2.0 }}
privacy = {{ protect = "signal", epsilon = [0.5, 1.0], radius = 1.0{privacy} }}
algorithm = {{ name = "{algorithm}", rounds = 40 }}
{more}
"""


def scenario(privacy: str = "", algorithm: str = "secure-sum", more: str = "") -> Any:
    return Scenario.parse(BASE.format(privacy=privacy, algorithm=algorithm, more=more))


@pytest.mark.parametrize("algorithm", ["secure-sum", "secure-learn"])
def test_agents_refuse_it_and_say_where_it_runs(algorithm: str) -> None:
    made = scenario(algorithm=algorithm).with_(epsilons=[1.0])
    assert "secure sums run in a fleet" in refusal(made.build().problem, made.variants[0])


@pytest.mark.parametrize("algorithm", ["secure-sum", "secure-learn"])
def test_its_name_is_enough(algorithm: str) -> None:
    job = scenario(algorithm=algorithm).build()
    assert job.problem.privacy == SecureSumDP(0.5, radius=1.0)
    assert scenario(', mode = "secure"', algorithm).build().problem.privacy == job.problem.privacy
    terms = job.problem.plan.mechanism(0.5, 1).terms
    assert (terms.colluders, terms.absent, terms.honest) == (2, 1, 6)
    assert job.run().trace.private.shape[0] > 0


def test_what_is_covered_may_be_stated() -> None:
    job = scenario(", colluders = 3, absent = 0, steps = 64").build()
    assert job.problem.privacy == SecureSumDP(0.5, radius=1.0, colluders=3, absent=0, steps=64)


def test_a_variant_with_local_noise_has_its_own_mode() -> None:
    more = '[[variant]]\nname = "s"\n[[variant]]\nname = "l"\nalgorithm.name = "average"\n'
    made = scenario(more=more)
    assert made.build("s").problem.privacy == SecureSumDP(0.5, radius=1.0)
    assert made.build("l").problem.privacy == SignalDP(0.5, radius=1.0)


@pytest.mark.parametrize(
    ("privacy", "algorithm", "match"),
    [
        (", colluders = 2", "average", "only with mode"),
        (", attempts = 2", "secure-sum", "without attempts"),
        (', mechanism = "hybrid"', "secure-sum", "without mechanism"),
        (', mode = "secure"', "average", "SecureSumDP goes with secure-learn"),
        (', mode = "local"', "secure-sum", "SecureSumDP goes with secure-learn"),
        (", colluders = 8", "secure-sum", "n - absent - colluders"),
    ],
)
def test_what_does_not_go_with_it_is_refused(privacy: str, algorithm: str, match: str) -> None:
    with pytest.raises(ScenarioError, match=match):
        scenario(privacy, algorithm).build()


def test_the_page_to_sign_says_who_may_collude_and_that_it_is_a_simulation() -> None:
    page = " ".join(sign_off(scenario()).split())
    for said in (
        "against up to 2 colluding keepers and 2 colluding members",
        "dealt in shares to 9 keepers",
        "Keepers: at most 2 of the 9 keepers pool what they can read. 6 of them together read every value",
        "nobody can break X25519, SHAKE256 or Ed25519",
        "secure sums run in a fleet",
    ):
        assert said in page, said
