"""Which mechanism is best: the least worst-case variance under the same guarantee.

    best(epsilon, domain) = argmin over mechanisms of max_x Var sample(x)

All candidates are pure eps-DP for the adjacency that the domain describes, and unbiased, so the
variance is all that tells them apart. The choice looks at public numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from veilsum import _validate
from veilsum.errors import PrivacyError
from veilsum.privacy.mechanisms.additive import (
    DiscreteLaplaceMechanism,
    LaplaceMechanism,
    StaircaseMechanism,
)
from veilsum.privacy.mechanisms.base import (
    COMPUTABLE,
    BoundedSignal,
    Domain,
    IntegerStatistic,
    Mechanism,
)
from veilsum.privacy.mechanisms.local import DuchiMechanism, HybridMechanism, PiecewiseMechanism

BEST = "best"
LAPLACE = LaplaceMechanism.name
_ADDITIVE: tuple[type[Mechanism], ...] = (LaplaceMechanism, StaircaseMechanism)
_LOCAL: tuple[type[Mechanism], ...] = (DuchiMechanism, PiecewiseMechanism, HybridMechanism)
_ALL: tuple[type[Mechanism], ...] = (*_ADDITIVE, DiscreteLaplaceMechanism, *_LOCAL)
_KINDS: dict[str, type[Mechanism]] = {kind.name: kind for kind in _ALL}


def names() -> tuple[str, ...]:
    """The mechanisms that a privacy request can name; "best" stands for what `best` recommends.

    Returns
    -------
    tuple of str
        The names.

    Examples
    --------
    >>> names()
    ('laplace', 'staircase', 'discrete-laplace', 'duchi', 'piecewise', 'hybrid', 'best')
    """
    return (*_KINDS, BEST)


@dataclass(frozen=True)
class Alternative:
    """A mechanism that was not chosen, and how much noisier it is.

    Attributes
    ----------
    mechanism
        The mechanism.
    variance
        Its worst variance over the domain.
    ratio
        That variance over the chosen one's.

    Examples
    --------
    >>> second = best(1.0, BoundedSignal(0.0, 1.0)).alternatives[0]
    >>> second.mechanism.name, round(second.ratio, 2)
    ('duchi', 1.09)
    """

    mechanism: Mechanism
    variance: float
    ratio: float


@dataclass(frozen=True)
class Choice:
    """The mechanism of least worst-case variance, and what the others would cost.

    Attributes
    ----------
    mechanism
        The mechanism that was chosen.
    variance
        Its worst variance over the domain.
    alternatives
        The others, the best first.

    Examples
    --------
    >>> choice = best(1.0, BoundedSignal(0.0, 1.0))
    >>> choice.mechanism.name, round(choice.variance, 2)
    ('hybrid', 1.07)
    >>> [other.mechanism.name for other in choice.alternatives]
    ['duchi', 'piecewise', 'staircase', 'laplace']
    """

    mechanism: Mechanism
    variance: float
    alternatives: tuple[Alternative, ...]

    def against(self, name: str) -> Alternative:
        """The alternative of that name, such as "laplace".

        Parameters
        ----------
        name
            A name of `names()`.

        Raises
        ------
        PrivacyError
            If no alternative has that name.
        """
        for other in self.alternatives:
            if other.mechanism.name == name:
                return other
        found = ", ".join(other.mechanism.name for other in self.alternatives)
        raise PrivacyError(f"{name!r} is no alternative here; found {found}")

    def __str__(self) -> str:
        """Describe the choice in a sentence, with every alternative's ratio."""
        others = ", ".join(
            f"{_times(other.ratio)} with {other.mechanism.name}" for other in self.alternatives
        )
        return (
            f"{self.mechanism.name} noise at epsilon = {self.mechanism.epsilon:g} has the least "
            f"worst-case variance, {self.variance:.4g}; it would be {others}."
        )


def best(epsilon: float, domain: Domain, dimension: int = 1, input_error: float = 0.0) -> Choice:
    """The mechanism with the least worst-case variance for a domain, and by how much it wins.

    On equal variances the simpler one is chosen.

    Parameters
    ----------
    epsilon
        The privacy loss allowed.
    domain
        What goes in, and which inputs are adjacent.
    dimension
        How many coordinates of the statistic one signal moves.
    input_error
        How far, at most, the computed statistic is from the true one.

    Returns
    -------
    Choice
        The mechanism, its variance and the alternatives.

    Examples
    --------
    >>> choice = best(1.0, BoundedSignal(0.0, 1.0))
    >>> choice.mechanism.name, round(choice.against("laplace").ratio, 2)
    ('hybrid', 1.87)
    """
    _validate.positive(PrivacyError, epsilon=epsilon)
    made = [
        make(name, epsilon, domain, dimension, input_error)
        for name in _fitting(epsilon, domain, dimension)
    ]
    found = sorted(((m, domain.variance(m)) for m in made), key=lambda pair: pair[1])
    (first, least), rest = found[0], found[1:]
    others = (Alternative(mechanism, value, value / least) for mechanism, value in rest)
    return Choice(first, least, tuple(others))


def make(
    name: str, epsilon: float, domain: Domain, dimension: int = 1, input_error: float = 0.0
) -> Mechanism:
    """The mechanism of a name for a domain; "best" is the one that `best` recommends.

    Parameters
    ----------
    name
        One of `names()`.
    epsilon, domain, dimension, input_error
        As for `best`.

    Returns
    -------
    Mechanism
        The mechanism.

    Raises
    ------
    PrivacyError
        If the mechanism does not take such inputs; the message says what it takes.

    Examples
    --------
    >>> make("discrete-laplace", 1.0, IntegerStatistic(2)).sensitivity
    2
    """
    _validate.one_of(PrivacyError, names(), mechanism=name)
    if name == BEST:
        return best(epsilon, domain, dimension, input_error).mechanism
    kind = _KINDS[name]
    problem = _misfit(kind, epsilon, domain, dimension)
    if problem:
        fitting = ", ".join(_fitting(epsilon, domain, dimension))
        raise PrivacyError(f"mechanism {name} {problem}; choose one of {fitting}")
    if kind in _LOCAL:
        assert isinstance(domain, BoundedSignal)
        local: Any = kind
        return local(epsilon, domain.low, domain.high)  # type: ignore[no-any-return]
    additive: Any = kind
    if kind is DiscreteLaplaceMechanism:
        return DiscreteLaplaceMechanism(epsilon, int(domain.sensitivity), dimension)
    return additive(epsilon, domain.sensitivity, dimension, input_error)  # type: ignore[no-any-return]


def _fitting(epsilon: float, domain: Domain, dimension: int) -> list[str]:
    return [name for name, kind in _KINDS.items() if not _misfit(kind, epsilon, domain, dimension)]


def _misfit(kind: type[Mechanism], epsilon: float, domain: Domain, dimension: int) -> str:
    """Why a mechanism does not take the inputs of a domain, or "" if it does."""
    if dimension > 1 and kind.scalar:
        return f"is for one number, and the statistic has {dimension}"
    if kind in (StaircaseMechanism, *_LOCAL) and not COMPUTABLE[0] <= epsilon <= COMPUTABLE[1]:
        return f"takes epsilon from {COMPUTABLE[0]:g} to {COMPUTABLE[1]:g}; found {epsilon:g}"
    if kind in _LOCAL and not isinstance(domain, BoundedSignal):
        return "needs a statistic between public bounds; give the family bounds=(low, high)"
    if kind is DiscreteLaplaceMechanism:
        whole = isinstance(domain, IntegerStatistic) or getattr(domain, "integer", False)
        if not whole:
            return "needs a statistic of whole numbers"
    return ""


def _times(ratio: float) -> str:
    return "the same" if f"{ratio:.3g}" == "1" else f"{ratio:.3g} times that"
