"""Whose estimate it is: gathering before the rounds, views while they run, agreement at the end.

In a run with common rounds and a last one, the estimate is the paper's algorithm on a stated set of
members: those connected over the links of a *view*. Round 1 begins when all of them are present. No
round proceeds without a neighbour of the view. A neighbour that was not heard for `lost_after`
seconds (before the rounds: never heard for `gathering` seconds) is not waited for any longer: the
link is dropped, which everyone learns from the register, and all begin anew in the new view, with
the releases there are. So is it, with another generation, if a member lost its state of mixing.

A member that has completed the last round waits until all others of its component have: then all
have the result of the same view. Where there are fewer members than the quorum, there is no result.

What was released stays released: a new view sends mass of the same releases again, in a new
incarnation, and draws nothing. Under Network DP releases serve one incarnation, so there a new view
after the first round means no result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from veilsum.agents.coverage import some_names
from veilsum.agents.events import LocalRegisters
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import Register
from veilsum.agents.protocol.completion import Completion
from veilsum.agents.protocol.flooding import Flooding
from veilsum.agents.protocol.link import Link
from veilsum.agents.protocol.mass import Mass
from veilsum.agents.protocol.memory import AgentState
from veilsum.agents.protocol.messenger import Messenger
from veilsum.agents.protocol.options import Options
from veilsum.agents.protocol.states import Reachability, SessionState
from veilsum.agents.protocol.termination import TerminationDetector
from veilsum.agents.views import view_id

FIRST_REPORT, NEXT_REPORT = 5.0, 60.0  # seconds until who is missing is reported, and again
RECOUNT = 10.0  # seconds between two counts of this agent's readings

View = tuple[int, int]


class CompletedView(NamedTuple):
    """What an agent had when it completed the last round of a view."""

    reason: str
    estimate: tuple[float, ...]
    round: int


class Gathering:
    """One agent's part in deciding who takes part.

    Parameters
    ----------
    manifest, options : Manifest, Options
        The terms.
    state, links, mass, messenger, flooding, completion
        The parts that it works with; `links` by the neighbour's label.
    detector : TerminationDetector or None
        Where there is a tolerance.

    Attributes
    ----------
    restart : callable
        Called when the rounds begin anew.
    """

    def __init__(
        self,
        manifest: Manifest,
        options: Options,
        state: AgentState,
        links: Mapping[str, Link],
        mass: Mass,
        messenger: Messenger,
        flooding: Flooding,
        completion: Completion,
        detector: TerminationDetector | None,
    ) -> None:
        """The first view: all links."""
        self._manifest, self._options, self._state, self._links = manifest, options, state, links
        self._mass, self._messenger, self._flooding = mass, messenger, flooding
        self._completion, self._detector = completion, detector
        self._graph, self._waits = manifest.graph, manifest.waits
        self.restart: Callable[[], None] = lambda: None
        self._completed: dict[View, CompletedView] = {}
        self._met = False  # whether any neighbour was heard in this run
        self._began = False  # whether rounds began in an earlier view
        self._waited, self._due = 0.0, FIRST_REPORT  # seconds without progress, next report
        self._moved = False  # whether a round ended since the last period
        self._since_count = 0.0
        self._watched = False  # whether a period has passed since the start
        self.period = options.deadline
        if self._waits:
            self.period = min(options.deadline, manifest.gathering / 4, manifest.lost_after / 4)

    def snapshot(self) -> list[Any]:
        """The view, and what was complete in which; once the agent has ended, the whole register.

        Before, the rest is learned from neighbours again.
        """
        register = self._flooding.register
        completed = [[g, f"{d:x}", *done] for (g, d), done in self._completed.items()]
        view = [register.generation, f"{register.dropped:x}"]
        whole: list[Any] = []
        if self._state.reason:
            whole = [*(f"{members:x}" for members in register[2:6]), list(register.readings)]
        return [*view, completed, self._began, whole]

    def restore(self, read: list[Any]) -> None:
        """Take a `snapshot` back."""
        for generation, dropped, reason, estimate, number in read[2]:
            found = CompletedView(reason, tuple(estimate), number)
            self._completed[generation, int(dropped, 16)] = found
        generation, dropped, self._began = read[0], int(read[1], 16), read[3]
        if generation or dropped:
            self._set_view(generation, dropped)
        if self._detector is not None:
            self._detector.set_depth(self._graph.depth(self._state.label, dropped))
        self._state.completed = self.view in self._completed
        if read[4]:
            present, contributing, finished, ended = (int(found, 16) for found in read[4][:4])
            readings = tuple(read[4][4])
            whole = Register(generation, dropped, present, contributing, finished, ended, readings)
            self._flooding.replace(whole)
        self._flooding.count(anew=True)
        if self._state.completed:
            self._flooding.mark(finished=self._flooding.me)
        if self._state.reason:
            self._flooding.mark(ended=self._flooding.me)

    @property
    def view(self) -> View:
        """(generation, dropped)."""
        return self._flooding.register[:2]

    @property
    def component(self) -> int:
        """The members of this agent's component in the view."""
        return self._graph.component(self._state.label, self._flooding.register.dropped)

    @property
    def ready(self) -> bool:
        """Whether the rounds may begin: all members of the component are present."""
        if self._state.round or not self._waits:
            return True
        missing = self.component & ~self._flooding.register.present
        return not missing and not any(map(self._not_joined, self._links.values()))

    @staticmethod
    def _not_joined(link: Link) -> bool:
        there = link.joined and link.session is SessionState.OPEN
        return link.awaited and not (there and link.reachability is not Reachability.DOWN)

    def went_away(self, link: Link) -> None:
        """A neighbour can no longer be reached: before the rounds, who is present is counted anew.

        Not under Network DP, where a member that has begun could not begin again.
        """
        before = self._waits and not (self._state.round or self._state.reason)
        if before and link.joined and link.awaited and not self._manifest.hides_neighbours:
            generation, dropped = self.view
            self._begin_view(generation + 1, dropped, why=f"{link.peer} went away")

    def farewell(self, link: Link) -> None:
        """A neighbour leaves; where rounds are clipped it hands nothing over, and all begin anew."""
        generation, dropped = self.view
        without = dropped | self._graph.all_links(link.peer)
        if self._mass.clipped and without != dropped and not self._state.reason:
            self._begin_view(generation, without, why=f"{link.peer} left")

    def hear(self, link: Link, mass: bool = False) -> None:
        """A neighbour was heard; in the rounds only its mass counts."""
        if mass or not self._state.round:
            link.silent = 0.0
        link.heard = self._met = True

    def rolled_back(self, link: Link) -> None:
        """Mass exchanged with a neighbour was undone, because it began a new incarnation."""
        if self._waits and self._state.round and not link.dropped:
            link.undo()

    def begin_generation(self, link: Link) -> None:
        """A neighbour that lost its state of mixing is in the same view: all begin anew."""
        if not self._state.reason:
            generation, dropped = self.view
            text = f"{link.peer} lost its state of mixing"
            self._begin_view(generation + 1, dropped, why=text)

    def opened(self, link: Link) -> None:
        """A session opened: this agent is present, and says what it knows."""
        if not link.dropped:
            self._flooding.mark(present=self._flooding.me)
        self._flooding.answer(link)

    def receive_local(self, event: LocalRegisters, admits: Callable[[Link, Any], bool]) -> None:
        """Take what the agents of this process know, and the registers of the neighbours in it."""
        union = event.unions.get(self.view)
        if union is not None:
            self._note_ended(union.ended)
            self._merge(union)
        self._flooding.refused_local = False
        for link in self._flooding.local_links:
            found = event.posted.get(link.peer)
            if found is None:
                continue
            register = found.register
            known = register is link.register and not link.undone
            if known and (link.joined or register[:2] != self.view):
                continue
            if admits(link, found):
                self.receive(link, register)
            else:
                self._flooding.refused_local = True

    def receive(self, link: Link, theirs: Register, asks: bool = False) -> None:
        """Take a neighbour's register: merge it, and follow it into a later view."""
        if why := self._flooding.invalid(theirs):
            self._messenger.reject(link.peer, why)
            return
        link.register = theirs
        if link.session is SessionState.OPEN:
            self.hear(link)
        self._note_ended(theirs.ended)
        if not (self._concluded(link, theirs) or self._state.reason):
            generation, dropped = self.view
            union = max(generation, theirs.generation), dropped | theirs.dropped
            if union != self.view:
                self._begin_view(*union, link)
            elif theirs[:2] == self.view and link.undone:
                self.begin_generation(link)
        if theirs[:2] == self.view:
            link.joined = True
            self._merge(theirs)
        if asks:
            self._flooding.answer(link)

    def _note_ended(self, ended: int) -> None:
        before = self._flooding.register.ended
        self._flooding.mark(ended=ended)
        if self._state.reason and before != self._graph.everyone == self._flooding.register.ended:
            self._messenger.relies_on_snapshot = True  # after a restart nobody is waited for

    def _merge(self, theirs: Register) -> None:
        """Add a register of the present view to this agent's."""
        if theirs is not self._flooding.register:
            merged = self._flooding.register.merge(theirs)
            self._flooding.replace(theirs if merged == theirs else merged)
        self._conclude()

    def complete(self, reason: str) -> None:
        """The last round of the view is complete: the result waits for the others."""
        state = self._state
        state.completed = state.unsaved = True
        self._completed[self.view] = CompletedView(reason, self._mass.estimate, state.round)
        self._messenger.relies_on_snapshot = True
        self._flooding.count(anew=True)
        self._flooding.mark(finished=self._flooding.me)
        self._conclude()

    def _conclude(self) -> None:
        """All of the component have completed the view: the result is there."""
        found, inside = self._flooding.register, self.component
        if self._waits and not self._state.reason and not inside & ~found.finished:
            self._finish(found)

    def _concluded(self, link: Link, theirs: Register) -> bool:
        """Whether the others have a result in which this agent took part and which it does not have.

        It is that of another view, or of this one if the agent has lost the state in which it
        completed it.
        """
        if not self._waits or self._state.reason:
            return False
        if self._state.completed:
            # Others may have the result of the present view by now; if a neighbour in it has ended
            # in another one, nobody has and nobody will.
            elsewhere = theirs[:2] != self.view and not link.dropped
            if not (elsewhere and theirs.ended >> self._graph.index[link.peer] & 1):
                return False
        inside = self._graph.component(self._state.label, theirs.dropped)
        if inside & ~theirs.finished:
            return False
        self._flooding.begin_view(*theirs[:2])
        self._flooding.register = self._flooding.register.merge(theirs)
        self._finish(theirs)
        return True

    def _finish(self, register: Register) -> None:
        """End with what was complete in a view; without it, this agent lost it and is late."""
        done = self._completed.get(register[:2])
        if done is None:
            self._completion.finish("late", ())
        else:
            coverage = self._flooding.coverage(register)
            self._completion.finish(done.reason, done.estimate, coverage, done.round)

    def watch(self) -> None:
        """A period passed: who was not heard in it, and who has not been for too long?"""
        state, seconds = self._state, self.period
        if state.reason or state.leaving:
            return
        self._flooding.settled = self._watched
        self._watched = True
        self._since_count += seconds
        if self._since_count >= RECOUNT:
            self._since_count = 0.0
            self._flooding.count(anew=True)
        if not self._waits:
            return
        if self._met or state.round:
            for link in self._links.values():
                link.silent += seconds
        if lost := [link for link in self._links.values() if self._is_lost(link)]:
            dropped = self._flooding.register.dropped
            for link in lost:
                dropped |= self._graph.link(state.label, link.peer)
            names = some_names([link.peer for link in lost])
            text = f"{names} not heard for {max(map(self._silence, lost)):g} s"
            self._begin_view(self._flooding.register.generation, dropped, why=text)
        self._report(seconds)

    def _is_lost(self, link: Link) -> bool:
        """Whether a neighbour is not waited for any longer.

        Where the quorum is all and the rounds never began, it is, for ever if need be. Only the link
        to a member that is present, heard by others, is dropped then, if they stay connected.
        """
        if not link.awaited:
            return False
        manifest, begun = self._manifest, self._state.round > 0
        limit = manifest.lost_after if begun or link.heard else manifest.gathering
        if manifest.quorum == len(manifest.members) and not (begun or self._began):
            limit = manifest.lost_after
            peer = 1 << self._graph.index[link.peer]
            without = self._flooding.register.dropped | self._graph.link(
                self._state.label, link.peer
            )
            reached = self._graph.component(self._state.label, without) == self._graph.everyone
            if not (reached and self._flooding.register.present & peer):
                return False
        return self._silence(link) >= limit

    def _silence(self, link: Link) -> float:
        """For how many seconds a neighbour was not heard, at least: within a period it may be."""
        return max(link.silent - self.period, 0.0)

    def _begin_view(
        self, generation: int, dropped: int, source: Link | None = None, why: str = ""
    ) -> None:
        """Another view begins, by an own decision or that of a neighbour."""
        state = self._state
        for link in self._links.values():
            if link.session is SessionState.LEFT:  # what it handed over is undone
                dropped |= self._graph.all_links(link.peer)
        self._set_view(generation, dropped)
        count, quorum = self.component.bit_count(), self._manifest.quorum
        if count < max(quorum, min(2, len(self._manifest.members))):
            self._give_up(count, source, why)
        elif not self._graph.connected(state.label, dropped):
            self._end_without("quorum", "the links that are left do not reach everyone both ways")
        elif state.round and self._manifest.hides_neighbours:
            text = f"{why or 'a link was dropped'}; to begin anew would send the same noise again"
            self._end_without("quorum", f"{text}, which then protects nothing: no result")
        else:
            self._begin_anew(why)
        self._flooding.spread()

    def _set_view(self, generation: int, dropped: int) -> None:
        self._flooding.begin_view(generation, dropped)
        self._state.view, self._state.completed = view_id(generation, dropped), False
        for peer, link in self._links.items():
            link.enter_view(bool(dropped & self._graph.link(self._state.label, peer)))

    def _begin_anew(self, why: str) -> None:
        """Begin the rounds of a new view; in a new incarnation if mass was sent in the old one."""
        state, messenger = self._state, self._messenger
        dropped = self._flooding.register.dropped
        gone = self._graph.everyone & ~self.component
        without = f" without {some_names(self._graph.names(gone))}" if gone else ""
        if state.round:
            self._began = True
            state.incarnation += 1
            state.round = state.first_round = 0
            self._mass.begin_anew()
            messenger.renew()
            for link in self._links.values():
                link.renew()
                messenger.send_hello(link)
        state.unsaved = True
        if self._detector is not None:
            self._detector.begin_view(self._graph.depth(state.label, dropped))
        self._waited, self._due = 0.0, FIRST_REPORT
        text = f"{why or 'learned from a neighbour'}; the rounds begin anew{without}"
        messenger.report("view", text=text)
        self.restart()
        self._flooding.count()
        if any(link.session is SessionState.OPEN and link.awaited for link in self._links.values()):
            self._flooding.mark(present=self._flooding.me)

    def _give_up(self, count: int, source: Link | None, why: str) -> None:
        total, quorum = len(self._manifest.members), self._manifest.quorum
        if self._goes_on(source):
            assert source is not None
            text = (
                f"{source.peer} no longer waits for this member: it was not heard for too long, and "
                "the others went on without it; nothing more is released; use their estimate, or "
                "take part in the next epoch"
            )
            self._end_without("excluded", text)
        else:
            text = f"{count} of {total} members are connected and the quorum is {quorum}: no result"
            self._end_without("quorum", f"{why}; {text}" if why else text)

    def _goes_on(self, source: Link | None) -> bool:
        """Whether the neighbour that a view was learned from goes on without this agent."""
        if source is None or not source.dropped:
            return False
        theirs = self._graph.component(source.peer, self._flooding.register.dropped)
        return theirs.bit_count() >= max(self._manifest.quorum, 2)

    def _end_without(self, reason: str, text: str) -> None:
        self._messenger.report(reason, text=text)
        self._completion.finish(reason, ())

    def _report(self, seconds: float) -> None:
        """Say who is waited for: before the rounds once a minute, then at growing intervals."""
        state = self._state
        if state.reason:
            return
        self._waited += seconds
        if self._moved:
            self._moved, self._waited = False, 0.0
        if self._waited < self._due:
            return
        if not self.ready:
            self._due = self._waited + NEXT_REPORT
            missing = self.component & ~self._flooding.register.present & ~self._flooding.me
            self._messenger.report("gathering", text=self._who(missing))
        elif state.round:
            self._due = min(2 * self._waited, self._waited + 3600.0)
            lacking = [link for link in self._links.values() if self._lacks(link)]
            if lacking:
                names = some_names([self._described(link) for link in lacking])
                text = f"round {state.round} waits for {names}"
                self._messenger.report("deadline", text=text)
            elif state.completed:
                rest = self._graph.names(self.component & ~self._flooding.register.finished)
                text = f"the last round is complete; {some_names(rest)} have yet to complete it"
                self._messenger.report("deadline", text=text)

    def progress(self) -> None:
        """A round ended: nothing is waited for."""
        self._moved, self._due = True, self._options.deadline

    def _lacks(self, link: Link) -> bool:
        now = self._state.round
        if self._mass.clipped and link.in_round < now:
            return link.awaited and not link.has(now)
        return link.awaited and link.newest < now

    def _who(self, missing: int) -> str:
        names = []
        for label in self._graph.names(missing):
            link = self._links.get(label)
            names.append(label if link is None else self._described(link))
        closed = [self._described(k) for k in self._links.values() if self._not_joined(k)]
        if not names:
            return f"all members are present; waiting for the links to {some_names(closed)}"
        total = self.component.bit_count()
        return f"waiting for {len(names)} of {total} members: {some_names(names)}"

    def _described(self, link: Link) -> str:
        if link.session is SessionState.MISMATCHED:
            return f"{link.peer} (its manifest differs in {link.differs})"
        if not link.heard:
            return f"{link.peer} (never heard)"
        silence = self._silence(link)
        return f"{link.peer} (not heard for {silence:.0f} s)" if silence else link.peer
