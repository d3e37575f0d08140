"""The status of an agent: what it has found so far and how it fares, in a file for others to read.

The file is replaced as a whole (a temporary one beside it is written, synced and renamed), so a
reader sees the old or the new status and never a part. It is written when something has changed, at
most once a second, and at least once in `HEARTBEAT` seconds, by which a reader knows that the agent
still runs.
"""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from veilsum import __version__
from veilsum.agents.ledger.clock import boot_id
from veilsum.agents.results import NO_RESULT, AgentResult, finite
from veilsum.agents.runtime.facts import BudgetFacts, SessionFacts
from veilsum.agents.runtime.metrics import AMOUNTS
from veilsum.errors import AgentError

HEARTBEAT = 60.0  # seconds after which the status is written although nothing changed
STALE = 3 * HEARTBEAT  # seconds without a word after which an agent is not running
ENDED = ("done", "stopped")  # states in which no further status is expected
SUFFIX = ".status.json"  # of the file beside a ledger
MOST_LISTED = 50  # links and names of members in a public status
MOST_COMPONENTS = 64  # of an estimate there
LONGEST_TEXT = 4000  # characters of a text there
PUBLIC = (  # what observers may have; docs/threat-model.md says what each reveals
    "agent", "network", "manifest", "round", "reason", "estimate", "half_width", "sampling",
    "confidence", "coverage", "epsilon", "delta", "guarantee", "attempts", "complete", "state",
    "ready", "readings", "budget", "links", "session", "unit", "last_reading", "certificate_days",
    "time", "version", "epoch",
)  # fmt: skip
FAILED = 1  # the exit code for an agent that is not running, or a file that cannot be read


@dataclass(frozen=True)
class AgentStatus:
    """An agent at one moment.

    Parameters
    ----------
    result : AgentResult
        Its estimate so far, with interval, coverage and guarantee.
    state : str
        "gathering", "running", "done" or "stopped".
    readings : dict of str to int
        Readings by what became of them: taken, released, passed-over, refused, repeated (and
        recognised), skipped (slots without one).
    budget : BudgetFacts or None
        What may be spent; None where nothing is guaranteed.
    links : dict of str to str
        The state of each link, by neighbour.
    last_reading : float or None
        When a reading was last taken, in seconds of the epoch.
    certificate_days : float or None
        Days until its certificate expires.
    time : float
        When this was so, in seconds of the epoch.
    process : int
        The process that the agent runs in.
    machine : str
        What that number belongs to, as of `machine`; empty if unknown.
    session : SessionFacts or None
        How far it is in masked sums; None without any.
    covered : bool
        Whether the guarantee covers one who sees the estimates of all agents: observers are sent
        estimates only then.

    Examples
    --------
    >>> from veilsum.agents.coverage import Coverage
    >>> result = AgentResult(
    ...     "a", "pair", "c0ffee11" * 8, 3, "running", (0.5,), (0.51,), (0.25,), None, 0.95,
    ...     Coverage(("a", "b"), ("a", "b"), (3, 2)), 2, 1.0, 0.0, "",
    ... )
    >>> status = AgentStatus(result, "running", {"released": 3}, None, {"b": "open"}, None, None, 0.0)
    >>> status.ready, status.to_json()["coverage"]["contributing"]
    (True, 2)
    >>> status.public()["withheld"], status.public()["readings"]
    (['estimate', 'half_width', 'sampling'], {'released': 3})
    """

    result: AgentResult
    state: str
    readings: dict[str, int]
    budget: BudgetFacts | None
    links: dict[str, str]
    last_reading: float | None
    certificate_days: float | None
    time: float
    process: int = field(default_factory=os.getpid)
    machine: str = ""
    session: SessionFacts | None = None
    covered: bool = False

    @property
    def ready(self) -> bool:
        """Whether it takes part: gathered, and a neighbour has an open link, or it is done."""
        open_link = any(state in ("open", "done") for state in self.links.values())
        return self.state == "done" or (self.state == "running" and open_link)

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON takes it; `AgentResult.to_json` and more."""
        budget = None if self.budget is None else self.budget._asdict()
        if budget is not None:
            for name in ("epsilon", *AMOUNTS):
                budget[name] = finite(budget[name])
        return self.result.to_json() | {
            "state": self.state,
            "ready": self.ready,
            "readings": self.readings,
            "budget": budget,
            "links": self.links,
            "session": None if self.session is None else self.session._asdict(),
            "last_reading": self.last_reading,
            "certificate_days": self.certificate_days,
            "time": self.time,
            "process": self.process,
            "machine": self.machine,
            "version": __version__,
        }

    def public(self) -> dict[str, Any]:
        """What observers may have of it: `PUBLIC`, times in whole seconds, long lists cut.

        `withheld` names what is left out because no guarantee covers it, and `left_out` says how many
        entries of which list were cut.
        """
        whole = self.to_json()
        data = {name: whole[name] for name in PUBLIC}
        data["readings"] = {"released": self.readings.get("released", 0)}
        for name in ("last_reading", "certificate_days", "time"):
            data[name] = None if data[name] is None else math.floor(data[name])
        if data["budget"] is not None and data["budget"]["refills_at"] is not None:
            data["budget"]["refills_at"] = math.floor(data["budget"]["refills_at"])
        data["withheld"] = []
        if not self.covered:
            data["withheld"] = ["estimate", "half_width", "sampling"]
            data |= {"estimate": [], "half_width": [], "sampling": None}
        data["left_out"] = _cut(data)
        return data


def _cut(data: dict[str, Any]) -> dict[str, int]:
    """Cut long lists of a public status; how many entries each of them has lost."""
    lost: dict[str, int] = {}

    def first(name: str, entries: list[Any], most: int) -> list[Any]:
        if len(entries) > most:
            lost[name] = len(entries) - most
        return entries[:most]

    open_last = sorted(data["links"].items(), key=lambda link: link[1] in ("open", "done"))
    data["links"] = dict(first("links", open_last, MOST_LISTED))
    covered = data["coverage"] = dict(data["coverage"])
    for name in ("missing", "absent", "left", "lost", "former"):
        covered[name] = first(name, covered[name], MOST_LISTED)
    for name in ("estimate", "half_width", "sampling"):
        if data[name] is not None:
            data[name] = first(name, list(data[name]), MOST_COMPONENTS)
    data["guarantee"] = data["guarantee"][:LONGEST_TEXT]
    return lost


class StatusFile:
    """Writes each status of an agent to a file, readable by its owner only.

    Parameters
    ----------
    path : Path
        The file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.status.json"
    ...     StatusFile(path).write({"state": "running"})
    ...     oct(path.stat().st_mode & 0o777), json.loads(path.read_text())
    ('0o600', {'state': 'running'})
    """

    def __init__(self, path: Path) -> None:
        """Nothing is written yet."""
        self.path = path

    def __call__(self, status: AgentStatus) -> None:
        """Replace the file by a status."""
        self.write(status.to_json())

    def write(self, data: dict[str, Any]) -> None:
        """Replace the file at once: temporary file, sync, rename."""
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), 0o600)
                json.dump(data, file, allow_nan=False, ensure_ascii=False)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        except OSError as problem:
            temporary.unlink(missing_ok=True)
            raise AgentError(
                f"cannot write the status to {self.path}: {problem.strerror}; check [status] file"
            ) from None


@dataclass(frozen=True)
class StatusReport:
    """A status that was read from a file.

    Parameters
    ----------
    path : Path
        The file.
    data : dict
        What `AgentStatus.to_json` wrote; empty if it could not be read.
    problem : str
        Why it could not be read or why the agent is not running; empty if all is well.

    Examples
    --------
    >>> StatusReport(Path("a.status.json"), {}, "there is no status").exit_code
    1
    """

    path: Path
    data: dict[str, Any]
    problem: str = ""

    @property
    def exit_code(self) -> int:
        """0 with an estimate of the quorum, 3 without, 1 if the agent is not running."""
        if self.problem:
            return FAILED
        return 0 if self.data["complete"] else NO_RESULT

    def to_json(self) -> dict[str, Any]:
        """The status, where it was found and what is wrong."""
        return {"file": str(self.path), "problem": self.problem or None} | self.data

    @classmethod
    def read(cls, path: Path, now: float | None = None) -> StatusReport:
        """Read a status and judge whether the agent still runs.

        Parameters
        ----------
        path : Path
            The file.
        now : float, optional
            The time, in seconds of the epoch; the present by default.

        Returns
        -------
        StatusReport
            With `problem` set where the file is missing, damaged or stale.
        """
        try:
            data = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            return cls(path, {}, "there is no status; the agent has not run, or writes elsewhere")
        except (OSError, ValueError):
            return cls(path, {}, "the file cannot be read as a status")
        needed = {"agent", "state", "time", "complete", "estimate", "half_width", "coverage"}
        if not isinstance(data, dict) or not needed <= data.keys():
            return cls(path, {}, "the file is no status of an agent")
        return cls(path, data, _stale(data, time.time() if now is None else now))


def _stale(data: dict[str, Any], now: float) -> str:
    """Why the agent of a status is not running; empty if it is, or has ended."""
    if data["state"] in ENDED:
        return ""
    age = now - data["time"]
    since = f"its last status is {age:.0f} s old"
    if age > STALE:
        return f"not running: {since}"
    if data.get("machine") == machine() != "" and not _exists(int(data.get("process", 0))):
        return f"not running: its process has ended; {since}"
    return ""


def machine() -> str:
    """Identifies what process numbers belong to: the boot and its namespace; empty if unknown."""
    try:
        return f"{boot_id()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _exists(process: int) -> bool:
    """Whether a process of this machine exists; one that cannot be seen counts."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def status_files(place: Path) -> list[Path]:
    """The status files of a place: itself, beside its ledger, or all in a folder.

    Parameters
    ----------
    place : Path
        A status file, an agent.toml, or a folder.

    Returns
    -------
    list of Path
        At least one; it need not exist.

    Raises
    ------
    AgentError
        If a folder holds none.
    """
    if place.is_dir():
        found = sorted(place.rglob(f"*{SUFFIX}"))
        if not found:
            raise AgentError(
                f"{place} holds no {SUFFIX[1:]} file of an agent; an agent writes one beside its "
                "ledger"
            )
        return found
    if place.suffix == ".toml":
        from veilsum.agents.config import Setup

        return [Setup.load(place).status_file]
    return [place]
