"""The queries of an agent: one after the other, each followed as a session or by observing.

Records are accepted of the present query, of the next one, and of the last `KEPT` that are concluded,
for neighbours that come late. A session begins when its contribution is there and the query's turn has
come; until then, and without a contribution, the query is observed.

An agent that is further behind than its neighbours' records go follows one later query for each of them
(`watch`). The sum of such a query proves, by the signatures of n - d members, that the others are there:
the agent goes on `KEPT` queries before it, and what came earlier is not in its estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from veilsum.agents.coverage import Coverage
from veilsum.agents.events import Contribution
from veilsum.agents.masked.actions import STOPPED, Publish, SessionAction, SessionTimes
from veilsum.agents.masked.entries import SessionLedger, StoredSum
from veilsum.agents.masked.flooding import RecordSet
from veilsum.agents.masked.observer import Observer
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.masked.records import SignedRecord
from veilsum.agents.masked.session import Session
from veilsum.agents.masked.terms import MaskedTerms

KEPT = 8  # concluded queries whose records are held
LATE = "late"  # the reason of a query that is left because nobody has its records any more


class Queries:
    """What an agent follows, and what came of it.

    Parameters
    ----------
    terms : MaskedTerms
        What all members agree on.
    label : str
        Which member this is.
    signing_key : Ed25519PrivateKey
        The private half of its pinned key.
    ledger : SessionLedger
        What it must not forget.
    draw : callable
        Gives a fresh noise vector.
    times : SessionTimes
        Time limits of its sessions.
    step : float
        One grid step, in units of the statistic.
    last : int
        The last query; 0 is open-ended.

    Attributes
    ----------
    concluded : int
        How many queries are concluded.
    reason : str
        Why the agent is done; empty while it is not.
    sums : dict of int to StoredSum
        Results by query.
    """

    def __init__(
        self,
        terms: MaskedTerms,
        label: str,
        signing_key: Ed25519PrivateKey,
        ledger: SessionLedger,
        draw: Callable[[], tuple[int, ...]],
        times: SessionTimes,
        step: float,
        last: int,
        pool: RecordPool | None = None,
    ) -> None:
        """No query is concluded yet."""
        self.terms, self.label, self.ledger, self.times = terms, label, ledger, times
        self._signing_key, self._draw = signing_key, draw
        self.pool = RecordPool(terms.manifest, terms.keys) if pool is None else pool
        self._step, self.last = Fraction(step), last
        self.concluded, self.reason = 0, ""
        self.sums: dict[int, StoredSum] = {}
        self._contributions: dict[int, Contribution] = {}
        self._followed: dict[int, Session | Observer] = {}
        self._watched: dict[str, int] = {}  # by neighbour

    @property
    def current(self) -> int:
        """The query whose turn it is; the last one when all are concluded."""
        following = self.concluded + 1
        return min(following, self.last) if self.last else following

    @property
    def finished(self) -> bool:
        """Whether the last query is concluded."""
        return 0 < self.last <= self.concluded

    def restore(self, sums: Iterable[StoredSum], concluded: int) -> list[tuple[int, SignedRecord]]:
        """Take over what the ledger remembers; the records of what was sent, to be sent again."""
        self.sums = {found.query: found for found in sums}
        self.concluded = max([concluded, *self.sums])
        self._follow()
        again = []
        for query, followed in self._followed.items():
            if isinstance(followed, Observer):
                again += [(query, signed) for signed in followed.restore(self._signing_key)]
        return again

    def _follow(self) -> None:
        """Hold the records of the present query, of the next, and of the last few."""
        first, top = max(1, self.concluded - KEPT + 1), self.concluded + 2
        top = min(top, self.last) if self.last else top
        self._watched = {peer: one for peer, one in self._watched.items() if one > top}
        self._followed = {
            query: self._followed.get(query)
            or Observer(self.terms, self.label, query, self.ledger, self.pool)
            for query in sorted({*range(first, top + 1), *self._watched.values()})
        }

    def watch(self, peer: str, query: int) -> None:
        """Follow a query that a neighbour says is concluded, beyond those whose turn comes soon."""
        if query > self.concluded + 2 and (not self.last or query <= self.last):
            self._watched[peer] = query
            self._follow()

    def watched(self, peer: str) -> int:
        """The query that is followed because of a neighbour; 0 if there is none."""
        return self._watched.get(peer, 0)

    def skip_to(self, query: int) -> list[int]:
        """Go on with this query; those before it that a contribution was meant for, and the last."""
        skipped = [one for one in sorted(self._contributions) if one < query]
        left = self.followed(self.current)
        if isinstance(left, Session):
            left.reason = (
                left.reason or LATE
            )  # its timers may still run; the ledger has concluded it
            skipped.insert(0, self.current)
        for one in skipped:
            self._contributions.pop(one, None)
        self.concluded = query - 1
        self._follow()
        return sorted({*skipped, query - 1})

    def followed(self, query: int) -> Session | Observer | None:
        """The session of a query, or its observer; None if it is not followed."""
        return self._followed.get(query)

    def records(self, query: int) -> RecordSet | None:
        """The records of a query; None if it is not followed."""
        found = self._followed.get(query)
        return None if found is None else found.records

    @property
    def unsettled(self) -> list[int]:
        """Concluded queries that may get a result, or an earlier one, or lack records after a restart."""
        return [
            query
            for query in sorted(self._followed, reverse=True)
            if query <= self.concluded
            and (query not in self.sums or self.sums[query].attempt or not self._complete(query))
        ]

    def _complete(self, query: int) -> bool:
        found = self._followed[query]
        return found.result is not None

    @property
    def size(self) -> int:
        """How many records are held."""
        return sum(len(found.records) for found in self._followed.values())

    def contribute(self, contribution: Contribution) -> bool:
        """Take a contribution; False if its query is over."""
        if contribution.query <= self.concluded:
            return False
        self._contributions[contribution.query] = contribution
        return True

    @property
    def contributes(self) -> bool:
        """Whether the agent takes part in the present query, or is about to."""
        return self.current in self._contributions or isinstance(
            self.followed(self.current), Session
        )

    def begin(self) -> list[SessionAction]:
        """Begin the session of the present query, if its contribution is there.

        It sees all records that are known before anything of it is sent: an own record that the
        ledger does not know ends the agent first.
        """
        observed = self.followed(self.current)
        if not isinstance(observed, Observer) or self.current not in self._contributions:
            return []
        if observed.reason:
            return []
        given = self._contributions.pop(self.current)
        session = Session(
            self.terms, self.label, self._signing_key, given.query, given.statistic, self.ledger,
            self._draw, self.times, readings=given.readings, pool=self.pool,
        )  # fmt: skip
        self._followed[given.query] = session
        actions = session.start()
        known = list(observed.records)
        size = -1
        while len(session.records) > size and not session.reason:  # the window of views may move
            size = len(session.records)
            actions = [*actions, *session.receive(known)]
        if session.reason in STOPPED:
            return [action for action in actions if not isinstance(action, Publish)]
        return actions

    def conclude(self, query: int, summed: StoredSum | None) -> bool:
        """Note the end of a query; whether that is news: an earlier attempt replaces a later one."""
        before = self.sums.get(query)
        if summed is not None and (before is None or summed.attempt < before.attempt):
            self.sums[query] = summed
        elif query <= self.concluded:
            return False
        self._contributions.pop(query, None)
        if query > self.concluded:
            self.concluded = query
            self._follow()
        return True

    @property
    def estimate(self) -> tuple[float, ...]:
        """sum of all totals * step / readings, rounded once; empty while there is no result."""
        readings = sum(sum(found.readings) for found in self.sums.values())
        if not readings:
            return ()
        totals = zip(*(found.totals for found in self.sums.values()), strict=True)
        return tuple(float(sum(column) * self._step / readings) for column in totals)

    @property
    def coverage(self) -> Coverage:
        """Whose readings are in the estimate, over all concluded queries."""
        labels = self.terms.labels
        counts = [0] * len(labels)
        for found in self.sums.values():
            for member, readings in zip(found.members, found.readings, strict=True):
                counts[member] += readings
        present = tuple(label for label, count in zip(labels, counts, strict=True) if count)
        draws = sum(len(found.members) for found in self.sums.values())
        attempt = self.sums[max(self.sums)].attempt + 1 if self.sums else 0
        return Coverage(labels, present, tuple(counts), draws=draws, attempt=attempt)
