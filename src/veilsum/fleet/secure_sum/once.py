"""What a site and a keeper do once: pure decisions over what their ledger keeps.

    site      name of a query  -> q, body of its Deal        rule K3
    keeper    q                -> body of its Answer, or CLOSED   rules K4, K7

The caller makes what these functions return durable before any of it leaves; the key is erased after that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from veilsum.errors import FleetError
from veilsum.fleet.secure_sum.query import SumQuery

CLOSED = b""  # kept instead of an Answer


def one_deal(
    kept: Mapping[str, tuple[bytes, bytes]], query: SumQuery, make: Callable[[], bytes]
) -> bytes:
    """Rule K3: the Deal of this query name, made now or kept; another query of the name is refused."""
    if query.name not in kept:
        return make()
    digest, body = kept[query.name]
    if digest != query.digest:
        raise FleetError(
            f"a deal for another query of the name {query.name!r} has left; ask under another name"
        )
    return body


def one_answer(kept: Mapping[bytes, bytes], query: SumQuery, make: Callable[[], bytes]) -> bytes:
    """Rule K4: the Answer to this query, made now or kept, whatever roster is shown later."""
    found = kept.get(query.digest)
    if found == CLOSED:
        raise FleetError(f"query {query.name!r} is closed here: it is never answered")
    return make() if found is None else found


def may_close(kept: Mapping[bytes, bytes], query: SumQuery) -> bool:
    """Whether a keeper may say that it never answers: not after it did."""
    return kept.get(query.digest, CLOSED) == CLOSED
