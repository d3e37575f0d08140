"""Which views of a query an agent follows, and how far the others have come.

Records are accepted of every view up to the one after the agent's own, of the next attempt's first
view, and of one view beyond any in which more than c members are present: an honest one is among
them, so colluders alone cannot make an agent store more.
"""

from __future__ import annotations

from collections.abc import Iterator

from murmura.agents.masked.flooding import RecordSet
from murmura.agents.masked.terms import MaskedTerms

ViewPlace = tuple[int, int]  # (attempt, view)


class ViewWindow:
    """The views that an agent follows, and the records of them.

    Parameters
    ----------
    terms : MaskedTerms
        What all members agree on.
    query : int
        Which query.
    """

    def __init__(self, terms: MaskedTerms, query: int) -> None:
        """No view is followed yet."""
        self._terms, self._query = terms, query
        self._places: dict[bytes, ViewPlace] = {}
        self._tops: dict[int, int] = {}
        self.records = RecordSet(terms.manifest, terms.keys, self._places.__contains__)

    def __iter__(self) -> Iterator[tuple[bytes, ViewPlace]]:
        """Every followed session with its place."""
        return iter(list(self._places.items()))

    def follow(self, attempt: int, view: int) -> bytes:
        """Accept records of an attempt up to the view after this one, and of the next attempt."""
        for a, top in ((attempt, view + 1), (attempt + 1, 0)):
            if a < self._terms.parameters.tries:
                for v in range(self._tops.get(a, -1) + 1, top + 1):
                    self._places[self._terms.sid(self._query, a, v)] = a, v
                self._tops[a] = max(top, self._tops.get(a, -1))
        return self._terms.sid(self._query, attempt, view)

    def furthest(self) -> ViewPlace:
        """The last view in which more than c members are present: an honest one among them."""
        found = 0, 0
        moved = True
        while moved:  # a window that moves may hold a view further on
            moved = False
            for sid, place in self:
                present = len(self.records.of(sid, "Present"))
                if place > found and present > self._terms.parameters.colluders:
                    found, moved = place, True
                    self.follow(*place)
        return found

    def senders(self, attempt: int) -> set[str]:
        """Members that have sent their value of an attempt: they take part in no other roster of it."""
        return {
            label
            for sid, (a, _) in self._places.items()
            if a == attempt
            for label in self.records.of(sid, "Masked")
        }
