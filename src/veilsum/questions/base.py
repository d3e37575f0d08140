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

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum._registry import Registry
from veilsum._statistic import Statistic, Status
from veilsum.errors import QuestionError
from veilsum.questions.columns import RECORDS, Column, Floats, Rows
from veilsum.questions.intervals import fieller, reach
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

Ints = NDArray[np.int64]
DRAWS = 4000  # of simulated noise, where an interval has no closed form

QUESTIONS: Registry[type[Question]]


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


@dataclass(frozen=True, eq=False)
class NoisedVector:
    """The noised vector of a question, and what is public about it: all that `decode` may see.

    Parameters
    ----------
    values : array
        (dimension,): total plus noise, in the statistic's units.
    noise : GridNoise
        Of each component.
    records : int, optional
        How many records there are, where that is public and all of them are in; else None.
    table : int, optional
        How many records there are in all, in or out, where that is public.
    population : bool
        Whether intervals are to be of the population that the records were sampled from.
    """

    values: Floats
    noise: GridNoise
    records: int | None = None
    table: int | None = None
    population: bool = False

    @property
    def sd(self) -> float:
        """Of the noise of a component."""
        return self.noise.sd

    def half(self, weights: ArrayLike = (1.0,), sampling: float = 0.0) -> float:
        """x with P(|sum_k w_k noise_k + normal| <= x) >= 95% (`intervals.reach`).

        Parameters
        ----------
        weights
            Of independent components.
        sampling
            Variance of an independent normal number that is added.
        """
        w = np.abs(np.asarray(weights, dtype=np.float64).ravel())
        step = float(self.noise.step)
        return reach(self.noise.law, tuple(w[w > 0].tolist()), sampling / step**2) * step

    def rng(self) -> np.random.Generator:
        """For simulated noise: seeded by the released numbers, so that an answer stays what it is."""
        seed = np.frombuffer(
            np.ascontiguousarray(self.values, dtype=np.float64).tobytes(), np.uint32
        )
        return np.random.default_rng([int(word) for word in seed])

    def simulated(self, draws: int = DRAWS, rng: np.random.Generator | None = None) -> Floats:
        """(draws, dimension): further noise of the same law, for intervals; never for a release."""
        shape = (draws, *self.values.shape)
        found = self.noise.law.sample(shape, self.rng() if rng is None else rng)
        return np.asarray(found * float(self.noise.step))

    def number(self, value: float, half: float) -> Decoded:
        """The detail that says how many records an answer is of, where that was released."""
        value, low, high = (max(x, 0.0) for x in (value, value - half, value + half))
        sentence = f"These are about {value:,.0f} records."
        return Decoded("records", value, low, high, sentence=sentence, detail=True)

    def part(self, values: Floats) -> NoisedVector:
        """The same release of a part of the vector, whose number of records is private."""
        return replace(self, values=values, records=None)


@dataclass(frozen=True, eq=False)
class Decoded:
    """One answer: a number, or one for each label, with intervals.

    Parameters
    ----------
    quantity : str
        What it is, such as "mean of kwh".
    value, low, high : float or array
        NaN where it cannot be said, such as the mean of too few.
    labels : tuple of str
        Of the components, such as bins; empty for one number.
    sentence : str
        What it says, for a reader without theory.
    unit : str
        Of the numbers.
    axis : array, optional
        Where components lie on a line, such as the ends of bins.
    detail : bool
        Whether it stands behind the answer, such as the count that a mean is of.
    together : bool
        Whether all intervals hold at once with 95%, those of each group by group, instead of each of them.
    """

    quantity: str
    value: Any
    low: Any
    high: Any
    labels: tuple[str, ...] = ()
    sentence: str = ""
    unit: str = ""
    axis: Floats | None = None
    detail: bool = False
    together: bool = False


@dataclass(frozen=True)
class Forecast:
    """What an answer will be good for, before anything is read.

    Parameters
    ----------
    half : float
        Half the width of the 95% interval that noise alone makes, of a typical component.
    sampling : float
        The same of sampling: of what the same number of other records would have said.
    unit : str
        Of both.
    of : str
        What they are of, such as "the mean".
    scale : float
        Of the whole range, of which a half is a percentage; 0 where there is none.
    fewer : str
        What would make the question cheaper besides rows and epsilon, such as "fewer bins".
    """

    half: float
    sampling: float
    unit: str = ""
    of: str = ""
    scale: float = 0.0
    fewer: str = ""

    @property
    def useful(self) -> bool:
        """Whether noise is at most three times sampling."""
        return self.half <= 3 * self.sampling


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """A question; abstract. A file of this package has one, which registers itself by its name.

    Parameters
    ----------
    partial : bool
        Whether a record may be out: under a filter, by a missing value, in no group.
    """

    partial: bool = False

    name: ClassVar[str]
    about: ClassVar[str]  # a line for lists
    make: ClassVar[Callable[..., Question]]  # from names and public numbers
    once: ClassVar[bool] = False  # whether an id counts as 1 if any of its rows is in
    adds_rows: ClassVar[bool] = False  # whether more rows of an id are more, as in a sum
    margin: ClassVar[str] = ""  # why intervals cover more than they say, where they do
    of_ids: ClassVar[bool] = True  # whether the mean of an id's rows may be one record

    def __init_subclass__(cls, **options: Any) -> None:
        """Register a question of the package."""
        super().__init_subclass__(**options)
        QUESTIONS.enlist(cls)

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """What it reads."""

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

    def total(self, rows: Rows, step: Fraction, weights: Ints | None = None) -> Ints:
        """The totals of a batch of records, in steps of a grid: whole numbers, C P of them.

        Parameters
        ----------
        rows
            As of `encode`.
        step
            Of the grid.
        weights
            Of counts, (records,): 1 without them.
        """
        return add_up(self.encode(rows), self.cells, self.parts, step, weights)

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

    def within(self, partial: bool = True) -> Question:
        """The same question where records may be out; an error where that has no answer."""
        return replace(self, partial=partial)

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


QUESTIONS = Registry[type[Question]]("question", "veilsum.questions", QuestionError)


BLOCK = 1 << 20  # records added up at a time: below 2^53 steps, so that floats are exact


def add_up(
    encoded: Encoded, cells: int, parts: int, step: Fraction, weights: Ints | None = None
) -> Ints:
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
            w = None if weights is None else weights[block]
            total += _by_cell(inside, w, cells)[:, None]  # type: ignore[arg-type]
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


def uncertain(half: float, records: float, reach: float) -> float:
    """Half an interval of a share whose bottom is `records` within `reach`.

    An answer is refused where the released bottom is at most `reach`, which is rare where `records` is more
    than twice that; below it an answer counts as 10 times as wide, and as 10 where it is always refused.
    """
    return 10.0 if reach >= records else half / max(1 - 2 * reach / records, 0.1)


def too_few(quantity: str, what: str, labels: tuple[str, ...] = ()) -> Decoded:
    """The answer where nothing can be said: NaN, and why."""
    nan = np.full(len(labels), math.nan) if labels else math.nan
    return Decoded(
        quantity, nan, nan, nan, labels,
        f"Noise hides how many records there are, which may be none: too few for {what}.",
    )  # fmt: skip


def bars(finding: Decoded, ax: Axes) -> None:
    """Bars of a finding's components with their intervals."""
    value, low, high = (
        np.ravel(x).astype(float) for x in (finding.value, finding.low, finding.high)
    )
    labels = finding.labels or (finding.quantity,) * len(value)
    place = np.arange(len(value))
    ax.barh(place, value, color="C0", alpha=0.6)
    reach = [np.maximum(value - low, 0), np.maximum(high - value, 0)]
    ax.errorbar(value, place, xerr=reach, fmt="none", color="0.2", capsize=3)
    ax.set_yticks(place, labels)
    ax.invert_yaxis()
    ax.set_xlabel(f"{finding.quantity}{finding.unit and f' [{finding.unit}]'}")


def counted(l1: float, l2: float, cells: int, reason: str) -> Statistic:
    """The Statistic of counts, of which a record moves some."""
    return Statistic(
        l1, l2, cells, low=0.0, high=1.0, step=1.0, status=Status.PROVED, reason=reason
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Question):
        return value.terms()
    if isinstance(value, Column):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value
