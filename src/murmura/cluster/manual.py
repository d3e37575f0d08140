"""What to do when a job has ended before it was finished; read by a process without murmura."""

from __future__ import annotations

from pathlib import Path


def how_to_go_on(folder: str) -> str:
    """Name the newest complete checkpoint of a folder, and the way on from it."""
    if not folder:
        return "no checkpoints were asked for: run it again, with --checkpoint-every to keep some"
    found = sorted(Path(folder).rglob("manifest.json"), key=lambda path: path.stat().st_mtime)
    if not found:
        return f"no checkpoint in {folder} was complete yet: run the same command again"
    return f"the checkpoint {found[-1].parent} is complete: run the same command with --resume"
