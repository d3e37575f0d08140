"""Where an agent writes its status and its metrics: never over anything else.

Both files are replaced as a whole, again and again. A path that names the ledger, or any other file
that is not a status or metrics file already, would destroy it, so it is refused before the start.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from veilsum.agents.ledger.lock import lock_path
from veilsum.agents.ledger.store import log_path
from veilsum.agents.membership.adoption import adopted_path
from veilsum.agents.membership.leaving import answer_path, request_path
from veilsum.agents.runtime.spool import spool_path
from veilsum.agents.runtime.status import StatusReport
from veilsum.errors import AgentError

if TYPE_CHECKING:
    from veilsum.agents.config import Setup

METRICS = b"# HELP veilsum_"  # how a metrics file begins
OPTION = "--metrics-file"


def check_outputs(setup: Setup, metrics_file: Path | None = None) -> None:
    """Raise if the status or the metrics would replace a file that is something else.

    Parameters
    ----------
    setup : Setup
        A loaded agent.toml, which names its status file or leaves it beside the ledger.
    metrics_file : Path, optional
        The file for the text-file collector, if there is one.

    Raises
    ------
    AgentError
        If a path is a file that the agent uses, exists and is no status or metrics file, or if
        both are the same.
    """
    status = setup.status_file
    place = setup.locator.at("status", "file")
    _check_unused(setup, status, place)
    if not (_replaceable(status, place) or StatusReport.read(status).data):
        raise AgentError(
            f"{place}: {status} exists and is no status of an agent, and would be replaced; choose "
            "another file, or remove this one"
        )
    if metrics_file is None:
        return
    _check_unused(setup, metrics_file, OPTION)
    if _resolved(metrics_file) == _resolved(status):
        raise AgentError(
            f"{OPTION}: {metrics_file} is the file of the status too; choose another one"
        )
    if not (_replaceable(metrics_file, OPTION) or _begins(metrics_file, METRICS)):
        raise AgentError(
            f"{OPTION}: {metrics_file} exists and has no metrics of an agent, and would be "
            "replaced; choose another file, or remove this one"
        )


def _check_unused(setup: Setup, path: Path, place: str) -> None:
    """Raise if a path is a file of the agent, there already or not yet."""
    wanted = _resolved(path)
    for what, used in _used(setup):
        if _resolved(used) == wanted:
            raise AgentError(
                f"{place}: {path} is {what}, and would be replaced; choose another file, such as "
                f"{setup.config.name}.status.json or {setup.config.name}.prom"
            )


def _used(setup: Setup) -> list[tuple[str, Path]]:
    config, ledger = setup.config, setup.path(setup.config.ledger.path)
    found = [
        ("the ledger", ledger),
        ("the log of the ledger", log_path(ledger)),
        ("the index of the ledger's log", ledger.with_name(f"{ledger.name}-shm")),
        ("the lock of the ledger", lock_path(ledger)),
        ("the spool of the ledger", spool_path(ledger)),
        ("the key of the ledger", setup.ledger_key_file),
        ("the deny list that is kept", setup.kept_list_file),
        ("the agent's file", setup.folder / Path(setup.locator.file).name),
        ("the scenario", setup.path(config.scenario)),
        ("the epoch of the ledger", adopted_path(ledger)),
        ("a request to leave", request_path(ledger)),
        ("the answer to a request to leave", answer_path(ledger)),
    ]
    if setup.membership_file is not None:
        found.append(("the file of a later epoch", setup.membership_file))
    if config.readings.csv is not None:
        found.append(("the file of the readings", setup.path(config.readings.csv)))
    return found


def _replaceable(path: Path, place: str) -> bool:
    """Whether nothing is lost: there is no file, or an empty one."""
    try:
        return not path.exists() or (path.is_file() and path.stat().st_size == 0)
    except OSError as problem:
        raise AgentError(
            f"{place}: cannot look at {path}: {problem.strerror}; choose another file"
        ) from None


def _begins(path: Path, start: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(start)) == start
    except OSError:
        return False


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop of links
        return path.absolute()
