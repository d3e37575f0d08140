"""What a check found: ok, a warning or a failure, with a remedy."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from veilsum.agents.config import Setup
from veilsum.agents.pki import Credentials
from veilsum.agents.release import ReleaseMechanism, check_guarantee, guarantee
from veilsum.agents.release.guarantees import request_of
from veilsum.agents.transport.zenoh_config import Endpoint
from veilsum.privacy import Guarantee, MaskedDP, PrivacyEvent


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
        Whether other machines are left alone, and as for `veilsum agent`.
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

    @property
    def masked(self) -> bool:
        """Whether it takes part in a masked sum, and releases nothing by itself."""
        return self.setup.manifest.masked

    @cached_property
    def _mechanism(self) -> ReleaseMechanism:
        setup = self.setup
        return ReleaseMechanism(setup.manifest, setup.problem, self.name, research=self.research)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is guaranteed; raises `AgentError` for what an agent must not guarantee."""
        if not self.masked:
            return self._mechanism.guarantee
        manifest, family = self.setup.manifest, self.setup.problem.family
        if not self.research:
            check_guarantee(manifest, family)
        return guarantee(manifest, family)

    @cached_property
    def cost(self) -> PrivacyEvent | None:
        """Of a reading, or of all attempts of a query that it is in; None without a guarantee."""
        if not self.masked:
            return self._mechanism.event(1)
        manifest = self.setup.manifest
        return PrivacyEvent.of(manifest.epsilon, manifest.delta)

    @cached_property
    def cost_of_attempt(self) -> PrivacyEvent | None:
        """Of one attempt of a query, or of a reading with local noise."""
        asked = request_of(self.setup.manifest)
        if not isinstance(asked, MaskedDP):
            return self.cost
        return PrivacyEvent.of(*asked.session_cost)

    def endpoint(self, text: str) -> Endpoint:
        """An endpoint of the file, parsed as the transport does."""
        return Endpoint.parse(text, insecure=self.insecure)
