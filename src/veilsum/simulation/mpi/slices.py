"""A rank's slice of a file, of links or of signals, read without the rest of it.

.parquet   whole row groups         .csv    the lines that start in a range of bytes
.npy       rows of a memory map     .npz    the same, inside an archive that is not compressed
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras
from veilsum._types import Family, Floats
from veilsum.errors import NetworkError, SignalError
from veilsum.networks.io import HEADERS, INTEGER, METADATA
from veilsum.simulation.mpi.communicator import together, total

if TYPE_CHECKING:
    from veilsum.simulation.mpi.network import DistributedNetwork

Pairs = NDArray[np.int64]
FORMATS = (".parquet", ".pq", ".npz", ".npy", ".csv")


@dataclass(frozen=True, eq=False)
class Slice:
    """Some links of a file, and what the file says of all of them."""

    pairs: Pairs  # (m, 2)
    size: int | None = None
    directed: bool = False


def read_slice(path: Path, rank: int, ranks: int) -> Slice:
    """The links of slice `rank` of `ranks`; together the slices have every link once."""
    ending = path.suffix.lower()
    readers = {".npz": _npz, ".npy": _npy, ".csv": _csv}
    if ending not in FORMATS:
        raise NetworkError(f"{path} must end in {', '.join(FORMATS)}; found {ending!r}")
    try:
        return readers.get(ending, _parquet)(path, rank, ranks)
    except OSError as error:
        raise NetworkError(f"{path} cannot be read: {error.strerror or error}") from error


def even_slice(count: int, rank: int, ranks: int) -> slice:
    """The part of 0 .. count-1 that a rank reads."""
    return slice(count * rank // ranks, count * (rank + 1) // ranks)


def _whole_numbers(path: Path, array: Any) -> Pairs:
    if array.dtype.kind not in "iu":
        raise NetworkError(
            f"{path} has ends of type {array.dtype}; distributed loading takes whole numbers "
            "0..n-1: number the agents, or load the graph with networks.load"
        )
    return np.asarray(array, dtype=np.int64)


def _npy(path: Path, rank: int, ranks: int) -> Slice:
    try:
        links = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise NetworkError(f"{path} is not an .npy file of numbers: {error}") from error
    return Slice(_whole_numbers(path, _two(path, links)[even_slice(len(links), rank, ranks)]))


def _two(path: Path, links: NDArray[Any]) -> NDArray[Any]:
    if links.ndim != 2 or links.shape[1] != 2:
        raise NetworkError(f"{path}: links must have shape (m, 2); found {links.shape}")
    return links


def _npz(path: Path, rank: int, ranks: int) -> Slice:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            about = {k: _small(archive, k) for k in ("size", "directed") if k in names}
            if "labels" in names:
                raise _labelled(path)
            maps = [_mapped(path, names[k]) for k in _ends(path, names)]
    except zipfile.BadZipFile as error:
        raise NetworkError(f"{path} is not an .npz file: {error}") from error
    links = _two(path, maps[0]) if len(maps) == 1 else None
    mine = even_slice(len(maps[0]), rank, ranks)
    taken = links[mine] if links is not None else np.stack([m[mine] for m in maps], axis=1)
    size = int(about["size"]) if "size" in about else None
    return Slice(_whole_numbers(path, taken), size, bool(about.get("directed", False)))


def _ends(path: Path, names: dict[str, Any]) -> tuple[str, ...]:
    if "links" in names:
        return ("links",)
    for pair in sorted(HEADERS):
        if all(end in names for end in pair):
            return pair
    raise NetworkError(
        f"{path} has the arrays {', '.join(sorted(names))}; expected links of shape (m, 2), or "
        "source and target"
    )


def _small(archive: zipfile.ZipFile, name: str) -> Any:
    return np.load(io.BytesIO(archive.read(f"{name}.npy")), allow_pickle=False)


def _mapped(path: Path, info: zipfile.ZipInfo) -> NDArray[Any]:
    """An array of an archive where it lies; a local header is 30 bytes, a name and an extra."""
    if info.compress_type != zipfile.ZIP_STORED:
        raise NetworkError(
            f"{path} is compressed, so that a part cannot be read alone; save it with numpy.savez"
        )
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
        file.seek(info.header_offset + 30 + name + extra)
        version = np.lib.format.read_magic(file)
        reader = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, kind = reader(file)
        order: Any = "F" if fortran else "C"
        if 0 in shape:
            return np.empty(shape, kind)
        return np.memmap(path, kind, "r", file.tell(), shape, order)


def _labelled(path: Path) -> NetworkError:
    return NetworkError(
        f"{path} gives its agents labels of their own; distributed loading takes agents 0..n-1: "
        "save the graph without labels, or load it with networks.load"
    )


def _parquet(path: Path, rank: int, ranks: int) -> Slice:
    pa = _extras.load("pyarrow")
    parquet = _extras.load("pyarrow.parquet")
    try:
        opened = parquet.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise NetworkError(f"{path} is not a Parquet file: {error}") from error
    about = json.loads((opened.schema_arrow.metadata or {}).get(METADATA, b"{}"))
    if about.get("labels") is not None:
        raise _labelled(path)
    ends = _named(path, opened.schema_arrow.names)
    groups = range(opened.num_row_groups)[even_slice(opened.num_row_groups, rank, ranks)]
    table = opened.read_row_groups(list(groups), columns=ends)
    if any(table.column(end).null_count for end in ends):
        raise NetworkError(f"{path}: links lack an end; remove or complete them")
    pairs = [_whole_numbers(path, table.column(end).to_numpy()) for end in ends]
    return Slice(np.stack(pairs, axis=1), about.get("size"), bool(about.get("directed", False)))


def _named(path: Path, names: list[str]) -> list[str]:
    lower = {name.lower(): name for name in names}
    for pair in sorted(HEADERS):
        if all(end in lower for end in pair):
            return [lower[end] for end in pair]
    if len(names) == 2:
        return names
    raise NetworkError(f"{path} has the columns {', '.join(names)}; expected source and target")


def _csv(path: Path, rank: int, ranks: int) -> Slice:
    """A line belongs to the rank in whose range of bytes it starts."""
    pd = _extras.load("pandas")
    mine = even_slice(path.stat().st_size, rank, ranks)
    text = _lines(path, mine.start, mine.stop)
    if rank == 0:
        text = _headless(text.removeprefix(b"\xef\xbb\xbf"))
    try:
        table = pd.read_csv(
            io.BytesIO(text), header=None, comment="#", dtype=np.int64, skipinitialspace=True
        )
    except pd.errors.EmptyDataError:
        return Slice(np.empty((0, 2), np.int64))
    except (ValueError, OverflowError) as error:
        raise NetworkError(
            f"{path}: bytes {mine.start}..{mine.stop} have a line that is not two whole numbers, "
            "source,target; load graphs with other labels with networks.load"
        ) from error
    return Slice(_two(path, table.to_numpy()))


def _lines(path: Path, start: int, stop: int) -> bytes:
    """The lines that start in start..stop-1."""
    with path.open("rb") as file:
        if start:
            file.seek(start - 1)
            file.readline()  # a line that starts at `start` is kept: the byte before ends another
        begin = file.tell()
        text = file.read(max(stop - begin, 0))
        return text + file.readline() if text and not text.endswith(b"\n") else text


def _headless(text: bytes) -> bytes:
    """Without a first line of names."""
    lines = io.BytesIO(text)
    for line in lines:
        words = line.split(b"#")[0].strip()
        if not words:
            continue
        cells = [cell.strip() for cell in words.decode("utf-8", "replace").split(",")]
        named = not any(INTEGER.fullmatch(cell) for cell in cells)
        return lines.read() if named else text
    return text


@dataclass(frozen=True, eq=False, repr=False)
class SlicedSignals:
    """Measured signals for a `DistributedNetwork`, a `SignalSource`; its repr shows none of them.

    Attributes
    ----------
    comm
        The communicator.
    size
        The number of agents of all ranks.
    first
        The first agent of this rank.
    values
        (own, rounds, ...): the readings of this rank's agents.
    varies, measured
        As in `SignalSource`: the same readings in every replica, and real data.
    sliced
        Whether each rank has the signals of its own agents alone.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> one = SimpleNamespace(rank=0, size=1)
    >>> source = SlicedSignals(one, size=2, first=0, values=np.array([[1.0, 2.0], [3.0, 6.0]]))
    >>> source.signals(t=2, replicas=1).tolist()
    [[2.0], [6.0]]
    """

    comm: Any
    size: int
    first: int
    values: Floats
    varies: bool = False
    measured: bool = True
    sliced: bool = True

    def signals(self, t: int, replicas: int) -> Floats:
        """The readings of this rank's agents in round t."""
        del replicas
        return np.asarray(self.values[:, t - 1 : t], dtype=np.float64)

    def expected(self, family: Family, rounds: int) -> Floats:
        """Mean of xi over all agents and the rounds that are used."""
        xi = family.columns(self.values[:, :rounds])
        return total(self.comm, xi.sum(axis=(0, 1))) / (self.size * rounds)

    def check(self, family: Family, rounds: int) -> None:
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
    """Read this rank's rows of a file with one row per agent, in order, and one column per round.

    Parameters
    ----------
    path
        A .npy file of shape (agents, rounds) or (agents,), or a .parquet file whose columns are the
        rounds.
    network
        The network, whose partition says which agents are this rank's.

    Returns
    -------
    SlicedSignals
        A source for `Problem`.

    Raises
    ------
    SignalError
        On every rank, if the file has another format, another number of agents, or no numbers.

    Examples
    --------
    In a script that `mpiexec -n 4 python script.py` starts::

        network = load_slices("grid.parquet")
        source = load_signals("readings.npy", network)

    A file of another format is refused before it is opened:

    >>> from types import SimpleNamespace
    >>> from veilsum.simulation.mpi.partition import Partition
    >>> one = SimpleNamespace(rank=0, size=1, allgather=lambda error: [error])
    >>> network = SimpleNamespace(comm=one, size=3, partition=Partition(np.array([0, 3])))
    >>> load_signals("readings.txt", network)
    Traceback (most recent call last):
    ...
    veilsum.errors.SignalError: readings.txt must end in .npy or .parquet; found '.txt'
    """
    place = Path(path)
    first, last = network.partition.bounds(network.comm.rank)
    with together(network.comm):
        reader = {".npy": _signals_npy, ".parquet": _signals_parquet}.get(place.suffix.lower())
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


def _signals_npy(path: Path, first: int, last: int, size: int) -> NDArray[Any]:
    try:
        whole = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise SignalError(f"{path} is not an .npy file of numbers: {error}") from error
    _fits(path, len(whole), size)
    return np.asarray(whole[first:last])


def _signals_parquet(path: Path, first: int, last: int, size: int) -> NDArray[Any]:
    """The row groups that this rank's agents lie in, cut to them."""
    parquet = _extras.load("pyarrow.parquet")
    opened = parquet.ParquetFile(path)
    about = opened.metadata
    counts = [about.row_group(k).num_rows for k in range(about.num_row_groups)]
    ends = np.cumsum([0, *counts])
    _fits(path, int(ends[-1]), size)
    groups = [k for k in range(len(counts)) if ends[k] < last and ends[k + 1] > first]
    table = opened.read_row_groups(groups)
    rows = table.slice(first - int(ends[groups[0]]), last - first)
    return np.stack([rows.column(k).to_numpy() for k in range(rows.num_columns)], axis=1)
