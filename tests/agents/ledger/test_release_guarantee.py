"""What an agent may guarantee: proved, of a public scale, and for as many messages as it sends."""

from dataclasses import replace
from typing import Any

import pytest

from veilsum import families
from veilsum.agents.manifest import Manifest
from veilsum.agents.release import ReleaseMechanism, check_guarantee, guarantee, request_of
from veilsum.errors import AgentError
from veilsum.privacy import NetworkDP, NoPrivacy, SignalDP, Status, guarantee_of

LOG = families.LogNormal(1.0, bounds=(0.5, 8.0))


def custom() -> Any:
    support = families.Support(0.0, 1.0)
    return families.Custom(lambda s: 2 * s, support, 2.0, mean=lambda mean: mean)


@pytest.mark.parametrize("algorithm", ["average", "learn", "learn-network", "push-sum-learn"])
def test_signal_protection_is_proved(problem_of: Any, algorithm: Any) -> None:
    problem = problem_of(algorithm, SignalDP(0.5))
    made = guarantee(problem)
    assert made.status is Status.PROVED
    assert made == guarantee(Manifest.of(problem), problem.family)
    assert (made.epsilon, str(made.adversary)) == (0.5, "whoever sees all messages of all agents")
    ReleaseMechanism(Manifest.of(problem), problem, "0")


def test_network_protection_of_real_agents_is_refused_with_the_reason(problem_of: Any) -> None:
    """The simulator's guarantee is proved; what agents send has bits without noise."""
    problem = problem_of("learn-network", NetworkDP(0.5), rounds=40)
    ideal = guarantee_of(problem.privacy, problem.algorithm, 40, problem.family)
    assert ideal.status is Status.PROVED
    for terms in ({}, {"asynchronous": True}, {"rounds": 0}):
        manifest = Manifest.of(problem, **terms)
        made = guarantee(manifest, problem.family)
        assert made.status is Status.REFUTED
        assert made.event is None
        with pytest.raises(AgentError, match="low 25 bits of each message have no noise"):
            ReleaseMechanism(manifest, problem, "0")
    assert guarantee(problem).status is Status.REFUTED


def test_the_epsilon_that_runs_is_the_one_that_is_stated(problem_of: Any) -> None:
    problem = replace(problem_of("learn", SignalDP(0.5)), epsilons=(2.0,))
    assert guarantee(problem).epsilon == 2.0
    assert request_of(Manifest.of(problem)) == SignalDP(2.0, radius=float("inf"))


@pytest.mark.parametrize(
    ("algorithm", "privacy", "family", "terms", "said"),
    [
        ("learn", NoPrivacy(), None, {}, "no noise is added"),
        ("average", NetworkDP(1.0), None, {}, "Refuted: "),
        ("push-sum-learn", NetworkDP(1.0), None, {}, "No privacy is guaranteed"),
        ("learn", SignalDP(1.0, 0.01, 1.0, "smooth"), LOG, {}, "off the signal"),
        ("learn", SignalDP(1.0, 0.01, 1.0, "smooth-as-published"), LOG, {}, "off the signal"),
        ("learn", SignalDP(1.0), "custom", {}, "stated by its author"),
        ("learn-network", NetworkDP(1.0), None, {}, "low 25 bits"),
    ],
)
def test_anything_else_is_for_research(
    problem_of: Any, algorithm: Any, privacy: Any, family: Any, terms: Any, said: Any
) -> None:
    problem = problem_of(algorithm, privacy, custom() if family == "custom" else family)
    manifest = Manifest.of(problem, **terms)
    with pytest.raises(AgentError, match=said) as caught:
        ReleaseMechanism(manifest, problem, "0")
    assert "--research" in str(caught.value)
    with pytest.raises(AgentError):
        check_guarantee(manifest, problem.family)
    ReleaseMechanism(manifest, problem, "0", research=True)


def test_open_ended_signal_protection_is_proved(problem_of: Any) -> None:
    problem = problem_of("learn", SignalDP(1.0))
    for terms in ({"rounds": 0}, {"asynchronous": True}):
        manifest = Manifest.of(problem, **terms)
        assert guarantee(manifest, problem.family).status is Status.PROVED
        ReleaseMechanism(manifest, problem, "0")


def test_a_stranger_is_refused(problem_of: Any) -> None:
    problem = problem_of()
    with pytest.raises(AgentError, match="no member of veilsum is called 'nobody'"):
        ReleaseMechanism(Manifest.of(problem), problem, "nobody")


def test_asynchronous_readings_are_a_stream(problem_of: Any) -> None:
    """Five readings were released under a guarantee of epsilon for "an agent's signal"."""
    manifest = Manifest.of(problem_of("average", SignalDP(0.5)), asynchronous=True)
    made = guarantee(manifest)
    assert made.status is Status.PROVED
    assert "any one reading of a stream" in str(made)
    assert made.for_stream(5).epsilon == pytest.approx(2.5)
    together = guarantee(Manifest.of(problem_of("average", SignalDP(0.5))))
    assert "an agent's signal" in str(together)


def test_budget_fractions_are_refused_even_where_the_guarantee_is_proved(problem_of: Any) -> None:
    """Which agent gets which fraction may depend on data: nothing else is wrong here."""
    problem = problem_of("learn", SignalDP(0.5))
    manifest = Manifest.of(problem)
    check_guarantee(manifest, problem.family)
    with pytest.raises(AgentError, match="budget fractions may depend on data"):
        check_guarantee(manifest, problem.family, (1.0, 0.5))
