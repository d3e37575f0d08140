"""Coverage, and the terms of a manifest that decide whose readings a result needs."""

from dataclasses import replace
from typing import Any

import pytest

from tests.agents.protocol.cases import small
from veilsum._validate import duration
from veilsum.agents.coverage import Coverage
from veilsum.agents.manifest import Manifest
from veilsum.errors import AgentError, ScenarioError
from veilsum.scenario import Scenario

TEXT = """
network = {{graph = "ring:4", weights = "lazy-metropolis"}}
family = {{name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}}
signals = {{draw = {{mu = 0.5}}}}
privacy = {{protect = "signal", epsilon = 1.0}}
algorithm = {{name = "average", rounds = 20}}
agents = {{{agents}}}
"""


def test_a_sentence_names_who_is_missing() -> None:
    members = tuple(f"m{k}" for k in range(50))
    counts = tuple(0 if k in (3, 5, 7) else 2 for k in range(50))
    found = Coverage(members, members[:40], counts)
    assert found.sentence() == "94 readings of 47 of 50 members, 3 missing: m3, m5, m7"
    assert (found.count, found.complete, found.meets(47), found.meets(48)) == (
        47,
        False,
        True,
        False,
    )
    assert found.missing == ("m3", "m5", "m7")
    assert Coverage(members, (), (1,) * 50).sentence() == "readings of 50 of 50 members"
    assert Coverage.none(members).sentence().endswith("m6, m7 and 42 more")


def test_coverage_that_does_not_fit_is_refused() -> None:
    with pytest.raises(AgentError, match="one count"):
        Coverage(("a",), (), ())
    with pytest.raises(AgentError, match="only members"):
        Coverage(("a",), ("b",), (0,))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("1h", 3600), ("1d", 86400), ("2w", 1209600), (7, 7), (0.5, 0.5)],
)
def test_durations(text: Any, seconds: Any) -> None:
    assert duration(AgentError, gathering=text) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "10", "10 m", "1y", "-1s", "nan", -1, True, None, "infs"]
)
def test_what_is_no_duration_is_refused(text: Any) -> None:
    with pytest.raises(AgentError, match="gathering must be a time"):
        duration(AgentError, gathering=text)


def agents(text: str) -> Any:
    return Scenario.parse(TEXT.format(agents=text)).variants[0].agents


def test_a_scenario_states_quorum_and_times() -> None:
    found = agents('quorum = 3, gathering = "10m", lost_after = "1h", every = "1d", grace = 90')
    assert (found.quorum, found.gathering, found.lost_after) == (3, 600, 3600)
    assert (found.every, found.grace) == (86400, 90)
    assert agents("").quorum == "all"


@pytest.mark.parametrize(
    "wrong",
    ["quorum = 0", 'quorum = "most"', 'gathering = "soon"', "lost_after = 0", "grace = 5"],
)
def test_a_scenario_that_makes_no_sense_is_refused(wrong: str) -> None:
    with pytest.raises(ScenarioError):
        agents(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"quorum": 0}, {"quorum": 5}, {"gathering": 0.0}, {"lost_after": -1.0}, {"every": -1.0},
        {"grace": float("nan")}, {"batch_growth": 0.5}, {"batch_growth": 1.001}, {"longest_batch": -1},
    ],
    ids=str,
)  # fmt: skip
def test_a_manifest_that_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(AgentError, match=next(iter(wrong))):
        replace(small(rounds=10), **wrong)


def test_the_terms_are_part_of_the_hash() -> None:
    one = small(rounds=10)
    assert one.quorum == 4
    assert replace(one, quorum=3).digest != one.digest
    assert Manifest.from_json(one.to_json()).digest == one.digest
    assert one.graph.pairs == (("0", "1"), ("0", "3"), ("1", "2"), ("2", "3"))
    assert one.waits
    assert not small().waits
    assert not small(rounds=10, asynchronous=True).waits
