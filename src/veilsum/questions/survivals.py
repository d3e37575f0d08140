"""Survival: the share still without the event at each time, by arm, and whether two arms differ.

    x = 1{arm, bin of the time, event or censored},    l1 = 2, l2 = sqrt(2)

From the noised table, projected on the simplex {counts >= 0, sum n}, follow the Kaplan-Meier curve in bins
and, with two arms, the log-rank statistic (`_risk`). Who is still without the event at the end of the public
range is censored there.

Bands. Noise is drawn again on the projected table, which is projected and read in the same way: the band of
S(t) is S -+ the 95% quantile of |S* - S| at each t. Where the number at risk is within four deviations of
its noise, the band goes from 0 to where it was before: S falls. For a population the records are drawn
again, too.

Log-rank. Noise makes |Z| larger than 1.96 more often than in 5% of cases, so the critical value comes from
the same: tables of the numbers released, without a difference between the arms, with noise. A p-value is
the share of them with a |Z| at least as large. It is of the population, as always with a test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from veilsum._statistic import Statistic
from veilsum.errors import QuestionError
from veilsum.questions._order import HIDDEN, OFTEN, edge_labels
from veilsum.questions._risk import at_risk, kaplan_meier, log_rank, without_difference
from veilsum.questions.base import (
    Decoded,
    Encoded,
    Forecast,
    NoisedVector,
    Question,
    counted,
)
from veilsum.questions.columns import Category, Floats, Number, Rows
from veilsum.questions.histograms import binned, projected
from veilsum.questions.intervals import CONFIDENCE, NORMAL
from veilsum.questions.noise import GridNoise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AGAIN = 400  # tables drawn again, for bands
NULL = 1000  # for a critical value
CLEAR = 4.0  # deviations of a risk set that is known to be there
BINS = 20


@dataclass(frozen=True, kw_only=True)
class Survival(Question):
    """Survival curves in bins of time.

    Parameters
    ----------
    time : Number
        When the event was, or until when there was none.
    event : Category
        Whether there was an event: those that say so first, then those that say there was none.
    happened : int
        How many of its categories say that there was one.
    arm : Category, optional
        Groups that are compared.
    bins : int
        Of time.

    Examples
    --------
    >>> import veilsum as vs
    >>> trial = vs.questions.survival(
    ...     "months", between=(0, 60), event="died", arm="arm", arms=("drug", "placebo"), bins=10
    ... )
    >>> trial.statistic.l1, trial.dimension
    (2.0, 40)
    """

    time: Number
    event: Category
    happened: int = 1
    arm: Category | None = None
    bins: int = BINS

    name: ClassVar[str] = "survival"
    about: ClassVar[str] = "survival curves (Kaplan-Meier), and the log-rank test of two arms"

    def __post_init__(self) -> None:
        """Refuse what is no number of bins, or an event that always or never happens."""
        if not (isinstance(self.bins, int) and 2 <= self.bins <= 10_000):
            raise QuestionError(
                f"bins must be a whole number from 2 to 10,000; found {self.bins!r}"
            )
        if not 0 < self.happened < len(self.event.values):
            raise QuestionError(
                f"column {self.event.name}: say which values mean that the event happened, and which that "
                "it did not, such as events=('1',), censored=('0',)"
            )

    @classmethod
    def make(
        cls,
        time: str,
        *,
        between: tuple[float, float],
        event: str,
        events: Sequence[str] = ("1",),
        censored: Sequence[str] = ("0",),
        arm: str | None = None,
        arms: Sequence[str] = (),
        bins: int = BINS,
    ) -> Self:
        """Survival by `time`, where the column `event` has one of `events` or of `censored`."""
        if (arm is None) != (not arms):
            raise QuestionError(
                "arms are a column and its public values: arm='arm', arms=('a', 'b')"
            )
        return cls(
            time=Number(time, *between), event=Category(event, (*events, *censored)),
            happened=len(events), arm=None if arm is None else Category(arm, tuple(arms)), bins=bins,
        )  # fmt: skip

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """Without arms, and with two, where some records may be out."""
        arms = cls.make("t", between=(0, 4), event="e", arm="arm", arms=("a", "b"), bins=4)
        return cls.make("t", between=(0, 4), event="e", bins=6), arms.within()

    @property
    def arms(self) -> tuple[str, ...]:
        """Their names; one without a name if there are none."""
        return ("",) if self.arm is None else tuple(self.arm.values)

    @property
    def cells(self) -> int:
        """Arms, bins, event or not."""
        return 2 * self.bins * len(self.arms)

    @property
    def whole(self) -> Statistic:
        """From one cell to another."""
        return counted(2.0, math.sqrt(2), self.cells, "one record is in one cell")

    @property
    def size(self) -> tuple[float, float]:
        """1."""
        return 1.0, 1.0

    @property
    def edges(self) -> Floats:
        """Ends of the bins of time."""
        return np.linspace(self.time.low, self.time.high, self.bins + 1)

    def of_population(self) -> Question:
        """Itself: records are drawn again, too."""
        return self

    def encode(self, rows: Rows) -> Encoded:
        """The arm, the bin, and whether the event happened before the range ends."""
        time, event = rows[self.time.name], rows[self.event.name]
        censored = (event >= self.happened) | (time >= 1.0)
        arm = 0 if self.arm is None else rows[self.arm.name]
        return Encoded(2 * (self.bins * arm + binned(time, self.bins)) + censored)

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """The curves with bands, and the test of two arms."""
        table = self._table(released.values, released.records)
        found = [self._curves(table, released)]
        if len(self.arms) == 2:
            found.append(self._test(table, released))
        return (*found, self._numbers(released))

    def _table(self, values: Floats, records: int | None) -> Floats:
        """The nearest table of nonnegative counts, (..., arms, bins, 2)."""
        n = values.sum(axis=-1, keepdims=True) if records is None else np.array(float(records))
        n = np.maximum(n, 1.0)
        shape = (*values.shape[:-1], len(self.arms), self.bins, 2)
        return np.reshape(n * projected(values / n), shape)

    def _again(self, table: Floats, released: NoisedVector, draws: int, sampling: bool) -> Floats:
        """Tables as they might have been released."""
        rng, n = released.rng(), round(float(table.sum()))
        flat = table.ravel()
        records = rng.multinomial(n, flat / flat.sum(), draws) if sampling else flat
        noised = records + released.simulated(draws, rng)
        return self._table(noised, None if released.records is None else n)

    def _curves(self, table: Floats, released: NoisedVector) -> Decoded:
        """S at the end of each bin."""
        value = kaplan_meier(table)
        again = kaplan_meier(self._again(table, released, AGAIN, released.population))
        half = np.quantile(np.abs(again - value), CONFIDENCE, axis=0, method="higher")
        low, high = np.clip(value - half, 0.0, 1.0), np.clip(value + half, 0.0, 1.0)
        risk = at_risk(table)
        rest = released.sd * np.sqrt(2 * np.arange(self.bins, 0, -1))  # of the noise of a risk set
        unknown = risk <= CLEAR * rest
        low, high = np.where(unknown, 0.0, low), np.where(unknown, 1.0, high)
        few = risk[:, :1] <= NORMAL * rest[0]
        value, low, high = (np.where(few, math.nan, x) for x in (value, low, high))
        low, high = (np.minimum.accumulate(x, axis=1) for x in (low, high))
        return Decoded(
            f"share without {self.event.name} after {self.time.name}", value.ravel(), low.ravel(),
            high.ravel(), self._labels(), self._sentence(value, low, high),
            axis=self.edges if self.arm is None else None,
        )  # fmt: skip

    def _labels(self) -> tuple[str, ...]:
        ends = edge_labels(self.edges[1:], self.time.width / self.bins)
        return tuple(f"{arm}: {end}" if arm else end for arm in self.arms for end in ends)

    def _sentence(self, value: Floats, low: Floats, high: Floats) -> str:
        parts = []
        for arm, each in zip(self.arms, zip(value, low, high, strict=True), strict=True):
            where = f" in {arm}" if arm else ""
            s, a, b = (100 * float(x[-1]) for x in each)
            parts.append(
                f"too few records{where}" if math.isnan(s)
                else f"{s:.3g}% ({a:.3g}% to {b:.3g}%){where} have had no event by {self.edges[-1]:g}"
            )  # fmt: skip
        text = "; ".join(parts)
        return f"{text[0].upper()}{text[1:]}."

    def _test(self, table: Floats, released: NoisedVector) -> Decoded:
        """The p-value of no difference."""
        name = f"p-value of no difference between {self.arms[0]} and {self.arms[1]} (log-rank)"
        if at_risk(table)[:, 0].min() <= NORMAL * released.sd * math.sqrt(2 * self.bins):
            nan = math.nan
            return Decoded(
                name, nan, nan, nan, sentence="Too few records in an arm to compare them."
            )
        z = float(log_rank(table))
        expected = without_difference(table)
        null = np.abs(log_rank(self._again(expected, released, NULL, sampling=True)))
        p = (1 + int((null >= abs(z)).sum())) / (NULL + 1)
        limit = float(np.quantile(null, CONFIDENCE))
        differs = "differ" if p <= 1 - CONFIDENCE else "may be the same"
        sentence = (
            f"The arms {differs}: the log-rank statistic is {z:.2f}, and without a difference it would be "
            f"beyond {limit:.2f} in 5% of cases, noise included (p = {p:.2g})."
        )
        return Decoded(name, p, p, p, sentence=sentence)

    def _numbers(self, released: NoisedVector) -> Decoded:
        """How many records each arm has."""
        counts = released.values.reshape(len(self.arms), -1).sum(axis=1)
        half = released.half(np.ones(2 * self.bins))
        if self.arm is None:
            return released.number(float(counts[0]), half)
        low, high = np.maximum(counts - half, 0.0), np.maximum(counts + half, 0.0)
        sentence = "These are about " + ", ".join(
            f"{max(count, 0):,.0f} records in {arm}"
            for count, arm in zip(counts, self.arms, strict=True)
        )
        return Decoded(
            "records", np.maximum(counts, 0.0), low, high, self.arms, f"{sentence}.", detail=True
        )

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """In the middle of the time, events and censoring spread evenly."""
        table = np.full(self.cells, records / self.cells)
        released = NoisedVector(table, noise, None if self.partial else records)
        shaped = self._table(table, records)
        again = kaplan_meier(self._again(shaped, released, AGAIN, False)) - kaplan_meier(shaped)
        half = np.quantile(np.abs(again), CONFIDENCE, axis=0).mean(axis=0)[self.bins // 2]
        each = records / len(self.arms)
        sampling = NORMAL * 0.5 / math.sqrt(each)
        spread = OFTEN * NORMAL * noise.sd * math.sqrt(2 * self.bins)  # of an arm's number
        hidden = HIDDEN * sampling if spread >= each else 0.0
        return Forecast(
            max(float(half), hidden), sampling, of="a share that survives", scale=1.0, fewer="fewer bins",
        )  # fmt: skip

    def draw(self, findings: Sequence[Decoded], ax: Axes) -> None:
        """Steps down, with bands."""
        found = findings[0]
        if np.size(found.value) != self.cells // 2:
            super().draw(findings, ax)
            return
        value, low, high = (
            np.asarray(x, dtype=float).reshape(len(self.arms), -1)
            for x in (found.value, found.low, found.high)
        )
        for k, arm in enumerate(self.arms):
            begin = [np.concatenate([[1.0], x[k]]) for x in (value, low, high)]
            ax.step(self.edges, begin[0], where="post", color=f"C{k}", label=arm or None)
            ax.fill_between(
                self.edges, begin[1], begin[2], step="post", color=f"C{k}", alpha=0.2, lw=0
            )
        if self.arm is not None:
            ax.legend(frameon=False)
        ax.set_ylim(0, 1)
        ax.set_xlabel(self.time.name)
        ax.set_ylabel(f"share without {self.event.name}")
