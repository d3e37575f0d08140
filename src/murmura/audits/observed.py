"""What an adversary sees after something moved, run after run, as agents compute it.

Every agent takes its rows of A through the algorithm's own rounds with the calibrated noise; the
move is added where it happens, and what follows follows. By linearity all that the adversary knows
(the signals, the noise of others where the view says so) can be subtracted, and is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from murmura import laws
from murmura.audits.ball import ball
from murmura.audits.exact import Messages, Move, Transcript, View, estimate_moves, scales
from murmura.audits.transcript import among
from murmura.engine import Problem, noise

Floats = NDArray[np.float64]
Observed = Callable[[float, int, np.random.Generator], Floats]

MOST_NUMBERS = 4_000_000  # held at once: estimates of all agents and runs of a batch


def observed(problem: Problem, move: Move, view: View) -> Observed:
    """Make a mechanism: how much of the move takes place -> the messages seen, one row per run."""
    problem, move, view = _near(problem, move, view)
    seen = view.since(move.first) if isinstance(view, Transcript) else view.messages
    unknown = _unknown(problem, move, view)
    batch = max(1, MOST_NUMBERS // problem.network.size)

    def mechanism(part: float, trials: int, rng: np.random.Generator) -> Floats:
        rows = []
        for first in range(0, trials, batch):
            runs = min(batch, trials - first)
            rows.append(_run(problem, part * move.impulses, unknown, seen, runs, rng))
        return np.concatenate(rows)

    return mechanism


def message(problem: Problem, agent: int, t: int) -> Observed:
    """Show the message of round t after the estimate of the heaviest neighbour moved in t - 1.

    All that came before is known to the adversary.
    """
    move = estimate_moves(problem, heaviest_neighbour(problem, agent, t), t - 1)
    return observed(problem, move, Transcript((agent,), t))


def heaviest_neighbour(problem: Problem, agent: int, t: int) -> int:
    """The neighbour that weighs most in an agent's round t."""
    row = problem.network.at(t)[[agent]].toarray().ravel()
    row[agent] = -1.0
    return int(row.argmax())


def _unknown(problem: Problem, move: Move, view: View) -> Floats:
    """(rounds + 1, agents): scales of the noise that the adversary does not know."""
    b = scales(problem).copy()
    if isinstance(view, Transcript):
        others = np.setdiff1d(np.arange(problem.network.size), view.agents)
        b[:, others] = 0.0
        b[: move.first] = 0.0  # seen
    return b


def _run(
    problem: Problem,
    impulses: Floats,
    b: Floats,
    seen: tuple[tuple[int, int], ...],
    runs: int,
    rng: np.random.Generator,
) -> Floats:
    seed, agents = int(rng.integers(2**63)), np.arange(problem.network.size)
    xi, out = np.zeros((len(agents), runs)), np.empty((runs, len(seen)))
    state = laws.State(xi, xi)
    for t in range(max(t for _, t in seen) + 1):
        d = np.zeros_like(xi)
        loud = np.flatnonzero(b[t])
        if loud.size:
            streams = np.arange(runs)[None, :]
            d[loud] = b[t, loud, None] * noise.laplace(seed, t, loud[:, None], streams)
        if t == 0:
            state = laws.begin(problem.law, xi, d)
        else:
            mixed = problem.network.at(t) @ state.nu
            state = laws.advance(problem.law, t, state, mixed, xi, d)
        if impulses[t].any():
            state = laws.State(state.nu + impulses[t][:, None], state.before)
        for k, (agent, when) in enumerate(seen):
            if when == t:
                out[:, k] = state.nu[agent]
    return out


def _near(problem: Problem, move: Move, view: View) -> tuple[Problem, Move, View]:
    """The same on the part of the network that the messages can have heard of."""
    inside = ball(problem.network, view.agents, view.last)
    if inside.size == problem.network.size:
        return problem, move, view
    place = {int(member): k for k, member in enumerate(inside.members)}
    near = replace(problem, network=inside, want=among(problem.want, inside.members))
    impulses = move.impulses[:, inside.members]
    moved = replace(move, agent=place.get(move.agent, -1), impulses=impulses)
    if isinstance(view, Transcript):
        return near, moved, replace(view, agents=tuple(place[i] for i in view.agents))
    return near, moved, Messages(tuple((place[i], t) for i, t in view.messages))
