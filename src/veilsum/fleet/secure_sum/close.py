"""Rule K9: when the charge for a deal may be given back.

A Close says "I never answer q", signed, and is durable before it leaves: on a board, an empty Answer. Of
k - t + c + 1 that closed, at most c lie, so that at least k - t + 1 never answer, and at most t - 1 shares of
any sum are ever known.
"""

from __future__ import annotations

from collections.abc import Iterable

from veilsum.fleet.secure_sum.query import SumQuery

CLOSED = b""  # the body of an Answer that says: never


def closes_needed(query: SumQuery) -> int:
    """k - t + c + 1."""
    return len(query.keepers) - query.numbers.threshold + query.numbers.colluding + 1


def refundable(query: SumQuery, closed: Iterable[str]) -> bool:
    """Whether so many of the query's keepers closed it that its sum can never be opened."""
    return len(set(closed) & set(query.point)) >= closes_needed(query)
