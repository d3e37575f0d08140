"""Budgets of one's own: the simulator with a scale of the noise for every agent.

    b_i = D_i / eps_i,    D_i = max(max_j a_ij, S_i)    (App. C.3)

for laws whose noise covers a neighbour's weight and a statistic alike in every round (average,
learn-network; learn with Signal DP). S_i is the printed smooth sensitivity at the mean budget eps,
as in the authors' code. (It should be taken at eps_i, since its smoothing is the budget's: then b_i
grows like 1/eps_i^2.) An allocation from these sensitivities tells of the signals, and is for
simulations only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura import engine
from murmura.engine import Problem, Record, Trace
from murmura.privacy import Calibration, calibrate
from murmura.privacy.budgets import Allocation, Sensitivities

Floats = NDArray[np.float64]
Allocate = Callable[[Sensitivities, float], Allocation]


@dataclass(frozen=True, eq=False)
class Unequal(Calibration):
    """A calibration whose agents have budgets of their own, allocated in every round."""

    weights: Floats = field(default_factory=lambda: np.empty(0))  # max_j a_ij, or zeros
    allocate: Allocate | None = None
    overheads: list[dict[str, float]] = field(default_factory=list)

    def signal(self, signals: Floats, epsilons: Floats) -> Floats:
        """What `per_signal` must be multiplied by to give b_i = D_i / eps_i: (agents, columns)."""
        each = list(dict.fromkeys(epsilons.tolist()))
        if not self.weights.any():  # D is in proportion, and so are the budgets, whatever epsilon
            return np.tile(self._part(signals, each[0]), len(each))
        return np.concatenate([self._part(signals, epsilon) for epsilon in each], axis=1)

    def _part(self, signals: Floats, epsilon: float) -> Floats:
        one = np.array([epsilon])
        per = float(self.per_signal(one, 1)[0])
        D = np.maximum(self.weights[:, None], epsilon * per * super().signal(signals, one))
        return self._scales(D, epsilon) / per

    def _scales(self, D: Floats, epsilon: float) -> Floats:
        """D_i / eps_i of every replica; its overhead beside that of equal budgets is noted."""
        assert self.allocate is not None
        made = np.empty_like(D)
        for r in range(D.shape[1]):
            known = Sensitivities(D[:, r], data_dependent=True)
            given = self.allocate(known, epsilon)
            made[:, r] = D[:, r] / given.epsilons
            self.overheads.append(
                {"epsilon": epsilon, "replica": r, "overhead": made[:, r].sum(),
                 "equal": D[:, r].sum() / epsilon, "spent": given.spent / len(D) / epsilon}
            )  # fmt: skip
        return made


def simulate(
    problem: Problem, allocate: Allocate, record: Record
) -> tuple[Trace, list[dict[str, float]]]:
    """As `engine.simulate`, with budgets from `allocate`; also the overhead of every allocation."""
    plain = calibrate(problem.want, problem.law, problem.family, problem.network, problem.rounds)
    assert plain is not None
    same: dict[str, Any] = {f.name: getattr(plain, f.name) for f in fields(Calibration)}
    same["network"] = np.zeros(problem.network.size)
    made = Unequal(**same, weights=plain.network, allocate=allocate)
    return engine.simulate(problem, record, calibration=made), made.overheads
