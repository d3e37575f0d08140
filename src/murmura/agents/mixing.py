"""How much each release counts in one agent's estimate, from the manifest's weights alone.

With W_s = (1 - p_s) I + p_s A the estimate of agent i after round t is

    S_i/w_i = sum_k c_k x_k / sum_k c_k m_k,    c_k = (W_t W_{t-1} ... W_{s+1})_{ij}

over the releases x_k of m_k readings that entered at agent j in round s. Columns of W add up to 1,
so that the row e_i W_t ... W_{s+1} tends to a constant: releases of long ago count alike, and only
recent rounds are followed one by one. This holds where every message arrives in time. Where one is
late mass waits at its sender, and the weights are an estimate; so they are for agents without
common rounds, whose readings are taken to have entered evenly over their ticks.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmura.agents import conservation
from murmura.agents.manifest import Manifest
from murmura.errors import AgentError
from murmura.privacy import Batches

MIXED = 1e-7  # relative spread of a row that counts as constant
MOST_NUMBERS = 500_000  # agents times rounds that are followed one by one
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

    @property
    def unevenness(self) -> float:
        """1/2 sum_k m_k |p_k - 1/N|: what is left of the mixing error, per range of a reading."""
        counts = self.readings * self.releases
        total = float(counts.sum())
        return float((counts * np.abs(self.weight - 1 / total)).sum() / 2) if total else 0.0

    @property
    def deviation(self) -> float:
        """sum_k m_k (p_k - 1/N)^2: the same in mean square, per variance of a reading."""
        counts = self.readings * self.releases
        total = float(counts.sum())
        return float((counts * (self.weight - 1 / total) ** 2).sum()) if total else 0.0

    @property
    def squares(self) -> float:
        """sum_k m_k p_k^2: the variance of the estimate per variance of a reading."""
        return float((self.readings * self.releases * self.weight**2).sum())


def release_weights(
    manifest: Manifest,
    label: str,
    counts: Sequence[int],
    round: int,
    present: Container[str] | None = None,
    dropped: Iterable[tuple[str, str]] = (),
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
    rows, last = _rows(manifest, label, round, unused | frozenset(dropped))
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
    return ReleaseWeights(
        weight, readings, releases, columns[3].astype(np.int64), columns[4].astype(np.int64)
    )


def _rows(manifest: Manifest, label: str, round: int, unused: Links) -> tuple[Floats, int]:
    """e_i W_t ... W_{s+1} for s = t, t-1, ... until it is constant; and the last such s."""
    fraction, algorithm = _fraction(manifest, round), manifest.made_algorithm
    if fraction is None or not (algorithm.online or manifest.asynchronous):
        fractions = (conservation.sent_fraction(algorithm, s) for s in range(round, 0, -1))
        rows = _product(manifest, label, unused, fractions)
    else:
        rows = _powers(manifest, label, unused, fraction)[: round + 1]
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
    return _product(manifest, label, unused, itertools.repeat(fraction))


def _product(manifest: Manifest, label: str, unused: Links, fractions: Iterable[float]) -> Floats:
    """Rows of the product of the W of these fractions, from the last round backwards."""
    from scipy.sparse import csr_array

    place = {member: k for k, (member, _) in enumerate(manifest.members)}
    links = [
        (place[a], place[b], w)
        for a, b, w in manifest.links
        if (min(a, b), max(a, b)) not in unused
    ]
    size = len(place)
    row = np.zeros(size)
    row[place[label]] = 1.0
    rows = [row]
    if not links:
        return np.array(rows)
    source, target, pushed = (np.array(column) for column in zip(*links, strict=True))
    push = csr_array((pushed, (source, target)), shape=(size, size))
    out = np.bincount(source, pushed, minlength=size)
    reached = _reached(push, place[label])
    online = manifest.made_algorithm.online or manifest.asynchronous
    for fraction in fractions:
        if _constant(row[reached]) or len(rows) * size > MOST_NUMBERS:
            break
        row = row + fraction * (push @ row - out * row)
        if online:
            rows.append(row)
        else:
            rows[0] = row  # all that entered before the first round
    return np.array(rows)


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
    """The rounds in which readings 1, 2, ... of a member entered, as late as they can have."""
    given = np.asarray(numbers, dtype=np.int64)
    if manifest.asynchronous:
        return np.asarray(-(-given * round // count), dtype=np.int64)
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


def _reached(push: Any, place: int) -> Integers:
    """Those whose mass can come to an agent."""
    from scipy.sparse.csgraph import breadth_first_order

    order = breadth_first_order(push, place, directed=False, return_predecessors=False)
    return np.asarray(order, dtype=np.int64)


def _constant(row: Floats) -> bool:
    top = float(row.max())
    return top - float(row.min()) <= MIXED * top
