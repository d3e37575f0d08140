"""Linear regression: how a column goes with others, all between public bounds.

    y = g_0 + sum_j g_j x_j + error,    of these records: A g = c,  A = sum x x',  c = sum x y,  x_0 = 1

Released: sums of v_i and v_i v_j (i <= j) over the m variables x_1, ..., x_d, y, scaled to [-1, 1] and
rounded to whole steps; with p = m + 1, one record against another moves them by at most

    l1 = m (m + 2)^2/(2 (m + 1)),    l2 = 2 sqrt(floor(p^2/4))    (`_moments`, proved and attained)

so that Laplace noise is the smaller to p = 5 at epsilon = 1, delta = 1e-6, and Gaussian noise from p = 6 on.
Off-diagonal entries need no factor sqrt 2: without it the same noise lies on them, and half the variance on
squares. Coefficients and their intervals follow from the law of the noise (`_linear`): of these records by
default, of the population that they were drawn from with the variance of the model's errors.

To first order Cov(g) = A^-1 M A^-1, M = Cov(E (-g, 1)), which is the interval's width; that the noise of A
inverts badly is in the interval too, so nothing is simulated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from veilsum._statistic import Statistic
from veilsum.errors import QuestionError
from veilsum.questions._linear import NoisedFit
from veilsum.questions._moments import UNIT, G, box_statistic, pairs, products, symmetric
from veilsum.questions.base import Decoded, Encoded, Forecast, NoisedVector, Question
from veilsum.questions.columns import Column, Floats, Number, Rows
from veilsum.questions.noise import GridNoise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 30  # columns x
SPREAD = (
    0.1  # variance of a scaled column that a forecast assumes: a sixth of its range is a deviation
)


@dataclass(frozen=True, kw_only=True)
class Regression(Question):
    """How y goes with x_1, ..., x_d: slopes, intercept, deviation of the residuals.

    Parameters
    ----------
    y : Number
        With its public bounds.
    x : tuple of Number
        With theirs.

    Examples
    --------
    >>> import veilsum as vs
    >>> kwh = vs.questions.regression("kwh", "area", between={"kwh": (0, 40), "area": (20, 300)})
    >>> [column.name for column in kwh.columns], kwh.dimension
    (['kwh', 'area'], 5)
    """

    y: Number
    x: tuple[Number, ...]

    name: ClassVar[str] = "regression"
    about: ClassVar[str] = "how a column goes with others: slopes of a linear regression"

    def __post_init__(self) -> None:
        """Refuse a column twice, none, or too many."""
        check_columns(self)

    @classmethod
    def make(cls, y: str, x: str, *others: str, between: Mapping[str, tuple[float, float]]) -> Self:
        """Of `y` on `x` and others, each `between` its bounds; values beyond them count as the bounds."""
        first, *rest = numbers_of((y, x, *others), between)
        return cls(y=first, x=tuple(rest))

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """On one column and on two."""
        one = cls.make("y", "x", between={"y": (0.0, 3.0), "x": (-2.0, 6.0)})
        ends = {"y": (0.0, 1.0), "a": (-1.0, 1.0), "b": (0.0, 10.0)}
        return one, cls.make("y", "a", "b", between=ends), one.within()

    @property
    def parts(self) -> int:
        """Entries."""
        return self.whole.dimension

    @property
    def whole(self) -> Statistic:
        """Of the moments."""
        return box_statistic(len(self.columns), self.partial)

    @property
    def size(self) -> tuple[float, float]:
        """All entries at 1."""
        return float(self.parts * UNIT), math.sqrt(self.parts) * UNIT

    def encode(self, rows: Rows) -> Encoded:
        """Products of whole steps."""
        return Encoded(parts=products(steps(rows, (*self.x, self.y)), self.partial))

    def of_population(self) -> Question:
        """Itself."""
        return self

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """Slopes in the columns' own units; the intercept, the residuals, the number of records."""
        size = len(self.columns) + 1
        number = float(released.records or 0)
        moments = symmetric(released.values / UNIT, size, self.partial, number)
        fit = NoisedFit(moments, released, UNIT, pairs(size, self.partial))
        basis = own_units(self.x)
        scale = self.y.width / 2
        ends = np.array([
            fit.coefficient(j, basis, released.population) for j in range(fit.size)
        ]) * scale  # fmt: skip
        intercept = ends[0] + (self.y.low + self.y.high) / 2
        value, low, high = ends[1:].T
        slopes = Decoded(
            f"slope of {self.y.name}", value, low, high, tuple(c.name for c in self.x),
            self._sentence(ends[1:]),
        )  # fmt: skip
        at_zero, first, last = (float(x) for x in intercept)
        details = [
            Decoded("intercept", at_zero, first, last, detail=True,
                    sentence=f"The line at 0 is at {at_zero:.4g}."),
            self._residual(fit, scale),
        ]  # fmt: skip
        if self.partial:
            n, half = float(released.values[0]) / UNIT, released.half() / UNIT
            details.append(released.number(n, half))
        return slopes, *details

    def _sentence(self, slopes: Floats) -> str:
        """One for each column."""
        found = []
        for column, (value, low, high) in zip(self.x, slopes, strict=True):
            if math.isnan(value):
                found.append(f"Noise hides how {self.y.name} goes with {column.name}.")
                continue
            others = " and the others equal" if len(self.x) > 1 else ""
            found.append(
                f"Where {column.name} is 1 higher{others}, {self.y.name} is about {abs(value):.3g} "
                f"{'higher' if value >= 0 else 'lower'} ({low:.3g} to {high:.3g} with 95% confidence)."
            )
        return " ".join(found)

    def _residual(self, fit: NoisedFit, scale: float) -> Decoded:
        """sqrt(sum of squares/(n - d - 1))."""
        count = float(fit.moments[0, 0]) - fit.size
        if count <= 0 or fit.least < 2 * fit.sd:
            nan = math.nan
            return Decoded("residual sd", nan, nan, nan, detail=True, sentence="Too few records.")
        total, half = fit.residual
        value, low, high = (
            scale * math.sqrt(min(max(x / count, 0.0), 1.0))
            for x in (total, total - half, total + half)
        )
        return Decoded(
            "residual sd", value, low, high, detail=True,
            sentence=f"{self.y.name} is off the line by about {value:.3g}.",
        )  # fmt: skip

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """Of the change of y over the range of an x, if columns have deviations of a sixth of their ranges.

        Values that fill their bounds evenly would promise a third of the noise that bounds with room around
        most values have. Where noise is half of a diagonal entry of A, intervals grow without limit.
        """
        half = NoisedVector(np.zeros(1), noise).half() / UNIT / (SPREAD * records)
        half *= max(1.0, (2 * half) ** 4)
        return Forecast(
            half * self.y.width, 1.96 / math.sqrt(records) * self.y.width,
            of=f"the change of {self.y.name} over the range of {self.x[0].name}", scale=self.y.width,
            fewer="fewer columns" if len(self.x) > 1 else "",
        )  # fmt: skip

    def draw(self, findings: Sequence[Decoded], ax: Axes) -> None:
        """What y changes by over the range of each x, with intervals."""
        found = findings[0]
        effects(found, self.x, ax, f"change of {self.y.name} over the range of a column")


def check_columns(question: Question) -> None:
    """Refuse a column twice, none to explain the first, or too many."""
    names = [column.name for column in question.columns]
    if not 2 <= len(names) <= 1 + MOST or len(set(names)) < len(names):
        raise QuestionError(
            f"{question.name} is of one column on 1 to {MOST} different others; found {names[0]!r} on "
            f"{', '.join(names[1:])}"
        )


def numbers_of(
    names: Sequence[str], between: Mapping[str, tuple[float, float]] | tuple[float, float]
) -> tuple[Number, ...]:
    """Columns with their bounds; one column may have them without its name."""
    ends = between if isinstance(between, Mapping) else {names[0]: between}
    if set(ends) != set(names):
        raise QuestionError(
            f"between= has the bounds of {', '.join(names)}, by name; found those of "
            f"{', '.join(map(str, ends))}"
        )
    return tuple(Number(name, *ends[name]) for name in names)


def steps(rows: Rows, columns: Sequence[Column]) -> Floats:
    """(records, p): 1 and the columns in [-1, 1], in whole steps."""
    v = np.stack([2 * rows[column.name] - 1 for column in columns], axis=1)
    return np.hstack([np.full((len(v), 1), float(G)), np.rint(v * G)])


def own_units(x: Sequence[Number]) -> Floats:
    """B with (1, x) = B (1, v), x in its own units and v in [-1, 1]."""
    found = np.diag([1.0, *(column.width / 2 for column in x)])
    found[1:, 0] = [(column.low + column.high) / 2 for column in x]
    return found


def effects(found: Decoded, x: Sequence[Number], ax: Axes, label: str) -> None:
    """Slopes times ranges."""
    width = np.array([column.width for column in x])
    value, low, high = (np.ravel(end) * width for end in (found.value, found.low, found.high))
    place = np.arange(len(width))
    ax.axvline(0.0, color="0.7", linewidth=1)
    ax.errorbar(value, place, xerr=[value - low, high - value], fmt="o", color="C0", capsize=3)
    ax.set_yticks(place, found.labels)
    ax.set_ylim(len(width) - 0.5, -0.5)
    ax.set_xlabel(label)
