"""murmura keys: a small certificate authority for the agents of one network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from murmura.cli.guard import AsJson, Debug, guarded, print_json, usage_errors

if TYPE_CHECKING:
    from murmura.agents.pki import DirectoryEntry

keys = typer.Typer(
    name="keys",
    help="Make and list the certificates with which agents authenticate one another.",
    no_args_is_help=True,
)

Directory = Annotated[Path, typer.Option("--dir", metavar="DIR", help="The authority's directory.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]


@keys.command()
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR")] = Path("keys"),
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Make an authority in DIR: a key that signs, and its certificate for every device."""
    with guarded(debug):
        from murmura.agents.pki import Authority

        Authority.create(directory, force=force)
        typer.echo(f"{directory}/ca.key signs certificates: keep it here, and a copy offline.")
        typer.echo(f"{directory}/ca.pem is for every device.")
        typer.echo(f"Next: murmura keys issue NAME --dir {directory} --host ADDRESS")


@keys.command()
def issue(
    names: Annotated[list[str], typer.Argument(metavar="NAME...")],
    directory: Directory = Path("keys"),
    days: Annotated[float, typer.Option(help="How long the certificates are valid.")] = 90,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST|ADDRESS", help="Where neighbours reach it; may be repeated."),
    ] = None,
    renew: Annotated[bool, typer.Option("--renew", help="A new certificate, same key.")] = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Make a key and a certificate for each device, for both ends of its links."""
    with guarded(debug):
        from murmura.agents.pki import Authority, check_request

        with usage_errors():
            check_request(names, host or (), days)
        authority = Authority.load(directory)
        for name in names:
            made = authority.issue(name, host or (), days, renew=renew, force=force)
            typer.echo(f"{name}: {made.certificate} and {made.key} (private), with {made.ca}")
        if not host:
            typer.echo(
                "Without --host these devices can connect to others, and not be connected to."
            )


@keys.command("list")
def show(
    directory: Directory = Path("keys"), as_json: AsJson = False, debug: Debug = False
) -> None:
    """List the certificates: name, state, end, hosts, serial number and fingerprint."""
    with guarded(debug):
        from murmura.agents.pki import Authority

        entries = Authority.load(directory).entries()
        if as_json:
            print_json({"directory": str(directory), "certificates": list(map(_plain, entries))})
        else:
            _print(entries)


def _plain(entry: DirectoryEntry) -> dict[str, Any]:
    return entry._asdict() | {"expires": entry.expires.isoformat(), "hosts": list(entry.hosts)}


def _print(entries: list[DirectoryEntry]) -> None:
    from murmura.cli.display import console, table

    if not entries:
        typer.echo("no certificates yet; make one with `murmura keys issue NAME`")
        return
    rows = (
        (e.name, e.state, f"{e.expires:%Y-%m-%d}", ", ".join(e.hosts) or "-", e.serial[:16],
         e.fingerprint[:16])
        for e in entries
    )  # fmt: skip
    console().print(table(("name", "state", "expires", "hosts", "serial", "sha256"), rows))
