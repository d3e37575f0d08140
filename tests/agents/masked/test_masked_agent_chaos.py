"""Everything at once: whatever happens, no agent sends two values for an attempt, and all agree."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.agents.masked.network import LOSSY, SLOW, MaskedNetwork
from veilsum.agents.masked.agent import MaskedAgent
from veilsum.agents.masked.masks import EphemeralKey
from veilsum.agents.protocol import Options

LABELS = st.sampled_from("01234")
STAYING = Options(linger=1e5)  # nobody leaves before the last has ended, however long that takes
GRAPHS = st.sampled_from(["ring:5", "complete:5", "star:5"])


class Chaos(RuleBasedStateMachine):
    """Kills before and after any write, restarts, partitions, loss, time, and two queries."""

    kind: Any = MaskedAgent

    @initialize(graph=GRAPHS, seed=st.integers(0, 1000), present=st.sampled_from(["01234", "0124"]))
    def begin(self, graph: str, seed: int, present: str) -> None:
        self.run = MaskedNetwork(
            graph, queries=2, faults=LOSSY, seed=seed, kind=self.kind, options=STAYING
        )
        self.run.start(*present)
        for label in present:
            self.contribute(label, 1)

    @rule(label=LABELS, query=st.sampled_from([1, 2]))
    def contribute(self, label: str, query: int) -> None:
        if query not in self.run.kept[label].contributions:
            self.run.contribute(label, query)

    @rule(query=st.sampled_from([1, 2]))
    def all_contribute(self, query: int) -> None:
        for label in "01234":
            self.contribute(label, query)

    @rule(label=LABELS, when=st.sampled_from(["before", "after"]))
    def light_fuse(self, label: str, when: str) -> None:
        self.run.kept[label].ledger.fuse = when

    @rule(label=LABELS)
    def crash(self, label: str) -> None:
        self.run.crash(label)

    @rule(label=LABELS)
    def restart(self, label: str) -> None:
        if self.run.agents[label].agent is None:
            self.run.restart(label)

    @rule(seconds=st.sampled_from([0.1, 0.5, 2.0, 10.0, 70.0]))
    def wait(self, seconds: float) -> None:
        self.run.run(seconds, until_done=False)

    @precondition(lambda self: hasattr(self, "run"))
    @rule(left=st.sets(LABELS, min_size=1, max_size=4))
    def split(self, left: set[str]) -> None:
        self.run.network.partition(left, set("01234") - left)

    @rule()
    def heal(self) -> None:
        self.run.network.heal()
        self.run.network.faults = LOSSY

    @invariant()
    def nothing_is_said_twice(self) -> None:
        if hasattr(self, "run"):
            self.run.check()

    def teardown(self) -> None:
        """Once all is well again, all have the same results."""
        if not hasattr(self, "run"):
            return
        run = self.run
        run.network.heal()
        run.network.faults = SLOW
        for kept in run.kept.values():
            kept.ledger.fuse = None
        for label in "01234":
            self.restart(label)
        for query in (1, 2):
            for label in "01234":
                if query > run.agent(label).round:
                    self.contribute(label, query)
        assert run.run(5000), {x: run.agent(x).queries.concluded for x in "01234"}
        run.run(400, until_done=False)
        run.check()
        assert len({tuple(run.agent(label).queries.sums.items()) for label in "01234"}) == 1
        assert len({run.agent(label).estimate for label in "01234"}) == 1


LIMITS = settings(
    max_examples=12, stateful_step_count=18, deadline=None, derandomize=True,
    suppress_health_check=list(HealthCheck), phases=[Phase.generate],
)  # fmt: skip


def test_chaos() -> None:
    run_state_machine_as_test(Chaos, settings=LIMITS)


@pytest.mark.slow
def test_more_chaos() -> None:
    more = settings(LIMITS, max_examples=200, stateful_step_count=30)
    run_state_machine_as_test(Chaos, settings=more)


class Lasting(EphemeralKey):
    """Weakened: the key of a second session is that of the first (R4)."""

    kept: ClassVar[Any] = None

    def __init__(self) -> None:
        if Lasting.kept is None:
            super().__init__()
            Lasting.kept = self._private, self.public
        self._private, self.public = Lasting.kept

    def drop(self) -> None:
        """Weakened: it is not forgotten."""


def test_the_machine_catches_a_key_that_serves_two_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("veilsum.agents.masked.masks.EphemeralKey", Lasting)
    with pytest.raises(AssertionError, match="a key was used twice"):
        run_state_machine_as_test(Chaos, settings=LIMITS)
