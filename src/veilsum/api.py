"""The calls most users need: `ask` of a table, `estimate` from signals, `sweep` over epsilons, `solve`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from veilsum import _edge, _extras, _validate, algorithms
from veilsum._types import Family, FamilyLike, Network, NetworkLike
from veilsum._warn import warn
from veilsum.errors import DivergenceWarning, VeilsumError
from veilsum.front import Answers
from veilsum.front.of_runs import of_runs
from veilsum.privacy import PrivacyRequest, Status
from veilsum.privacy.proofs import announce
from veilsum.results import Result
from veilsum.simulation import (
    Problem,
    Record,
    RecordedSignals,
    SignalSource,
    SyntheticSignals,
    simulate,
)
from veilsum.simulation.limits import warn_of_limits
from veilsum.simulation.runner import Progress
from veilsum.simulation.seeds import FreshSeed, seed_of

if TYPE_CHECKING:
    from veilsum.questions import Category, Question

ENGINES = ("local", "mpi")
Seed = int | np.random.Generator


def ask(
    data: Any,
    *questions: Question,
    epsilon: float,
    delta: float = 0.0,
    where: Mapping[str, Any] | None = None,
    by: Category | tuple[str, Sequence[Any]] | str | None = None,
    id: str | None = None,
    cap: int | None = None,
    missing: Any = None,
    population: bool = False,
    rows_public: bool | None = None,
    clipped: bool = False,
    min_count: int | None = None,
    round: int | None = None,
    budget: Any = None,
    limit: Any = None,
    anyway: bool = False,
    fresh: bool = False,
    decimal: str = ".",
    sql: str | None = None,
    codebook: Any = None,
) -> Answers:
    """Ask questions of a table that you hold: one draw, which may be published.

    Parameters
    ----------
    data
        A path (CSV, Parquet, .xlsx) or several of the same columns; a data frame of pandas or polars, a
        DuckDB relation, an Arrow table, arrays by column name.
    *questions
        Of `veilsum.questions`; several share epsilon so that noise is in one ratio to sampling.
    epsilon, delta
        What the answers together cost, of the data's budget. There is no default epsilon.
    where
        Columns and the values that count, such as {"region": ["north"]}.
    by
        Groups, each of which is asked: a column and its public values, or a column whose values the
        codebook says.
    id
        The column that says whose a row is: then all rows of one id may be anything. The mean of its
        rows counts as one record, unless `cap` says how many of its rows count.
    cap
        How many rows of an id count, chosen at random; sums and counts of rows need it.
    missing
        What a missing value is: None for an error, "out" to leave its row out, else what it counts as.
    population
        Whether intervals are of the population that the records were sampled from.
    rows_public
        Whether the number of records is public. By default that of a whole table is, and the number that
        a filter leaves is not; True makes that public as well, False neither.
    clipped
        Whether to ask as well what share of the records lies beyond the bounds.
    min_count
        Cells of fewer records, after noise, are not shown; this costs nothing.
    round
        Counts are rounded to its multiples; this costs nothing.
    budget
        The file of the budget: beside a file by default; tables in memory need one.
    limit
        Of the budget, epsilon or (epsilon, delta): set by the first question, and lowered by others; without
        it that of the codebook, or what the first question costs.
    anyway
        Ask although noise will be more than three times what sampling does.
    fresh
        Pay for a new draw of a question that was answered; without it the answer comes back for nothing.
    decimal
        The decimal mark of numbers in text, "." or ",".
    sql
        A SELECT of DuckDB that makes the table, over `data` as the table "data".
    codebook
        A public file that describes the columns; the one beside a file by default.

    Returns
    -------
    Answers
        The answers, their intervals, what is promised and what is left of the budget.

    Raises
    ------
    QuestionError
        If a question makes no sense, the table has another form, noise would hide the answer, or the
        budget is spent; the message says where, and what to do.

    Examples
    --------
    >>> import tempfile, veilsum as vs
    >>> table = {"kwh": [float(k % 40) for k in range(3000)]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mean = vs.questions.mean("kwh", between=(0, 40))
    ...     answers = vs.ask(table, mean, epsilon=1, budget=f"{folder}/kwh.budget")
    >>> bool(19 < answers.value < 20)
    True
    """
    from veilsum import asking
    from veilsum.front.of_ask import of_ask

    return of_ask(asking.ask(
        data, *questions, epsilon=epsilon, delta=delta, where=where, by=by, id=id, cap=cap,
        missing=missing, population=population, rows_public=rows_public, clipped=clipped,
        min_count=min_count, round=round, budget=budget, limit=limit, anyway=anyway, fresh=fresh,
        decimal=decimal, sql=sql, codebook=codebook,
    ))  # fmt: skip


def estimate(
    signals: Any,
    network: NetworkLike,
    family: FamilyLike,
    privacy: PrivacyRequest,
    algorithm: str | algorithms.Algorithm = "average",
    rounds: int = 100,
    rng: Seed | None = None,
    record: Record | None = None,
    strict: bool = False,
    **options: Any,
) -> Answers:
    """Run one algorithm once over measured signals.

    Parameters
    ----------
    signals
        Anything that `veilsum.signals.as_signals` takes: an array (agents,) or (agents, rounds), a
        pandas object, a path to CSV or Parquet. Agents are matched to the network by label.
    network
        Weights, such as `networks.metropolis(graph)`, or the name or file of a graph, such as
        "ring:21" or "grid.csv", which gets the weights of `networks.weigh`.
    family
        A family, such as `families.Normal(sigma=1.0)`, or the name of one without options.
    privacy
        `privacy.SignalDP`, `privacy.NetworkDP`, `privacy.SecureSumDP` or `privacy.NoPrivacy`.
    algorithm
        The name of an algorithm (`veilsum algorithms` lists them), or an `Algorithm`.
    rounds
        The number of rounds.
    rng
        A seed or a numpy Generator. Without it the noise comes from the operating system's entropy,
        and nobody can draw it again; with it somebody can, and the result is as secret as the
        signals.
    record
        Which estimates to record; by default the final ones of all agents.
    strict
        Raise, instead of warn, if the guarantee is not proved.
    **options
        Passed to the algorithm (`dimension=2` for jacobi, `eta=` for first-order); any other
        argument of `sweep` is also taken.

    Returns
    -------
    Answers
        The estimate, its interval and what is promised; `result` has the estimates of all agents.

    Raises
    ------
    VeilsumError
        If an argument makes no sense; the message says what was expected.
    PrivacyError
        If no finite noise gives the guarantee, or with `strict` if it is not proved.

    Warns
    -----
    PrivacyWarning
        If the guarantee is not proved.

    Examples
    --------
    >>> import veilsum as vs
    >>> readings = [9.0, 11.0, 10.0, 12.0, 8.0, 10.5, 9.5, 10.0, 10.0]
    >>> family = vs.families.Normal(sigma=1.0, bounds=(0.0, 20.0))  # public
    >>> answers = vs.estimate(readings, "ring:9", family, vs.privacy.SignalDP(epsilon=1.0), rng=1)
    >>> answers.low < answers.value < answers.high, str(answers.guarantee.status)
    (True, 'proved')
    """
    return sweep(
        signals, network, family, privacy, algorithm, rounds, rng=rng,
        record=_edge.record_of(record, Record()), strict=strict, **options,
    )  # fmt: skip


def sweep(
    signals: Any,
    network: NetworkLike,
    family: FamilyLike,
    privacy: PrivacyRequest,
    algorithm: str | algorithms.Algorithm = "average",
    rounds: int = 100,
    epsilons: Sequence[float] = (),
    replicas: int = 1,
    rng: Seed | None = None,
    record: Record | None = None,
    progress: Progress | None = None,
    name: str = "run",
    strict: bool = False,
    engine: str = "local",
    checkpoint: str | os.PathLike[str] | None = None,
    every: int | None = None,
    resume: bool = False,
    **options: Any,
) -> Answers:
    """Run one algorithm for several epsilons and replicas at once.

    All runs advance together, so that a sweep costs little more than one run. The numbers of a run
    do not depend on which others it is swept with, nor on the number of threads or ranks.

    Parameters
    ----------
    signals
        The parameters of the family, such as {"mu": 10.0}, to draw independent signals for every
        agent, round and replica; or measured signals, as in `estimate`; or any `SignalSource`.
    network, family, privacy, algorithm, rounds, strict
        As in `estimate`.
    epsilons
        The epsilons to run; by default the one of `privacy`.
    replicas
        Independent repetitions: other noise and, if signals are drawn, other signals.
    rng
        A seed or a numpy Generator. Without it, drawn signals have the seed 0, and measured ones
        get noise from the operating system's entropy, independent for every epsilon.
    record
        Which estimates to record; by default error norms alone.
    progress
        Called with (round, rounds) after every round.
    name
        The name of the result, as tables and figures show it.
    engine
        "local" for this process, or "mpi": all ranks that mpiexec started make the same call and
        divide the agents among themselves.
    checkpoint
        For "mpi": the folder where the state is saved.
    every
        For "mpi": the number of rounds between checkpoints.
    resume
        For "mpi": continue from the newest complete checkpoint.
    **options
        Passed to the algorithm.

    Returns
    -------
    Answers
        An answer for each epsilon; `result` has errors by round, epsilon and replica
        (`result.trace`, `result.errors`) and recorded estimates.

    Raises
    ------
    VeilsumError
        If an argument makes no sense; the message says what was expected.
    PrivacyError
        If no finite noise gives the guarantee, or with `strict` if it is not proved.
    CostError
        If the run does not fit into memory.

    Warns
    -----
    PrivacyWarning
        If the guarantee is not proved.
    DivergenceWarning
        If the algorithm is known to diverge.
    LimitWarning
        If readings are left out or bounds bias the answer.
    CostWarning
        If the run takes hours.

    Examples
    --------
    >>> import veilsum as vs
    >>> result = vs.sweep(
    ...     {"mu": 10.0}, "ring:21", vs.families.Normal(sigma=1.0), vs.privacy.SignalDP(epsilon=1.0),
    ...     algorithm="learn", rounds=200, epsilons=[0.5, 1.0, 2.0], replicas=10,
    ... ).result
    >>> result.trace.total.shape  # (round, epsilon, replica)
    (201, 3, 10)
    >>> errors = result.trace.total[-1].mean(axis=-1)  # more privacy costs accuracy
    >>> bool(errors[0] > errors[1] > errors[2])
    True
    """
    _extras.require("veilsum.estimate or sweep", "sim")
    network = _edge.network_of(network)
    family = _edge.family_of(family)
    privacy = _edge.request_of(privacy)
    _edge.check_options(sweep, algorithm, options)
    built = algorithms.get(algorithm, network, **options)
    drawn = isinstance(signals, Mapping) and set(signals) == set(family.parameters)
    seed = seed_of(_seed(rng), measured=not drawn and getattr(signals, "measured", True))
    problem = Problem(
        network=network,
        algorithm=built,
        family=family,
        source=_source(signals, network, family, seed),
        privacy=privacy,
        rounds=rounds,
        epsilons=_edge.epsilons_of(epsilons, privacy),
        replicas=replicas,
        seed=seed,
    )
    if problem.diverges:
        warn(f"algorithm {built.name} diverges: {problem.diverges}", DivergenceWarning)
    if problem.guarantee.status is Status.NONE and not strict:
        _ = problem.plan  # what cannot be run is an error, without a warning of the same
    announce(problem.guarantee, privacy, strict)
    if problem.source is not signals:  # of a source that was passed, its maker knows the limits
        warn_of_limits(problem)
    found = solve(
        problem, record, progress, name, engine=engine, checkpoint=checkpoint, every=every,
        resume=resume,
    )  # fmt: skip
    return of_runs({name: found})


def solve(
    problem: Problem,
    record: Record | None = None,
    progress: Progress | None = None,
    name: str = "run",
    *,
    engine: str = "local",
    checkpoint: str | os.PathLike[str] | None = None,
    every: int | None = None,
    resume: bool = False,
) -> Result:
    """Run a problem as it is: `sweep`, `estimate` and scenarios all call it.

    Parameters
    ----------
    problem
        What to run; it was checked when it was made.
    record
        Which estimates to record; by default error norms alone.
    progress
        Called with (round, rounds) after every round.
    name
        The name of the result.
    engine
        "local", or "mpi": all ranks that mpiexec started make the same call.
    checkpoint, every, resume
        For "mpi": the folder, the rounds between checkpoints, and whether to continue from one.

    Returns
    -------
    Result
        Errors, recorded estimates and the guarantee.

    Raises
    ------
    VeilsumError
        If an option is not known, or belongs to the other engine.
    CostError
        If the run does not fit into memory.

    Examples
    --------
    >>> import veilsum as vs
    >>> ring, family = vs.networks.metropolis("ring:9"), vs.families.Normal(sigma=1.0)
    >>> source = vs.simulation.SyntheticSignals(family, {"mu": 2.0}, 9, seed=1)
    >>> request = vs.privacy.SignalDP(epsilon=1.0)
    >>> problem = vs.simulation.Problem(
    ...     ring, vs.algorithms.Average(), family, source, request, rounds=50
    ... )
    >>> solve(problem).guarantee.status
    <Status.PROVED: 'proved'>
    """
    _extras.require("a simulation", "sim")
    recorded = _edge.record_of(record, Record(estimates=False))
    progress = _edge.progress_of(progress)
    _validate.one_of(VeilsumError, ENGINES, engine=engine)
    if engine == "mpi":
        from veilsum.simulation import mpi

        trace = mpi.simulate(
            problem, recorded, progress, checkpoint=checkpoint, every=every, resume=resume
        )
        return Result(problem, trace, name)
    if checkpoint is not None or every is not None or resume:
        raise VeilsumError('checkpoints are saved by engine="mpi"; leave them out, or choose it')
    return Result(problem, simulate(problem, recorded, progress), name)


def _seed(rng: Seed | None) -> int | None:
    """The seed that was asked for, or None; a `FreshSeed` stays one."""
    if rng is None or isinstance(rng, FreshSeed):
        return rng
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63))
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise VeilsumError(
            f"rng must be a whole number of at least 0 or a numpy Generator; found {rng!r}"
        )
    return int(rng)


def _source(signals: Any, network: Network, family: Family, seed: int) -> SignalSource:
    """Parameters are drawn from, a `SignalSource` is taken as it is, anything else is data."""
    from veilsum.signals import as_signals

    if hasattr(signals, "signals") and hasattr(signals, "expected"):
        return signals  # type: ignore[no-any-return]
    if isinstance(signals, Mapping) and set(signals) == set(family.parameters):
        return SyntheticSignals(
            family, _edge.parameters_of(family, signals, network.size), network.size, seed
        )
    return RecordedSignals(as_signals(signals, labels=network.labels))
