"""One neighbour, as an agent sees it: a session, two running totals and a few late messages.

With sigma the total of all that was pushed to it and rho the last total seen from it, what this
agent holds is S = X + sum rho - sum sigma. A session is a pair of lives; when either side begins
a new one, both totals go back to 0 and S with them: the flow is undone, as in flow updating
(Jesus, Baquero and Almeida), and nothing is lost or counted twice.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter

from murmura.agent.core.options import Limits
from murmura.agent.messages import Extremes, Standing, Totals

AHEAD = 2**20  # rounds that a neighbour may be ahead in an open-ended run
FIRST = 2**62
_ROUND = attrgetter("round")


class Link:
    """What is known of one neighbour."""

    __slots__ = (
        "acked", "buffer", "closed", "confirmed", "conflict", "done", "down", "extremes", "forked",
        "in_round", "in_sums", "in_token", "in_weight", "known", "newest", "open", "out_sums",
        "out_weight", "peer", "peer_life", "refused", "repeated", "share", "silent", "since",
        "stirred", "warned",
    )  # fmt: skip

    def __init__(self, peer: str, share: int, dimension: int) -> None:
        """A neighbour of which nothing is known yet."""
        self.peer = peer
        self.share = share  # of what is held, in units of 2^-53
        self.peer_life = 0  # 0: not known
        self.down = False  # cannot be reached
        self.silent = False  # missed a deadline
        self.stirred = False  # said something new since the last deadline
        self.closed = False  # has left for good
        self.refused = b""  # the other manifest that it follows
        self.repeated = 0  # messages that said nothing new
        self.known = Standing()  # where it stood when last heard, in any life and epoch
        self.confirmed = False  # has said in this run what it remembers of this agent
        self.conflict = b""  # the run of it whose conflict was reported last
        self.forked = False  # two that say they are the same run: neither is heard
        self.warned = False  # was told what is remembered of it, since the last resend
        self.reset(0, 0, dimension)

    def reset(self, peer_life: int, now: int, dimension: int) -> None:
        """Begin a session with a life of the neighbour: both totals are 0."""
        self.peer_life = peer_life
        self.open = False  # whether both sides know the session
        self.out_sums = self.in_sums = (0,) * dimension
        self.out_weight = self.in_weight = 0
        self.in_round = self.newest = self.acked = 0
        self.in_token = b""  # the neighbour's token of that round
        self.done = False  # has its estimate: nothing more will come
        self.since = now  # own round from which answers are counted
        self.buffer: list[Totals] = []
        self.extremes = Extremes()

    @property
    def waited(self) -> bool:
        """Whether a round waits for it."""
        gone = self.down or self.silent or self.closed or self.done
        return not (gone or self.refused or self.forked)

    @property
    def absent(self) -> bool:
        """Whether the others agree on when to stop without it: it has left, or stopped itself."""
        return self.closed or (self.done and self.extremes.stop > 0)

    def give(self, sums: list[int], weight: int) -> None:
        """Add a push to the running totals."""
        if len(sums) == 1:
            self.out_sums = (self.out_sums[0] + sums[0],)
        else:
            self.out_sums = tuple([a + b for a, b in zip(self.out_sums, sums, strict=True)])
        self.out_weight += weight

    def expects(self, message: Totals, limits: Limits) -> bool:
        """Whether this is what nearly all messages are: the next round, and nothing else to it.

        A short way past `wrong` for one component; False means no more than to look closer.
        """
        _, _, _, _, number, heard, sums, weight, extremes, bye, done, *_ = message
        if number != self.newest + 1 or number > limits.rounds > 0 or heard < 0 or bye or done:
            return False
        if not self.open or self.silent or self.down or extremes.phase or len(sums) != 1:
            return False
        if self.buffer:
            last = self.buffer[-1]
            before, held = last.sums, last.weight
        else:
            before, held = self.in_sums, self.in_weight
        rose, most = sums[0] - before[0], limits.sums
        return len(before) == 1 and 0 <= weight - held <= limits.weight and -most <= rose <= most

    def wrong(self, message: Totals, limits: Limits, now: int) -> str:
        """Say why no honest neighbour would send this, or nothing.

        A message is compared with its neighbours in order of rounds, of what is kept of them.
        """
        last = limits.rounds or self._last(now)
        if message.bye:
            last += AHEAD
        if not 0 <= message.round <= last:
            return f"a round that is not in 0..{last}"
        if len(message.sums) != len(self.in_sums):
            return f"{len(message.sums)} components, expected {len(self.in_sums)}"
        if message.heard < 0:
            return "a negative round heard"
        buffer, number = self.buffer, message.round
        at = bisect_left(buffer, number, key=_ROUND) if number <= self.newest else len(buffer)
        if at:
            before = buffer[at - 1]
            why = _implausible(limits, number - before.round, before.sums, before.weight, message)
        else:
            gap = number - self.in_round
            why = _implausible(limits, gap, self.in_sums, self.in_weight, message)
        if not why and at < len(buffer):
            after = buffer[at]
            why = _implausible(limits, after.round - number, message.sums, message.weight, after)
        return why

    def _last(self, now: int) -> int:
        """The last round that may be spoken of; a late joiner believes the first it hears."""
        return max(now, self.newest) + AHEAD if self.newest else FIRST

    def keep(self, message: Totals, most: int) -> None:
        """Keep a message of a later round than the last taken in, in order of rounds.

        Of too many the middle one goes: totals of later rounds contain it.
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

    def due(self, t: int, never_later: bool = False) -> Totals:
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


def _implausible(
    limits: Limits, rounds: int, sums: tuple[int, ...], weight: int, later: Totals
) -> str:
    gained = later.weight - weight
    if gained < 0:
        return "its total of weight fell"
    if gained > limits.weight * rounds:
        return f"its total of weight rose by more than exists, in {rounds} rounds"
    most = limits.sums * rounds
    for a, b in zip(sums, later.sums, strict=True):
        if not -most <= b - a <= most:
            return f"its total rose or fell by more than exists, in {rounds} rounds"
    return ""
