"""Measured signals of which each rank holds those of its own agents."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.cluster.comm import together, total
from murmura.cluster.network import DistributedNetwork
from murmura.errors import SignalError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class SlicedSignals:
    """A `Source` of measured signals for a `DistributedNetwork`; nothing shows them."""

    comm: Any
    size: int  # agents of all ranks
    first: int
    values: Floats  # (own, rounds, ...)
    varies: bool = False
    measured: bool = True
    sliced: bool = True

    def signals(self, t: int, replicas: int) -> Floats:
        """Give the readings of this rank's agents in round t."""
        del replicas
        return np.asarray(self.values[:, t - 1 : t], dtype=np.float64)

    def expected(self, family: Any, rounds: int) -> Floats:
        """Mean of xi over all agents and the rounds that are used."""
        xi = family.columns(self.values[:, :rounds])
        return total(self.comm, xi.sum(axis=(0, 1))) / (self.size * rounds)

    def check(self, family: Any, rounds: int) -> None:
        """Raise, on every rank, unless the readings suffice and lie inside the support."""
        with together(self.comm):
            have = self.values.shape[1]
            if have < rounds:
                raise SignalError(
                    f"the signals have {have} readings per agent and the run needs {rounds}; "
                    f"ask for rounds = {have} or fewer, or bring more readings"
                )
            outside = family.support.violations(self.values).reshape(len(self.values), -1)
            if outside.any():
                agent = self.first + int(outside.any(axis=1).argmax())
                raise SignalError(
                    f"a signal of agent {agent} is outside the support of {family.name}, which "
                    f"expects {family.support.describe()}; {family.remedy}"
                )


def load_signals(path: str | os.PathLike[str], network: DistributedNetwork) -> SlicedSignals:
    """This rank's slice of a file with one row per agent, in order, and one column per round.

    .npy (agents, rounds) or (agents,), or .parquet whose columns are the rounds.
    """
    place = Path(path)
    first, last = network.partition.bounds(network.comm.rank)
    with together(network.comm):
        reader = {".npy": _npy, ".parquet": _parquet}.get(place.suffix.lower())
        if reader is None:
            raise SignalError(f"{place} must end in .npy or .parquet; found {place.suffix!r}")
        values = reader(place, first, last, network.size)
        if values.dtype.kind not in "iuf":
            raise SignalError(f"{place} must hold real numbers; found {values.dtype}")
    wide = np.array(values, dtype=np.float64)
    return SlicedSignals(
        network.comm, network.size, first, wide[:, None] if wide.ndim == 1 else wide
    )


def _fits(path: Path, found: int, size: int) -> None:
    if found != size:
        raise SignalError(f"{path} has signals of {found} agents and the network has {size}")


def _npy(path: Path, first: int, last: int, size: int) -> NDArray[Any]:
    try:
        whole = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise SignalError(f"{path} is not an .npy file of numbers: {error}") from error
    _fits(path, len(whole), size)
    return np.asarray(whole[first:last])


def _parquet(path: Path, first: int, last: int, size: int) -> NDArray[Any]:
    """The row groups that this rank's agents lie in, cut to them."""
    from pyarrow import parquet

    opened = parquet.ParquetFile(path)
    about = opened.metadata
    counts = [about.row_group(k).num_rows for k in range(about.num_row_groups)]
    ends = np.cumsum([0, *counts])
    _fits(path, int(ends[-1]), size)
    groups = [k for k in range(len(counts)) if ends[k] < last and ends[k + 1] > first]
    table = opened.read_row_groups(groups)
    rows = table.slice(first - int(ends[groups[0]]), last - first)
    return np.stack([rows.column(k).to_numpy() for k in range(rows.num_columns)], axis=1)
