"""What a law is: a few numbers per round.

Every algorithm here is one linear round,

    nu_t = keep nu_{t-1} + mix A_t nu_{t-1} + recall nu_{t-2} + learn xi_t + noise d_t,

from nu_0 = start.learn xi + start.noise d. A law says which numbers stand in round t; `combine`
is the only place where the sum is written, and it serves the compiled simulator (A is the matrix)
and one agent (A is its row) alike. The estimate without noise, mu_t, is the same law with d = 0.
Where messages carry the noise (`noises_messages`), A nu_{t-1} stands for A (nu_{t-1} + d_t).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from murmura.errors import LawError

Value = TypeVar("Value", float, NDArray[np.float64])

DOUBLY, ROW, COLUMN = "doubly-stochastic", "row-stochastic", "column-stochastic"


class Coefficients(NamedTuple):
    """The numbers of one round; `edge` weighs noise drawn afresh for every link."""

    keep: float = 0.0
    mix: float = 0.0
    recall: float = 0.0
    learn: float = 0.0
    noise: float = 0.0
    edge: float = 0.0


class Sensitivities(NamedTuple):
    """How far the released value moves, in units of d_t, per unit of statistic and of estimate."""

    signal: float
    network: float


def combine(
    keep: float,
    mix: float,
    recall: float,
    learn: float,
    noise: float,
    own: Value,
    mixed: Value,
    before: Value,
    xi: Value,
    d: Value,
) -> Value:
    """keep nu_{t-1} + mix A nu_{t-1} + recall nu_{t-2} + learn xi_t + noise d_t."""
    return keep * own + mix * mixed + recall * before + learn * xi + noise * d


@dataclass(frozen=True)
class Law(ABC):
    """One algorithm: its start, its coefficients and what it asks of the network."""

    name: ClassVar[str]
    reference: ClassVar[str]
    formula: ClassVar[str]
    start: ClassVar[Coefficients]
    online: ClassVar[bool] = False  # a fresh signal in every round
    ratio: ClassVar[bool] = False  # the estimate is a sum over a weight (push-sum)
    static_only: ClassVar[bool] = False
    kinds: ClassVar[frozenset[str]] = frozenset({DOUBLY})
    diverges: ClassVar[str | None] = None  # why, if it is known to
    splits_budget: ClassVar[bool] = False  # noise in every round shares one epsilon
    noises_links: ClassVar[bool] = False  # noise of its own on every link
    network_claim: ClassVar[bool] = False  # the paper claims Network DP for noise at the start only
    noises_messages: ClassVar[bool] = False  # what travels in round t is nu_{t-1} + d_t

    @abstractmethod
    def coefficients(self, t: int) -> Coefficients:
        """Give the numbers of round t = 1, 2, ..."""

    @classmethod
    def for_network(cls, network: Any, **options: Any) -> Law:  # noqa: ARG003 - laws that look at A do
        """Make the law for a network; laws that need its spectrum read it here."""
        return cls(**options)

    @property
    def starts_raw(self) -> bool:
        """Whether nu_0 carries the statistic without noise."""
        return self.start.learn != 0 and self.start.noise == 0

    def at(self, t: int) -> Coefficients:
        """Give the numbers of round t, the start being round 0; raise unless they are finite."""
        now = self.start if t == 0 else self.coefficients(t)
        try:
            finite = len(now) == len(Coefficients._fields) and all(map(math.isfinite, now))
        except TypeError:
            finite = False
        if not finite:
            raise LawError(_not_numbers(self, t, now))
        return now

    def noise_gain(self, t: int, values: Value) -> Value:
        """What d_t is multiplied by along an eigenvector of A: noise, or noise + mix lambda."""
        now = self.at(t)
        carried = now.mix if self.noises_messages and t else 0.0
        return now.noise + carried * values

    def sensitivities(self, t: int) -> Sensitivities:
        """Give how far what d_t hides can move: |learn/noise| a statistic, |mix/noise| an estimate.

        A round releases `mix A nu + learn xi + noise d`: dividing by `noise`, a change of the
        statistic by Delta moves it by (learn/noise) Delta, a change of neighbour j's estimate by
        1 moves it by (mix/noise) a_ij, so d must cover the larger of the two (Sec. 4.1).
        """
        now = self.at(t)
        return Sensitivities(abs(now.learn / now.noise), abs(now.mix / now.noise))


@dataclass(frozen=True)
class State:
    """What one agent, or the whole network, carries from round to round."""

    nu: Any
    before: Any


def begin(law: Law, xi: Value, d: Value) -> State:
    """nu_0 = start.learn xi + start.noise d."""
    zero = 0.0 * xi
    keep, mix, recall, learn, noise, _ = law.start
    return State(combine(keep, mix, recall, learn, noise, zero, zero, zero, xi, d), zero)


def advance(law: Law, t: int, state: State, mixed: Value, xi: Value, d: Value) -> State:
    """Take round t, given mixed = A nu_{t-1}: a product for the network, a row for one agent.

    Where messages carry noise, mixed is made of them: A (nu_{t-1} + d_t).
    """
    keep, mix, recall, learn, noise, _ = law.at(t)
    nu = combine(keep, mix, recall, learn, noise, state.nu, mixed, state.before, xi, d)
    return State(nu, state.nu)


def _not_numbers(law: Law, t: int, now: Any) -> str:
    """Which of the numbers of a round cannot be computed with."""
    fields = Coefficients._fields
    if not isinstance(now, tuple) or len(now) != len(fields):
        return f"law {law.name} must give Coefficients for round {t}; found {type(now).__name__}"
    wrong = [name for name, value in zip(fields, now, strict=True) if not _is_finite(value)]
    return (
        f"law {law.name} must give finite real numbers for round {t}; {', '.join(wrong)} "
        f"{'is' if len(wrong) == 1 else 'are'} not; check its coefficients(t) and its options"
    )


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and math.isfinite(value)
