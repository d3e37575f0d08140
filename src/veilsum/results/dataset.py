"""A trace of plain arrays as a labelled dataset."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras
from veilsum.algorithms import keeps_differences
from veilsum.privacy import mechanism_name
from veilsum.results.intervals import SIMULATED, assumption
from veilsum.simulation import Problem, Trace
from veilsum.simulation.limits import limits

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


EXACT = "exact"
SECRET = "as secret as the signals: this is measured against the truth"
NOT_RELEASABLE = "The noise is simulated in floating point: nothing here may be released."
WITHHELD = (
    "The signals are measured: what compares with the truth (targets, errors, estimates without "
    "noise) is an evaluation, as secret as they are, and is left out."
)
KNOWN_SEED = (
    "A seed was given: whoever learns it can draw the noise again, so these results are as secret "
    "as the signals; leave it out, and the noise comes from the operating system."
)


def build(
    problem: Problem,
    trace: Trace,
    guarantee: str,
    remarks: list[str],
    noise: str = SIMULATED,
    releasable: bool = True,
    unit: str = "",
) -> xr.Dataset:
    """What may be released of a run, as a dataset.

    Of synthetic signals that is everything; without privacy there are no private variables. Of
    measured signals it is what the agents would know: their estimates and the mean of these, or
    nothing where these are not protected (`releasable`). It contains no seed.
    """
    measured = problem.source.measured
    variables: dict[str, Any] = {} if measured else _truth(problem, trace)
    if releasable:
        variables |= _private(problem, trace)
    if measured and releasable:
        axes = ("epsilon", "replica", "component")
        variables["mean"] = _squeeze(axes, trace.mean, trace.target.shape[1])
    data = _labelled(problem, trace, variables)
    if measured and problem.algorithm.starts_without_noise and "private" in data:
        data = data.sel(recorded=data.recorded > 0)
    data.attrs = attributes(problem, guarantee, remarks, noise)
    if unit:
        data.attrs["unit"] = unit
    return data


def evaluation(problem: Problem, trace: Trace) -> xr.Dataset:
    """What compares with the truth: targets, errors, and estimates without noise.

    Of measured signals it is as secret as they are, and its first attribute says so. Whether the
    noise is exact is an attribute of what may be released only.
    """
    data = _labelled(problem, trace, _truth(problem, trace))
    about = attributes(problem, "", [])
    copied = {name: about[name] for name in ("algorithm", "family", "network", "protects")}
    data.attrs = {"secret": SECRET, **copied} if problem.source.measured else copied
    return data


def _truth(problem: Problem, trace: Trace) -> dict[str, Any]:
    """Targets, errors and the estimates without noise."""
    d = trace.target.shape[1]
    variables: dict[str, Any] = {
        "target": _noiseless(("component",), trace.target, problem, d),
        "cost_of_decentralisation": _noiseless(("round",), trace.decentralisation, problem, d),
    }
    if problem.run_epsilons:
        axes = ("round", "epsilon", "replica")
        variables["total_error"] = (axes, trace.total)
        variables["cost_of_privacy"] = (axes, trace.privacy)
    else:
        variables["total_error"] = variables["cost_of_decentralisation"]
    if trace.noiseless is not None:
        variables["clean"] = _noiseless(
            ("recorded", "agent", "component"), np.moveaxis(trace.noiseless, 2, 0), problem, d
        )
    return variables


def _private(problem: Problem, trace: Trace) -> dict[str, Any]:
    """The estimates of agents, noise included."""
    if not problem.run_epsilons or trace.private is None:
        return {}
    axes = ("recorded", "agent", "epsilon", "replica", "component")
    return {"private": _squeeze(axes, trace.private, trace.target.shape[1])}


def _labelled(problem: Problem, trace: Trace, variables: dict[str, Any]) -> xr.Dataset:
    xarray = _extras.load("xarray")
    coordinates: dict[str, Any] = {"round": np.arange(len(trace.total))}
    if problem.source.varies or problem.run_epsilons:
        coordinates["replica"] = np.arange(problem.replicas)
    if problem.run_epsilons:
        coordinates["epsilon"] = np.array(problem.run_epsilons)
    if trace.target.shape[1] > 1:
        coordinates["component"] = np.arange(trace.target.shape[1])
    if "clean" in variables or "private" in variables:
        coordinates["recorded"] = np.array(trace.recorded_rounds)
        coordinates["agent"] = _labels(recorded_labels(problem, trace))
    data = xarray.Dataset(variables, coords=coordinates)
    order = ("agent", "recorded", "round", "replica", "epsilon", "component")
    return cast("xr.Dataset", data.transpose(*(axis for axis in order if axis in data.dims)))


def _noiseless(
    axes: tuple[str, ...], values: NDArray[np.float64], problem: Problem, d: int
) -> tuple[tuple[str, ...], Any]:
    """A noiseless variable with a replica axis, or without one where replicas share signals."""
    if axes == ("round",):
        values = values.T
    if not problem.source.varies:
        return _squeeze(axes, values[0], d)
    return _squeeze(("replica", *axes), values, d)


def _squeeze(axes: tuple[str, ...], values: Any, d: int) -> tuple[tuple[str, ...], Any]:
    if axes[-1] == "component" and d == 1:
        return axes[:-1], values[..., 0]
    return axes, values


def attributes(
    problem: Problem, guarantee: str, remarks: list[str], noise: str = SIMULATED
) -> dict[str, Any]:
    """What ran, as attributes of the file; without the seed, if signals are measured."""
    seed = {} if problem.source.measured else {"seed": str(problem.seed)}  # netCDF 3: 32 bits
    return {
        "algorithm": problem.algorithm.name,
        "family": problem.family.name,
        "network": describe_network(problem.network),
        "protects": problem.privacy.protects.value,
        "mechanism": ", ".join(dict.fromkeys(mechanisms_of(problem))),
        "guarantee": guarantee,
        "noise": noise if problem.run_epsilons else "none",
        **seed,
        "notes": " ".join(remarks),
    }


def mechanisms_of(problem: Problem) -> list[str]:
    """The name of the mechanism at each epsilon, "best" resolved; empty without protection."""
    return [mechanism_name(problem.privacy.at(e), problem.family) for e in problem.run_epsilons]


def describe_network(network: Any) -> str:
    """The name, size and weights of a network."""
    graph = getattr(network, "graph", None)
    name = getattr(graph, "name", "") or "a network"
    return f"{name} ({network.size:,} agents, {network.scheme} weights)"


def notes(problem: Problem, noise: str = SIMULATED) -> list[str]:
    """What a reader must know besides the numbers."""
    remarks = []
    if problem.network.kind == "row-stochastic":
        remarks.append(
            "The weights are row-stochastic: estimates converge to the mean weighted by the "
            "stationary distribution, not to the minimum variance estimate; push-sum on "
            "column-stochastic weights gives the uniform mean."
        )
    session = problem.algorithm.session
    if session is not None:
        when = ", between two readings" if problem.algorithm.online else ""
        remarks.append(
            f"A masked sum on this network takes {session.session_rounds} rounds of flooding{when}: "
            f"{session.floods} over {session.hops} hops."
        )
    if problem.diverges:
        remarks.append(f"Algorithm {problem.algorithm.name} diverges: {problem.diverges}.")
    if problem.source.measured and keeps_differences(problem.algorithm):
        remarks.append(
            f"Algorithm {problem.algorithm.name} does not lead agents that differ to their mean: a part of "
            "every difference stays, however many readings there are (docs/errata.md, erratum 20); "
            "learn does."
        )
    if problem.source.measured:
        remarks.append(WITHHELD)
    if problem.source.measured and problem.seed_is_known and noise == SIMULATED:
        remarks.append(KNOWN_SEED)
    remarks.extend(limits(problem))
    remarks.append(assumption(problem, noise))
    if problem.run_epsilons and noise == SIMULATED:
        remarks.append(NOT_RELEASABLE)
    return remarks


def recorded_labels(problem: Problem, trace: Trace) -> list[Hashable]:
    """The labels of the recorded agents, in the order of the arrays."""
    labels = problem.network.labels
    if isinstance(trace.rows, slice):
        return list(labels)
    return [labels[i] for i in trace.rows]


def _labels(labels: list[Hashable]) -> NDArray[Any]:
    """Labels as a coordinate: 32-bit integers and strings as they are, others as text.

    netCDF 3 has 32-bit numbers. Labels whose texts coincide, such as 1 and "1", become their
    `repr`.
    """
    whole = all(isinstance(x, int | np.integer) and not isinstance(x, bool) for x in labels)
    if whole and all(-(2**31) <= int(x) < 2**31 for x in labels):  # type: ignore[call-overload]
        return np.array(labels, dtype=np.int64)
    texts = [str(x) for x in labels]
    return np.array(texts if len(set(texts)) == len(texts) else [repr(x) for x in labels])


def errors_frame(data: xr.Dataset) -> pd.DataFrame:
    """Errors in long form: one row per round, replica and epsilon."""
    names = ["total_error", "cost_of_privacy", "cost_of_decentralisation"]
    return data[[n for n in names if n in data]].to_dataframe().reset_index()
