"""Run a scenario by real agents on this machine, over real sockets."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from murmura.agent.config import manifest_of
from murmura.agent.fleet.collect import estimates, result
from murmura.agent.fleet.fleet import Fleet
from murmura.agent.fleet.plan import Plan, deal, restrict
from murmura.agent.keys import Authority
from murmura.agent.manifest import Manifest
from murmura.agent.release import guarantee
from murmura.errors import AgentError
from murmura.report import Result
from murmura.scenario import Scenario

Told = Callable[[Fleet], None]


@dataclass(frozen=True)
class Terms:
    """How `up` runs: what a user may choose on the command line."""

    agents: int | None = None
    processes: int = 4
    variant: str | None = None
    seed: int | None = None
    insecure: bool = False
    research: bool = False
    every_round: bool = False  # write the state of mixing down in every round
    deadline: float = 5.0
    resend: float = 0.25
    tick: float = 0.02
    budget: float = 0.0  # for the whole stream; 0: epsilon for each reading
    timeout: float | None = None
    folder: Path | None = None  # kept if given: ledgers, keys, logs
    log_level: str = "warning"


def up(scenario: Scenario, terms: Terms | None = None, told: Told | None = None) -> UpResult:
    """Start the agents of one variant, wait until they are done, and report as `run` would.

    `told` is called with the fleet about five times a second.
    """
    terms = terms or Terms()
    folder: AbstractContextManager[Any] = (
        TemporaryDirectory(prefix="murmura-") if terms.folder is None else nullcontext(terms.folder)
    )
    with folder as home:
        plan, problem, name = prepare(scenario, terms, Path(home))
        began = time.monotonic()
        with Fleet(plan) as fleet:
            fleet.wait(terms.timeout, None if told is None else lambda: told(fleet))
            fleet.stop()
        seconds = time.monotonic() - began
        found = result(problem, estimates(plan, problem), name)
        stated = guarantee(Manifest.from_json(plan.manifest), problem.family)
        return UpResult(replace(found, stated=stated), seconds, dict(fleet.status))


@dataclass(frozen=True)
class UpResult:
    """What the agents found, how long it took, and how each process stood at the end."""

    result: Result
    seconds: float
    status: dict[str, dict[str, Any]]


def prepare(scenario: Scenario, terms: Terms, home: Path) -> tuple[Plan, Any, str]:
    """Build and check everything, make keys, and write the plan; nothing runs yet."""
    chosen = scenario.with_(seed=terms.seed, replicas=1)
    job = chosen.build(terms.variant)
    spec = next(spec for spec in chosen.variants if spec.name == job.name)
    problem = restrict(job.problem, terms.agents)
    shares = deal(problem, terms.processes, terms.insecure)
    devices = {agent: share.device for share in shares for agent in share.agents}
    agreed = manifest_of(problem, spec, scenario.name)
    agreed = replace(agreed, members=tuple((label, devices[label]) for label, _ in agreed.members))
    if agreed.rounds == 0:
        raise AgentError("murmura up needs an end: leave open_ended out of [agents]")
    if (home / "ledgers").exists():
        raise AgentError(
            f"{home} holds the ledgers of another run, whose releases would be used again; "
            "choose a new folder"
        )
    home.mkdir(mode=0o700, parents=True, exist_ok=True)  # ledgers, keys and a plan with its text
    (home / "ledgers").mkdir(parents=True)
    if not terms.insecure:
        authority = Authority.create(home / "keys")
        for share in shares:
            authority.issue(share.device, ["127.0.0.1", "localhost"], days=1)
    plan = Plan(
        folder=str(home),
        scenario=scenario.text,
        scenario_folder=str(scenario.folder),
        name=scenario.name,
        variant=job.name,
        seed=terms.seed,
        agents=terms.agents,
        manifest=agreed.to_json(),
        shares=shares,
        insecure=terms.insecure,
        research=terms.research,
        checkpoints=not (terms.every_round or agreed.hides_neighbours),
        deadline=terms.deadline,
        resend=terms.resend,
        tick=terms.tick,
        budget=terms.budget,
        log_level=terms.log_level,
    )
    return plan, problem, job.name
