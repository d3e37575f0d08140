"""Plans: the accuracy that a privacy budget allows, before anything is released.

The planned error is the total error that a run measures, as root mean square over replicas: with
norm "agent" TE/sqrt(n), the error of a typical agent, with norm "l2" TE itself. For Laplace
noise of a fixed sensitivity, with C and D the squared costs of privacy (at eps = 1) and of
decentralisation after t rounds,

    TE^2 = C/eps^2 + D,    eps = sqrt(C / (error^2 - D)).

All algorithms and weights that provide at least the guarantee of the problem's own algorithm are
compared, or those of them that `refusal` does not refuse: agents cannot run all of them. No signal
is read.

With a number of colluders, the masked sum is compared with local noise at the same guaranteed
epsilon, that of a query: a session of five floods over the graph, and as many as the request allows
divide the epsilon of a plan; for a stream, a query for every reading or batch, between two readings.
What every candidate sends and whom it trusts is stated beside its error.

For a stream whose readings are released one by one, a plan also offers the best candidate with its
readings in growing batches: the same epsilon for each reading and less noise, at the cost of
freshness, which the offer states. It is never chosen by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from veilsum import _validate, algorithms
from veilsum._numbers import rounded_up
from veilsum.algorithms import Algorithm
from veilsum.errors import AlgorithmError, NetworkError, PrivacyError, VeilsumError
from veilsum.networks.rows import coordinates, first_rows
from veilsum.privacy import (
    Batches,
    Guarantee,
    MaskedDP,
    PrivacyRequest,
    SecureSumDP,
    SignalDP,
    Status,
    guarantee_of,
)
from veilsum.privacy.mechanisms.base import COMPUTABLE
from veilsum.simulation import Problem
from veilsum.theory.accuracy import LARGEST_EPSILON, Precision, precision
from veilsum.theory.exact import Expected, expected
from veilsum.theory.spectrum import PROMPT_UP_TO

Floats = NDArray[np.float64]
Refusal = Callable[[Problem], str]  # why a problem cannot be used; "" if it can
Progress = Callable[[str, int, int], None]
NORMS = ("agent", "l2")
SMALLEST_EPSILON = 1e-6  # where a search for epsilon ends, like LARGEST_EPSILON
ROUNDING = 1e-9
MOST_ROUNDS = 2000
MESSAGE_BYTES = 111  # of a round over one direction of a link, measured for one number
FRESHNESS = 10  # batches that a plan offers are at most this fraction of the rounds long
SCHEMES = ("metropolis", "best-constant")


class ErrorSplit(NamedTuple):
    """Parts of the error against the truth E xi, in the plan's norm: their squares add up."""

    sampling: float  # of the mean of all signals; a run counts it for streams only
    privacy: float  # noise in the mean of all agents
    disagreement: float  # between agents, with and without noise


@dataclass(frozen=True)
class Candidate:
    """One algorithm on one choice of weights, with the epsilon and the rounds that it needs.

    Attributes
    ----------
    algorithm, weights, guarantee
        Names of the algorithm and the weights, and the status of the guarantee.
    reached
        Whether the target is reached.
    epsilon, rounds, error
        What the candidate needs, and the error that results, in the norm of the plan. Epsilon is
        what is guaranteed: that of all sessions which a query may take.
    split
        The error as sampling, privacy and disagreement, whose squares add up.
    estimated
        Whether the expected errors are estimates (see `Expected`).
    reason
        Why the target is not reached.
    batches
        The batches in which readings are released, if any.
    lacking
        How many of the latest readings of an agent an estimate lacks at most, because their batch
        is open.
    bytes
        What a typical agent sends in all, about.
    trust
        What the guarantee rests on.
    flooding
        Rounds of flooding that a query takes between two readings of a stream.
    sessions
        Sessions that a query may take, which share epsilon.
    promise
        The guarantee; None without an epsilon.

    Examples
    --------
    >>> import veilsum as vs
    >>> ring, family = vs.networks.metropolis("ring:15"), vs.families.Normal(sigma=1.0)
    >>> source = vs.simulation.SyntheticSignals(family, {"mu": 2.0}, 15, seed=1)
    >>> request = vs.privacy.SignalDP(epsilon=1.0)
    >>> problem = vs.simulation.Problem(
    ...     ring, vs.algorithms.Average(), family, source, request, rounds=50
    ... )
    >>> best = plan(problem, error=0.5).best
    >>> best.algorithm, round(best.epsilon, 2), best.guarantee, best.reached
    ('chebyshev', 0.73, 'proved', True)
    """

    algorithm: str
    weights: str
    guarantee: str
    reached: bool
    epsilon: float | None
    rounds: int
    error: float
    split: ErrorSplit
    estimated: bool
    reason: str = ""
    batches: Batches | None = None
    lacking: int = 0
    bytes: int = 0
    trust: str = ""
    flooding: int = 0
    sessions: int = 1
    promise: Guarantee | None = None


class LeftOut(NamedTuple):
    """A candidate that cannot be used.

    Attributes
    ----------
    algorithm, weights
        Names of the algorithm and the weights.
    reason
        Why not.

    Examples
    --------
    >>> LeftOut("jacobi", "metropolis", "agents cannot run it").algorithm
    'jacobi'
    """

    algorithm: str
    weights: str
    reason: str


@dataclass(frozen=True, eq=False, repr=False)
class Proposal:
    """The best candidate, all that were compared, and the trade-off around the best.

    Attributes
    ----------
    solved
        What was solved for: "epsilon", "rounds" or "error".
    norm, target
        Norm of the error, and the error to reach, if one was given.
    best, candidates
        The best candidate, and all in order.
    problem
        The problem of the best candidate, ready to run.
    epsilons, rounds, surface
        A grid, (e,) and (r,), and the error on it, (r, e).
    offer
        The best candidate with its readings in growing batches, where that is cheaper and the
        request has none.
    left_out
        Candidates that cannot be used, and why.
    unit
        Of the errors, for tables and figures; a scenario states it.
    deviation
        Standard deviation of the statistic that was assumed, if any.

    Examples
    --------
    >>> import veilsum as vs
    >>> ring, family = vs.networks.metropolis("ring:15"), vs.families.Normal(sigma=1.0)
    >>> source = vs.simulation.SyntheticSignals(family, {"mu": 2.0}, 15, seed=1)
    >>> request = vs.privacy.SignalDP(epsilon=1.0)
    >>> problem = vs.simulation.Problem(
    ...     ring, vs.algorithms.Average(), family, source, request, rounds=50
    ... )
    >>> found = plan(problem, error=0.5)
    >>> found.solved, found.target, len(found.candidates)
    ('epsilon', 0.5, 6)
    >>> print(found.toml().splitlines()[2])
    network.weights = "best-constant"
    """

    solved: str
    norm: str
    target: float | None
    best: Candidate
    candidates: tuple[Candidate, ...]
    problem: Problem
    epsilons: Floats
    rounds: NDArray[np.int64]
    surface: Floats
    offer: Candidate | None = None
    left_out: tuple[LeftOut, ...] = ()
    unit: str = ""
    deviation: float | None = None

    @cached_property
    def precision(self) -> Precision | None:
        """The interval of an estimate of the best candidate; None if it is not reached, or has none."""
        return precision(self.problem, self.deviation) if self.best.reached else None

    @property
    def warning(self) -> str:
        """That the plan buys nothing, and what would; empty if it does."""
        return "" if self.precision is None else self.precision.warning()

    def __repr__(self) -> str:
        """The best candidate, and how many were compared."""
        best = self.best
        budget = "" if best.epsilon is None else f"epsilon = {best.epsilon:g}, "
        return (
            f"Proposal({best.algorithm} on {best.weights} weights, {budget}{best.rounds} rounds, "
            f"error {best.error:.4g}{f' {self.unit}' if self.unit else ''}"
            f"{'' if best.reached else ' (not reached)'}; "
            f"{len(self.candidates)} compared)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the surface, in plain numbers."""
        return {
            "solved": self.solved,
            "norm": self.norm,
            "unit": self.unit,
            "target": self.target,
            "best": _plain(self.best),
            "candidates": [_plain(c) for c in self.candidates],
            "offer": None if self.offer is None else _plain(self.offer),
            "left_out": [left._asdict() for left in self.left_out],
            "half_width": None if self.precision is None else self.precision.half_width,
            "warning": self.warning,
        }

    def toml(self) -> str:
        """A variant that follows the plan, for the end of its scenario."""
        best, scheme = self.best, self.best.weights.partition(",")[0]
        lines = ["[[variant]]", 'name = "planned"']
        lines += [] if scheme == "custom" else [f'network.weights = "{scheme}"']
        privacy = ['protect = "nothing"']
        if best.epsilon is not None:
            privacy = [f"epsilon = {best.epsilon}", *_mode_lines(self.problem.privacy)]
            privacy += [] if best.batches is None else [_batches_line(best.batches)]
        lines += [f"privacy.{line}" for line in privacy]
        lines += [f'algorithm.name = "{best.algorithm}"', f"algorithm.rounds = {best.rounds}"]
        return "\n".join(lines) + "\n"

    def offered(self) -> str:
        """What batches would buy and cost, in a sentence; empty without an offer."""
        best, offer = self.best, self.offer
        if offer is None or offer.batches is None:
            return ""
        if self.solved == "epsilon" and offer.epsilon is not None:
            ours = "and none is otherwise" if not best.reached else f"not {best.epsilon:g}"
            gain = f"epsilon = {offer.epsilon:g} is enough, {ours}"
        elif self.solved == "rounds":
            ours = f"not {best.rounds}" if best.reached else "and no number is otherwise"
            gain = f"{offer.rounds} rounds are enough, {ours}"
        else:
            gain = f"the error is {offer.error:.4g}, not {best.error:.4g}"
        return (
            f"With readings in {offer.batches} ({offer.algorithm}), {gain}. The same epsilon "
            f"protects each reading; an estimate lacks up to {offer.lacking} of an agent's latest "
            f"readings. In [privacy]: {_batches_line(offer.batches)}"
        )


def _mode_lines(privacy: PrivacyRequest) -> list[str]:
    """The mode, and what a sum over a roster states besides."""
    if not isinstance(privacy, SecureSumDP):
        return ['mode = "local"']
    lines = [f"delta = {privacy.delta}"] if privacy.delta else []
    lines.append(f'mode = "{privacy.mode}"')
    names = ("colluders", "absent", "attempts")
    stated = {name: getattr(privacy, name, None) for name in names}
    return lines + [f"{name} = {value}" for name, value in stated.items() if value is not None]


def _batches_line(batches: Batches) -> str:
    return f"batches = {{ growth = {batches.growth}, longest = {batches.longest} }}"


def _plain(candidate: Candidate) -> dict[str, Any]:
    fields = asdict(replace(candidate, promise=None))
    del fields["promise"]
    return fields | {"split": candidate.split._asdict()}


def plan(
    problem: Problem,
    error: float | None = None,
    epsilon: float | None = None,
    rounds: int | None = None,
    norm: str = "agent",
    deviation: float | None = None,
    most_rounds: int = MOST_ROUNDS,
    refusal: Refusal | None = None,
    colluders: int | None = None,
    absent: int | None = None,
    progress: Progress | None = None,
) -> Proposal:
    """The smallest epsilon (or fewest rounds, if `epsilon` is given) that reaches an error.

    Without `error`, the error that results from the epsilon and the rounds. Values that are not
    given are those of the problem.

    Parameters
    ----------
    problem
        Network, family, signals and privacy request; its guarantee is the least that is accepted.
    error
        The error to reach.
    epsilon
        Privacy budget: what is guaranteed, that of all sessions which a query may take.
    rounds
        Number of rounds.
    norm
        "agent": root mean square error of an agent; "l2": norm over all agents.
    deviation
        Assumed standard deviation of the statistic; needed where signals are recorded.
    most_rounds
        The most rounds that are considered when solving for them.
    refusal
        Why a problem cannot be used, or "" if it can, such as `agents.refusal`; all can by default.
    colluders
        Compare the masked sum too, if up to that many members may collude; those of the request
        where it is `SecureSumDP` or `MaskedDP`.
    absent
        How many members a roster of it may lack.
    progress
        Called with what is computed, how many candidates are done and how many there are.

    Returns
    -------
    Proposal
        The best candidate and those it was compared with.

    Raises
    ------
    VeilsumError
        If nothing is left to solve for, a value is out of range, or no algorithm provides the
        guarantee.

    Examples
    --------
    >>> import veilsum as vs
    >>> ring, family = vs.networks.metropolis("ring:15"), vs.families.Normal(sigma=1.0)
    >>> source = vs.simulation.SyntheticSignals(family, {"mu": 2.0}, 15, seed=1)
    >>> request = vs.privacy.SignalDP(epsilon=1.0)
    >>> problem = vs.simulation.Problem(
    ...     ring, vs.algorithms.Average(), family, source, request, rounds=50
    ... )
    >>> plan(problem, error=0.5)
    Proposal(chebyshev on best-constant weights, epsilon = 0.7303, 50 rounds, error 0.5; 6 compared)
    """
    if absent and colluders is None and not problem.privacy.summed:
        raise VeilsumError(
            f"absent = {absent} belongs to a masked sum, which is compared if colluders are stated; "
            "state how many members may collude, 0 too, or leave absent out"
        )
    problem = _stated(problem, colluders, absent)
    asked = _Request.of(problem, error, epsilon, rounds, norm, deviation, most_rounds)
    usable, left_out = _sorted_out(_alternatives(problem, colluders, absent), refusal)
    found = []
    for done, made in enumerate(usable):
        if progress is not None:
            progress(f"{made.algorithm.name} on {made.network.scheme}", done, len(usable) + 1)
        found.append((asked.answer(made), made))
    if progress is not None:
        progress("trade-off", len(usable), len(usable) + 1)
    found.sort(key=lambda pair: asked.order(pair[0]))
    while found:  # with its epsilon and rounds, the best may be refused after all
        best, made = found[0]
        ready = _ready(best, made)
        reason = refusal(ready) if refusal is not None and best.reached else ""
        if not reason:
            all_ = tuple(candidate for candidate, _ in found)
            planned = _with_surface(asked, best, made, ready, all_, tuple(left_out))
            return replace(planned, offer=_offer(asked, best, made, refusal))
        left_out.append(_left(made, reason))
        del found[0]
    raise VeilsumError(_nothing_left(problem, left_out))


def _sorted_out(
    candidates: Iterable[Problem], refusal: Refusal | None
) -> tuple[list[Problem], list[LeftOut]]:
    usable, left_out = [], []
    for made in candidates:
        reason = "" if refusal is None else refusal(made)
        if reason:
            left_out.append(_left(made, reason))
        else:
            usable.append(made)
    return usable, left_out


def _left(problem: Problem, reason: str) -> LeftOut:
    return LeftOut(problem.algorithm.name, problem.network.scheme, reason)


def _nothing_left(problem: Problem, left_out: list[LeftOut]) -> str:
    if left_out:
        reasons = dict.fromkeys(f"{left.algorithm}: {left.reason}" for left in left_out)
        return f"nothing can be used on this network; {'; '.join(reasons)}"
    return (
        f"no algorithm provides this guarantee on {problem.network.scheme} weights; request "
        "SignalDP, which average, jacobi, learn and learn-network provide"
    )


def _promise(problem: Problem, epsilon: float | None, rounds: int) -> Guarantee | None:
    """What a candidate guarantees at its epsilon."""
    if epsilon is None:
        return None
    return replace(problem, rounds=rounds, epsilons=(epsilon,), horizon=None).guarantee


def _ready(best: Candidate, made: Problem) -> Problem:
    """The problem of a candidate, ready to run."""
    epsilons = () if best.epsilon is None else (best.epsilon,)
    return replace(made, rounds=best.rounds, epsilons=epsilons)


def _offer(
    asked: _Request, best: Candidate, made: Problem, refusal: Refusal | None
) -> Candidate | None:
    """The best candidate's problem in doubling batches of at most a tenth of the rounds."""
    rounds = asked.rounds if asked.solved != "rounds" else made.rounds
    longest = rounds // FRESHNESS
    privacy = made.privacy
    if longest < 2 or not made.algorithm.online or not isinstance(privacy, SignalDP | SecureSumDP):
        return None
    if privacy.batches is not None:
        return None
    try:
        batched = replace(privacy, batches=Batches(2.0, longest))
        batched_problem = replace(made, privacy=batched)
        if refusal is not None and refusal(batched_problem):
            return None
        found = asked.answer(batched_problem)
    except VeilsumError:  # no proof for batches: smooth sensitivity, or another mechanism
        return None
    return found if found.reached and asked.order(found) < asked.order(best) else None


def _status(problem: Problem) -> Status:
    """The status of the guarantee of a problem."""
    return guarantee_of(problem.privacy, problem.algorithm, problem.rounds, problem.family).status


def _alternatives(problem: Problem, colluders: int | None, absent: int | None) -> Iterator[Problem]:
    """Local noise on every algorithm and weights, and the sum over a roster where it is asked for."""
    asked, local = problem.privacy, problem
    if isinstance(asked, SecureSumDP):
        algorithm = algorithms.Learn() if problem.algorithm.online else algorithms.Average()
        local = replace(problem, privacy=asked.local(), algorithm=algorithm, epsilons=())
    elif colluders is not None:
        if not isinstance(asked, SignalDP) or asked.reads_signals:
            raise VeilsumError(
                "a masked sum hides signals with noise of global sensitivity; ask for SignalDP with "
                "that, or leave colluders out"
            )
        asked = MaskedDP.like(asked, colluders, absent or 0)
    yield from _candidates(local)
    if isinstance(asked, SecureSumDP):
        made = problem.algorithm
        if not made.summed:
            name = "masked-learn" if made.online else "masked-sum"
            made = algorithms.get(name, problem.network)
        rounds = max(problem.rounds, _first_result(made))
        summed = replace(problem, algorithm=made, privacy=asked, rounds=rounds, horizon=None)
        _ = summed.plan  # too few members for so many colluders is an error
        yield summed


def _stated(problem: Problem, colluders: int | None, absent: int | None) -> Problem:
    """The problem with other numbers of colluders and absentees, where it is a sum over a roster."""
    asked = problem.privacy
    if not isinstance(asked, SecureSumDP) or (colluders is None and absent is None):
        return problem
    given = {"colluders": colluders, "absent": absent}
    numbers: Any = {name: value for name, value in given.items() if value is not None}
    return replace(problem, privacy=replace(asked, **numbers))


def _first_result(algorithm: Algorithm) -> int:
    """The round before which there is no estimate."""
    return 0 if algorithm.session is None else algorithm.session.arrival


def _flooding(algorithm: Algorithm) -> int:
    """Rounds of a session between two readings."""
    session = algorithm.session
    return session.session_rounds if session is not None and algorithm.online else 0


def sent_bytes(problem: Problem, rounds: int) -> int:
    """What a typical agent sends: a message to every neighbour and round, or its part of floods."""
    rows, columns, weights = coordinates(first_rows(problem.network))
    entries = np.count_nonzero(weights[rows != columns])
    links = entries / problem.network.size
    algorithm, d = problem.algorithm, problem.family.dimension
    session = algorithm.session
    if session is not None:  # a link is that of two agents
        queries = sum(1 for t in range(1, rounds + 1) if algorithm.at(t).noise)
        return round(links / 2 * queries * session.bytes_per_link(d, *_covered(problem)))
    return round(links * rounds * (MESSAGE_BYTES + 8 * (d - 1)))


def _what(problem: Problem) -> str:
    session = problem.algorithm.session
    return "sum" if session is None else session.what


def _covered(problem: Problem) -> tuple[int, ...]:
    """The colluders and absentees that a secure sum is made for; nothing without a request."""
    asked = problem.privacy
    if not isinstance(asked, SecureSumDP):
        return ()
    keepers = asked.keepers(problem.network.size)
    return keepers.colluders, keepers.absent


def _trust(problem: Problem) -> str:
    """What a guarantee rests on, in a few words."""
    privacy = problem.privacy
    if not privacy.adds_noise:
        return "everyone, with the signals"
    if isinstance(privacy, SecureSumDP) and not privacy.masked:
        keepers = privacy.keepers(problem.network.size)
        return (
            f"that at most {keepers.colluding} of the {keepers.count} keepers and {keepers.colluders} of the "
            f"members collude and {keepers.absent} are absent, and that X25519, SHAKE256 and Ed25519 hold"
        )
    if not isinstance(privacy, MaskedDP):
        return "nobody: each agent's own noise hides it from all others together"
    most = privacy.sessions
    again = f"; a query may take {most} sessions, epsilon/{most} each" if most > 1 else ""
    who = f"at most {privacy.colluders} of the other members collude"
    if not privacy.colluders:
        who = "no other member tries to learn a signal, not even by itself,"
    return (
        f"that {who} and {privacy.absent} are absent, and that X25519, HKDF, ChaCha20 and Ed25519 "
        f"hold{again}"
    )


def _candidates(problem: Problem) -> Iterator[Problem]:
    """Every algorithm and weights whose guarantee is at least that of the problem's algorithm."""
    no_privacy = not problem.privacy.adds_noise
    most = min(_status(problem).rank, Status.REFUTED.rank)
    for net in _networks(problem.network):
        for algorithm in _algorithms(problem.algorithm, net, problem.source.measured):
            made = replace(problem, network=net, algorithm=algorithm)
            if no_privacy or _status(made).rank <= most:
                yield made


def _algorithms(own: Algorithm, network: Any, measured: bool) -> Iterator[Algorithm]:
    """The problem's own, and others; for measured streams only those that agents may differ in."""
    kinds = algorithms.ALGORITHMS.items()
    names = [name for name, kind in kinds if kind.offered and kind.online == own.online]
    if own.name not in names and not own.diverges and not own.splits_budget:
        yield own
    for name in names:
        try:
            same = own.name == name and not own.fitted
            made = own if same else algorithms.get(name, network)
            if made.name == own.name or not (measured and algorithms.keeps_differences(made)):
                yield made
        except (AlgorithmError, NetworkError):  # not for this network, or no spectrum is found
            continue


def _networks(own: Any) -> Iterator[Any]:
    """The weights of the problem, and other weights on the same graph."""
    yield own
    if own.graph is None:
        return
    from veilsum.networks import weigh

    for scheme in SCHEMES:
        if scheme == own.scheme.partition(",")[0]:
            continue
        try:
            yield weigh(own.graph, scheme)
        except NetworkError:  # periodic, such as metropolis on an even ring
            continue


@dataclass(frozen=True, eq=False)
class _Request:
    """The request, with the values of the problem where none are given."""

    solved: str
    error: float  # l2
    epsilon: float | None  # guaranteed: of all sessions together
    rounds: int
    unit: float  # l2 norm per unit of the plan's norm
    norm: str
    deviation: float | None

    @staticmethod
    def of(
        problem: Problem, error: float | None, epsilon: float | None, rounds: int | None,
        norm: str, deviation: float | None, most: int,
    ) -> _Request:  # fmt: skip
        _validate.one_of(VeilsumError, NORMS, norm=norm)
        _check_values(error, epsilon, rounds)
        no_privacy = not problem.privacy.adds_noise
        if error is not None and rounds is not None and (no_privacy or epsilon is not None):
            raise VeilsumError("error, epsilon and rounds are all given; leave one to solve for")
        seeks = "rounds" if no_privacy or epsilon is not None else "epsilon"
        solved = "error" if error is None else seeks
        unit = math.sqrt(problem.network.size) if norm == "agent" else 1.0
        limit = most if solved == "rounds" else rounds or problem.rounds
        own = epsilon
        if no_privacy:
            own = None
        elif own is None:
            own = problem.run_epsilons[0]
        return _Request(solved, unit * (error or 0.0), own, limit, unit, norm, deviation)

    def expect(self, problem: Problem, epsilons: tuple[float, ...], rounds: int) -> Expected:
        """Expected errors of one candidate at guaranteed epsilons; records limit the rounds."""
        data = getattr(problem.source, "data", None)
        if problem.algorithm.online and data is not None:
            rounds = min(rounds, data.values.shape[1])
        made = replace(problem, rounds=rounds, epsilons=epsilons, horizon=None)
        return expected(made, deviation=self.deviation, exact_up_to=PROMPT_UP_TO)

    def answer(self, problem: Problem) -> Candidate:
        """What one candidate needs, or how close it comes."""
        budget = () if self.epsilon is None else (self.epsilon,)
        first = _first_result(problem.algorithm)
        if first > self.rounds:
            made = self.expect(problem, budget, first)
            reason = (
                f"a {_what(problem)} on this graph has no result before round {first}; add rounds"
            )
            return self._candidate(problem, made, self.epsilon, first, reason)
        rounds = first if first and not problem.algorithm.online else self.rounds
        if self.solved == "epsilon":
            return self._smallest_budget(problem, rounds)
        made = self.expect(problem, budget, rounds)  # of one sum, nothing changes after the first
        if self.solved == "error":
            return self._candidate(problem, made, self.epsilon, len(made.total) - 1)
        hits = np.flatnonzero(made.total[1:, 0] <= self.error)
        if hits.size:
            return self._candidate(problem, made, self.epsilon, int(hits[0]) + 1)
        least = int(made.total[1:, 0].argmin()) + 1
        reason = f"{len(made.total) - 1} rounds do not reach it; the noise alone may exceed it"
        return self._candidate(problem, made, self.epsilon, least, reason)

    def _smallest_budget(self, problem: Problem, rounds: int) -> Candidate:
        at_one = self.expect(problem, (1.0,), rounds)
        last = len(at_one.total) - 1
        room = self.error**2 - at_one.decentralisation[-1] ** 2
        if room <= 0:
            reason = "without any noise the agents still differ by more than that; add rounds"
            return self._candidate(problem, at_one, math.inf, last, reason)
        budget = float(at_one.privacy[-1, 0] / math.sqrt(room))
        if problem.privacy.reads_signals or problem.privacy.perturbs_input:
            budget = self._bisected(problem, budget, rounds)
        budget = rounded_up(budget)
        made, reason = self.expect(problem, (budget,), rounds), ""
        if made.total[-1, 0] > self.error * (1 + ROUNDING):
            reason = "no epsilon reaches it: the noise of this mechanism does not fall to zero"
        return self._candidate(problem, made, budget, last, reason)

    def _bisected(self, problem: Problem, start: float, rounds: int) -> float:
        """Noise that is not proportional to 1/eps: halve the interval on a logarithmic scale."""

        def short(budget: float) -> bool:
            return bool(self.expect(problem, (budget,), rounds).total[-1, 0] > self.error)

        low = high = min(max(start, SMALLEST_EPSILON), LARGEST_EPSILON)
        while short(high):
            if high >= LARGEST_EPSILON:  # the variance of a two-point mechanism has a floor
                return high
            high = min(4 * high, LARGEST_EPSILON)
        while not short(low) and low > SMALLEST_EPSILON:
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
        between = _noiseless_disagreement(problem, made, t) if infinite else made.disagreement[t, 0]
        parts = (made.sampling[t], noise, between)
        return Candidate(
            algorithm=problem.algorithm.name, weights=problem.network.scheme,
            guarantee=_status(problem).value,
            reached=not reason, epsilon=None if infinite else epsilon, rounds=t,
            error=float(error) / self.unit, split=ErrorSplit(*(float(p) / self.unit for p in parts)),
            estimated=made.estimated, reason=reason, batches=problem.privacy.batches,
            lacking=0 if problem.privacy.batches is None else problem.privacy.batches.stalest(t),
            bytes=sent_bytes(problem, t), trust=_trust(problem),
            flooding=_flooding(problem.algorithm), sessions=problem.privacy.sessions,
            promise=_promise(problem, None if infinite else epsilon, t),
        )  # fmt: skip

    def order(self, candidate: Candidate) -> tuple[float, ...]:
        """Candidates that reach the target first, by cost, then by error."""
        if not candidate.reached:
            return (1.0, candidate.error)
        cost = {"epsilon": candidate.epsilon, "rounds": candidate.rounds, "error": candidate.error}
        return (0.0, float(cost[self.solved] or 0.0), candidate.error)


def _check_values(error: float | None, epsilon: float | None, rounds: int | None) -> None:
    if error is not None and not 0 < error < math.inf:
        raise VeilsumError(f"error must be a finite number above 0; found {error}")
    if epsilon is not None:
        _validate.positive(PrivacyError, epsilon=epsilon)
    if rounds is not None:
        _validate.at_least(VeilsumError, 1, rounds=rounds)


def _noiseless_disagreement(problem: Problem, made: Expected, t: int) -> float:
    """Between agents without noise; a stream's cost of decentralisation has sampling in it."""
    counted = made.sampling[t] ** 2 if problem.algorithm.online else 0.0
    return math.sqrt(max(made.decentralisation[t] ** 2 - counted, 0.0))


def _around(centre: float, count: int) -> Floats:
    low, high = COMPUTABLE
    if low <= centre <= high:
        return np.geomspace(max(centre / 16, low), min(centre * 16, high), count).clip(low, high)
    return centre * np.geomspace(1 / 16, 16, count)


def _with_surface(
    asked: _Request,
    best: Candidate,
    made: Problem,
    ready: Problem,
    all_: tuple[Candidate, ...],
    left_out: tuple[LeftOut, ...],
) -> Proposal:
    """The plan with its surface: a factor of 16 around the budget, twice the rounds.

    Some mechanisms compute a range of epsilons only; the surface around one inside it stays inside.
    Noise that follows the signals differs between agents in another way at every epsilon: on a large
    network it is computed at the planned one alone.
    """
    centre = best.epsilon or (None if asked.epsilon is None else 1.0)
    grid = np.array([centre or 1.0])
    if centre is not None and not (made.privacy.reads_signals and made.network.size > PROMPT_UP_TO):
        grid = _around(centre, 9 if made.privacy.reads_signals else 33)
    budgets = () if centre is None else tuple(grid.tolist())
    found = asked.expect(made, budgets, max(2 * best.rounds if len(grid) > 1 else best.rounds, 10))
    known = [max(1, best.rounds // part) for part in (4, 2, 1)]
    spread = np.geomspace(1, len(found.total) - 1, 60).round().astype(np.int64)
    rounds = np.union1d(spread, known)
    target = asked.error / asked.unit if asked.solved != "error" else None
    return Proposal(
        asked.solved, asked.norm, target, best, all_, ready, grid, rounds,
        found.total[rounds] / asked.unit, left_out=left_out, deviation=asked.deviation,
    )  # fmt: skip
