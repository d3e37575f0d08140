"""Audit a problem: its algorithm, its noise and its guarantee, by attack.

`audit_problem` attacks a signal and `audit_neighbour` a neighbour's estimate by samples, with the
exact loss beside the bound where it is known. The exact loss needs no samples, so `worst_neighbours`
tries thousands of adversaries: each agent and each of its neighbours, moves early and late, the next
message, a late one alone, all of them, and those of two agents together. They are compared by the
loss over the claim for that adversary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from veilsum.auditing.attack import Ratio
from veilsum.auditing.events import Score
from veilsum.auditing.exact import (
    Messages,
    Transcript,
    View,
    adjacent,
    estimate_moves,
    exact_loss,
    ratio_score,
    scales,
    signal_moves,
)
from veilsum.auditing.lower_bound import FAULT
from veilsum.auditing.mechanism import MOST_EPSILON, AuditReport, additive, audit
from veilsum.auditing.sums import audit_sum, sum_likelihoods
from veilsum.auditing.transcripts import (
    TranscriptMechanism,
    heaviest_neighbour,
    moved_messages,
    transcript_mechanism,
    view_mechanism,
)
from veilsum.errors import PrivacyError
from veilsum.privacy import Guarantee, SecureParameters, Status, guarantee_of, network_cost
from veilsum.privacy.mechanisms import SecureMechanism
from veilsum.simulation import Problem

Floats = NDArray[np.float64]

ROUNDS = 3
STREAM_ROUNDS = 30  # of a stream whose readings are hidden together
AGENTS, NEIGHBOURS = 12, 3  # observed agents, and neighbours of each that move
MOST_NUMBERS = 5_000  # agents times rounds of a run, for it to be sampled


class AdversaryKind(StrEnum):
    """What is seen after an estimate moved."""

    NEXT = "next message"
    LAST = "last message"
    ALL = "all messages"
    TWO = "all of two agents"


class WorstAdversary(NamedTuple):
    """An adversary, its exact loss, and the epsilon claimed against it."""

    loss: float
    claim: float
    neighbour: int
    moved: int
    view: View
    tried: int = 1  # adversaries of its kind, of which it is the worst


def audit_problem(
    problem: Problem,
    trials: int | None = None,
    rounds: int = ROUNDS,
    rng: int = 0,
    name: str = "",
    fault: float = FAULT,
    colluders: int | None = None,
    drawn_exactly: bool = False,
) -> AuditReport:
    """Attack the signal of the best-connected agent through all that it sends in `rounds` rounds.

    Pairs of signals are tried all over the family's support, its edges included. Where the scale is
    public, the report has the exact loss against whoever sees all messages of all agents. A sum
    over a roster is attacked as `audit_sum` does, one query of it, of a masked one a session; against
    more colluders than it covers nothing is claimed, and the report compares with
    `SecureParameters.epsilon_against`.

    Parameters
    ----------
    problem : Problem
        The problem, audited at its smallest epsilon.
    trials : int, optional
        Runs a side; as many as `fault` needs without it.
    rounds : int
        How many rounds of messages are seen; at least 30 of a stream whose readings move together.
    rng : int
        The seed.
    name : str
        Of the report; the algorithm's without it.
    fault : float
        The fraction of the noise that, if it were missing, must be found.
    colluders : int, optional
        How many members collude against a sum over a roster; those that its claim covers if left out.
    drawn_exactly : bool
        Whether the noise of such a sum is drawn as agents draw it.

    Returns
    -------
    AuditReport
        The claim beside the evidence.

    Raises
    ------
    PrivacyError
        If nothing is guaranteed, no two signals are adjacent, or colluders or exact draws are asked
        for and noise is local.

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
    >>> audit_problem(problem, trials=2_000).refuted
    False
    """
    todo = at_smallest_epsilon(problem)
    if todo.privacy.summed:
        made = todo.plan.mechanism(todo.privacy.epsilon, 1)
        assert isinstance(made, SecureMechanism)
        named = name or todo.algorithm.name
        report = audit_sum(made.terms, colluders, trials, rng, named, fault, drawn_exactly)
        return _as_covered(report, made.terms, colluders)
    if colluders is not None:
        raise PrivacyError(
            f"colluders = {colluders} for {todo.algorithm.name}, whose noise is local: all other "
            "agents together are covered; leave colluders out"
        )
    if drawn_exactly:
        raise PrivacyError(
            f"drawn_exactly is for sums over a roster, and the noise of {todo.algorithm.name} is local; "
            "leave it out"
        )
    pairs = adjacent(todo.family, todo.privacy.reach)
    if not pairs:
        raise PrivacyError(f"no two signals of {todo.family.name} are {todo.privacy.reach:g} apart")
    agent = best_connected(todo)
    if todo.privacy.batches is not None:  # see a batch of more than one reading close
        rounds = max(rounds, todo.privacy.batches.first_of_several(todo.rounds))
    if todo.privacy.stream is not None:
        rounds = max(rounds, STREAM_ROUNDS)
    rounds = min(rounds, todo.rounds)
    reading = 1 if todo.privacy.batches is None else _latest(todo, rounds)
    last = rounds if todo.privacy.stream is not None else None  # all readings that are seen move
    background = pairs[len(pairs) // 2][0]

    def seen(what: Problem, bare: bool = False) -> TranscriptMechanism:
        return transcript_mechanism(
            what, agent, rounds, background, reading=reading, bare=bare, last=last
        )

    def at_more(fault: float) -> TranscriptMechanism:
        epsilon = min(todo.privacy.epsilon / (1 - fault), MOST_EPSILON)
        return seen(replace(todo, privacy=todo.privacy.at(epsilon)))

    bare, whole = seen(todo, bare=True), seen(todo)

    def centre(signal: float) -> Floats:
        return np.asarray(bare(signal, 1, np.random.default_rng(0))[0])

    known = todo.family.dimension > 1 and not todo.privacy.perturbs_input
    return audit(
        whole, pairs, signal_claim(todo, agent), todo.privacy.delta, trials, rng,
        name=name or todo.algorithm.name, fault=fault, exact=_exact_signal(todo, agent, pairs),
        ratio=_message_ratio(todo, agent, reading, centre) if known else None,
        weakened=at_more if todo.privacy.perturbs_input else additive(whole, centre),
    )  # fmt: skip


def audit_likelihoods(problem: Problem, name: str = "") -> AuditReport | None:
    """Attack the signal of the best-connected agent by the likelihoods of all messages of all agents.

    Nothing is sampled: the loss of the worst pair of signals is exact, and the same each time. A sum
    over a roster is attacked as `sum_likelihoods` does, one query of it.

    Parameters
    ----------
    problem : Problem
        The problem, audited at its smallest epsilon.
    name : str
        Of the report; the algorithm's without it.

    Returns
    -------
    AuditReport or None
        The claim beside the evidence; None where the likelihoods are not known, or there is a delta,
        of which a loss at delta = 0 says nothing.

    Raises
    ------
    PrivacyError
        If nothing is guaranteed.

    Examples
    --------
    >>> from veilsum import algorithms, families, networks, simulation
    >>> from veilsum.privacy import SignalDP
    >>> mixing = networks.metropolis(networks.load("path:5"))
    >>> family = families.Normal(sigma=1.0)
    >>> source = simulation.SyntheticSignals(family, {"mu": 0.0}, mixing.size, seed=1)
    >>> problem = simulation.Problem(
    ...     mixing, algorithms.Learn(), family, source, SignalDP(1.0, radius=0.5), rounds=3
    ... )
    >>> report = audit_likelihoods(problem)
    >>> report.verdict, round(report.exact, 6)
    ('not refuted', 1.0)
    """
    todo = at_smallest_epsilon(problem)
    if todo.privacy.delta:
        return None
    if todo.privacy.summed:
        made = todo.plan.mechanism(todo.privacy.epsilon, 1)
        assert isinstance(made, SecureMechanism)
        return sum_likelihoods(made.terms, name=name or todo.algorithm.name)
    pairs, agent = adjacent(todo.family, todo.privacy.reach), best_connected(todo)
    loss = _exact_signal(todo, agent, pairs) if pairs else None
    if loss is None:
        return None
    return AuditReport(
        name=name or todo.algorithm.name,
        epsilon=signal_claim(todo, agent),
        delta=0.0,
        lower_bound=loss,
        delta_lower_bound=0.0,
        confidence=1.0,
        trials=0,
        pair=f"the worst of {len(pairs):,} pairs of signals of agent {agent}",
        event="all messages of all agents",
        smallest_fault=0.0,
        exact=loss,
    )


def _message_ratio(
    problem: Problem, agent: int, reading: int, centre: Callable[[float], Floats]
) -> Ratio:
    """The exact log-likelihood ratio of the message in which a signal enters, of several components.

    Each has its own Laplace noise around what would be sent without it, so that their ratios add up:
    sum over components of (|e - r| - |e|)/b.
    """
    t = signal_moves(problem, agent, 1.0, reading).first
    b = abs(problem.algorithm.at(t).noise) * scales(problem)[t, agent]
    size = problem.family.dimension
    entered = slice(t * size, (t + 1) * size)

    def ratio(first: float, second: float) -> Score:
        here, there = (centre(side)[entered] for side in (first, second))

        def score(outputs: Floats) -> Floats:
            e, r = outputs[:, entered] - here, there - here
            return np.asarray(np.round(((np.abs(e - r) - np.abs(e)) / b).sum(axis=1), 6))

        return score

    return ratio


def _as_covered(report: AuditReport, terms: SecureParameters, colluders: int | None) -> AuditReport:
    """The report, compared with what is stated where more collude than are covered."""
    if colluders is None or colluders <= terms.colluders:
        return report
    return replace(
        report,
        epsilon=terms.epsilon_against(colluders),
        delta_lower_bound=0.0,  # it was bounded at the epsilon that is claimed
        smallest_fault=1.0,
        asked_fault=None,
        beyond=f"{colluders} colluders are beyond the {terms.colluders} covered",
    )


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
    """Attack a neighbour's estimate of round `moved`, moved by 1, which Network DP hides.

    It is compared with the claim for exactly that adversary (`privacy.network_cost`).

    Parameters
    ----------
    problem : Problem
        The problem, audited at its smallest epsilon.
    trials : int, optional
        Runs a side; as many as `fault` needs without it.
    moved : int
        The round whose estimate moves.
    view : Transcript or Messages, optional
        What the adversary sees; the next message of the best-connected agent without it.
    rng : int
        The seed.
    name : str
        Of the report.
    fault : float
        The fraction of the noise that, if it were missing, must be found.
    neighbour : int, optional
        Whose estimate moves; the neighbour with the largest weight without it.

    Returns
    -------
    AuditReport
        The claim beside the evidence.

    Raises
    ------
    PrivacyError
        If nothing is guaranteed, the view ends before the move, or includes the neighbour.

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
    >>> report = audit_neighbour(problem, trials=2_000)
    >>> report.refuted, report.exact <= report.epsilon
    (False, True)
    """
    todo = at_smallest_epsilon(problem)
    view = view or Transcript((best_connected(todo),), moved + 1)
    if neighbour is None:
        neighbour = heaviest_neighbour(todo, view.agents[0], moved + 1)
    _check(todo, moved, view, neighbour)
    move = estimate_moves(todo, neighbour, moved)
    known = ratio_score(todo, move, view) if isinstance(view, Transcript) else None
    seen, moves = view_mechanism(todo, move, view), moved_messages(todo, move, view)
    return audit(
        seen, [(0.0, 1.0)], claim_for(todo, moved, view),
        todo.privacy.delta, trials, rng, name=name or f"{problem.algorithm.name}, neighbour",
        fault=fault, exact=exact_loss(todo, move, view),
        ratio=None if known is None else lambda *_: known,
        weakened=additive(seen, lambda part: part * moves),
    )  # fmt: skip


def worst_neighbours(
    problem: Problem,
    name: str = "",
    trials: int | None = None,
    rng: int = 0,
    fault: float = FAULT,
    sampled: bool = False,
) -> list[AuditReport]:
    """Report on the worst adversary of each kind against neighbours' estimates, by exact losses.

    Parameters
    ----------
    problem : Problem
        The problem, audited at its smallest epsilon.
    name : str
        Of the reports.
    trials, rng, fault
        As of `audit_neighbour`, where samples are taken.
    sampled : bool
        Whether single messages are sampled as well, in networks and runs that are small enough.

    Returns
    -------
    list of AuditReport
        One for each kind of adversary.

    Raises
    ------
    PrivacyError
        If nothing is guaranteed.

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
    >>> [report.refuted for report in worst_neighbours(problem)]
    [False, False, False, False]
    """
    single = (AdversaryKind.NEXT, AdversaryKind.LAST)
    reports = []
    for kind, found in worst_adversaries(problem).items():
        title = f"{name or f'{problem.algorithm.name}, neighbour'}: {kind}"
        small = problem.network.size * found.view.last <= MOST_NUMBERS
        if sampled and small and kind in single:
            reports.append(
                audit_neighbour(
                    problem, trials, found.moved, found.view, rng, title, fault, found.neighbour
                )
            )
        else:
            reports.append(_report(title, found, problem))
    return reports


def worst_adversaries(problem: Problem) -> dict[AdversaryKind, WorstAdversary]:
    """For each kind of adversary, the one tried whose exact loss is largest for its claim."""
    todo = at_smallest_epsilon(problem)
    guarantee = _guarantee(todo)
    found: dict[AdversaryKind, list[WorstAdversary]] = {}
    for kind, neighbour, moved, view in adversaries(todo):
        loss = exact_loss(todo, estimate_moves(todo, neighbour, moved), view)
        claim = claim_for(todo, moved, view, guarantee)
        found.setdefault(kind, []).append(WorstAdversary(loss, claim, neighbour, moved, view))
    return {
        kind: max(tried, key=lambda one: one.loss / one.claim)._replace(tried=len(tried))
        for kind, tried in found.items()
    }


def adversaries(problem: Problem) -> Iterator[tuple[AdversaryKind, int, int, View]]:
    """(kind, whose estimate moves, in which round, what is seen)."""
    last = problem.rounds
    for moved in sorted({0, 1, last // 4, last // 2, last - 1} & set(range(last))):
        A = problem.network.at(moved + 1)
        for agent in _observed_agents(np.diff(A.indptr)):
            for neighbour in _neighbours(A, agent):
                for kind, view in _views(problem, A, agent, neighbour, moved):
                    yield kind, neighbour, moved, view


def claim_for(
    problem: Problem, moved: int, view: View, guarantee: Guarantee | None = None
) -> float:
    """Epsilon claimed against whoever sees these messages, for an estimate that moves in a round.

    The guarantee (derived here unless it is given) states the cost of the next message;
    `privacy.network_cost` how many of those all messages up to the last one seen cost. What is
    claimed and refuted is claimed for all messages alike.
    """
    stated = guarantee or _guarantee(problem)
    each = sum(epsilon_fraction(problem, agent) for agent in view.agents)
    if stated.status is Status.REFUTED or stated.event is None:
        return each * min(problem.run_epsilons)
    return each * stated.event.epsilon * network_cost(problem.algorithm, moved, view.last)


def signal_claim(problem: Problem, agent: int) -> float:
    """Epsilon claimed for a signal of the agent: what the guarantee states, times its fraction.

    Where nothing is guaranteed it is what was asked for, which an attack then refutes.
    """
    stated = _guarantee(problem)
    alone = stated.signals or stated
    epsilon = min(problem.run_epsilons) if alone.status is Status.NONE else alone.epsilon
    return epsilon_fraction(problem, agent) * epsilon


def _guarantee(problem: Problem) -> Guarantee:
    """The guarantee at the smallest epsilon, for an agent with the largest fraction of it."""
    todo, rounds = at_smallest_epsilon(problem), problem.horizon or problem.rounds
    return guarantee_of(todo.privacy, todo.algorithm, rounds, todo.family)


def epsilon_fraction(problem: Problem, agent: int) -> float:
    """The agent's epsilon over the largest, which the guarantee is for."""
    fractions = problem.privacy.budget_fractions
    return float(fractions[agent] / max(fractions)) if fractions else 1.0


def best_connected(problem: Problem) -> int:
    """Return the agent with most links in round 1.

    Parameters
    ----------
    problem : Problem
        The problem.

    Returns
    -------
    int
        Its index.

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
    >>> best_connected(problem)
    1
    """
    return int(np.argmax(np.diff(problem.network.at(1).indptr)))


def at_smallest_epsilon(problem: Problem) -> Problem:
    """The same problem at its smallest epsilon alone."""
    if not problem.privacy.adds_noise:
        raise PrivacyError("nothing is guaranteed without privacy, so there is nothing to audit")
    return replace(problem, privacy=problem.privacy.at(min(problem.run_epsilons)), epsilons=())


def _exact_signal(problem: Problem, agent: int, pairs: list[tuple[float, float]]) -> float | None:
    """The exact loss of the worst pair against all messages of all agents.

    Where M(xi) takes the place of xi, all messages are computed from it, and give it away: the loss
    is the mechanism's own.
    """
    if problem.privacy.reads_signals or problem.algorithm.perturbs_links:
        return None
    xi = problem.family.columns(np.array(pairs)).reshape(len(pairs), 2, -1)
    if problem.privacy.perturbs_input:
        mechanism = problem.plan.mechanism(min(problem.run_epsilons), 1)
        return max(mechanism.loss_between(first, second) for first, second in xi)
    by = float(np.abs(xi[:, 0] - xi[:, 1]).sum(axis=-1).max())
    everyone = Transcript(tuple(range(problem.network.size)), problem.rounds)
    readings = {1, _latest(problem, problem.rounds)}
    return max(
        exact_loss(problem, signal_moves(problem, agent, by, reading), everyone)
        for reading in readings
    )


def _latest(problem: Problem, rounds: int) -> int:
    """The last reading that has entered after some rounds; 1 where there is one signal."""
    if not problem.algorithm.online:
        return 1
    entered = (reading for reading in range(rounds, 0, -1))
    return next((k for k in entered if problem.algorithm.enters(k) <= rounds), 1)


def _check(problem: Problem, moved: int, view: View, neighbour: int) -> None:
    if not 0 <= moved < view.last <= problem.rounds:
        raise PrivacyError(
            f"an estimate of round {moved} is seen in later rounds, up to {problem.rounds}; "
            f"found round {view.last}"
        )
    if neighbour in view.agents:
        raise PrivacyError(
            f"agent {neighbour} is seen itself, so its estimate is not hidden; view other agents"
        )


def _report(name: str, worst: WorstAdversary, problem: Problem) -> AuditReport:
    return AuditReport(
        name=name,
        epsilon=worst.claim,
        delta=problem.privacy.delta,
        lower_bound=0.0 if problem.privacy.delta else worst.loss,  # none is derived at a delta
        delta_lower_bound=0.0,
        confidence=1.0,
        trials=0,
        pair=f"an estimate of round {worst.moved} that moves by 1",
        event=f"{worst.view}, the worst of {worst.tried:,} for its claim",
        smallest_fault=0.0,
        exact=worst.loss,
    )


def _views(
    problem: Problem, A: Any, agent: int, neighbour: int, moved: int
) -> Iterator[tuple[AdversaryKind, View]]:
    last = problem.rounds
    yield AdversaryKind.NEXT, Transcript((agent,), moved + 1)
    if moved + 1 == last:
        return
    yield AdversaryKind.LAST, Messages(((agent, last),))
    yield AdversaryKind.ALL, Transcript((agent,), last)
    for other in [k for k in _neighbours(A, neighbour) if k != agent][:1]:
        yield AdversaryKind.TWO, Transcript((agent, other), last)


def _observed_agents(degrees: NDArray[Any]) -> list[int]:
    """The agents with most links, and with fewest."""
    order = np.argsort(degrees, kind="stable")
    half = AGENTS // 2
    return [int(i) for i in dict.fromkeys([*order[:half], *order[-half:]])]


def _neighbours(A: Any, agent: int) -> list[int]:
    """The neighbours of an agent with the largest weights."""
    row = A[[agent]].tocoo()
    pairs = sorted(zip(-row.data, row.col, strict=True))
    return [int(j) for weight, j in pairs if j != agent and weight < 0][:NEIGHBOURS]
