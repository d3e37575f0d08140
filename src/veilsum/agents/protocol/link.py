"""One neighbour, as an agent sees it: its state, its cumulative mass and a few early messages.

With sigma the total of all mass sent to it and rho the last total received from it, an agent's own
mass is S = X + sum rho - sum sigma. A session is a pair of incarnations; when either side begins a
new one, both totals return to 0 and S with them: the mass is rolled back, as in flow updating
(Jesus, Baquero and Almeida), and nothing is lost or counted twice.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING

from veilsum.agents.messages import CumulativeMass, PeerStatus, RangeReport, Register
from veilsum.agents.protocol import states
from veilsum.agents.protocol.states import (
    Reachability,
    ReachabilityEvent,
    SessionEvent,
    SessionState,
)
from veilsum.agents.protocol.succession import SaidOnce, Speaker, Succession

if TYPE_CHECKING:
    from veilsum.agents.protocol.claims import Claims
    from veilsum.agents.protocol.memory import AgentState

AHEAD = 2**20  # rounds that a neighbour may be ahead in an open-ended run
FIRST = 2**62  # the last round accepted of a neighbour before its first message
_ROUND = attrgetter("round")


class Link:
    """What is known of one neighbour.

    Parameters
    ----------
    peer : str
        The neighbour's label.
    weight : int
        The weight of the link to it, in units of 2^-53: the part of the mass that it is sent.
    dimension : int
        Components of the statistic.
    steady : bool
        Whether rounds wait for this neighbour however long it is silent, until it is dropped.

    Attributes
    ----------
    session, reachability : SessionState, Reachability
        The state; `on` changes it by the tables of `states`, and nothing else does.
    awaited, may_send, in_reach : bool
        What follows from the state: whether a round waits for this neighbour, whether it may be
        sent mass, and whether it is sent updates.
    dropped : bool
        Whether the view has no such link.
    register : Register
        What the neighbour said last of who takes part; `joined` if it was in the present view.
    sent : Register
        What it was sent last.
    undone : bool
        Whether mass was rolled back since the rounds of this view began.
    heard, silent : bool, float
        Whether it was heard in this run, and for how many seconds it was not since.
    excess : tuple of int
        Where rounds are clipped: what the totals say was gained over this link, and was not.
    part : tuple or None
        Likewise: sums and weight sent in the present round, until the neighbour's are there.
    """

    __slots__ = (
        "acknowledged", "awaited", "buffer", "confirmed", "conflict", "differs", "dropped",
        "excess", "first_tag", "foreign_manifest", "heard", "in_reach", "in_round", "in_sums", "in_tag",
        "in_weight", "joined", "known", "may_send", "newest", "out_sums", "out_weight", "part", "peer",
        "peer_incarnation", "range_report", "reachability", "register", "repeated", "sent", "session",
        "silent", "since", "steady", "succession", "suspect", "undone", "unproved", "warned", "weight",
    )  # fmt: skip

    def __init__(self, peer: str, weight: int, dimension: int, steady: bool = False) -> None:
        """A neighbour of which nothing is known yet."""
        self.peer, self.steady = peer, steady
        self.weight = weight
        self.peer_incarnation = 0  # 0: not known
        self.session = SessionState.OPENING
        self.reachability = Reachability.RESPONSIVE
        self.foreign_manifest = b""  # the digest of another manifest that it follows
        self.differs = ""  # the first field in which that one differs
        self.dropped = self.joined = self.undone = self.heard = False
        self.silent = 0.0
        self.register = self.sent = Register()
        self.first_tag = b""  # the neighbour's tag of round 0
        self.repeated = 0  # messages without anything new
        self.known = PeerStatus()  # its status when last heard, in any incarnation and epoch
        self.confirmed = False  # has said in this run what it remembers of this agent
        self.conflict = b""  # the run of it whose conflict was reported last
        self.succession = Succession()  # whom it takes two Hellos to follow
        self.suspect = SaidOnce()  # other heads than the one known
        self.unproved = SaidOnce()  # what it claimed to remember, without a proof
        self.warned = False  # was sent what is remembered of it, since the last resend
        self._clear(0, 0, dimension)
        self._derive()

    def on(self, event: SessionEvent | ReachabilityEvent) -> None:
        """Take an event: the state follows from the tables."""
        if isinstance(event, SessionEvent):
            self.session = states.next_state(states.SESSION, self.session, event)
        else:
            self.reachability = states.next_state(states.REACHABILITY, self.reachability, event)
        self._derive()

    def _derive(self) -> None:
        session, down = self.session, self.reachability is Reachability.DOWN
        if self.steady:
            self.awaited = not self.dropped and session is not SessionState.LEFT
            self.may_send = not self.dropped and session in states.EXCHANGES_MASS
        else:
            answers = self.reachability in states.ANSWERING
            self.awaited = answers and session in states.AWAITED
            self.may_send = answers and session in states.EXCHANGES_MASS
        cut = down or self.dropped or self.undone
        self.in_reach = not cut and session in states.RECEIVES_UPDATES

    @property
    def listens(self) -> bool:
        """Whether the neighbour accepts what this agent says of who takes part."""
        down = self.reachability is Reachability.DOWN
        return self.confirmed and not down and self.session in states.ESTABLISHED

    @property
    def speaker(self) -> Speaker:
        """Who was followed so far."""
        return Speaker(self.peer_incarnation, *self.known[:3])

    def enter_view(self, dropped: bool) -> None:
        """A new view begins, with this link or without it."""
        self.dropped, self.joined, self.undone = dropped, False, False
        self._derive()

    def undo(self) -> None:
        """Mass of this view was rolled back: no more is exchanged before another view begins."""
        self.undone = True
        self._derive()

    def renew(self) -> None:
        """This agent begins a new incarnation: a new session, and both totals are 0."""
        self.on(SessionEvent.RENEWED)
        self._clear(self.peer_incarnation, 0, len(self.in_sums))
        self.in_tag = self.first_tag

    def begin_session(self, peer_incarnation: int, now: int, tag: bytes) -> None:
        """Begin a session with a new incarnation of the neighbour: both totals are 0."""
        self.on(SessionEvent.NEW_INCARNATION)
        self._clear(peer_incarnation, now, len(self.in_sums))
        self.in_tag = self.first_tag = tag
        self.joined = False

    def _clear(self, peer_incarnation: int, now: int, dimension: int) -> None:
        self.peer_incarnation = peer_incarnation
        self.out_sums = self.in_sums = (0,) * dimension
        self.out_weight = self.in_weight = 0
        self.excess = self.out_sums
        self.part: tuple[tuple[int, ...], int] | None = None
        self.in_round = self.newest = self.acknowledged = 0
        self.in_tag = b""  # the neighbour's tag of that round
        self.since = now  # own round from which acknowledgements are counted
        self.buffer: list[CumulativeMass] = []
        self.range_report = RangeReport()

    def awake(self, now: int) -> None:
        """It answers again: send it mass and wait for it."""
        self.on(ReachabilityEvent.NEWS)
        self.since = now

    def restore_left(self) -> None:
        """Set the one state that a restart remembers: the neighbour has left for good."""
        self.session = SessionState.LEFT
        self._derive()

    def unacknowledged(self, now: int) -> int:
        """Rounds since the neighbour last acknowledged one, or answered again."""
        return now - (self.acknowledged if self.acknowledged > self.since else self.since)

    def has(self, t: int) -> bool:
        """Whether the message of round t is the next to be received."""
        return bool(self.buffer) and self.buffer[0][4] == t

    @property
    def excluded(self) -> bool:
        """Whether the others agree on when to stop without it: it was dropped, left, or stopped."""
        if self.dropped:
            return True
        if self.session is SessionState.DONE:
            return self.range_report.stop > 0
        return self.session is SessionState.LEFT

    def send(self, sums: list[int], weight: int) -> None:
        """Add mass to the running totals."""
        if len(sums) == 1:
            self.out_sums = (self.out_sums[0] + sums[0],)
        else:
            self.out_sums = tuple([a + b for a, b in zip(self.out_sums, sums, strict=True)])
        self.out_weight += weight

    def continues(self, message: CumulativeMass, state: AgentState, claims: Claims) -> bool:
        """Whether this is what nearly all messages are: the next round, and nothing else to it.

        A fast path past `Handshake.admits` and `implausible`, for one component; False means only
        that the message needs the full check.
        """
        (
            _, receiver, incarnation, peer_incarnation, number, acknowledged, sums, _, report,
            leaving, done, _, _, run, releases, head, _, view,
        ) = message  # fmt: skip
        if number != self.newest + 1 or number > claims.rounds > 0:
            return False
        if leaving or done or report[0] or not 0 <= acknowledged <= state.round:
            return False
        if len(sums) != 1 or len(self.in_sums) != 1:
            return False
        if not self.may_send or not self.confirmed or self.undone or receiver != state.label:
            return False
        known = self.known
        if run != known[1] or releases != known[3] or head != known[4] or view != state.view:
            return False
        if incarnation != self.peer_incarnation or peer_incarnation != state.incarnation:
            return False
        if self.buffer:
            last = self.buffer[-1]
            before, weight_before = last[6], last[7]
        else:
            before, weight_before = self.in_sums, self.in_weight
        return claims.allows_next(self, message, before[0], weight_before)

    def implausible(self, message: CumulativeMass, claims: Claims, now: int) -> str:
        """Say why no honest neighbour would send this; empty if one might.

        A message is compared with those before and after it, in order of rounds, among the ones
        that are buffered.
        """
        last = claims.rounds or self._last(now)
        if message.leaving:
            last += AHEAD
        if not 0 <= message.round <= last:
            return f"a round that is not in 0..{last}"
        if len(message.sums) != len(self.in_sums):
            return f"{len(message.sums)} components, expected {len(self.in_sums)}"
        if message.acknowledged < 0:
            return "a negative round acknowledged"
        buffer, number = self.buffer, message.round
        at = bisect_left(buffer, number, key=_ROUND) if number <= self.newest else len(buffer)
        if at:
            before = buffer[at - 1]
            gap = number - before.round
            why = claims.rise_refusal(gap, before.sums, before.weight, message)
        else:
            gap = number - self.in_round
            why = claims.rise_refusal(gap, self.in_sums, self.in_weight, message)
        if not why and at < len(buffer):
            after = buffer[at]
            gap = after.round - number
            why = claims.rise_refusal(gap, message.sums, message.weight, after)
        return why or claims.net_refusal(self, message)

    def _last(self, now: int) -> int:
        """The last round accepted; an agent that joins late accepts the first it is sent."""
        return max(now, self.newest) + AHEAD if self.newest else FIRST

    def keep(self, message: CumulativeMass, most: int) -> None:
        """Buffer a message of a later round than the last received, in order of rounds.

        If there are too many, the middle one is dropped: totals of later rounds contain it.
        """
        buffer = self.buffer
        if message.round > self.newest:
            buffer.append(message)
            self.newest = message.round
        else:
            at = bisect_left(buffer, message.round, key=_ROUND)
            if buffer[at : at + 1] and buffer[at].round == message.round:
                self.repeated += 1
                return
            buffer.insert(at, message)
        if len(buffer) > most:
            del buffer[most // 2]

    def due(self, t: int, never_later: bool = False) -> CumulativeMass:
        """Take from the buffer: round t, else the first later one, else the last earlier one.

        With `never_later`, the last one up to round t, which must be there.
        """
        buffer = self.buffer
        if len(buffer) == 1:
            return buffer.pop()
        at = 0
        while at < len(buffer) - 1 and buffer[at].round < t:
            at += 1
        if never_later and buffer[at].round > t:
            at -= 1
        found = buffer[at]
        del buffer[: at + 1]
        return found
