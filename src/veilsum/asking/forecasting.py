"""What an answer would be worth, for one holder and for sites: nothing is read and nothing is spent.

The noise X of one holder has the law L. Of a sum over m sites of which t may collude, each adds the part
1/(m - t) of L, in a secure sum, so that those who do not collude add all of it; without one, each adds L:

    secure sum   part m/(m - t) of L        each its own   part m of L
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from veilsum import _validate
from veilsum.asking.settling import AskedQuestion, Settled, at, settle
from veilsum.asking.usefulness import least, remedies
from veilsum.errors import QuestionError
from veilsum.questions import Forecast, GridNoise, Question

SITES = (5, 300)
MOST_SECURE = 50  # sites of which a secure sum is listed
COLLUDING = 5  # one in so many sites may collude
STEP, TRIES = 1.01, 200  # towards what reaches it
CLOSE = 1.01  # a half width that is more by so much is reached
ONE_HOLDER = "one holder"


@dataclass(frozen=True)
class Holding:
    """Who holds the rows, and what the answer of each question is worth there.

    Parameters
    ----------
    name : str
        For people.
    part : Fraction
        How much of the noise of one holder there is.
    forecasts : tuple of Forecast
        One for each question.
    """

    name: str
    part: Fraction
    forecasts: tuple[Forecast, ...]


@dataclass(frozen=True)
class Forecasts:
    """What questions would be worth.

    Parameters
    ----------
    settled : Settled
        The release that they would be.
    rows : int
        How many records there would be.
    holdings : tuple of Holding
        One holder first.
    helps : tuple of tuple of str
        For each question, what would make it useful at one holder; empty where it is.
    wanted : tuple of tuple
        For each question, a half width, and what reaches it: epsilon, rows; None where nothing does.

    Examples
    --------
    >>> import veilsum as vs
    >>> mean = vs.questions.mean("kwh", between=(0, 40))
    >>> found = vs.asking.forecasts([mean], 300, epsilon=1.0)
    >>> found.holdings[0].forecasts[0].useful, found.helps[0]
    (True, ())
    """

    settled: Settled
    rows: int
    holdings: tuple[Holding, ...]
    helps: tuple[tuple[str, ...], ...]
    wanted: tuple[tuple[float, float | None, int | None], ...]


def forecasts(
    questions: Sequence[Question],
    rows: int,
    *,
    epsilon: float,
    delta: float = 0.0,
    sites: Sequence[int] = SITES,
    target: float | None = None,
    **terms: Any,
) -> Forecasts:
    """What questions would be worth, of so many records.

    Parameters
    ----------
    questions
        Asked together, for epsilon and delta.
    rows
        How many records: rows, or ids where there is one.
    epsilon, delta
        What the answers together would cost.
    sites
        Numbers of sites to compare with one holder.
    target
        Half the width of an interval to reach; half of what one holder has by default.
    **terms
        `where`, `by`, `id`, `cap`, `missing`, `population`, `rows_public`, as of `ask`.

    Returns
    -------
    Forecasts
        For one holder first, then for sites.

    Examples
    --------
    >>> import veilsum as vs
    >>> mean = vs.questions.mean("kwh", between=(0, 40))
    >>> found = forecasts([mean], 300, epsilon=1.0, sites=[5])
    >>> [round(one.forecasts[0].half, 2) for one in found.holdings]
    [0.4, 0.44, 0.84]
    """
    _validate.at_least(QuestionError, 1, rows=rows)
    settled = settle(questions, epsilon=epsilon, delta=delta, **terms)
    parts = {ONE_HOLDER: Fraction(1)}
    for count in sites:
        _validate.at_least(QuestionError, 2, sites=count)
        if count > rows:
            continue
        colluding = max(1, count // COLLUDING)
        if count <= MOST_SECURE:
            name = f"{count} sites, secure sum, {colluding} may collude"
            parts[name] = Fraction(count, count - colluding)
        parts[f"{count} sites, each with its own noise"] = Fraction(count)
    holdings = tuple(
        Holding(name, part, tuple(forecast_at(one, rows, part) for one in settled.asked))
        for name, part in parts.items()
    )
    best = holdings[0].forecasts
    return Forecasts(
        settled, rows, holdings,
        tuple(
            () if found.useful else tuple(remedies(settled, k, rows, found))
            for k, found in enumerate(best)
        ),
        tuple(_wanted(settled, k, rows, target or found.half / 2) for k, found in enumerate(best)),
    )  # fmt: skip


def forecast_at(one: AskedQuestion, rows: int, part: Fraction) -> Forecast:
    """What a question is worth of so many records, with that part of the noise of one holder."""
    return one.question.forecast(rows, at_sites(one.noises[0], part))


def at_sites(noise: GridNoise, part: Fraction) -> GridNoise:
    """So much of the noise of one holder: of as many draws as sites, or of the shares of a secure sum."""
    return replace(noise, law=noise.law.summed(part))


def _wanted(
    settled: Settled, k: int, rows: int, target: float
) -> tuple[float, float | None, int | None]:
    one, epsilon, delta = settled.asked[k], settled.event.epsilon, settled.event.delta
    start = 0.98 * max(one.question.forecast(rows, one.noises[0]).half / target, 1e-3)

    def richer(times: float) -> bool:
        return (
            one.question.forecast(rows, at(settled, epsilon * times, delta)[k][0]).half
            <= target * CLOSE
        )

    def longer(times: float) -> bool:
        return one.question.forecast(round(rows * times), one.noises[0]).half <= target * CLOSE

    more, most = least(richer, start, STEP, TRIES), least(longer, start, STEP, TRIES)
    return (
        target,
        None if more is None else epsilon * more,
        None if most is None else round(rows * most),
    )
