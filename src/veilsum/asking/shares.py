"""Shares of epsilon for several questions of one release: noise in the same ratio to sampling for each.

A question asked alone at epsilon 1 has noise that is r_q times what sampling does (`Forecast`). With the
share w_q of epsilon its noise is r_q/(w_q epsilon) times that, or r_q/sqrt(w_q) where the noise is Gaussian:

    pure      w_q = r_q/sum r            Gauss     w_q = r_q^2/sum r^2

make all ratios equal, which makes the largest one as small as it can be. All r are of 100,000 records: the
shares depend on nothing that a table has in it. With a delta, the law whose largest ratio is smaller counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from veilsum._statistic import Statistic
from veilsum.questions import GridNoise, Question, priced
from veilsum.questions.noise import USUAL

RECORDS = 100_000  # for whom shares are chosen: so many that noise is small beside the range
PARTS = 1 << 20  # shares are whole multiples of 1/PARTS, so that they add up to 1 exactly
LEAST = 1e-3  # of the largest ratio: a question is never starved


def shares_of(
    questions: Sequence[Question],
    statistics: Sequence[Statistic],
    epsilon: float,
    delta: float = 0.0,
    laws: Sequence[str] = USUAL,
) -> tuple[Fraction, ...]:
    """The share of each question, above 0; they add up to 1.

    Parameters
    ----------
    questions
        Of which forecasts are asked.
    statistics
        Of one unit, for each.
    epsilon, delta
        Of the release.
    laws
        Which noise may be used, as of `priced`.
    """
    if len(questions) == 1:
        return (Fraction(1),)
    alone = [
        _ratio(one, priced([statistic], [one.stages[0]], epsilon, delta, laws).parts[0])
        for one, statistic in zip(questions, statistics, strict=True)
    ]
    pure = normalised(alone)
    if not delta:
        return pure

    def worst(shares: Sequence[Fraction]) -> float:
        first = [float(w) * one.stages[0] for w, one in zip(shares, questions, strict=True)]
        noises = priced(statistics, first, epsilon, delta, laws).parts  # a forecast's is the first
        return max(map(_ratio, questions, noises))

    return min(pure, normalised([r * r for r in alone]), key=worst)


def normalised(weights: Sequence[float]) -> tuple[Fraction, ...]:
    """Weights that add up to 1, in whole parts; none is less than a thousandth of the largest."""
    most = max(weights)
    raised = [max(w, LEAST * most) for w in weights] if most > 0 else [1.0] * len(weights)
    total = math.fsum(raised)
    parts = [max(1, math.floor(w / total * PARTS)) for w in raised]
    parts[parts.index(max(parts))] += PARTS - sum(parts)
    return tuple(Fraction(k, PARTS) for k in parts)


def _ratio(question: Question, noise: GridNoise) -> float:
    """Noise over sampling; as noise alone where sampling does nothing."""
    found = question.forecast(RECORDS, noise)
    ratio = found.half / found.sampling if found.sampling > 0 else found.half
    return ratio if math.isfinite(ratio) else 1.0
