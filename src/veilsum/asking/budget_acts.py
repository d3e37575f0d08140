"""What is done to a budget on purpose, besides asking.

    raise_limit   a higher limit
    mend          a budget that is missing, damaged or an older copy goes on, charged with what it lacks
    adopt         rows that nothing here knows are the changed rows of a budget

Each is an entry of the budget, and returns the sentence that says what it means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from veilsum.asking.budget import BudgetLimit, costs, known_of, limit_body, limit_of, said
from veilsum.asking.budget_log import DATA, LIMIT, LOST, RELEASE, BudgetLog
from veilsum.asking.budget_place import check, is_there, opened, real
from veilsum.asking.fingerprint import Fingerprinter
from veilsum.asking.local_index import KnownBudget, LocalIndex
from veilsum.asking.tables import open_table
from veilsum.errors import QuestionError
from veilsum.privacy.accounting import PrivacyEvent, compose

DAMAGED = ".damaged"


def describe(path: Any) -> dict[str, Any]:
    """What a budget has: limits, what was spent, the releases and what was done on purpose; for a page."""
    with _index() as index, _opened(index, path) as log:
        limit, price = limit_of(log), compose(Counter(costs(log)))
        return {
            "budget": str(log.path),
            "epsilon_limit": limit.epsilon,
            "delta_limit": limit.delta or 0.0,
            "epsilon_spent": price.epsilon,
            "delta_spent": price.delta,
            "releases": len(log.of_kind(RELEASE)),
            "entries": [
                {"at": e.at, "kind": e.kind, **_shown(e.kind, e.body)} for e in log.entries
            ],
        }


def raise_limit(path: Any, epsilon: float, delta: float | None = None) -> str:
    """Raise what may be spent of a budget, and say what that means.

    Parameters
    ----------
    path
        Of the budget.
    epsilon, delta
        The new limit; the delta stays as it is if it is not given.
    """
    given = BudgetLimit.of((epsilon, delta))
    with _index() as index, _opened(index, path) as log:
        with log.transaction():
            now = limit_of(log)
            after = given.delta if given.delta is not None else now.delta
            if given.epsilon < now.epsilon or (after or 0) < (now.delta or 0):
                raise QuestionError(
                    f"the limit of {log.path.name} is {said(*now)}, and {said(given.epsilon, after)} is "
                    "lower: a question lowers it (--limit, limit=)"
                )
            log.add(LIMIT, limit_body(given.epsilon, after, "raised"))
        index.keep(known_of(log))
        spent = compose(Counter(costs(log)))
        return (
            f"The limit of {log.path.name} was {said(*now)} and is {said(given.epsilon, after)} now; "
            f"{said(spent.epsilon, spent.delta)} is spent. Whatever is published of these data may make a "
            f"guess about one record up to e^{given.epsilon:g} times more likely, where it was "
            f"e^{now.epsilon:g} times. This is recorded in the budget."
        )


def mend(path: Any) -> str:
    """Go on with a budget that is missing, damaged or an older copy: what it lacks is charged to it.

    What was answered by the lost entries stays published, but is not stored any more: asking it again is a
    new release.

    Parameters
    ----------
    path
        Where the budget was last.
    """
    at = real(path)
    assert at is not None, "a path"
    with _index() as index, index.transaction():
        known = index.at(at)
        if known is None:
            raise QuestionError(
                f"nothing is known here of a budget at {at}: put the latest copy back; if nothing was ever "
                "published of these data, move the file away"
            )
        log = _readable(at, known)
        try:
            with log.transaction():
                lacks = _lacking(log, known, index.heads(known.id))
                if not log.of_kind(LIMIT):
                    log.add(LIMIT, limit_body(known.epsilon_limit, known.delta_limit, "mended"))
                if lacks is not None:
                    cost = [lacks.epsilon, lacks.delta, lacks.mechanism, lacks.parameter]
                    log.add(LOST, {"event": cost})
            index.forget(known.id)
            index.keep(known_of(log))
        finally:
            log.close()
    lost = "Nothing" if lacks is None else said(lacks.epsilon, lacks.delta).capitalize()
    return f"{lost} of lost releases was charged to {at.name}; questions go on from there."


def adopt(path: Any, data: Any) -> str:
    """Say that a table has the records of a budget, changed: it is charged for what is asked of them.

    Parameters
    ----------
    path
        Of the budget.
    data
        The table.
    """
    table = open_table(data)
    with _index() as index:
        rows = Fingerprinter(index.secret)
        fingerprint = rows.of(table)
        with _opened(index, path) as log, index.transaction():
            other = index.of_rows(fingerprint)
            if other not in (None, log.id):
                raise QuestionError(
                    f"the rows of {table.name} have a budget already; nothing was done"
                )
            index.register(log.id, fingerprint, real(table.path))
            name = "" if table.path is None else Path(table.path).name
            with log.transaction():
                log.add(DATA, {"fingerprint": fingerprint, "key": rows.key, "name": name})
            index.keep(known_of(log))
            return f"What is asked of {table.name} is charged to {log.path.name} from now on."


@contextmanager
def _index() -> Iterator[LocalIndex]:
    index = LocalIndex()
    try:
        yield index
    finally:
        index.close()


@contextmanager
def _opened(index: LocalIndex, path: Any) -> Iterator[BudgetLog]:
    """A budget by its path, checked against what is known of it."""
    at = real(path)
    assert at is not None, "a path"
    known = index.at(at)
    log = BudgetLog(at) if known is None or is_there(at) else opened(index, known.id, [at])
    if log is None:
        raise QuestionError(f"there is no budget at {at}")
    try:
        check(log, index.budget(log.id))
        yield log
    finally:
        log.close()


def _readable(at: Path, known: KnownBudget) -> BudgetLog:
    """The file, if it is that budget; a new one if it is missing or damaged, which is moved away."""
    if is_there(at):
        try:
            log = BudgetLog(at)
        except QuestionError:
            at.rename(at.with_name(at.name + DAMAGED))
        else:
            if log.id == known.id:
                return log
            log.close()
            raise QuestionError(f"{at} is the budget of other data; move it away first")
    return BudgetLog(at, new=True, id=known.id)


def _lacking(log: BudgetLog, known: KnownBudget, heads: set[str]) -> PrivacyEvent | None:
    """What was spent, as far as it is known, after the last entry that both histories have."""
    common = max((e.n for e in log.entries if e.head in heads), default=0)
    there = compose(Counter(costs(log, common)))
    epsilon, delta = known.epsilon - there.epsilon, known.delta - there.delta
    return PrivacyEvent.of(epsilon, max(delta, 0.0)) if epsilon > 0 else None


def _shown(kind: str, body: Any) -> dict[str, Any]:
    if kind in (RELEASE, LOST):
        return {
            "epsilon": body["event"][0],
            "delta": body["event"][1],
            "terms": body.get("terms", ""),
        }
    return {name: body[name] for name in ("epsilon", "delta", "why", "name") if name in body}
