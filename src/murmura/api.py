"""The two calls most users need: `estimate` from signals, `sweep` over epsilons and replicas."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from murmura import _edge, _validate, laws
from murmura._memory import check_rounds
from murmura.engine import Drawn, Observed, Problem, Record, Source, simulate
from murmura.engine.limits import warn_of_limits
from murmura.engine.seeds import FreshSeed, seed_of
from murmura.engine.simulate import Progress
from murmura.errors import DivergenceWarning, MurmuraError
from murmura.privacy import Want, announce, promise
from murmura.report import Result

ENGINES = ("local", "mpi")
Seed = int | np.random.Generator


def estimate(
    signals: Any,
    network: Any,
    family: Any,
    want: Want,
    law: str | laws.Law = "average",
    rounds: int = 100,
    rng: Seed | None = None,
    record: Record | None = None,
    strict: bool = False,
    **options: Any,
) -> Result:
    """Run one law once over measured signals.

    `signals` is anything `murmura.signals.as_signals` takes: an array (agents,) or (agents,
    rounds), a pandas object, a path to CSV or Parquet. Agents are matched to the network by
    label. `options` go to the law (`dimension=2` for jacobi, `eta=` for first-order).

    Without `rng` the noise comes from the operating system's entropy, and nobody can draw it again.
    With a seed somebody can: the result is then as secret as the signals.

    A promise that is not proved gives a `PrivacyWarning`; with `strict` it is an error.
    """
    return sweep(
        signals, network, family, want, law, rounds, rng=rng,
        record=_edge.record_of(record, Record()), strict=strict, **options,
    )  # fmt: skip


def sweep(
    signals: Any,
    network: Any,
    family: Any,
    want: Want,
    law: str | laws.Law = "average",
    rounds: int = 100,
    epsilons: Sequence[float] = (),
    replicas: int = 1,
    rng: Seed | None = None,
    record: Record | None = None,
    progress: Progress | None = None,
    name: str = "run",
    strict: bool = False,
    engine: str = "local",
    checkpoint: Any = None,
    every: int | None = None,
    resume: bool = False,
    **options: Any,
) -> Result:
    """Run one law for several epsilons and replicas at once.

    `signals` as in `estimate`, or a mapping of the family's parameters, such as {"mu": 10.0}, to
    draw fresh signals from for every replica. Without `rng`, measured signals get noise that nobody
    can draw again, and of their own for every epsilon; signals that are drawn have the seed 0.

    With engine="mpi" all ranks that mpiexec started make the same call and share the agents; the
    folder `checkpoint` keeps the state after each `every` rounds, and `resume` goes on from there.
    """
    network, family, want = _edge.network_of(network), _edge.family_of(family), _edge.want_of(want)
    _edge.check_options(sweep, law, options)
    made = laws.get(_edge.law_of(law), network, **options)
    if made.diverges:
        warnings.warn(f"law {made.name} diverges: {made.diverges}", DivergenceWarning, 2)
    _validate.at_least(MurmuraError, 1, rounds=rounds)
    check_rounds(rounds)
    announce(promise(want, made, rounds, family), want, strict)
    drawn = isinstance(signals, Mapping) and set(signals) == set(family.parameters)
    seed = seed_of(_given(rng), measured=not drawn and getattr(signals, "measured", True))
    problem = Problem(
        network=network,
        law=made,
        family=family,
        source=_source(signals, network, family, seed),
        want=want,
        rounds=rounds,
        epsilons=_edge.epsilons_of(epsilons),
        replicas=replicas,
        seed=seed,
    )
    if problem.source is not signals:  # a scenario's notes say it
        warn_of_limits(problem)
    kept = _edge.record_of(record, Record(estimates=False))
    progress = _edge.progress_of(progress)
    _validate.one_of(MurmuraError, ENGINES, engine=engine)
    if engine == "mpi":
        from murmura import cluster

        trace = cluster.simulate(
            problem, kept, progress, checkpoint=checkpoint, every=every, resume=resume
        )
        return Result(problem, trace, name)
    if checkpoint is not None or every is not None or resume:
        raise MurmuraError('checkpoints are kept by engine="mpi"; leave them out, or choose it')
    return Result(problem, simulate(problem, kept, progress), name)


def _given(rng: Seed | None) -> int | None:
    """The seed that was asked for; one that nobody chose stays one."""
    if rng is None or isinstance(rng, FreshSeed):
        return rng
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63))
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise MurmuraError(
            f"rng must be a whole number of at least 0 or a numpy Generator; found {rng!r}"
        )
    return int(rng)


def _source(signals: Any, network: Any, family: Any, seed: int) -> Source:
    """Parameters are drawn from, anything else is data; a `Source` is taken as it is."""
    from murmura.signals import as_signals

    if hasattr(signals, "signals") and hasattr(signals, "expected"):
        return signals  # type: ignore[no-any-return]
    if isinstance(signals, Mapping) and set(signals) == set(family.parameters):
        return Drawn(family, _edge.parameters_of(family, signals, network.size), network.size, seed)
    return Observed(as_signals(signals, labels=network.labels))
