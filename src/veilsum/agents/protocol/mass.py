"""An agent's mass and how it moves: integers that are only ever passed on.

S = X + sum rho - sum sigma is updated as it changes; `recount` computes it anew.

Where neighbours' estimates are protected (Network DP), an agent has a weight of at most t after its
round t, and what arrived beyond that waits aside, outside its estimate, until there is room. The
noise of a round is calibrated for a neighbour's estimate S/w that moves by 1 and so moves S by w; a
part a_ij p of it, p = 1/(t-1), arrives at agent i, whose noise covers a_ij. So w <= t - 1 is needed
when the mass of round t is sent. While all messages arrive in time w = t - 1. Without the bound,
totals of several rounds that arrive at once, mass withheld from a silent neighbour, or a member that
sends weight it never had make w larger, and the round costs w/(t-1) epsilon. For the same reason an
agent that is behind receives nothing that its neighbours sent in rounds later than its own: the
noise of `learn` grows with the round.

Where there is no last round, a new incarnation undoes mixing: `AgentState.mixed_since` is the last
round up to which it is undone. So it is with an agent that starts late, in whose releases no earlier
round has mixed. It travels with the mass (`RangeReport.stop`, which is free where
nobody agrees on when to stop) and is taken over with it, by the maximum: an estimate that holds mass
of after a roll-back knows of it, and one that holds none is not affected. Nor does a round mix in
which an agent has more to send than its neighbours accept, or a negative weight and sends nothing.

Where the manifest has a radius (`clip`), the parts m_ij and m_ji that the ends of a link send in a round
are offers, which stay where they are until the round ends. Then i gains clip(m_ji - m_ij, R_ij) and j
the negative of it, with the same integer R_ij, so that the total is kept to the bit. Totals remain
those of all offers, so each message says the same whenever it is repeated; what was not gained is
counted apart: S = X + sum (rho - sigma - excess). That needs the pair of one round: a round ends with the
message of that very round from every neighbour. A neighbour is at most one round behind, because no round
ends without its message, so the message before the last is all that is ever asked for again
(`Messenger.send_mass`). All weights are equal in all rounds: each member of a view has one release, and
who leaves hands nothing over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from veilsum.agents.events import Released
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import CumulativeMass, RangeReport
from veilsum.agents.protocol.claims import Claims
from veilsum.agents.protocol.gaps import Gaps
from veilsum.agents.protocol.link import Link
from veilsum.agents.protocol.memory import AgentState
from veilsum.agents.protocol.options import ONE

ROUNDED = 4  # units of 2^-53: a part computed in floats is at most this much too large


class Mass:
    """(S, w) of one agent: sums and weight, in units of 2^-unit.

    Parameters
    ----------
    manifest : Manifest
        Sets the unit, the dimension and whether the weight is bounded.
    links : sequence of Link
        The neighbours, whose running totals are part of the balance.
    claims : Claims
        What neighbours accept.
    state : AgentState
        Is marked as unsaved when the mass changes.

    Attributes
    ----------
    sums, weight
        The mass itself: S and w.
    released_sums, released_weight
        X: all that this agent released and that has entered.
    aside_sums, aside_weight
        What waits aside under a bound.
    clipped : bool
        Whether no neighbour changes this agent by more than a radius in a round.
    entered : int
        The last reading in X; `skipped` are earlier ones that are not, `pending` those that wait.
    released : dict
        All releases by reading, where a new view may need them again.
    """

    def __init__(
        self, manifest: Manifest, links: Sequence[Link], claims: Claims, state: AgentState
    ) -> None:
        """No mass."""
        self._links, self._claims, self._state = links, claims, state
        algorithm = manifest.made_algorithm
        self._unit, self._online = manifest.unit, algorithm.online
        # A ratio algorithm has its own weights, and no guarantee for neighbours.
        self.bounded = manifest.hides_neighbours and not algorithm.ratio
        self.sums = [0] * manifest.dimension
        self.weight = 0
        self._before: tuple[list[int], int] | None = None  # what the last `send` sent from
        self.released_sums = [0] * manifest.dimension
        self.released_weight = 0
        self.aside_sums = [0] * manifest.dimension
        self.aside_weight = 0
        self.entered = 0
        self.skipped = Gaps()
        self.pending: dict[int, Released] = {}
        self._one_view = not manifest.waits  # else everyone begins anew where mixing is undone
        self._common = not manifest.asynchronous
        self._keeps = manifest.waits and not manifest.hides_neighbours
        self.clipped = manifest.clip > 0
        self._radii = manifest.radii(state.label) if self.clipped else {}
        self.released: dict[int, Released] = {}

    @property
    def readings(self) -> int:
        """How many readings are in X."""
        return self.released_weight >> self._unit

    def begin_anew(self) -> None:
        """No mass, and every release enters again; the links' totals are 0 as well."""
        size = len(self.sums)
        self.sums, self.released_sums, self.aside_sums = [0] * size, [0] * size, [0] * size
        self.weight = self.released_weight = self.aside_weight = self.entered = 0
        self._before = None
        self.skipped, self.pending = Gaps(), dict(self.released)
        self._state.unsaved = True

    @property
    def estimate(self) -> tuple[float, ...]:
        """S/w, correctly rounded; empty while there is no weight."""
        return _ratio(self.sums, self.weight)

    @property
    def estimate_before_sending(self) -> tuple[float, ...]:
        """S/w of all that the last message was sent from; of what is there if nothing was sent.

        An agent may send nearly all it has: the ratio of what is left is the same but for rounding,
        which may leave it four digits.
        """
        return _ratio(*self._before) if self._before is not None else self.estimate

    @property
    def transferable(self) -> bool:
        """Whether there is mass to hand over."""
        return self.weight > 0 or (self.weight == 0 and any(self.sums))

    def offer(self, released: Released) -> None:
        """Let a release wait to enter, unless it has entered."""
        reading = released.reading
        if self._keeps:
            self.released[reading] = released
        if reading > self.entered or reading in self.skipped:
            self.pending[reading] = released

    def enter(self, last: int | None = None) -> None:
        """X += what was released up to a reading, or all."""
        for reading in sorted(self.pending):
            if last is None or reading <= last:
                self._enter(self.pending.pop(reading))

    def _enter(self, released: Released) -> None:
        for k, value in enumerate(released.sums):
            self.sums[k] += value
            self.released_sums[k] += value
        self.weight += released.weight
        self.released_weight += released.weight
        self.skipped.discard(released.reading)
        self.skipped.extend(self.entered + 1, released.reading - 1)
        self.entered = max(self.entered, released.reading)
        self._state.unsaved = True

    def receive(self, link: Link, message: CumulativeMass) -> None:
        """S += what the neighbour's totals rose by; under a bound it waits aside for `level`.

        Where rounds are clipped the message is acknowledged, and its round is over for this agent.
        """
        if self.clipped:
            self._received(link, message)
            return
        sums = self.aside_sums if self.bounded else self.sums
        number, totals, weight, report = message[4], message[6], message[7], message[8]
        if report.stop:
            self._learn(report, number)
        if len(sums) == 1:
            sums[0] += totals[0] - link.in_sums[0]
        else:
            for k, (now, before) in enumerate(zip(totals, link.in_sums, strict=True)):
                sums[k] += now - before
        if self.bounded:
            self.aside_weight += weight - link.in_weight
        else:
            self.weight += weight - link.in_weight
        link.in_sums, link.in_weight = totals, weight
        self._received(link, message)

    def _received(self, link: Link, message: CumulativeMass) -> None:
        """Acknowledge a message; what is buffered up to its round is not needed any more."""
        number = message[4]
        link.in_round, link.in_tag = number, message[11]
        if link.newest < number:
            link.newest = number
        buffer = link.buffer
        while buffer and buffer[0][4] <= number:
            del buffer[0]
        self._state.unsaved = True

    def hear(self, link: Link, message: CumulativeMass) -> None:
        """A message arrived that is received later: what it says of mixing counts from now on.

        A round may wait long for its readings, and those of the sender are in the coverage by now. The
        first mass of one that comes late, whose round is over here, was mixed in no round before.
        """
        if not (self._one_view and self._common):
            return
        now = self._state.round
        if message.round >= now:
            self._learn(message.range_report, message.round)
        elif message.weight and not link.in_weight and message.round + 1 < now:
            self._state.undo_mixing(now)

    def settle(self, link: Link, message: CumulativeMass) -> None:
        """S += clip(m_ji - m_ij, R): the pair of one round, as the other end has it."""
        assert link.part is not None, "a round ends after its parts were sent"
        parts, _ = link.part
        totals, radius, excess = message[6], self._radii[link.peer], list(link.excess)
        for k, (sent, now, before) in enumerate(zip(parts, totals, link.in_sums, strict=True)):
            offered = now - before - sent
            gained = min(max(offered, -radius), radius)
            self.sums[k] += gained
            excess[k] += offered - gained
        link.excess, link.part = tuple(excess), None
        link.in_sums, link.in_weight = totals, message[7]
        self._received(link, message)

    def snapshot(self) -> list[Any]:
        """What clipped rounds add to the totals of links, as JSON accepts it."""
        return [[k.peer, k.excess, k.part] for k in self._links if k.peer_incarnation]

    def restore(self, read: list[Any]) -> None:
        """Take a `snapshot` back."""
        known = {link.peer: link for link in self._links}
        for peer, excess, part in read:
            known[peer].excess = tuple(excess)
            known[peer].part = None if part is None else (tuple(part[0]), part[1])
        self.recount()

    def _learn(self, report: RangeReport, number: int) -> None:
        """Take over up to which round mixing was undone, from mass of the neighbour's round.

        Asynchronous agents count their own ticks: there, as many ticks ago as at the neighbour.
        """
        if self._one_view and not report.phase:
            now = self._state.round
            behind = now - number if number < now or not self._common else 0
            self._state.undo_mixing(min(report.stop, number) + behind)

    def receive_buffered(self) -> None:
        """Receive the latest message of every neighbour."""
        for link in self._links:
            if link.buffer:
                self.receive(link, link.buffer[-1])

    def send(self, fraction: int, patience: int) -> None:
        """Send each neighbour weight * fraction / 2^106 of the mass; the rest stays.

        A neighbour that has acknowledged nothing for more than `patience` rounds is sent none.
        While the weight is negative, because mass was rolled back, nothing is sent.
        """
        if self.clipped:
            self._offer_parts(fraction)
            return
        now = self._state.round
        if self.bounded and fraction:
            self.level(now - 1)
            fraction = max(fraction - ROUNDED, 0)
        sums, weight = self.sums, self.weight
        if weight <= 0 or not fraction:
            self._before = None
            if fraction and self._one_view and any(sums):
                self._state.undo_mixing(now)
            return
        claims, reduced = self._claims, False
        left, remaining, single = list(sums), weight, len(sums) == 1
        for link in self._links:
            if link.weight and link.may_send and link.unacknowledged(now) <= patience:
                factor = link.weight * fraction >> ONE
                sent_weight = weight * factor >> ONE
                sent = [sums[0] * factor >> ONE] if single else [s * factor >> ONE for s in sums]
                if not claims.permits(link, sent, sent_weight):
                    sent, sent_weight = claims.reduce(link, sent, sent_weight)
                    reduced = True
                remaining -= sent_weight
                if single:
                    left[0] -= sent[0]
                    link.out_sums = (link.out_sums[0] + sent[0],)
                    link.out_weight += sent_weight
                else:
                    left = [a - b for a, b in zip(left, sent, strict=True)]
                    link.send(sent, sent_weight)
        if reduced and self._one_view:
            self._state.undo_mixing(now)
        self._before = (sums, weight)
        self.sums, self.weight = left, remaining

    def _offer_parts(self, fraction: int) -> None:
        """Send each neighbour its part, which stays here until the neighbour's is there too."""
        sums, weight = self.sums, self.weight
        for link in self._links:
            if link.weight and link.may_send:
                factor = link.weight * fraction >> ONE
                sent, sent_weight = [s * factor >> ONE for s in sums], weight * factor >> ONE
                if not self._claims.permits(link, sent, sent_weight):
                    sent, sent_weight = self._claims.reduce(link, sent, sent_weight)
                link.send(sent, sent_weight)
                link.part = tuple(sent), sent_weight

    def send_all(self, near: Sequence[Link]) -> None:
        """Send all mass, split by link weight; the last takes what division leaves.

        What a neighbour would not accept goes to the next, and what none does stays.
        """
        sums, weight = self.sums, self.weight
        total = sum(link.weight for link in near)
        for at, link in enumerate(near):
            part, of = (link.weight, total) if total else (1, len(near))
            if at == len(near) - 1:
                sent, sent_weight = sums, weight
            else:
                sent, sent_weight = [s * part // of for s in sums], weight * part // of
                total -= part if total else 0
            sent, sent_weight = self._claims.reduce(link, sent, sent_weight)
            link.send(sent, sent_weight)
            sums = [a - b for a, b in zip(sums, sent, strict=True)]
            weight -= sent_weight
        self.sums, self.weight = sums, weight
        self._state.unsaved = True

    def accepted(self, near: Sequence[Link]) -> bool:
        """Whether some of these neighbours accept some of the weight, or all of a sum without any."""
        for link in near:
            sent, weight = self._claims.reduce(link, self.sums, self.weight)
            if weight or sent == self.sums:
                return True
        return False

    def level(self, t: int) -> None:
        """Bound the weight by t (by 1 for an offline algorithm): the rest waits aside.

        What is moved is a part of sums and weight alike, so estimates on either side stay.
        """
        room = ((t if self._online else 1) << self._unit) - self.weight
        aside = self.aside_weight
        if room >= aside:
            self._move(self.aside_sums, 1, 1, aside)
        elif room > 0:
            self._move(self.aside_sums, room, aside, room)
        elif room < 0 < self.weight:
            self._move(self.sums, room, self.weight, room)

    def _move(self, source: list[int], part: int, of: int, weight: int) -> None:
        """Move part/of of some sums, and a weight, from aside to the mass, or back."""
        moved = [s * part // of for s in source]
        self.sums = [a + b for a, b in zip(self.sums, moved, strict=True)]
        self.aside_sums = [a - b for a, b in zip(self.aside_sums, moved, strict=True)]
        self.weight += weight
        self.aside_weight -= weight
        if weight or any(moved):
            self._state.unsaved = True

    def roll_back(self, link: Link, peer_incarnation: int, tag: bytes = b"") -> None:
        """Begin a session with a new incarnation: what was exchanged with the old one is undone."""
        if self._one_view and (link.out_weight or link.in_weight):
            self._state.undo_mixing(self._state.round)
        link.begin_session(peer_incarnation, self._state.round, tag)
        self.recount()
        self._state.unsaved = True

    def recount(self) -> None:
        """S = X + sum rho - sum sigma - what waits aside; without offers, and what was not gained."""
        self._before = None
        self.sums = [x - a for x, a in zip(self.released_sums, self.aside_sums, strict=True)]
        self.weight = self.released_weight - self.aside_weight
        for link in self._links:
            offered, offered_weight = link.part or ((0,) * len(self.sums), 0)
            totals = zip(link.in_sums, link.out_sums, link.excess, offered, strict=True)
            for k, (received, sent, excess, kept) in enumerate(totals):
                self.sums[k] += received - sent - excess + kept
            self.weight += link.in_weight - link.out_weight + offered_weight


def _ratio(sums: Sequence[int], weight: int) -> tuple[float, ...]:
    """Correctly rounded; empty without weight."""
    if weight <= 0:
        return ()
    try:
        return tuple([s / weight for s in sums])
    except OverflowError:
        return tuple([math.copysign(math.inf, s) for s in sums])
