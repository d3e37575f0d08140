"""The budget of a table: what may be spent on it, what was spent, and what was answered.

    spent = (sum of epsilons, sum of deltas) of all releases  <=  limit = (epsilon, delta)

Sums are the one price (`privacy.accounting.compose` without a delta). They hold also where each question,
and its epsilon, is chosen after the answers before were seen, which sharper theorems of composition do not
allow. A budget without a delta answers no question that needs one.

A question is charged, drawn and kept in one transaction, while all others wait. Whoever is killed before
its commit has shown nothing to anybody; after it the answer is there, and is never drawn again. The same
question of the same rows has the stored answer and costs nothing; of changed rows it is a new release.

What is known. The budget follows the rows: a renamed, moved, copied, reordered or converted file has the
same budget (`fingerprint`), and a changed or appended file at the same path keeps it (`budget_place`).
What cannot be known. A changed copy at another path, on this machine or on another one, looks like other
data and has a budget of its own: what both of them say of one person adds up, and nobody counts it. The
same holds for the same rows asked by another user or on another machine, unless the budget goes with them.

The limit is set by the first question. It may be lowered at any time; to raise it is an act of its own
(`budget_acts.raise_limit`), which is recorded and says what it means.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from veilsum import _validate
from veilsum.asking.budget_log import DATA, LIMIT, LOST, RELEASE, BudgetLog
from veilsum.asking.budget_place import StoredRows, find, real
from veilsum.asking.fingerprint import Fingerprinter, together
from veilsum.asking.local_index import KnownBudget, LocalIndex
from veilsum.asking.tables import Table
from veilsum.errors import QuestionError
from veilsum.privacy.accounting import Composition, PrivacyEvent, compose

ROUNDING = 1 + 1e-12
LARGE = 1 << 20  # bytes: of smaller files the fingerprint is made anew each time
SETTLED = 2.0  # seconds after which a change of a file has another time


class BudgetLimit(NamedTuple):
    """What may be spent; a delta that was not said is None."""

    epsilon: float
    delta: float | None = None

    @classmethod
    def of(cls, given: Any) -> Self:
        """From a number, or from epsilon and delta."""
        found = cls(*given) if isinstance(given, Sequence) else cls(given)
        _validate.positive(QuestionError, limit=found.epsilon)
        _validate.probability(QuestionError, delta=found.delta or 0.0)
        return found


class BudgetFile:
    """The budget of a table, open."""

    def __init__(self, log: BudgetLog, index: LocalIndex, notes: tuple[str, ...] = ()) -> None:
        """Of an open file; `of` finds that of a table."""
        self._log, self._index, self.notes = log, index, notes
        self._data = ""  # the fingerprint of all rows
        self._rows: list[dict[str, str]] = []  # of each table that has them, with its name
        self._unchanged: Callable[[], Any] = lambda: None

    @classmethod
    def of(cls, table: Table, path: Any = None) -> Self:
        """The budget of a table, where it is known to be, beside a file, or at the path that is given."""
        index = LocalIndex()
        try:
            hashed = Fingerprinter(index.secret)
            stamps = [_stamp(one) for one in table.stored]
            rows = [
                StoredRows(_fingerprint(index, one, hashed, stamp), real(one.path), one.name)
                for one, stamp in zip(table.stored, stamps, strict=True)
            ]
            _check_different(table, rows)
            with index.transaction():
                found = find(index, table.name, rows, hashed.key, path)
                made = cls(found.log, index, found.notes)
                for one in rows:
                    index.register(found.log.id, one.fingerprint, one.at)
                made._seen()
        except BaseException:
            index.close()
            raise
        made._data = together([one.fingerprint for one in rows])
        made._rows = [
            {"fingerprint": f, "key": hashed.key, "name": "" if at is None else at.name}
            for f, at, _ in rows
        ]
        made._unchanged = lambda: _all_same(table, stamps)
        return made

    @property
    def path(self) -> Path:
        """Of the file."""
        return self._log.path

    def answer(self, terms: str) -> Any:
        """What was answered to this question of these rows, last; None if it was not."""
        for entry in reversed(self._log.of_kind(RELEASE)):
            if entry.body["terms"] == terms and entry.body["data"] == self._data:
                return self._log.answer(entry)
        return None

    def once(
        self,
        terms: str,
        event: PrivacyEvent,
        draw: Callable[[], Any],
        limit: Any = None,
        first: Any = None,
        fresh: bool = False,
    ) -> Any:
        """The stored answer; or charge, draw and keep, all or nothing; refuse beyond the limit.

        Parameters
        ----------
        terms
            All that shapes the answer.
        event
            What it costs.
        draw
            Makes the answer, in plain values.
        limit
            Of the budget, epsilon or (epsilon, delta): sets or lowers it.
        first
            The limit of a budget that has none yet, such as a codebook's; else what the question costs.
        fresh
            Whether to pay for another draw of a question that was answered.
        """
        self.lower(limit)
        with self._log.transaction():
            found = None if fresh else self.answer(terms)
            if found is None:
                self._set(limit if limit is not None else first, event)
                self._afford(event)
                found = draw()
                self._unchanged()
                self._know()
                self._log.add(RELEASE, _release(terms, event, self._data), found)
        self._seen()  # before anybody has seen the answer
        return found

    def lower(self, limit: Any) -> None:
        """Lower the limit, if one is given that is lower; a higher one is an error."""
        if limit is None or not self._log.of_kind(LIMIT):
            return
        given = BudgetLimit.of(limit)
        with self._log.transaction():
            now = limit_of(self._log)
            delta = now.delta if given.delta is None else given.delta
            if given.epsilon > now.epsilon or (delta or 0) > (now.delta or 0):
                raise QuestionError(
                    f"the limit of {self.path.name} is {said(*now)}, and {said(given.epsilon, delta)} "
                    f"would raise it: `veilsum budget {self.path.name} --raise {given.epsilon:g}` does that, "
                    "and says what it means; or leave out the limit"
                )
            if (given.epsilon, delta) != now:
                self._log.add(LIMIT, limit_body(given.epsilon, delta, "lowered"))
        self._seen()

    def limit(self) -> float:
        """The epsilon that may be spent; 0 before anything was asked."""
        return limit_of(self._log).epsilon

    def spent(self, *more: PrivacyEvent) -> float:
        """The epsilon of all answers together."""
        return self.price(*more).epsilon

    def price(self, *more: PrivacyEvent) -> Composition:
        """What all answers, and more, cost together."""
        return compose(Counter([*costs(self._log), *more]))

    def terms(self) -> list[str]:
        """Those of all releases; empty for what was lost, of which nothing but its cost is known."""
        return [e.body.get("terms", "") for e in self._log.entries if e.kind in (RELEASE, LOST)]

    def _set(self, given: Any, event: PrivacyEvent) -> None:
        """The first limit: as given, else what the first question costs."""
        if self._log.of_kind(LIMIT):
            return
        limit = BudgetLimit(event.epsilon) if given is None else BudgetLimit.of(given)
        delta = event.delta if limit.delta is None else limit.delta
        self._log.add(LIMIT, limit_body(limit.epsilon, delta, "first"))

    def _afford(self, event: PrivacyEvent) -> None:
        after, now, most = self.price(event), self.price(), limit_of(self._log)
        if after.epsilon <= most.epsilon * ROUNDING and after.delta <= (most.delta or 0) * ROUNDING:
            return
        raise QuestionError(
            f"the budget {self.path.name} is {said(*most)}, of which {said(now.epsilon, now.delta)} is "
            f"spent; this question costs {said(event.epsilon, event.delta)} more, and nothing was released; "
            f"ask for less, or `veilsum budget {self.path.name} --raise` says what a higher limit means"
        )

    def _know(self) -> None:
        """Write that the budget is of these rows."""
        known = {(e.body["fingerprint"], e.body["name"]) for e in self._log.of_kind(DATA)}
        for one in self._rows:
            if (one["fingerprint"], one["name"]) not in known:
                self._log.add(DATA, one)

    def _seen(self) -> None:
        """Write to the index how far the budget went."""
        self._index.keep(known_of(self._log))

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self._log.close()
        self._index.close()


def costs(log: BudgetLog, first: int | None = None) -> list[PrivacyEvent]:
    """What the releases of a budget cost each, or those of its first entries, and what was lost."""
    return [
        PrivacyEvent(*entry.body["event"])
        for entry in log.entries[:first]
        if entry.kind in (RELEASE, LOST)
    ]


def known_of(log: BudgetLog) -> KnownBudget:
    """How far a budget went."""
    limit, price = limit_of(log), compose(Counter(costs(log)))
    return KnownBudget(
        log.id, log.path, len(log.entries), log.head, price.epsilon, price.delta,
        limit.epsilon, limit.delta or 0.0,
    )  # fmt: skip


def limit_of(log: BudgetLog) -> BudgetLimit:
    """What may be spent; nothing before anything was asked."""
    entries = log.of_kind(LIMIT)
    if not entries:
        return BudgetLimit(0.0, 0.0)
    return BudgetLimit(entries[-1].body["epsilon"], entries[-1].body["delta"])


def limit_body(epsilon: float, delta: float | None, why: str) -> dict[str, Any]:
    """The entry of a limit: "first", "lowered", "raised"."""
    return {"epsilon": epsilon, "delta": delta or 0.0, "why": why}


def _release(terms: str, event: PrivacyEvent, fingerprint: str) -> dict[str, Any]:
    cost = [event.epsilon, event.delta, event.mechanism, event.parameter]
    return {"terms": terms, "event": cost, "data": fingerprint}


def said(epsilon: float, delta: float | None) -> str:
    """Both, for people; the delta if there is any."""
    return f"epsilon {epsilon:g}" + (f" and delta {delta:g}" if delta else "")


def _stamp(table: Table) -> str | None:
    """What changes when a file does, and which of its columns are read how; None if it is no file."""
    if table.path is None:
        return None
    try:
        found = os.stat(table.path)
    except OSError:
        return None
    state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return repr((type(table).__name__, *table.columns, *state))


def _same(table: Table, stamp: str | None) -> None:
    """Raise if a file has changed while it was read."""
    if _stamp(table) != stamp:
        raise QuestionError(
            f"{table.name} changed while it was read; nothing was released or charged; ask again"
        )


def _check_different(table: Table, rows: Sequence[StoredRows]) -> None:
    """Raise for rows that are there twice: one of them would move an answer twice, and be charged once."""
    first: dict[str, str] = {}
    for one, each in zip(table.stored, rows, strict=True):
        if each.fingerprint in first and one.rows():
            raise QuestionError(
                f"{each.name} has the same rows as {first[each.fingerprint]}, and each would count twice for "
                "the price of one: leave one of them out"
            )
        first[each.fingerprint] = each.name


def _all_same(table: Table, stamps: Sequence[str | None]) -> None:
    for one, stamp in zip(table.stored, stamps, strict=True):
        _same(one, stamp)


def _fingerprint(index: LocalIndex, table: Table, rows: Fingerprinter, stamp: str | None) -> str:
    """Of the rows; of a large file that has not changed, the one that is known."""
    at = real(table.path)
    large = at is not None and stamp is not None and at.stat().st_size >= LARGE
    known = index.seen(at, stamp) if large and at and stamp else None
    if known is not None:
        return known
    found = rows.of(table)
    _same(table, stamp)
    if large and at and stamp and time.time() - at.stat().st_mtime > SETTLED:
        index.note(at, stamp, found)
    return found
