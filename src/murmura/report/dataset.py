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


def build(
    problem: Problem,
    trace: Trace,
    guarantee: str,
    remarks: list[str],
    noise: str = SIMULATED,
) -> xr.Dataset:
    """Label everything a run left; without protection the private variables are absent."""
    import xarray as xr

    d = trace.target.shape[1]
    variables: dict[str, Any] = {
        "target": _clean(("component",), trace.target, problem, d),
        "cost_of_decentralisation": _clean(("round",), trace.decentralisation, problem, d),
    }
    coordinates: dict[str, Any] = {"round": np.arange(len(trace.total))}
    if problem.source.varies or problem.budgets:
        coordinates["replica"] = np.arange(problem.replicas)
    if problem.budgets:
        coordinates["epsilon"] = np.array(problem.budgets)
        axes = ("round", "epsilon", "replica")
        variables["total_error"] = (axes, trace.total)
        variables["cost_of_privacy"] = (axes, trace.privacy)
    else:
        variables["total_error"] = variables["cost_of_decentralisation"]
    if d > 1:
        coordinates["component"] = np.arange(d)
    if trace.clean is not None:
        coordinates["recorded"] = np.array(trace.kept)
        coordinates["agent"] = _labels(kept_labels(problem, trace))
        variables["clean"] = _clean(
            ("recorded", "agent", "component"), np.moveaxis(trace.clean, 2, 0), problem, d
        )
        if problem.budgets:
            variables["private"] = _squeeze(
                ("recorded", "agent", "epsilon", "replica", "component"), trace.private, d
            )
    data = xr.Dataset(variables, coords=coordinates)
    order = ("agent", "recorded", "round", "replica", "epsilon", "component")
    data = data.transpose(*(axis for axis in order if axis in data.dims))
    data.attrs = attributes(problem, guarantee, remarks, noise)
    return data


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
    """What ran, as attributes that travel with the file."""
    return {
        "law": problem.law.name,
        "family": problem.family.name,
        "network": describe_network(problem.network),
        "protects": problem.want.protects,
        "guarantee": guarantee,
        "noise": noise if problem.budgets else "none",
        "seed": str(problem.seed),  # netCDF 3 has no 64-bit integers
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
        remarks.append(
            "The signals are measured: targets, errors and a known seed tell of them, so these "
            "numbers are as secret as the signals."
        )
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


def writable(data: xr.Dataset, problem: Problem) -> xr.Dataset:
    """Leave out what must not reach a file.

    Of measured signals, estimates without noise; and, where the noise's scale is read off them,
    the errors and the seed, which together give the scales away.
    """
    if not problem.source.measured:
        return data
    if problem.law.starts_raw and "private" in data:
        data = data.sel(recorded=data.recorded > 0)
    if getattr(problem.want, "reads_signals", False):
        data = data.drop_vars(["total_error", "cost_of_privacy"], errors="ignore")
        data.attrs = {key: value for key, value in data.attrs.items() if key != "seed"}
    return data.drop_vars("clean", errors="ignore")


def errors_frame(data: xr.Dataset) -> pd.DataFrame:
    """Errors in long form: one row per round, replica and epsilon."""
    names = ["total_error", "cost_of_privacy", "cost_of_decentralisation"]
    return data[[n for n in names if n in data]].to_dataframe().reset_index()
