"""The budget of a table: NAME.budget, what was spent and what was answered, in SQLite.

A question is charged, drawn and kept in one transaction. Whoever is killed before its commit has shown
nothing to anybody; after it, the answer is there.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from veilsum.asking.tables import Table
from veilsum.errors import QuestionError
from veilsum.privacy.accounting import PrivacyEvent, compose

SCHEMA = """
create table if not exists terms (key text primary key, value text not null) strict;
create table if not exists releases (
  terms text primary key, event text not null, answer text not null, at real not null
) strict;
"""


class BudgetFile:
    """The budget of a table."""

    def __init__(self, path: Path) -> None:
        """Open it, owner only."""
        self.path = path
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._db = sqlite3.connect(path, timeout=60, isolation_level=None)
        self._db.execute("pragma synchronous = full")
        self._db.executescript(SCHEMA)

    @classmethod
    def of(cls, table: Table, path: Any = None) -> Self:
        """The budget of a table."""
        if path is None and table.path is None:
            raise QuestionError("say where the budget of a table in memory is kept: budget=PATH")
        return cls(Path(path) if path is not None else table.path.with_suffix(".budget"))  # type: ignore[union-attr]

    def answer(self, terms: str) -> dict[str, Any] | None:
        """What was answered to this question before."""
        row = self._db.execute("select answer from releases where terms = ?", (terms,)).fetchone()
        return None if row is None else json.loads(row[0])

    def once(
        self,
        terms: str,
        event: PrivacyEvent,
        draw: Callable[[], dict[str, Any]],
        limit: float | None = None,
    ) -> dict[str, Any]:
        """Charge, draw and keep, all or nothing; refuse beyond the limit."""
        self._db.execute("begin immediate")
        try:
            found = self.answer(terms)
            if found is None:
                if limit is not None or self.limit() == 0:
                    value = event.epsilon if limit is None else limit
                    self._db.execute(
                        "insert or replace into terms values ('limit', ?)", (repr(value),)
                    )
                after = self.spent(event)
                if after > self.limit() * (1 + 1e-12):
                    raise QuestionError(
                        f"the budget of {self.path.name} is epsilon {self.limit():g}, of which "
                        f"{self.spent():g} is spent; this question costs {event.epsilon:g} more"
                    )
                found = draw()
                self._db.execute(
                    "insert into releases values (?, ?, ?, julianday('now'))",
                    (terms, json.dumps([event.epsilon, event.delta, event.mechanism, event.parameter]),
                     json.dumps(found)),
                )  # fmt: skip
            self._db.execute("commit")
        except BaseException:
            self._db.execute("rollback")
            raise
        return found

    def limit(self) -> float:
        """What may be spent; 0 before anything was asked."""
        row = self._db.execute("select value from terms where key = 'limit'").fetchone()
        return 0.0 if row is None else float(row[0])

    def spent(self, *more: PrivacyEvent) -> float:
        """What all answers cost together."""
        rows = self._db.execute("select event from releases").fetchall()
        events = [PrivacyEvent(*json.loads(row[0])) for row in rows]
        return float(compose(Counter([*events, *more])).epsilon) if events or more else 0.0

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
        self._db.close()
