"""How much each release counts in one agent's estimate, from the manifest's weights alone.

With W_s = (1 - p_s) I + p_s A the estimate of agent i after round t is

    S_i/w_i = sum_k c_k x_k / sum_k c_k m_k,    c_k = (W_t W_{t-1} ... W_{s+1})_{ij}

over the releases x_k of m_k readings that entered at agent j in round s. Columns of W add up to 1,
so that the row e_i W_t ... W_{s+1} tends to a constant: releases of long ago count alike, and only
recent rounds are followed one by one. This holds where every message arrives in time. Where one is
late mass waits at its sender, and the weights are an estimate; so they are for agents without
common rounds, whose readings are taken to have entered evenly over their ticks.

**Where mixing was undone.** A member that lost its state of mixing begins anew with its releases, and
its neighbours roll back what they had exchanged with it. For one release let c_j be the part of it at
agent j then. They add up to 1, but some may be negative: what came over a link can be less than what
of it has since gone on. What a link with symmetric weights has carried from one end to the other is
an electrical flow from where the release entered to where it is, so at most 1 goes through any agent:
with m members lost at one time the negative parts together are at most n = m, and if two were lost
one after the other at most n = 4 (through the second went at most 1, and then the 3 = 1 + 2 that all
parts of the first loss amount to). After that only rounds since count. With r the row of their product
and delta its largest less its least number,

    c_k = sum_j c_j r_j,    |c_k - r_j| <= (n + 1) delta    for every j,    c_k >= min r - n delta,

so that weights p_k computed from these rounds alone are off by at most

    A = (n + 1) delta N / w,    w = sum_k c_k m_k,

in sum: sum_k m_k |p_k - exact p_k| / 2 <= A while the c_k are not negative. `UNDONE` is n; A decreases
with every round, and above 1 nothing is known.

**Where rounds are clipped** (`Manifest.clip`) an estimate is no weighted sum of releases with weights that
are known: which links were clipped depends on the releases. What is known is the mean over all members of
the view, in which every release counts alike, because mass is kept: the weights are 1/N, and A is infinite.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from veilsum.agents import conservation
from veilsum.agents.manifest import Manifest
from veilsum.errors import AgentError
from veilsum.networks.kernels import least_linked
from veilsum.privacy import Batches

MIXED = 1e-7  # relative spread of a row that counts as constant
MOST_NUMBERS = 500_000  # agents times rounds that are followed one by one
UNDONE = 4  # n: the most that all negative parts of a release are taken to be after a roll-back
HALF = 0.5  # of its mass goes through the weights in a tick of an asynchronous agent

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Links = frozenset[tuple[str, str]]


class ReleaseWeights(NamedTuple):
    """What releases count in an estimate, those that count alike in one entry.

    Parameters
    ----------
    weight : ndarray
        c_k over the total: of the noise of a release, and of each reading in it.
    readings : ndarray
        How many readings are in a release.
    releases : ndarray
        How many releases the entry stands for.
    member : ndarray
        Whose they are, as a place in the manifest.
    round : ndarray
        The round in which they entered; of several, the last.
    undone : float
        A: how far the weights are from the exact ones at most, where mixing was undone; infinite
        if that is not known.

    Examples
    --------
    >>> found = ReleaseWeights(*map(np.array, ([0.25], [2], [2], [0], [4])))
    >>> found.unevenness, float(found.squares)
    (0.0, 0.25)
    """

    weight: Floats
    readings: Floats
    releases: Floats
    member: Integers
    round: Integers
    undone: float = 0.0

    @property
    def largest(self) -> Floats:
        """The largest that each weight can be: (c + (n + 1) delta) / (w - w A)."""
        if not self.undone:
            return self.weight
        total = float((self.readings * self.releases).sum())
        return (self.weight + self.undone / total) / (1 - self.undone)

    @property
    def unevenness(self) -> float:
        """1/2 sum_k m_k |p_k - 1/N|: what is left of the mixing error, per range of a reading."""
        counts = self.readings * self.releases
        total = float(counts.sum())
        if not total:
            return 0.0
        return float((counts * np.abs(self.weight - 1 / total)).sum() / 2) + self.undone

    @property
    def deviation(self) -> float:
        """sum_k m_k (p_k - 1/N)^2: the same in mean square, per variance of a reading."""
        counts = self.readings * self.releases
        total = float(counts.sum())
        if not total:
            return 0.0
        found = float((counts * (self.weight - 1 / total) ** 2).sum())
        if not self.undone:
            return found
        # |p_k - exact| <= A/N + A exact, and the root of a sum of squares is a norm
        added = self.undone * (math.sqrt(1 / total) + math.sqrt(self.squares))
        return (math.sqrt(found) + added) ** 2

    @property
    def squares(self) -> float:
        """sum_k m_k p_k^2: the variance of the estimate per variance of an independent reading."""
        return float((self.readings * self.releases * self.largest**2).sum())

    @property
    def squares_of_members(self) -> float:
        """The same if all readings of a member are worth one: the squares of the members' weights."""
        return float(
            (np.bincount(self.member, self.readings * self.releases * self.largest) ** 2).sum()
        )


def release_weights(
    manifest: Manifest,
    label: str,
    counts: Sequence[int],
    round: int,
    present: Container[str] | None = None,
    dropped: Iterable[tuple[str, str]] = (),
    mixed: int | None = None,
) -> ReleaseWeights:
    """The weights of all releases in the estimate of one agent.

    A member of whom only some readings count is taken to have given the latest ones, which are the
    least mixed.

    Parameters
    ----------
    manifest : Manifest
        The terms of the network.
    label : str
        The agent.
    counts : sequence of int
        For each member, how many of its readings are in.
    round : int
        The round of the estimate.
    present : container of str, optional
        Members that take part; one that neither does nor contributes is left out of the network.
    dropped : iterable of (str, str), optional
        Links over which nothing was exchanged, each with the lesser label first.
    mixed : int, optional
        Rounds since mixing was last rolled back; by default it never was.

    Returns
    -------
    ReleaseWeights
        Empty if no release counts.

    Raises
    ------
    AgentError
        If there is not one count for each member.
    """
    if len(counts) != len(manifest.members):
        raise AgentError(
            f"{manifest.name} has {len(manifest.members)} members; found {len(counts)} counts of "
            "readings: give one for each member"
        )
    manifest.link_weights(label)  # refuses a stranger
    given = [int(count) for count in counts]
    absent = frozenset(
        member
        for (member, _), count in zip(manifest.members, given, strict=True)
        if member != label and not count and present is not None and member not in present
    )
    unused = frozenset(
        (min(a, b), max(a, b)) for a, b, _ in manifest.links if a in absent or b in absent
    )
    unused |= frozenset(dropped)
    if manifest.clip:
        return _equal_weights(given)
    rows, last = _rows(manifest, label, round, unused, mixed)
    online = manifest.made_algorithm.online or manifest.asynchronous
    parts: list[tuple[Any, ...]] = []
    for place, count in enumerate(given):
        if not count:
            continue
        if not online:
            parts.append(([rows[-1, place]], [count], [1], [place], [0]))
            continue
        parts += _entries(manifest, place, count, round, rows, last)
    if not parts:
        none = np.zeros(0)
        return ReleaseWeights(none, none, none, none.astype(np.int64), none.astype(np.int64))
    columns = [np.concatenate([np.asarray(part[k]) for part in parts]) for k in range(5)]
    counted, readings, releases = (np.asarray(c, dtype=np.float64) for c in columns[:3])
    total = float((counted * readings * releases).sum())
    weight = counted / total if total > 0 else counted
    undone = 0.0
    if mixed is not None:
        row = _mixed_row(manifest, label, round, unused, mixed, rows)
        reached = row[_reached(manifest, label, unused)]
        undone = _undone(reached, float((readings * releases).sum()), total)
    return ReleaseWeights(
        weight, readings, releases, columns[3].astype(np.int64), columns[4].astype(np.int64), undone
    )


def _equal_weights(counts: Sequence[int]) -> ReleaseWeights:
    """Of the mean over all members, from which an estimate in clipped rounds may be any way off."""
    places = np.flatnonzero(np.asarray(counts, dtype=np.int64))
    ones = np.ones(len(places))
    return ReleaseWeights(ones / max(len(places), 1), ones, ones, places, 0 * places, math.inf)


def _mixed_row(
    manifest: Manifest, label: str, round: int, unused: Links, mixed: int, rows: Floats
) -> Floats:
    """The row of the rounds since mixing was undone, or of some of them, which is no more even.

    Where only some rounds are followed one by one, that of a power of two of them, computed once.
    """
    some, fraction = 1 << mixed.bit_length() >> 1, _fraction(manifest, round)
    if rows.size <= MOST_NUMBERS or some < len(rows) or fraction is None:
        return np.asarray(rows[-1], dtype=np.float64)
    return _late_row(manifest, label, unused, fraction, some)


@lru_cache(maxsize=8)
def _late_row(
    manifest: Manifest, label: str, unused: Links, fraction: float, rounds: int
) -> Floats:
    """e_i W^k for so many rounds, or until it is constant; those before are not kept."""
    found = _product(manifest, label, unused, itertools.repeat(fraction, rounds), False)
    return np.asarray(found[-1], dtype=np.float64)


def _undone(row: Floats, count: float, weight: float) -> float:
    """A for a row of the rounds since mixing was undone; infinite where it is 1 or more."""
    least = float(row.min())
    delta = float(row.max()) - least
    found = (UNDONE + 1) * delta * count
    return found / weight if found < weight and least >= UNDONE * delta else math.inf


def _rows(
    manifest: Manifest, label: str, round: int, unused: Links, mixed: int | None = None
) -> tuple[Floats, int]:
    """e_i W_t ... W_{s+1} for s = t, t-1, ... until it is constant; and the last such s.

    Where mixing was undone, no further than since then.
    """
    first = 0 if mixed is None else max(round - mixed, 0)
    fraction, algorithm = _fraction(manifest, round), manifest.made_algorithm
    if fraction is None or not (algorithm.online or manifest.asynchronous):
        fractions = (conservation.sent_fraction(algorithm, s) for s in range(round, first, -1))
        rows = _product(manifest, label, unused, fractions, algorithm.online)
    else:
        rows = _powers(manifest, label, unused, fraction)[: round - first + 1]
    return rows, round - (len(rows) - 1)


def _fraction(manifest: Manifest, round: int) -> float | None:
    """The fraction of mass that is sent, if it is the same in all rounds that matter."""
    if manifest.asynchronous:
        return HALF
    found = {
        conservation.sent_fraction(manifest.made_algorithm, t)
        for t in range(1 + manifest.made_algorithm.online, min(round, 50) + 1)
    }  # while S is 0 it does not matter
    return found.pop() if len(found) == 1 else None


@lru_cache(maxsize=8)
def _powers(manifest: Manifest, label: str, unused: Links, fraction: float) -> Floats:
    """e_i W^k for k = 0, 1, ... until it is constant."""
    return _product(manifest, label, unused, itertools.repeat(fraction), True)


def _product(
    manifest: Manifest, label: str, unused: Links, fractions: Iterable[float], keep: bool
) -> Floats:
    """Rows of the product of the W of these fractions, from the last round backwards.

    Of all rounds if they are kept, else of the first one: for what entered before it.
    """
    size, links = len(manifest.members), _used(manifest, unused)
    reached = _reached(manifest, label, unused)
    row = np.zeros(size)
    row[manifest.labels.index(label)] = 1.0
    rows = [row]
    if not links:
        return np.array(rows)
    source, target, pushed = (np.array(column) for column in zip(*links, strict=True))
    out = np.bincount(source, pushed, minlength=size)
    for fraction in fractions:
        if _constant(row[reached]) or len(rows) * size > MOST_NUMBERS:
            break
        pulled = np.bincount(source, pushed * row[target], minlength=size)
        row = row + fraction * (pulled - out * row)
        if keep:
            rows.append(row)
        else:
            rows[0] = row
    return np.array(rows)


def _used(manifest: Manifest, unused: Links) -> list[tuple[int, int, float]]:
    """The links but for those that are not used, by the places of their ends."""
    place = {member: k for k, (member, _) in enumerate(manifest.members)}
    return [
        (place[a], place[b], w)
        for a, b, w in manifest.links
        if (min(a, b), max(a, b)) not in unused
    ]


@lru_cache(maxsize=64)
def _reached(manifest: Manifest, label: str, unused: Links) -> Integers:
    """The places of the members whose mass can come to an agent."""
    place, links = manifest.labels.index(label), _used(manifest, unused)
    if not links:
        return np.array([place], dtype=np.int64)
    source, target, _ = (np.array(column) for column in zip(*links, strict=True))
    least = least_linked(source, target, len(manifest.members))
    return np.asarray(np.flatnonzero(least == least[place]), dtype=np.int64)


def _entries(
    manifest: Manifest, place: int, count: int, round: int, rows: Floats, last: int
) -> list[tuple[Any, ...]]:
    """The releases of one member: recent ones one by one, those up to round `last` by length."""
    if manifest.batch_growth == 1 and manifest.asynchronous and round:
        return _by_tick(place, count, round, rows, last)
    if manifest.batch_growth == 1:
        first = 1 + _number_before(manifest, count, round, last)
        numbers = np.arange(first, count + 1)
        lengths: Any = np.ones(len(numbers))
        earlier: dict[int, int] = {1: first - 1} if first > 1 else {}
    else:
        whole, closed = _batches(manifest, count, round)
        recent = closed > last
        lengths, numbers = whole[recent], closed[recent]
        found, times = np.unique(whole[~recent], return_counts=True)
        earlier = dict(zip(found.tolist(), times.tolist(), strict=True))
    batched = manifest.batch_growth != 1
    entered = numbers if batched else _entered(manifest, numbers, count, round)
    ages = np.clip(round - entered, 0, len(rows) - 1)
    same = np.full(len(numbers), place)
    parts: list[tuple[Any, ...]] = [
        (rows[ages, place], lengths, np.ones(len(numbers)), same, entered)
    ]
    for length, many in earlier.items():
        parts.append(([rows[-1, place]], [length], [many], [place], [max(last, 1)]))
    return parts


def _by_tick(place: int, count: int, round: int, rows: Floats, last: int) -> list[tuple[Any, ...]]:
    """Single readings that entered evenly over the ticks: those of one tick are one entry."""
    ticks = np.arange(last, round + 1, dtype=np.int64)
    before = count * ticks // round  # how many entered up to each tick
    many = np.diff(before)
    used = many > 0
    entered, many = ticks[1:][used], many[used]
    ages = np.clip(round - entered, 0, len(rows) - 1)
    ones = np.ones(len(many))
    parts: list[tuple[Any, ...]] = [
        (rows[ages, place], ones, many, np.full(len(many), place), entered)
    ]
    if before[0]:
        parts.append(([rows[-1, place]], [1], [before[0]], [place], [max(last, 1)]))
    return parts


def _entered(manifest: Manifest, numbers: Any, count: int, round: int) -> Integers:
    """The rounds in which readings 1, 2, ... of a member entered, as late as they can have.

    From 1 on: an agent that begins anew has its releases before its first tick.
    """
    given = np.asarray(numbers, dtype=np.int64)
    if manifest.asynchronous:
        return np.maximum(-(-given * round // count), 1)
    return np.asarray(np.clip(round - count + given, 1, max(round, 1)), dtype=np.int64)


def _batches(manifest: Manifest, count: int, round: int) -> tuple[Integers, Integers]:
    """How many readings are in each release, and the rounds in which these entered.

    Of a member with empty slots it is not known in which batches they were: as many releases as
    there can be, the latest ones, divide the readings evenly.
    """
    batches = Batches(manifest.batch_growth, manifest.longest_batch)
    ticks = count if manifest.asynchronous else max(batches.released(round), count)
    whole = np.array(batches.lengths(ticks), dtype=np.int64)
    closed = np.cumsum(whole)
    if manifest.asynchronous:
        closed = _entered(manifest, closed, count, round)
    elif ticks > count:
        many = min(count, len(whole))
        whole = np.full(many, count // many, dtype=np.int64)
        whole[: count % many] += 1
        closed = closed[-many:]
    return whole, np.minimum(closed, max(round, 1))


def _number_before(manifest: Manifest, count: int, round: int, last: int) -> int:
    """How many readings of a member entered up to round `last`."""
    if manifest.asynchronous:
        return min(count * last // round, count) if round else 0
    return int(np.clip(count - (round - last), 0, count)) if last else 0


def _constant(row: Floats) -> bool:
    top = float(row.max())
    return top - float(row.min()) <= MIXED * top
