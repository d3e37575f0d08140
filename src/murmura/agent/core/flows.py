"""What an agent holds and how it moves: whole numbers that are only ever passed on.

S = X + sum rho - sum sigma is kept as it changes; `recount` computes it anew.
"""

from __future__ import annotations

import math

from murmura.agent.core.link import Link
from murmura.agent.core.options import ONE, Limits, Options
from murmura.agent.events import Released
from murmura.agent.manifest import Manifest
from murmura.agent.messages import Totals


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
        """S += what the neighbour's totals rose by."""
        sums = self.sums
        _, _, _, _, number, _, totals, weight, _, _, _, token, _ = message
        if len(sums) == 1:
            sums[0] += totals[0] - link.in_sums[0]
        else:
            for k, (now, before) in enumerate(zip(totals, link.in_sums, strict=True)):
                sums[k] += now - before
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
        """S = X + sum rho - sum sigma."""
        self.sums = list(self.put_sums)
        self.weight = self.put_weight
        for link in self.links:
            for k, (seen, pushed) in enumerate(zip(link.in_sums, link.out_sums, strict=True)):
                self.sums[k] += seen - pushed
            self.weight += link.in_weight - link.out_weight
