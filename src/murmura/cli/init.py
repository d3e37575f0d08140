"""murmura init: a scenario to begin with, or the file of an agent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from murmura.cli.guard import Debug, guarded
from murmura.errors import CommandError, ScenarioError

Agent = Annotated[
    str | None, typer.Option("--agent", help="Write the file of this agent of --scenario instead.")
]
Of = Annotated[str, typer.Option("--scenario", help="With --agent: the scenario of its network.")]


def init(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH",
            help="The file to write.",
            show_default="scenario.toml, or agent.toml with --agent",
        ),
    ] = None,
    agent: Agent = None,
    scenario: Of = "scenario.toml",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    debug: Debug = False,
) -> None:
    """Write a commented scenario that runs as it is, or the file of one of its agents."""
    with guarded(debug):
        file = path or Path("scenario.toml" if agent is None else "agent.toml")
        if file.exists() and not force:
            raise ScenarioError(f"{file} exists; choose another path, or --force to overwrite it")
        if not file.parent.is_dir():
            raise CommandError(f"there is no folder {file.parent}; make it first")
        if agent is None:
            text, then = _scenario(), f"murmura run {file}"
        else:
            text, then = _agent(scenario, agent, file), f"murmura doctor {file}"
        file.write_text(text, encoding="utf-8")
        typer.echo(f"Wrote {file}. Now: {then}")


def _scenario() -> str:
    from murmura.scenario import template

    return template()


def _agent(scenario: str, name: str, file: Path) -> str:
    """The file of an agent; the scenario's path in it is relative to it."""
    from murmura.agents.starter import starter

    text = starter(scenario, name, file.name)
    relative = os.path.relpath(scenario, file.parent)
    return text.replace(f"scenario = {json.dumps(scenario)}", f"scenario = {json.dumps(relative)}")
