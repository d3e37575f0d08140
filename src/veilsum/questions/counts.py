"""How many records there are, where that is private: under a filter, in a group, with a value.

    x = 1 for a record that is in, 0 for one that is out,    l1 = 1

Its interval is exact: of the noise of one count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from veilsum._statistic import Statistic
from veilsum.questions.base import (
    Decoded,
    Encoded,
    Forecast,
    NoisedVector,
    Question,
    counted,
    entries,
)
from veilsum.questions.columns import Rows
from veilsum.questions.intervals import NORMAL, bounded
from veilsum.questions.noise import GridNoise


@dataclass(frozen=True, kw_only=True)
class Count(Question):
    """How many records are in.

    Parameters
    ----------
    partial : bool
        Always: where all records are in, their number is public, or there is nothing to ask.

    Examples
    --------
    >>> import veilsum as vs
    >>> vs.questions.count().statistic.l1
    1.0
    """

    partial: bool = True

    name: ClassVar[str] = "count"
    about: ClassVar[str] = "how many records there are, under a filter or by group"
    what: ClassVar[str] = "records"
    adds_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """A record may always be out."""
        object.__setattr__(self, "partial", True)

    @classmethod
    def make(cls) -> Self:
        """Under the filter that it is asked with."""
        return cls()

    @classmethod
    def examples(cls) -> tuple[Question, ...]:
        """The only one."""
        return (cls(),)

    @property
    def whole(self) -> Statistic:
        """A record that is in is like any other that is."""
        return counted(0.0, 0.0, 1, "a record counts as 1")

    @property
    def size(self) -> tuple[float, float]:
        """1."""
        return 1.0, 1.0

    def encode(self, rows: Rows) -> Encoded:
        """Cell 0."""
        return Encoded(np.zeros(entries(rows), dtype=np.int64))

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """The count itself, at least 0, and at most what is public."""
        most = math.inf if released.table is None else float(released.table)
        half = released.half()
        count = float(released.values[0])
        value, low, high = bounded(count, half, 0.0, most)
        sentence = (
            f"There are about {value:,.0f} {self.what}, and between {low:,.0f} and {high:,.0f} with 95% "
            "confidence."
        )
        return (Decoded(f"number of {self.what}", value, low, high, sentence=sentence),)

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """Sampling: where half of the records are in."""
        return Forecast(
            NoisedVector(np.zeros(1), noise).half(), NORMAL * math.sqrt(records) / 2,
            of=f"the number of {self.what}", scale=float(records),
        )  # fmt: skip
