"""A rank's slice of a file of links, read without the rest of it.

.parquet   whole row groups         .csv    the lines that start in a range of bytes
.npy       rows of a memory map     .npz    the same, inside an archive that is not compressed
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.errors import NetworkError
from murmura.network.edges import HEADERS, INTEGER
from murmura.network.files import METADATA

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


def share(count: int, rank: int, ranks: int) -> slice:
    """An even share of 0 .. count-1."""
    return slice(count * rank // ranks, count * (rank + 1) // ranks)


def _whole_numbers(path: Path, array: Any) -> Pairs:
    if array.dtype.kind not in "iu":
        raise NetworkError(
            f"{path} has ends of type {array.dtype}; distributed loading takes whole numbers "
            "0..n-1: number the agents, or load the graph with network.load"
        )
    return np.asarray(array, dtype=np.int64)


def _npy(path: Path, rank: int, ranks: int) -> Slice:
    try:
        links = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise NetworkError(f"{path} is not an .npy file of numbers: {error}") from error
    return Slice(_whole_numbers(path, _two(path, links)[share(len(links), rank, ranks)]))


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
    mine = share(len(maps[0]), rank, ranks)
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
        "save the graph without labels, or load it with network.load"
    )


def _parquet(path: Path, rank: int, ranks: int) -> Slice:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        opened = parquet.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise NetworkError(f"{path} is not a Parquet file: {error}") from error
    about = json.loads((opened.schema_arrow.metadata or {}).get(METADATA, b"{}"))
    if about.get("labels") is not None:
        raise _labelled(path)
    ends = _named(path, opened.schema_arrow.names)
    groups = range(opened.num_row_groups)[share(opened.num_row_groups, rank, ranks)]
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
    import pandas as pd

    mine = share(path.stat().st_size, rank, ranks)
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
            "source,target; load graphs with other labels with network.load"
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
