"""Stopping together: all agents agree, by max and min consensus, that they agree.

With D the diameter and K = D + 1, a phase begins after every K-th round. An agent begins with the
range of its own estimate; whenever it has its neighbours' ranges of depth k it takes the hull with
its own and has depth k + 1. Depth D is the range over all agents, to the bit the same for
everyone, so all decide alike: if it is within the tolerance, stop after the round in which the
phase ends, and nobody goes past that round before its phase is over. A neighbour's range of a
greater depth serves as well: it is still a hull of first ranges.

The first range also covers the estimates of all pushes that may still be on their way. What
agents hold later is a mean of what was held or on its way when the phase began, so without new
readings it stays within the range. Extremes are taken on trust: a member that lies about them can
stop the others early or keep them going, as it can by lying about its readings.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from murmura.agent.core.link import Link
from murmura.agent.core.state import extremes as read_extremes
from murmura.agent.manifest import Manifest
from murmura.agent.messages import Extremes

if TYPE_CHECKING:
    from murmura.agent.core.rounds import Rounds

KEPT = 64  # ranges of past rounds; older ones are merged
Range = tuple[tuple[int, ...], tuple[int, ...]]


class Phases:
    """One agent's part in agreeing when to stop."""

    def __init__(self, diameter: int, tolerance: int, unknown: int) -> None:
        """No phase has begun."""
        self.depth = max(diameter, 1)
        self.every = self.depth + 1
        self.tolerance = tolerance
        self.unknown = unknown  # stands for the estimate of who has no weight
        self.said = Extremes()
        self.over = True
        self.past: deque[tuple[int, Range]] = deque()

    @classmethod
    def of(cls, manifest: Manifest) -> Phases | None:
        """Phases for a manifest with a tolerance; none without."""
        if not manifest.tolerance:
            return None
        scale = 1 << manifest.unit
        return cls(manifest.diameter, int(manifest.tolerance * scale), scale << 64)

    def progress(self) -> list[Any]:
        """All of it, as JSON takes it."""
        return [self.said, self.over, list(self.past)]

    def proceed(self, read: list[Any]) -> None:
        """Take `progress` back."""
        self.said, self.over = read_extremes(read[0]), read[1]
        self.past = deque((t, (tuple(low), tuple(high))) for t, (low, high) in read[2])

    def note(self, link: Link, extremes: Extremes) -> None:
        """Keep a neighbour's latest, and its word that all stop."""
        if extremes[:2] > link.extremes[:2] or extremes.stop > link.extremes.stop:
            link.extremes = extremes
        if extremes.stop and not self.said.stop and self._claims(extremes):
            self.said = self.said._replace(stop=extremes.stop)
            self.over = True

    def _claims(self, extremes: Extremes) -> bool:
        whole = extremes.depth == self.depth and extremes.stop == (extremes.phase + 1) * self.every
        return whole and self._near(extremes)

    def _near(self, extremes: Extremes) -> bool:
        pairs = zip(extremes.low, extremes.high, strict=True)
        return all(high - low <= self.tolerance for low, high in pairs)

    def start(self, t: int) -> int:
        """The last round up to t after which a phase begins."""
        return t // self.every * self.every

    def gate(self, t: int) -> bool:
        """Whether round t is the last of a phase that is not over."""
        return not self.over and t >= (self.said.phase + 1) * self.every - 1

    def step(self, links: list[Link]) -> bool:
        """Take the hull with the neighbours' as often as they allow; whether it went deeper."""
        before = self.said.depth
        near = [link for link in links if not link.closed]
        while not self.over:
            phase, depth = self.said.phase, self.said.depth
            if any(link.extremes.phase > phase for link in near):
                self.over = True  # a neighbour is past it and nobody said stop
            elif all(link.extremes[:2] >= (phase, depth) for link in near):
                self._deepen([link.extremes for link in near])
            else:
                break
        return self.said.depth > before

    def _deepen(self, near: list[Extremes]) -> None:
        said = self.said
        low, high = _hull([(said.low, said.high), *((e.low, e.high) for e in near)])
        said = said._replace(depth=said.depth + 1, low=low, high=high)
        if said.depth == self.depth:
            self.over = True
            if self._near(said):
                said = said._replace(stop=(said.phase + 1) * self.every)
        self.said = said

    def ends(self, core: Rounds) -> bool:
        """After taking in a round: whether it was the last; begin a phase if one is due."""
        t = core.round
        self._remember(core)
        if self.said.stop:
            return t >= self.said.stop
        if t % self.every == 0:
            low, high = _hull([one for _, one in self.past])
            self.said, self.over = Extremes(t // self.every, 0, low, high), False
        return False

    def _remember(self, core: Rounds) -> None:
        """Keep the ranges from which pushes may still be on their way."""
        self.past.append((core.round, self._range(core)))
        oldest = min((link.acked for link in core.links if not link.closed), default=core.round)
        while len(self.past) > 1 and self.past[1][0] <= oldest:
            self.past.popleft()
        if len(self.past) > KEPT:
            (t, one), (_, two) = self.past.popleft(), self.past.popleft()
            self.past.appendleft((t, _hull([one, two])))

    def _range(self, core: Rounds) -> Range:
        if core.weight <= 0:
            whole = (self.unknown,) * len(core.sums)
            return tuple(-value for value in whole), whole
        shift, weight = core.manifest.unit, core.weight
        low = tuple((s << shift) // weight for s in core.sums)
        return low, tuple(value + 1 for value in low)


def _hull(ranges: list[Range]) -> Range:
    lows, highs = zip(*ranges, strict=True)
    return (
        tuple(min(values) for values in zip(*lows, strict=True)),
        tuple(max(values) for values in zip(*highs, strict=True)),
    )
