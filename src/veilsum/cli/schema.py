"""veilsum schema: a JSON Schema of a file, for editors."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from veilsum.cli.guard import Debug, guarded, print_json


class SchemaName(StrEnum):
    """The files that have a schema."""

    SCENARIO = "scenario"
    AGENT = "agent"


def schema(
    file: Annotated[SchemaName, typer.Argument(metavar="FILE", help="scenario or agent.")],
    debug: Debug = False,
) -> None:
    """Print the JSON Schema of scenario.toml or agent.toml, with which an editor checks the file."""
    with guarded(debug):
        from veilsum.scenario.json_schema import scenario_schema

        if file is SchemaName.SCENARIO:
            print_json(scenario_schema())
            return
        from veilsum.agents.config import agent_schema

        print_json(agent_schema())
