"""A question asked of each of some public groups.

    vector = (vector of group 1, ..., vector of group G), of which a record fills one

A record may change its group, so it moves twice its size: l1 = max(l1, 2 n1), l2 = max(l2, sqrt(2) n2). All
groups are released, empty ones too. For a mean of mass one (`mean`) this is l1 = 2, whatever G is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veilsum._statistic import Statistic
from veilsum.questions.answers import spoken
from veilsum.questions.base import Decoded, Encoded, Forecast, Ints, NoisedVector, Question
from veilsum.questions.columns import Category, Column, Floats, Rows
from veilsum.questions.noise import GridNoise


@dataclass(frozen=True, kw_only=True)
class By(Question):
    """A question by group.

    Parameters
    ----------
    question : Question
        Asked of each group.
    group : Category
        With the public list of groups.
    partial : bool
        Whether a record may be in no group.

    Examples
    --------
    >>> from veilsum.questions import Category, By
    >>> import veilsum as vs
    >>> mean = vs.questions.mean("kwh", between=(0, 40))
    >>> By(question=mean, group=Category("region", ["north", "south"])).statistic.l1
    2.0
    """

    question: Question
    group: Category

    def __post_init__(self) -> None:
        """Records may be out of a group."""
        object.__setattr__(self, "question", self.question.at_once().within())

    @property
    def name(self) -> str:  # type: ignore[override]
        """Of the question."""
        return self.question.name

    @property
    def once(self) -> bool:  # type: ignore[override]
        """Of the question."""
        return self.question.once

    @property
    def adds_rows(self) -> bool:  # type: ignore[override]
        """Of the question."""
        return self.question.adds_rows

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those of the question, and the group."""
        return (*self.question.columns, self.group)

    @property
    def groups(self) -> int:
        """G."""
        return len(self.group.values)

    @property
    def cells(self) -> int:
        """G C."""
        return self.groups * self.question.cells

    @property
    def parts(self) -> int:
        """P."""
        return self.question.parts

    @property
    def whole(self) -> Statistic:
        """Of a record that may change its group."""
        one = self.question.statistic
        n1, n2 = self.size
        return replace(
            one, l1=max(one.l1, 2 * n1), l2=max(float(one.l2 or 0), math.sqrt(2) * n2),
            dimension=one.dimension * self.groups,
            low=np.tile(one.low, self.groups), high=np.tile(one.high, self.groups),
        )  # fmt: skip

    @property
    def size(self) -> tuple[float, float]:
        """Of the question."""
        return self.question.size

    def of_population(self) -> Question:
        """Of the population of each group."""
        return replace(self, question=self.question.of_population())

    def tuned(self, epsilon: float, delta: float = 0.0) -> Question:
        """The question as it is best asked at that price."""
        return replace(self, question=self.question.tuned(epsilon, delta))

    def encode(self, rows: Rows) -> Encoded:
        """The question's cells, those of each group after those of the one before."""
        inner = self.question.encode(rows)
        group = np.asarray(rows[self.group.name], dtype=np.int64)
        cells = np.zeros(len(group), dtype=np.int64) if inner.cells is None else inner.cells
        placed = np.where((group < 0) | (cells < 0), -1, group * self.question.cells + cells)
        return Encoded(placed, inner.parts)

    def expand(self, totals: Ints) -> Ints:
        """Group by group."""
        each = totals.reshape(*totals.shape[:-1], self.groups, -1)
        return self.question.expand(each).reshape(*totals.shape[:-1], -1)

    def decode(self, released: NoisedVector) -> tuple[Decoded, ...]:
        """The findings of all groups, those of one quantity side by side."""
        each = [
            self.question.decode(released.part(values))
            for values in released.values.reshape(self.groups, -1)
        ]
        return tuple(self._joined(found) for found in zip(*each, strict=True))

    def _joined(self, found: Sequence[Decoded]) -> Decoded:
        groups = self.group.values
        if any(np.ndim(one.value) for one in found):
            labels = tuple(
                f"{g}: {k}" for g, one in zip(groups, found, strict=True) for k in one.labels
            )
        else:
            labels = tuple(groups)
        value, low, high = (
            np.concatenate([np.ravel(np.asarray(getattr(one, end), dtype=float)) for one in found])
            for end in ("value", "low", "high")
        )
        return replace(
            found[0], value=value, low=low, high=high, labels=labels, axis=None,
            quantity=f"{found[0].quantity} by {self.group.name}",
            sentence=self._sentence(found), counts=_counts(found),
        )  # fmt: skip

    def _sentence(self, found: Sequence[Decoded]) -> str:
        """The smallest and the largest of the groups; how many have none."""
        name, first = self.group.name, found[0]
        each = [
            (one.value, group)
            for one, group in zip(found, self.group.values, strict=True)
            if not np.ndim(one.value)
        ]
        known = [(float(value), group) for value, group in each if not math.isnan(value)]
        few = [group for value, group in each if math.isnan(value)]
        text = f"For each {name}: {first.quantity}."
        if len(known) > 1:
            (least, low), (most, high) = min(known), max(known)
            text = (
                f"By {name}, the {first.quantity} is smallest in {low}, about {spoken(least)}, and largest "
                f"in {high}, about {spoken(most)}."
            )
        return text + (f" Too few records to say it: {', '.join(few)}." if few else "")

    def forecast(self, records: int, noise: GridNoise) -> Forecast:
        """Of a group with its share of the records."""
        one = self.question.forecast(max(1, records // self.groups), noise)
        return replace(one, of=f"{one.of} of a {self.group.name}", fewer="fewer groups")

    def terms(self) -> dict[str, Any]:
        """The question's, and the group."""
        by = [self.group.name, list(self.group.values)]
        return self.question.terms() | {"by": by, "partial": self.partial}


def _counts(found: Sequence[Decoded]) -> Floats | None:
    """The noised counts of all groups, NaN for one of which nothing can be said; None if they have none."""
    if all(one.counts is None for one in found):
        return None
    return np.concatenate([
        np.full(np.size(one.value), math.nan) if one.counts is None else one.counts for one in found
    ])  # fmt: skip
