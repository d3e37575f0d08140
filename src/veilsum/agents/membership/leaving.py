"""How a running agent is asked to leave: a request in a file beside its ledger, and its answer.

    LEDGER.leave.json     {"request": "..."}                         mode 0600, written by the operator
    LEDGER.left.json      {"request": "...", "handed_over": {...}}   mode 0600, written by the agent

Whoever can write beside the ledger could delete it too, so the request needs no other proof. A file
is looked at in every second, which needs no thread, no port and no signal, works in containers, and
survives a restart of the agent: it leaves once it runs.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from veilsum.agents.coverage import Departure
from veilsum.agents.pki.files import store
from veilsum.errors import AgentError

POLL = 0.2  # seconds between two looks at the answer


def request_path(ledger: Path) -> Path:
    """Where the request is written."""
    return ledger.with_name(f"{ledger.name}.leave.json")


def answer_path(ledger: Path) -> Path:
    """Where the answer is written."""
    return ledger.with_name(f"{ledger.name}.left.json")


def ask_to_leave(ledger: Path) -> str:
    """Write a request; the name by which its answer is known."""
    name = secrets.token_hex(8)
    data = json.dumps({"request": name}).encode() + b"\n"
    try:
        store(request_path(ledger), data, secret=True)
    except OSError as problem:
        raise AgentError(
            f"cannot write {request_path(ledger)}: {problem.strerror}; run this as the user that "
            "the agent runs as"
        ) from None
    return name


def asked_to_leave(ledger: Path) -> str:
    """The name of the request that waits for the agent; empty if there is none."""
    path = request_path(ledger)
    if not path.exists():
        return ""
    try:
        return str(json.loads(path.read_bytes())["request"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "unreadable"  # whatever is in it, somebody asked


def answer(ledger: Path, label: str, found: Departure) -> None:
    """Say what became of the agent's part, and take the request away.

    Parameters
    ----------
    ledger : Path
        The agent's.
    label : str
        The agent.
    found : Departure
        What was handed over and what was lost.
    """
    data = {"request": asked_to_leave(ledger), "agent": label}
    text = json.dumps(data | found.to_json() | {"sentence": found.sentence()})
    store(answer_path(ledger), text.encode() + b"\n", secret=True)
    request_path(ledger).unlink(missing_ok=True)


def said_before(ledger: Path) -> str:
    """What the agent of this ledger answered when it left; empty if it has not.

    Parameters
    ----------
    ledger : Path
        The agent's.
    """
    try:
        return str(json.loads(answer_path(ledger).read_bytes())["sentence"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def wait_for_answer(
    ledger: Path, name: str, seconds: float, running: Callable[[], bool]
) -> dict[str, Any] | None:
    """The answer to a request, or None if the time is up or the agent has ended without one.

    Parameters
    ----------
    ledger : Path
        The agent's.
    name : str
        Of the request.
    seconds : float
        How long at most.
    running : callable
        Whether the agent's process still runs.
    """
    end = time.monotonic() + seconds
    while True:
        alive = running()  # before the look: an agent answers before it ends
        try:
            found = json.loads(answer_path(ledger).read_bytes())
            if found.get("request") == name:
                return dict(found)
        except (OSError, ValueError, AttributeError):
            pass
        if not alive or time.monotonic() >= end:
            return None
        time.sleep(POLL)
