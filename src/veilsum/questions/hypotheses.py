"""A test of two simple hypotheses: which of two public distributions over k public cells records come from.

    T = sum_i L(cell of record i),    L = log(p1/p0), clipped to [-c, c],    released: T + X

For k = 2 this is a count, of sensitivity 1. For more, L is rounded to R = 256 steps of its range, which is
public, and a record moves T by R of them at most (l1 = R).

The law of T + X under a hypothesis is known exactly: phi(u)^n phi_X(u), phi that of one record's L,
transformed back over a window that leaves out 1e-12 of it (Hoeffding's bound for T, the law's tail for X).
The critical value is the least c with P0(T + X >= c) <= level; so the level holds with the noise in it,
whatever n and epsilon are, and the p-value is P0(T + X >= t).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, Self

import numpy as np

from veilsum._statistic import Statistic, Status
from veilsum.errors import QuestionError
from veilsum.privacy import Law
from veilsum.questions.base import Decoded, Encoded, Forecast, Ints, NoisedVector, Question, too_few
from veilsum.questions.columns import Candidates, Category, Floats, Rows, Sides
from veilsum.questions.intervals import NORMAL
from veilsum.questions.noise import GridNoise

FINE = 256  # steps of the range of a record's log-likelihood ratio
LEFT_OUT = 1e-12


@dataclass(frozen=True, kw_only=True)
class HypothesisTest(Question):
    """A test of two simple hypotheses, one of them the null.

    Parameters
    ----------
    column : Category or Sides
        Of which places are the cells.
    null, alternative : tuple of float
        The probability of each place.
    level : float
        The probability of rejecting the null where it is true, at most.
    clip : float
        Of a record's log-likelihood ratio; inf for none.

    Examples
    --------
    >>> import veilsum as vs
    >>> test = vs.questions.test("vote", value="yes", null=0.5, alternative=0.55)
    >>> noise = vs.questions.priced([test.statistic], [1.0], epsilon=1.0).parts[0]
    >>> round(test.power(969, noise), 2)
    0.93
    """

    column: Category | Sides
    null: tuple[float, ...]
    alternative: tuple[float, ...]
    level: float = 0.05
    clip: float = math.inf

    name: ClassVar[str] = "test"
    about: ClassVar[str] = "a test of two public hypotheses about the shares of public cells"
    of_ids: ClassVar[bool] = False  # the likelihood is one of independent records

    def __post_init__(self) -> None:
        """Refuse what is no pair of different distributions."""
        for what, p in (("null", self.null), ("alternative", self.alternative)):
            if len(p) != self.column.places or min(p) < 0 or abs(sum(p) - 1) > 1e-9:
                raise QuestionError(
                    f"the {what} has a probability for each of {self.column.places} cells, which add up "
                    f"to 1; found {list(p)}"
                )
        if not 0 < self.level < 1:
            raise QuestionError(f"a level is above 0 and below 1; found {self.level:g}")
        if self.partial:
            raise QuestionError(
                "a test needs a public number of records: no filter, no groups, no missing values; ask a "
                "proportion or a histogram of these, with intervals"
            )
        if not self.clip > 0 or not np.isfinite(self.ratios).all():
            raise QuestionError(
                "a record that one hypothesis rules out has an infinite likelihood ratio; add clip=1, "
                "or any other number above 0"
            )
        if np.ptp(self.ratios) == 0:
            raise QuestionError("the two hypotheses are the same")

    @classmethod
    def make(
        cls,
        column: str,
        *,
        null: float | Sequence[float],
        alternative: float | Sequence[float],
        value: str | None = None,
        above: float | None = None,
        categories: Sequence[str] | None = None,
        level: float = 0.05,
        clip: float = math.inf,
    ) -> Self:
        """Of the share with a value, or above a number; or of the shares of all categories."""
        if sum(x is not None for x in (value, above, categories)) != 1:
            raise QuestionError("a test is of a value, of numbers above a number, or of categories")
        if categories is not None:
            among = Category(column, categories)
            each = [tuple(np.atleast_1d(p).astype(float).tolist()) for p in (null, alternative)]
            return cls(column=among, null=each[0], alternative=each[1], level=level, clip=clip)
        p, q = (float(np.asarray(x)) for x in (null, alternative))
        if value is not None:
            return cls(
                column=Candidates(column, [value]), null=(p, 1 - p), alternative=(q, 1 - q),
                level=level, clip=clip,
            )  # fmt: skip
        return cls(
            column=Sides(column, high=float(above)), null=(0.0, 1 - p, p),  # type: ignore[arg-type]
            alternative=(0.0, 1 - q, q), level=level, clip=clip,
        )  # fmt: skip

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """Of a share, and of three."""
        three = cls.make(
            "c",
            categories=("a", "b", "c"),
            null=(0.5, 0.3, 0.2),
            alternative=(0.4, 0.3, 0.3),
            clip=0.3,
        )
        return cls.make("c", value="a", null=0.5, alternative=0.55), three

    @cached_property
    def ratios(self) -> Floats:
        """log(p1/p0) of each cell, clipped; 0 for a cell that neither has."""
        p, q = np.array(self.null), np.array(self.alternative)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where((p == 0) & (q == 0), 0.0, np.log(q) - np.log(p))
        return np.asarray(np.clip(found, -self.clip, self.clip))

    @cached_property
    def scores(self) -> Ints:
        """The same in steps, from 0."""
        possible = np.array(self.null) + np.array(self.alternative) > 0
        inside = np.clip(self.ratios, *self._ends)
        steps = 1 if len(np.unique(self.ratios[possible])) == 2 else FINE
        share = (inside - self._ends[0]) / (self._ends[1] - self._ends[0])
        return np.rint(share * steps).astype(np.int64)

    @property
    def _ends(self) -> tuple[float, float]:
        """The least and the largest ratio of a cell that one hypothesis has."""
        possible = np.array(self.null) + np.array(self.alternative) > 0
        return float(self.ratios[possible].min()), float(self.ratios[possible].max())

    @property
    def unit(self) -> float:
        """What a step is of a log-likelihood ratio."""
        return (self._ends[1] - self._ends[0]) / int(self.scores.max())

    @property
    def whole(self) -> Statistic:
        """From the least score to the largest."""
        most = float(self.scores.max())
        reason = "one record has one score"
        return Statistic(most, low=0.0, high=most, step=1.0, status=Status.PROVED, reason=reason)

    def encode(self, rows: Rows) -> Encoded:
        """The score of each record."""
        return Encoded(parts=self.scores[rows[self.column.name]][:, None].astype(np.float64))

    def of_population(self) -> Question:
        """Itself: hypotheses are of a population."""
        return self

    def critical(self, records: int, noise: GridNoise) -> int:
        """The least c with P0(T + X >= c) <= level."""
        start, above = self._law(self.null, records, noise)
        return start + int(np.argmax(above <= self.level))

    def power(self, records: int, noise: GridNoise) -> float:
        """P1(T + X >= critical value)."""
        return self._beyond(self.alternative, self.critical(records, noise), records, noise)

    def _beyond(self, p: tuple[float, ...], value: float, records: int, noise: GridNoise) -> float:
        """P(T + X >= value)."""
        start, above = self._law(p, records, noise)
        place = math.ceil(value) - start
        return 1.0 if place < 0 else float(above[place]) if place < len(above) else 0.0

    def _law(self, p: tuple[float, ...], records: int, noise: GridNoise) -> tuple[int, Floats]:
        """Where the window starts, and P(T + X >= k) from there on."""
        return _tails(tuple(self.scores.tolist()), p, records, noise.law)

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """The log-likelihood ratio with its verdict; p-value and power behind it."""
        n = released.records
        if not n:
            return (too_few("log-likelihood ratio", "a test"),)
        steps = round(float(released.values[0]) / float(released.noise.step))
        p = self._beyond(self.null, steps, n, released.noise)
        rejected = steps >= self.critical(n, released.noise)
        power = self.power(n, released.noise)
        value, half = n * self._ends[0] + steps * self.unit, released.half() * self.unit
        verdict = (
            "The records speak for the alternative: the null is rejected"
            if rejected
            else "The null is not rejected"
        )
        sentence = (
            f"{verdict} at level {self.level:g} (p = {p:.2g}). If the null is true, it is rejected at most "
            f"{100 * self.level:g} times in 100; if the alternative is, {100 * power:.0f} times."
        )
        return (
            Decoded(
                "log-likelihood ratio", value, value - half, value + half, sentence=sentence
            ),
            Decoded("p-value", p, p, p, detail=True, sentence="Exact, noise included."),
            Decoded("power", power, power, power, detail=True, sentence="Known before asking."),
        )  # fmt: skip

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """Sampling: under the null."""
        p = np.array(self.null)
        variance = float(p @ self.scores**2 - (p @ self.scores) ** 2)
        half = NoisedVector(np.zeros(1), noise).half() * self.unit
        sampling = NORMAL * math.sqrt(records * variance) * self.unit
        return Forecast(half, sampling, of="the log-likelihood ratio")


@lru_cache(maxsize=16)
def _tails(
    scores: tuple[int, ...], p: tuple[float, ...], records: int, law: Law
) -> tuple[int, Floats]:
    """P(T + X >= k) for k = start, start + 1, ..."""
    at, mass = np.array(scores), np.array(p)
    reach = max(scores) * math.sqrt(records * math.log(2 / LEFT_OUT) / 2)
    most = math.ceil(reach) + law.tail(LEFT_OUT) + 1
    start = round(records * float(mass @ at)) - most
    points = 1 << (2 * most + 1).bit_length()
    u = np.asarray(2 * math.pi * np.fft.rfftfreq(points), dtype=np.float64)
    one = np.exp(1j * np.outer(at, u)).T @ mass
    spectrum = one**records * np.exp(law.log_characteristic(u) - 1j * u * start)
    found = np.fft.irfft(np.conj(spectrum), points)[: 2 * most + 1]
    above = np.cumsum(np.maximum(found, 0.0)[::-1])[::-1]
    return start, np.asarray(np.minimum(above, 1.0))
