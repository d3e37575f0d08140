"""Audit what a scenario would do: its law, its noise and its promise, by attack."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from murmura.audits.message import message
from murmura.audits.pairs import adjacent
from murmura.audits.transcript import transcript
from murmura.engine import Problem
from murmura.errors import PrivacyError
from murmura.privacy import NoPrivacy
from murmura.privacy.auditing import AuditReport, audit

ROUNDS = 3


def audit_problem(
    problem: Problem,
    trials: int = 200_000,
    rounds: int = ROUNDS,
    rng: int = 0,
    name: str = "",
) -> AuditReport:
    """Attack the signal of the best-connected agent through all that it sends in `rounds` rounds.

    Pairs of signals are tried all over the family's support, its edges included, at the smallest
    epsilon of the problem.
    """
    want = problem.want
    if isinstance(want, NoPrivacy):
        raise PrivacyError("nothing is promised without protection, so there is nothing to audit")
    epsilon = min(problem.budgets)
    pairs = adjacent(problem.family, want.radius)
    if not pairs:
        raise PrivacyError(f"no two signals of {problem.family.name} are {want.radius:g} apart")
    agent = int(np.argmax(np.diff(problem.network.at(1).indptr)))
    mechanism = transcript(
        problem if len(problem.budgets) == 1 else _at(problem, epsilon),
        agent,
        min(rounds, problem.rounds),
        background=pairs[len(pairs) // 2][0],
    )
    claim = epsilon * (want.shares[agent] if want.shares else 1.0)
    return audit(mechanism, pairs, claim, want.delta, trials, rng, name=name or problem.law.name)


def audit_neighbour(
    problem: Problem, trials: int = 200_000, t: int = 2, rng: int = 0, name: str = ""
) -> AuditReport:
    """Attack what Network DP hides besides: a neighbour's estimate, in one message of round t."""
    epsilon = min(problem.budgets)
    todo = problem if len(problem.budgets) == 1 else _at(problem, epsilon)
    assert not isinstance(todo.want, NoPrivacy)
    pairs = adjacent(problem.family, todo.want.radius)
    agent = int(np.argmax(np.diff(problem.network.at(t).indptr)))
    mechanism = message(todo, agent, t, background=pairs[len(pairs) // 2][0])
    claim = epsilon * (todo.want.shares[agent] if todo.want.shares else 1.0)
    return audit(
        mechanism, [(0.0, 1.0)], claim, todo.want.delta, trials, rng,
        name=name or f"{problem.law.name}, neighbour",
    )  # fmt: skip


def _at(problem: Problem, epsilon: float) -> Problem:
    assert not isinstance(problem.want, NoPrivacy)
    return replace(problem, want=problem.want.at(epsilon), epsilons=())
