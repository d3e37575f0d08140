"""What `decode` sees and what it returns: a noised vector, answers with intervals, forecasts of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from veilsum.questions.columns import Floats
from veilsum.questions.intervals import reach
from veilsum.questions.noise import GridNoise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAWS = 4000  # of simulated noise, where an interval has no closed form


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

    Examples
    --------
    >>> import veilsum as vs
    >>> from veilsum.questions import priced
    >>> noise = priced([vs.questions.count().statistic], [1.0], epsilon=1.0).parts[0]
    >>> NoisedVector(np.array([120.0]), noise).half()
    3.0
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
    counts : array, optional
        The noised numbers of records in the cells that the components are shares of.
    absent : tuple of str
        For each component what stands in place of a number that is not shown, such as "fewer than 10".

    Examples
    --------
    >>> count = Decoded("records", 120.0, 117.0, 123.0, sentence="About 120 records.")
    >>> count.high - count.low
    6.0
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
    counts: Floats | None = None
    absent: tuple[str, ...] = ()


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

    Examples
    --------
    >>> Forecast(half=0.4, sampling=1.3, of="the mean").useful
    True
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


def spoken(value: float) -> str:
    """Four digits for a sentence, without an exponent where people write the number out."""
    text = f"{value:.4g}"
    return f"{float(text):,.0f}" if "e+" in text and abs(value) < 1e15 else text


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
