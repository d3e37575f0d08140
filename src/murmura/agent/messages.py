"""What may leave an agent: two frozen types, and no other.

`Hello` opens a link: who speaks, in which of its lives, under which manifest. `Totals` carries the
whole state of one direction of a link: the running totals of all that was ever pushed over it in
this session. A later one contains every earlier one, so loss, repetition and reordering cost
nothing but time: the receiver takes the difference to what it last saw.

Numbers are integers, in units of 2^-unit (`Manifest.unit`): what one side subtracts is to the bit
what the other adds. They are computed from released values only; no signal and no noise is in
them that was not released and paid for before.
"""

from __future__ import annotations

from typing import NamedTuple


class Hello(NamedTuple):
    """The first message on a link, and the answer to one from a stranger.

    A life is the number of times that the agent began anew without its state of mixing; a restart
    with its ledger intact continues the same life. `peer_life` is the receiver's life as far as
    the sender knows (0: not yet), so a Hello that already names it needs no answer.

    A token is what only its maker can make, of its life and round. `echo` is the receiver's token
    that came with round `heard` of `peer_life`: who says that the receiver was further than it
    remembers can prove it.
    """

    sender: str
    receiver: str
    life: int
    peer_life: int
    epoch: int
    manifest: bytes  # 32 bytes, sha256 of the whole
    fields: tuple[bytes, ...]  # 8 bytes for each of Manifest.FIELDS, to name the first that differs
    heard: int = 0  # the last round of the receiver's `peer_life` that the sender has taken in
    token: bytes = b""  # the sender's, of (life, 0)
    echo: bytes = b""


class Extremes(NamedTuple):
    """One step of agreeing whether to stop: the least and largest estimate within `depth` hops."""

    phase: int = 0
    depth: int = 0
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    stop: int = 0  # the round at which all stop; 0: not agreed


class Totals(NamedTuple):
    """All that was pushed over one direction of a link in the session (life, peer_life)."""

    sender: str
    receiver: str
    life: int
    peer_life: int
    round: int
    heard: int  # the last round of the receiver that the sender has taken in
    sums: tuple[int, ...]  # one for each component of the statistic
    weight: int
    extremes: Extremes = Extremes()
    bye: bool = False  # the sender leaves for good and has handed over all it held
    done: bool = False  # the sender has its estimate and pushes nothing more
    token: bytes = b""  # the sender's, of (life, round)
    echo: bytes = b""  # the receiver's, that came with round `heard`


Message = Hello | Totals
