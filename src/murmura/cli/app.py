"""The verbs put together; each imports what it needs when it is called."""

from __future__ import annotations

from typing import Annotated

import typer

from murmura import __version__
from murmura.cli.agent import agent
from murmura.cli.audit import audit
from murmura.cli.families import families
from murmura.cli.graph import graph
from murmura.cli.init import init
from murmura.cli.keys import keys
from murmura.cli.laws import laws
from murmura.cli.ledger import ledger
from murmura.cli.plan import plan
from murmura.cli.reproduce import reproduce
from murmura.cli.run import run
from murmura.cli.sweep import sweep
from murmura.cli.up import up

# A pretty traceback may show local variables, and those may be signals.
app = typer.Typer(
    name="murmura",
    help="Differentially private distributed estimation over a network of agents.",
    epilog="Begin with: murmura init, then murmura run scenario.toml",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"murmura {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Differentially private distributed estimation over a network of agents."""
    del version


for verb in (run, sweep, plan, audit, reproduce, graph, families, laws, init, agent, up):
    app.command()(verb)
for name, group in (("keys", keys), ("ledger", ledger)):
    app.add_typer(group, name=name)
