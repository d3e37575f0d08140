"""What a check found: ok, a warning or a failure, with a remedy."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from murmura.agents.config import Setup
from murmura.agents.pki import Credentials
from murmura.agents.release import ReleaseMechanism
from murmura.agents.transport.zenoh_config import Endpoint


class CheckOutcome(StrEnum):
    """How a check ended; with a failure the agent would not start, or not do what it should."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True)
class CheckResult:
    """What a check found.

    Attributes
    ----------
    check : str
        The name of the check.
    outcome : CheckOutcome
        Ok, a warning or a failure.
    found : str
        What was found, without any reading.
    remedy : str
        What to do; empty if nothing, or if `found` says it.
    """

    check: str
    outcome: CheckOutcome
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        """In one line."""
        return f"{self.check}: {self.found}{f'; {self.remedy}' if self.remedy else ''}"


def ok(check: str, found: str) -> CheckResult:
    """A check that found nothing wrong."""
    return CheckResult(check, CheckOutcome.OK, found)


def warning(check: str, found: str, remedy: str = "") -> CheckResult:
    """Something that an agent runs with, but that somebody should know."""
    return CheckResult(check, CheckOutcome.WARNING, found, remedy)


def failure(check: str, found: object, remedy: str = "") -> CheckResult:
    """Something that an agent does not run with, or not to any purpose."""
    return CheckResult(check, CheckOutcome.FAILURE, str(found), remedy)


@dataclass(frozen=True)
class ExaminedAgent:
    """What the checks look at.

    Attributes
    ----------
    setup : Setup
        The loaded agent.toml with its scenario.
    offline, insecure, research : bool
        Whether other machines are left alone, and as for `murmura agent`.
    now : datetime
        The present.
    metrics_file : Path or None
        Where metrics are to be written.
    """

    setup: Setup
    offline: bool = True
    insecure: bool = False
    research: bool = False
    now: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    metrics_file: Path | None = None

    @property
    def name(self) -> str:
        """The label of the agent."""
        return self.setup.config.name

    @property
    def device(self) -> str:
        """The name on its certificate."""
        return self.setup.manifest.certificates[self.name]

    @property
    def ledger(self) -> Path:
        """The file of its ledger."""
        return self.setup.path(self.setup.config.ledger.path)

    @property
    def neighbours(self) -> list[str]:
        """Labels of the agents that it exchanges messages with."""
        return sorted(self.setup.manifest.link_weights(self.name))

    @cached_property
    def credentials(self) -> Credentials | None:
        """Its certificate files; raises `AgentError` if one is missing."""
        return None if self.insecure else self.setup.credentials()

    @cached_property
    def mechanism(self) -> ReleaseMechanism:
        """What draws its releases; raises `AgentError` for what an agent must not guarantee."""
        setup = self.setup
        return ReleaseMechanism(setup.manifest, setup.problem, self.name, research=self.research)

    def endpoint(self, text: str) -> Endpoint:
        """An endpoint of the file, parsed as the transport does."""
        return Endpoint.parse(text, insecure=self.insecure)
