"""veilsum fleet: sites that share a board; each command imports what it needs when it is called."""

from __future__ import annotations

import typer

from veilsum.cli.fleet_check import check
from veilsum.cli.fleet_inbox import approve, inbox
from veilsum.cli.fleet_ledger import ledger
from veilsum.cli.fleet_members import admit, close, init, join, remove, rotate, witnesses
from veilsum.cli.fleet_status import status
from veilsum.cli.fleet_step import run, step
from veilsum.cli.fleet_up import up
from veilsum.cli.guard import PlainGroup

fleet = typer.Typer(
    cls=PlainGroup,
    help="Sites that share a board in any folder, bucket or WebDAV server, and answer questions together.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
for command in (
    init, join, admit, remove, inbox, approve, step, run, status, check, witnesses, rotate, close,
):  # fmt: skip
    fleet.command()(command)
fleet.command(context_settings={"ignore_unknown_options": True})(up)  # options of questions
fleet.add_typer(ledger, name="ledger", cls=PlainGroup)
