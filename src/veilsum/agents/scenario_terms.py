"""From a scenario to the terms that its agents agree on: the problem and the manifest of a variant."""

from __future__ import annotations

from pathlib import Path

from veilsum._toml import Issue, SourceMap, raise_
from veilsum.agents.manifest import Manifest
from veilsum.agents.membership.signed_epoch import SignedEpoch
from veilsum.agents.pins import Pins, check_pinned, pins_of
from veilsum.errors import AgentError, PrivacyError, VeilsumError
from veilsum.scenario import Scenario
from veilsum.scenario.errors import attribute
from veilsum.scenario.schema import Spec
from veilsum.simulation import Problem


def load_scenario(path: Path, locator: SourceMap) -> Scenario:
    """Load the scenario that an agent's or a watch file names.

    Parameters
    ----------
    path : Path
        Where it is.
    locator : SourceMap
        The lines of the file that names it, for the error if it is not there.

    Returns
    -------
    Scenario
        Errors in it name its file, without the detours of a relative path.
    """
    found = path.parent.resolve() / path.name  # links.csv is beside a link to it, not its target
    if not found.is_file():
        raise AgentError(
            f"{locator.at('scenario')}: there is no scenario {found}; it is the same file on every "
            "site, and a path is relative to the file that names it"
        )
    return Scenario.load(found)


def spec_of(scenario: Scenario, variant: str | None = None) -> Spec:
    """The specification of a scenario's variant; of its first one by default."""
    return next(spec for spec in scenario.variants if variant in (None, spec.name))


def problem_and_manifest(
    scenario: Scenario, variant: str | None = None, *, pinned: bool = True
) -> tuple[Problem, Manifest]:
    """The problem of a scenario's variant, and the manifest of its agents.

    A masked sum needs a nonce and the signing keys of all members, except where it is only planned
    (`pinned=False`).
    """
    job = scenario.build(variant, signals=False)
    index = next(k for k, spec in enumerate(scenario.variants) if spec.name == job.name)
    spec, source_map = scenario.variants[index], scenario.source_map
    place = index if source_map.variants else None
    try:
        spec.privacy.request.over(job.problem.family)  # a radius of 1 is for signals that are drawn
    except PrivacyError as problem:
        raise AgentError(source_map.message(Issue(("privacy",), str(problem)), place)) from None
    try:
        pins = pins_of(spec.agents, scenario.folder)
        manifest = manifest_of(job.problem, spec, scenario.name, pins)
    except AgentError as problem:
        issue = attribute("agents", spec.agents.model_fields_set, problem)
        if len(issue.path) == 1:  # of several sections
            raise AgentError(f"{source_map.file}: {problem}") from None
        raise AgentError(source_map.message(issue, place)) from None
    if pinned:
        raise_((source_map.message(issue, place) for issue in check_pinned(manifest)), AgentError)
    return job.problem, manifest


def manifest_of(problem: Problem, spec: Spec, name: str, pins: Pins | None = None) -> Manifest:
    """The manifest of one variant; of a masked sum without `pins`, one that cannot be run yet."""
    if len(problem.epsilons) > 1:
        raise AgentError(
            f"agents run one epsilon; the scenario has {len(problem.epsilons)}: keep one"
        )
    chosen, (nonce, signing_keys) = spec.agents, pins or Pins()
    return Manifest.of(
        problem,
        name,
        epoch=chosen.epoch,
        certificates=chosen.certificates,
        asynchronous=chosen.asynchronous,
        rounds=0 if chosen.open_ended else None,
        tolerance=chosen.tolerance,
        quorum=None if chosen.quorum == "all" else chosen.quorum,
        gathering=chosen.gathering,
        lost_after=chosen.lost_after,
        every=chosen.every,
        grace=chosen.grace,
        nonce=nonce,
        signing_keys=signing_keys,
        clip=chosen.clip,
    )


def signed_terms(signed: SignedEpoch, variant: str | None = None) -> tuple[Problem, Manifest, Spec]:
    """The problem, the manifest and the specification of a signed epoch.

    Parameters
    ----------
    signed : SignedEpoch
        Verified.
    variant : str, optional
        Of its scenario.

    Raises
    ------
    AgentError
        If agents cannot run it.
    """
    try:
        with signed.unpacked() as path:
            scenario = Scenario.load(path)
            problem, manifest = problem_and_manifest(scenario, variant)
    except VeilsumError as problem_found:
        raise AgentError(f"epoch {signed.epoch} cannot be followed: {problem_found}") from None
    if manifest.epoch != signed.epoch:
        raise AgentError(
            f"a file says epoch {signed.epoch}, and its scenario {manifest.epoch}; roll it out anew"
        )
    return problem, manifest, spec_of(scenario, variant)
