"""The state of a core as bytes, for the ledger: all that a restart in the same life must know.

Whether a link is open is not: before it pushes again, the agent hears what its neighbour knows.
What an agent holds is not written down: it follows from what it released and from the totals of
its links. Messages that wait in a buffer are not either: their senders repeat them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from murmura.agent.messages import Extremes
from murmura.errors import LedgerError

if TYPE_CHECKING:
    from murmura.agent.core.base import Core

VERSION = 3


def encode(core: Core) -> bytes:
    """Write the state down as compact JSON."""
    links = [
        [
            link.peer, link.peer_life, link.closed, link.out_sums, link.out_weight, link.in_sums,
            link.in_weight, link.in_round, link.in_token.hex(), link.acked, link.since,
            link.extremes,
        ]
        for link in core.links
        if link.peer_life
    ]  # fmt: skip
    state = [
        VERSION, core.manifest.digest.hex(), core.label, core.life, core.round, core.put_sums,
        core.put_weight, core.entered, sorted(core.skipped), core.reason, core.result,
        core.leaving, core.progress(), links, core.aside_sums, core.aside_weight,
    ]  # fmt: skip
    return json.dumps(state, separators=(",", ":")).encode()


def restore(core: Core, life: int, state: bytes) -> None:
    """Put a core back into the state that `encode` wrote."""
    read = _checked(core, life, state)
    core.round, core.put_sums, core.put_weight, core.entered = read[4:8]
    core.skipped, core.reason, core.result = set(read[8]), read[9], tuple(read[10])
    core.leaving = read[11]
    core.proceed(read[12])
    core.aside_sums, core.aside_weight = read[14:16]
    known = {link.peer: link for link in core.links}
    for peer, *values in read[13]:
        link = known[peer]
        link.peer_life, link.closed, out_sums, link.out_weight, in_sums, link.in_weight = values[:6]
        link.out_sums, link.in_sums = tuple(out_sums), tuple(in_sums)
        link.in_round, link.in_token = values[6], bytes.fromhex(values[7])
        link.newest, link.acked, link.since = link.in_round, values[8], values[9]
        link.extremes = extremes(values[10])
    core.recount()


def extremes(read: list[Any]) -> Extremes:
    """Extremes as JSON leaves them."""
    phase, depth, low, high, stop = read
    return Extremes(phase, depth, tuple(low), tuple(high), stop)


def _checked(core: Core, life: int, state: bytes) -> list[Any]:
    expected = [VERSION, core.manifest.digest.hex(), core.label, life]
    try:
        read = json.loads(state)
        found = read[:4]
    except (ValueError, TypeError) as error:
        raise LedgerError(f"the state of {core.label} cannot be read: {error}") from None
    names = ("version", "manifest", "agent", "life")
    for name, own, other in zip(names, expected, found, strict=True):
        if own != other:
            raise LedgerError(
                f"the state of {core.label} is for another {name}: found {other}, expected {own}; "
                "begin a new life with the releases of its ledger"
            )
    return list(read)
