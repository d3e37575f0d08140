"""Every adversary that is cheap to try, exactly: who moves, when, and what is seen of whom.

The exact loss needs no samples, so thousands of adversaries can be tried: each agent and each of
its neighbours, moves early and late, the next message, a late one alone, all of them, and those of
two agents together. What counts is the loss over the claim for that adversary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmura.audits.exact import Messages, Transcript, View, estimate_moves, exact_loss
from murmura.audits.scenario import at_smallest_budget, audit_neighbour, claim_for
from murmura.engine import Problem
from murmura.privacy import NoPrivacy
from murmura.privacy.auditing import FAULT, AuditReport

AGENTS, NEIGHBOURS = 12, 3  # observed agents, and neighbours of each that move
NEXT, LAST, ALL, TWO = "next message", "last message", "all messages", "all of two agents"
SAMPLED = (NEXT, LAST)
MOST_NUMBERS = 5_000  # agents times rounds of a run, for it to be sampled


class Found(NamedTuple):
    """An adversary, what it learns and what it is claimed to learn at most."""

    loss: float
    claim: float
    neighbour: int
    moved: int
    view: View
    tried: int = 1  # adversaries of its kind, of which it is the worst


def worst_adversaries(problem: Problem) -> dict[str, Found]:
    """For each kind of adversary, the one tried whose exact loss is largest for its claim."""
    todo = at_smallest_budget(problem)
    found: dict[str, list[Found]] = {}
    for kind, neighbour, moved, view in adversaries(todo):
        loss = exact_loss(todo, estimate_moves(todo, neighbour, moved), view)
        one = Found(loss, claim_for(todo, moved, view), neighbour, moved, view)
        found.setdefault(kind, []).append(one)
    return {
        kind: max(tried, key=lambda one: one.loss / one.claim)._replace(tried=len(tried))
        for kind, tried in found.items()
    }


def worst_neighbours(
    problem: Problem,
    name: str = "",
    trials: int | None = None,
    rng: int = 0,
    fault: float = FAULT,
    sampled: bool = False,
) -> list[AuditReport]:
    """A report on the worst adversary of each kind, exactly; with samples too, where it is cheap.

    Samples are taken of single messages in networks and runs that are small enough.
    """
    reports = []
    for kind, found in worst_adversaries(problem).items():
        title = f"{name or f'{problem.law.name}, neighbour'}: {kind}"
        if sampled and kind in SAMPLED and problem.network.size * found.view.last <= MOST_NUMBERS:
            reports.append(
                audit_neighbour(
                    problem, trials, found.moved, found.view, rng, title, fault, found.neighbour
                )
            )
        else:
            reports.append(_report(title, found, problem))
    return reports


def _report(name: str, worst: Found, problem: Problem) -> AuditReport:
    assert not isinstance(problem.want, NoPrivacy)
    return AuditReport(
        name=name,
        epsilon=worst.claim,
        delta=problem.want.delta,
        lower_bound=worst.loss,
        spent_delta=0.0,
        confidence=1.0,
        trials=0,
        pair=f"an estimate of round {worst.moved} that moves by 1",
        event=f"{worst.view}, the worst of {worst.tried:,} for its claim",
        smallest_fault=0.0,
        exact=worst.loss,
    )


def adversaries(problem: Problem) -> Iterator[tuple[str, int, int, View]]:
    """(kind, who moves, in which round, what is seen)."""
    last = problem.rounds
    for moved in sorted({0, 1, last // 4, last // 2, last - 1} & set(range(last))):
        A = problem.network.at(moved + 1)
        for agent in _watched(np.diff(A.indptr)):
            for neighbour in _neighbours(A, agent):
                for kind, view in _views(problem, A, agent, neighbour, moved):
                    yield kind, neighbour, moved, view


def _views(
    problem: Problem, A: Any, agent: int, neighbour: int, moved: int
) -> Iterator[tuple[str, View]]:
    last = problem.rounds
    yield NEXT, Transcript((agent,), moved + 1)
    if moved + 1 == last:
        return
    yield LAST, Messages(((agent, last),))
    yield ALL, Transcript((agent,), last)
    for other in [k for k in _neighbours(A, neighbour) if k != agent][:1]:
        yield TWO, Transcript((agent, other), last)


def _watched(degrees: NDArray[Any]) -> list[int]:
    """Agents of many links, and of few."""
    order = np.argsort(degrees, kind="stable")
    half = AGENTS // 2
    return [int(i) for i in dict.fromkeys([*order[:half], *order[-half:]])]


def _neighbours(A: Any, agent: int) -> list[int]:
    """The heaviest neighbours of an agent."""
    row = A[[agent]].tocoo()
    pairs = sorted(zip(-row.data, row.col, strict=True))
    return [int(j) for weight, j in pairs if j != agent and weight < 0][:NEIGHBOURS]
