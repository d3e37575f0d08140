"""What an agent looks at between its events: a later epoch to adopt, and a request to leave."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from veilsum.agents.coverage import Departure
from veilsum.agents.events import Leave
from veilsum.agents.membership.adoption import (
    LOOK_EVERY,
    EpochWatcher,
    LaterEpoch,
    describe_change,
)
from veilsum.agents.membership.leaving import answer, asked_to_leave

if TYPE_CHECKING:
    from veilsum.agents.config import Setup
    from veilsum.agents.runtime import Node

BEFORE = "what it could not hand over when it left, before this start; its log has it"


class MembershipControl:
    """The membership of one running agent.

    Parameters
    ----------
    setup : Setup
        Of the present epoch.
    node : Node
        That runs the agent, and nothing else.

    Attributes
    ----------
    later : LaterEpoch or None
        The epoch to go on with once the node is closed.
    """

    def __init__(self, setup: Setup, node: Node) -> None:
        """Nothing has changed."""
        self._setup, self._node, self._name = setup, node, setup.config.name
        self._ledger = setup.path(setup.config.ledger.path)
        self.later: LaterEpoch | None = None
        self._watcher = EpochWatcher(setup, lambda text: self._log(text, "warning"))
        self._leaves, self._next = False, 0.0

    def turn(self) -> bool:
        """Look at both; whether the node is to stop, because it goes on in another epoch.

        An agent that has its result stays for those who wait for it, and adopts at its next start.
        """
        now = time.monotonic()
        if not self._leaves and now >= self._next:
            self._next = now + LOOK_EVERY
            if asked_to_leave(self._ledger):
                self._leave("asked to leave")
        if self.later is None and self._node.agents[self._name].done is None:
            self.later = self._watcher.look()
            if self.later is not None:
                self._found(self.later)
        return self.later is not None and self.later.setup is not None and not self._leaves

    def _found(self, later: LaterEpoch) -> None:
        epoch, change = later.manifest.epoch, describe_change(self._setup.manifest, later.manifest)
        if later.setup is None:
            text = (
                f"epoch {epoch} has no member {self._name}: this agent leaves, and what it released "
                f"is in no estimate of that epoch ({change})"
            )
            self._log(text)
            self._leave(f"no member of epoch {epoch}")
            return
        count = self._node.agents[self._name].ledger.releases
        self._log(
            f"epoch {epoch} is adopted ({change}); mixing begins anew from {count} releases of the "
            "ledger, and nothing is released again"
        )

    def _leave(self, why: str) -> None:
        self._leaves = True
        if self._node.agents[self._name].done is None:
            self._log(f"leaves: {why}")
            self._node.handle(self._name, Leave())

    def conclude(self) -> None:
        """The agent has ended: say what became of its part, if it was asked to leave."""
        agent = self._node.agents[self._name]
        if agent.done is None:
            return
        found = agent.departure
        if found is None:
            lost = (BEFORE,) if agent.done.reason == "left" else ()
            found = Departure(lost=lost, unreleased=agent.open_batch)
        elif self._leaves:
            self._log(f"left: {found.sentence()}")
        if asked_to_leave(self._ledger):
            answer(self._ledger, self._name, found)

    def _log(self, text: str, level: str = "info") -> None:
        self._node.observability.log.write("epoch", self._name, text, level=level)
