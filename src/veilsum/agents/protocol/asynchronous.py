"""No rounds in common: every agent sends at its own pace, and readings enter when they arrive.

A reading adds (release, 1) to the mass. Whatever the speeds, the ratio S/w tends to the mean of all
that was released: late joiners and missing readings change who contributes, not what is right. At
every tick the agent sends half of what the weights of its links say, so that it always has some
mass to estimate with, whatever its own weight; its round is the number of ticks at which it sent. A
neighbour that acknowledges nothing for `patience` ticks is sent no more mass until it does; while
none does, the agent repeats its last message and counts no tick.

Without a last tick, an agent that has converged rests: nothing entered, and what its neighbours sent
had the agent's own ratio to one part in 2^`AGREED`. Then it sends nothing but acknowledgements, and
its last message again where that is not acknowledged and once in `KEEP_ALIVE` seconds. Mass with
another ratio, or so much of it that its own is half as large again, wakes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import CumulativeMass, RangeReport
from veilsum.agents.protocol.completion import Completion
from veilsum.agents.protocol.flooding import Flooding
from veilsum.agents.protocol.gathering import Gathering
from veilsum.agents.protocol.link import Link
from veilsum.agents.protocol.mass import Mass
from veilsum.agents.protocol.memory import AgentState
from veilsum.agents.protocol.messenger import Messenger
from veilsum.agents.protocol.options import LONGEST_PAUSE, ONE, DoublingPause, Options
from veilsum.agents.protocol.states import SessionState
from veilsum.errors import AgentError

HALF = 1 << (ONE - 1)
AGREED = 44  # bits in which two ratios agree where all have converged
CALM = 3  # ticks without news before an agent rests
KEEP_ALIVE = 60.0  # seconds between two messages of an agent that rests


class AsynchronousSchedule:
    """Sends mass by the agent's own clock.

    Parameters
    ----------
    manifest, options : Manifest, Options
        The terms.
    state, links, mass, messenger, flooding, completion, gathering
        The parts that it works with.

    Raises
    ------
    AgentError
        For Network DP or a tolerance, which need rounds in common.
    """

    waiting = False  # a tick waits for nobody

    def __init__(
        self,
        manifest: Manifest,
        options: Options,
        state: AgentState,
        links: Sequence[Link],
        mass: Mass,
        messenger: Messenger,
        flooding: Flooding,
        completion: Completion,
        gathering: Gathering,
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
        self._flooding, self._gathering = flooding, gathering
        self._alone = DoublingPause(options.deadline)
        self._news = 0  # ticks until this agent rests
        self._weight = 0  # when it began to
        self._echoed: dict[str, int] = {}  # the last round acknowledged to each neighbour
        self._repeat, self._quiet, self._pause = 0.0, 0.0, options.resend

    def snapshot(self) -> list[Any]:
        """Nothing besides the mass."""
        return []

    def restore(self, read: list[Any]) -> None:
        """Nothing to take back."""

    def begin(self) -> None:
        """Let releases enter and set the clock."""
        self._news = CALM
        self.advance()
        self._messenger.set_timer("tick", self._options.tick)
        self._messenger.set_timer("round", self._gathering.period)

    @property
    def marker(self) -> tuple[int, int, bool]:
        """Where the agent is: while this does not change, it is stuck."""
        return self._state.incarnation, self._state.round, False

    def restart(self) -> None:
        """There is one view."""

    def skip(self, number: int) -> None:
        """There is no round that waits for a reading."""

    def note_range(self, link: Link, report: RangeReport) -> None:
        """There is no range to agree on."""

    def arrived(self, link: Link, message: CumulativeMass) -> None:
        """Receive mass as it arrives."""
        if self._differs(link, message):
            self._news = CALM
        self._mass.receive(link, message)

    def arrived_next(self, link: Link, message: CumulativeMass) -> None:
        """Receive mass as it arrives."""
        if message.acknowledged > link.acknowledged:
            link.acknowledged = message.acknowledged
        link.silent = 0.0
        self.arrived(link, message)

    def buffered(self) -> None:
        """Nothing is buffered."""

    def _differs(self, link: Link, message: CumulativeMass) -> bool:
        """Whether what a message brings has another ratio than the mass here, or is much."""
        mass = self._mass
        if mass.weight <= 0 or 2 * abs(mass.weight - self._weight) > self._weight:
            return True
        weight = message.weight - link.in_weight
        for own, now, before in zip(mass.sums, message.sums, link.in_sums, strict=True):
            # |own / W - brought / w| > 2^-AGREED max(1, |own / W|)
            off = abs(own * weight - (now - before) * mass.weight) << AGREED
            if off > max(abs(own), mass.weight) * max(weight, 1) + (mass.weight << AGREED):
                return True
        return False

    def advance(self) -> None:
        """Let releases enter."""
        state = self._state
        if not state.reason and self._mass.pending:
            self._mass.enter()
            self._flooding.count()
            self._news = CALM
        if state.leaving and not state.reason:
            self._completion.hand_over()

    def timer(self, timer: str) -> None:
        """A tick, or the time to look who takes part."""
        state = self._state
        if timer == "round" and not state.reason:
            self._gathering.watch()
            self._messenger.set_timer("round", self._gathering.period)
        if timer != "tick" or state.reason or state.leaving:
            return
        if self._completion.late:
            self._completion.finish("late")
            return
        if not self._accompanied():
            self._wait()
        elif self._news or self._manifest.rounds:
            self._alone.reset()
            self._send()
        else:
            self._rest()
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
        """No neighbour answers: repeat the last message, and report it, less and less often."""
        if self._alone.passed(self._options.tick):
            text = f"no neighbour answers; tick {self._state.round} was the last"
            self._messenger.report("alone", text=text)
        self._news = CALM
        self._repeat += self._options.tick
        if self._repeat >= self._pause:
            self._repeat, self._pause = 0.0, min(2 * self._pause, LONGEST_PAUSE)
            self._messenger.send_mass_to_all(self._links)

    def _send(self) -> None:
        self._news -= self._news > 0
        self._state.round += 1
        self._state.in_step()
        self._mass.send(HALF, self._options.patience)
        self._state.unsaved = True
        self._messenger.send_mass_to_all(self._links)
        self._echoed = {link.peer: link.in_round for link in self._links if link.in_reach}
        self._weight, self._quiet, self._repeat = self._mass.weight, 0.0, 0.0
        self._pause = self._options.resend
        self._messenger.report("round")

    def _rest(self) -> None:
        """Converged: acknowledge what came, repeat what is not acknowledged, and keep alive."""
        tick, now = self._options.tick, self._state.round
        self._quiet += tick
        self._repeat += tick
        again = self._repeat >= self._pause
        if again:
            self._repeat, self._pause = 0.0, min(2 * self._pause, LONGEST_PAUSE)
        alive = self._quiet >= KEEP_ALIVE
        if alive:
            self._quiet = 0.0
        for link in self._links:
            if not link.in_reach:
                continue
            owed = self._echoed.get(link.peer, 0) < link.in_round
            if owed or alive or (again and link.acknowledged < now):
                self._echoed[link.peer] = link.in_round
                self._messenger.send_mass(link)

    def resend(self, stuck: bool) -> None:
        """The next tick repeats the last message."""
