"""Who has been heard of in masked sums, and who a query waits for, in words.

A member is heard of by a signed record, whoever passed it on, or by a Hello if it is a neighbour. Who is
waited for is reported after `FIRST_REPORT` seconds without progress and then every `NEXT_REPORT`: before
a roster those not present, after it those whose commitment, agreement or value is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from veilsum.agents.coverage import some_names
from veilsum.agents.masked.entries import SessionEntry, Stage
from veilsum.agents.masked.flooding import RecordSet
from veilsum.agents.masked.links import LinkState, RecordLink
from veilsum.agents.masked.terms import MaskedTerms

FIRST_REPORT, NEXT_REPORT = 5.0, 60.0  # seconds until who is missing is reported, and again


class HeardMembers:
    """Who one agent has heard of.

    Parameters
    ----------
    terms : MaskedTerms
        What all members agree on.
    label : str
        Which member this is.
    links : mapping of str to RecordLink
        Its neighbours.

    Attributes
    ----------
    heard : set of str
        Members with a record in any query.
    """

    def __init__(self, terms: MaskedTerms, label: str, links: Mapping[str, RecordLink]) -> None:
        """Nobody was heard."""
        self._terms, self._label, self._links = terms, label, links
        self.heard: set[str] = set()
        self._present: set[str] = set()  # in the query that was read last
        self._records: RecordSet | None = None
        self._read, self._query = 0, 0
        self._stage: tuple[object, ...] = ()
        self._waited, self._due = 0.0, FIRST_REPORT

    def taking_part(self, query: int, records: RecordSet | None) -> Set[str]:
        """Members with a record in a query."""
        if query != self._query:
            self._query, self._present = query, set()
        if records is not self._records:  # an observed query became a session, or it is another one
            self._records, self._read = records, 0
        if records is not None and len(records) > self._read:
            fresh = {one.record.label for one in records.since(self._read)}
            self._read = len(records)
            self._present |= fresh
            self.heard |= fresh
        return self._present

    @property
    def known(self) -> set[str]:
        """Everybody that was heard of, this agent and neighbours that said Hello included."""
        near = {peer for peer, link in self._links.items() if link.heard}
        return self.heard | near | {self._label}

    def is_due(self, seconds: float, *stage: object) -> bool:
        """Whether to report who is waited for, now that so many seconds have passed in a stage."""
        if stage != self._stage:
            self._stage, self._waited, self._due = stage, 0.0, FIRST_REPORT
        self._waited += seconds
        if self._waited < self._due:
            return False
        self._due = self._waited + NEXT_REPORT
        return True

    def missing(self, entry: SessionEntry | None, proposal: float) -> tuple[str, str]:
        """Who the query that was read last waits for: the kind of report, and its text.

        Parameters
        ----------
        entry : SessionEntry or None
            The agent's own session in it, if it takes part.
        proposal : float
            Seconds before a roster without the missing is proposed.

        Returns
        -------
        tuple of str and str
            Both empty if nobody is waited for.
        """
        if entry is not None and entry.prepared is not None and entry.stage is not Stage.WITHDRAWN:
            return self._missing_in_roster(entry, entry.prepared.members)
        labels = self._terms.labels
        absent = [one for one in labels if one not in self._present and one != self._label]
        if not absent:
            return "", ""
        names = some_names([self._described(label) for label in absent])
        text = f"waiting for {len(absent)} of {len(labels)} members: {names}"
        if len(labels) - len(absent) >= self._terms.parameters.smallest_roster:
            text += f"; enough are present, {proposal:g} s later they go on without the missing"
        return "gathering", text

    def _missing_in_roster(self, entry: SessionEntry, members: tuple[int, ...]) -> tuple[str, str]:
        records, labels = self._records, self._terms.labels_of(members)
        kind = "Masked" if entry.sent else "Ready" if entry.gamma else "Commit"
        found = records.of(entry.sid, kind) if records is not None else {}
        absent = [self._described(label) for label in labels if label not in found]
        what = {"Masked": "masked values", "Ready": "agreement", "Commit": "commitments"}[kind]
        text = f"attempt {entry.attempt + 1} waits for {what} of {some_names(absent)}"
        return ("deadline", text) if absent else ("", "")

    def _described(self, label: str) -> str:
        link = self._links.get(label)
        if link is not None and link.state is LinkState.MISMATCHED:
            return f"{label} (its manifest differs in {link.differs})"
        if link is not None and link.conflict and not link.heard:
            return f"{label} (refused: its ledger is not the one remembered)"
        if label in self.known:
            return label if link is None or link.up else f"{label} (cannot be reached)"
        return f"{label} (never heard)"
