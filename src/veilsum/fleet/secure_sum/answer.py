"""A keeper's only answer to a query, and the check words that it keeps with it.

    body = H(F),  sum over F of the keeper's shares without g,  sum_i rho_i w_i
    w_i = g(j) + sum_m r^m f_m(j),    r = H(q, site, body of deal i),    rho_i = H(F, i)

w is on a polynomial of degree < t + l - 1 exactly if the deal is, but for a chance of columns/2^61; a
dealer can try many bodies, so that this is a check against mistakes and costs a liar 2^51 tries at 1,024
components. g is uniform and in nothing else: the words of one deal are then a random polynomial, whatever
is dealt. Two words of one deal with different r would give it away (rule K8).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from veilsum.errors import FleetError
from veilsum.fleet.secure_sum.deal import shares
from veilsum.fleet.secure_sum.field import (
    Elements,
    elements,
    from_bytes,
    plus,
    powers,
    product,
    stream,
    times,
    to_bytes,
    total_of,
    uniform,
)
from veilsum.fleet.secure_sum.query import SumQuery
from veilsum.fleet.secure_sum.roster import SumRoster, check_roster, deal_hash

WordKey = tuple[bytes, str, bytes]  # q, site, E


@dataclass(frozen=True)
class CheckWords:
    """The single check words of one keeper over a roster: kept, and posted on demand."""

    roster: bytes  # H(F)
    words: tuple[int, ...]  # in the order of the roster

    @property
    def body(self) -> bytes:
        """What is posted: 8 bytes a deal."""
        return self.roster + struct.pack(f"<{len(self.words)}Q", *self.words)

    @classmethod
    def read(cls, body: bytes) -> CheckWords | None:
        """The words of a body, or None if it is not one."""
        words = from_bytes(body[32:])
        return None if len(body) < 40 or words is None else cls(body[:32], tuple(words.tolist()))


def answer(
    query: SumQuery,
    keeper: str,
    secret: bytes,
    roster: SumRoster,
    deals: Iterable[tuple[str, bytes]],
    kept: Mapping[WordKey, int] | None = None,
) -> tuple[bytes, CheckWords]:
    """The keeper's only answer, to be durable before it leaves, and its words; K4 refuses with a reason.

    `fleet.release` sees to it that there is no other. `deals` are those whose posts the board verified,
    several of one site if there are; `kept` are words of this query that were computed before.
    """
    if keeper not in query.point:
        raise FleetError(f"{keeper!r} is no keeper of query {query.name!r}")
    held = {deal_hash(query, site, body): (site, body) for site, body in deals}
    chosen = check_roster(query, roster, held)
    mine = shares(query, keeper, secret, chosen)
    words = check_words(query, roster, chosen, mine, kept or {})
    body = roster.digest + to_bytes(total_of(summed(mine))) + to_bytes(combined(roster, words))
    return body, CheckWords(roster.digest, tuple(words.tolist()))


def summed(mine: Elements) -> Elements:
    """Rule K8: the columns that are added up, without g: with it, the words would open a second sum."""
    return mine[:, :-1]


def check_words(
    query: SumQuery,
    roster: SumRoster,
    chosen: Sequence[tuple[str, bytes]],
    mine: Elements,
    kept: Mapping[WordKey, int],
) -> Elements:
    """Rule K8: the words of valid deals, one for each (q, site, E) for ever."""
    challenges = elements([stream(1, b"challenge", name) for _, name in roster.deals], 1)
    terms = times(powers(challenges, mine.shape[1] - 1), mine[:, :-1])
    words = plus(total_of(terms.T), mine[:, -1])
    for i, key in enumerate(word_keys(query, chosen)):
        words[i] = kept.get(key, int(words[i]))
    return words


def combined(roster: SumRoster, words: Elements) -> Elements:
    """sum_i rho_i w_i."""
    factors = uniform(len(words), b"combined", roster.digest)
    out: Elements = product(factors.reshape(1, -1), words.reshape(-1, 1))[0]
    return out


def word_keys(query: SumQuery, chosen: Iterable[tuple[str, bytes]]) -> list[WordKey]:
    """What the words of these deals are kept under."""
    return [(query.digest, site, body[:32]) for site, body in chosen]


@dataclass(frozen=True)
class KeeperAnswer:
    """An Answer as it was read: H(F), the shares of the sum, the combined check word."""

    roster: bytes
    sums: Elements
    word: int

    @classmethod
    def read(cls, query: SumQuery, body: bytes) -> KeeperAnswer | None:
        """The answer of a body, or None if it is not one."""
        found = from_bytes(body[32:]) if len(body) == 32 + 8 * query.columns else None
        return None if found is None else cls(body[:32], np.array(found[:-1]), int(found[-1]))
