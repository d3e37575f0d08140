"""veilsum init: a scenario to begin with, the file of an agent, or everything that a fleet needs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Annotated

import typer

from veilsum.cli.guard import Debug, guarded, usage_errors
from veilsum.errors import CommandError, ScenarioError

Agent = Annotated[
    str | None, typer.Option("--agent", help="Write the file of this agent of --scenario instead.")
]
Of = Annotated[str, typer.Option("--scenario", help="With --agent: the scenario of its network.")]
FleetFolder = Annotated[
    Path | None,
    typer.Option(
        "--fleet",
        metavar="FOLDER",
        help="Write all files of a fleet of the sites that are named, SITE, SITE=HOST or "
        "SITE=HOST:PORT each, and the commands to type.",
    ),
]
Masked = Annotated[
    bool, typer.Option("--masked", help="With --fleet: masked sums in place of local noise.")
]
Epsilon = Annotated[float, typer.Option(help="With --fleet: epsilon for each reading.")]
Bounds = Annotated[
    tuple[float, float],
    typer.Option(metavar="LOW HIGH", help="With --fleet: public bounds of a reading."),
]
Unit = Annotated[str, typer.Option(help="With --fleet: the unit of a reading, such as kWh.")]
Every = Annotated[
    str, typer.Option(help="With --fleet: one reading of each site in each slot, such as 1h.")
]
Graph = Annotated[
    str, typer.Option(help="With --fleet: who exchanges messages: ring, complete, path or star.")
]
ONLY_FLEET = ("masked", "epsilon", "bounds", "unit", "every", "graph")


def init(
    context: typer.Context,
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH | SITE...]",
            help="The file to write; with --fleet, its sites.",
            show_default="scenario.toml, or agent.toml with --agent",
        ),
    ] = None,
    agent: Agent = None,
    scenario: Of = "scenario.toml",
    fleet: FleetFolder = None,
    masked: Masked = False,
    epsilon: Epsilon = 1.0,
    bounds: Bounds = (0.0, 100.0),
    unit: Unit = "",
    every: Every = "",
    graph: Graph = "ring",
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
    debug: Debug = False,
) -> None:
    """Write a commented scenario that runs as it is, the file of an agent, or those of a fleet."""
    with guarded(debug):
        if fleet is None:
            _check_alone(context, places or [])
            _write_one(Path(places[0]) if places else None, agent, scenario, force)
            return
        from veilsum.agents.fleet import Fleet

        if agent is not None:
            raise CommandError("--agent or --fleet, not both: a fleet has the files of its agents")
        with usage_errors():
            made = Fleet(
                network_name(fleet), tuple(places or ()), masked, epsilon, bounds, unit, every,
                graph,
            )  # fmt: skip
        written = made.write(fleet, force=force)
        typer.echo(f"Wrote {len(written)} files in {fleet}; none of them is secret. Now:\n")
        if fleet.resolve() != Path.cwd():
            typer.echo(f"    cd {fleet}")
        for command in commands((fleet / "COMMANDS.md").read_text(encoding="utf-8")):
            typer.echo(f"    {command}")
        typer.echo(f"\n{fleet / 'COMMANDS.md'} has the same with explanations.")


def commands(page: str) -> list[str]:
    """The commands to type, in order: the lines of the page's shell blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S)
    return [line for block in blocks for line in block.splitlines() if line]


def network_name(folder: Path) -> str:
    """A folder's name as that of a network."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("._-")[:64]
    return name or "fleet"


def _check_alone(context: typer.Context, places: list[str]) -> None:
    """Without --fleet there is one file, and no option of a fleet."""
    for name in ONLY_FLEET:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise CommandError(
                f"--{name} is an option of --fleet FOLDER; add that, or leave it out"
            )
    if len(places) > 1:
        raise CommandError(
            f"init writes one file; found {len(places)} paths. For the sites of a fleet: veilsum "
            f"init --fleet FOLDER {' '.join(places)}"
        )


def _write_one(path: Path | None, agent: str | None, scenario: str, force: bool) -> None:
    """A scenario, or the file of one of its agents."""
    file = path or Path("scenario.toml" if agent is None else "agent.toml")
    if file.exists() and not force:
        raise ScenarioError(f"{file} exists; choose another path, or --force to overwrite it")
    if not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}; make it first")
    if agent is None:
        text, then = _scenario(), f"veilsum run {file}"
    else:
        text, then = _agent(scenario, agent, file), f"veilsum doctor {file}"
    file.write_text(text, encoding="utf-8")
    typer.echo(f"Wrote {file}. Now: {then}")


def _scenario() -> str:
    from veilsum.scenario import template

    return template()


def _agent(scenario: str, name: str, file: Path) -> str:
    """The file of an agent; the scenario's path in it is relative to it."""
    from veilsum.agents.membership.drafts import EPOCH_FILE
    from veilsum.agents.starter import starter

    text = starter(scenario, name, file.name)
    relative = os.path.relpath(scenario, file.parent)
    epoch = Path(scenario).parent / EPOCH_FILE
    beside = os.path.relpath(epoch, file.parent)
    for key, before, after in (("scenario", scenario, relative), ("file", str(epoch), beside)):
        text = text.replace(f"{key} = {json.dumps(before)}", f"{key} = {json.dumps(after)}")
    return text
