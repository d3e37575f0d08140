"""Plans: what accuracy a budget buys, before anyone releases anything.

The error that is planned is the total error that a run measures, in the root mean square over
replicas; as `agent`, TE/sqrt(n), the error of a typical agent, or as `l2`, TE itself. For Laplace
noise of a fixed sensitivity, with C and D the squared costs of privacy (at eps = 1) and of
decentralisation after t rounds,

    TE^2 = C/eps^2 + D,    eps = sqrt(C / (error^2 - D)).

All laws and weights that keep the promise are compared; no signal is read.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmura import _validate
from murmura.engine import Problem
from murmura.errors import MurmuraError, PrivacyError
from murmura.privacy import NoPrivacy
from murmura.theory.candidates import candidates, status
from murmura.theory.exact import Expected, expected

Floats = NDArray[np.float64]
NORMS = ("agent", "l2")
MOST_ROUNDS = 2000


class Split(NamedTuple):
    """Parts of the error against the truth E xi, in the plan's norm: their squares add up."""

    sampling: float  # of the mean of all signals; a run counts it for streams only
    privacy: float  # noise in the mean of all agents
    disagreement: float  # between agents, with and without noise


@dataclass(frozen=True)
class Candidate:
    """One law on one choice of weights, and what it takes."""

    law: str
    weights: str
    promise: str
    reached: bool
    epsilon: float | None
    rounds: int
    error: float
    split: Split
    estimated: bool
    reason: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """What was asked, the best answer, those that were compared, and the trade-off around it."""

    solved: str  # epsilon, rounds or error
    norm: str
    target: float | None
    best: Candidate
    candidates: tuple[Candidate, ...]
    problem: Problem  # of the best: ready to run
    epsilons: Floats  # (e,)
    rounds: NDArray[np.int64]  # (r,)
    surface: Floats  # (r, e): the error

    def __repr__(self) -> str:
        """The best answer and how many were compared."""
        best = self.best
        budget = "" if best.epsilon is None else f"epsilon = {best.epsilon:g}, "
        return (
            f"Plan({best.law} on {best.weights} weights, {budget}{best.rounds} rounds, "
            f"error {best.error:.4g}{'' if best.reached else ' (not reached)'}; "
            f"{len(self.candidates)} compared)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the surface, in plain numbers."""
        return {
            "solved": self.solved,
            "norm": self.norm,
            "target": self.target,
            "best": _plain(self.best),
            "candidates": [_plain(c) for c in self.candidates],
        }

    def toml(self) -> str:
        """The lines of a scenario that follow the plan."""
        best, scheme = self.best, self.best.weights.partition(",")[0]
        lines = ["[network]", f'weights = "{scheme}"', ""] if scheme != "given" else []
        if best.epsilon is not None:
            lines += ["[privacy]", f"epsilon = {best.epsilon}", ""]
        lines += ["[law]", f'name = "{best.law}"', f"rounds = {best.rounds}"]
        return "\n".join(lines) + "\n"


def _plain(candidate: Candidate) -> dict[str, Any]:
    return asdict(candidate) | {"split": candidate.split._asdict()}


def plan(
    problem: Problem,
    error: float | None = None,
    epsilon: float | None = None,
    rounds: int | None = None,
    norm: str = "agent",
    deviation: float | None = None,
    most_rounds: int = MOST_ROUNDS,
) -> Plan:
    """The smallest budget (or fewest rounds, if `epsilon` is given) that reaches an error.

    Without `error`, the error that the budget and the rounds buy. What is not given is the
    problem's own. `deviation` states the supposed deviation of measured statistics.
    """
    asked = _Asked.of(problem, error, epsilon, rounds, norm, deviation, most_rounds)
    found = [(asked.answer(made), made) for made in candidates(problem)]
    if not found:
        raise MurmuraError(
            f"no law keeps this promise on {problem.network.scheme} weights; ask for signal "
            "protection, which average, jacobi, learn and learn-network keep"
        )
    found.sort(key=lambda pair: asked.order(pair[0]))
    best, made = found[0]
    return _drawn(asked, best, made, tuple(candidate for candidate, _ in found))


@dataclass(frozen=True, eq=False)
class _Asked:
    """What is asked, with the problem's own in the gaps."""

    solved: str
    error: float  # l2
    epsilon: float | None
    rounds: int
    unit: float  # l2 norm per unit of the plan's norm
    norm: str
    deviation: float | None

    @staticmethod
    def of(
        problem: Problem, error: float | None, epsilon: float | None, rounds: int | None,
        norm: str, deviation: float | None, most: int,
    ) -> _Asked:  # fmt: skip
        _validate.one_of(MurmuraError, NORMS, norm=norm)
        _check_given(error, epsilon, rounds)
        bare = isinstance(problem.want, NoPrivacy)
        if error is not None and rounds is not None and (bare or epsilon is not None):
            raise MurmuraError("error, epsilon and rounds are all given; leave one to solve for")
        seeks = "rounds" if bare or epsilon is not None else "epsilon"
        solved = "error" if error is None else seeks
        unit = math.sqrt(problem.network.size) if norm == "agent" else 1.0
        wanted = most if solved == "rounds" else rounds or problem.rounds
        own = None if bare else epsilon or problem.budgets[0]
        return _Asked(solved, unit * (error or 0.0), own, wanted, unit, norm, deviation)

    def expect(self, problem: Problem, epsilons: tuple[float, ...], rounds: int) -> Expected:
        """Expected errors of one candidate; a stream of readings ends where it ends."""
        data = getattr(problem.source, "data", None)
        if problem.law.online and data is not None:
            rounds = min(rounds, data.values.shape[1])
        made = replace(problem, rounds=rounds, epsilons=epsilons, horizon=None)
        return expected(made, deviation=self.deviation)

    def answer(self, problem: Problem) -> Candidate:
        """What one candidate takes, or how near it comes."""
        budget = () if self.epsilon is None else (self.epsilon,)
        if self.solved == "epsilon":
            return self._smallest_budget(problem)
        made = self.expect(problem, budget, self.rounds)
        if self.solved == "error":
            return self._candidate(problem, made, self.epsilon, len(made.total) - 1)
        hits = np.flatnonzero(made.total[1:, 0] <= self.error)
        if hits.size:
            return self._candidate(problem, made, self.epsilon, int(hits[0]) + 1)
        least = int(made.total[1:, 0].argmin()) + 1
        reason = f"{len(made.total) - 1} rounds do not reach it; the noise alone may exceed it"
        return self._candidate(problem, made, self.epsilon, least, reason)

    def _smallest_budget(self, problem: Problem) -> Candidate:
        apart = self.expect(problem, (1.0,), self.rounds)
        last = len(apart.total) - 1
        room = self.error**2 - apart.decentralisation[-1] ** 2
        if room <= 0:
            reason = "the agents still differ by more than that without any noise; add rounds"
            return self._candidate(problem, apart, math.inf, last, reason)
        budget = float(apart.privacy[-1, 0] / math.sqrt(room))
        if getattr(problem.want, "reads_signals", False):
            budget = self._bisected(problem, budget)
        budget = _rounded_up(budget)
        return self._candidate(problem, self.expect(problem, (budget,), self.rounds), budget, last)

    def _bisected(self, problem: Problem, start: float) -> float:
        """Noise that is not proportional to 1/eps: halve the interval on a logarithmic scale."""

        def short(budget: float) -> bool:
            return bool(self.expect(problem, (budget,), self.rounds).total[-1, 0] > self.error)

        low, high = start, start
        while short(high):
            high *= 4
        while not short(low):
            low /= 4
        while high / low > 1.001:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if short(middle) else (low, middle)
        return high

    def _candidate(
        self, problem: Problem, made: Expected, epsilon: float | None, t: int, reason: str = ""
    ) -> Candidate:
        infinite = epsilon is not None and math.isinf(epsilon)
        error = made.decentralisation[t] if infinite else made.total[t, 0]
        noise = 0.0 if infinite else made.shared_noise[t, 0]
        apart = _clean_disagreement(problem, made, t) if infinite else made.disagreement[t, 0]
        parts = (made.sampling[t], noise, apart)
        return Candidate(
            law=problem.law.name, weights=problem.network.scheme, promise=status(problem).value,
            reached=not reason, epsilon=None if infinite else epsilon, rounds=t,
            error=float(error) / self.unit, split=Split(*(float(p) / self.unit for p in parts)),
            estimated=made.estimated, reason=reason,
        )  # fmt: skip

    def order(self, candidate: Candidate) -> tuple[float, ...]:
        """Those that reach the target first; of them the cheapest, then the most precise."""
        if not candidate.reached:
            return (1.0, candidate.error)
        cost = {"epsilon": candidate.epsilon, "rounds": candidate.rounds, "error": candidate.error}
        return (0.0, float(cost[self.solved] or 0.0), candidate.error)


def _check_given(error: float | None, epsilon: float | None, rounds: int | None) -> None:
    if error is not None and not 0 < error < math.inf:
        raise MurmuraError(f"error must be a finite number above 0; found {error}")
    if epsilon is not None:
        _validate.positive(PrivacyError, epsilon=epsilon)
    if rounds is not None:
        _validate.at_least(MurmuraError, 1, rounds=rounds)


def _clean_disagreement(problem: Problem, made: Expected, t: int) -> float:
    """Between agents without noise; a stream's cost of decentralisation has sampling in it."""
    counted = made.sampling[t] ** 2 if problem.law.online else 0.0
    return math.sqrt(max(made.decentralisation[t] ** 2 - counted, 0.0))


def _rounded_up(value: float) -> float:
    """Four significant digits, never less than the value."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.4g}")


def _drawn(asked: _Asked, best: Candidate, made: Problem, all_: tuple[Candidate, ...]) -> Plan:
    """The plan with its surface: a factor of 16 around the budget, twice the rounds."""
    centre = best.epsilon or (None if asked.epsilon is None else 1.0)
    count = 9 if getattr(made.want, "reads_signals", False) else 33
    grid = np.array([1.0]) if centre is None else centre * np.geomspace(1 / 16, 16, count)
    budgets = () if centre is None else tuple(grid.tolist())
    found = asked.expect(made, budgets, max(2 * best.rounds, 10))
    rounds = np.unique(np.geomspace(1, len(found.total) - 1, 60).round().astype(np.int64))
    ready = replace(
        made, rounds=best.rounds, epsilons=() if best.epsilon is None else (best.epsilon,)
    )
    target = asked.error / asked.unit if asked.solved != "error" else None
    return Plan(
        asked.solved, asked.norm, target, best, all_, ready, grid, rounds,
        found.total[rounds] / asked.unit,
    )  # fmt: skip
