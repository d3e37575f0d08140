"""All checks in order, and their report."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veilsum.agents.config import Setup
from veilsum.agents.doctor import identity, machine, spending, stream
from veilsum.agents.doctor.outcomes import CheckOutcome, CheckResult, ExaminedAgent, failure
from veilsum.errors import VeilsumError

Check = Callable[[ExaminedAgent], Iterable[CheckResult]]
CHECKS: tuple[tuple[str, Check], ...] = (
    ("files", identity.files),
    ("guarantee", identity.terms),
    ("membership", identity.membership),
    ("peers", identity.peers),
    ("keys", identity.keys),
    ("signing", identity.signing),
    ("hosts", identity.hosts),
    ("observers", identity.observers),
    ("ledger", spending.ledger),
    ("budget", spending.budget),
    ("accuracy", spending.accuracy),
    ("readings", stream.readings),
    ("disk", machine.disk),
    ("outputs", machine.outputs),
    ("clock", machine.clock),
    ("versions", machine.versions),
    ("ports", machine.ports),
    ("reachable", machine.reachable),
)


@dataclass(frozen=True)
class DoctorReport:
    """The results of all checks of one agent.

    Attributes
    ----------
    agent, network, manifest : str
        The agent's label, the name of its network and the hash of the terms; empty if the files
        cannot be loaded.
    guarantee : str
        What is guaranteed, in words.
    results : tuple of CheckResult
        In the order of the checks.
    """

    agent: str
    network: str
    manifest: str
    guarantee: str
    results: tuple[CheckResult, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing failed; there may be warnings."""
        return all(result.outcome is not CheckOutcome.FAILURE for result in self.results)

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON takes it."""
        return {
            "agent": self.agent,
            "network": self.network,
            "manifest": self.manifest,
            "guarantee": self.guarantee,
            "healthy": self.healthy,
            "checks": [
                {"check": r.check, "outcome": r.outcome.value, "found": r.found, "remedy": r.remedy}
                for r in self.results
            ],
        }


def examine(
    path: str | Path,
    *,
    offline: bool = False,
    insecure: bool = False,
    research: bool = False,
    keys: Path | None = None,
    now: dt.datetime | None = None,
) -> DoctorReport:
    """Examine the agent of a file; files that cannot be loaded are a failure of the report.

    Parameters
    ----------
    path : str or Path
        An agent.toml.
    offline : bool
        Contact no other machine.
    insecure, research : bool
        As for `veilsum agent`.
    keys : Path, optional
        A folder in place of [keys].
    now : datetime, optional
        The present by default.

    Returns
    -------
    DoctorReport
        The results of all checks.
    """
    try:
        setup = Setup.load(path, keys)
    except (VeilsumError, OSError) as problem:
        return DoctorReport("", "", "", "", (failure("files", problem),))
    found = checks(setup, offline=offline, insecure=insecure, research=research, now=now)
    manifest = setup.manifest
    stated = next((r.found for r in found if r.check == "guarantee"), "")
    return DoctorReport(
        setup.config.name, manifest.name, manifest.digest.hex(), stated, tuple(found)
    )


def checks(
    setup: Setup,
    *,
    offline: bool = True,
    insecure: bool = False,
    research: bool = False,
    now: dt.datetime | None = None,
    metrics_file: Path | None = None,
) -> list[CheckResult]:
    """All checks of a setup, in order.

    Parameters
    ----------
    setup : Setup
        A loaded agent.toml.
    offline, insecure, research, now
        As for `examine`.
    metrics_file : Path, optional
        As for `veilsum agent`.

    Returns
    -------
    list of CheckResult
        At least one for each check that applies. A check that itself fails is a failure.
    """
    present = now or dt.datetime.now(dt.UTC)
    agent = ExaminedAgent(setup, offline, insecure, research, present, metrics_file)
    results = []
    for name, check in CHECKS:
        try:
            results += list(check(agent))
        except (VeilsumError, OSError) as problem:
            results.append(failure(name, problem))
    return results
