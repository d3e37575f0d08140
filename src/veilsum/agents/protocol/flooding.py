"""Who takes part, known to everyone: a register that is merged and passed on until all have it.

All parts of a register only grow, so the order, loss and repetition of messages do not matter
(anti-entropy). An agent sends its register to a neighbour whenever the neighbour's last one was
another: at once after a quiet time, then collected for `SPREAD` seconds. The resend timer repeats it
with a question while the neighbour has not said the same; before, most have, since what spreads
comes back over another link. Where all know the same, nothing is sent.

Agents of one process share theirs: each change is handed to the process once, and not sent on the
links within it. There nothing is lost, so nothing is repeated unless a neighbour did not accept it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from veilsum.agents.coverage import Coverage
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import Register
from veilsum.agents.protocol import states
from veilsum.agents.protocol.claims import RegisterSource
from veilsum.agents.protocol.link import Link
from veilsum.agents.protocol.mass import Mass
from veilsum.agents.protocol.memory import AgentState
from veilsum.agents.protocol.messenger import Messenger
from veilsum.agents.protocol.options import Options
from veilsum.agents.protocol.states import Reachability

SPREAD = 0.05  # seconds in which changes are collected
MOST_COUNTED = 4096  # members whose readings are counted one by one; of more, who has any


class Flooding(RegisterSource):
    """One agent's register, and its way to the neighbours.

    Parameters
    ----------
    manifest, options : Manifest, Options
        The terms.
    state, links, mass, messenger
        The parts that it works with; `links` by the neighbour's label.

    Attributes
    ----------
    register : Register
        What this agent knows.
    me : int
        The bit of this agent.
    local_links : tuple of Link
        The neighbours in this process, who share their registers.
    refused_local : bool
        Whether the last register of one of them was not accepted, and is to be looked at again.
    left : int
        In a run with a last round: members that left while others had not completed it.
    """

    def __init__(
        self,
        manifest: Manifest,
        options: Options,
        state: AgentState,
        links: Mapping[str, Link],
        mass: Mass,
        messenger: Messenger,
    ) -> None:
        """Nobody is known to take part."""
        self._manifest, self._state, self._links = manifest, state, links
        self._mass, self._messenger = mass, messenger
        self.graph = manifest.graph
        self._at = self.graph.index[state.label]
        self.me = 1 << self._at
        size = len(manifest.members)
        several = manifest.asynchronous or manifest.made_algorithm.online
        self._zeros = (0,) * size if several and size <= MOST_COUNTED else ()
        self._window = min(SPREAD, options.resend)
        self.register = Register(readings=self._zeros)
        self._collecting = self._changed = False
        self._owed: set[str] = set()  # neighbours that asked for an answer
        self.local_links: tuple[Link, ...] = ()
        self.refused_local = False
        self.left = 0
        self.settled = False  # whether those who started with this agent are known by now
        self._late = 0  # members that came after that, and of whom nothing counts yet
        self._common = not (manifest.waits or manifest.asynchronous)
        self._remote_links = tuple(links.values())
        self._posted: Register | None = None  # the last that the process was given

    def post_to(self, peers: Collection[str]) -> None:
        """These neighbours are in this process: registers are shared with them, not sent."""
        links = self._links.values()
        self.local_links = tuple(link for link in links if link.peer in peers)
        self._remote_links = tuple(link for link in links if link.peer not in peers)

    def invalid(self, register: Register) -> str:
        """Why no member sends this register; empty if one may."""
        graph = self.graph
        members = register.present | register.contributing | register.finished | register.ended
        if members & ~graph.everyone:
            return f"a set of members beyond the {len(graph.index)} there are"
        if register.dropped & ~graph.every_link:
            return f"a set of links beyond the {len(graph.pairs)} there are"
        if len(register.readings) != len(self._zeros):
            return f"{len(register.readings)} counts of readings, expected {len(self._zeros)}"
        if not self._manifest.waits and (register.dropped or register.generation):
            return "a new view, and without a last round there is one view only"
        return ""

    def mark(self, present: int = 0, finished: int = 0, ended: int = 0) -> None:
        """Add members to the register, and pass it on if it changed."""
        found = self.register
        if present & ~found.present or finished & ~found.finished or ended & ~found.ended:
            self.register = found._replace(
                present=found.present | present,
                finished=found.finished | finished,
                ended=found.ended | ended,
            )
            self.spread()

    def replace(self, register: Register) -> None:
        """Take another register, and pass it on if it is another."""
        if register != self.register:
            before, self.register = self.register, register
            self._note_left()
            if self._common:
                self._note_late(before)
            self.spread()

    @property
    def begun(self) -> bool:
        """Whether who is heard of now may have missed a round: one is over here, or a period.

        After a restart all members are heard of again.
        """
        return self.settled or (self._state.round > 1 and not self._state.first_round)

    def _note_late(self, before: Register) -> None:
        """In a stream, a member that comes late has taken part in no round up to the present one.

        Nor has what it brings been mixed in any round before that is there.
        """
        found = self.register
        came = found.present & ~before.present & ~self.me if self.begun else 0
        self._late |= came
        brought = self._late & found.contributing
        self._late &= ~brought
        if came or brought:
            self._state.undo_mixing(self._state.round)

    def _note_left(self) -> None:
        """With a last round, who ends before all have completed it has left, and handed over."""
        found = self.register
        if self._manifest.waits and found.finished & found.ended & ~self.left:
            inside = self.graph.component(self._state.label, found.dropped)
            if inside & ~found.finished:
                self.left |= found.finished & found.ended

    def departed(self, found: Register, inside: int) -> tuple[int, int]:
        """Of the members in a register: who handed its part over, and who could not.

        Without a last round, who ended without having finished holds a part that nobody has. Where
        all agree on when to stop, or have a number of ticks, ending is no loss. Under Network DP a
        leaver keeps its mass.
        """
        within = found.contributing & inside & ~self.me
        if self._manifest.waits:
            gone = self.left & within
            return (0, gone) if self._manifest.hides_neighbours else (gone, 0)
        open_ended = not (self._manifest.rounds or self._manifest.tolerance)
        gone = found.ended & ~found.finished if open_ended else 0
        return found.finished & within, gone & within

    def begin_view(self, generation: int, dropped: int) -> None:
        """Nobody is present in a new view; who has ended has ended."""
        self.register = Register(
            generation, dropped, ended=self.register.ended, readings=self._zeros
        )

    def count(self, *, anew: bool = False) -> None:
        """Enter this agent's readings; after the first only if asked, as they may come quickly."""
        found = self.register
        first = not found.contributing & self.me
        if not (anew or first) or not self._mass.readings:
            return
        readings = found.readings
        if readings and readings[self._at] < self._mass.readings:
            counts = list(readings)
            counts[self._at] = self._mass.readings
            readings = tuple(counts)
        self.replace(found._replace(contributing=found.contributing | self.me, readings=readings))

    def coverage(self, register: Register | None = None) -> Coverage:
        """Whose readings are in the estimate of a register's view, here and now by default."""
        found = self.register if register is None else register
        inside = self.graph.component(self._state.label, found.dropped)
        if found.readings:
            readings = tuple(n if inside >> k & 1 else 0 for k, n in enumerate(found.readings))
        else:
            bits = found.contributing & inside
            readings = tuple(bits >> k & 1 for k in range(len(self._manifest.members)))
        present = self.graph.names(found.present & inside)
        links = self.graph.pairs if found.dropped else ()
        dropped = tuple(pair for k, pair in enumerate(links) if found.dropped >> k & 1)
        left, lost = map(self.graph.names, self.departed(found, inside))
        return Coverage(
            self._manifest.labels, present, readings, dropped, mixed=self._state.mixed, left=left,
            lost=lost,
        )  # fmt: skip

    @property
    def unfinished(self) -> tuple[str, ...]:
        """The members that are not known to have ended."""
        return self.graph.names(self.graph.everyone & ~self.register.ended)

    @property
    def nobody_waits(self) -> bool:
        """Whether all members have ended and the neighbours know, or these have and are gone."""
        ended, everyone = self.register.ended, self.graph.everyone
        if ended == everyone:
            links = self._links.values()
            return not any(link.listens and link.register.ended != everyone for link in links)
        return bool(self._links) and all(
            link.reachability is Reachability.DOWN and ended >> self.graph.index[peer] & 1
            for peer, link in self._links.items()
        )

    def spread(self) -> None:
        """The register changed: send it where it is not known, now or with the next changes."""
        if self.local_links and self._posted is not self.register:
            self._post()
        if self._collecting:
            self._changed = True
        elif self._send():
            self._collecting = True
            self._messenger.set_timer("attend", self._window)

    def timer(self) -> None:
        """The time in which changes are collected is over."""
        self._collecting = False
        if self._changed:
            self._changed = False
            self.spread()

    def resend(self) -> None:
        """Repeat the register where the same was not heard, and ask for it."""
        if self.refused_local:
            self._post()
        self._send(again=True)

    def _post(self) -> None:
        self._posted = self.register
        self._messenger.post_register(self.register)

    def _send(self, again: bool = False) -> bool:
        sent, register = False, self.register
        owed, self._owed = self._owed, set()
        all_ended = register.ended == self.graph.everyone  # who waits for that needs an answer
        for link in self._remote_links:
            if not link.listens:
                continue
            unlike = link.register != register
            if link.peer in owed or (unlike and (again or link.sent != register)):
                link.sent = register
                asks = unlike and (again or all_ended or not link.joined)
                self._messenger.send_attendance(link, register, asks)
                sent = True
        return sent

    def answer(self, link: Link) -> None:
        """Send one neighbour the register, now or with the next changes."""
        if link.session not in states.ESTABLISHED:
            return
        if link in self.local_links:
            self._post()
        else:
            self._owed.add(link.peer)
            self.spread()
