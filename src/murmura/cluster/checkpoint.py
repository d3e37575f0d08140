"""Checkpoints: what every rank holds after a round, complete or not there at all.

    folder/round-00000040/part-00000.npz ...     one per rank, each written aside and renamed
    folder/round-00000040/manifest.json          written last, by rank 0, after all parts

A folder without a manifest is not a checkpoint. The manifest names the problem (a fingerprint),
the round and the length and checksum of each part, so that a torn or foreign one is never used.
Parts hold estimates by agent: another number of ranks can go on with them. The last two are kept.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from murmura.cluster.comm import together
from murmura.cluster.fingerprint import contents, fingerprint
from murmura.errors import MurmuraError

if TYPE_CHECKING:
    from murmura.cluster.held import Held

KEPT = 2
MANIFEST = "manifest.json"
__all__ = ["contents", "fingerprint", "load", "newest", "save"]


def save(folder: Path, name: str, t: int, held: Held) -> None:
    """Write the state after round t; it counts once its manifest is there."""
    run, comm = held.run, held.run.comm
    place = folder / f"round-{t:08d}"
    sums = held.reduced()
    with together(comm):
        place.mkdir(parents=True, exist_ok=True)
        if comm.rank == 0:
            (place / MANIFEST).unlink(missing_ok=True)
    with together(comm):
        parts: dict[str, Any] = {"agents": run.part.agents[: run.part.own]}
        for k, state in enumerate(run.states[::2]):  # present and past: what is between is room
            parts[f"state{k}"] = state[: run.part.own]
        if run.weight is not None:
            parts["weight"] = run.weight[0][: run.part.own]
        for k, kept in enumerate(held.stored):
            parts[f"kept{k}"] = kept
        parts["slots"] = held.slots
        if comm.rank == 0:
            parts["sums"] = sums
        mine = _write(place / _part(comm.rank), _packed(parts))
    every = comm.gather(mine)
    with together(comm):
        if comm.rank == 0:
            about = {"problem": name, "round": t, "kept": len(held.stored), "parts": every}
            _write(place / MANIFEST, json.dumps(about, indent=2).encode())
            _forget(folder, t)


def newest(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The newest checkpoint whose manifest is there, and what that says."""
    for place in sorted(folder.glob("round-*"), reverse=True):
        if (place / MANIFEST).is_file():
            return place, json.loads((place / MANIFEST).read_text())
    return None


def load(folder: Path, name: str, held: Held) -> int:
    """Take up the newest checkpoint; return the round to go on with, 0 if there is none."""
    comm = held.run.comm
    here = None
    with together(comm):
        if comm.rank == 0:
            here = newest(folder)
    found = comm.bcast(here)
    if found is None:
        return 0
    place, about = found
    with together(comm):
        if about["problem"] != name:
            raise MurmuraError(
                f"{place} belongs to another problem: its network, law, signals, privacy, rounds, "
                "seed or record differ; choose another folder, or run without resuming"
            )
        _take_up(place, about, held)
    return int(about["round"]) + 1


def _take_up(place: Path, about: dict[str, Any], held: Held) -> None:
    """Pick this rank's agents out of all parts, one part at a time."""
    run = held.run
    mine = run.part.agents[: run.part.own]
    held.stored = [np.empty((len(held.slots), run.layout.kept.size)) for _ in range(about["kept"])]
    for rank, (length, checksum) in enumerate(about["parts"]):
        parts = _read(place / _part(rank), length, checksum)
        here, there = _matched(mine, parts["agents"])
        for k, state in enumerate(run.states[::2]):
            state[here] = parts[f"state{k}"][there]
        if run.weight is not None:
            run.weight[0][here] = parts["weight"][there]
        here, there = _matched(held.slots, parts["slots"])
        for k, kept in enumerate(held.stored):
            kept[here] = parts[f"kept{k}"][there]
        if rank == 0:
            held.before = [parts["sums"]]


def _matched(mine: NDArray[Any], theirs: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    _, here, there = np.intersect1d(
        mine.astype(np.int64), theirs.astype(np.int64), assume_unique=True, return_indices=True
    )
    return here, there


def _part(rank: int) -> str:
    return f"part-{rank:05d}.npz"


def _packed(parts: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **parts)
    return buffer.getvalue()


def _write(path: Path, content: bytes) -> tuple[int, int]:
    """Write aside, bring to disk, rename: the file is whole or not there."""
    aside = path.with_name(path.name + ".tmp")
    with aside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    return len(content), zlib.crc32(content)


def _read(path: Path, length: int, checksum: int) -> dict[str, NDArray[Any]]:
    content = path.read_bytes()
    if (len(content), zlib.crc32(content)) != (length, checksum):
        raise MurmuraError(
            f"{path} is damaged: it is not what was written; delete {path.parent}, and resuming "
            "goes on from the checkpoint before it"
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def _forget(folder: Path, t: int) -> None:
    """Delete all up to round t but the last two, and what was never finished."""
    places = [p for p in sorted(folder.glob("round-*")) if p.name <= f"round-{t:08d}"]
    whole = [p for p in places if (p / MANIFEST).is_file()]
    for place in places:
        if place not in whole[-KEPT:]:
            shutil.rmtree(place)
