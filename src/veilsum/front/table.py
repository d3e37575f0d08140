"""The long table: one row for each number, and beside every number its verdict.

    run method kind status epsilon delta rounds round quantity of value low high unit

`quantity` is a parameter such as mu (with `of`, what its interval is of, and component by component
`mu[3]`, or by its label, `share[north]`), or an error of one agent at a round: `error`, its parts
`noise` and `disagreement`.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from veilsum.front.sheet import Answer, Answers


class Row(NamedTuple):
    """One number of the long table; None where a column does not apply."""

    run: str
    method: str
    kind: str
    status: str
    epsilon: float | None
    delta: float | None
    rounds: str
    round: int | None
    quantity: str
    of: str
    value: float | None
    low: float | None
    high: float | None
    unit: str


COLUMNS = Row._fields


def long_table(answers: Answers) -> list[Row]:
    """The answers themselves, then numbers round by round."""
    found = [row for answer in answers.rows for row in rows_of(answer)]
    return [*found, *answers.curves()]


def rows_of(answer: Answer) -> list[Row]:
    """One row for each component of an answer; one that has no number has a row without it."""
    if answer.size <= 1 and not answer.labels:
        numbers = [(answer.quantity, answer.value, answer.low, answer.high)]
    else:
        parts = zip(*(_spread(v, answer.size) for v in (answer.value, answer.low, answer.high)),
                    strict=True)  # fmt: skip
        heads: Sequence[object] = answer.labels or range(answer.size)
        if answer.absent:
            pairs = zip(heads, answer.absent, strict=True)
            heads = [f"{head} ({why})" if why else head for head, why in pairs]
        numbers = [
            (f"{answer.quantity}[{head}]", *each) for head, each in zip(heads, parts, strict=True)
        ]
    return [
        Row(
            answer.name, answer.method, answer.kind, answer.status, _number(answer.epsilon),
            _number(answer.delta), answer.rounds, None, quantity, answer.of, _number(value),
            _number(low), _number(high), answer.unit,
        )
        for quantity, value, low, high in numbers
    ]  # fmt: skip


def _spread(value: Any, size: int) -> Sequence[Any]:
    return [None] * size if value is None else np.broadcast_to(value, (size,)).tolist()


def _number(value: Any) -> float | None:
    """A finite number, or nothing: neither CSV nor JSON has infinity."""
    if value is None:
        return None
    plain = float(np.reshape(value, ()))
    return plain if math.isfinite(plain) else None


def as_csv(answers: Answers) -> str:
    """The text of the CSV file: numbers to the last digit, nothing where there is none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in long_table(answers):
        writer.writerow("" if v is None else repr(v) if isinstance(v, float) else v for v in row)
    return out.getvalue()


def as_dict(answers: Answers) -> dict[str, Any]:
    """What `--json` prints: everything of the screen, numbers as numbers."""
    return {
        "name": answers.name,
        "title": answers.title,
        "about": answers.about,
        "answers": [_entry(row) for row in answers.rows],
        "promises": list(answers.promises),
        "warnings": list(answers.warnings),
        "notes": list(answers.notes),
        "paste": answers.paste,
        "secret": answers.secret,
    }


def _entry(answer: Answer) -> dict[str, Any]:
    promise = answer.guarantee
    return {
        "name": answer.name,
        "status": answer.status,
        "kind": answer.kind,
        "method": answer.method,
        "rounds": answer.rounds,
        "epsilon": _number(answer.epsilon),
        "delta": _number(answer.delta),
        "quantity": answer.quantity,
        **{
            end: _plain(getattr(answer, end), bool(answer.labels))
            for end in ("value", "low", "high")
        },
        "unit": answer.unit,
        "labels": list(answer.labels),
        "absent": list(answer.absent),
        "interval_of": answer.of,
        "releasable": answer.releasable,
        "cells": dict(answer.cells),
        "sentences": list(answer.sentences),
        "guarantee": None if promise is None else promise.to_dict() | {"sentence": str(promise)},
    }


def _plain(value: Any, several: bool = False) -> Any:
    if value is None or (np.size(value) == 1 and not several):
        return _number(value)
    return [_number(each) for each in np.ravel(value)]
