"""Whether agents can run a problem: asked of the functions that decide it when an agent starts."""

from __future__ import annotations

from dataclasses import replace

from veilsum.agents.release import ReleaseMechanism, check_guarantee
from veilsum.agents.scenario_terms import manifest_of
from veilsum.errors import VeilsumError
from veilsum.scenario.schema import Spec
from veilsum.simulation import Problem


def refusal(problem: Problem, spec: Spec) -> str:
    """Why agents cannot run a problem under the terms of a scenario; empty if they can.

    Parameters
    ----------
    problem : Problem
        Network, algorithm, family and privacy request, at the first of its epsilons.
    spec : Spec
        The variant of the scenario, of which [agents] counts: rounds in common or not, a last one
        or not.

    Returns
    -------
    str
        What a manifest or a release mechanism refuses.

    Examples
    --------
    >>> from veilsum.scenario import Scenario, template
    >>> scenario = Scenario.parse(template())
    >>> refusal(scenario.build("jacobi").problem, scenario.variants[0])[:49]
    'algorithm jacobi does not conserve mass, which ag'
    >>> refusal(scenario.build("average").problem, scenario.variants[1])
    ''
    """
    one = replace(problem, epsilons=problem.run_epsilons[:1])
    try:
        manifest = manifest_of(one, spec, spec.name)
        if manifest.masked:
            check_guarantee(manifest, one.family)
        else:
            ReleaseMechanism(manifest, one, manifest.members[0][0])
    except VeilsumError as error:
        return str(error)
    return ""
