"""How an agent ends: with its estimate, too late for one, or by leaving for good.

An agent that is done sends no more mass. It stays until all members have ended, or for
`Options.linger` seconds, and repeats its last message to neighbours in reach that have not
acknowledged it, at growing pauses. A member that comes late learns from it how things ended.

An agent that leaves hands its mass over to the neighbours in reach, split by the weights of the
links, and again what arrives since; when none is left and all of them have acknowledged that, it is
done. After `LEAVE` seconds, or `Options.linger` if that is less, it is done in any case. Mass on its
way to a neighbour that is down stays on the leaver's side of that link, and is lost to the estimate
with the leaver; so is what such a neighbour had sent to it. Under Network DP mass without fresh
noise must not be sent, so the leaver keeps its mass, and it is lost too. Nor is mass handed over where
rounds are clipped: nobody takes that much from a neighbour.

A loss is known to everyone. Where a result is of a stated set of members, all begin anew without the
leaver. Elsewhere the register has it as ended and not as finished, which is what says that a member
handed everything over. Under Network DP nobody can begin anew, and everyone knows that a leaver's
mass is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from veilsum.agents.coverage import Coverage, Departure, some_names
from veilsum.agents.events import SILENT_REASONS
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import CumulativeMass
from veilsum.agents.protocol import states
from veilsum.agents.protocol.flooding import Flooding
from veilsum.agents.protocol.link import Link
from veilsum.agents.protocol.mass import Mass
from veilsum.agents.protocol.memory import AgentState
from veilsum.agents.protocol.messenger import Messenger
from veilsum.agents.protocol.options import Options
from veilsum.agents.protocol.states import Reachability, SessionEvent, SessionState

LINGERING_PAUSE = 30.0  # seconds between two repetitions of the last message, at most
LEAVE = 60.0  # seconds to hand over the mass
FAREWELL = 5.0  # seconds in which neighbours in reach are to learn that all was handed over
WITHOUT_RESULT = ("quorum", "excluded", "readings")  # where a result is of a stated set of members


class Completion:
    """The end of one agent.

    Parameters
    ----------
    manifest, options : Manifest, Options
        The terms.
    state, links, mass, messenger, flooding
        The parts that it works with.
    """

    def __init__(
        self,
        manifest: Manifest,
        options: Options,
        state: AgentState,
        links: Sequence[Link],
        mass: Mass,
        messenger: Messenger,
        flooding: Flooding,
    ) -> None:
        """The agent has not ended."""
        self._manifest, self._options, self._state = manifest, options, state
        self._links, self._mass, self._messenger = links, mass, messenger
        self._flooding = flooding
        self._pause, self._lingered = options.resend, 0.0
        self._sent_before: dict[str, int] = {}  # weight on each link before leaving
        self.departure: Departure | None = None  # what became of the mass, once it has left

    @property
    def settled(self) -> bool:
        """Whether the agent is done and nobody waits for it, or it has waited long enough."""
        reason = self._state.reason
        if reason == "left":
            return self._lingered >= FAREWELL or all(map(self._knows, self._links))
        if not reason or reason in SILENT_REASONS:
            return bool(reason)
        if self._lingered >= self._options.linger:
            return True
        if not self._flooding.nobody_waits:
            return False
        return self._manifest.waits or not any(self.unheard(link) for link in self._links)

    def _knows(self, link: Link) -> bool:
        """Whether a neighbour in reach knows that this agent has left, and whether with a loss."""
        if not link.listens or link.reachability in states.UNANSWERING:
            return True
        own, theirs = self._flooding.register, link.register
        me = self._flooding.me
        return bool(theirs.ended & me) and (theirs.finished & me) == (own.finished & me)

    @property
    def late(self) -> bool:
        """Whether the others ended before this agent received anything of them, or without it."""
        links = self._links
        if any(link.buffer or link.awaited for link in links):
            return False
        ended = all(link.session in states.ENDED for link in links)
        done = [link for link in links if link.session is SessionState.DONE]
        if not any(link.in_weight for link in links):
            return ended or bool(done)
        behind = any(link.newest > self._state.round for link in done)
        return bool(done) and ended and not behind

    def unheard(self, link: Link) -> bool:
        """Whether a neighbour in reach has not acknowledged the last round."""
        return link.in_reach and link.acknowledged < self._state.round

    def finish(
        self,
        reason: str,
        estimate: tuple[float, ...] | None = None,
        coverage: Coverage | None = None,
        number: int = 0,
    ) -> None:
        """Fix the estimate and report it; from now on no more mass is sent."""
        state = self._state
        if estimate is None:
            nothing = reason == "late" and not any(link.in_weight for link in self._links)
            nothing = nothing or (self._manifest.waits and reason in WITHOUT_RESULT)
            # Who has left has none, also of mass that nobody in reach could take: how far the others
            # were, as in the next epoch, must not decide what it ends with.
            nothing = nothing or reason == "left"
            estimate = () if nothing else self._mass.estimate
        state.reason, state.result, state.unsaved = reason, estimate, True
        if coverage is None:
            self._flooding.count(anew=True)
            none = Coverage.none(self._manifest.labels)
            coverage = self._flooding.coverage() if estimate else none
        state.coverage, state.result_round = coverage, number or state.round
        self._messenger.done()
        if reason in SILENT_REASONS and reason != "left":
            return
        if reason != "left":
            self._update_neighbours()
        self._end(reason)

    def _end(self, reason: str) -> None:
        """Pass on that this agent has ended; without a result, nobody is to wait for it."""
        flooding = self._flooding
        lost = self.departure is not None and bool(self.departure.lost)
        clipped = self._mass.clipped and reason == "left"
        excluded = clipped or (lost and not self._manifest.hides_neighbours)
        if self._manifest.waits and (reason in WITHOUT_RESULT or excluded):
            found = flooding.register
            links = flooding.graph.all_links(self._state.label)
            if found.dropped | links != found.dropped:
                flooding.begin_view(found.generation, found.dropped | links)
        whole = reason == "left" and not (excluded or (lost and not self._manifest.waits))
        flooding.mark(ended=flooding.me, finished=flooding.me if whole else 0)
        if reason == "left":
            flooding.resend()  # at once: this agent may be gone before the next collection
            self._messenger.set_timer("resend", self._options.resend)
        flooding.spread()

    def _update_neighbours(self) -> None:
        for link in self._links:
            if link.in_reach:
                self._messenger.send_mass(link)

    def halt(self) -> None:
        """Ignore all further events."""
        self._state.halted = True

    def linger(self) -> None:
        """Repeat the last message where it is not acknowledged, at growing intervals."""
        if self._state.reason == "left":
            self._repeat_farewell()
            return
        if self._lingered >= self._options.linger:
            return
        for link in self._links:
            link.warned = False
            if self.unheard(link) and not self._flooding.nobody_waits:
                self._messenger.send_mass(link)
        self._flooding.resend()
        self._pause = min(2 * self._pause, LINGERING_PAUSE)
        self._lingered += self._pause
        self._messenger.set_timer("resend", self._pause)
        if self._lingered >= self._options.linger and not self._flooding.nobody_waits:
            names = some_names(self._flooding.unfinished)
            text = f"not known to have ended after {self._options.linger:g} s: {names}"
            self._messenger.report("unacknowledged", text=text)

    def _repeat_farewell(self) -> None:
        """Have the neighbours in reach know that this agent has left."""
        if not self.settled:
            self._flooding.resend()
            self._lingered += self._options.resend
            self._messenger.set_timer("resend", self._options.resend)

    def leave(self) -> None:
        """Begin to leave."""
        state = self._state
        if not (state.reason or state.leaving):
            state.leaving = True
            self.limit_leaving()
            self._mass.receive_buffered()
            self._pass_on()
            if self._mass.clipped:  # nothing is handed over that anybody could acknowledge
                self._depart()

    def limit_leaving(self) -> None:
        """Set the time after which the agent is done in any case."""
        self._sent_before = {link.peer: link.out_weight for link in self._links}
        self._messenger.set_timer("leave", min(self._options.linger, LEAVE))

    def _pass_on(self) -> None:
        near = [link for link in self._links if link.in_reach]
        self._state.round += 1
        if near and self._transferable():
            self._mass.send_all(near)
        self._state.unsaved = True
        for link in near:
            self._messenger.send_mass(link)

    def _transferable(self) -> bool:
        """Whether there is mass to hand over, and it may be."""
        kept = self._manifest.hides_neighbours or self._mass.clipped
        return self._mass.transferable and not kept

    def hand_over(self) -> None:
        """Send what arrived since; done when none is left and everyone has acknowledged that."""
        near = [link for link in self._links if link.in_reach]
        if near and self._transferable():
            if self._mass.accepted(near):
                self._pass_on()
        elif not any(map(self._may_acknowledge, self._links)) and (near or self._deserted()):
            self._depart()

    def _may_acknowledge(self, link: Link) -> bool:
        """Whether a neighbour that may be in reach has not acknowledged, also after a restart."""
        down = link.reachability is Reachability.DOWN
        expected = not down and link.session in states.MAY_ACKNOWLEDGE
        return expected and link.peer_incarnation > 0 and link.acknowledged < self._state.round

    def _deserted(self) -> bool:
        """Whether there is nobody left to hand over to, or nothing."""
        left = all(link.session is SessionState.LEFT for link in self._links)
        return left or not self._transferable()

    def leave_now(self) -> None:
        """The time to leave is up."""
        if self._state.leaving and not self._state.reason:
            self._depart()

    def _depart(self) -> None:
        """Report what was handed over and what could not be, and be done."""
        parts, unit = [], 1 << self._manifest.unit
        if self._mass.transferable:
            kept = ", which Network DP lets nobody send without fresh noise"
            why = kept if self._manifest.hides_neighbours else ""
            if self._mass.clipped:
                why = ", which nobody accepts at once where rounds are clipped"
            weight = self._mass.weight / unit
            what = f"{weight:.6g} of weight" if weight else "a sum without weight"
            parts.append(f"{what}{why}")
        missed = [
            link.peer
            for link in self._links
            if link.session is not SessionState.LEFT and link.acknowledged < self._state.round
        ]
        if missed and not self._mass.clipped:
            parts.append(f"what {', '.join(missed)} did not acknowledge")
        given = (
            (link.peer, (link.out_weight - self._sent_before.get(link.peer, 0)) / unit)
            for link in self._links
            if link.peer not in missed
        )
        self.departure = Departure(tuple((p, w) for p, w in given if w > 0), tuple(parts))
        if parts:
            text = f"could not be handed over and is lost with this agent: {' and '.join(parts)}"
            self._messenger.report("left", text=text)
        self.finish("left")

    def farewell(self, link: Link, message: CumulativeMass, fresh: bool) -> None:
        """A neighbour leaves for good: receive what it handed over, and acknowledge it."""
        if link.session is not SessionState.LEFT:
            self._messenger.report("peer", link.peer, f"{link.peer} leaves for good")
        link.on(SessionEvent.FAREWELL)
        gone = 1 << self._flooding.graph.index[link.peer]
        self._flooding.left |= gone
        whole = self._manifest.waits and not self._mass.clipped
        self._flooding.mark(ended=gone, finished=gone if whole else 0)
        if fresh:
            self._mass.receive(link, message)
        if fresh or not link.warned:  # of two that leave, neither has the last word for ever
            link.warned = True
            self._messenger.send_mass(link)

    def answer(self, link: Link, message: CumulativeMass, fresh: bool) -> None:
        """Answer a neighbour that sent something new or lacks the last round, or may; answers end."""
        if fresh:
            self._mass.receive(link, message)
        if self._state.leaving and not self._state.reason:
            self.hand_over()
        elif fresh or message.acknowledged < self._state.round or not link.warned:
            link.warned = True
            if link.in_reach:
                self._messenger.send_mass(link)
