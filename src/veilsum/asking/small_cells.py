"""Small cells of an answer: those with few records are not shown, the others are rounded.

    shown     count_k rounded to a multiple of `to`,        if count_k >= least
    else      "fewer than `least`"

Both are functions of the released answer, so that they cost nothing and no promise changes. They are for
those who check what is published and hold any cell below 5 or 10 to be a disclosure, whatever epsilon says.

All of it is of *noised* counts: a cell that is not shown may have more than `least` records, and one that is
shown fewer. For the same reason no further cells are suppressed so that one cannot be found from the total
and the rest (complementary suppression): what can be found in that way is its noised count, which epsilon
covers already.

It applies to counts (`count`, `distinct`, records by group), to the shares of a histogram or a two-way
table, and to anything said of a group whose noised number of records is known (a mean by group). It leaves
alone what has no cells: means, sums, quantiles, regressions, curves and tests of all records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from veilsum import _validate
from veilsum.errors import QuestionError
from veilsum.questions import By, Decoded, Question
from veilsum.questions.columns import Floats

if TYPE_CHECKING:
    from veilsum.asking.engine import Reply

COUNTS = (
    "records",
    "all records",
    "number of ",
)  # how the quantities begin that are counts themselves


@dataclass(frozen=True)
class SmallCells:
    """What is done to small cells.

    Parameters
    ----------
    least : int
        Cells with fewer records are not shown; 0 shows all.
    to : int
        Counts are rounded to its multiples; 1 leaves them.

    Examples
    --------
    >>> counts = np.array([3.0, 97.2])
    >>> found = Decoded("records by region", counts, counts - 4, counts + 4, ("south", "north"))
    >>> SmallCells(10, 5).of((found,))[0].absent
    ('fewer than 10', '')
    """

    least: int = 10
    to: int = 5

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        _validate.at_least(QuestionError, 0, min_count=self.least)
        _validate.at_least(QuestionError, 1, round=self.to)

    def of(
        self,
        findings: Sequence[Decoded],
        question: Question | None = None,
        records: int | None = None,
    ) -> tuple[Decoded, ...]:
        """The findings of a question, as they may be shown.

        Parameters
        ----------
        findings
            As decoded.
        question
            Whose they are, for the groups of shares.
        records
            How many there are, where that is public.
        """
        behind = {np.shape(one.value): one for one in findings if _is_count(one)}
        groups = question.groups if isinstance(question, By) else 1
        found = []
        for one in findings:
            if _is_count(one):
                found.append(self._shown(self._rounded(one, 1.0), np.asarray(one.value)))
            elif one.counts is not None:
                total = _totals(one.counts, groups, records)
                found.append(self._shown(self._rounded(one, 1 / total, 1.0), one.counts))
            elif np.shape(one.value) in behind:
                found.append(self._shown(one, np.asarray(behind[np.shape(one.value)].value)))
            else:
                found.append(one)
        return tuple(found)

    def _rounded(self, found: Decoded, record: float | Floats, most: float = math.inf) -> Decoded:
        """The nearest multiple of so many records, and the interval widened to multiples."""
        if self.to == 1:
            return found
        step = self.to * np.asarray(record)
        value, low, high = (
            np.clip(how(np.asarray(x, dtype=float) / step) * step, 0.0, most)
            for how, x in ((np.rint, found.value), (np.floor, found.low), (np.ceil, found.high))
        )
        sentence = f"Rounded to multiples of {self.to} records."
        if np.ndim(found.value):
            return replace(found, value=value, low=low, high=high, sentence=sentence)
        said = f"About {float(value):,.0f}, and between {float(low):,.0f} and {float(high):,.0f} with 95% "
        return replace(
            found, value=float(value), low=float(low), high=float(high),
            sentence=f"{said}confidence. {sentence}",
        )  # fmt: skip

    def _shown(self, found: Decoded, counts: Floats) -> Decoded:
        """The finding without its small cells; one of which nothing was known stays as it is."""
        few = np.asarray(counts < self.least)
        if not few.any():
            return found
        mark, nan = f"fewer than {self.least}", math.nan
        if not np.ndim(found.value):
            sentence = f"There are {mark} records, after noise: nothing more is shown."
            return replace(found, value=nan, low=nan, high=nan, sentence=sentence, absent=(mark,))
        value, low, high = (
            np.where(few, nan, np.asarray(x, dtype=float))
            for x in (found.value, found.low, found.high)
        )
        hidden = [label for label, small in zip(found.labels, few, strict=True) if small]
        said = "" if any(label in found.sentence for label in hidden) else f"{found.sentence} "
        return replace(
            found, value=value, low=low, high=high,
            absent=tuple(mark if small else "" for small in few),
            sentence=f"{said}Not shown: {len(hidden)} of {len(few)}, with {mark} records, after noise.",
        )  # fmt: skip


def small_cells(min_count: int | None, round: int | None) -> SmallCells | None:
    """The rule of the arguments of `ask`; None if neither is given."""
    if min_count is None and round is None:
        return None
    return SmallCells(0 if min_count is None else min_count, 1 if round is None else round)


def with_small_cells(reply: Reply, rule: SmallCells) -> Reply:
    """A reply whose small cells are not shown and whose counts are rounded; the release stays what it is.

    Parameters
    ----------
    reply : Reply
        Of `ask`.
    rule : SmallCells
        What is done to small cells.
    """
    least, to = rule.least, rule.to
    decoded = [
        rule.of(found, question, reply.records)
        for question, found in zip(reply.questions, reply.decoded, strict=True)
    ]
    done = [f"cells of fewer than {least} records, after noise, are not shown"] if least else []
    done += [f"counts are rounded to multiples of {to}"] if to > 1 else []
    text = " and ".join(done)
    note = (f"{text[0].upper()}{text[1:]}. This is done to released numbers, and costs nothing.",)
    return replace(reply, decoded=decoded, notes=reply.notes + (note if done else ()))


def _is_count(found: Decoded) -> bool:
    return found.quantity.startswith(COUNTS)


def _totals(counts: Floats, groups: int, records: int | None) -> Floats:
    """How many records there are in the group of each cell, at least 1."""
    if groups == 1 and records is not None:
        return np.full(len(counts), float(records))
    each = counts.reshape(groups, -1)
    return np.repeat(np.maximum(np.nansum(each, axis=1), 1.0), each.shape[1])
