"""The command line application; each verb imports what it needs when it is called."""

from __future__ import annotations

from typing import Annotated

import typer

from murmura import __version__
from murmura.cli.agent import agent
from murmura.cli.algorithms import algorithms
from murmura.cli.audit import audit
from murmura.cli.doctor import doctor
from murmura.cli.families import families
from murmura.cli.graph import graph
from murmura.cli.guard import VerbGroup
from murmura.cli.init import init
from murmura.cli.keys import keys
from murmura.cli.ledger import ledger
from murmura.cli.members import members
from murmura.cli.plan import plan
from murmura.cli.relay import relay
from murmura.cli.report import report
from murmura.cli.reproduce import reproduce
from murmura.cli.run import run
from murmura.cli.schema import schema
from murmura.cli.status import status
from murmura.cli.sweep import sweep
from murmura.cli.up import up
from murmura.cli.watch import watch

# A pretty traceback may show local variables, which may contain signals.
app = typer.Typer(
    name="murmura",
    cls=VerbGroup,
    help="Differentially private distributed estimation over a network of agents.",
    epilog="Start with: murmura init, then murmura run scenario.toml",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"murmura {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Differentially private distributed estimation over a network of agents."""
    del version


for verb in (
    run, sweep, plan, audit, report, reproduce, graph, families, algorithms, init, schema, doctor, agent,
    status, watch, relay, up,
):  # fmt: skip
    app.command()(verb)
for name, group in (("keys", keys), ("ledger", ledger), ("members", members)):
    app.add_typer(group, name=name)
