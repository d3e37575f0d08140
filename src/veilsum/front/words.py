"""Promises and numbers in plain words: what the screen and the page say of a guarantee."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from veilsum import _extras
from veilsum._numbers import upward
from veilsum.families.support import Metric
from veilsum.front.odds import in_words
from veilsum.privacy import Span, Status
from veilsum.privacy.guarantee import Sees
from veilsum.results import units

if TYPE_CHECKING:
    from veilsum.privacy import Guarantee

EVEN = 0.05  # of the width: ends that are as far from the number as that are written as one bar
BRACKETS = re.compile(r" \([^()]*\)")  # details, which the page has in full
CRYPTOGRAPHY = ", given standard cryptography"
MOST_NAMES = 8  # in a sentence


def with_bar(
    value: Any, low: Any = None, high: Any = None, unit: str = "", like: float = 0.0
) -> str:
    """A number with its interval, with the digits that this supports: 9.99 ± 0.03, or 0.59 (0.10 to 0.81).

    With the width of another interval in `like`, with the digits that the wider one supports.
    """
    if value is None or not np.size(value):
        return "-"
    if np.size(value) > 1:
        return f"{np.size(value)} components"
    number = float(np.reshape(value, ()))
    if (
        low is None
        or high is None
        or not (math.isfinite(float(low)) and math.isfinite(float(high)))
    ):
        return units.behind(f"{number:.4g}", unit)
    below, above = number - float(low), float(high) - number
    width = below + above
    if max(width, like) <= 0:
        return units.behind(f"{number:.4g}", unit)
    if abs(below - above) > EVEN * width:
        digits, *ends = (
            units.rounded(x, max(width, like)) for x in (number, float(low), float(high))
        )
        return units.behind(f"{digits} ({' to '.join(ends)})", unit)
    half = max(below, above)
    digits = units.rounded(number, max(half, like / 2))
    places = len(digits.partition(".")[2]) if "e" not in digits else None
    bar = f"{half:.2g}" if places is None else f"{half:.{places}f}"
    return units.behind(f"{digits} ± {bar}", unit)


def small(value: float) -> str:
    """An error in two digits."""
    return f"{value:.2g}" if math.isfinite(value) else "-"


def budget(epsilon: float, delta: float = 0.0) -> str:
    """Epsilon, and delta where there is one, rounded up."""
    size = upward(epsilon) if math.isfinite(epsilon) else "-"
    return f"{size}{f', delta {upward(delta, 2)}' if delta else ''}"


def listed(names: Sequence[str]) -> str:
    """Names as a phrase: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def few(names: Sequence[str]) -> str:
    """Names with commas; of many the first ones, and how many more there are."""
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[: MOST_NAMES - 1])} and {len(names) - MOST_NAMES + 1:,} more"


def promises(found: Mapping[str, Guarantee], unit: str = "") -> list[str]:
    """What guarantees say, by verdict: each move and its odds once, with whom it holds against.

    Parameters
    ----------
    found
        Guarantees by the name of the run.
    unit
        Of the signals.

    Returns
    -------
    list of str
        Sentences, those of the best verdict first.
    """
    said: dict[str, dict[str, dict[str, list[str]]]] = {}
    subject = _subject(found.values())
    for name, promise in found.items():
        start, statement, whom = _parts(promise, unit, subject)
        said.setdefault(start, {}).setdefault(statement, {}).setdefault(whom, []).append(name)
    order = [*STARTS.values(), *said]
    return [
        f"{start}: {_sentence(statement, against, named=len(said[start]) > 1)}"
        for start in sorted(said, key=order.index)
        for statement, against in said[start].items()
    ]


def _sentence(statement: str, against: Mapping[str, Sequence[str]], named: bool) -> str:
    """Names are left out where a heading of the sheet has said them: all of one verdict."""
    if len(against) == 1:
        ((who, names),) = against.items()
        return f"{statement}{who and f', {who}'}{f': {few(names)}' if named else ''}."
    parts = [f"{few(names)}{who and f': {who}'}" for who, names in against.items()]
    return f"{statement}: {'; '.join(parts)}."


STARTS = {
    Status.PROVED: "Proved",
    Status.ESTIMATED: "Estimated, not proved",
    Status.CLAIMED: "Claimed, not proved",
    Status.REFUTED: "Refuted",
    Status.NONE: "No promise",
}


def _subject(found: Iterable[Guarantee]) -> str:
    """What is one of: a signal, or a reading of a stream; one name for all of a sheet."""
    kinds = {promise.unit.online for promise in found}
    if len(kinds) > 1:
        return "one value or reading"
    return "one reading" if kinds == {True} else "one value"


def _parts(promise: Guarantee, unit: str, subject: str) -> tuple[str, str, str]:
    start = STARTS[promise.status]
    see = f" (erratum {promise.erratum})" if promise.erratum else ""
    if promise.status in (Status.REFUTED, Status.NONE):
        return start, f"{BRACKETS.sub('', promise.reason)}{see}", ""
    odds = in_words(promise.epsilon, promise.delta)
    return (
        start,
        f"if {move(promise, unit, subject)}, anything seen is {odds}{_whole(promise)}",
        whom(promise),
    )


def move(promise: Guarantee, unit: str, subject: str) -> str:
    """What may be different, in words."""
    known, verb = promise.unit, "were"
    if known.online and known.span is not Span.EVENT:
        row = f"{known.readings} readings in a row"
        subject = row if known.span is Span.WINDOW else f"all {known.readings} readings"
        verb = "each were"
    size = "any other" if known.whole else f"up to {known.size(unit)} different"
    if known.metric is Metric.L1 and not known.whole:
        size = f"{size} in all its components together"
    near = ", or a neighbour's estimate up to 1" if known.neighbours else ""
    return f"{subject} {verb} {size}{near}"


def _whole(promise: Guarantee) -> str:
    """What the whole value costs, where that is not what is promised."""
    if promise.unit.whole or promise.unit.steps is None:
        return ""
    whole = promise.for_whole_value()
    limit = (
        "no limit"
        if whole.status is Status.NONE
        else f"epsilon {budget(whole.epsilon, whole.delta)}"
    )
    return f" (the whole value: {limit})"


def whom(promise: Guarantee) -> str:
    """To whom, in words."""
    known = promise.adversary
    more = CRYPTOGRAPHY if promise.assumes else ""
    if known.sees is Sees.EVERYONE:
        return f"to all others together{more}"
    if known.sees is Sees.MEMBERS and not known.colluders:
        return f"to all who are no members (a member may learn more){more}"
    if known.sees is Sees.MEMBERS:
        return f"to any {known.colluders:,} members chosen beforehand{more}"
    if known.sees is Sees.KEEPERS:
        both = f"{known.keepers:,} keepers and {known.colluders:,} members"
        return f"to any {both} chosen beforehand{more}"
    return f"to {known}{more}"


def undrawn() -> str:
    """That pages have no pictures, and what draws them; empty if they have."""
    if _extras.available("matplotlib"):
        return ""
    return f"No pictures: matplotlib is not installed ({_extras.install_command('plot')})."


def sentences(texts: Iterable[str]) -> tuple[str, ...]:
    """Each once, in order."""
    return tuple(dict.fromkeys(text for text in texts if text))
