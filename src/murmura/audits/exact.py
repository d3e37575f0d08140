"""The exact privacy loss of a linear algorithm: no samples, hence no sampling error.

Messages y are linear in what moved and in the noise: y = m + L d, with d_k ~ Lap(b_k) independent,
m the shift that the move causes, and L the noise that the adversary does not know. The supremum of
the log-likelihood ratio between the two worlds, over all y, is

    loss = min { sum_k |z_k|/b_k : L z = m } = max { <g, m> : |(L' g)_k| b_k <= 1 for every k }.

At most: moving d by z turns one world into the other, and changes its log density by at most
sum_k |z_k|/b_k. At least: <g, y> is noise of Laplace terms of scale at most 1, one of them 1,
shifted by <g, m>, and its tail has the log-likelihood ratio <g, m> in the limit. The two are equal
by linear programming duality, and g names the event. Two cases need no programme:

- one message: |m| / max_k |L_k| b_k;
- all messages of agents C up to a round, the noise of everybody else known: given its past, a
  message carries one unknown term, so loss = sum over i in C, u of |m_iu| / (|noise_u| b_iu), with
  m_iu the shift that enters agent i in round u while C's own messages stay as they were seen.

Where no noise covers a shift, the loss is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from murmura import laws
from murmura.audits.pairs import adjacent
from murmura.engine import Problem
from murmura.errors import PrivacyError
from murmura.privacy import NoPrivacy, calibrate

Floats = NDArray[np.float64]
Message = tuple[int, int]  # (agent, round)


@dataclass(frozen=True, eq=False)
class Move:
    """What differs between two worlds: (rounds + 1, agents) added to the estimates as they arise.

    A ratio algorithm's are added to its sums.
    """

    name: str
    agent: int
    first: int  # round
    impulses: Floats


@dataclass(frozen=True)
class Transcript:
    """All messages of some agents in rounds 0..last, everybody else's noise known."""

    agents: tuple[int, ...]
    last: int

    @property
    def messages(self) -> tuple[Message, ...]:
        """(agent, round), round by round."""
        return self.since(0)

    def since(self, first: int) -> tuple[Message, ...]:
        """Those of rounds first..last: what was sent before says nothing of a later move."""
        return tuple((i, t) for t in range(first, self.last + 1) for i in self.agents)

    def __str__(self) -> str:
        """Say what is seen."""
        who = "one agent" if len(self.agents) == 1 else f"{len(self.agents)} agents"
        return f"all messages of {who} up to round {self.last}, other agents' noise known"


@dataclass(frozen=True)
class Messages:
    """Some messages, (agent, round) each; nobody's noise is known."""

    messages: tuple[Message, ...]

    @property
    def agents(self) -> tuple[int, ...]:
        """Whose messages they are."""
        return tuple(dict.fromkeys(agent for agent, _ in self.messages))

    @property
    def last(self) -> int:
        """The last round that is seen."""
        return max(t for _, t in self.messages)

    def __str__(self) -> str:
        """Say what is seen."""
        if len(self.messages) == 1:
            return f"one message, of round {self.last}"
        return f"{len(self.messages)} messages up to round {self.last}"


View = Transcript | Messages


def estimate_moves(problem: Problem, agent: int, moved: int, by: float = 1.0) -> Move:
    """Move an agent's estimate of round `moved`, and with it all that is computed from it."""
    if problem.law.ratio:
        raise PrivacyError(
            f"the estimate of {problem.law.name} is a ratio, and nothing is promised for it; "
            "audit the signals"
        )
    impulses = _still(problem)
    impulses[moved, agent] = by
    return Move(f"the estimate of agent {agent} in round {moved}", agent, moved, impulses)


def estimate_off(problem: Problem, agent: int, first: int, by: float = 1.0) -> Move:
    """Let an agent's estimate be off by so much in every round from `first` on."""
    impulses, shift = _still(problem), laws.State(*np.zeros((2, problem.network.size)))
    for t in range(problem.rounds + 1):
        shift = shift if t == 0 else _passed_on(problem, t, shift)
        if t >= first:
            impulses[t, agent] = by - shift.nu[agent]
            shift = laws.State(shift.nu + impulses[t], shift.before)
    name = f"the estimate of agent {agent} in every round from {first} on"
    return Move(name, agent, first, impulses)


def signal_moves(problem: Problem, agent: int, by: float, reading: int = 1) -> Move:
    """Move an agent's signal so that its statistic moves by so much (l1): learn_t by, where used.

    Online, one reading moves; offline, every round that uses the signal is moved.
    """
    if getattr(problem.want, "reads_signals", False):
        raise PrivacyError(
            "with smooth sensitivity a signal that moves changes the scale too: the loss is not "
            "one number; audit the mechanism"
        )
    impulses = _still(problem)
    rounds = [reading] if problem.law.online else range(problem.rounds + 1)
    for t in rounds:
        impulses[t, agent] = problem.law.at(t).learn * by
    first = int(np.argmax(impulses.any(axis=1)))
    return Move(f"the signal of agent {agent}", agent, first, impulses)


def exact_loss(problem: Problem, move: Move, view: View) -> float:
    """The supremum of the log-likelihood ratio of what is seen, at the problem's epsilon."""
    if isinstance(view, Transcript):
        return transcript_loss(problem, move, view)
    return message_loss(problem, move, view)


def transcript_loss(problem: Problem, move: Move, view: Transcript) -> float:
    """sum over i in C, u <= last of |m_iu| / (|noise_u| b_iu); the formula of the module."""
    seen, b = list(view.agents), scales(problem)
    total, shift = 0.0, laws.State(*np.zeros((2, problem.network.size)))
    for t in range(view.last + 1):
        passed = np.zeros(problem.network.size) if t == 0 else _passed_on(problem, t, shift).nu
        now = passed + move.impulses[t]
        total += _over(np.abs(now[seen]), abs(problem.law.at(t).noise) * b[t, seen])
        now[seen] = 0.0  # both worlds showed the same
        shift = laws.State(now, shift.nu)
    return total


def message_loss(problem: Problem, move: Move, view: Messages) -> float:
    """min { sum_k |z_k|/b_k : L z = m } with everybody's noise unknown."""
    noises = np.array([problem.law.at(t).noise for t in range(problem.rounds + 1)])
    cover = noises[:, None] * scales(problem)
    reach = [gains(problem, *message) for message in view.messages]
    m = np.array([float((g * move.impulses[: len(g)]).sum()) for g in reach])
    L = np.zeros((len(m), *cover.shape))
    for row, g in zip(L, reach, strict=True):
        row[: len(g)] = g * cover[: len(g)]
    if len(m) > 1:
        return _programme(L.reshape(len(m), -1), m)
    return _over(np.abs(m), np.array([float(np.abs(L).max())]))


def ratio_score(problem: Problem, move: Move, view: Transcript) -> Callable[[Floats], Floats]:
    """The log-likelihood ratio of transcripts, one a row: sum over messages of (|e| - |e - r|)/b.

    e = M (y - y_0) is what a message adds to its past, with y_0 what would be sent without move and
    noise, r = M m its shift and b the scale of its noise: everybody else's noise is known.
    """
    seen = view.since(move.first)
    reach = [gains(problem, *message) for message in seen]
    M = np.linalg.inv([[g[s, j] if s < len(g) else 0.0 for j, s in seen] for g in reach])
    r = M @ [float((g * move.impulses[: len(g)]).sum()) for g in reach]
    scale = scales(problem)
    b = np.array([abs(problem.law.at(t).noise) * scale[t, i] for i, t in seen])
    noisy = b > 0
    M, r, b = M[noisy], r[noisy], b[noisy]

    def score(outputs: Floats) -> Floats:
        e = outputs @ M.T
        # Rounded, for its last bits tell the worlds apart where noise is drawn in floating point.
        return np.asarray(np.round(((np.abs(e) - np.abs(e - r)) / b).sum(axis=1), 6))

    return score


def gains(problem: Problem, agent: int, t: int) -> Floats:
    """(t + 1, agents): how much of what is added to agent k in round u reaches the message.

    Backwards: g_t = e_agent, g_u = (keep I + mix A)' g_{u+1} + recall g_{u+2}.
    """
    g = np.zeros((t + 3, problem.network.size))
    g[t, agent] = 1.0
    for u in range(t - 1, -1, -1):
        keep, mix, _, _, _, _ = problem.law.at(u + 1)
        g[u] = keep * g[u + 1] + mix * (problem.network.at(u + 1).T @ g[u + 1])
        if u + 2 <= t:
            g[u] += problem.law.at(u + 2).recall * g[u + 2]
    return g[: t + 1]


@lru_cache(maxsize=4)
def scales(problem: Problem) -> Floats:
    """(rounds + 1, agents): b of every agent and round, 0 where the algorithm adds no noise.

    Where it is read off the signals it is the least of those tried all over the support.
    """
    want = problem.want
    if isinstance(want, NoPrivacy):
        raise PrivacyError("nothing is promised without protection, so there is nothing to audit")
    if problem.law.noises_links and want.protects == "network":
        raise PrivacyError(f"nothing is promised for the noise on the links of {problem.law.name}")
    horizon = problem.horizon or problem.rounds
    made = calibrate(want, problem.law, problem.family, problem.network, horizon)
    assert made is not None
    signals = np.unique(adjacent(problem.family, want.radius)) if made.reads_signals else [1.0]
    each = np.broadcast_to(signals, (problem.network.size, len(signals)))
    epsilon = min(problem.budgets)
    b = np.zeros((problem.rounds + 1, problem.network.size))
    for t in range(problem.rounds + 1):
        if problem.law.at(t).noise:
            b[t] = made.scale(each, epsilon, t).min(axis=1)
    b.setflags(write=False)
    return b


def _still(problem: Problem) -> Floats:
    return np.zeros((problem.rounds + 1, problem.network.size))


def _passed_on(problem: Problem, t: int, shift: laws.State) -> laws.State:
    """What a shift becomes in round t, by the algorithm itself."""
    zero = np.zeros(problem.network.size)
    return laws.advance(problem.law, t, shift, problem.network.at(t) @ shift.nu, zero, zero)


def _over(shift: Floats, spread: Floats) -> float:
    """sum shift/spread; a shift that nothing covers is infinite, no shift is 0."""
    bare = (spread == 0) & (shift > 0)
    if bare.any():
        return math.inf
    return float(np.divide(shift, spread, out=np.zeros_like(shift), where=shift > 0).sum())


def _programme(L: Floats, m: Floats) -> float:
    """max <g, m> subject to |L' g| <= 1, with L in units of its noise's scales."""
    from scipy.optimize import linprog

    used = L[:, np.abs(L).max(axis=0) > 0].T
    both = np.concatenate([used, -used])
    found = linprog(-m, A_ub=both, b_ub=np.ones(len(both)), bounds=(None, None), method="highs")
    if found.status == 3:  # unbounded: a direction without noise
        return math.inf
    if found.status != 0:
        raise PrivacyError(f"the exact loss could not be computed: {found.message}")
    g = np.asarray(found.x) / max(1.0, float(np.abs(used @ found.x).max(initial=0.0)))
    return float(g @ m)
