"""What a question is: an encoding of records into a vector, what is read off the released vector, a picture.

    record ── encode ──> cell, parts ── add up over records ──> totals ── expand ──> vector
    vector + noise ── decode ──> findings

A question states public numbers alone: its columns and their bounds, and the `Statistic` of one record's
vector. It never sees a table: whoever holds the rows (one file, or the sites of a fleet) encodes and adds
up, noise is added once, and `decode` is a function of the noised vector and public numbers, so it costs
nothing.

Encoding. A record lies in one *cell* of C, or in none (-1: it is out), and has P *parts* there, real
numbers, or one count. Its vector, before `expand`, is 0 but for the P components of its cell. `expand` is
linear with whole coefficients, such as the sums that make a tree of the leaves.

Adjacency. One record is replaced by any other; how many there are is public. `statistic` is how far that
moves the vector, `size` how far a record is from being out. A record that may be out (`partial`: a filter,
a missing value, a group) moves by the larger of both; one that may change its group moves twice its size:

    out:      l1' = max(l1, n1),     l2' = max(l2, n2)            n1, n2: the norms of `size`
    groups:   l1' = max(l1, 2 n1),   l2' = max(l2, sqrt(2) n2)

Where the number of records in the question is private, `decode` reads it off the released vector, which
partial encodings have for that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from veilsum._registry import Registry
from veilsum._statistic import Statistic
from veilsum.errors import QuestionError
from veilsum.questions.answers import Decoded, Forecast, NoisedVector, bars, too_few, uncertain
from veilsum.questions.columns import Column, Rows
from veilsum.questions.encoding import Encoded, Ints, add_up, counted, entries
from veilsum.questions.intervals import fieller
from veilsum.questions.noise import GridNoise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "QUESTIONS",
    "Decoded",
    "Encoded",
    "Forecast",
    "Ints",
    "NoisedVector",
    "Question",
    "add_up",
    "bars",
    "counted",
    "entries",
    "fieller",
    "too_few",
    "uncertain",
]

QUESTIONS: Registry[type[Question]]


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """A question; abstract. A file of this package has one, which registers itself by its name.

    Parameters
    ----------
    partial : bool
        Whether a record may be out: under a filter, by a missing value, in no group.

    Examples
    --------
    >>> import veilsum as vs
    >>> mean = vs.questions.mean("kwh", between=(0, 40))
    >>> isinstance(mean, vs.questions.Question), mean.statistic.l1, mean.within().statistic.l1
    (True, 1.0, 2.0)
    """

    partial: bool = False

    name: ClassVar[str]
    about: ClassVar[str]  # a line for lists
    make: ClassVar[Callable[..., Question]]  # from names and public numbers
    once: ClassVar[bool] = False  # whether an id counts as 1 if any of its rows is in
    adds_rows: ClassVar[bool] = False  # whether more rows of an id are more, as in a sum
    margin: ClassVar[str] = ""  # why intervals cover more than they say, where they do
    measured: ClassVar[bool] = (
        False  # whether its numbers, counts aside, are in the unit of its column
    )
    of_ids: ClassVar[bool] = True  # whether the mean of an id's rows may be one record

    def __init_subclass__(cls, **options: Any) -> None:
        """Register a question of the package."""
        super().__init_subclass__(**options)
        QUESTIONS.enlist(cls)

    @property
    def columns(self) -> tuple[Column, ...]:
        """What it reads: those of its fields that are columns, or tuples of them."""
        values = [getattr(self, one.name) for one in fields(self)]
        among = [value if isinstance(value, tuple) else (value,) for value in values]
        return tuple(c for value in among for c in value if isinstance(c, Column))

    @property
    def cells(self) -> int:
        """C."""
        return 1

    @property
    def parts(self) -> int:
        """P."""
        return 1

    @property
    @abstractmethod
    def whole(self) -> Statistic:
        """How far a record that is in moves the vector when another one that is in replaces it."""

    @property
    def size(self) -> tuple[float, float]:
        """The largest norms, l1 and l2, of a record's vector: what it moves by being out."""
        return self.whole.l1, float(self.whole.l2 or self.whole.l1)

    @property
    def statistic(self) -> Statistic:
        """How far a record moves the vector, in or out: what noise covers."""
        found = self.whole
        if self.partial:
            l1, l2 = self.size
            found = replace(
                found, l1=max(found.l1, l1), l2=max(float(found.l2 or 0), l2),
                low=np.minimum(found.low, 0.0), high=np.maximum(found.high, 0.0),
            )  # fmt: skip
        return found

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """Instances that the contract suite asks, attacks and covers."""
        return ()

    @abstractmethod
    def encode(self, rows: Rows) -> Encoded:
        """The cell and the parts of each record; records with a missing value are out already.

        Parameters
        ----------
        rows
            By name, as this question's own columns read them (another question may read a column of the
            same name between other bounds); beside them `RECORDS`, an array with any entry a record, for
            questions without a column.
        """

    def expand(self, totals: Ints) -> Ints:
        """The vector, from the totals of all cells (..., C P): linear, with whole coefficients."""
        return totals

    def total(self, rows: Rows, step: Fraction) -> Ints:
        """The totals of a batch of records, in steps of a grid: whole numbers, C P of them.

        Parameters
        ----------
        rows
            As of `encode`.
        step
            Of the grid.
        """
        return add_up(self.encode(rows), self.cells, self.parts, step)

    @property
    def stages(self) -> tuple[float, ...]:
        """What part of the question's epsilon each of its releases has; one release by default.

        A question that asks in stages asks `stage(k)` of the same records, where the released vectors
        before are known; how far a record moves each vector is public beforehand (`stage_statistics`).
        """
        return (1.0,)

    @property
    def stage_statistics(self) -> tuple[Statistic, ...]:
        """How far a record moves the vector of each stage, whatever was released before."""
        return (self.statistic,)

    def stage(self, k: int, before: Sequence[NoisedVector]) -> Question:
        """What is asked at stage k."""
        return self

    def conclude(self, released: Sequence[NoisedVector]) -> tuple[Decoded, ...]:
        """The answer, from the vectors of all stages."""
        return self.decode(released[0])

    def at_once(self) -> Question:
        """The same in one release: what a question by group, or a single session, asks."""
        if len(self.stages) > 1:
            raise QuestionError(f"{self.name} is asked in stages, and not at once")
        return self

    def tuned(self, epsilon: float, delta: float = 0.0) -> Question:
        """The same as it is best asked at a price: a choice by public numbers, before a row is read."""
        return self

    @abstractmethod
    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """What the released vector says; the answer first."""

    @abstractmethod
    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """How wide the answer's interval will be with so many records; values are assumed to be spread
        evenly over their range."""

    def draw(self, findings: Sequence[Decoded], ax: Axes) -> None:
        """Draw the answer; bars with intervals by default."""
        bars(findings[0], ax)

    def within(self) -> Question:
        """The same question where records may be out; an error where that has no answer."""
        return replace(self, partial=True)

    def of_population(self) -> Question:
        """The question whose interval is of the population that the records were drawn from.

        Asked where `NoisedVector.population` is set. An error by default: not every question has one.
        """
        raise QuestionError(
            f"{self.name} has no interval of a population, only of these records; mean, proportion, "
            "histogram, table and clipped have one"
        )

    def terms(self) -> dict[str, Any]:
        """All that shapes the vector, in plain values: what is signed, stored and sent to sites."""
        found = {"question": self.name}
        for one in fields(self):
            found[one.name] = _plain(getattr(self, one.name))
        return found

    @cached_property
    def dimension(self) -> int:
        """Of the vector."""
        return self.whole.dimension


_QUANTILES = "{} is asked as: quantiles COLUMN --between LOW HIGH --at {}"
_SPREAD = "a standard deviation is the root of the variance: variance COLUMN --between LOW HIGH"
_ENDS = "no single row can be published; near the ends: quantiles COLUMN --at 0.01,0.99"
_AVERAGE = "an average is asked as: mean COLUMN --between LOW HIGH"
_SHARE = "a share is asked as: proportion COLUMN --values A,B,..."
HINTS = {
    "median": _QUANTILES.format("a median", "0.5"),
    "percentile": _QUANTILES.format("a percentile", "0.9"),
    "percentiles": _QUANTILES.format("percentiles", "0.1,0.9"),
    "quartiles": _QUANTILES.format("quartiles", "0.25,0.5,0.75"),
    "average": _AVERAGE, "avg": _AVERAGE,
    "sd": _SPREAD, "std": _SPREAD, "stddev": _SPREAD,
    "min": _ENDS, "max": _ENDS, "minimum": _ENDS, "maximum": _ENDS, "range": _ENDS,
    "share": _SHARE, "percentage": _SHARE, "percent": _SHARE,
}  # fmt: skip
QUESTIONS = Registry[type[Question]]("question", "veilsum.questions", QuestionError, HINTS)


def _plain(value: Any) -> Any:
    if isinstance(value, Question):
        return value.terms()
    if isinstance(value, Column):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value
