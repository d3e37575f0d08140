"""Table 1 of the paper in numbers: its four cells on one network, beside the exact errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from murmura import laws
from murmura.engine import Drawn, Problem
from murmura.errors import MurmuraError
from murmura.privacy import NetworkDP, NoPrivacy, SignalDP
from murmura.theory import bounds
from murmura.theory.bounds import Bound
from murmura.theory.exact import Expected, expected
from murmura.theory.inputs import noise_of, statistic_of
from murmura.theory.sharper_bounds import SharperBound, sharper

CELLS = (
    ("offline", "signal", "average", SignalDP),
    ("offline", "network", "average", NetworkDP),
    ("online", "signal", "learn", SignalDP),
    ("online", "network", "learn-network", NetworkDP),
)


@dataclass(frozen=True, eq=False)
class Row:
    """One cell of Table 1 at the last round and first epsilon: exact <= sharper <= theorem."""

    setting: str  # offline or online
    protects: str  # signal or network
    law: str
    exact: Bound  # root expected squares
    sharper: Bound
    theorem: Bound
    order: Bound  # the expression inside O(), with Delta/eps read as the deviation of the noise

    @property
    def holds(self) -> bool:
        """exact <= sharper <= theorem, up to rounding."""
        names = ("privacy", "decentralisation")
        return all(
            getattr(self.exact, k) <= getattr(self.sharper, k) * (1 + 1e-9)
            and getattr(self.sharper, k) <= getattr(self.theorem, k) * (1 + 1e-9)
            for k in names
        )


def table_1(problem: Problem, largest: float | None = None) -> tuple[Row, ...]:
    """The four cells on the network, the family, the budget and the rounds of a problem.

    `largest` is M_n; drawn signals give its root mean square over a hundred draws.
    """
    if isinstance(problem.want, NoPrivacy):
        raise MurmuraError("Table 1 needs a protection: ask for signal or network privacy")
    return tuple(_row(problem, largest, *cell) for cell in CELLS)


def _row(
    problem: Problem, largest: float | None, setting: str, protects: str, name: str, want: Any
) -> Row:
    asked: Any = problem.want
    wanted = want(problem.budgets[0], asked.delta, asked.radius, asked.sensitivity)
    law = laws.get(name, problem.network)
    made = replace(problem, law=law, want=wanted, epsilons=(), horizon=None)
    found, sharp = expected(made), sharper(made)
    top = _largest(made) if largest is None else largest
    theorem, order = _paper(made, setting, protects, top)
    return Row(setting, protects, name, _last(found), _last(sharp), theorem, order)


def _last(found: Expected | SharperBound) -> Bound:
    apart = float(found.decentralisation[-1])
    return Bound(float(found.privacy[-1, 0]), apart, type(found).__name__)


def _paper(problem: Problem, setting: str, protects: str, top: float) -> tuple[Bound, Bound]:
    """The theorem's bound and the cell's expression."""
    n, beta, t = problem.network.size, problem.network.beta_star, problem.rounds
    d, steps = problem.family.dimension, range(t + 1)
    noise, variance = noise_of(problem), statistic_of(problem).variance
    each = [_total(noise.at(k), n) / _squared(problem, k) for k in steps if problem.law.at(k).noise]
    whole, size = d * sum(each), math.sqrt(d * max(each) / n)
    if setting == "offline":
        theorem = bounds.theorem_1(n, beta, t, whole, top)
        if protects == "network":
            theorem = replace(theorem, reference="Corollary 1")
        order = Bound(n * beta**t * size + size, n * beta**t * top, "Table 1")
        return theorem, order
    stated = bounds.theorem_2 if protects == "signal" else bounds.theorem_3
    rate = n / math.sqrt(t)
    return stated(n, beta, t, whole, variance), Bound(
        rate * size, rate * math.sqrt(variance), "Table 1"
    )


def _total(entering: Any, n: int) -> float:
    return float(entering[:, 0].mean() * n)


def _squared(problem: Problem, t: int) -> float:
    return problem.law.at(t).noise ** 2


def _largest(problem: Problem) -> float:
    """Root mean square of max |xi| over a hundred draws of the network's signals."""
    source = problem.source
    if not isinstance(source, Drawn):
        raise MurmuraError("measured signals are not read; state M_n, largest=...")
    apart = Drawn(source.family, source.parameters, source.agents, source.seed + 1)
    xi = problem.family.columns(apart.signals(1, 100))
    norms = np.linalg.norm(xi, axis=-1)
    return float(np.sqrt((norms.max(axis=0) ** 2).mean()))
