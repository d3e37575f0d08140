"""What every core does: begin, take in what it is told, and end.

An agent holds S = X + sum_j rho_j - sum_j sigma_j: what it released, what it saw from its
neighbours and what it pushed to them, in whole units, so that the totals over all agents are
those of the releases to the bit. `handle` takes one event and gives the actions that follow; if
any message among them tells of something new, the first action is to persist it.
"""

from __future__ import annotations

from typing import Any

from murmura.agent import events as ev
from murmura.agent.core import state
from murmura.agent.core.leaving import Leaving
from murmura.agent.core.link import Link
from murmura.agent.core.options import Options
from murmura.agent.manifest import Manifest
from murmura.agent.messages import Extremes, Totals

MOST_LINGER = 5.0  # seconds between two last words, at most


class Core(Leaving):
    """One agent's behaviour; `Rounds` and `Ticks` say when it pushes and takes in.

    `Core(manifest, label)` makes the one that the manifest asks for.
    """

    def __new__(cls, manifest: Manifest, *_: Any) -> Core:
        """A core with rounds in common, or with ticks of its own if asynchronous."""
        if cls is not Core:
            return super().__new__(cls)
        from murmura.agent.core import rounds, ticks

        return object.__new__(ticks.Ticks if manifest.asynchronous else rounds.Rounds)

    def __init__(self, manifest: Manifest, label: str, options: Options | None = None) -> None:
        """An agent that has not started yet."""
        super().__init__(manifest, label, options or Options())
        self.exhausted = False  # no reading will come any more
        self.pause = self.options.resend
        self.lingered = 0.0
        self._does: dict[type[Any], Any] = {
            ev.Received: self._received,
            ev.Deadline: self._deadline,
            ev.Reading: self._reading,
            ev.PeerUp: self._peer_up,
            ev.PeerDown: self._peer_down,
            ev.Started: self._started,
            ev.Restarted: self._restarted,
            ev.NoMoreReadings: self._no_more,
            ev.Leave: self._leave,
        }

    def handle(self, event: ev.Event) -> list[ev.Action]:
        """Take one event in and give the actions that follow, to be carried out in order."""
        if self._mute:
            return []
        self._out, self._relies = [], False
        self._does[type(event)](event)
        if self._relies:
            self.dirty = False
            self._out.insert(0, ev.Persist(self))
        return self._out

    def to_bytes(self) -> bytes:
        """The state as it is now, for the ledger."""
        return state.encode(self)

    @property
    def settled(self) -> bool:
        """Whether it is done, and every neighbour in reach has heard the last of it."""
        if not self.reason or self.reason in ev.UNSAID:
            return bool(self.reason)
        return self.lingered >= self.options.linger or not any(map(self._unheard, self.links))

    def progress(self) -> list[Any]:
        """What the kind of core must remember besides, as JSON takes it."""
        raise NotImplementedError

    def proceed(self, read: list[Any]) -> None:
        """Take `progress` back."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Set timers and go on."""
        raise NotImplementedError

    def _timer(self, timer: str) -> None:
        """A timer of its own ran out."""
        raise NotImplementedError

    def _note(self, link: Link, extremes: Extremes) -> None:
        """A neighbour's extremes came."""

    def _started(self, event: ev.Started) -> None:
        self.life = event.life
        self.recall(event)
        if self.life > 1 and self.manifest.hides_neighbours:
            self._stay_away()
        else:
            self._resume(event.released)

    def _stay_away(self) -> None:
        """Where neighbours are hidden too, releases serve one life.

        A second life would push the same noise over other estimates: the difference of the two
        lives is without noise.
        """
        text = (
            f"life {self.life} would send the noise of an earlier life again, which then hides "
            "nothing; nothing is sent; a new ledger with a budget of its own is needed"
        )
        self.report("readings", text=text)
        self.finish("readings")
        self._mute = True

    def _restarted(self, event: ev.Restarted) -> None:
        self.life = event.life
        self.recall(event)
        state.restore(self, event.life, event.state)
        self.began = self.round
        self.report("resumed", text=f"life {self.life}, round {self.round}")
        self._resume(event.released)
        if self.reason:
            self._out.append(ev.Done(self.round, self.estimate, self.reason))

    def _resume(self, released: tuple[ev.Released, ...]) -> None:
        for one in released:
            self.offer(one)
        for link in self.links:
            self._greet(link)
        self._out.append(ev.SetTimer("resend", self.options.resend))
        if self.leaving and not self.reason:
            self._limit_leaving()
        self._begin()

    def _reading(self, event: ev.Reading) -> None:
        self.offer(event.released)
        self._changed()

    def _no_more(self, _: ev.NoMoreReadings) -> None:
        self.exhausted = True
        self._changed()

    @property
    def late(self) -> bool:
        """Whether all others were done before this agent had anything of them, or without it."""
        done = [link for link in self.links if link.done]
        if not done or any(link.buffer or link.waited for link in self.links):
            return False
        if not any(link.in_weight for link in self.links):
            return True
        behind = any(link.newest > self.round for link in done)
        return not behind and all(link.done or link.closed for link in self.links)

    def _told(self, link: Link, message: Totals) -> None:
        """Totals of the present session."""
        fresh = message.round > link.in_round
        if fresh:
            why = link.wrong(message, self.limits, self.round)
            if why:
                self.reject(link.peer, f"totals of round {message.round}: {why}")
                return
        if not link.open:
            self.opened(link)
            if self.round:
                self.tell(link)
        if message.done:
            link.done = True
        if message.heard > link.acked:
            link.acked = message.heard
        if message.extremes.phase:
            self._note(link, message.extremes)
        if (link.silent or link.down) and (message.round > link.newest or self.alone):
            self.awake(link)
            self.tell(link)
        if message.bye:
            self._farewell(link, message, fresh)
        elif self.reason or self.leaving:
            if fresh:
                self.absorb(link, message)
            self._afterwards(link, message, fresh)
        elif fresh:
            self._arrived(link, message)
        else:
            link.repeated += 1
            self._changed()

    def finish(self, reason: str) -> None:
        """Say that the estimate is there; from now on nothing more is pushed."""
        estimate = self.estimate
        if reason == "late" and not any(link.in_weight for link in self.links):
            estimate = ()  # it would be its own release
        self.reason, self.result, self.dirty = reason, estimate, True
        self._out.append(ev.Done(self.round, estimate, reason))
        if reason not in ev.UNSAID:
            for link in self.links:
                if self._reached(link):
                    self.tell(link)

    def _afterwards(self, link: Link, message: Totals, fresh: bool) -> None:
        """Answer who has not heard the last, or told something new; answers end that way."""
        if self.leaving and not self.reason:
            self._hand_over()
        elif fresh or message.heard < self.round:
            self.tell(link)

    def _deadline(self, event: ev.Deadline) -> None:
        if event.timer == "leave":
            self._leave_now()
        elif event.timer != "resend":
            self._timer(event.timer)
        elif self.reason:
            self._linger()
        else:
            self._resend()
            self._out.append(ev.SetTimer("resend", self.options.resend))

    def _resend(self) -> None:
        """Say the last again where something is amiss."""
        for link in self.links:
            link.warned = False
            if not (link.down or link.closed or link.refused):
                if not link.open:
                    self._hello(link)
                elif self.leaving and self._unheard(link):
                    self.tell(link)

    def _linger(self) -> None:
        if self.lingered < self.options.linger and self.reason != "left":
            for link in self.links:
                link.warned = False
                if self._unheard(link):
                    self.tell(link)
            self.pause = min(2 * self.pause, MOST_LINGER)
            self.lingered += self.pause
            self._out.append(ev.SetTimer("resend", self.pause))
