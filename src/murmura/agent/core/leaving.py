"""Leaving for good: what is held is handed over to the neighbours in reach.

All of it goes to them, split by their shares, and again what comes since; when nothing is left and
all of them have heard so, the agent is done. After `Options.linger` seconds it is done in any case.

What was on its way to a neighbour that is down stays on the leaver's side of that link, and with
the leaver it is lost to the estimate; so is what such a neighbour had pushed to the leaver. Where
a push without fresh noise is ruled out, the leaver keeps all it holds.
"""

from __future__ import annotations

from murmura.agent import events as ev
from murmura.agent.core.link import Link
from murmura.agent.core.sessions import Sessions
from murmura.agent.messages import Totals


class Leaving(Sessions):
    """An agent that can leave, and sees others do so."""

    def _leave(self, _: ev.Leave) -> None:
        if self.reason or self.leaving:
            return
        self.leaving = True
        self._limit_leaving()
        self.take_rest()
        self._pass_on()

    def _limit_leaving(self) -> None:
        self._out.append(ev.SetTimer("leave", self.options.linger))

    def take_rest(self) -> None:
        """Take in the last that has come of every neighbour."""
        for link in self.links:
            if link.buffer:
                self.absorb(link, link.buffer[-1])

    def _pass_on(self) -> None:
        near = [link for link in self.links if self._reached(link)]
        self.round += 1
        if near and self._owns():
            self.give_all(near)
        self.dirty = True
        for link in near:
            self.tell(link)

    def _owns(self) -> bool:
        """Whether there is something to hand over, and it may be."""
        some = self.weight > 0 or (self.weight == 0 and any(self.sums))
        return some and not self.manifest.hides_neighbours

    def _hand_over(self) -> None:
        """Push what came since; done when nothing is left and everyone has heard so."""
        near = [link for link in self.links if self._reached(link)]
        if near and self._owns():
            self._pass_on()
        elif not any(map(self._in_doubt, self.links)) and (near or self._deserted()):
            self._depart()

    def _in_doubt(self, link: Link) -> bool:
        """Whether a neighbour may be reached and has not heard the last, also after a restart."""
        reached = not (link.down or link.closed or link.refused)
        return reached and link.peer_life > 0 and link.acked < self.round

    def _deserted(self) -> bool:
        """Whether nobody is left to hand over to, or nothing is."""
        return not self._owns() or all(link.closed for link in self.links)

    def _leave_now(self) -> None:
        """The time is up."""
        if self.leaving and not self.reason:
            self._depart()

    def _depart(self) -> None:
        """Say what could not be handed over, and be done."""
        parts = []
        if self._owns():
            parts.append(f"{self.weight / (1 << self.manifest.unit):.6g} of weight")
        missed = [k.peer for k in self.links if not k.closed and k.acked < self.round]
        if missed:
            parts.append(f"what {', '.join(missed)} did not hear of")
        if parts:
            text = f"could not be handed over and leaves with this agent: {' and '.join(parts)}"
            self.report("left", text=text)
        self.finish("left")

    def _farewell(self, link: Link, message: Totals, fresh: bool) -> None:
        """A neighbour has left for good: keep what it handed over and say so."""
        link.closed = True
        if fresh:
            self.absorb(link, message)
        self.tell(link)
        self._changed()
