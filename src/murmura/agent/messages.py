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


class Standing(NamedTuple):
    """Where a member stands: which start of its ledger speaks, and what it has released.

    `run` is random, so two copies of a ledger that were opened as often still differ. `head` is a
    keyed hash over all releases in order. Both come with a proof that only the member can make.
    """

    start: int = 0  # how many times its ledger was opened
    run: bytes = b""  # 8 bytes of this opening
    proof: bytes = b""  # of (start, run), 8 bytes
    releases: int = 0  # how many there are
    head: bytes = b""  # 16 bytes; empty while there are none
    seal: bytes = b""  # the proof of (releases, head), 8 bytes


class Hello(NamedTuple):
    """The first message on a link, and the answer to one from a stranger.

    A life is the number of times that the agent began anew without its state of mixing; a restart
    with its ledger intact continues the same life. `peer_life` is the receiver's life as far as
    the sender knows (0: not yet), so a Hello that already names it needs no answer.

    A token is what only its maker can make, of its life and round. `echo` is the receiver's token
    that came with round `heard` of `peer_life`: who says that the receiver was further than it
    remembers can prove it.

    `own` is where the sender stands, `known` what it remembers of the receiver, in this epoch or
    any earlier one: a `known` that names the receiver's present run was said after it spoke.
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
    own: Standing = Standing()
    known: Standing = Standing()
    asks: bool = False  # the sender has not heard yet what the receiver remembers of it


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
    run: bytes = b""  # the sender's, as in its `Standing`; and so are these three
    releases: int = 0
    head: bytes = b""
    seal: bytes = b""


Message = Hello | Totals
