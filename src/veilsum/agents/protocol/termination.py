"""Stopping together: all agents agree, by max and min consensus, that they agree.

With D the diameter and K = D + 1, a phase begins after every K-th round. An agent begins with the
range of its own estimate; whenever it has its neighbours' ranges of depth k it takes the hull with
its own and has depth k + 1. Depth D is the range over all agents, to the bit the same for everyone,
so all decide alike: if it is within the tolerance, stop after the round in which the phase ends,
and no agent proceeds past that round before its phase is over. A neighbour's range of a greater
depth serves as well: it is still a hull of first ranges.

The first range also covers the estimates of all mass that may still be on its way. What agents have
later is a mean of what they had or was on its way when the phase began, so without new readings it
stays within the range.

Where messages are lost, some may decide and others miss it. So the range that decided is stored as
it is and sent from then on, by every agent that found it or took it over: one that receives it
stops at its round or, if past that, at once. It is taken over only if the own estimate lies within
it, so a member that lies about it stops nobody who does not agree already; it can keep others
going. An agent that has stopped takes no part in later phases: the rest may agree without it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import RangeReport
from veilsum.agents.protocol.link import Link
from veilsum.agents.protocol.mass import Mass
from veilsum.agents.protocol.memory import AgentState, range_report
from veilsum.agents.protocol.states import SessionState
from veilsum.errors import AgentError
from veilsum.privacy.proofs import check_stopping

STORED = 64  # ranges of past rounds; older ones are merged
ROUNDING = 10  # bits below the tolerance: what rounding may move an estimate by
Range = tuple[tuple[int, ...], tuple[int, ...]]


class TerminationDetector:
    """One agent's part in agreeing when to stop.

    Parameters
    ----------
    manifest : Manifest
        With a tolerance.
    state, links, mass
        The parts whose estimate and acknowledgements it reads.

    Attributes
    ----------
    report : RangeReport
        What the agent's messages carry.
    over : bool
        Whether no phase is under way.

    Raises
    ------
    AgentError
        Under Network DP: a range is an estimate without noise.
    """

    def __init__(
        self, manifest: Manifest, state: AgentState, links: Sequence[Link], mass: Mass
    ) -> None:
        """No phase has begun."""
        check_stopping(manifest.protect, manifest.tolerance, AgentError)
        self._state, self._links, self._mass = state, links, mass
        self._unit = manifest.unit
        self.set_depth(manifest.diameter)
        scale = 1 << manifest.unit
        self.tolerance = int(manifest.tolerance * scale)
        self._unknown = scale << 64  # stands for the estimate of an agent without weight
        self.report = RangeReport()
        self.over = True
        self._past: deque[tuple[int, Range]] = deque()

    def set_depth(self, diameter: int) -> None:
        """Take the diameter of the view."""
        self.depth = max(diameter, 1)
        self.every = self.depth + 1

    def begin_view(self, diameter: int) -> None:
        """Begin anew in another view: no phase has begun."""
        self.set_depth(diameter)
        self.report, self.over = RangeReport(), True
        self._past.clear()

    def snapshot(self) -> list[Any]:
        """All of it, as JSON accepts it."""
        return [self.report, self.over, list(self._past)]

    def restore(self, read: list[Any]) -> None:
        """Take a `snapshot` back."""
        self.report, self.over = range_report(read[0]), read[1]
        self._past = deque((t, (tuple(low), tuple(high))) for t, (low, high) in read[2])

    def note(self, link: Link, report: RangeReport) -> str:
        """Store a neighbour's latest; say once why its decision to stop is not accepted."""
        before = link.range_report
        if report[:2] > before[:2] or report.stop > before.stop:
            link.range_report = report
        if not report.stop or self.adopt(link) or link.range_report is before:
            return ""
        return f"a stop at round {report.stop} whose range does not contain the estimate here"

    def adopt(self, link: Link) -> bool:
        """Whether it is decided that all stop, now perhaps by a neighbour's decision."""
        theirs = link.range_report
        if not self.report.stop and theirs.stop and self.decides(theirs) and self._contains(theirs):
            self.report, self.over = theirs, True
        return self.report.stop > 0

    def _contains(self, report: RangeReport) -> bool:
        """Whether a range contains the present estimate, except for rounding."""
        low, high = self._range()
        slack = (self.tolerance >> ROUNDING) + 2
        return all(a - slack <= b for a, b in zip(report.low, low, strict=True)) and all(
            b <= a + slack for a, b in zip(report.high, high, strict=True)
        )

    def passed(self, t: int, waiting: bool) -> bool:
        """Whether the round at which all stop is past."""
        stop = self.report.stop
        return stop > 0 and (t > stop or (t == stop and not waiting))

    def decides(self, report: RangeReport) -> bool:
        """Whether a report is a whole phase whose range is within the tolerance."""
        whole = report.depth == self.depth and report.stop == (report.phase + 1) * self.every
        return whole and self._near(report)

    def _near(self, report: RangeReport) -> bool:
        pairs = zip(report.low, report.high, strict=True)
        return all(high - low <= self.tolerance for low, high in pairs)

    def phase_start(self, t: int) -> int:
        """The last round up to t after which a phase begins."""
        return t // self.every * self.every

    def blocks(self, t: int) -> bool:
        """Whether round t is the last of a phase that is not over."""
        return not self.over and t >= (self.report.phase + 1) * self.every - 1

    def deepen(self) -> bool:
        """Take the hull with the neighbours' as often as they allow; whether it went deeper."""
        before = self.report.depth
        near = [link for link in self._links if not link.excluded]
        while not self.over:
            phase, depth = self.report.phase, self.report.depth
            if any(link.range_report.phase > phase for link in near):
                self.over = True  # a neighbour is past it and nobody decided to stop
            elif all(link.range_report[:2] >= (phase, depth) for link in near):
                self._deepen([link.range_report for link in near])
            else:
                break
        return self.report.depth > before

    def _deepen(self, near: list[RangeReport]) -> None:
        report = self.report
        low, high = _hull([(report.low, report.high), *((r.low, r.high) for r in near)])
        report = report._replace(depth=report.depth + 1, low=low, high=high)
        if report.depth == self.depth:
            self.over = True
            if self._near(report):
                report = report._replace(stop=(report.phase + 1) * self.every)
        self.report = report

    def ends(self) -> bool:
        """After the messages of a round: whether it was the last; begin a phase if one is due."""
        t = self._state.round
        self._store()
        for link in self._links:
            self.adopt(link)
        if self.report.stop:
            return t >= self.report.stop
        if t % self.every == 0:
            low, high = _hull([one for _, one in self._past])
            self.report, self.over = RangeReport(t // self.every, 0, low, high), False
        return False

    def _store(self) -> None:
        """Store the ranges from which mass may still be on its way."""
        now = self._state.round
        self._past.append((now, self._range()))
        stay = (
            k.acknowledged
            for k in self._links
            if not k.dropped and k.session is not SessionState.LEFT
        )
        oldest = min(stay, default=now)
        while len(self._past) > 1 and self._past[1][0] <= oldest:
            self._past.popleft()
        if len(self._past) > STORED:
            (t, one), (_, two) = self._past.popleft(), self._past.popleft()
            self._past.appendleft((t, _hull([one, two])))

    def _range(self) -> Range:
        sums, weight = self._mass.sums, self._mass.weight
        if weight <= 0:
            whole = (self._unknown,) * len(sums)
            return tuple(-value for value in whole), whole
        low = tuple((s << self._unit) // weight for s in sums)
        return low, tuple(value + 1 for value in low)


def _hull(ranges: list[Range]) -> Range:
    lows, highs = zip(*ranges, strict=True)
    return (
        tuple(min(values) for values in zip(*lows, strict=True)),
        tuple(max(values) for values in zip(*highs, strict=True)),
    )
