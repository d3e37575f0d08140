"""From the ranks' parts to one trace: sums by reduction, estimates gathered on rank 0.

Every rank returns a trace with the errors of all agents; the estimates of agents (`private`,
`clean`, `final`) are in rank 0's alone, and None elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.cluster.comm import total
from murmura.cluster.run import Run
from murmura.engine import Trace
from murmura.laws.response import response

Floats = NDArray[np.float64]
TAG = 8


def gathered(comm: Any, slots: NDArray[Any], values: Floats, count: int) -> Floats | None:
    """(count, width) on rank 0: out[slots] = values of every rank; None elsewhere."""
    sizes = comm.gather(len(slots))
    if comm.rank != 0:
        comm.Send(np.ascontiguousarray(slots, dtype=np.int64), dest=0, tag=TAG)
        comm.Send(np.ascontiguousarray(values), dest=0, tag=TAG)
        return None
    out = np.empty((count, values.shape[1]))
    out[slots] = values
    for q in range(1, comm.size):
        places = np.empty(sizes[q], dtype=np.int64)
        part = np.empty((sizes[q], values.shape[1]))
        comm.Recv(places, source=q, tag=TAG)
        comm.Recv(part, source=q, tag=TAG)
        out[places] = part
    return out


def assembled(
    run: Run, sums: Floats, kept: list[int], rows: list[int] | slice, stored: list[Floats | None]
) -> Trace:
    """Make the trace of the sums of squares over all agents and what was gathered."""
    problem, columns, comm = run.problem, run.layout.columns, run.comm
    d, e, r, first = columns.components, len(problem.budgets), problem.replicas, columns.clean
    norms = np.sqrt(sums[:, :2, first:].reshape(len(sums), 2, e, r, d).sum(axis=-1))
    clean = np.sqrt(sums[:, 0, :first].reshape(len(sums), -1, d).sum(axis=-1))
    shape = (e, r, d) if e else (1, -1, d)
    held = run.estimates()[:, first:] if e else run.estimates()
    mean = total(comm, held.sum(axis=0)) / problem.network.size
    spread = total(comm, ((held - mean) ** 2).sum(axis=0)) / problem.network.size
    final = None
    if kept:
        agents = run.part.agents[: run.part.own].astype(np.int64)
        final = gathered(comm, agents, held, problem.network.size)
    both = np.stack([s for s in stored if s is not None]) if kept and comm.rank == 0 else None
    return Trace(
        total=norms[:, 0],
        privacy=norms[:, 1],
        decentralisation=clean,
        target=run.target.reshape(-1, d),
        kept=kept,
        rows=rows,
        private=None if both is None else both[..., first:].reshape(*both.shape[:2], e, r, d),
        clean=None if both is None else both[..., :first].reshape(*both.shape[:2], -1, d),
        final=None if final is None else final.reshape(len(final), *shape),
        mean=mean.reshape(shape),
        disagreement=spread.reshape(shape),
        noise_variance=_noise_variance(run, sums[:, 2, first:]),
        statistic_share=_statistic_share(run),
    )


def _squared_mass(run: Run) -> float:
    return float(total(run.comm, np.array([(run.mass**2).sum()]))[0])


def _statistic_share(run: Run) -> float:
    """As `engine.trace` has it: the shares of the rounds, times the sum over agents of mass^2."""
    shares = response(run.problem.law, run.problem.rounds).statistic
    rounds = (shares**2).sum() if run.problem.law.online else shares.sum() ** 2
    return float(rounds * _squared_mass(run))


def _noise_variance(run: Run, spent: Floats) -> Floats:
    """Variance of the mean estimate that comes from noise, on agents and on links."""
    columns, problem = run.layout.columns, run.problem
    d, e, r = columns.components, len(problem.budgets), problem.replicas
    if run.calibration is None:
        return np.zeros((1, columns.clean // d, d))
    shares = response(problem.law, problem.rounds)
    own = np.einsum("t,tc->c", shares.noise**2, 2 * spent)
    links = 2 * run.calibration.per_edge(columns.epsilons(problem)) ** 2
    return np.asarray(own + links * _link_share(run, shares.edge)).reshape(e, r, d)


def _link_share(run: Run, shares: Floats) -> float:
    """sum over rounds of share^2 sum_ij (mass_i a_ij)^2, row by row of every rank."""
    fixed, mine = not run.problem.network.dynamic, 0.0
    for t in np.flatnonzero(shares):
        rows = run.ground.rows(1 if fixed else int(t))
        squares = np.add.reduceat(rows.data**2, rows.indptr[:-1])
        mass = np.empty(rows.count)
        mass[run.part.places[: run.part.own] - rows.first] = run.mass
        mine += shares[t] ** 2 * float((mass**2 * squares).sum())
    return float(total(run.comm, np.array([mine]))[0])
