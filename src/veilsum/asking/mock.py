"""Rows drawn from a codebook, for a dry run at a desk that may not see the data.

Numbers are even between their bounds, categories equally frequent, ids repeat: about two rows each. One
value in 20 is missing where the codebook has codes for that. Nothing here has seen a row of the data, so
that nothing can be learned from it, about the data or about the answer.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _validate
from veilsum.asking.codebook_contents import CATEGORY, NUMBER, Codebook, CodebookColumn
from veilsum.errors import QuestionError

DIGITS = 6  # of a drawn number
ROWS_PER_ID = 2
MISSING = 0.05


def mock(codebook: Codebook, rows: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Columns of so many rows.

    Parameters
    ----------
    codebook : Codebook
        With bounds and categories of all columns.
    rows : int
        How many.
    rng : numpy.random.Generator
        Of the draws.

    Examples
    --------
    >>> from veilsum.asking.codebook import parsed
    >>> book = parsed('[columns.kwh]\\nkind = "number"\\nbetween = [0, 40]')
    >>> mock(book, 3, np.random.default_rng(1))["kwh"].shape
    (3,)
    """
    _validate.at_least(QuestionError, 1, rows=rows)
    return {name: _drawn(codebook, column, rows, rng) for name, column in codebook.columns.items()}


def as_csv(columns: Mapping[str, NDArray[Any]]) -> str:
    """Columns as the text of a CSV file."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))
    return file.getvalue()


def _drawn(
    codebook: Codebook, column: CodebookColumn, rows: int, rng: np.random.Generator
) -> NDArray[Any]:
    name = column.name
    if name == codebook.id:
        return _labels(name, rng.integers(0, max(1, rows // ROWS_PER_ID), rows))
    if column.kind == NUMBER:
        bounds = codebook.number(name)
        found = np.round(rng.uniform(bounds.low, bounds.high, rows), DIGITS).astype(object)
    elif column.kind == CATEGORY:
        found = rng.choice(np.array(codebook.category(name).values, dtype=object), rows)
    else:
        return _labels(name, np.arange(rows))
    if column.missing:
        found[rng.random(rows) < MISSING] = column.missing[0]
    return found


def _labels(name: str, numbers: NDArray[Any]) -> NDArray[Any]:
    return np.array([f"{name}-{k + 1}" for k in numbers.tolist()], dtype=object)
