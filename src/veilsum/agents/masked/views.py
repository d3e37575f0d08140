"""Which views of a query an agent follows, and how far the others have come.

Records are accepted of every view up to the one after the agent's own, of the next attempt's first
view, and of one view beyond any that more than c members have come to: an honest one is among
them, so colluders alone cannot make an agent store more.

A view is waited for until n - d members have been seen in it or beyond it, however long that takes:
whoever starts late is still in. It is left at once when more than c members are further on, and once
its time runs, when more than d have left it, or its proposer without a roster.
"""

from __future__ import annotations

from collections.abc import Iterator

from veilsum.agents.masked.flooding import RecordSet
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.masked.terms import MaskedTerms

ViewPlace = tuple[int, int]  # (attempt, view)


class ViewWindow:
    """The views that an agent follows, and the records of them.

    Parameters
    ----------
    terms : MaskedTerms
        What all members agree on.
    query : int
        Which query.
    pool : RecordPool, optional
        Where the agents of this process keep records.
    """

    def __init__(self, terms: MaskedTerms, query: int, pool: RecordPool | None = None) -> None:
        """No view is followed yet."""
        self._terms, self._query = terms, query
        self._places: dict[bytes, ViewPlace] = {}
        self._tops: dict[int, int] = {}
        self._reached: set[ViewPlace] = set()  # by more than c members
        pool = RecordPool(terms.manifest, terms.keys) if pool is None else pool
        self.records = RecordSet(pool, self._places.__contains__)

    def __iter__(self) -> Iterator[tuple[bytes, ViewPlace]]:
        """Every followed session with its place."""
        return iter(list(self._places.items()))

    def follow(self, attempt: int, view: int) -> bytes:
        """Accept records of an attempt up to the view after this one, and of the next attempt."""
        for a, top in ((attempt, view + 1), (attempt + 1, 0)):
            if a < self._terms.parameters.attempts:
                for v in range(self._tops.get(a, -1) + 1, top + 1):
                    self._places[self._terms.sid(self._query, a, v)] = a, v
                    self.records.widened += 1
                self._tops[a] = max(top, self._tops.get(a, -1))
        return self._terms.sid(self._query, attempt, view)

    def furthest(self) -> ViewPlace:
        """The last view in which more than c members are present: an honest one among them."""
        self._move()
        colluders = self._terms.parameters.colluders
        return max(
            (at for sid, at in self if self.records.count(sid, "Present") > colluders),
            default=(0, 0),
        )

    def _move(self) -> None:
        """Follow the views after those that more than c members have come to, in every attempt.

        A member that restarted says of the views before only that it left them.
        """
        most = self._terms.parameters.colluders
        moved = True
        while moved:  # a window that moves may hold a view further on
            moved = False
            for sid, place in self:
                if place in self._reached:
                    continue
                here, left = (self.records.count(sid, kind) for kind in ("Present", "Withdraw"))
                if here > most or (
                    here + left > most
                    and len(
                        self.records.of(sid, "Present").keys() | self.records.of(sid, "Withdraw")
                    )
                    > most
                ):
                    self._reached.add(place)
                    self.follow(*place)
                    moved = True

    def seen(self, sid: bytes) -> bool:
        """Whether n - d members have come as far as a view: its time runs from then on."""
        needed = self._terms.parameters.smallest_roster
        here = self.records.count(sid, "Present")
        return here >= needed or (
            here + self._count_gone(sid) >= needed
            and len(self.records.of(sid, "Present").keys() | self.gone(sid)) >= needed
        )

    def _count_gone(self, sid: bytes) -> int:
        """At least as many as `gone` has."""
        place = self._places[sid]
        later = sum(self.records.count(other, "Present") for other, at in self if at > place)
        return self.records.count(sid, "Withdraw") + later

    def gone(self, sid: bytes) -> set[str]:
        """Members that have left a view: they withdrew, or are present in a later one."""
        if not self._count_gone(sid):
            return set()
        place = self._places[sid]
        found = set(self.records.of(sid, "Withdraw"))
        for other, at in self:
            if at > place:
                found |= self.records.of(other, "Present").keys()
        return found

    def is_lost(self, sid: bytes, running: bool) -> bool:
        """Whether a view in which no roster was accepted will hardly get one.

        Before its time runs, only honest members further on are a reason: colluders that leave view
        after view cannot make those who wait for the rest use up views.
        """
        attempt, view = place = self._places[sid]
        numbers, records = self._terms.parameters, self.records
        if self.furthest() > place:
            return True
        if attempt + 1 < numbers.attempts and self.count_senders(attempt) > numbers.absent:
            return True
        gone = self.gone(sid) if running else set()
        proposer = self._terms.proposer(self._query, attempt, view)
        silent = proposer in gone and records.get(sid, "Roster", proposer) is None
        return silent or len(gone) > numbers.absent

    def count_senders(self, attempt: int) -> int:
        """Members that have sent their value of an attempt: they are in no other roster of it."""
        found = [sid for sid, (a, _) in self._places.items() if a == attempt]
        if not any(self.records.count(sid, "Masked") for sid in found):
            return 0
        return len({label for sid in found for label in self.records.of(sid, "Masked")})
