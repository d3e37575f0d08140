"""Which mechanism is best: the least worst-case variance under the same guarantee.

    best(statistic, epsilon, delta) = argmin over the mechanisms that fit of max_x Var sample(x)

All candidates hide the same moves and are unbiased, so the variance is all that tells them apart.
The choice looks at public numbers only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from veilsum import _validate
from veilsum._statistic import Statistic
from veilsum.errors import PrivacyError
from veilsum.privacy.mechanisms.base import MECHANISMS, Mechanism

BEST = "best"


def names() -> tuple[str, ...]:
    """The mechanisms that a privacy request can name; "best" stands for what `best` recommends."""
    return (*(name for name, kind in MECHANISMS.items() if kind.requested), BEST)


@dataclass(frozen=True)
class Choice:
    """The mechanism of least worst-case variance, and what the others would cost.

    Attributes
    ----------
    mechanism : Mechanism
        The mechanism that was chosen.
    variance : float
        Its worst variance over the statistic.
    others : dict of str to float
        Every other mechanism that fits, with its variance over the chosen one's, the best first.

    Examples
    --------
    >>> from veilsum.privacy import Statistic
    >>> choice = best(Statistic(1.0, low=0.0, high=1.0), epsilon=1.0)
    >>> choice.mechanism.name, round(choice.variance, 2)
    ('hybrid', 1.07)
    >>> {name: round(ratio, 2) for name, ratio in choice.others.items()}
    {'duchi': 1.09, 'piecewise': 1.22, 'staircase': 1.79, 'laplace': 1.87}
    """

    mechanism: Mechanism
    variance: float
    others: dict[str, float]

    def __str__(self) -> str:
        """Describe the choice in a sentence, with every alternative's ratio."""
        others = ", ".join(f"{_times(ratio)} with {name}" for name, ratio in self.others.items())
        return (
            f"{self.mechanism.name} noise at epsilon = {self.mechanism.epsilon:g} has the least "
            f"worst-case variance, {self.variance:.4g}{others and f'; it would be {others}'}."
        )


def best(
    statistic: Statistic, epsilon: float, delta: float = 0.0, released: bool = False
) -> Choice:
    """The mechanism with the least worst-case variance for a statistic, and by how much it wins.

    On equal variances the one that draws less is chosen.

    Parameters
    ----------
    statistic : Statistic
        What moves, and how far.
    epsilon, delta : float
        What one release may cost.
    released : bool
        Whether it must cover what floats do to the statistic.

    Returns
    -------
    Choice
        The mechanism, its variance and the others.

    Examples
    --------
    >>> from veilsum.privacy import Statistic
    >>> choice = best(Statistic(1.0, low=0.0, high=1.0), epsilon=1.0)
    >>> choice.mechanism.name, round(choice.others["laplace"], 2)
    ('hybrid', 1.87)
    """
    _validate.positive(PrivacyError, epsilon=epsilon)
    made = [
        kind.fit(statistic, epsilon, delta * kind.takes_delta, released)
        for kind in _fitting(statistic, epsilon, delta)
    ]
    if not made:
        why = MECHANISMS.get("laplace").misfit(statistic, epsilon)
        raise PrivacyError(f"no mechanism takes such a statistic: laplace {why}")
    found = sorted((m.variance_over(statistic), m.uniforms, m.name, m) for m in made)
    least, *_, first = found[0]
    ratios = {name: value / least if least else math.inf for value, _, name, _ in found[1:]}
    return Choice(first, least, ratios)


def make(
    name: str, statistic: Statistic, epsilon: float, delta: float = 0.0, released: bool = False
) -> Mechanism:
    """The mechanism of a name for a statistic; "best" is the one that `best` recommends."""
    _validate.one_of(PrivacyError, names(), mechanism=name)
    if name == BEST:
        return best(statistic, epsilon, delta, released).mechanism
    kind = MECHANISMS.get(name)
    problem = kind.misfit(statistic, epsilon, delta)
    if problem:
        fitting = ", ".join(one.name for one in _fitting(statistic, epsilon, delta)) or "none"
        raise PrivacyError(f"mechanism {name} {problem}; choose one of {fitting}")
    return kind.fit(statistic, epsilon, delta, released)


def _fitting(statistic: Statistic, epsilon: float, delta: float) -> list[type[Mechanism]]:
    """Those that keep the promise: a pure one keeps it without the delta."""
    kinds = MECHANISMS.values()
    return [k for k in kinds if not k.misfit(statistic, epsilon, delta * k.takes_delta)]


def _times(ratio: float) -> str:
    return "the same" if f"{ratio:.3g}" == "1" else f"{ratio:.3g} times that"
