"""The sum of a query: the polynomials on which at least t + l - 1 + e answers lie, at 0, -1, ..

Anyone computes it from the answers alone. With at most e wrong answers it is right: t + l - 1 right ones
are among those that agree. Fewer answers are refused, as liars and a store that withholds could choose them.
Up to (answers - t - l + 1)/2 that disagree are corrected; their keepers are *at odds*, which does not make
them liars: a dealer can put a keeper at odds by a wrong cell (`blame`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilsum.errors import FleetError
from veilsum.fleet.secure_sum.answer import KeeperAnswer
from veilsum.fleet.secure_sum.field import Elements, P, decode, lagrange, product, to_bytes, uniform
from veilsum.fleet.secure_sum.query import SumQuery

MIXES = 3  # a liar can try 2^51 answers to hide from one of them, at 1,024 components


@dataclass(frozen=True)
class SumFound:
    """A sum, and which keepers it rests on."""

    roster: bytes  # H(F)
    values: tuple[int, ...]  # in steps
    agreeing: tuple[str, ...]  # keepers whose answers lie on the polynomials
    at_odds: tuple[str, ...]
    words_at_odds: tuple[str, ...] | None  # None: no polynomial is near; empty: all is well


def total(query: SumQuery, answers: Mapping[str, bytes]) -> SumFound | None:
    """The sum, or None as long as too few answers agree; one that is not plausible is not shown."""
    groups: dict[bytes, dict[int, KeeperAnswer]] = {}
    for keeper, body in answers.items():
        found = KeeperAnswer.read(query, body) if keeper in query.point else None
        if found is not None:
            groups.setdefault(found.roster, {})[query.point[keeper]] = found
    for roster, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        points = tuple(sorted(group))
        values = np.array([group[j].sums for j in points])
        fitting = agreeing(query, roster, points, values)
        if fitting is not None:
            words = np.array([group[j].word for j in points], np.uint64)
            good = decode(points, words, query.numbers.needed)
            return SumFound(
                roster,
                at_secrets(query, points, values, fitting),
                _labels(query, fitting),
                _labels(query, sorted(set(points) - set(fitting))),
                None if good is None else _labels(query, sorted(set(points) - set(good))),
            )
    return None


def agreeing(
    query: SumQuery, roster: bytes, points: tuple[int, ...], values: Elements
) -> list[int] | None:
    """The points whose answers lie on one polynomial in every coordinate, if there are enough.

    One random mix of the coordinates finds them, and every coordinate is verified: a liar who tried out
    answers until a mix hides them is found by the next mix, or no sum is shown.
    """
    needed = query.numbers.needed
    if len(points) < enough(query):
        return None
    for trial in range(MIXES):
        mix = uniform(values.shape[1], b"mix", bytes([trial]), roster, to_bytes(values))
        good = decode(points, product(values, mix.reshape(-1, 1))[:, 0], needed)
        if good is None:
            return None
        rows = [points.index(j) for j in good]
        base, rest = rows[:needed], rows[needed:]
        nodes, others = tuple(points[i] for i in base), tuple(points[i] for i in rest)
        there = product(lagrange(nodes, others), values[base])
        if len(good) >= enough(query) and (there == values[rest]).all():
            return good
    return None


def enough(query: SumQuery) -> int:
    """Answers that must agree: what e liars and a store that shows what it likes cannot have forged."""
    return query.numbers.needed + query.numbers.wrong


def at_secrets(
    query: SumQuery, points: tuple[int, ...], values: Elements, fitting: list[int]
) -> tuple[int, ...]:
    """The sum: the polynomials at 0, -1, .., centred; refused if it is not plausible."""
    nodes = tuple(fitting[: query.numbers.needed])
    rows = [points.index(j) for j in nodes]
    plain = product(lagrange(nodes, query.secrets), values[rows]).ravel()[: query.length].tolist()
    out = tuple(v if v <= P // 2 else v - P for v in plain)
    far = [i for i, v in enumerate(out) if abs(v) > query.bound]
    if far:
        raise FleetError(
            f"query {query.name!r}: component {far[0]} of the sum is larger than {len(query.sites)} sites "
            "within their bounds can have, so it is not shown; a site dealt an absurd value, and nobody "
            "can tell which: ask again, in groups"
        )
    return out


def _labels(query: SumQuery, points: list[int]) -> tuple[str, ...]:
    return tuple(query.keepers[j - 1].label for j in points)
