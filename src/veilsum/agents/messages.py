"""What may leave an agent: five frozen types, and no other.

`Hello` opens a link: which agent speaks, in which incarnation, under which manifest.
`CumulativeMass` carries the whole state of one direction of a link: the running totals of all mass
ever sent over it in this session. A later one contains every earlier one, so loss, repetition and
reordering cost nothing but time: the receiver takes the difference to what it last received.
`Attendance` says who takes part: it floods the network by being merged and passed on.
`RecordExchange` carries the signed records of a masked sum, and what two ends need to compare theirs.
`StatusMessage` is for observers, who take part in nothing; no member sends it to another, or accepts it.

Numbers are integers, in units of 2^-unit (`Manifest.unit`): what one side subtracts is to the bit
what the other adds. They are computed from released values only; they contain no signal, and no
noise that was not released and charged before.
"""

from __future__ import annotations

from typing import NamedTuple


class PeerStatus(NamedTuple):
    """The status of a member: which start of its ledger speaks, and what it has released.

    `run` is random, so two copies of a ledger that were opened as often still differ. `head` is a
    keyed hash over all releases in order. Both come with a proof that only the member can compute.

    Parameters
    ----------
    start : int
        How many times the member's ledger was opened.
    run : bytes
        8 random bytes of this opening.
    start_proof : bytes
        The proof of (start, run), 8 bytes.
    releases : int
        How many releases there are.
    head : bytes
        The head of the release history, 16 bytes; empty while there are none.
    head_proof : bytes
        The proof of (releases, head), 8 bytes.

    Examples
    --------
    >>> PeerStatus(start=2, run=b"12345678").releases
    0
    """

    start: int = 0
    run: bytes = b""
    start_proof: bytes = b""
    releases: int = 0
    head: bytes = b""
    head_proof: bytes = b""


class Hello(NamedTuple):
    """The first message on a link, and the answer to a message of an unknown session.

    An incarnation is the number of times that the agent began anew without its state of mixing; a
    restart with its ledger intact continues the same incarnation. A Hello that already names the
    receiver's incarnation and run needs no answer.

    Parameters
    ----------
    sender, receiver : str
        Labels.
    incarnation, peer_incarnation : int
        The sender's, and the receiver's as far as the sender knows (0: not yet).
    epoch : int
        Of the manifest.
    manifest : bytes
        sha256 of the manifest, 32 bytes.
    fields : tuple of bytes
        8 bytes for each of `Manifest.FIELDS`, to name the first that differs.
    acknowledged : int
        The last round of the receiver's `peer_incarnation` that the sender has received.
    tag : bytes
        The sender's authentication tag of (incarnation, 0).
    echo : bytes
        The receiver's tag that came with round `acknowledged`: it proves that the receiver was
        there.
    own, known : PeerStatus
        The sender's status, and what it remembers of the receiver's, in this epoch or an earlier.
    asks : bool
        Whether the sender has yet to learn what the receiver remembers of it.
    speaks : int
        The latest version of the wire that the sender reads, which the transport states; 0: that of
        the frame.
    """

    sender: str
    receiver: str
    incarnation: int
    peer_incarnation: int
    epoch: int
    manifest: bytes
    fields: tuple[bytes, ...]
    acknowledged: int = 0
    tag: bytes = b""
    echo: bytes = b""
    own: PeerStatus = PeerStatus()
    known: PeerStatus = PeerStatus()
    asks: bool = False
    speaks: int = 0


class RangeReport(NamedTuple):
    """One step of agreeing whether to stop: least and largest estimate within `depth` hops.

    Parameters
    ----------
    phase, depth : int
        Which phase of the termination detector, and how many hops the range covers.
    low, high : tuple of int
        The range, one for each component.
    stop : int
        The round at which all stop; 0 while that is not agreed. In phase 0, where there is nothing
        to agree on: the last round up to which mixing was undone, as far as the sender knows.
    """

    phase: int = 0
    depth: int = 0
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    stop: int = 0


class CumulativeMass(NamedTuple):
    """All mass sent over one direction of a link in the session (incarnation, peer_incarnation).

    Parameters
    ----------
    sender, receiver : str
        Labels.
    incarnation, peer_incarnation : int
        The session.
    round : int
        The sender's round.
    acknowledged : int
        The last round of the receiver that the sender has received.
    sums, weight : tuple of int, int
        The running totals, one sum for each component of the statistic.
    range_report : RangeReport
        The sender's part in agreeing when to stop.
    leaving : bool
        The sender leaves for good and has handed over its mass.
    done : bool
        The sender has its estimate and sends no more mass.
    tag, echo : bytes
        The sender's authentication tag of (incarnation, round), and the receiver's that came with
        round `acknowledged`.
    run, releases, head, head_proof
        As in the sender's `PeerStatus`.
    view : bytes
        The view that the mass belongs to, 8 bytes; empty for the first one.

    Examples
    --------
    >>> message = CumulativeMass("a", "b", 1, 1, round=3, acknowledged=2, sums=(20,), weight=4)
    >>> message.done
    False
    """

    sender: str
    receiver: str
    incarnation: int
    peer_incarnation: int
    round: int
    acknowledged: int
    sums: tuple[int, ...]
    weight: int
    range_report: RangeReport = RangeReport()
    leaving: bool = False
    done: bool = False
    tag: bytes = b""
    echo: bytes = b""
    run: bytes = b""
    releases: int = 0
    head: bytes = b""
    head_proof: bytes = b""
    view: bytes = b""


class Register(NamedTuple):
    """Who takes part, in one view: parts that only ever grow, merged by OR and by the maximum.

    A view is (generation, dropped). Sets of members are integers, bit i for the i-th member of the
    manifest; a set of links has bit k for the k-th of `ViewGraph.pairs`.

    Parameters
    ----------
    generation : int
        How often everyone began anew because a member lost its state.
    dropped : int
        The links that are no longer waited for.
    present, contributing, finished : int
        The members that take part in the view, those of which a reading is in it, and those that
        have completed its last round, or have left and handed all they had over.
    ended : int
        The members that have ended, with a result or without, in whichever view. Without a last
        round, who has ended and not finished holds a part that nobody else has.
    readings : tuple of int
        How many readings of each member are in; empty where each has at most one.

    Examples
    --------
    >>> one, two = Register(present=0b01, readings=(1, 0)), Register(present=0b10, readings=(0, 4))
    >>> one.merge(two)
    Register(generation=0, dropped=0, present=3, contributing=0, finished=0, ended=0, readings=(1, 4))
    """

    generation: int = 0
    dropped: int = 0
    present: int = 0
    contributing: int = 0
    finished: int = 0
    ended: int = 0
    readings: tuple[int, ...] = ()

    def merge(self, other: Register) -> Register:
        """The union with a register of the same view."""
        readings = self.readings
        if readings != other.readings:
            readings = tuple(map(max, readings, other.readings))
        return Register(
            self.generation, self.dropped, self.present | other.present,
            self.contributing | other.contributing, self.finished | other.finished,
            self.ended | other.ended, readings,
        )  # fmt: skip


class Attendance(NamedTuple):
    """What the sender knows of who takes part; the receiver merges it and passes it on.

    Parameters
    ----------
    sender, receiver : str
        Labels.
    incarnation : int
        The sender's.
    run : bytes
        As in the sender's `PeerStatus`.
    register : Register
        What it knows.
    asks : bool
        Whether the receiver is to answer with its own.

    Examples
    --------
    >>> Attendance("a", "b", 1, b"12345678", Register(present=0b11)).register.present
    3
    """

    sender: str
    receiver: str
    incarnation: int
    run: bytes
    register: Register = Register()
    asks: bool = False


class RecordExchange(NamedTuple):
    """Records of one query of a masked sum, and what the sender has of them; each part may be empty.

    A message with digests asks for the names in the buckets that differ, and its answer echoes
    which digests it is for: without names, nothing differs. One with names asks for the records that
    the sender lacks there.

    Parameters
    ----------
    sender, receiver : str
        Labels.
    run : bytes
        Which start of the sender's ledger speaks, 8 bytes, as in its Hello.
    query : int
        Which query the records are of.
    concluded : int
        How many queries the sender has concluded.
    done : bool
        Whether the sender has concluded its last query, and looks for no result any more.
    heard_done : bool
        Whether the sender knows that the receiver has.
    digests : bytes
        A hash of 8 bytes for each of 256 buckets of records, or empty.
    names : tuple of (int, bytes)
        In order of buckets: a bucket, and 8 bytes for each record that the sender has in it.
    chunk : bytes
        Records, each with its length before it.
    echo : bytes
        Of an answer to digests: 8 bytes of their hash, else empty. An answer that is late, or a
        message that is none, is not taken for that to the last question.

    Examples
    --------
    >>> RecordExchange("a", "b", b"12345678", query=1).chunk
    b''
    """

    sender: str
    receiver: str
    run: bytes
    query: int
    concluded: int = 0
    done: bool = False
    heard_done: bool = False
    digests: bytes = b""
    names: tuple[tuple[int, bytes], ...] = ()
    chunk: bytes = b""
    echo: bytes = b""


class StatusMessage(NamedTuple):
    """How an agent fares, for one observer.

    Parameters
    ----------
    sender, receiver : str
        The label of the agent, and the name of the observer.
    sequence : int
        Counts the statuses of the agent in this start; what is missing was lost on the way.
    text : str
        `AgentStatus.public()` as JSON.

    Examples
    --------
    >>> StatusMessage("north", "control-room", 1, '{"state": "running"}').sequence
    1
    """

    sender: str
    receiver: str
    sequence: int
    text: str


Message = Hello | CumulativeMass | Attendance | RecordExchange
