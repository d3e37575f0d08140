"""What a site has spent: one ledger for all its boards and questions, in the transaction of its caller.

    charge:   spent over {charges that count at t}  <=  limit   for every t at which the new one counts
    head_0 = root,   head_n = SHA-256(head_(n-1), kind_n, body_n, at_n)

Charges are rows that are only ever added, each with a hash of all before it, as in the budget of a table. The
hashes are no signature: they find accidents and changes by hand. That the end of the ledger is missing, they
cannot find; the board can.

The price is `privacy.accounting.spent` and nothing else. It adds epsilons and deltas up, which holds also
where each question is chosen after the answers before were seen.

`tally` is a cache: how many charges of one cost count in one span (`budget_units`). It makes a check as cheap
after a year as on the first day; `verify` compares it with the rows, and another unit of the budget makes it
anew.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from veilsum.asking.budget_log import next_head
from veilsum.errors import FleetError
from veilsum.fleet.budget_units import FOREVER, SiteBudget, Span, Spending, said
from veilsum.fleet.periods import written
from veilsum.privacy.accounting import Composition, PrivacyEvent, Release, spent

Place = tuple[str, str, int, int, int]  # source, event, moved, until, first

CHARGE, CARRIED, REFUND = "charge", "carried", "refund"
COUNTS = {CHARGE: 1, CARRIED: 1, REFUND: -1}
COLUMNS = "n, kind, source, first, until, readings, event, at, what, board, head"
SCHEMA = (
    "create table charges (n integer primary key, kind text not null, source text not null, first integer not"
    " null, until integer not null, readings integer not null, event text not null, at integer not null,"
    " what text not null, board text not null, head text not null) strict",
    "create table tally (source text not null, event text not null, moved integer not null, until integer not"
    " null, first integer not null, count integer not null,"
    " primary key (source, event, moved, until, first)) strict, without rowid",
    "create index tally_first on tally (source, first)",
    "create index tally_until on tally (source, until)",
    "create table tally_costs (source text not null, event text not null, moved integer not null,"
    " primary key (source, event, moved)) strict, without rowid",
    "create table tally_unit (per text not null) strict",
)
DAMAGED = (
    "nothing was released; never restore it from a backup: let the authority admit a new key of this site, "
    "which takes over what the board says was spent"
)
COUNTED = (  # at one moment, by cost
    "select event, moved, (select sum(count) from tally t where t.source = c.source and t.event = c.event and"
    " t.moved = c.moved and t.until > ? and t.first <= ?) from tally_costs c where c.source = ?"
)
STARTS, ENDS = (  # between two moments
    f"select {edge}, event, moved, {sign}sum(count) from tally where source = ? and {edge} > ? and {edge} < ?"
    f" group by {edge}, event, moved"
    for edge, sign in (("first", ""), ("until", "-"))
)


class BudgetSpentError(FleetError):
    """A charge beyond the limit of a site: nothing was charged."""

    def __init__(
        self,
        source: str,
        budget: SiteBudget,
        before: Composition,
        cost: Composition,
        refills_at: int | None,
    ) -> None:
        """Say all of it."""
        self.budget, self.before, self.cost, self.refills_at = budget, before, cost, refills_at
        again = budget.unit.refills if refills_at is None else f"at {written(refills_at)}"
        super().__init__(
            f"the budget of {source} is {budget}, of which {said(before.epsilon, before.delta)} is spent; "
            f"this would cost {said(cost.epsilon, cost.delta)} more, and nothing was charged or released; "
            f"it refills {again}; ask for less, or let the site write a "
            "larger [budget] in its site.toml"
        )


class Unspent(NamedTuple):
    """What is left."""

    epsilon: float
    delta: float


class SpentLine(NamedTuple):
    """One line of the report: a question on a source, or a source in all (`what` and `board` are empty)."""

    source: str
    what: str
    board: str
    charges: int
    first_at: int
    last_at: int
    cost: Composition


class SiteLedger:
    """The ledger of a site, in an open database.

    >>> ledger = SiteLedger(sqlite3.connect(":memory:"), SiteBudget.of(1.0))
    >>> ledger.charge(Spending("meter", 0, 3600, 1, PrivacyEvent(0.25), 3700, "ab12", "board"))
    >>> ledger.left("meter", at=60).epsilon, ledger.left("meter", at=3600).epsilon
    (0.75, 1.0)
    """

    def __init__(self, db: sqlite3.Connection, budget: SiteBudget, root: str = "") -> None:
        """Make its tables, if it has none."""
        self._db, self.budget, self._root = db, budget, root
        if not db.execute("select 1 from sqlite_master where name = 'tally_unit'").fetchone():
            for statement in SCHEMA:
                db.execute(statement)
        if db.execute("select per from tally_unit").fetchone() != (str(budget.unit),):
            self._tally_anew()

    def check(self, asked: Spending) -> None:
        """Raise `BudgetSpentError` if a charge would exceed the limit at any moment."""
        span, own = self.budget.unit.span(asked), self.budget.unit.release(asked)
        if not self.budget.covers(self._most(asked.source, span, own)):
            raise BudgetSpentError(
                asked.source,
                self.budget,
                self._most(asked.source, span),
                spent([own]),
                self._refills(asked),
            )

    def charge(self, asked: Spending) -> None:
        """Add a charge, or refuse it as `check` does."""
        self.check(asked)
        self._add(CHARGE, asked)

    def refund(self, what: str, board: str) -> bool:
        """Give back what a question has cost, once, by a row for each of its charges; whether it did.

        For releases that can never be opened, and that nobody else has opened (`sums`, rule K9).
        """
        place = what, board
        query = (
            f"select {COLUMNS} from charges where kind = ? and what = ? and board = ? order by n"
        )
        if self._db.execute(query, (REFUND, *place)).fetchone() is not None:
            return False
        rows = self._db.execute(query, (CHARGE, *place)).fetchall()
        for _, _, source, first, until, readings, event, at, *_ in rows:
            self._add(REFUND, Spending(source, first, until, readings, _event(event), at, *place))
        return bool(rows)

    def carry(
        self, source: str, start: int, end: int, event: PrivacyEvent, at: int, what: str, board: str
    ) -> None:
        """Take over what another key of this site has spent, as the board says, once, whatever the limit is.

        What was spent on which reading is not known any more: all of it counts for each of [start, end).
        """
        one = Spending(source, start, end, 1, event, at, what, board)
        known = self._db.execute(
            "select 1 from charges where (kind, source, first, until, event, what, board)"
            " = (?, ?, ?, ?, ?, ?, ?)",
            (CARRIED, source, start, end, _written(event), what, board),
        ).fetchone()
        if known is None:
            self._add(CARRIED, one)

    def until(self, source: str, what: str) -> int | None:
        """The end of the last readings that a question has taken of a source, here or before a new key."""
        (found,) = self._db.execute(
            "select max(until) from charges where source = ? and what = ?", (source, what)
        ).fetchone()
        return None if found is None else int(found)

    def spent(self, source: str) -> Composition:
        """What is spent at the dearest moment."""
        return self._most(source, (-FOREVER, FOREVER))

    def left(self, source: str, at: int) -> Unspent:
        """What a reading of that time may still cost."""
        one = Spending(
            source, at, at + 1, 1, PrivacyEvent(1.0), at, "", ""
        )  # of which times matter
        now = self._most(source, self.budget.unit.span(one))
        limit = self.budget
        return Unspent(max(0.0, limit.epsilon - now.epsilon), max(0.0, limit.delta - now.delta))

    def report(self) -> list[SpentLine]:
        """All questions and what their releases cost in sum, and each source at its dearest moment."""
        found: dict[tuple[str, str, str], list[tuple[int, int, int]]] = {}
        costs: dict[tuple[str, str, str], Counter[Release]] = {}
        for *question, event, readings, count, first, last in self._db.execute(
            "select source, what, board, event, readings, sum(case kind when 'refund' then -1 else 1 end),"
            " min(at), max(at) from charges group by source, what, board, event, readings"
        ):
            source, what, board = question
            for key in ((source, what, board), (source, "", "")):
                found.setdefault(key, []).append((count, first, last))
                costs.setdefault(key, Counter())[_release(event, readings)] += count
        return [
            SpentLine(
                *key,
                sum(count for count, _, _ in parts),
                min(first for _, first, _ in parts),
                max(last for _, _, last in parts),
                spent(costs[key]) if key[1] else self.spent(key[0]),
            )
            for key, parts in sorted(found.items())
        ]

    def verify(self) -> int:
        """Check every hash and the tally; how many charges there are."""
        head, count = self._root, 0
        for n, kind, *fields, found in self._db.execute(
            f"select {COLUMNS} from charges order by n"
        ):
            count += 1
            head = next_head(head, kind, json.dumps(fields), str(n))
            if n != count or head != found:
                raise FleetError(
                    f"the ledger of this site is damaged: charge {count} does not follow from those before "
                    f"it; {DAMAGED}"
                )
        tally = {tuple(place): n for *place, n in self._db.execute("select * from tally")}
        costs = {*self._db.execute("select * from tally_costs")}
        if tally != self._tallied() or costs != {place[:3] for place in tally}:
            raise FleetError(
                f"the ledger of this site is damaged: its sums are not those of its charges; {DAMAGED}"
            )
        return count

    def _add(self, kind: str, one: Spending) -> None:
        last = self._db.execute("select n, head from charges order by n desc limit 1").fetchone()
        n, head = (last[0] + 1, last[1]) if last else (1, self._root)
        event = _written(one.event)
        fields = [one.source, one.start, one.end, one.readings, event, one.at, one.what, one.board]
        head = next_head(head, kind, json.dumps(fields), str(n))
        self._db.execute(
            f"insert into charges ({COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (n, kind, *fields, head),
        )
        self._count(self._place(one), COUNTS[kind])

    def _place(self, one: Spending) -> Place:
        """The row of the tally in which a charge counts."""
        first, until = self.budget.unit.span(one)
        return one.source, _written(one.event), self.budget.unit.moved(one), until, first

    def _count(self, place: Place, count: int) -> None:
        self._db.execute("insert or ignore into tally_costs values (?, ?, ?)", place[:3])
        self._db.execute(
            "insert into tally values (?, ?, ?, ?, ?, ?)"
            " on conflict do update set count = count + excluded.count",
            (*place, count),
        )

    def _tallied(self) -> Counter[Place]:
        """The tally, from the charges."""
        counts: Counter[Place] = Counter()
        for kind, source, first, until, readings, event, at in self._db.execute(
            "select kind, source, first, until, readings, event, at from charges"
        ):
            one = Spending(source, first, until, readings, _event(event), at, "", "")
            counts[self._place(one)] += COUNTS[kind]
        return counts

    def _tally_anew(self) -> None:
        """Count in the spans of another unit."""
        tally = self._tallied()
        for table in ("tally", "tally_costs"):
            self._db.execute(f"delete from {table}")
        self._db.execute("delete from tally_unit")
        self._db.execute("insert into tally_unit values (?)", (str(self.budget.unit),))
        for place, count in tally.items():
            self._count(place, count)

    def _most(self, source: str, span: Span, *more: Release) -> Composition:
        """The most that counts at a moment of a span, with further releases: of epsilon, and of delta."""
        low, high = span
        counts = Counter(more)
        for event, moved, count in self._db.execute(COUNTED, (low, low, source)):
            if count:
                counts[_release(event, moved)] += count
        starts = self._db.execute(STARTS, (source, low, high)).fetchall()
        if not starts:  # all that counts in the span counts at its first moment
            return spent(counts)
        return _dearest(counts, [*starts, *self._db.execute(ENDS, (source, low, high))])

    def _refills(self, asked: Spending) -> int | None:
        """When a charge like this is covered; None if it never is."""
        unit, (low, high) = self.budget.unit, self.budget.unit.span(asked)
        own = unit.release(asked)
        if not self.budget.covers(spent([own])):
            return None
        ends = self._db.execute(
            "select distinct until from tally where source = ? and until > ? order by until",
            (asked.source, low),
        ).fetchall()
        for (end,) in ends:
            found = unit.refilled(asked, end)
            if found is None:
                return None
            if self.budget.covers(self._most(asked.source, (end, end + high - low), own)):
                return found
        return None


def _dearest(counts: Counter[Release], changes: Iterable[tuple[int, str, int, int]]) -> Composition:
    """The most of epsilon and of delta over all moments: a sweep over starts (+) and ends (-)."""
    epsilon, delta, risen = 0.0, 0.0, True
    last = [(FOREVER, "", 0, -1)]  # after which nothing more is counted
    for _, event, moved, count in [*sorted(changes, key=lambda one: (one[0], one[3])), *last]:
        if count < 0 and risen:
            total = _priced(frozenset(counts.items()))
            epsilon, delta = max(epsilon, total.epsilon), max(delta, total.delta)
        risen = count > 0
        if event:
            release = _release(event, moved)
            counts[release] += count
            if not counts[release]:
                del counts[release]
    return Composition(epsilon, delta, "basic", 0)


@lru_cache(maxsize=4096)
def _priced(counts: frozenset[tuple[Release, int]]) -> Composition:
    return spent(Counter(dict(counts)))


@lru_cache(maxsize=4096)
def _release(event: str, moved: int) -> Release:
    return Release(_event(event), 1, moved)


@lru_cache(maxsize=4096)
def _event(text: str) -> PrivacyEvent:
    return PrivacyEvent(*json.loads(text))


def _written(event: PrivacyEvent) -> str:
    return json.dumps([event.epsilon, event.delta, event.mechanism, event.parameter])
