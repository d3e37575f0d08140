"""From a reading to what may leave the agent, and what is guaranteed about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from veilsum.agents.release.contribution import ContributionMechanism
from veilsum.agents.release.guarantees import check_guarantee, guarantee, request_of
from veilsum.agents.release.mechanism import ReleaseMechanism

if TYPE_CHECKING:
    from veilsum.agents.manifest import Manifest
    from veilsum.simulation import Problem

__all__ = [
    "ContributionMechanism",
    "ReleaseMechanism",
    "check_guarantee",
    "guarantee",
    "make_mechanism",
    "request_of",
]


def make_mechanism(
    manifest: Manifest, problem: Problem, label: str, *, research: bool = False
) -> ReleaseMechanism | ContributionMechanism:
    """What an agent of a network needs: of releases with local noise, or of masked sums.

    Parameters
    ----------
    manifest, problem, label, research
        As for `ReleaseMechanism`.

    Returns
    -------
    ReleaseMechanism or ContributionMechanism
        The latter where the manifest has a masked sum.

    Raises
    ------
    AgentError
        If an agent must not make the guarantee.
    """
    made = ContributionMechanism if manifest.masked else ReleaseMechanism
    return made(manifest, problem, label, research=research)
