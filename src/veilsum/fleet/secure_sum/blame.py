"""Who dealt or answered wrongly, as far as check words can show it.

A word off the polynomial of a deal accuses a *pair*: the site may have dealt a wrong cell, or the keeper
may have posted a wrong word. That takes t + l - 1 + c words on the polynomial: of fewer, c liars could choose
another polynomial, and accuse two who are honest. One of the two is named alone only where c lying keepers
cannot have made it look so:

    a site      every polynomial of degree < t + l - 1 misses more than c of its words
    a keeper    its single words contradict the combined word in its own Answer; or its Answer is off while
                all words over F are on, t + l - 1 + c keepers having agreed in both

Readers who hold different words may differ. Words bind a dealer to 2^61/columns tries (`answer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilsum.fleet.secure_sum.answer import CheckWords, KeeperAnswer, combined
from veilsum.fleet.secure_sum.field import Elements, decode, lagrange, product
from veilsum.fleet.secure_sum.query import SumQuery
from veilsum.fleet.secure_sum.roster import SumRoster
from veilsum.fleet.secure_sum.total import agreeing


@dataclass(frozen=True)
class Accused:
    """What the words show."""

    pairs: tuple[tuple[str, str], ...]  # site and keeper, of whom at least one did wrong
    unclear: tuple[str, ...]  # the site did wrong, or several keepers: too few words are on
    sites: tuple[str, ...]  # each alone did wrong; so the keepers
    keepers: tuple[str, ...]


def blame(
    query: SumQuery, roster: SumRoster, answers: Mapping[str, bytes], words: Mapping[str, bytes]
) -> Accused:
    """Compare the words of keepers over one roster; both mappings are of bodies, by keeper."""
    shown = _shown(query, roster, words)
    points = tuple(sorted(shown))
    table = np.array([shown[j] for j in points], np.uint64).reshape(len(points), len(roster.deals))
    pairs, unclear, sites = [], [], []
    for column in _off(query, points, table):
        site = roster.deals[column][0]
        good = decode(points, table[:, column], query.numbers.needed)
        if good is None or len(good) < query.numbers.needed + query.numbers.colluding:
            unclear.append(site)
        else:
            off = [j for j in points if j not in set(good)]
            pairs += [(site, query.keepers[j - 1].label) for j in off]
        if alone(query, points, table[:, column]):
            sites.append(site)
    read = {j: KeeperAnswer.read(query, answers.get(k, b"")) for k, j in query.point.items()}
    given = {j: a for j, a in read.items() if a is not None and a.roster == roster.digest}
    wrong = [
        j
        for j in points
        if j in given and int(combined(roster, np.array(shown[j], np.uint64))[0]) != given[j].word
    ]
    if not pairs and not unclear:
        wrong += _answered_wrongly(query, roster, given, points)
    keepers = tuple(query.keepers[j - 1].label for j in sorted(set(wrong)))
    return Accused(tuple(pairs), tuple(unclear), tuple(sites), keepers)


def _shown(
    query: SumQuery, roster: SumRoster, words: Mapping[str, bytes]
) -> dict[int, tuple[int, ...]]:
    """The words over this roster, by point."""
    read = {query.point[k]: CheckWords.read(body) for k, body in words.items() if k in query.point}
    return {
        j: found.words
        for j, found in read.items()
        if found is not None
        and found.roster == roster.digest
        and len(found.words) == len(roster.deals)
    }


def _off(query: SumQuery, points: tuple[int, ...], table: Elements) -> list[int]:
    """The columns that lie on no polynomial."""
    needed = query.numbers.needed
    if len(points) <= needed:
        return []
    matrix = lagrange(points[:needed], points[needed:])
    right = (product(matrix, table[:needed]) == table[needed:]).all(axis=0)
    return [int(i) for i in np.flatnonzero(~right)]


def alone(query: SumQuery, points: tuple[int, ...], words: Elements) -> bool:
    """Whether every polynomial misses more than c of a deal's words; False where that is unknown.

    Decoding settles it up to (m - t - l + 1)/2 misses, and each word left out in turn one further.
    """
    needed, c = query.numbers.needed, query.numbers.colluding
    good = decode(points, words, needed)
    if good is not None:
        return len(points) - len(good) > c
    beyond = 2 * c - (len(points) - needed)
    if beyond > 1:
        return False
    rows = np.arange(len(points))
    return beyond < 1 or all(
        decode(points[:i] + points[i + 1 :], words[rows != i], needed) is None for i in rows
    )


def _answered_wrongly(
    query: SumQuery, roster: SumRoster, given: dict[int, KeeperAnswer], points: tuple[int, ...]
) -> list[int]:
    """Points of Answers that are off although the words of all deals are on."""
    both = tuple(j for j in points if j in given)
    if not both:
        return []
    values = np.array([given[j].sums for j in both], np.uint64)
    fitting = agreeing(query, roster.digest, both, values)
    if fitting is None or len(fitting) < query.numbers.needed + query.numbers.colluding:
        return []
    return [j for j in both if j not in set(fitting)]
