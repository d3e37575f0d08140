"""A request to a running agent: a neighbour went back to a version that proves no certificate.

    LEDGER.unproved.json      {"names": ["north"]}      mode 0600, written by the operator, taken by the agent

A device that has proved its certificate to this process is heard with a proof only: otherwise whoever holds
an old certificate of it could pass for an earlier version. If its operator rolls it back, a person
must say so, on each site that refuses it. The request counts once: what was proved until then is
forgotten, and the next proof binds the device again. The deny list is not affected.

Whoever can write beside the ledger could restart the agent too, which forgets the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from veilsum.agents.pki.files import store
from veilsum.errors import AgentError

POLL = 0.1  # seconds between two looks whether a request was taken


def request_path(ledger: Path) -> Path:
    """Where a request is written."""
    return ledger.with_name(f"{ledger.name}.unproved.json")


def ask(path: Path, device: str) -> None:
    """Write a request, beside those that were not taken yet."""
    names = sorted({*_read(path), device})
    try:
        store(path, json.dumps({"names": names}).encode() + b"\n", secret=True)
    except OSError as problem:
        raise AgentError(
            f"cannot write {path}: {problem.strerror}; run this as the user that the agent runs as"
        ) from None


def take(path: Path | None) -> list[str] | None:
    """The devices that a request names, which is removed; None if there is none, or it cannot be."""
    if path is None or not path.exists():
        return None
    names = _read(path)
    try:
        path.unlink()
    except OSError:
        return None
    return names


def wait_until_taken(path: Path, seconds: float, running: Callable[[], bool]) -> bool:
    """Whether the agent has taken the request within so many seconds."""
    end = time.monotonic() + seconds
    while path.exists():
        if not running() or time.monotonic() >= end:
            return False
        time.sleep(POLL)
    return True


def _read(path: Path) -> list[str]:
    try:
        return [str(name) for name in json.loads(path.read_bytes())["names"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
