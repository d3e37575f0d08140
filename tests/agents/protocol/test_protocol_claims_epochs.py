"""Limits on what a member can claim, after a change of membership: honest mass always passes."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.protocol.cases import bounded
from tests.agents.protocol.test_protocol_claims import HIGH, LOSSY, SLOW, refused, values
from veilsum.agents.events import Leave, NoMoreReadings
from veilsum.agents.protocol import Options
from veilsum.testing import SimulatedNetwork

MODES = [
    ("average", 25, False),
    ("learn", 25, False),
    ("average", 0, False),
    ("learn", 0, False),
    ("average", 0, True),
]
NAMES = ["rounds", "rounds of a stream", "open-ended", "open-ended stream", "asynchronous"]
STALE = ("of incarnation", "which it does not prove")


def terms(mode: Any, size: int, epoch: int) -> Any:
    algorithm, rounds, asynchronous = mode
    return bounded(
        algorithm, f"ring:{size}", rounds=rounds, lazy=True, asynchronous=asynchronous, quorum=2,
        lost_after=8.0, high=HIGH, epoch=epoch,
    )  # fmt: skip


def changed_run(mode: Any, seed: int, more: Any, most: int = 200) -> Any:
    """Members with many releases adopt an epoch one by one; one with none, or few, has joined."""
    first, second = terms(mode, 4, 1), terms(mode, 5, 2)
    rng = random.Random(seed)
    run = SimulatedNetwork(second, faults=LOSSY, seed=seed, options=Options(patience=6))
    labels = list(run.agents)
    several = mode[0] != "average" or mode[2]
    for label in labels[:4]:
        run.agents[label].manifest = first
        run.release(label, values(first, rng, rng.randrange(most // 2, most) if several else 1))
        run.start(label)
    run.run(rng.choice([0.3, 3.0]), until_done=False)
    if rng.random() < 0.5:
        run.release("4", values(second, rng, 1))
    for label in rng.sample(labels, 5):
        run.agents[label].manifest = None
        run.start(label)
        run.run(rng.choice([0.0, 0.5, 2.0]), until_done=False)
    for label in labels:
        run.feed(label, NoMoreReadings())
    for what, label in more:
        host = run.agents[label]
        if what == "leave":
            run.feed(label, Leave())
        elif what == "crash" and host.agent is not None:
            run.crash(label)
            run.restart(label)
        elif what == "forget":
            run.start(label)
        run.run(1.0, until_done=False)
    run.network.heal()
    run.network.faults = SLOW
    run.run(20, until_done=False)
    return run


def refusals(run: Any) -> list[str]:
    found = [text for _, _, text in refused(run) if text.startswith("mass of round")]
    return [text for text in found if not any(each in text for each in STALE)]


EVENTS = st.lists(
    st.tuples(st.sampled_from(["leave", "crash", "forget"]), st.sampled_from("01234")), max_size=3
)


@pytest.mark.parametrize("mode", MODES, ids=NAMES)
@given(seed=st.integers(0, 10**6), more=EVENTS)
@settings(max_examples=4, deadline=None)
def test_honest_mass_is_never_refused_after_a_new_epoch(mode: Any, seed: int, more: Any) -> None:
    assert refusals(changed_run(mode, seed, more)) == []
