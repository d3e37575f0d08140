"""Columns: what a question reads of a record, between public bounds or in public categories.

A column turns what is in a table into numbers that a question encodes: `Number` into a share s of its
range, 0 at `low` and 1 at `high`, values beyond them counting as the bound; `Category` into the place of
a value in a public list. A value that is missing, or that is not in the list, is *out*: NaN, or -1.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum.errors import QuestionError

Floats = NDArray[np.float64]
FEW = 1 << 16  # whole numbers that lie so close together are counted, not sorted
EXACT = 1 << 62
DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{4}")
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

    Examples
    --------
    >>> import veilsum as vs
    >>> [column.name for column in vs.questions.mean("kwh", between=(0, 40)).columns]
    ['kwh']
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

    def at(self, share: float) -> float:
        """The value at a share of the range, one of its ends beyond it."""
        return self.low + self.width * min(max(share, 0.0), 1.0)

    def read(self, values: NDArray[Any]) -> Floats:
        """Shares of the range; NaN where there is no value."""
        with np.errstate(over="ignore"):  # infinite, and so beyond the bound: never a warning
            x = numbers(values) - self.low
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


class TextColumn:
    """A column of text as Arrow has it: the texts that occur, and for each record which one it has.

    Parameters
    ----------
    known : list
        The texts, and None for no value.
    codes : array of int
        (records,): places in `known`.
    """

    dtype = np.dtype(object)

    def __init__(self, known: list[Any], codes: NDArray[np.int64]) -> None:
        """Keep both."""
        self.known, self.codes = known, codes

    def __len__(self) -> int:
        """How many records."""
        return len(self.codes)

    def __getitem__(self, rows: Any) -> TextColumn:
        """Some records."""
        return TextColumn(self.known, self.codes[rows])

    def tolist(self) -> list[Any]:
        """The text of each record."""
        return list(np.asarray(self).tolist())

    def astype(self, kind: Any) -> NDArray[Any]:
        """An array of the texts."""
        return np.asarray(self).astype(kind)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """As NumPy has it."""
        known = np.empty(len(self.known), dtype=object)
        known[:] = self.known
        return known[self.codes]


def numbers(values: NDArray[Any] | TextColumn) -> Floats:
    """Numbers of a column, NaN where there is no value; text that is no number is an error.

    Infinite ones stay, and are beyond any bound.
    """
    if isinstance(values, TextColumn) or values.dtype.kind not in "fiub":
        return _parsed(np.asarray(values))
    return np.asarray(values, dtype=np.float64)


def _parsed(values: NDArray[Any]) -> Floats:
    """Numbers of text and of mixed values: all at once, or one by one where that fails."""
    texts = values.astype(object)
    texts[texts == None] = math.nan  # noqa: E711  elementwise
    try:
        if not any(isinstance(v, str) and ("_" in v or not v.isascii()) for v in texts.tolist()):
            return np.asarray(texts.astype(np.float64))
    except (TypeError, ValueError, OverflowError):
        pass
    found = np.empty(values.shape, dtype=np.float64)
    for k, value in enumerate(values.tolist()):
        if value is None or (isinstance(value, str) and not value.strip()):
            found[k] = math.nan
            continue
        try:
            found[k] = float(value)
        except (TypeError, ValueError, OverflowError):
            raise UnreadableValueError(k, _why(value)) from None
        if isinstance(value, str) and ("_" in value or not value.isascii()):
            raise UnreadableValueError(k, _why(value))
    return found


def distinct(values: NDArray[Any] | TextColumn) -> tuple[list[Any], NDArray[np.int64]]:
    """The values that occur, perhaps others, and for each record which one it has."""
    if isinstance(values, TextColumn):
        return values.known, values.codes
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < FEW and low > -EXACT and high < EXACT:  # places without a search
            return list(range(low, high + 1)), values.astype(np.int64) - low
    if values.dtype.kind == "O":
        items = values.tolist()
        seen: dict[Any, int] = {}
        inverse = np.fromiter(
            (seen.setdefault(v if type(v) is str else (text_of(v),), len(seen)) for v in items),
            np.int64, len(values),
        )  # fmt: skip
        found: list[Any] = [None] * len(seen)
        for place, value in zip(inverse.tolist(), items, strict=True):
            found[place] = value
        return found, inverse
    known, inverse = np.unique(values, return_inverse=True)
    return known.tolist(), np.asarray(inverse.reshape(-1), dtype=np.int64)


def text_of(value: Any) -> str:
    """A category as text: without spaces around it, 3 for 3.0; "" for no value."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value).strip()


def _float(value: Any) -> float:
    """NaN for what is no number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _why(value: Any) -> str:
    """Why a value is no number, without the value."""
    text = value.strip() if isinstance(value, str) else ""
    if is_number(text.replace(",", ".", 1)) and "," in text:
        return "has a comma: add --decimal , if that is the decimal mark"
    plain = text
    for mark in ",' _\u2019\u00a0\u202f":
        plain = plain.replace(mark, "")
    if plain != text and (is_number(plain) or is_number(plain.replace(".", ""))):
        return "has a mark between thousands, which is not read: take these marks out"
    if DATE.match(text or str(value)):
        return "is a date, of which nothing is computed: add a column of numbers to the table, such as days"
    return "is not a number; if it stands for no value, say so in a codebook (missing = [...])"


def is_number(text: str) -> bool:
    """Whether text is a number, NaN and infinity among them."""
    try:
        float(text)
    except ValueError:
        return False
    return True
