"""Logistic regression: the odds of an outcome and the columns they go with, in four releases.

    P(y = 1) = sigma(b'x),  x = (c, v),  |v| <= N (a public clip norm),  c = N/2 for the intercept

    1  sum x x'                                  0.15 of epsilon      l2 of clipped moments (`_moments`)
    2  sum (sigma(b'x) - y) x  at b = 0          0.05                 l2 = R = sqrt(N^2 + c^2)
    3  the same at b_1                           0.10                 l2 = 2 R
    4  the same at b_2                           0.70                 l2 = 2 R

A record's gradient is at most R long, as x is and |sigma - y| <= 1, and half of it at b = 0. From b_(k-1) a
step goes to where a surrogate with the moments of release 1 (`_surrogate`) has the gradient that undoes the
released one: Newton's method with an approximate Hessian H_s. With b* of these records,

    b_k - b* = H_s^-1 noise + (1 - H_s^-1 H)(b_(k-1) - b*),

so what is wrong with b_(k-1) shrinks, and most of epsilon is for the last gradient. A step counts by what is
known: noise of the gradient, and a fifth of its length for what a surrogate may not know (`Guess`).

Intervals. All four releases are simulated from the surrogate at the answer, with further noise of their
laws, and with that fifth of each step, which counts as long as the real one at least; the interval reaches as
far as 95% of the errors do. Where epsilon is large it covers more than that. It is of these records; for a
population, errors of variance H_s^-1 are added. Where simulated coefficients run away, noise hides the
answer, and nothing is said.

One step from b = 0, which costs least, is biased; plain gradient steps, of which it takes many, were not
measured beside these. Laws and stages: a delta buys Gaussian noise for all four as for one vector, since
divergences of releases that depend on earlier ones add up; without a delta epsilons do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from veilsum._statistic import Statistic
from veilsum.errors import QuestionError
from veilsum.privacy.laws.shares import LaplaceLaw
from veilsum.questions._gradients import sigmoid, spread, spreads
from veilsum.questions._moments import (
    UNIT,
    G,
    ball_statistic,
    gradient_statistic,
    pairs,
    products,
)
from veilsum.questions._surrogate import Guess, NormalSurrogate
from veilsum.questions.base import Decoded, Encoded, Forecast, NoisedVector, Question
from veilsum.questions.columns import Category, Floats, Number, Rows
from veilsum.questions.intervals import CONFIDENCE
from veilsum.questions.linear_regression import (
    SPREAD,
    check_columns,
    effects,
    numbers_of,
    own_units,
)
from veilsum.questions.noise import GridNoise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STAGES = 0.15, 0.05, 0.1, 0.7
CONSTANT = 1 / 2  # of the norm
SIMULATED = 300
ASSUMED = 2.0  # |b| R that a forecast assumes
LOST = 0.025  # of simulated answers, that may run away


@dataclass(frozen=True, kw_only=True)
class Logistic(Question):
    """The odds of an outcome, and how they go with columns.

    Parameters
    ----------
    y : Category
        With two values, of which the second is the outcome.
    x : tuple of Number
        With public bounds, scaled to [-1, 1].
    norm : float
        Of the scaled x of a record; longer ones are shortened. sqrt(d) shortens none.

    Examples
    --------
    >>> import veilsum as vs
    >>> ends = {"age": (0, 100), "dose": (0, 5)}
    >>> ill = vs.questions.logistic("age", "dose", outcome="ill", between=ends, norm=1.0)
    >>> [round(one.l2 / 2**13, 2) for one in ill.stage_statistics[1:]]
    [2.24, 2.24, 2.24]
    """

    y: Category
    x: tuple[Number, ...]
    norm: float

    name: ClassVar[str] = "logistic"
    about: ClassVar[str] = "the odds of an outcome, and how they go with other columns"
    margin: ClassVar[str] = "a fifth of each step is not known"

    def __post_init__(self) -> None:
        """Refuse an outcome without two values, a column twice, and a norm that none has."""
        check_columns(self)
        if len(self.y.values) != 2:
            raise QuestionError(
                f"column {self.y.name}: an outcome has two values, no and yes; found {self.y.values}"
            )
        if not 0 < self.norm <= math.sqrt(len(self.x)) * (1 + 1e-12):
            raise QuestionError(
                f"norm is above 0 and at most sqrt({len(self.x)}), which shortens no record; found "
                f"{self.norm}"
            )

    @classmethod
    def make(
        cls,
        x: str,
        *others: str,
        outcome: str,
        between: Mapping[str, tuple[float, float]] | tuple[float, float],
        outcomes: Sequence[str] = ("0", "1"),
        norm: float | None = None,
    ) -> Self:
        """Of the column `outcome`, with `outcomes` = (no, yes), on x and others `between` their bounds."""
        numbers = numbers_of((x, *others), between)
        length = math.sqrt(len(numbers)) if norm is None else float(norm)
        return cls(y=Category(outcome, tuple(outcomes)), x=numbers, norm=length)

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """Of all records and of some."""
        ends = {"a": (-1.0, 1.0), "b": (0.0, 4.0)}
        two = cls.make("a", "b", outcome="y", between=ends, norm=1.0)
        return two, two.within()

    @property
    def constant(self) -> float:
        """c, in whole steps."""
        return math.floor(CONSTANT * self.norm * G) / G

    @property
    def parts(self) -> int:
        """Entries of a record."""
        return self.whole.dimension

    @property
    def whole(self) -> Statistic:
        """Of the moments, the first release; a record that is out is covered."""
        return ball_statistic(len(self.x), self.norm, self.constant, self.partial)

    @property
    def statistic(self) -> Statistic:
        """The same."""
        return self.whole

    @property
    def size(self) -> tuple[float, float]:
        """Not asked by group."""
        return self.whole.l1, float(self.whole.l2 or 0)

    def encode(self, rows: Rows) -> Encoded:
        """x x'."""
        return Encoded(parts=products(self.steps(rows), self.partial))

    def steps(self, rows: Rows) -> Floats:
        """(records, D): c and v in whole steps, rounded toward 0, so that no record gets longer."""
        v = np.stack([2 * rows[column.name] - 1 for column in self.x], axis=1)
        length = np.linalg.norm(v, axis=1, keepdims=True)
        v *= np.minimum(1.0, self.norm / np.maximum(length, self.norm))
        return np.hstack([np.full((len(v), 1), self.constant * G), np.trunc(v * G)])

    @property
    def stages(self) -> tuple[float, ...]:
        """Of epsilon, or of the divergence."""
        return STAGES

    @property
    def stage_statistics(self) -> tuple[Statistic, ...]:
        """Of the moments and of the gradients."""
        gradient = gradient_statistic(len(self.x), self.norm, self.constant)
        return (self.whole, *(gradient for _ in STAGES[1:]))

    def _scale(self, b: Floats) -> Floats:
        """What gradients at b are divided by, so that they move by 2 R; of a batch, about that."""
        m = np.linalg.norm(b, axis=-1) * math.hypot(self.norm, self.constant)
        return np.asarray(spread(float(m)) if m.ndim == 0 else spreads(m)) / 2

    def stage(self, k: int, before: Sequence[NoisedVector]) -> Question:
        """The moments, then gradients where the releases before lead."""
        if k == 0:
            return self
        at = tuple(self._path(before)[-1].tolist())
        return GradientStage(y=self.y, x=self.x, norm=self.norm, partial=self.partial, at=at)

    def of_population(self) -> Question:
        """Itself."""
        return self

    def _path(self, released: Sequence[NoisedVector]) -> list[Floats]:
        """0, b_1, b_2, ... as far as the releases lead."""
        n, surrogate = self._surrogate(released[0].values / UNIT, released[0])
        at = Guess.nothing(np.zeros(len(self.x) + 1))
        found = [at.b]
        for vector in released[1:]:
            scale = self._scale(at.b) / (n * G)
            at = at.after(vector.values * scale, vector.sd * scale, surrogate)
            found.append(at.b)
        return found

    def _surrogate(self, moments: Floats, released: NoisedVector) -> tuple[Floats, NormalSurrogate]:
        """The number of records, and their moments as a surrogate; for a batch of moments too."""
        size = len(self.x) + 1
        n: Floats = np.asarray(float(released.records or 1))
        if self.partial:
            n = np.maximum(moments[..., 0] / self.constant**2, 1.0)
        i, j = pairs(size, self.partial)
        full = np.zeros((*moments.shape[:-1], size, size))
        full[..., 0, 0] = n * self.constant**2
        full[..., i, j] = full[..., j, i] = moments
        noise = np.full((size, size), released.sd / UNIT)
        full = full / n[..., None, None]
        found = NormalSurrogate.of(full, self.constant, noise / float(np.mean(n)), self.norm)
        return n, found

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """It takes all releases."""
        raise QuestionError(f"{self.name} is read off all of its releases: conclude(released)")

    def conclude(self, released: Sequence[NoisedVector]) -> tuple[Decoded, ...]:
        """Log odds for one more of each column; the intercept, the number of records."""
        path = self._path(released)
        errors, lost = self._errors(released, path)
        apart = np.linalg.inv(own_units(self.x)).T @ np.diag([self.constant, *np.ones(len(self.x))])
        value = apart @ path[-1]
        reach = np.quantile(np.abs(errors @ apart.T), CONFIDENCE, axis=0)
        low, high = value - reach, value + reach
        if lost:
            value, low, high = (np.full(len(value), math.nan) for _ in range(3))
        slopes = Decoded(
            f"log odds of {self.y.values[1]} in {self.y.name}", value[1:], low[1:], high[1:],
            tuple(c.name for c in self.x), self._sentence(value[1:], low[1:], high[1:]),
        )  # fmt: skip
        intercept = Decoded(
            "intercept", float(value[0]), float(low[0]), float(high[0]), detail=True,
            sentence="Log odds where all columns are 0.",
        )  # fmt: skip
        return slopes, intercept

    def _errors(
        self, released: Sequence[NoisedVector], path: Sequence[Floats]
    ) -> tuple[Floats, bool]:
        """(draws, D): errors of the same releases of a surrogate at the answer; whether they diverge."""
        n, truth = self._surrogate(released[0].values / UNIT, released[0])
        rng, b = released[-1].rng(), path[-1]
        steps = [float(np.linalg.norm(later - before)) for before, later in pairwise(path)]
        extra = [vector.simulated(SIMULATED, rng) for vector in released]
        i, j = pairs(len(b), self.partial)
        second = truth.covariance + truth.mean[:, None] * truth.mean
        count, seen = self._surrogate(n * second[i, j] + extra[0] / UNIT, released[0])
        each = np.broadcast_to(count, SIMULATED)[:, None]
        at = Guess.nothing(np.zeros((SIMULATED, len(b))))
        wanted, curvature = truth.at(b)
        for vector, noise, least in zip(released[1:], extra[1:], steps, strict=True):
            scale = self._scale(at.b)[:, None] / G
            gradient = n * (truth.at(at.b)[0] - wanted) + noise * scale
            at = at.after(gradient / each, (vector.sd * scale / each)[:, 0], seen, rng, least)
        lost = float(seen.far(at.b).mean()) > LOST or bool(truth.far(b))
        errors = at.b - b
        if released[0].population:
            root = np.linalg.cholesky(np.linalg.inv(n * curvature))
            errors = errors + rng.standard_normal(errors.shape) @ root.T
        return errors, lost

    def _sentence(self, value: Floats, low: Floats, high: Floats) -> str:
        """One for each column."""
        found = []
        what = f"the odds that {self.y.name} is {self.y.values[1]}"
        others = " and the others equal" if len(self.x) > 1 else ""
        for column, b, first, last in zip(self.x, value, low, high, strict=True):
            if math.isnan(b):
                found.append(f"Noise hides how {what} go with {column.name}.")
                continue
            times, least, most = (math.exp(min(x, 500.0)) for x in (b, first, last))
            found.append(
                f"Where {column.name} is 1 higher{others}, {what} are about {times:.3g} times as high "
                f"({least:.3g} to {most:.3g} with 95% confidence)."
            )
        return " ".join(found)

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """Of the change of log odds over the range of an x, if columns have deviations of a sixth of theirs.

        `noise` is that of the moments; that of the last gradient follows from its move and its share.
        """
        first, last = self.stage_statistics[0], self.stage_statistics[-1]
        if isinstance(noise.law, LaplaceLaw):
            ratio = last.l1 / first.l1 * STAGES[0] / STAGES[-1]
        else:
            ratio = float(last.l2 or 0) / float(first.l2 or 1) * math.sqrt(STAGES[0] / STAGES[-1])
        fill = min(SPREAD, self.norm**2 / len(self.x)) * records
        moments = NoisedVector(np.zeros(1), noise).half() / UNIT / fill
        half = 2 * 4 * ratio * moments * UNIT / G * spread(ASSUMED) / 2
        half *= max(1.0, (2 * moments * math.sqrt(len(self.x))) ** 4)
        return Forecast(
            half, 1.96 * 4 / math.sqrt(fill),
            of=f"the change of log odds over the range of {self.x[0].name}",
            fewer="fewer columns" if len(self.x) > 1 else "",
        )  # fmt: skip

    def draw(self, findings: Sequence[Decoded], ax: Axes) -> None:
        """What log odds change by over the range of each x, with intervals."""
        label = f"change of log odds of {self.y.name} over the range of a column"
        effects(findings[0], self.x, ax, label)


@dataclass(frozen=True, kw_only=True)
class GradientStage(Logistic):
    """sum (sigma(b'x) - y) x at a public b, over its scale.

    Parameters
    ----------
    at : tuple of float
        b.
    """

    at: tuple[float, ...]

    @property
    def whole(self) -> Statistic:
        """2 R."""
        return gradient_statistic(len(self.x), self.norm, self.constant)

    def encode(self, rows: Rows) -> Encoded:
        """(sigma - y) x over the scale, in whole steps."""
        k, at = self.steps(rows), np.array(self.at)
        along = sum(
            k[:, j] * b for j, b in enumerate(self.at)
        )  # k @ at rounds by the size of the batch
        off = (sigmoid(np.asarray(along) / G) - rows[self.y.name]) / self._scale(at)
        return Encoded(parts=np.rint(off[:, None] * k))
