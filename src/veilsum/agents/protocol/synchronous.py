"""Rounds in common: the paper's algorithms, followed exactly while every message arrives in time.

Round t: send parts of S_{t-1}; wait for cumulative mass of round t or later from every awaited
neighbour, and for the own reading; receive, on each link, round t if it is there, else the last
earlier one (without a last round the first later one); add x_t. The own reading is waited for until
it comes, its slot ends (`SkipReading`) or there are no more.

With a last round, no round proceeds without a neighbour of the view (see `gathering`): the estimate
is that of a stated set of members. Without one a stream must not stop: after a deadline the round
proceeds without unresponsive neighbours, whose parts stay here until they answer again. A neighbour
that is behind but answers is awaited a while longer. An agent that is behind waits for none that is
ahead, and skips rounds if two neighbours are far ahead: one is not enough, for a false claim must
not hurry others. An agent that hears nobody waits: its own release is not the answer.

No noise, no mass: under Network DP a round without the own release never ends. Where rounds are clipped
(`Manifest.clip`), every member of the view has its release before round 1, or ends without a result
and is left out; and a round waits for the messages of that very round, which hold the other half of each
pair (see `mass`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veilsum.agents import conservation
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import CumulativeMass, RangeReport
from veilsum.agents.protocol import states
from veilsum.agents.protocol.completion import Completion
from veilsum.agents.protocol.flooding import Flooding
from veilsum.agents.protocol.gathering import Gathering
from veilsum.agents.protocol.link import Link
from veilsum.agents.protocol.mass import Mass
from veilsum.agents.protocol.memory import AgentState
from veilsum.agents.protocol.messenger import Messenger
from veilsum.agents.protocol.options import ONE, DoublingPause, Options
from veilsum.agents.protocol.states import ReachabilityEvent, SessionState
from veilsum.agents.protocol.termination import TerminationDetector

FAR = 3  # rounds behind that never happen while all messages arrive


class SynchronousSchedule:
    """Proceeds from round to round with the neighbours.

    Parameters
    ----------
    manifest, options : Manifest, Options
        The terms.
    state, links, mass, messenger, flooding, completion, gathering
        The parts that it works with.
    detector : TerminationDetector or None
        Where there is a tolerance.

    Attributes
    ----------
    waiting : bool
        Whether the mass of the present round was sent.
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
        completion: Completion,
        gathering: Gathering,
        detector: TerminationDetector | None,
    ) -> None:
        """Round 0."""
        self._manifest, self._options, self._state, self._links = manifest, options, state, links
        self._mass, self._messenger, self._completion = mass, messenger, completion
        self._flooding, self._gathering, self._detector = flooding, gathering, detector
        self._algorithm, self._waits = manifest.made_algorithm, manifest.waits
        self._clipped = mass.clipped
        self.waiting = False
        self._without = -1  # the round that proceeds without its own reading
        self._lacking: Link | None = None  # the first link that round t was found to wait for
        self._armed = (-1, False)  # where the agent was when the timers were set
        self._paced = -1  # the round in which a deadline passed
        self._stalled = 0  # deadlines passed in this round
        self._alone = DoublingPause(options.deadline)

    def snapshot(self) -> list[Any]:
        """Whether it waits, the round without a reading, and the detector."""
        detector = self._detector
        found = [self.waiting, self._without, None if detector is None else detector.snapshot()]
        return [*found, self._mass.snapshot()] if self._clipped else found

    def restore(self, read: list[Any]) -> None:
        """Take a `snapshot` back."""
        self.waiting, self._without, detector, *clipped = read
        if self._clipped:
            self._mass.restore(clipped[0])
        if self._detector is not None:
            self._detector.restore(detector)

    def begin(self) -> None:
        """Set the deadline and advance."""
        self._arm()
        self.advance()

    def restart(self) -> None:
        """Begin anew in another view; slots that ended without a reading have ended."""
        self.waiting, self._lacking, self._stalled = False, None, 0

    def skip(self, number: int) -> None:
        """The slot of a round ended without a reading."""
        if number > self._without:
            self._without, self._state.unsaved = number, True

    @property
    def marker(self) -> tuple[int, int, bool]:
        """Where the agent is: while this does not change, it is stuck."""
        return self._state.incarnation, self._state.round, self.waiting

    def _arm(self) -> None:
        self._armed = (self._state.round, self.waiting)
        self._messenger.set_timer("round", self._gathering.period)

    def note_range(self, link: Link, report: RangeReport) -> None:
        """Pass a neighbour's range report to the detector."""
        detector, size = self._detector, len(self._mass.sums)
        if detector is None or not len(report.low) == len(report.high) == size:
            return
        decided = detector.report.stop
        why = detector.note(link, report)
        if why and self._mass.weight > 0:
            self._messenger.reject(link.peer, why)
        if detector.report.stop != decided:
            self._lacking, self._state.unsaved = None, True

    def arrived(self, link: Link, message: CumulativeMass) -> None:
        """Buffer cumulative mass of a later round, and advance if the round waited for it."""
        link.keep(message, self._options.buffer)
        self.buffered()

    def arrived_next(self, link: Link, message: CumulativeMass) -> None:
        """Buffer a message that continues its link; `buffered` follows the last of several."""
        if message[5] > link.acknowledged:
            link.acknowledged = message[5]
        link.silent = 0.0
        if link.buffer:
            link.keep(message, self._options.buffer)
        else:
            link.buffer.append(message)
            link.newest = message[4]

    def buffered(self) -> None:
        """Messages were buffered: advance if the round waited for them."""
        lacking = self._lacking
        if (
            lacking is None
            or lacking.newest >= self._state.round
            or not (self.waiting and lacking.awaited)
        ):
            self.advance()  # otherwise the round still waits for another neighbour

    def advance(self) -> None:
        """Proceed as far as what has arrived allows."""
        state, detector = self._state, self._detector
        before = not (state.completed or (self._clipped and state.round))
        if not self._algorithm.online and self._mass.pending and before:
            self._mass.enter()
            self._flooding.count()
        while not (state.reason or state.leaving or state.completed):
            if detector is not None and detector.passed(state.round, self.waiting):
                self._mass.receive_buffered()
                self._finish("tolerance")
            elif self.waiting:
                if not self._complete():
                    break
                self._end_round()
            elif self._ready():
                self._begin_round()
            else:
                break
        if state.leaving and not state.reason:
            self._completion.hand_over()

    def _ready(self) -> bool:
        """Whether round t+1 may begin: sessions are open, and the first release is there."""
        online = self._algorithm.online or self._state.round > 0
        if self._waits:
            if not self._gathering.ready:
                return False
            for link in self._links:
                if link.awaited and link.session is not SessionState.OPEN:
                    return False
            return online or self._supplied(0, self._mass.entered > 0)
        heard = False
        for link in self._links:
            if link.awaited:
                if link.session is SessionState.OPENING:
                    return False
                heard = True
        if not heard and self._completion.late:
            self._completion.finish("late")
        if not heard and (self._state.reason or not self._accompanied(self._state.round + 1)):
            return False
        return online or self._supplied(0, self._mass.entered > 0)

    def _supplied(self, due: int, there: bool) -> bool:
        """Whether the reading due is there, or the round proceeds without it."""
        if there:
            return True
        passed = self._without >= due
        if not (self._manifest.hides_neighbours or self._clipped):
            return self._state.exhausted or passed
        if self._state.exhausted or (self._clipped and passed):
            self._completion.finish("readings")
        return False

    def _complete(self) -> bool:
        """Whether all that round t waits for has arrived."""
        t = self._state.round
        for link in self._links:
            if link.awaited and (link.newest < t or (self._clipped and not link.has(t))):
                self._lacking = link
                return False
        if not self._accompanied(t) or (self._detector is not None and not self._agreed()):
            return False
        if not self._algorithm.online:
            return self._may_hurry()
        there = self._mass.entered >= t or t in self._mass.pending
        return (there or self._may_hurry()) and self._supplied(t, there)

    def _accompanied(self, t: int) -> bool:
        """Whether a neighbour takes part in round t or was ahead of it, or all have left."""
        if self._waits:
            return True
        for link in self._links:
            if link.may_send or (link.newest >= t and link.session in states.ESTABLISHED):
                return True
        return all(link.session is SessionState.LEFT for link in self._links)

    def _may_hurry(self) -> bool:
        """Whether a round without a reading need not take until the deadline.

        It must only where all neighbours have left and no last round is set.
        """
        if self._manifest.rounds or self._paced >= self._state.round:
            return True
        return not all(link.session is SessionState.LEFT for link in self._links)

    def _begin_round(self) -> None:
        state = self._state
        state.round = self._latest() + 1
        self.waiting = True
        self._stalled = 0
        fraction = conservation.sent_fraction(self._algorithm, state.round)
        self._mass.send(round(fraction * 2**ONE), self._options.patience)
        state.unsaved = True
        self._messenger.send_mass_to_all(self._links)

    def _latest(self) -> int:
        """The round to continue from: the present one, or later if the neighbours are far ahead."""
        now, detector = self._state.round, self._detector
        if self._waits:
            return now
        near = now + FAR
        for link in self._links:
            if link.newest >= near:
                break
        else:
            return now
        second = sorted(link.newest for link in self._links)[-2:][0]
        if second < near or self._manifest.hides_neighbours:
            return now
        target = second - 1 if detector is None else detector.phase_start(second) - 1
        return max(now, target)

    def _end_round(self) -> None:
        t, mass, detector = self._state.round, self._mass, self._detector
        never_later = self._waits or mass.bounded  # else the last round may find all mass received
        for link in self._links:
            buffer = link.buffer
            if self._clipped:
                if link.awaited:
                    mass.settle(link, buffer[0])
            elif buffer:
                if buffer[0][4] == t:
                    mass.receive(link, buffer[0])
                elif not never_later or buffer[0][4] < t:
                    mass.receive(link, link.due(t, never_later))
        if self._algorithm.online and mass.pending:
            mass.enter(t)
            self._flooding.count()
        if mass.bounded:
            mass.level(t)
        if self._state.mixed_since < 0 and all(link.newest <= t + 1 for link in self._links):
            self._state.in_step()  # before, it went after the others
        self.waiting = False
        self._messenger.report("round")
        self._gathering.progress()
        if detector is not None and detector.ends():
            self._finish("tolerance")
        elif t == self._manifest.rounds:
            self._finish("rounds")

    def _finish(self, reason: str) -> None:
        """The last round is complete; with a stated set of members, the result waits for theirs."""
        if self._waits:
            self._gathering.complete(reason)
        else:
            self._completion.finish(reason)

    def _agreed(self) -> bool:
        """Whether the phase that ends in this round is over; until then, send what is new."""
        detector = self._detector
        assert detector is not None
        deeper = detector.deepen()
        if not detector.blocks(self._state.round) or self._stalled >= self._options.patience:
            return True
        if any(not (link.excluded or link.awaited) for link in self._links):
            return True  # an unresponsive neighbour cannot agree: nobody stops in this phase
        if deeper:
            self._state.unsaved = True
            self._messenger.send_mass_to_all(self._links)
        return False

    def timer(self, timer: str) -> None:
        """The deadline of a round passed."""
        if timer != "round" or self._state.reason:
            return
        if not self._state.leaving:
            stuck = self._armed == (self._state.round, self.waiting)
            self._stalled += stuck
            if stuck and not self._waits:
                self._give_up()
        self._gathering.watch()
        self.advance()
        for link in self._links:
            link.on(ReachabilityEvent.DEADLINE_OVER)
        self._arm()

    def _give_up(self) -> None:
        """Proceed without the neighbours that are missing."""
        now = self._paced = self._state.round
        late = [link for link in self._links if link.awaited and self._missing(link)]
        patient = self._stalled < self._options.patience
        event = ReachabilityEvent.DEADLINE_MISSED
        for link in late:
            link.on(event if patient else ReachabilityEvent.PATIENCE_EXHAUSTED)
        silent = [link.peer for link in late if not link.awaited]
        if not self._accompanied(now + (not self.waiting)):
            if self._alone.passed(self._options.deadline):
                text = f"no neighbour sends its part; round {now} waits for one"
                self._messenger.report("alone", text=text)
            return
        self._alone.reset()
        if silent:
            names = ", ".join(silent)
            self._messenger.report("deadline", text=f"round {now} proceeds without {names}")

    def _missing(self, link: Link) -> bool:
        behind = self.waiting and link.newest < self._state.round
        return link.session is SessionState.OPENING or behind

    def resend(self, stuck: bool) -> None:
        """Stuck since the last time: repeat the last message to all that may have missed it.

        With a last round it is repeated to all neighbours: it says that this agent is there.
        """
        if not stuck or self._state.leaving or not (self.waiting or self._waits):
            return
        for link in self._links:
            if link.in_reach and (self._waits or link.newest <= self._state.round):
                self._messenger.send_mass(link)
