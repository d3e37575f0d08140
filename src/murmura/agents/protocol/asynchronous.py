"""No rounds in common: every agent sends at its own pace, and readings enter when they arrive.

A reading adds (release, 1) to the mass. Whatever the speeds, the ratio S/w tends to the mean of all
that was released: late joiners and missing readings change who contributes, not what is right. At
every tick the agent sends half of what the weights of its links say, so that it always has some
mass to estimate with, whatever its own weight; its round is the number of ticks at which it sent. A
neighbour that acknowledges nothing for `patience` ticks is sent no more mass until it does; while
none does, the agent repeats its last message and counts no tick.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from murmura.agents.manifest import Manifest
from murmura.agents.messages import CumulativeMass, RangeReport
from murmura.agents.protocol.completion import Completion
from murmura.agents.protocol.link import Link
from murmura.agents.protocol.mass import Mass
from murmura.agents.protocol.memory import AgentState
from murmura.agents.protocol.messenger import Messenger
from murmura.agents.protocol.options import ONE, Options
from murmura.agents.protocol.states import SessionState
from murmura.errors import AgentError

HALF = 1 << (ONE - 1)


class AsynchronousSchedule:
    """Sends mass by the agent's own clock.

    Parameters
    ----------
    manifest, options : Manifest, Options
        The terms.
    state, links, mass, messenger, completion
        The parts that it works with.

    Raises
    ------
    AgentError
        For Network DP or a tolerance, which need rounds in common.
    """

    def __init__(
        self,
        manifest: Manifest,
        options: Options,
        state: AgentState,
        links: Sequence[Link],
        mass: Mass,
        messenger: Messenger,
        completion: Completion,
    ) -> None:
        """No tick yet."""
        if manifest.hides_neighbours or manifest.tolerance:
            what = "Network DP" if manifest.hides_neighbours else "a tolerance"
            raise AgentError(
                f"asynchronous agents have no rounds in common, which {what} needs; "
                "run them with asynchronous = false"
            )
        self._manifest, self._options, self._state, self._links = manifest, options, state, links
        self._mass, self._messenger, self._completion = mass, messenger, completion
        self._uncounted = 0  # ticks since a neighbour last answered

    def snapshot(self) -> list[Any]:
        """Nothing besides the mass."""
        return []

    def restore(self, read: list[Any]) -> None:
        """Nothing to take back."""

    def begin(self) -> None:
        """Let releases enter and set the clock."""
        self.advance()
        self._messenger.set_timer("tick", self._options.tick)

    def note_range(self, link: Link, report: RangeReport) -> None:
        """There is no range to agree on."""

    def arrived(self, link: Link, message: CumulativeMass) -> None:
        """Receive mass as it arrives."""
        self._mass.receive(link, message)

    def advance(self) -> None:
        """Let releases enter."""
        state = self._state
        if not state.reason and self._mass.pending:
            self._mass.enter()
        if state.leaving and not state.reason:
            self._completion.hand_over()

    def skip(self, last: int) -> None:
        """No round waits for a reading."""

    def timer(self, timer: str) -> None:
        """A tick."""
        state = self._state
        if timer != "tick" or state.reason or state.leaving:
            return
        if self._completion.late:
            self._completion.finish("late")
            return
        if self._accompanied():
            self._uncounted = 0
            self._send()
        else:
            self._wait()
        if state.round == self._manifest.rounds > 0:
            self._completion.finish("rounds")
        else:
            self._messenger.set_timer("tick", self._options.tick)

    def _accompanied(self) -> bool:
        """Whether a neighbour answers or is done, or all have left for good."""
        now, patience = self._state.round, self._options.patience
        for link in self._links:
            if link.session is SessionState.DONE and link.in_weight:
                return True
            if link.may_send and link.unacknowledged(now) <= patience:
                return True
        return all(link.session is SessionState.LEFT for link in self._links)

    def _wait(self) -> None:
        """No neighbour answers: repeat the last message, and report it once in a deadline."""
        self._uncounted += 1
        if self._uncounted % math.ceil(self._options.deadline / self._options.tick) == 0:
            text = f"no neighbour answers; tick {self._state.round} was the last"
            self._messenger.report("alone", text=text)
        self._messenger.send_mass_to_all(self._links)

    def _send(self) -> None:
        self._state.round += 1
        self._mass.send(HALF, self._options.patience)
        self._state.unsaved = True
        self._messenger.send_mass_to_all(self._links)
        self._messenger.report("round")

    def resend(self) -> None:
        """The next tick repeats the last message."""
