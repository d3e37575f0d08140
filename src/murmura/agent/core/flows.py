"""What an agent holds and how it moves: whole numbers that are only ever passed on.

S = X + sum rho - sum sigma is kept as it changes; `recount` computes it anew.

Where neighbours' estimates are hidden (Network DP), an agent holds a weight of at most t after its
round t, and what came beyond that waits aside, outside its estimate, until there is room. The noise
of a round is made for a neighbour's estimate S/w that moves by 1 and so moves S by w; a share
a_ij p of it, p = 1/(t-1), arrives at agent i, whose noise covers a_ij. So w <= t - 1 is needed when
round t is pushed. While all messages come in time w = t - 1. Without the bound, totals of several
rounds that arrive at once, a push into silence that stays here, or a member that sends weight it
never had make w larger, and the round costs w/(t-1) epsilon. For the same reason an agent that is
behind takes in nothing that its neighbours pushed in rounds later than its own: of `learn`, the
noise grows with the round.
"""

from __future__ import annotations

import math

from murmura.agent.core.link import Link
from murmura.agent.core.options import ONE, Limits, Options
from murmura.agent.events import Released
from murmura.agent.manifest import Manifest
from murmura.agent.messages import Totals

ROUNDED = 4  # units of 2^-53: a share computed in floats is at most this much too large


class Flows:
    """Releases, links, and what is held between them."""

    def __init__(self, manifest: Manifest, label: str, options: Options) -> None:
        """An agent that holds nothing."""
        self.manifest = manifest
        self.label = label
        self.options = options
        self.limits = Limits.of(manifest)
        shares = manifest.shares(label)
        self.links = [Link(peer, shares[peer], manifest.dimension) for peer in sorted(shares)]
        self.by_peer = {link.peer: link for link in self.links}
        self.life = 0
        self.round = 0
        self.sums = [0] * manifest.dimension
        self.weight = 0
        self.put_sums = [0] * manifest.dimension  # X: all that was released and entered
        self.put_weight = 0
        self.entered = 0  # the last reading in X
        self.skipped: set[int] = set()  # earlier ones that are not
        self.pending: dict[int, Released] = {}
        law = manifest.made_law  # a ratio law has weights of its own, and promises nothing here
        self.bounded = manifest.hides_neighbours and not law.ratio  # the rest waits aside
        self.aside_sums = [0] * manifest.dimension
        self.aside_weight = 0
        self.dirty = False  # something is not persisted
        self.reason = ""  # why it is done
        self.result: tuple[float, ...] = ()  # the estimate when it was done

    @property
    def estimate(self) -> tuple[float, ...]:
        """S/w, correctly rounded, or as it was when done; nothing while there is no weight."""
        if self.reason:
            return self.result
        weight = self.weight
        if weight <= 0:
            return ()
        try:
            return tuple([s / weight for s in self.sums])
        except OverflowError:
            return tuple([math.copysign(math.inf, s) for s in self.sums])

    def offer(self, released: Released) -> None:
        """Note a release that waits to enter, unless it has."""
        reading = released.reading
        if reading > self.entered or reading in self.skipped:
            self.pending[reading] = released

    def enter(self, last: int | None = None) -> None:
        """X += what was released up to a reading, or all."""
        for reading in sorted(self.pending):
            if last is None or reading <= last:
                self._enter(self.pending.pop(reading))

    def _enter(self, released: Released) -> None:
        sums, put = self.sums, self.put_sums
        for k, value in enumerate(released.sums):
            sums[k] += value
            put[k] += value
        self.weight += released.weight
        self.put_weight += released.weight
        self.skipped.discard(released.reading)
        self.skipped.update(range(self.entered + 1, released.reading))
        self.entered = max(self.entered, released.reading)
        self.dirty = True

    def absorb(self, link: Link, message: Totals) -> None:
        """S += what the neighbour's totals rose by; under a bound it waits aside for `level`."""
        sums = self.aside_sums if self.bounded else self.sums
        _, _, _, _, number, _, totals, weight, _, _, _, token, *_ = message
        if len(sums) == 1:
            sums[0] += totals[0] - link.in_sums[0]
        else:
            for k, (now, before) in enumerate(zip(totals, link.in_sums, strict=True)):
                sums[k] += now - before
        if self.bounded:
            self.aside_weight += weight - link.in_weight
        else:
            self.weight += weight - link.in_weight
        link.in_sums, link.in_weight, link.in_round, link.in_token = totals, weight, number, token
        if link.newest < number:
            link.newest = number
        while link.buffer and link.buffer[0].round <= number:
            del link.buffer[0]
        self.dirty = True

    def push(self, part: int) -> None:
        """Push to each usable link share * part / 2^106 of what is held; the rest stays.

        Whoever owes weight, because a flow was undone, pushes nothing until it has some.
        """
        if self.bounded and part:
            self.level(self.round - 1)
            part = max(part - ROUNDED, 0)
        sums, weight = self.sums, self.weight
        if weight <= 0 or not part:
            return
        less = self.limits.excess(sums, weight)
        left, kept, single = list(sums), weight, len(sums) == 1
        for link in self.links:
            if link.share and self.usable(link):
                factor = (link.share * part >> ONE) >> less
                heavy = weight * factor >> ONE
                kept -= heavy
                if single:
                    gift = [sums[0] * factor >> ONE]
                    left[0] -= gift[0]
                else:
                    gift = [s * factor >> ONE for s in sums]
                    left = [a - b for a, b in zip(left, gift, strict=True)]
                link.give(gift, heavy)
        self.sums, self.weight = left, kept

    def level(self, t: int) -> None:
        """Hold a weight of at most t (1 for an offline law), the rest aside, and fill from there.

        What is moved is a part of sums and weight alike, so estimates on either side stay.
        """
        room = ((t if self.manifest.made_law.online else 1) << self.manifest.unit) - self.weight
        aside = self.aside_weight
        if room >= aside:
            self._move(self.aside_sums, 1, 1, aside)
        elif room > 0:
            self._move(self.aside_sums, room, aside, room)
        elif room < 0 < self.weight:
            self._move(self.sums, room, self.weight, room)

    def _move(self, source: list[int], part: int, of: int, weight: int) -> None:
        """Move part/of of some sums, and a weight, from aside to what is held, or back."""
        moved = [s * part // of for s in source]
        self.sums = [a + b for a, b in zip(self.sums, moved, strict=True)]
        self.aside_sums = [a - b for a, b in zip(self.aside_sums, moved, strict=True)]
        self.weight += weight
        self.aside_weight -= weight
        self.dirty = self.dirty or weight != 0 or any(moved)

    def give_all(self, near: list[Link]) -> None:
        """Push all that is held, split by share; the last takes what division leaves."""
        less = self.limits.excess(self.sums, self.weight)
        sums, weight = [s >> less for s in self.sums], self.weight >> less
        total = sum(link.share for link in near)
        for at, link in enumerate(near):
            share, of = (link.share, total) if total else (1, len(near))
            if at == len(near) - 1:
                gift, heavy = sums, weight
            else:
                gift, heavy = [s * share // of for s in sums], weight * share // of
                total -= share if total else 0
            link.give(gift, heavy)
            sums = [a - b for a, b in zip(sums, gift, strict=True)]
            weight -= heavy
            self.sums = [a - b for a, b in zip(self.sums, gift, strict=True)]
            self.weight -= heavy
        self.dirty = True

    def usable(self, link: Link) -> bool:
        """Whether to push: the session is open and what was pushed before was heard of."""
        heard = link.acked if link.acked > link.since else link.since
        return (
            link.open
            and not (link.down or link.silent or link.closed or link.done)
            and self.round - heard <= self.options.patience
        )

    def opened(self, link: Link) -> None:
        """Both sides know the session."""
        if not link.open:
            link.open = True
            self.awake(link)
            self.dirty = True

    def awake(self, link: Link) -> None:
        """Something new was heard: push and wait again."""
        link.stirred = True
        link.since = self.round
        link.silent = link.down = False

    def undo(self, link: Link, peer_life: int, token: bytes = b"") -> None:
        """Begin a session with a new life of the neighbour: its old flows never were."""
        link.reset(peer_life, self.round, self.manifest.dimension)
        link.closed, link.in_token = False, token
        self.recount()
        self.dirty = True

    def recount(self) -> None:
        """S = X + sum rho - sum sigma - what waits aside."""
        self.sums = [x - a for x, a in zip(self.put_sums, self.aside_sums, strict=True)]
        self.weight = self.put_weight - self.aside_weight
        for link in self.links:
            for k, (seen, pushed) in enumerate(zip(link.in_sums, link.out_sums, strict=True)):
                self.sums[k] += seen - pushed
            self.weight += link.in_weight - link.out_weight
