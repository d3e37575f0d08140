"""From the plain arrays of an engine to a labelled dataset."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from murmura.engine import Problem, Trace
from murmura.engine.limits import limits

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


SIMULATED, EXACT = "simulated", "exact"
SECRET = "as secret as the signals: this is measured against the truth"
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
    releases: bool = True,
) -> xr.Dataset:
    """Label what a run left and a reader may see.

    Of signals that were drawn that is everything; without protection the private variables are
    absent. Of measured signals it is what the agents would know: the estimates they hold and their
    mean, or nothing where these are not protected (`releases`). No seed stands there.
    """
    measured = problem.source.measured
    variables: dict[str, Any] = {} if measured else _truth(problem, trace)
    if releases:
        variables |= _held(problem, trace)
    if measured and releases:
        axes = ("epsilon", "replica", "component")
        variables["mean"] = _squeeze(axes, trace.mean, trace.target.shape[1])
    data = _labelled(problem, trace, variables)
    if measured and problem.law.starts_raw and "private" in data:
        data = data.sel(recorded=data.recorded > 0)
    data.attrs = attributes(problem, guarantee, remarks, noise)
    return data


def evaluation(problem: Problem, trace: Trace) -> xr.Dataset:
    """What is measured against the truth: targets, errors, and estimates without noise.

    Of measured signals it is as secret as they are, and its first attribute says so; how exact the
    noise was is said of what may be released alone.
    """
    data = _labelled(problem, trace, _truth(problem, trace))
    about = attributes(problem, "", [])
    kept = {name: about[name] for name in ("law", "family", "network", "protects")}
    data.attrs = {"secret": SECRET, **kept} if problem.source.measured else kept
    return data


def _truth(problem: Problem, trace: Trace) -> dict[str, Any]:
    """Targets, errors and the estimates without noise."""
    d = trace.target.shape[1]
    variables: dict[str, Any] = {
        "target": _clean(("component",), trace.target, problem, d),
        "cost_of_decentralisation": _clean(("round",), trace.decentralisation, problem, d),
    }
    if problem.budgets:
        axes = ("round", "epsilon", "replica")
        variables["total_error"] = (axes, trace.total)
        variables["cost_of_privacy"] = (axes, trace.privacy)
    else:
        variables["total_error"] = variables["cost_of_decentralisation"]
    if trace.clean is not None:
        variables["clean"] = _clean(
            ("recorded", "agent", "component"), np.moveaxis(trace.clean, 2, 0), problem, d
        )
    return variables


def _held(problem: Problem, trace: Trace) -> dict[str, Any]:
    """The estimates that agents hold, noise included."""
    if not problem.budgets or trace.private is None:
        return {}
    axes = ("recorded", "agent", "epsilon", "replica", "component")
    return {"private": _squeeze(axes, trace.private, trace.target.shape[1])}


def _labelled(problem: Problem, trace: Trace, variables: dict[str, Any]) -> xr.Dataset:
    import xarray as xr

    coordinates: dict[str, Any] = {"round": np.arange(len(trace.total))}
    if problem.source.varies or problem.budgets:
        coordinates["replica"] = np.arange(problem.replicas)
    if problem.budgets:
        coordinates["epsilon"] = np.array(problem.budgets)
    if trace.target.shape[1] > 1:
        coordinates["component"] = np.arange(trace.target.shape[1])
    if "clean" in variables or "private" in variables:
        coordinates["recorded"] = np.array(trace.kept)
        coordinates["agent"] = _labels(kept_labels(problem, trace))
    data = xr.Dataset(variables, coords=coordinates)
    order = ("agent", "recorded", "round", "replica", "epsilon", "component")
    return data.transpose(*(axis for axis in order if axis in data.dims))


def _clean(
    axes: tuple[str, ...], values: NDArray[np.float64], problem: Problem, d: int
) -> tuple[tuple[str, ...], Any]:
    """Give a clean variable its replica axis, or take it away where all replicas share signals."""
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
    """What ran, as attributes that travel with the file; the seed of measured signals does not."""
    seed = {} if problem.source.measured else {"seed": str(problem.seed)}  # netCDF 3: 32 bits
    return {
        "law": problem.law.name,
        "family": problem.family.name,
        "network": describe_network(problem.network),
        "protects": problem.want.protects,
        "guarantee": guarantee,
        "noise": noise if problem.budgets else "none",
        **seed,
        "notes": " ".join(remarks),
    }


def describe_network(network: Any) -> str:
    """Say which network in a few words."""
    graph = getattr(network, "graph", None)
    name = getattr(graph, "name", "") or "a network"
    return f"{name} ({network.size:,} agents, {network.scheme} weights)"


def notes(problem: Problem, noise: str = SIMULATED) -> list[str]:
    """What a reader must know beside the numbers."""
    remarks = []
    if problem.network.kind == "row-stochastic":
        remarks.append(
            "The weights are row-stochastic: estimates converge to the mean weighted by the "
            "stationary distribution, not to the minimum variance estimate; push-sum on "
            "column-stochastic weights gives the uniform mean."
        )
    if problem.law.diverges:
        remarks.append(f"Law {problem.law.name} diverges: {problem.law.diverges}.")
    if problem.source.measured:
        remarks.append(WITHHELD)
    if problem.source.measured and problem.seed_is_known and noise == SIMULATED:
        remarks.append(KNOWN_SEED)
    remarks.extend(limits(problem))
    if problem.budgets and noise == SIMULATED:
        remarks.append("The noise is simulated in floating point: nothing here may be released.")
    return remarks


def kept_labels(problem: Problem, trace: Trace) -> list[Hashable]:
    """The labels of the recorded agents, in the order of the arrays."""
    labels = problem.network.labels
    if isinstance(trace.rows, slice):
        return list(labels)
    return [labels[i] for i in trace.rows]


def _labels(labels: list[Hashable]) -> NDArray[Any]:
    """Labels as a coordinate: small whole numbers and words stay, anything else becomes text.

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
