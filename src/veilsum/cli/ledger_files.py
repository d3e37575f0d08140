"""veilsum ledger export, report, amend, backup, restore: a ledger for the one who signs for it."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated, Literal

import typer

from veilsum.cli.guard import FAILED, AsJson, Debug, existing, guarded, print_json
from veilsum.errors import CommandError

Place = Annotated[Path, typer.Argument(metavar="PATH", help="The ledger's file.")]
Key = Annotated[
    Path | None,
    typer.Option(help="The key that seals it.", show_default="PATH.key, if it exists"),
]
By = Annotated[
    str, typer.Option(help="Who does it, which is recorded.", show_default="the user's name")
]


def key_file(path: Path, key: Path | None) -> bytes | None:
    """The key in the named file, or in the one beside the ledger."""
    from veilsum.agents.ledger import key_of

    beside = path.with_name(f"{path.name}.key")
    chosen = beside if key is None and beside.exists() else key
    return None if chosen is None else key_of(chosen.read_bytes())


def export(
    path: Place,
    form: Annotated[Literal["csv", "json"], typer.Option("--format", help="csv or json.")] = "csv",
    out: Annotated[
        Path | None, typer.Option(help="The file to write.", show_default="standard output")
    ] = None,
    debug: Debug = False,
) -> None:
    """Write one row for each release: time, number, cost, round, batch, hash; no value."""
    with guarded(debug):
        from veilsum.agents.ledger import read_ledger
        from veilsum.agents.ledger.report import export as text_of

        text = text_of(read_ledger(existing(path, "ledger")), form)
        if out is None:
            typer.echo(text, nl=False)
        else:
            out.write_text(text, encoding="utf-8")


def report(
    path: Place,
    key: Key = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page to print and to sign instead.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier page.")] = False,
    debug: Debug = False,
) -> None:
    """Print what was released when, what is left, and the guarantee in words; 1 if not intact."""
    with guarded(debug):
        from veilsum.agents.ledger import read_ledger, verify
        from veilsum.agents.ledger.report import report as text_of

        found = verify(existing(path, "ledger"), key_file(path, key))
        if html is None:
            typer.echo(text_of(read_ledger(path), found), nl=False)
        else:
            from veilsum.agents.ledger.page import ledger_page

            _page_file(html, force).write_text(ledger_page(read_ledger(path), found), "utf-8")
            typer.echo(f"{html}: a page to print and to sign; a browser makes a PDF of it")
        if not found.ok:
            raise typer.Exit(FAILED)


def _page_file(path: Path, force: bool) -> Path:
    """The path of a page to write; one that exists is replaced with `force` only."""
    if path.is_dir():
        raise CommandError(f"{path} is a folder; name a file, such as {path / 'page.html'}")
    if path.exists() and not force:
        raise CommandError(f"{path} exists; choose another file, or replace it with --force")
    return path


def amend(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The agent's file.")],
    raised: Annotated[
        bool, typer.Option("--raise", help="Allow more than the present budget does.")
    ] = False,
    by: By = "",
    reason: Annotated[str, typer.Option(help="Why, which is recorded.")] = "",
    debug: Debug = False,
) -> None:
    """Record the changed [budget] of an agent's file in its ledger; what was spent stays spent."""
    with guarded(debug):
        from veilsum.agents.config import Setup
        from veilsum.agents.ledger.maintenance import amend as change

        setup = Setup.load(existing(file, "agent's file"))
        path = existing(setup.path(setup.config.ledger.path), "ledger")
        made = change(
            path,
            setup.ledger_identity,
            setup.ledger_key(),
            by=by or getpass.getuser(),
            reason=reason,
            allow_raise=raised,
        )
        if made is None:
            typer.echo(f"{path}: the budget is the same; nothing was changed")
        else:
            from veilsum.agents.ledger.report import change_words

            typer.echo(f"{path}: {change_words(made)}, recorded as by {made.by}")


def backup(
    path: Place,
    to: Annotated[Path, typer.Argument(metavar="TO", help="The new file.")],
    key: Key = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Copy a ledger, in use or not; the copy is marked as one. Its key is kept elsewhere."""
    with guarded(debug):
        from veilsum.agents.ledger.maintenance import backup as copy

        found = copy(existing(path, "ledger"), to, key_file(path, key))
        if as_json:
            print_json(found._asdict())
        else:
            typer.echo(f"{to}: backup of agent {found.agent} with {found.releases:,} releases")


def restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="The backup.")],
    path: Place,
    key: Key = None,
    by: By = "",
    debug: Debug = False,
) -> None:
    """Make a ledger of a backup; it releases nothing until all neighbours have confirmed it."""
    with guarded(debug):
        from veilsum.agents.ledger.maintenance import restore as copy

        user = by or getpass.getuser()
        found = copy(existing(backup, "backup"), path, key_file(path, key), by=user)
        typer.echo(
            f"{path}: agent {found.agent} with {found.releases:,} releases; it will release "
            "nothing until all neighbours have confirmed that they know of no other"
        )
