"""A site's only post to a query: its noised vector, split among the keepers.

    v = x + eta            noise shares of all honest sites make up the whole
    E = H(seed, v, q, site)                              one ephemeral key
    pad_j = XOF(X25519(E, key_j); q, site, E, j, key_j)  uniform, on both ends
    f of degree < t + l - 1 passes through v at 0, -1, .. and through pad_j at j = 1 .. t - 1
    body = E and f(j) - pad_j for j = t .. k

The body is uniformly random to whoever lacks the pads, and every well-formed body opens at every keeper:
no decryption can fail, so that nobody can complain. One more coordinate, g, is random and hides the check
word (`answer.check_words`).

v, eta, the seed and the pads live in memory only. Drawing takes 13 us for a share that is 0 and another
35 us for one that is not: draw before anything that others can time waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from veilsum import _extras
from veilsum.errors import FleetError
from veilsum.fleet.secure_sum.field import (
    Elements,
    P,
    digest,
    elements,
    from_bytes,
    negated,
    plus,
    product,
    stream,
    to_bytes,
    uniform,
)
from veilsum.fleet.secure_sum.query import Keeper, SumQuery, good_key
from veilsum.privacy.exact.grid import Integers


def deal(query: SumQuery, site: str, vector: Sequence[int] | Integers, seed: bytes) -> bytes:
    """The body of the site's only post, kept for ever; the noise share is in `vector`, `seed` is fresh."""
    if site not in query.index:
        raise FleetError(f"{site!r} is no site of query {query.name!r}")
    if len(vector) != query.length or len(seed) != 32:
        raise FleetError(
            f"a deal takes {query.length} components and a seed of 32 bytes; found {len(vector)} "
            f"and {len(seed)}"
        )
    pack, t = query.numbers.pack, query.numbers.threshold
    values = np.zeros(pack * (query.columns - 1), np.uint64)
    values[: query.length] = np.array([int(v) % P for v in vector], np.uint64)
    hedged = hedge(query, site, values, seed)
    secret = _private(digest(b"ephemeral", hedged))
    ephemeral: bytes = secret.public_key().public_bytes_raw()
    pads = elements(
        [
            pad(query, site, ephemeral, keeper, secret.exchange(_public(keeper.key)))
            for keeper in query.keepers
        ],
        query.columns,
    )
    hiding = uniform(pack, b"hiding", hedged).reshape(pack, 1)
    given = np.vstack([np.hstack([values.reshape(pack, -1), hiding]), pads[: t - 1]])
    return ephemeral + to_bytes(plus(product(query.spread, given), negated(pads[t - 1 :])))


def hedge(query: SumQuery, site: str, values: Elements, seed: bytes) -> bytes:
    """Rule K3: a cloned machine that repeats its seed with another vector repeats no pad.

    The pads would cancel in the difference of the two posts, and show v' - v.
    """
    return digest(b"seed", query.digest, site.encode(), seed, to_bytes(values))


def pad(query: SumQuery, site: str, ephemeral: bytes, keeper: Keeper, shared: bytes) -> bytes:
    """Rule K6: a pad is of this query, site, E, keeper and key; whoever copies E gets other pads."""
    parts = (query.digest, site.encode(), ephemeral, keeper.label.encode(), keeper.key, shared)
    return stream(query.columns, b"pad", *parts)


def valid_deal(query: SumQuery, site: str, body: bytes) -> bool:
    """Rule K5: whether all keepers accept it, which nothing secret decides."""
    return site in query.index and _cells(query, body) is not None and good_key(body[:32])


def _cells(query: SumQuery, body: bytes) -> Elements | None:
    count = (len(query.keepers) - query.numbers.threshold + 1) * query.columns
    return from_bytes(body[32:]) if len(body) == 32 + 8 * count else None


def shares(
    query: SumQuery, keeper: str, secret: bytes, deals: Sequence[tuple[str, bytes]]
) -> Elements:
    """What the keeper reads in valid deals of (site, body): one row each, g in the last column."""
    j, t, width = query.point[keeper], query.numbers.threshold, 8 * query.columns
    own, key = query.keepers[j - 1], _private(secret)
    pads = [
        pad(query, site, body[:32], own, key.exchange(_public(body[:32]))) for site, body in deals
    ]
    out = elements(pads, query.columns)
    if j < t:
        return out
    start = 32 + (j - t) * width
    cells = from_bytes(b"".join(body[start : start + width] for _, body in deals))
    if cells is None:
        raise FleetError(f"query {query.name!r}: a deal holds elements that are not below p")
    return plus(out, cells.reshape(out.shape))


def share(query: SumQuery, site: str, body: bytes, keeper: str, secret: bytes) -> Elements:
    """What the keeper reads in one valid deal."""
    out: Elements = shares(query, keeper, secret, [(site, body)])[0]
    return out


def public_key(secret: bytes) -> bytes:
    """The X25519 key of 32 secret bytes."""
    key: bytes = _private(secret).public_key().public_bytes_raw()
    return key


def _private(secret: bytes) -> Any:
    return _x25519().X25519PrivateKey.from_private_bytes(secret)


@lru_cache(4096)
def _public(key: bytes) -> Any:
    return _x25519().X25519PublicKey.from_public_bytes(key)


@lru_cache(1)
def _x25519() -> Any:
    return _extras.load("cryptography.hazmat.primitives.asymmetric.x25519")
