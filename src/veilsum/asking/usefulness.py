"""Whether an answer will say anything, and what would help, with numbers.

Noise falls as 1/(epsilon n), what sampling does as 1/sqrt(n): where their ratio is r times what it may be,
epsilon r or n r^2 help, which are checked against the forecast and raised until it agrees.
"""

from __future__ import annotations

from collections.abc import Callable

from veilsum.asking.settling import AskedQuestion, Settled, at, with_bins
from veilsum.errors import QuestionError
from veilsum.questions import Forecast, priced

MOST = 3.0  # times sampling
LEAST = 1.05  # times epsilon or rows, that is offered


def check_useful(settled: Settled, units: int) -> None:
    """Raise if noise of a question would be more than three times sampling.

    Parameters
    ----------
    settled
        The release.
    units
        How many rows or ids there are: public.
    """
    for k, one in enumerate(settled.asked):
        records = one.unit.most(units)
        forecast = one.question.forecast(records, one.noises[0])
        if not forecast.useful:
            raise QuestionError(_refusal(settled, k, records, forecast))


def _refusal(settled: Settled, k: int, records: int, forecast: Forecast) -> str:
    helps = remedies(settled, k, records, forecast)
    return (
        f"{', or '.join(helps) or 'another question'} would make this useful. With {records:,} "
        f"record{'' if records == 1 else 's'}, "
        f"noise moves {forecast.of} by ± {forecast.half:.3g}, more than three times the ± "
        f"{forecast.sampling:.3g} of sampling; nothing was spent. To ask all the same: --anyway "
        "(in Python, anyway=True)"
    )


def remedies(settled: Settled, k: int, records: int, forecast: Forecast) -> list[str]:
    """What would make a question useful: epsilon, rows, fewer bins; each is checked."""
    one = settled.asked[k]
    epsilon, delta = settled.event.epsilon, settled.event.delta
    ratio = forecast.half / (MOST * forecast.sampling) if forecast.sampling > 0 else 2.0

    def richer(times: float) -> bool:
        noise = at(settled, epsilon * times, delta)[k][0]
        return one.question.forecast(records, noise).useful

    def longer(times: float) -> bool:
        return one.question.forecast(int(records * times), one.noises[0]).useful

    found = []
    if (times := least(richer, max(ratio, LEAST))) is not None:
        found.append(f"epsilon {_up(epsilon * times)}")
    if (times := least(longer, max(ratio**2, LEAST))) is not None:
        found.append(f"{int(float(_up(records * times))):,} rows")
    if (bins := _fewer(settled, one, records)) is not None:
        found.append(f"{bins} bins")
    elif forecast.fewer:
        found.append(forecast.fewer)
    return found


def _fewer(settled: Settled, one: AskedQuestion, records: int) -> int | None:
    """The largest number of bins that is useful."""
    bins = getattr(one.question, "bins", 0) or getattr(
        getattr(one.question, "question", None), "bins", 0
    )
    while bins > 2:
        bins = max(2, bins * 2 // 3)
        question = with_bins(one.question, bins)
        if question is None:
            return None
        statistic = one.unit.statistic(question.statistic)
        epsilon, delta = settled.event.epsilon, settled.event.delta
        noise = priced([statistic], [one.share], epsilon, delta, settled.laws).parts[0]
        if question.forecast(records, noise).useful:
            return bins
    return None


def least(
    reached: Callable[[float], bool], start: float, by: float = 1.1, tries: int = 60
) -> float | None:
    """About the least factor from a guess on that reaches it, in steps of `by`; None if none does."""
    times = start
    for _ in range(tries):
        if reached(times):
            return times
        times *= by
    return None


def _up(value: float) -> str:
    """Two digits, rounded up."""
    text = f"{value:.1e}"
    if float(text) < value:
        mantissa, exponent = text.split("e")
        text = f"{float(mantissa) + 0.1:.1f}e{exponent}"
    return f"{float(text):g}"
