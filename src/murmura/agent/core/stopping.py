"""Stopping together: all agents agree, by max and min consensus, that they agree.

With D the diameter and K = D + 1, a phase begins after every K-th round. An agent begins with the
range of its own estimate; whenever it has its neighbours' ranges of depth k it takes the hull with
its own and has depth k + 1. Depth D is the range over all agents, to the bit the same for
everyone, so all decide alike: if it is within the tolerance, stop after the round in which the
phase ends, and nobody goes past that round before its phase is over. A neighbour's range of a
greater depth serves as well: it is still a hull of first ranges.

The first range also covers the estimates of all pushes that may still be on their way. What
agents hold later is a mean of what was held or on its way when the phase began, so without new
readings it stays within the range.

Where messages fail, some may decide and others miss it. So the range that decided is kept as it
is and said from then on, by whoever found it and by whoever took it over: who hears it stops at
its round or, if past that, at once. It is taken over only if the own estimate lies within it, so
a member that lies about it stops nobody who does not agree already; it can keep others going.
Who has stopped takes no part in later phases: those who are left may agree without it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from murmura.agent.core.link import Link
from murmura.agent.core.state import extremes as read_extremes
from murmura.agent.manifest import Manifest
from murmura.agent.messages import Extremes
from murmura.errors import AgentError
from murmura.privacy import check_stopping

if TYPE_CHECKING:
    from murmura.agent.core.rounds import Rounds

KEPT = 64  # ranges of past rounds; older ones are merged
ROUNDING = 10  # bits below the tolerance: what rounding may move an estimate by
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
        check_stopping(manifest.protect, manifest.tolerance, AgentError)
        scale = 1 << manifest.unit
        return cls(manifest.diameter, int(manifest.tolerance * scale), scale << 64)

    def progress(self) -> list[Any]:
        """All of it, as JSON takes it."""
        return [self.said, self.over, list(self.past)]

    def proceed(self, read: list[Any]) -> None:
        """Take `progress` back."""
        self.said, self.over = read_extremes(read[0]), read[1]
        self.past = deque((t, (tuple(low), tuple(high))) for t, (low, high) in read[2])

    def note(self, core: Rounds, link: Link, extremes: Extremes) -> str:
        """Keep a neighbour's latest; say once why its word that all stop is not taken."""
        before = link.extremes
        if extremes[:2] > before[:2] or extremes.stop > before.stop:
            link.extremes = extremes
        if not extremes.stop or self.adopt(core, link) or link.extremes is before:
            return ""
        return f"a stop at round {extremes.stop} whose range does not hold the estimate here"

    def adopt(self, core: Rounds, link: Link) -> bool:
        """Whether it is decided that all stop, now perhaps by what a neighbour said."""
        said = link.extremes
        if not self.said.stop and said.stop and self._claims(said) and self._holds(core, said):
            self.said, self.over = said, True
        return self.said.stop > 0

    def _holds(self, core: Rounds, extremes: Extremes) -> bool:
        """Whether a range holds the present estimate, but for rounding."""
        low, high = self._range(core)
        slack = (self.tolerance >> ROUNDING) + 2
        return all(a - slack <= b for a, b in zip(extremes.low, low, strict=True)) and all(
            b <= a + slack for a, b in zip(extremes.high, high, strict=True)
        )

    def passed(self, t: int, waiting: bool) -> bool:
        """Whether the round at which all stop lies behind."""
        stop = self.said.stop
        return stop > 0 and (t > stop or (t == stop and not waiting))

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
        near = [link for link in links if not link.absent]
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
        for link in core.links:
            self.adopt(core, link)
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
