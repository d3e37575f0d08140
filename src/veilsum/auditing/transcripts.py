"""What an adversary sees of a run, sampled run after run: the mechanism that an audit attacks.

- `transcript_mechanism` runs the simulator itself with a planted signal, and returns the messages
  of one agent or of all agents: algorithm, plan and noise are attacked together.
- `view_mechanism` takes every agent through the algorithm's own rounds with the calibrated noise,
  with a `Move` added where it happens. By linearity all that the adversary knows (the signals, the
  noise of others where the view includes it) can be subtracted, and is.

After R rounds an agent's estimate depends on agents at most R hops away, so its first R messages
can be reproduced exactly on that ball: a few agents instead of thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras, algorithms
from veilsum._types import Family, Kind, Labels, Network
from veilsum.auditing.exact import Messages, Move, Transcript, View, estimate_moves, scales
from veilsum.errors import PrivacyError
from veilsum.privacy import PrivacyRequest
from veilsum.simulation import Problem, Record, simulate

Floats = NDArray[np.float64]
TranscriptMechanism = Callable[[float, int, np.random.Generator], Floats]

MOST_TRACED = 20_000_000  # numbers at once: estimates of all agents, rounds and runs of a batch
MOST_SAMPLED = 4_000_000  # numbers at once: estimates of all agents and runs of a batch


@dataclass(frozen=True, eq=False)
class Ball:
    """The rows and columns of a network's weights within some hops of an agent, or of several.

    Rows at the boundary have lost weight: what is computed there is wrong, and reaches the centre
    only after the rounds that the ball is for.

    Attributes
    ----------
    network : Mixing
        The whole network.
    members : ndarray
        The agents inside.
    centre : int
        The position of the agent among the members.

    Examples
    --------
    >>> from veilsum import networks
    >>> inside = ball(networks.metropolis(networks.load("path:9")), 4, hops=2)
    >>> inside.members.tolist(), inside.centre, inside.size
    ([2, 3, 4, 5, 6], 2, 5)
    """

    network: Network
    members: NDArray[np.int64]
    centre: int

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.members)

    @property
    def labels(self) -> Labels:
        """Their labels."""
        return [self.network.labels[i] for i in self.members]

    @property
    def kind(self) -> Kind:
        """As the whole network."""
        return self.network.kind

    @property
    def scheme(self) -> str:
        """As the whole network."""
        return self.network.scheme

    @property
    def graph(self) -> None:
        """Not known: the members need not be connected."""
        return

    @property
    def dynamic(self) -> bool:
        """As the whole network."""
        return self.network.dynamic

    @property
    def largest_neighbour_weight(self) -> NDArray[np.float64]:
        """Of the whole network, so that the noise is the same."""
        return np.asarray(self.network.largest_neighbour_weight)[self.members]

    @property
    def stationary(self) -> NDArray[np.float64]:
        """Uniform: no transcript depends on it."""
        return np.full(self.size, 1 / self.size)

    def at(self, t: int) -> Any:
        """The weights of round t between members."""
        inner = self.network.at(t)[self.members][:, self.members].tocsr()
        inner.indices, inner.indptr = inner.indices.astype(np.int32), inner.indptr.astype(np.int32)
        return inner


def ball(network: Network, agents: int | Sequence[int], hops: int) -> Ball:
    """Return the part of a network that can influence an agent, or several, in `hops` rounds.

    Parameters
    ----------
    network : Mixing
        The network, or a schedule.
    agents : int or sequence of int
        The agents.
    hops : int
        The number of rounds.

    Returns
    -------
    Ball
        A network of the members alone.

    Examples
    --------
    >>> from veilsum import networks
    >>> ball(networks.metropolis(networks.load("path:9")), [0, 8], hops=1).members.tolist()
    [0, 1, 7, 8]
    """
    reached, inner = np.zeros(network.size), np.atleast_1d(agents)
    reached[inner] = 1.0
    rounds = range(1, hops + 1 if network.dynamic else 2)
    links = [abs(network.at(t)) for t in rounds]
    for _ in range(hops):
        if reached.all():
            break
        near = sum(A @ reached + A.T @ reached for A in links)
        reached = np.minimum(reached + near, 1.0)
    members = np.flatnonzero(reached)
    return Ball(network, members, int(np.searchsorted(members, inner[0])))


@dataclass(frozen=True, eq=False)
class PlantedSignal:
    """A source of signals: the same background in every run, with one agent's signal replaced.

    Attributes
    ----------
    background : ndarray
        The signal of every agent.
    agent : int
        Whose signal is replaced.
    signal : float
        By what, in the rounds from `reading` to `last`.
    varies, measured : bool
        As in `SignalSource`: the signals are the same in every run, and are no real data.
    reading : int
        The round of the signal that is replaced.
    last : int, optional
        The round of the last one, where a whole stream is replaced.

    Examples
    --------
    >>> PlantedSignal(np.zeros(3), agent=1, signal=5.0).signals(1, replicas=1).ravel().tolist()
    [0.0, 5.0, 0.0]
    """

    background: Floats  # (agents,)
    agent: int
    signal: float
    varies: bool = False
    measured: bool = False
    reading: int = 1
    last: int | None = None

    def signals(self, t: int, replicas: int) -> Floats:  # noqa: ARG002 - one set for all
        """Replace the readings that change; all others are background."""
        signals = self.background.copy()
        if self.reading <= t <= (self.last or self.reading):
            signals[self.agent] = self.signal
        return signals[:, None]

    def expected(self, family: Family, rounds: int) -> Floats:  # noqa: ARG002 - not used
        """Return a target that no transcript depends on."""
        return np.zeros(family.dimension)

    def check(self, family: Family, rounds: int) -> None:
        """Planted signals are chosen inside the support."""


def transcript_mechanism(
    problem: Problem,
    agent: int,
    rounds: int,
    background: float,
    everyone: bool = False,
    reading: int = 1,
    bare: bool = False,
    last: int | None = None,
) -> TranscriptMechanism:
    """Return a mechanism for `audit`: planted signal -> messages of rounds 0..rounds, a row per run.

    Parameters
    ----------
    problem : Problem
        The problem.
    agent : int
        Whose signal is planted.
    rounds : int
        How many rounds are seen.
    background : float
        The signal of all other agents.
    everyone : bool
        Whether the messages of all agents are seen, or the agent's only.
    reading : int
        Which reading is planted; offline there is the first only.
    bare : bool
        Whether the messages are what would be sent without noise.
    last : int, optional
        The last reading that is planted, of several.

    Returns
    -------
    callable
        `mechanism(signal, trials, rng)`.

    Raises
    ------
    PrivacyError
        If signals are not single numbers.

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
    >>> mechanism = transcript_mechanism(problem, agent=2, rounds=1, background=0.0)
    >>> mechanism(1.0, 4, np.random.default_rng(1)).shape
    (4, 2)
    """
    if problem.family.signal_shape:
        raise PrivacyError("transcripts are audited for signals that are single numbers")
    if not everyone:
        inside = ball(problem.network, agent, rounds)
        privacy = among(problem.privacy, inside.members)
        problem, agent = replace(problem, network=inside, privacy=privacy), inside.centre
    labels = list(problem.network.labels)
    record = Record(every=1, agents=None if everyone else [labels[agent]])
    batch = max(1, MOST_TRACED // (len(labels) * (rounds + 2)))
    signals = np.full(len(labels), background)

    def mechanism(signal: float, trials: int, rng: np.random.Generator) -> Floats:
        parts = []
        for first in range(0, trials, batch):
            run = replace(
                problem,
                source=PlantedSignal(signals, agent, signal, reading=reading, last=last),
                rounds=max(rounds, 1),
                horizon=problem.rounds,
                epsilons=(),
                replicas=min(batch, trials - first),
                seed=int(rng.integers(2**63)),
            )
            parts.append(_sent(run, record, bare)[:, : rounds + 1].reshape(run.replicas, -1))
        return np.concatenate(parts)

    return mechanism


def among(privacy: PrivacyRequest, members: NDArray[np.int64]) -> PrivacyRequest:
    """The same request for some of the agents, with their fractions of epsilon."""
    if privacy.budget_fractions is None:
        return privacy
    return replace(privacy, budget_fractions=tuple(privacy.budget_fractions[i] for i in members))


def _sent(run: Problem, record: Record, bare: bool) -> Floats:
    """The messages, as (run, round, agent, component)."""
    found = simulate(run, record)
    sent = found.noiseless if bare else found.private
    assert sent is not None
    return np.moveaxis(sent if bare else sent[:, :, 0], 2, 0)


def view_mechanism(problem: Problem, move: Move, view: View) -> TranscriptMechanism:
    """Return a mechanism for `audit`: fraction of the move -> the messages seen, a row per run.

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
    callable
        `mechanism(fraction, trials, rng)`; its inputs 0 and 1 are the two worlds.

    Raises
    ------
    PrivacyError
        If the noise is not Laplace, which is what this draws.

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
    >>> mechanism = view_mechanism(problem, estimate_moves(problem, 3, 1), Transcript((4,), 3))
    >>> mechanism(1.0, 4, np.random.default_rng(1)).shape
    (4, 3)
    """
    problem, move, view = _near(problem, move, view)
    seen = view.since(move.first) if isinstance(view, Transcript) else view.messages
    unknown = _unknown(problem, move, view)
    batch = max(1, MOST_SAMPLED // problem.network.size)

    def mechanism(part: float, trials: int, rng: np.random.Generator) -> Floats:
        rows = []
        for first in range(0, trials, batch):
            runs = min(batch, trials - first)
            rows.append(_run(problem, part * move.impulses, unknown, seen, runs, rng))
        return np.concatenate(rows)

    return mechanism


def moved_messages(problem: Problem, move: Move, view: View) -> Floats:
    """By how much the messages of `view_mechanism` move, without noise."""
    problem, move, view = _near(problem, move, view)
    seen = view.since(move.first) if isinstance(view, Transcript) else view.messages
    silent = np.zeros_like(_unknown(problem, move, view))
    return np.asarray(_run(problem, move.impulses, silent, seen, 1, np.random.default_rng(0))[0])


def message_mechanism(problem: Problem, agent: int, t: int) -> TranscriptMechanism:
    """Return a mechanism for `audit`: the message of round t after a neighbour's estimate moved.

    It is the estimate of the neighbour with the largest weight that moves, in round t - 1. All that
    came before is known to the adversary.

    Parameters
    ----------
    problem : Problem
        The problem.
    agent : int
        Whose message is seen.
    t : int
        The round of the message.

    Returns
    -------
    callable
        `mechanism(fraction, trials, rng)`; its inputs 0 and 1 are the two worlds.

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
    >>> message_mechanism(problem, agent=4, t=2)(1.0, 4, np.random.default_rng(1)).shape
    (4, 2)
    """
    move = estimate_moves(problem, heaviest_neighbour(problem, agent, t), t - 1)
    return view_mechanism(problem, move, Transcript((agent,), t))


def heaviest_neighbour(problem: Problem, agent: int, t: int) -> int:
    """The neighbour with the largest weight in an agent's round t."""
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
    noise = _extras.load("veilsum.simulation.noise")  # loading the compiler takes a while
    seed, agents = int(rng.integers(2**63)), np.arange(problem.network.size)
    xi, out = np.zeros((len(agents), runs)), np.empty((runs, len(seen)))
    state = algorithms.State(xi, xi)
    for t in range(max(t for _, t in seen) + 1):
        d = np.zeros_like(xi)
        noisy = np.flatnonzero(b[t])
        if noisy.size:
            streams = np.arange(runs)[None, :]
            d[noisy] = b[t, noisy, None] * noise.laplace(seed, t, noisy[:, None], streams)
        if t == 0:
            state = algorithms.init(problem.algorithm, xi, d)
        else:
            mixed = problem.network.at(t) @ state.nu
            state = algorithms.step(problem.algorithm, t, state, mixed, xi, d)
        if impulses[t].any():
            state = algorithms.State(state.nu + impulses[t][:, None], state.before)
        for k, (agent, when) in enumerate(seen):
            if when == t:
                out[:, k] = state.nu[agent]
    return out


def _near(problem: Problem, move: Move, view: View) -> tuple[Problem, Move, View]:
    """The same on the part of the network that can influence the messages."""
    inside = ball(problem.network, view.agents, view.last)
    if inside.size == problem.network.size:
        return problem, move, view
    place = {int(member): k for k, member in enumerate(inside.members)}
    near = replace(problem, network=inside, privacy=among(problem.privacy, inside.members))
    impulses = move.impulses[:, inside.members]
    moved = replace(move, agent=place.get(move.agent, -1), impulses=impulses)
    if isinstance(view, Transcript):
        return near, moved, replace(view, agents=tuple(place[i] for i in view.agents))
    return near, moved, Messages(tuple((place[i], t) for i, t in view.messages))
