"""The command line application; each verb imports what it needs when it is called."""

from __future__ import annotations

from typing import Annotated

import typer

from veilsum import __version__
from veilsum.cli.agent import agent
from veilsum.cli.algorithms import algorithms
from veilsum.cli.ask import ask
from veilsum.cli.audit import audit
from veilsum.cli.budget import budget
from veilsum.cli.codebook import codebook
from veilsum.cli.doctor import doctor
from veilsum.cli.families import families
from veilsum.cli.fleet import fleet
from veilsum.cli.graph import graph
from veilsum.cli.guard import PlainGroup, VerbGroup
from veilsum.cli.init import init
from veilsum.cli.keys import keys
from veilsum.cli.ledger import ledger
from veilsum.cli.members import members
from veilsum.cli.plan import plan
from veilsum.cli.questions import questions
from veilsum.cli.report import report
from veilsum.cli.reproduce import reproduce
from veilsum.cli.run import run
from veilsum.cli.schema import schema
from veilsum.cli.status import status
from veilsum.cli.sweep import sweep
from veilsum.cli.up import up
from veilsum.cli.watch import watch

# A pretty traceback may show local variables, which may contain signals.
app = typer.Typer(
    name="veilsum",
    cls=VerbGroup,
    help="Differentially private distributed estimation over a network of agents.",
    epilog="Start with: veilsum init, then veilsum run scenario.toml",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # which would take words in brackets for colours
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"veilsum {__version__}")
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


WORDS = {"ignore_unknown_options": True}  # which are those of questions
for asks in (ask, plan):
    app.command(context_settings=WORDS)(asks)
for verb in (
    run, sweep, audit, report, reproduce, graph, families, algorithms, questions, codebook, budget, init,
    schema, doctor, agent, status, watch, up,
):  # fmt: skip
    app.command()(verb)
for name, group in (("fleet", fleet), ("keys", keys), ("ledger", ledger), ("members", members)):
    app.add_typer(group, name=name, cls=PlainGroup)
