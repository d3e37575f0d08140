"""The public terms of a scenario that a page for the one who signs is made from.

No signal is read: the problem is built without them, so that a file of readings need not even exist
where the page is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from veilsum.errors import ScenarioError, VeilsumError
from veilsum.privacy import Guarantee, PrivacyEvent, SecureParameters, Status, guarantee_of
from veilsum.privacy.mechanisms import SecureMechanism
from veilsum.scenario import Job, Scenario, Spec
from veilsum.simulation import Problem

if TYPE_CHECKING:
    from veilsum.agents.config_tables import AgentConfig, BudgetTable

DAY = 86_400.0  # seconds


class Mode(StrEnum):
    """How signals are protected."""

    LOCAL = "local noise"
    NETWORK = "local noise in every round (Network DP)"
    SECURE = "secure sum"
    MASKED = "masked sum"
    NOTHING = "nothing"


SUMS = (Mode.SECURE, Mode.MASKED)


@dataclass(frozen=True, eq=False)
class SignOffTerms:
    """What is public of one variant of a scenario.

    Attributes
    ----------
    scenario : Scenario
        The scenario.
    job : Job
        The variant, built without signals, at its largest epsilon.
    spec : Spec
        Its sections.
    guarantee : Guarantee
        What agents guarantee, or the simulation where agents cannot run it.
    refused : str
        Why agents cannot run it; empty if they can.
    manifest : str
        sha256 of the terms that agents agree on; empty where they are not complete.
    lacking : str
        What the manifest lacks, if anything.
    site : AgentConfig or None
        The agent whose file was given, for its budget.
    reason : str
        Why an epsilon beyond 5 for the whole value is enough; empty if nobody says so.

    Examples
    --------
    >>> from veilsum.scenario import template
    >>> terms = SignOffTerms.of(Scenario.parse(template()), "average")
    >>> str(terms.mode), str(terms.guarantee.status), terms.refused
    ('local noise', 'proved', '')
    """

    scenario: Scenario
    job: Job
    spec: Spec
    guarantee: Guarantee
    refused: str = ""
    manifest: str = ""
    lacking: str = ""
    site: AgentConfig | None = None
    reason: str = ""

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        variant: str | None = None,
        agent: Path | None = None,
        reason: str = "",
    ) -> SignOffTerms:
        """The terms of a variant.

        Parameters
        ----------
        scenario
            The scenario.
        variant
            The name of the variant; the first without one.
        agent
            An agent.toml, for its [budget]; the variant is that of the agent, if it names one.
        reason
            Why an epsilon beyond 5 for the whole value is enough, in place of the scenario's.

        Returns
        -------
        SignOffTerms
            Nothing of them depends on a signal.

        Raises
        ------
        ScenarioError
            If there is no such variant, or its parts do not fit together.
        AgentError
            If the agent runs another scenario or another variant.
        """
        site = None if agent is None else _site(agent, scenario, variant)
        if site is not None:
            variant = variant or site.variant
        spec = next((s for s in scenario.variants if variant in (None, s.name)), None)
        if spec is None:
            known = ", ".join(s.name for s in scenario.variants)
            raise ScenarioError(f"there is no variant {variant!r}; known: {known}")
        epsilons = spec.privacy.epsilon
        if len(epsilons) > 1:  # what else is on the page is that of the weakest
            scenario = scenario.with_(epsilons=[max(epsilons)])
        job = scenario.build(spec.name, signals=False)
        spec = next(s for s in scenario.variants if s.name == spec.name)
        refused, manifest, lacking, stated = _agents(scenario, spec, job.problem)
        guarantee = stated or job.problem.guarantee
        if spec.signals.file is not None and len(epsilons) > 1:
            guarantee = _all_epsilons(job.problem, epsilons)
        why = (reason or spec.report.whole_value).strip()
        return cls(scenario, job, spec, guarantee, refused, manifest, lacking, site, why)

    @property
    def budget(self) -> BudgetTable | None:
        """What the agent whose file was given may spend."""
        return None if self.site is None else self.site.budget

    @property
    def problem(self) -> Problem:
        """What would run, without its signals."""
        return self.job.problem

    @property
    def mode(self) -> Mode:
        """How signals are protected."""
        privacy = self.problem.privacy
        if not privacy.adds_noise:
            return Mode.NOTHING
        if privacy.summed:
            return Mode.MASKED if privacy.masked else Mode.SECURE
        return Mode.NETWORK if privacy.hides_neighbours else Mode.LOCAL

    @property
    def signals(self) -> Guarantee:
        """What is guaranteed for a member's own signals, against whoever sees all messages."""
        return self.guarantee.signals or self.guarantee

    @property
    def other_variants(self) -> list[tuple[str, PrivacyEvent]]:
        """The other variants that release the same measured signals, and what each costs."""
        if not self.measured:
            return []
        found = []
        for spec in self.scenario.variants:
            if spec.name == self.spec.name or spec.signals.file != self.spec.signals.file:
                continue
            stated = self.scenario.build(spec.name, signals=False).problem.guarantee
            alone = stated.signals or stated
            if alone.status not in (Status.NONE, Status.REFUTED):
                found.append((spec.name, alone.cost))
        return found

    @property
    def holds(self) -> bool:
        """Whether anything limits what is learnt of a signal: proved, or at least not refuted."""
        return self.signals.status not in (Status.NONE, Status.REFUTED)

    @property
    def measured(self) -> bool:
        """Whether real readings are meant, and not drawn ones."""
        return self.spec.signals.file is not None

    @property
    def online(self) -> bool:
        """Whether signals are a stream of readings."""
        return self.guarantee.unit.online

    @property
    def per_day(self) -> float | None:
        """Readings a day by the schedule of [agents]; None without one."""
        return DAY / self.spec.agents.every if self.spec.agents.every else None

    @property
    def last(self) -> int | None:
        """The number of readings of a run of a stream; None without an end, or a stream."""
        if not self.online or self.spec.agents.open_ended:
            return None
        return self.problem.rounds

    @property
    def summed(self) -> SecureParameters | None:
        """The numbers of a sum over a roster, if it is one and they fit together."""
        if self.mode not in SUMS or self.guarantee.status is Status.NONE:
            return None
        made = self.problem.plan.mechanism(self.problem.run_epsilons[0], 1)
        assert isinstance(made, SecureMechanism)
        return made.terms


def _all_epsilons(problem: Problem, epsilons: Sequence[float]) -> Guarantee:
    """What the runs at all epsilons guarantee together: each releases the same measured signals."""
    made = [
        guarantee_of(problem.privacy.at(e), problem.algorithm, problem.rounds, problem.family)
        for e in epsilons
    ]
    return made[0].for_runs(made[1:])


def _agents(
    scenario: Scenario, spec: Spec, problem: Problem
) -> tuple[str, str, str, Guarantee | None]:
    """Why agents cannot run it, or the digest of their terms, what these lack, and the guarantee."""
    try:
        from veilsum.agents import guarantee
        from veilsum.agents.feasibility import refusal
        from veilsum.agents.scenario_terms import manifest_of, problem_and_manifest
    except ImportError as problem_found:
        return f"the extra `agents` is not installed ({problem_found.name})", "", "", None
    why = refusal(problem, spec)
    if why:
        return why, "", "", None
    stated = guarantee(manifest_of(problem, spec, scenario.name), problem.family)
    try:
        _, manifest = problem_and_manifest(scenario, spec.name)
    except VeilsumError as lack:
        if problem.privacy.masked:  # the message proposes a nonce, another one each time
            return "", "", "the nonce of a run and the signing keys of all members", stated
        return "", "", str(lack), stated
    return "", manifest.digest.hex(), "", stated


def _site(path: Path, scenario: Scenario, variant: str | None) -> AgentConfig:
    """An agent's file; one of another fleet or variant would limit nothing of what is signed."""
    from veilsum.agents.config_tables import AgentConfig
    from veilsum.errors import AgentError
    from veilsum.scenario.loader import load_model

    config, locator = load_model(path, AgentConfig, "agent's file", AgentError)
    named = path.resolve().parent / Path(config.scenario).expanduser()
    if named.is_file() and named.read_text("utf-8") != scenario.text:
        raise AgentError(
            f"{locator.at('scenario')}: {config.name} runs {named}, which is not the scenario of this "
            "page; give the file of an agent that runs it"
        )
    if None not in (variant, config.variant) and variant != config.variant:
        raise AgentError(
            f"{locator.at('variant')}: {config.name} runs the variant {config.variant!r}, and the page "
            f"is to be of {variant!r}; leave --variant out"
        )
    return config
