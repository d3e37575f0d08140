"""Records as vectors: where each of them lies, what it has there, and exact totals of them.

    total[cell, part] = sum over records in the cell of floor(part/step + 1/2)

Each record is rounded by itself and then added up in whole numbers, so that totals are the same in any
order and over any split of the rows, and a record that moves by d moves a total by at most ceil(d/step).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum._statistic import Statistic, Status
from veilsum.errors import QuestionError
from veilsum.questions.columns import RECORDS, Floats, Rows

Ints = NDArray[np.int64]
BLOCK = 1 << 20  # records added up at a time: below 2^53 steps, so that floats are exact


@dataclass(frozen=True)
class Encoded:
    """Where records are, and what they have there.

    Parameters
    ----------
    cells : array of int, optional
        (records,): of `Question.cells`, -1 for a record that is out; None: all are in cell 0.
    parts : array of float, optional
        (records, P); None for a count of 1.
    """

    cells: Ints | None = None
    parts: Floats | None = None


def add_up(encoded: Encoded, cells: int, parts: int, step: Fraction) -> Ints:
    """Totals by cell and part, exactly; each record is rounded to floor(x/step + 1/2) first."""
    placed, x = encoded.cells, encoded.parts
    if placed is None and x is None:
        raise QuestionError("an encoding has cells, or parts, or both")
    total = np.zeros((cells, parts), dtype=np.int64)
    count = len(x if placed is None else placed)  # type: ignore[arg-type]
    for start in range(0, count, BLOCK):
        block = slice(start, start + BLOCK)
        inside = None if placed is None else placed[block]
        if x is None:
            total += _by_cell(inside, None, cells)[:, None]  # type: ignore[arg-type]
            continue
        steps = x[block] / float(step)
        steps += 0.5
        np.floor(steps, out=steps)
        for p in range(parts):
            if inside is None:
                total[0, p] += int(steps[:, p].sum())
            else:
                total[:, p] += _by_cell(inside, steps[:, p], cells)
    return total.ravel()


def _by_cell(cells: Ints, weights: Any, count: int) -> Ints:
    """Sums of each cell; those of cell -1 are left out."""
    found = np.bincount(cells + 1, weights, minlength=count + 1)[1:]
    return np.asarray(np.rint(found).astype(np.int64))


def entries(rows: Rows) -> int:
    """How many records there are."""
    return len(rows[RECORDS] if RECORDS in rows else next(iter(rows.values())))


def counted(l1: float, l2: float, cells: int, reason: str) -> Statistic:
    """The Statistic of counts, of which a record moves some."""
    return Statistic(
        l1, l2, cells, low=0.0, high=1.0, step=1.0, status=Status.PROVED, reason=reason
    )
