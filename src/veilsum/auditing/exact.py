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
- all messages of agents C up to a round, the noise of all other agents known: given its past, a
  message carries one unknown term, so loss = sum over i in C, u of |m_iu| / (|noise_u| b_iu), with
  m_iu the shift that enters agent i in round u while the messages of C stay as they were seen.

Where no noise covers a shift, the loss is infinite. Other mechanisms than Laplace noise perturb the
statistic itself and know their own loss (`Mechanism.privacy_loss`): they are refused here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras, algorithms
from veilsum._types import Family
from veilsum.errors import PrivacyError
from veilsum.privacy import plan
from veilsum.simulation import Problem

Floats = NDArray[np.float64]
Message = tuple[int, int]  # (agent, round)

INNER = (0.001, 0.01, 0.1, 1.0, 3.0)  # tried inside open or unbounded supports


@dataclass(frozen=True, eq=False)
class Move:
    """What differs between two worlds: (rounds + 1, agents) added to the estimates as they arise.

    A ratio algorithm's are added to its sums.

    Attributes
    ----------
    name : str
        What moves.
    agent : int
        Whose.
    first : int
        The first round in which it moves.
    impulses : ndarray
        Of shape (rounds + 1, agents).

    Examples
    --------
    >>> Move("the estimate of agent 1", 1, 0, np.eye(2)).first
    0
    """

    name: str
    agent: int
    first: int  # round
    impulses: Floats


@dataclass(frozen=True)
class Transcript:
    """All messages of some agents in rounds 0..last, the noise of all other agents known.

    Parameters
    ----------
    agents : tuple of int
        Whose messages are seen.
    last : int
        The last round.

    Examples
    --------
    >>> print(Transcript((4,), 2))
    all messages of one agent up to round 2, other agents' noise known
    """

    agents: tuple[int, ...]
    last: int

    @property
    def messages(self) -> tuple[Message, ...]:
        """(agent, round), round by round."""
        return self.since(0)

    def since(self, first: int) -> tuple[Message, ...]:
        """Those of rounds first..last: earlier messages do not depend on a later move."""
        return tuple((i, t) for t in range(first, self.last + 1) for i in self.agents)

    def __str__(self) -> str:
        """Describe what is seen."""
        who = "one agent" if len(self.agents) == 1 else f"{len(self.agents)} agents"
        return f"all messages of {who} up to round {self.last}, other agents' noise known"


@dataclass(frozen=True)
class Messages:
    """Some messages, (agent, round) each; no agent's noise is known.

    Parameters
    ----------
    messages : tuple of (int, int)
        Agent and round of each message.

    Examples
    --------
    >>> print(Messages(((4, 50),)))
    one message, of round 50
    """

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
        """Describe what is seen."""
        if len(self.messages) == 1:
            return f"one message, of round {self.last}"
        return f"{len(self.messages)} messages up to round {self.last}"


View = Transcript | Messages


def adjacent(family: Family, radius: float) -> list[tuple[float, float]]:
    """Return pairs of scalar signals at most `radius` apart, edges of the support included.

    The worst pairs lie a full radius apart, and where the statistic is steep or the noise small: at
    the edges of the domain.

    Parameters
    ----------
    family : Family
        Whose support is covered.
    radius : float
        By how much a signal may move.

    Returns
    -------
    list of (float, float)
        The pairs.

    Examples
    --------
    >>> from veilsum.families import LogNormal
    >>> adjacent(LogNormal(sigma=1.0, bounds=(0.5, 2.0)), 1.0)[0]
    (0.5, 1.5)
    """
    support = family.support
    low, high = float(support.low), float(support.high)
    step = min(family.adjacency(radius), high - low)
    starts = sorted(set(_starts(low, high, step, bool(support.integer))))
    pairs = [(s, min(s + step, high)) for s in starts]
    return [(a, b) for a, b in pairs if a != b and not support.violations(np.array([a, b])).any()]


def _starts(low: float, high: float, step: float, integer: bool) -> list[float]:
    """Where pairs begin: both edges, the middle, and a few points near the lower edge."""
    base = low if math.isfinite(low) else 0.0
    starts = [base + (math.ceil(x) if integer else x) for x in INNER]
    if math.isfinite(high):
        middle = (base + high - step) / 2
        starts += [high - step, math.floor(middle) if integer else middle]
    return [base, *(s for s in starts if low <= s <= high - step)]


def estimate_moves(problem: Problem, agent: int, moved: int, by: float = 1.0) -> Move:
    """Move an agent's estimate of round `moved`, and with it all that is computed from it.

    Parameters
    ----------
    problem : Problem
        The problem.
    agent : int
        Whose estimate.
    moved : int
        The round.
    by : float
        By how much.

    Returns
    -------
    Move
        What differs.

    Raises
    ------
    PrivacyError
        If the algorithm is a ratio, for whose estimates nothing is guaranteed.

    Examples
    --------
    >>> from veilsum import algorithms, families, networks, simulation
    >>> from veilsum.privacy import NetworkDP
    >>> mixing = networks.metropolis(networks.load("path:5"))
    >>> family = families.Normal(sigma=1.0)
    >>> source = simulation.SyntheticSignals(family, {"mu": 0.0}, mixing.size, seed=1)
    >>> privacy = NetworkDP(1.0, radius=1e-6)
    >>> problem = simulation.Problem(
    ...     mixing, algorithms.LearnNetwork(), family, source, privacy, rounds=3
    ... )
    >>> estimate_moves(problem, agent=3, moved=1).impulses[1].tolist()
    [0.0, 0.0, 0.0, 1.0, 0.0]
    """
    if problem.algorithm.ratio:
        raise PrivacyError(
            f"the estimate of {problem.algorithm.name} is a ratio, and nothing is guaranteed for "
            "it; audit the signals"
        )
    impulses = _no_impulses(problem)
    impulses[moved, agent] = by
    return Move(f"the estimate of agent {agent} in round {moved}", agent, moved, impulses)


def estimate_off(problem: Problem, agent: int, first: int, by: float = 1.0) -> Move:
    """Offset an agent's estimate by `by` in every round from `first` on.

    Parameters
    ----------
    problem : Problem
        The problem.
    agent : int
        Whose estimate.
    first : int
        The first round.
    by : float
        The offset.

    Returns
    -------
    Move
        What differs.

    Examples
    --------
    >>> from veilsum import algorithms, families, networks, simulation
    >>> from veilsum.privacy import NetworkDP
    >>> mixing = networks.metropolis(networks.load("path:5"))
    >>> family = families.Normal(sigma=1.0)
    >>> source = simulation.SyntheticSignals(family, {"mu": 0.0}, mixing.size, seed=1)
    >>> privacy = NetworkDP(1.0, radius=1e-6)
    >>> problem = simulation.Problem(
    ...     mixing, algorithms.LearnNetwork(), family, source, privacy, rounds=3
    ... )
    >>> float(estimate_off(problem, agent=3, first=1).impulses[2, 3])
    1.0
    """
    impulses, shift = _no_impulses(problem), algorithms.State(*np.zeros((2, problem.network.size)))
    for t in range(problem.rounds + 1):
        shift = shift if t == 0 else _passed_on(problem, t, shift)
        if t >= first:
            impulses[t, agent] = by - shift.nu[agent]
            shift = algorithms.State(shift.nu + impulses[t], shift.before)
    name = f"the estimate of agent {agent} in every round from {first} on"
    return Move(name, agent, first, impulses)


def signal_moves(problem: Problem, agent: int, by: float, reading: int = 1) -> Move:
    """Move an agent's signal so that its statistic moves by `by` (l1): innovation_t by, where used.

    Online, one reading moves, in the round in which it enters; a reading whose batch is still open
    after the last round moves nothing. Offline, every round that uses the signal is moved.

    Parameters
    ----------
    problem : Problem
        The problem.
    agent : int
        Whose signal.
    by : float
        By how much its statistic moves.
    reading : int
        Which reading, online.

    Returns
    -------
    Move
        What differs.

    Raises
    ------
    PrivacyError
        With smooth sensitivity: a signal that moves changes the scale too.

    Examples
    --------
    >>> from veilsum import algorithms, families, networks, simulation
    >>> from veilsum.privacy import NetworkDP
    >>> mixing = networks.metropolis(networks.load("path:5"))
    >>> family = families.Normal(sigma=1.0)
    >>> source = simulation.SyntheticSignals(family, {"mu": 0.0}, mixing.size, seed=1)
    >>> privacy = NetworkDP(1.0, radius=1e-6)
    >>> problem = simulation.Problem(
    ...     mixing, algorithms.LearnNetwork(), family, source, privacy, rounds=3
    ... )
    >>> signal_moves(problem, agent=3, by=1.0, reading=2).impulses[2].tolist()
    [0.0, 0.0, 0.0, 0.5, 0.0]
    """
    if problem.privacy.reads_signals:
        raise PrivacyError(
            "with smooth sensitivity a signal that moves changes the scale too: the loss is not "
            "one number; audit the mechanism"
        )
    impulses = _no_impulses(problem)
    algorithm, last = problem.algorithm, problem.rounds
    rounds = [algorithm.enters(reading)] if algorithm.online else range(last + 1)
    for t in (t for t in rounds if t <= last):
        impulses[t, agent] = problem.algorithm.at(t).innovation * by
    first = int(np.argmax(impulses.any(axis=1)))
    return Move(f"the signal of agent {agent}", agent, first, impulses)


def exact_loss(problem: Problem, move: Move, view: View) -> float:
    """Return the supremum of the log-likelihood ratio of what is seen, at the problem's epsilon.

    Parameters
    ----------
    problem : Problem
        The problem.
    move : Move
        What differs between the two worlds.
    view : Transcript or Messages
        What the adversary sees.

    Returns
    -------
    float
        The exact privacy loss; infinite where no noise covers the move.

    Raises
    ------
    PrivacyError
        If nothing is guaranteed, so that there is nothing to audit, or the noise is not Laplace.

    Examples
    --------
    >>> from veilsum import algorithms, families, networks, simulation
    >>> from veilsum.privacy import NetworkDP
    >>> mixing = networks.metropolis(networks.load("path:5"))
    >>> family = families.Normal(sigma=1.0)
    >>> source = simulation.SyntheticSignals(family, {"mu": 0.0}, mixing.size, seed=1)
    >>> privacy = NetworkDP(1.0, radius=1e-6)
    >>> problem = simulation.Problem(
    ...     mixing, algorithms.LearnNetwork(), family, source, privacy, rounds=50
    ... )
    >>> moved = estimate_moves(problem, agent=3, moved=20)
    >>> round(exact_loss(problem, moved, Messages(((4, 50),))), 1)
    10.1
    """
    if isinstance(view, Transcript):
        return transcript_loss(problem, move, view)
    return message_loss(problem, move, view)


def transcript_loss(problem: Problem, move: Move, view: Transcript) -> float:
    """sum over i in C, u <= last of |m_iu| / (|noise_u| b_iu); the formula of the module."""
    seen, b = list(view.agents), scales(problem)
    total, shift = 0.0, algorithms.State(*np.zeros((2, problem.network.size)))
    for t in range(view.last + 1):
        passed = np.zeros(problem.network.size) if t == 0 else _passed_on(problem, t, shift).nu
        now = passed + move.impulses[t]
        total += _over(np.abs(now[seen]), abs(problem.algorithm.at(t).noise) * b[t, seen])
        now[seen] = 0.0  # the same in both worlds
        shift = algorithms.State(now, shift.nu)
    return total


def message_loss(problem: Problem, move: Move, view: Messages) -> float:
    """min { sum_k |z_k|/b_k : L z = m } with the noise of all agents unknown."""
    noises = np.array([problem.algorithm.at(t).noise for t in range(problem.rounds + 1)])
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
    noise, r = M m its shift and b the scale of its noise: the noise of all others is known.
    """
    seen = view.since(move.first)
    reach = [gains(problem, *message) for message in seen]
    M = np.linalg.inv([[g[s, j] if s < len(g) else 0.0 for j, s in seen] for g in reach])
    r = M @ [float((g * move.impulses[: len(g)]).sum()) for g in reach]
    scale = scales(problem)
    b = np.array([abs(problem.algorithm.at(t).noise) * scale[t, i] for i, t in seen])
    noisy = b > 0
    M, r, b = M[noisy], r[noisy], b[noisy]

    def score(outputs: Floats) -> Floats:
        e = outputs @ M.T
        # Rounded: its last bits distinguish the worlds where noise is drawn in floating point.
        return np.asarray(np.round(((np.abs(e) - np.abs(e - r)) / b).sum(axis=1), 6))

    return score


def gains(problem: Problem, agent: int, t: int) -> Floats:
    """(t + 1, agents): how much of what is added to agent k in round u reaches the message.

    Backwards: g_t = e_agent, g_u = (own I + mixing A)' g_{u+1} + momentum g_{u+2}.
    """
    g = np.zeros((t + 3, problem.network.size))
    g[t, agent] = 1.0
    for u in range(t - 1, -1, -1):
        now = problem.algorithm.at(u + 1)
        g[u] = now.own * g[u + 1] + now.mixing * (problem.network.at(u + 1).T @ g[u + 1])
        if u + 2 <= t:
            g[u] += problem.algorithm.at(u + 2).momentum * g[u + 2]
    return g[: t + 1]


@lru_cache(maxsize=4)
def scales(problem: Problem) -> Floats:
    """(rounds + 1, agents): b of every agent and round, 0 where the algorithm adds no noise.

    Where it is computed from the signals it is the least of those tried all over the support.
    """
    privacy = problem.privacy
    if not privacy.adds_noise:
        raise PrivacyError("nothing is guaranteed without privacy, so there is nothing to audit")
    if problem.algorithm.perturbs_links and privacy.hides_neighbours:
        raise PrivacyError(
            f"nothing is guaranteed for the noise on the links of {problem.algorithm.name}"
        )
    if privacy.perturbs_input:
        raise PrivacyError(
            f"mechanism {privacy.mechanism} perturbs the statistic and adds no Laplace noise, so "
            "this exact loss does not apply; audit_problem attacks it, and Mechanism.privacy_loss "
            "is its exact loss"
        )
    horizon = problem.horizon or problem.rounds
    made = plan(privacy, problem.family, problem.algorithm, problem.network, horizon)
    signals = np.unique(adjacent(problem.family, privacy.reach)) if made.reads_signals else [1.0]
    each = np.broadcast_to(signals, (problem.network.size, len(signals)))
    epsilon = min(problem.run_epsilons)
    b = np.zeros((problem.rounds + 1, problem.network.size))
    for t in range(problem.rounds + 1):
        if problem.algorithm.at(t).noise:
            b[t] = made.scale(each, epsilon, t).min(axis=1)
    b.setflags(write=False)
    return b


def _no_impulses(problem: Problem) -> Floats:
    return np.zeros((problem.rounds + 1, problem.network.size))


def _passed_on(problem: Problem, t: int, shift: algorithms.State) -> algorithms.State:
    """What a shift becomes in round t, by the algorithm itself."""
    zero = np.zeros(problem.network.size)
    return algorithms.step(
        problem.algorithm, t, shift, problem.network.at(t) @ shift.nu, zero, zero
    )


def _over(shift: Floats, spread: Floats) -> float:
    """sum shift/spread; a shift that nothing covers is infinite, no shift is 0."""
    bare = (spread == 0) & (shift > 0)
    if bare.any():
        return math.inf
    return float(np.divide(shift, spread, out=np.zeros_like(shift), where=shift > 0).sum())


def _programme(L: Floats, m: Floats) -> float:
    """max <g, m> subject to |L' g| <= 1, with L in units of its noise's scales."""
    linprog = _extras.load("scipy.optimize").linprog
    used = L[:, np.abs(L).max(axis=0) > 0].T
    both = np.concatenate([used, -used])
    found = linprog(-m, A_ub=both, b_ub=np.ones(len(both)), bounds=(None, None), method="highs")
    if found.status == 3:  # unbounded: a direction without noise
        return math.inf
    if found.status != 0:
        raise PrivacyError(f"the exact loss could not be computed: {found.message}")
    g = np.asarray(found.x) / max(1.0, float(np.abs(used @ found.x).max(initial=0.0)))
    return float(g @ m)
