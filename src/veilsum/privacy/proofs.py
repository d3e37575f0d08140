"""What an algorithm guarantees under a privacy request, derived from its coefficients.

- A statistic that enters a round without noise is released as it is: nothing is guaranteed.
- A statistic that enters once, with noise that covers it, is protected in all messages, which are
  post-processing of that release; one that enters k times must divide its budget by k.
- Neighbours' estimates are protected in the next message if noise of its round covers their
  weight; what later messages cost is bounded by `network_cost`.
- The published noise of log s is proved or refuted by the delta that it spends on the domain of the
  family (`published`), which depends on the public floor and on epsilon.
- Where no noise keeps the guarantee for the family, `plan` says why, and nothing is guaranteed.

- Readings in batches enter once as well, in the sum of their batch, which moves by what one of them
  moves; what several readings of a batch cost together is in `batches`.

The rules hold for custom algorithms as well.

The cost of later messages (Network DP)
    Let neighbour j's estimate of round s move by at most 1 in l1 norm, and let the adversary see
    the messages of agent i, the estimates nu_i,u. Fix the noise of all others and one transcript of
    i. In both worlds i then sends the same numbers, so only the others' estimates differ, by D_u,
    with D_s = 1 at j. The difference follows the algorithm with i fixed, and a doubly stochastic A
    does not increase an l1 norm:

        n_s = 1,    n_u = (|own_u| + |mixing_u|) n_{u-1} + |momentum_u| n_{u-2}    >=  ||D_u||_1

    Message u of agent i moves by |mixing_u| |sum_{k != i} a_ik D_k,u-1| <= |mixing_u| max_k a_ik
    n_{u-1}, and hides it in |noise_u| Lap(b) with b >= |mixing_u/noise_u| max_k a_ik / eps: the
    message costs at most eps n_{u-1}. All messages of rounds s+1 .. t together cost at most

        eps sum_{u=s+1}^{t} n_{u-1},

    and so does any function of them, the single message of round t among others. For learn-network
    and learn n_{u-1} = s/(u-1), for naive-network it is 1. Messages of k agents together: fix all
    k; each costs at most that, so k times as much. (For one agent there is another bound, for any
    number of rounds: what reaches i leaves the rest, so learn-network costs at most
    eps s/max(max_k a_ik, Delta) in all.)

    If j is off by up to 1 in every round, the same argument in the sup norm (for own, mixing >= 0
    with own + mixing <= 1) bounds each further message by eps (1 - a_ii)/max_k a_ik: up to eps
    times the number of i's neighbours.

Stopping within a tolerance
    To stop, agents exchange the least and largest estimate within 0, 1, 2, ... hops: values of
    estimates without fresh noise. Where signals are protected these are computed from releases, and
    cost nothing. Network DP protects the estimates themselves: the range that one neighbour passes
    on to another is the estimate that was to be hidden.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veilsum import _validate
from veilsum._numbers import upward
from veilsum._statistic import Status
from veilsum._types import Family
from veilsum._warn import warn
from veilsum.algorithms.base import ALGORITHMS, DOUBLY, Algorithm
from veilsum.algorithms.table import CoefficientTable, coefficient_table
from veilsum.errors import PrivacyError, PrivacyWarning, VeilsumError
from veilsum.families.support import Metric, Support, number
from veilsum.privacy.accounting import PrivacyEvent, Span, spent
from veilsum.privacy.guarantee import (
    Adversary,
    Guarantee,
    RunReleases,
    Sees,
    StreamReleases,
    Unit,
)
from veilsum.privacy.planning import InputPlan, Plan, SecurePlan, StreamPlan, plan
from veilsum.privacy.published import worst_pair
from veilsum.privacy.requests import (
    SMOOTH,
    SMOOTH_AS_PUBLISHED,
    PrivacyRequest,
    Protects,
    SecureSumDP,
    SignalDP,
)
from veilsum.privacy.secure import SecureParameters

POST_PROCESSING = (
    "each signal is noised once and all later messages are computed from what was released"
)
STOPPING_ADVICE = (
    "the messages that agree on when to stop carry neighbours' estimates without noise, which "
    "Network DP guarantees to hide; leave tolerance out and run all rounds, or protect the signal"
)
IN_BATCHES = (
    "each reading is in one batch, whose sum moves by no more than the reading and is noised once "
    "({batches}), and all later messages are computed from what was released"
)
IN_A_STREAM = (
    "each reading is noised once, with noise that grows along the stream so that the divergences of all "
    "{T} readings add up to that of one release, and all later messages are computed from what was released"
)
SLACK = 1 - 1e-12  # of comparisons between floats that should be equal


class Assessment(NamedTuple):
    """The status of a guarantee, why, and which erratum explains it."""

    status: Status
    reason: str
    erratum: int | None = None


class WorstMove(NamedTuple):
    """The round in which a moved estimate costs most, and what its later messages cost."""

    moved: int
    cost: float  # in multiples of the cost of the next message


def guarantee_of(
    privacy: PrivacyRequest, algorithm: Algorithm, rounds: int = 100, family: Family | None = None
) -> Guarantee:
    """Derive what an algorithm guarantees under a privacy request, over a number of rounds.

    The guarantee is for ideal noise, real numbers of the stated distribution; agents, which sample
    exactly, state the same for the bits that they release (`Guarantee.released_exactly`).

    Parameters
    ----------
    privacy : PrivacyRequest
        The privacy request.
    algorithm : Algorithm
        The algorithm.
    rounds : int
        How many rounds are run: the coefficients of every round are checked.
    family : Family, optional
        The family of the signals. Without it, its sensitivity is taken to hold.

    Returns
    -------
    Guarantee
        For one reading and, with Network DP, a neighbour's estimate of one round, against whoever
        sees the next message of an agent; `for_transcript` gives all messages of an agent.

    Raises
    ------
    AlgorithmError
        If a coefficient or a sensitivity of the algorithm is not a finite number.

    Examples
    --------
    >>> from veilsum.algorithms import Average
    >>> guarantee_of(SignalDP(epsilon=1.0), Average()).status
    <Status.PROVED: 'proved'>
    """
    if not privacy.adds_noise:
        return Guarantee(
            float("inf"), 0.0, Unit(0.0), Adversary(Sees.EVERYONE), Status.NONE, "no noise is added"
        )
    try:
        algorithm = privacy.batched(algorithm)
        privacy = privacy.over(family)
    except PrivacyError as problem:
        return _nothing(privacy, algorithm, str(problem))
    steps = coefficient_table(algorithm, rounds)
    if isinstance(privacy, SecureSumDP):
        return _summed_guarantee(privacy, steps, family)
    signals = _signal_guarantee(privacy, steps, family, privacy.hides_neighbours)
    if not privacy.hides_neighbours:
        return signals
    return _network_guarantee(privacy, steps, family, signals)


def _nothing(privacy: PrivacyRequest, algorithm: Algorithm, reason: str) -> Guarantee:
    unit = unit_of(privacy, None, algorithm.online)
    return Guarantee(float("inf"), 0.0, unit, Adversary(Sees.EVERYONE), Status.NONE, reason)


def unit_of(privacy: PrivacyRequest, family: Family | None, online: bool) -> Unit:
    """What may change under a request: how far a signal moves, and how much of its domain that is.

    The steps from one end of the domain to the other follow from the noise. Where its scale is
    Delta(r)/eps, two values of the statistic that are Delta(r) apart in l1 norm cost eps, so any two
    values cost at most eps ceil(Delta(inf)/Delta(r)): points on the straight line between their
    statistics are that far apart. (By subadditivity this is no more than eps ceil(width/r).) Noise
    with a delta follows the l2 norm too: the larger of both numbers counts. Where the scale follows
    the signal, moves of r are chained: ceil(width/r).
    """
    if family is None:
        return Unit(privacy.reach, online)
    if family.metric is Metric.DISCRETE:
        return Unit(privacy.reach, online, metric=family.metric, steps=1)
    radius = family.adjacency(privacy.reach)
    if not radius > 0:  # no two signals are adjacent, and the plan says so
        return Unit(privacy.reach, online, metric=family.metric)
    width = math.prod(family.signal_shape) * (family.support.high - family.support.low)
    if privacy.reads_signals:
        norms = [(width, radius)]
    else:
        whole_move, move = family.moves(math.inf), family.moves(radius)
        norms = [(whole_move.l1, move.l1)]
        if privacy.delta:
            norms.append((float(whole_move.l2 or 0.0), float(move.l2 or 0.0)))
    steps: float = math.inf
    if radius >= width:
        steps = 1
    elif all(math.isfinite(whole) and each > 0 for whole, each in norms):
        steps = max(math.ceil(Fraction(whole) / Fraction(each)) for whole, each in norms)
    return Unit(radius, online, metric=family.metric, width=float(width), steps=steps)


def announce(guarantee: Guarantee, privacy: PrivacyRequest, strict: bool = False) -> None:
    """Warn of a guarantee that is not proved, or raise when strict.

    Examples
    --------
    >>> from veilsum.algorithms import Average
    >>> privacy = SignalDP(epsilon=1.0)
    >>> announce(guarantee_of(privacy, Average()), privacy, strict=True)
    """
    if not isinstance(strict, bool):
        raise PrivacyError(f"strict must be True or False; found {_validate.found(strict)}")
    if not privacy.adds_noise or guarantee.status is Status.PROVED:
        return
    if strict:
        raise PrivacyError(f"strict mode accepts proved guarantees only. {guarantee}")
    warn(str(guarantee), PrivacyWarning)


def network_cost(algorithm: Algorithm, moved: int, last: int, agents: int = 1) -> float:
    """agents sum_{u=moved+1}^{last} n_{u-1}: cost of these messages, per cost of the next one.

    The cost of the next message is what `guarantee_of` states: epsilon, or a fraction of it where
    the budget is divided over rounds. Any subset of the messages costs at most as much, a single
    later message included.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm. Its noise must cover its neighbours' weight in every round, which
        `guarantee_of` checks.
    moved : int
        The round s whose estimate moves.
    last : int
        The last round t of which a message is seen.
    agents : int
        How many agents' messages are seen together; the one whose estimate moves is not among them.

    Returns
    -------
    float
        The cost in multiples of the cost of the next message.

    Raises
    ------
    PrivacyError
        If `last` does not follow `moved`.

    Examples
    --------
    >>> from veilsum.algorithms import LearnNetwork
    >>> network_cost(LearnNetwork(), 20, 21)
    1.0
    >>> round(network_cost(LearnNetwork(), 20, 50), 2)
    18.63
    """
    _validate.at_least(PrivacyError, 0, moved=moved)
    _validate.at_least(PrivacyError, moved + 1, last=last)
    _validate.at_least(PrivacyError, 1, agents=agents)
    steps = coefficient_table(algorithm, last)
    before, now, total = 0.0, 1.0, 0.0
    for u in range(moved + 1, last + 1):
        total += now
        factor = abs(steps.own[u]) + abs(steps.mixing[u])
        before, now = now, factor * now + abs(steps.momentum[u]) * before
    return agents * float(total)


def worst_cost(steps: CoefficientTable) -> WorstMove:
    """max over s of the cost of all messages that one agent sends after round s.

    Backwards, cost(s) = 1 + f_{s+1} cost(s+1) with f = |own| + |mixing|. With momentum f is the
    larger of 1 and the sum of all three: then max(n_u, n_{u-1}) <= f_u max(n_{u-1}, n_{u-2}).
    """
    factors, first = _factors(steps).tolist(), _first(steps.algorithm)
    cost, worst, moved = 0.0, 0.0, first
    for s in range(steps.rounds - 1, first - 1, -1):
        cost = 1.0 + factors[s + 1] * cost
        if cost > worst:
            worst, moved = cost, s
    return WorstMove(moved, worst)


def stopping_conflict(protect: str, tolerance: float) -> str:
    """Return why stopping within a tolerance breaks what is protected, or an empty string.

    Examples
    --------
    >>> stopping_conflict(SignalDP.protects, 0.01)
    ''
    """
    return STOPPING_ADVICE if protect == Protects.NETWORK and tolerance != 0 else ""


def check_stopping(protect: str, tolerance: float, error: type[Exception] = PrivacyError) -> None:
    """Raise unless agents may stop within this tolerance.

    Examples
    --------
    >>> from veilsum.privacy import NetworkDP
    >>> check_stopping(NetworkDP.protects, 0.0)
    """
    conflict = stopping_conflict(protect, tolerance)
    if conflict:
        raise error(f"tolerance = {tolerance:g} with protection of the network: {conflict}")


def _signal_guarantee(
    privacy: PrivacyRequest, steps: CoefficientTable, family: Family | None, weighted: bool
) -> Guarantee:
    """The guarantee for one reading; under Network DP, with the status of the whole request.

    `weighted`: the noise is at least what hides the neighbours' weights.
    """
    made = _planned(privacy, steps, family)
    found = _if_stated(_derived(privacy, steps, family, weighted, made), made, family)
    event, unit = _event(privacy, steps, made), unit_of(privacy, family, steps.algorithm.online)
    run, readings = RunReleases(event, privacy.batches, _uses(steps)), 1
    if isinstance(made, StreamPlan):
        run, readings = StreamReleases(event, horizon=made.stream), made.stream.readings
        unit = replace(unit, span=Span.STREAM, readings=readings)
    cost = spent(run.moved(1, readings), delta=run.delta)
    if family is not None and isinstance(made, InputPlan) and not made.mechanism().adds:
        unit = replace(unit, steps=1)  # any two values, whatever the radius
    return Guarantee(
        epsilon=cost.epsilon,
        delta=cost.delta,
        unit=replace(unit, neighbours=privacy.hides_neighbours),
        adversary=Adversary(Sees.EVERYONE),
        status=found.status,
        reason=found.reason,
        erratum=found.erratum,
        runs=() if found.status is Status.NONE else (run,),
    )


def _summed_guarantee(
    privacy: SecureSumDP, steps: CoefficientTable, family: Family | None
) -> Guarantee:
    """The guarantee of a sum over a roster, for a query, against those who may collude."""
    algorithm, made = steps.algorithm, _planned(privacy, steps, family)
    unit = unit_of(privacy, family, algorithm.online)
    reason = made if isinstance(made, str) else _again(steps)
    if reason or not isinstance(made, SecurePlan):
        nobody = Adversary(Sees.EVERYONE)
        return Guarantee(float("inf"), 0.0, unit, nobody, Status.NONE, reason.rstrip("."))
    terms = made.mechanism().terms
    run = RunReleases(terms.event, privacy.batches, terms.attempts)
    cost = spent(run.moved())
    query = "a query takes"
    if privacy.batches is not None:
        query = f"each reading is in one batch ({privacy.batches}), and its query takes"
    elif algorithm.online:
        query = "each reading is in one query, which takes"
    found = Assessment(Status.PROVED, f"{terms.reason}; {query} {terms.per_query}")
    found = _if_stated(found, made, family)
    return Guarantee(
        epsilon=cost.epsilon,
        delta=cost.delta,
        unit=unit,
        adversary=_colluding(terms, privacy.masked),
        status=found.status,
        reason=found.reason,
        runs=(run,),
        assumes=terms.assumes,
        caveat=terms.caveat,
    )


def _colluding(terms: SecureParameters, masked: bool) -> Adversary:
    """Members of a masked sum; members and keepers of a secure one."""
    if masked:
        return Adversary(Sees.MEMBERS, colluders=terms.colluders)
    keepers = terms.keepers.colluding
    return Adversary(Sees.KEEPERS, colluders=terms.colluders, keepers=keepers)


def _planned(privacy: PrivacyRequest, steps: CoefficientTable, family: Family | None) -> Plan | str:
    """The plan of a request, or why there is none."""
    try:
        return plan(privacy, family, steps.algorithm, rounds=steps.rounds)
    except VeilsumError as problem:
        return str(problem)


def _network_guarantee(
    privacy: PrivacyRequest, steps: CoefficientTable, family: Family | None, reading: Guarantee
) -> Guarantee:
    """The guarantee of Network DP: for the next message, the transcript, and the signals alone."""
    alone = SignalDP(
        privacy.epsilon, privacy.delta, privacy.radius, privacy.sensitivity,
        privacy.budget_fractions, privacy.mechanism,
    )  # fmt: skip
    signals = _signal_guarantee(alone, steps, family, weighted=True)
    following = replace(reading, adversary=Adversary(Sees.NEXT), signals=signals)
    if following.event is None:
        return following
    epsilon = max(following.event.epsilon, following.epsilon)  # of the next message, or a reading
    worst = worst_cost(steps)
    total = max(following.event.epsilon * worst.cost, following.epsilon)
    if following.status is Status.REFUTED:  # claimed for all messages alike
        total = epsilon
    else:
        later = (
            "a later message costs more, and several add up: all messages of an agent over "
            f"{steps.rounds} rounds together at most epsilon = {upward(total)} "
            f"(an estimate that moves in round {worst.moved})"
        )
        following = replace(following, reason=f"{following.reason}; {later}")
    transcript = replace(
        following, epsilon=total, adversary=Adversary(Sees.TRANSCRIPT, steps.rounds), runs=()
    )
    factors = _factors(steps)[_first(steps.algorithm) + 1 :]
    growth = float(max(1.0, np.max(factors, initial=1.0)))
    runs = tuple(replace(run, growth=growth) for run in following.runs)
    return replace(following, epsilon=epsilon, transcript=transcript, runs=runs)


def _factors(steps: CoefficientTable) -> NDArray[np.float64]:
    """f by round: the most that the norm of a moved estimate grows by."""
    factors = np.abs(steps.own) + np.abs(steps.mixing)
    if steps.momentum.any():
        factors = np.maximum(1.0, factors + np.abs(steps.momentum))
    return np.asarray(factors)


def _first(algorithm: Algorithm) -> int:
    """The first round whose estimate can move: 0, or 1 where all agents start from the number 0."""
    return 0 if algorithm.start.innovation or algorithm.start.noise else 1


def _uses(steps: CoefficientTable) -> int:
    """In how many rounds one signal is used: 1, or all those that its budget is divided over."""
    return steps.releases if steps.algorithm.splits_budget and not steps.algorithm.online else 1


def _event(privacy: PrivacyRequest, steps: CoefficientTable, made: Plan | str) -> PrivacyEvent:
    """The event of one release, as the mechanism states it, or (epsilon, delta)."""
    parts = max(steps.releases, 1) if steps.algorithm.splits_budget else 1
    if isinstance(made, str):
        return PrivacyEvent.of(_largest_epsilon(privacy) / parts, privacy.delta / parts)
    return made.event(_largest_epsilon(privacy))


def _largest_epsilon(privacy: PrivacyRequest) -> float:
    """Of the agent with the largest fraction of epsilon."""
    return privacy.epsilon * max(privacy.budget_fractions or (1.0,))


def _if_stated(found: Assessment, made: Plan | str, family: Family | None) -> Assessment:
    """A proof that rests on numbers that somebody states is a claim."""
    if isinstance(made, str) or found.status is not Status.PROVED or family is None:
        return found
    if isinstance(made, InputPlan):
        mechanism = made.mechanism()
        if mechanism.ideal_status is not Status.PROVED:
            return Assessment(mechanism.ideal_status, f"{mechanism.reason}; if so, {found.reason}")
    if made.statistic.status is Status.PROVED:
        return found
    reason = f"the sensitivity of {family.name} is stated by its author; if it holds, "
    return Assessment(made.statistic.status, reason + found.reason)


def _derived(
    privacy: PrivacyRequest,
    steps: CoefficientTable,
    family: Family | None,
    weighted: bool,
    made: Plan | str,
) -> Assessment:
    if steps.algorithm.summed:
        return Assessment(
            Status.NONE,
            f"algorithm {steps.algorithm.name} goes with "
            f"{'MaskedDP' if steps.algorithm.masked else 'SecureSumDP'}, whose noise its members add",
        )
    broken = _broken(steps)
    if broken is not None:
        return broken
    if isinstance(made, str):
        return Assessment(Status.NONE, made.rstrip("."))
    network = privacy.hides_neighbours
    if network and steps.algorithm.perturbs_links:
        return Assessment(
            Status.NONE, "whoever sees several links of an agent averages the links' noise away"
        )
    if privacy.sensitivity == SMOOTH_AS_PUBLISHED:
        found = _published(privacy, steps, family, weighted)
        if not network or found.status is Status.REFUTED:
            return found
        near = _assess_network(steps)
        if near.status is not Status.PROVED:
            return near
        return found._replace(reason=f"{found.reason}; {near.reason}")
    if network:
        return _assess_network(steps)
    if steps.algorithm.splits_budget:
        return Assessment(Status.PROVED, _divided(privacy, steps))
    if privacy.sensitivity == SMOOTH:
        reason = "the noise follows the smooth sensitivity of the bounded domain; "
        return Assessment(Status.PROVED, reason + POST_PROCESSING)
    if privacy.stream is not None:
        return Assessment(Status.PROVED, IN_A_STREAM.format(T=privacy.stream.readings))
    if privacy.batches is not None:
        return Assessment(Status.PROVED, IN_BATCHES.format(batches=privacy.batches))
    return Assessment(Status.PROVED, POST_PROCESSING)


def _published(
    privacy: PrivacyRequest, steps: CoefficientTable, family: Family | None, weighted: bool
) -> Assessment:
    """Compare the delta that the published noise of log s spends on the domain with the claim."""
    domain = Support(0.0, open_low=True) if family is None else family.support
    parts = max(steps.releases, 1) if steps.algorithm.splits_budget else 1
    fraction = max(privacy.budget_fractions or (1.0,))
    claimed = privacy.delta / parts
    if not domain.low > 0:
        return Assessment(
            Status.REFUTED,
            "without a public floor the noise as published spends a delta that tends to 1 as a "
            f"signal nears 0, where {claimed:.3g} is claimed",
            2,
        )
    worst = worst_pair(
        domain.low, privacy.epsilon, privacy.delta, domain.high, privacy.reach,
        parts=parts, fraction=fraction,
    )  # fmt: skip
    pair = f"between {number(worst.other)} and {number(worst.s)}"
    most = upward(worst.at_most, 3)
    spends = f"for {domain.describe()} the noise as published spends delta = {most} ({pair})"
    if (worst.with_weights if weighted else worst.at_most) <= claimed:
        reason = f"{spends} of the {claimed:.3g} that is claimed"
        return Assessment(Status.PROVED, reason if weighted else f"{reason}; {POST_PROCESSING}")
    weights = steps.network * parts / (privacy.epsilon * fraction)  # they are at most 1
    larger = weighted and bool((weights > steps.signal * worst.scale).any())
    if larger or not worst.delta > claimed:
        noise = "without the noise for the neighbours' weights, " if larger else ""
        return Assessment(Status.CLAIMED, f"{noise}{spends}, where {claimed:.3g} is claimed", 2)
    return Assessment(Status.REFUTED, f"{spends}, where {claimed:.3g} is claimed", 2)


def _divided(privacy: PrivacyRequest, steps: CoefficientTable) -> str:
    """Why dividing the budget over rounds protects a signal."""
    parts = steps.releases
    if steps.algorithm.perturbs_messages:
        return (
            f"the start and each of {parts - 1} messages use a fraction of the budget, and they "
            "compose; the estimates themselves are not sent, and nothing protects them"
        )
    if steps.algorithm.online:
        whole = _largest_epsilon(privacy)
        return (
            f"each of {parts} readings uses a fraction of epsilon = {upward(whole)} for all of them"
        )
    return f"each of {parts} rounds uses a fraction of the budget, and they compose"


def _broken(steps: CoefficientTable) -> Assessment | None:
    """Find a use of the signal that no noise covers."""
    algorithm = steps.algorithm
    bare = np.flatnonzero((steps.innovation != 0) & (steps.noise == 0))
    if bare.size:
        reason = f"algorithm {algorithm.name} uses the statistic without noise in round {bare[0]}"
        return Assessment(Status.NONE, reason, algorithm.bare_erratum)
    short = _understated(steps)
    if short is not None:
        return Assessment(
            Status.NONE,
            f"algorithm {algorithm.name} understates how far round {short} moves with the signal",
        )
    if algorithm.perturbs_messages and not _derives_messages(type(algorithm)):
        return Assessment(
            Status.NONE,
            f"algorithm {algorithm.name} subtracts its noise again, and what that reveals has not "
            "been derived",
        )
    if algorithm.online and algorithm.start.innovation:
        return Assessment(
            Status.NONE, f"algorithm {algorithm.name} uses the first reading in rounds 0 and 1"
        )
    again = _again(steps)
    if again:
        return Assessment(Status.NONE, again)
    if (
        not algorithm.online
        and not algorithm.splits_budget
        and np.count_nonzero(steps.innovation) > 1
    ):
        return Assessment(
            Status.NONE,
            f"algorithm {algorithm.name} uses a signal in several rounds and does not divide the "
            "budget over them",
        )
    return None


def _derives_messages(kind: type[Algorithm]) -> bool:
    """Whether the file of this very class, in veilsum, derives what messages with noise reveal.

    A subclass has other coefficients, and of a class from elsewhere nobody has read a derivation.
    """
    ours = kind.__module__.startswith(f"{ALGORITHMS.package}.")
    return ours and vars(kind).get("derives_messages") is True


def _again(steps: CoefficientTable) -> str:
    """Which reading of a stream enters more than one round; empty where none does."""
    if steps.reused is None:
        return ""
    reading, times = steps.reused
    return (
        f"algorithm {steps.algorithm.name} uses reading {reading} of a stream in {times} rounds, and "
        "each of them releases it again; a guarantee is derived where each reading enters once"
    )


def _understated(steps: CoefficientTable) -> int | None:
    """Find a round whose stated sensitivity is less than its coefficients imply."""
    noisy = np.flatnonzero(steps.noise)
    moved = np.abs(steps.innovation[noisy] / steps.noise[noisy])
    short = noisy[~(steps.signal[noisy] >= moved * SLACK)]
    return int(short[0]) if short.size else None


def _covered(steps: CoefficientTable) -> bool:
    """Whether noise of every round covers the weight that neighbours have in it."""
    mixed = np.flatnonzero(steps.mixing)
    if not steps.noise[mixed].all():
        return False
    weight = np.abs(steps.mixing[mixed] / steps.noise[mixed])
    return bool((steps.network[mixed] >= weight * SLACK).all())


def _assess_network(steps: CoefficientTable) -> Assessment:
    algorithm = steps.algorithm
    if algorithm.perturbs_messages:
        return Assessment(
            Status.NONE,
            f"algorithm {algorithm.name} subtracts its noise again, so that an estimate that moves "
            "changes every later message; ask for signal protection, which holds",
        )
    if algorithm.ratio:
        return Assessment(
            Status.NONE,
            f"an estimate of algorithm {algorithm.name} that moves by 1 moves its sum by the "
            "weight, which grows and which the noise does not cover; ask for signal protection, "
            "which holds",
        )
    if _covered(steps):
        if algorithm.kinds != frozenset({DOUBLY}):
            return Assessment(
                Status.NONE,
                f"algorithm {algorithm.name} runs on weights that are not doubly stochastic, where "
                "the effect of an estimate that moves can grow; ask for signal protection, which "
                "holds",
            )
        return Assessment(
            Status.PROVED,
            "noise in every round covers the neighbours' weight in the next message",
        )
    if algorithm.claims_network_dp:
        return Assessment(
            Status.REFUTED,
            "the proof of Corollary 1 takes one coordinate of a vector map for the vector, and "
            "the audit refutes it; the signals alone are protected by post-processing",
            5,
        )
    return Assessment(
        Status.NONE,
        f"algorithm {algorithm.name} mixes neighbours' estimates in rounds without noise; "
        "ask for signal protection, which holds",
    )
