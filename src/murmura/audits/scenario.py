"""Audit what a scenario would do: its algorithm, its noise and its promise, by attack."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from murmura.audits.exact import (
    Transcript,
    View,
    estimate_moves,
    exact_loss,
    ratio_score,
    signal_moves,
)
from murmura.audits.observed import heaviest_neighbour, observed
from murmura.audits.pairs import adjacent
from murmura.audits.transcript import transcript
from murmura.engine import Problem
from murmura.errors import PrivacyError
from murmura.privacy import Guarantee, NoPrivacy, Status, network_cost, promise
from murmura.privacy.auditing import FAULT, AuditReport, audit

ROUNDS = 3


def audit_problem(
    problem: Problem,
    trials: int | None = None,
    rounds: int = ROUNDS,
    rng: int = 0,
    name: str = "",
    fault: float = FAULT,
) -> AuditReport:
    """Attack the signal of the best-connected agent through all that it sends in `rounds` rounds.

    Pairs of signals are tried all over the family's support, its edges included, at the smallest
    epsilon of the problem. Where the noise is known, the exact loss against whoever sees all
    messages of all agents stands beside it.
    """
    todo = at_smallest_budget(problem)
    assert not isinstance(todo.want, NoPrivacy)
    pairs = adjacent(todo.family, todo.want.radius)
    if not pairs:
        raise PrivacyError(f"no two signals of {todo.family.name} are {todo.want.radius:g} apart")
    agent = best_connected(todo)
    seen = transcript(todo, agent, min(rounds, todo.rounds), background=pairs[len(pairs) // 2][0])
    return audit(
        seen, pairs, signal_claim(todo, agent), todo.want.delta, trials, rng,
        name=name or todo.law.name, fault=fault, exact=_exact_signal(todo, agent, pairs),
    )  # fmt: skip


def audit_neighbour(
    problem: Problem,
    trials: int | None = None,
    moved: int = 1,
    view: View | None = None,
    rng: int = 0,
    name: str = "",
    fault: float = FAULT,
    neighbour: int | None = None,
) -> AuditReport:
    """Attack what Network DP hides besides: a neighbour's estimate of round `moved`, moved by 1.

    The adversary sees what `view` says: the next message of the best-connected agent unless told
    otherwise, or a later one, or several, of one agent or of more. It is compared with the claim
    for exactly that (`privacy.network_cost`).
    """
    todo = at_smallest_budget(problem)
    assert not isinstance(todo.want, NoPrivacy)
    view = view or Transcript((best_connected(todo),), moved + 1)
    if neighbour is None:
        neighbour = heaviest_neighbour(todo, view.agents[0], moved + 1)
    _check(todo, moved, view, neighbour)
    move = estimate_moves(todo, neighbour, moved)
    scores = [ratio_score(todo, move, view)] if isinstance(view, Transcript) else []
    return audit(
        observed(todo, move, view), [(0.0, 1.0)], claim_for(todo, moved, view), todo.want.delta,
        trials, rng, name=name or f"{problem.law.name}, neighbour", fault=fault, scores=scores,
        exact=exact_loss(todo, move, view),
    )  # fmt: skip


def claim_for(problem: Problem, moved: int, view: View) -> float:
    """Epsilon claimed against whoever sees these messages, for an estimate that moves in a round.

    The promise states the cost of the next message; `privacy.network_cost` how many of those all
    messages up to the last one seen cost. What is claimed and refuted is claimed for all alike.
    """
    made = _stated(problem)
    each = sum(share_of(problem, agent) for agent in view.agents)
    if made.status is Status.REFUTED or made.loss is None:
        return each * min(problem.budgets)
    return each * made.loss.epsilon * network_cost(problem.law, moved, view.last)


def signal_claim(problem: Problem, agent: int) -> float:
    """Epsilon claimed for a signal of the agent: what the promise states, by the agent's share.

    Where nothing is promised it is what was asked for, which an attack then refutes.
    """
    made = _stated(problem)
    alone = made.signals or made
    asked = min(problem.budgets)
    return share_of(problem, agent) * (asked if alone.status is Status.NONE else alone.epsilon)


def _stated(problem: Problem) -> Guarantee:
    """The promise at the smallest epsilon, for an agent with the largest share."""
    todo, rounds = at_smallest_budget(problem), problem.horizon or problem.rounds
    return promise(todo.want, todo.law, rounds, todo.family)


def share_of(problem: Problem, agent: int) -> float:
    """The agent's share of epsilon, as a part of the largest, which the promise is for."""
    shares = getattr(problem.want, "shares", None)
    return float(shares[agent] / max(shares)) if shares else 1.0


def best_connected(problem: Problem) -> int:
    """The agent with most links in round 1."""
    return int(np.argmax(np.diff(problem.network.at(1).indptr)))


def at_smallest_budget(problem: Problem) -> Problem:
    """The same problem at its smallest epsilon alone."""
    if isinstance(problem.want, NoPrivacy):
        raise PrivacyError("nothing is promised without protection, so there is nothing to audit")
    return replace(problem, want=problem.want.at(min(problem.budgets)), epsilons=())


def _exact_signal(problem: Problem, agent: int, pairs: list[tuple[float, float]]) -> float | None:
    """The exact loss of the worst pair against all messages of all agents."""
    assert not isinstance(problem.want, NoPrivacy)
    if problem.want.reads_signals or problem.law.noises_links:
        return None
    xi = problem.family.columns(np.array(pairs)).reshape(len(pairs), 2, -1)
    by = float(np.abs(xi[:, 0] - xi[:, 1]).sum(axis=-1).max())
    everyone = Transcript(tuple(range(problem.network.size)), problem.rounds)
    readings = {1, problem.rounds} if problem.law.online else {1}
    return max(
        exact_loss(problem, signal_moves(problem, agent, by, reading), everyone)
        for reading in readings
    )


def _check(problem: Problem, moved: int, view: View, neighbour: int) -> None:
    if not 0 <= moved < view.last <= problem.rounds:
        raise PrivacyError(
            f"an estimate of round {moved} is seen in later rounds, up to {problem.rounds}; "
            f"found round {view.last}"
        )
    if neighbour in view.agents:
        raise PrivacyError(
            f"agent {neighbour} is seen itself, so its estimate is no secret; watch other agents"
        )
