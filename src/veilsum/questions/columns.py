"""Columns: what a question reads of a record, between public bounds or in public categories.

A column turns what is in a table into numbers that a question encodes: `Number` into a share s of its
range, 0 at `low` and 1 at `high`, values beyond them counting as the bound; `Category` into the place of
a value in a public list. A value that is missing, or that is not in the list, is *out*: NaN, or -1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum.errors import QuestionError

Floats = NDArray[np.float64]
Rows = Mapping[str, NDArray[Any]]  # columns of a batch of records, as `Column.read` returns them
RECORDS = ""  # the name in `Rows` of what is no column: an array with an entry for each record


class UnreadableValueError(QuestionError):
    """A value that its column cannot take: its place in the batch, and why.

    Attributes
    ----------
    row : int
        Index within the batch.
    why : str
        What is wrong, without the value itself.
    """

    def __init__(self, row: int, why: str) -> None:
        """Keep both."""
        super().__init__(why)
        self.row, self.why = row, why


@dataclass(frozen=True)
class Column(ABC):
    """A column of a table, with what is public about it.

    Parameters
    ----------
    name : str
        In the table.
    """

    name: str

    @property
    def places(self) -> int:
        """How many places `read` tells apart, from 0; 0 for numbers."""
        return 0

    def __post_init__(self) -> None:
        """Refuse a name that is no text."""
        if not (isinstance(self.name, str) and self.name):
            raise QuestionError(f"a column is named by text; found {self.name!r}")

    @abstractmethod
    def read(self, values: NDArray[Any]) -> NDArray[Any]:
        """What a question encodes, for values as a table has them: text, numbers, None or NaN."""

    @abstractmethod
    def out(self, read: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of what `read` returned has no value."""


@dataclass(frozen=True)
class Number(Column):
    """A number between public bounds, as a share of its range: 0 at `low`, 1 at `high`.

    Parameters
    ----------
    name : str
        In the table.
    low, high : float
        Public bounds; a value beyond one counts as that bound.

    Examples
    --------
    >>> Number("kwh", 0, 40).read(np.array(["10", "50", ""])).tolist()
    [0.25, 1.0, nan]
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        """Refuse bounds that are none."""
        super().__post_init__()
        low, high = _float(self.low), _float(self.high)
        if not (math.isfinite(high - low) and low < high):
            raise QuestionError(
                f"column {self.name}: bounds are two finite numbers, the lower one first; found "
                f"{self.low} and {self.high}"
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def width(self) -> float:
        """high - low."""
        return self.high - self.low

    def read(self, values: NDArray[Any]) -> Floats:
        """Shares of the range; NaN where there is no value."""
        x = numbers(values)
        if not x.flags.writeable or x is values:
            x = x.copy()
        x -= self.low
        x /= self.width
        return np.clip(x, 0.0, 1.0, out=x)

    def out(self, read: NDArray[Any]) -> NDArray[np.bool_]:
        """NaN."""
        return np.asarray(np.isnan(read), dtype=np.bool_)


@dataclass(frozen=True)
class Category(Column):
    """One of some public categories, as its place in the list.

    Parameters
    ----------
    name : str
        In the table.
    values : sequence of str
        The categories; numbers are compared by their shortest text.

    Examples
    --------
    >>> Category("region", ["north", "south"]).read(np.array(["south", "east", None])).tolist()
    [1, -1, -1]
    """

    values: Sequence[str]

    def __post_init__(self) -> None:
        """Refuse a list without categories, or with one twice."""
        super().__post_init__()
        values = () if isinstance(self.values, str) else tuple(map(text_of, self.values))
        if not values or len(set(values)) < len(values):
            raise QuestionError(
                f"column {self.name}: categories are a list of different texts; found {self.values!r}"
            )
        object.__setattr__(self, "values", values)

    @property
    def places(self) -> int:
        """Of the list."""
        return len(self.values)

    def read(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Places in the list; -1 where there is no value, or another one."""
        place = {value: k for k, value in enumerate(self.values)}
        known, inverse = distinct(values)
        found = np.array([place.get(text_of(v), -1) for v in known], dtype=np.int64)
        return np.asarray(found[inverse])

    def out(self, read: NDArray[Any]) -> NDArray[np.bool_]:
        """-1."""
        return np.asarray(read < 0, dtype=np.bool_)


@dataclass(frozen=True)
class Candidates(Category):
    """One of some public values, or another one, which has the place after them.

    Examples
    --------
    >>> Candidates("app", ["mail", "maps"]).read(np.array(["maps", "chess", ""])).tolist()
    [1, 2, -1]
    """

    @property
    def places(self) -> int:
        """One more than the list has."""
        return len(self.values) + 1

    def read(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Places in the list, K for another value, -1 where there is none."""
        place = {value: k for k, value in enumerate(self.values)}
        known, inverse = distinct(values)
        texts = [text_of(v) for v in known]
        found = [place.get(text, -1 if text == "" else len(place)) for text in texts]
        return np.array(found, dtype=np.int64)[inverse]


@dataclass(frozen=True)
class Sides(Column):
    """Where a number lies: 0 below `low`, 1 from `low` to `high`, both included, 2 above.

    Parameters
    ----------
    name : str
        In the table.
    low, high : float
        Public; -inf or inf for no bound at that side.

    Examples
    --------
    >>> Sides("kwh", 0, 40).read(np.array(["-1", "0", "40", "40.5", ""])).tolist()
    [0, 1, 1, 2, -1]
    """

    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        """Refuse bounds that are none."""
        super().__post_init__()
        low, high = _float(self.low), _float(self.high)
        if not (low <= high and max(low, -high) < math.inf) or low == -high == -math.inf:
            raise QuestionError(
                f"column {self.name}: a bound is a number, the lower one first; found {self.low} and "
                f"{self.high}"
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def places(self) -> int:
        """3."""
        return 3

    def read(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """0, 1 or 2; -1 where there is no value."""
        x = numbers(values)
        found = (x >= self.low).astype(np.int64) + (x > self.high)
        found[np.isnan(x)] = -1
        return np.asarray(found)

    def out(self, read: NDArray[Any]) -> NDArray[np.bool_]:
        """-1."""
        return np.asarray(read < 0, dtype=np.bool_)


def numbers(values: NDArray[Any]) -> Floats:
    """Numbers of a column, NaN where there is no value; text that is no number is an error.

    Infinite ones stay, and are beyond any bound.
    """
    if values.dtype.kind in "fiub":
        return np.asarray(values, dtype=np.float64)
    found = np.empty(values.shape, dtype=np.float64)
    for k, value in enumerate(values.tolist()):
        if value is None or (isinstance(value, str) and not value.strip()):
            found[k] = math.nan
            continue
        try:
            found[k] = float(value)
        except (TypeError, ValueError, OverflowError):
            comma = isinstance(value, str) and _is_number(value.strip().replace(",", ".", 1))
            why = "has a comma for a decimal point: add --decimal ," if comma else "is not a number"
            raise UnreadableValueError(k, why) from None
    return found


def distinct(values: NDArray[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """The values that occur, and for each record which one it has."""
    if values.dtype.kind == "O":
        seen: dict[Any, int] = {}
        inverse = np.fromiter(
            (seen.setdefault(v, len(seen)) for v in values.tolist()), np.int64, len(values)
        )
        return list(seen), inverse
    known, inverse = np.unique(values, return_inverse=True)
    return known.tolist(), np.asarray(inverse.reshape(-1), dtype=np.int64)


def text_of(value: Any) -> str:
    """A category as text: without spaces around it, 3 for 3.0; "" for no value."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating) and value == int(value):
        return str(int(value))
    return str(value).strip()


def _float(value: Any) -> float:
    """NaN for what is no number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
