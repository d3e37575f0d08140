"""Rounds in common: the paper's laws, kept exactly while every message comes in time.

Round t: push shares of S_{t-1}; wait for totals of round t or later from every neighbour that is
waited for, and for the own reading; take in, on each link, round t if it is there, else the first
later one; add x_t. After a deadline the round goes on without who is silent: their shares stay
here until they are heard again; who is behind but speaks is waited for a while longer. An agent
that is behind waits for nobody who is ahead, and skips rounds if two neighbours are far ahead: on
the word of one it does not, for a liar must not hurry others to the end. Who hears nobody waits,
for ever if need be: its own release is not the answer.

No noise, no push: where neighbours are hidden too, a round without the own release never ends.
"""

from __future__ import annotations

from typing import Any

from murmura.agent import sums
from murmura.agent.core.base import Core
from murmura.agent.core.link import Link
from murmura.agent.core.options import ONE, Options
from murmura.agent.core.stopping import Phases
from murmura.agent.events import Report, SetTimer
from murmura.agent.manifest import Manifest
from murmura.agent.messages import Extremes, Totals

FAR = 3  # rounds behind that never happen while all goes well


class Rounds(Core):
    """A core that goes from round to round with its neighbours."""

    def __init__(self, manifest: Manifest, label: str, options: Options | None = None) -> None:
        """An agent at round 0."""
        super().__init__(manifest, label, options)
        self.law = manifest.made_law
        self.waiting = False  # has pushed in this round
        self.without = -1  # the round that goes on without its own reading
        self.phases = Phases.of(manifest)
        self._lacks: Link | None = None  # the first link that round t was found to wait for
        self._told_extremes = Extremes()
        self._armed = (-1, False)  # where the agent was when the timers were set
        self._seen = (-1, False)
        self._stalled = 0

    def progress(self) -> list[Any]:
        """Whether it waits, for which reading it does not, and its extremes."""
        return [self.waiting, self.without, self.phases and self.phases.progress()]

    def proceed(self, read: list[Any]) -> None:
        """Take `progress` back."""
        self.waiting, self.without, phases = read
        if self.phases is not None:
            self.phases.proceed(phases)

    def _begin(self) -> None:
        self._arm()
        self._changed()

    def _arm(self) -> None:
        self._armed = (self.round, self.waiting)
        self._out.append(SetTimer("round", self.options.deadline))

    def _extremes(self) -> Extremes:
        return self.phases.said if self.phases is not None else self._told_extremes

    def _note(self, link: Link, extremes: Extremes) -> None:
        if self.phases is not None and len(extremes.low) == len(extremes.high) == len(self.sums):
            decided = self.phases.said.stop
            why = self.phases.note(self, link, extremes)
            if why and self.weight > 0:
                self.reject(link.peer, why)
            if self.phases.said.stop != decided:
                self._lacks, self.dirty = None, True

    def _arrived(self, link: Link, message: Totals) -> None:
        link.keep(message, self.options.buffer)
        lacks, t = self._lacks, self.round
        if lacks is None or lacks.newest >= t or not (self.waiting and lacks.waited):
            self._changed()  # otherwise the round waits for another one yet

    def _changed(self) -> None:
        """Go on as far as what is there allows."""
        if not self.law.online and self.pending:
            self.enter()
        while not (self.reason or self.leaving):
            if self.phases is not None and self.phases.passed(self.round, self.waiting):
                self.take_rest()
                self.finish("tolerance")
            elif self.waiting:
                if not self._complete():
                    break
                self._take_in()
            elif self._ready():
                self._push()
            else:
                break
        if self.leaving and not self.reason:
            self._hand_over()

    def _ready(self) -> bool:
        """Whether round t+1 may begin: sessions are open, and the first release is there."""
        heard = False
        for link in self.links:
            if link.waited:
                if not link.open:
                    return False
                heard = True
        if not heard and self.late:
            self.finish("late")
        if not heard and (self.reason or not self._accompanied(self.round + 1)):
            return False
        return self.law.online or self.round > 0 or self._supplied(0, self.entered > 0)

    def _supplied(self, due: int, there: bool) -> bool:
        """Whether the reading due is there, or the round goes on without."""
        if there:
            return True
        if not self.manifest.hides_neighbours:
            return self.exhausted or self.without >= due
        if self.exhausted:
            self.finish("readings")
        return False

    def _complete(self) -> bool:
        """Whether all that round t waits for has come."""
        t = self.round
        for link in self.links:
            if link.newest < t and link.waited:
                self._lacks = link
                return False
        if not self._accompanied(t) or (self.phases is not None and not self._agreed()):
            return False
        there = self.law.online and (self.entered >= t or t in self.pending)
        if not there and not self._hurries():
            return False
        return not self.law.online or self._supplied(t, there)

    def _accompanied(self, t: int) -> bool:
        """Whether somebody takes part in round t or was ahead of it, or all have left for good."""
        for link in self.links:
            if link.open and (link.newest >= t or link.waited):
                return True
        return all(link.closed for link in self.links)

    def _hurries(self) -> bool:
        """Whether a round without a reading need not take until the deadline.

        Only where nobody is left to come back and no end is near it does.
        """
        if self.manifest.rounds or self.without >= self.round:
            return True
        return not all(link.closed for link in self.links)

    def _push(self) -> None:
        self.round = self._skipped() + 1
        self.waiting = True
        self._stalled = 0
        self.push(round(sums.passed(self.law, self.round) * 2**ONE))
        self.dirty = True
        for link in self.links:
            if self._reached(link):
                self.tell(link)

    def _skipped(self) -> int:
        """The round to go on from: the present one, or later if the neighbours are far ahead."""
        near = self.round + FAR
        for link in self.links:
            if link.newest >= near:
                break
        else:
            return self.round
        second = sorted(link.newest for link in self.links)[-2:][0]
        if second < near or self.manifest.hides_neighbours:
            return self.round
        target = second - 1 if self.phases is None else self.phases.start(second) - 1
        return max(self.round, target)

    def _take_in(self) -> None:
        t = self.round
        for link in self.links:
            if link.buffer and not (self.bounded and link.buffer[0].round > t):
                self.absorb(link, link.due(t, self.bounded))
        if self.law.online and self.pending:
            self.enter(t)
        if self.bounded:
            self.level(t)
        self.waiting = False
        estimate = self.estimate
        self._out.append(Report("round", t, "", "", estimate))
        if self.phases is not None and self.phases.ends(self):
            self.finish("tolerance")
        elif t == self.manifest.rounds:
            self.finish("rounds")

    def _agreed(self) -> bool:
        """Whether the phase that ends in this round is over; while it is not, say what is new."""
        phases = self.phases
        assert phases is not None
        deeper = phases.step(self.links)
        if not phases.gate(self.round) or self._stalled >= self.options.patience:
            return True
        if any(not (link.absent or link.waited) for link in self.links):
            return True  # who cannot be heard cannot agree: nobody stops in this phase
        if deeper:
            self.dirty = True
            for link in self.links:
                if self._reached(link):
                    self.tell(link)
        return False

    def _timer(self, timer: str) -> None:
        if timer != "round" or self.reason:
            return
        if self._armed == (self.round, self.waiting) and not self.leaving:
            self._stalled += 1
            self._give_up()
            self._changed()
        for link in self.links:
            link.stirred = False
        self._arm()

    def _give_up(self) -> None:
        """The deadline passed: go on without who and what is missing."""
        if self.cleared:  # before, no reading could be released
            self.without = self.round
        late = [link for link in self.links if link.waited and self._missing(link)]
        if self._stalled < self.options.patience:
            late = [link for link in late if not link.stirred]
        for link in late:
            link.silent = True
        if not self._accompanied(self.round + (not self.waiting)):
            self.report("alone", text=f"no neighbour is heard; round {self.round} waits")
        elif late:
            names = ", ".join(link.peer for link in late)
            self.report("deadline", text=f"round {self.round} goes on without {names}")

    def _missing(self, link: Link) -> bool:
        return not link.open or (self.waiting and link.newest < self.round)

    def _resend(self) -> None:
        """Stuck since the last time: say the last again to all who may have missed it."""
        super()._resend()
        if self._seen == (self.round, self.waiting) and self.waiting and not self.leaving:
            for link in self.links:
                if self._reached(link) and link.newest <= self.round:
                    self.tell(link)
        self._seen = (self.round, self.waiting)
