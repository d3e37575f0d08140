"""veilsum members: who is a member of a fleet, and how that changes while its agents run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilsum.cli.guard import AsJson, Debug, existing, guarded, print_json
from veilsum.errors import AgentError, CommandError

if TYPE_CHECKING:
    from veilsum.agents.membership.drafts import EpochFiles, NextEpoch

members = typer.Typer(
    name="members",
    help="List, add and remove the members of a fleet, roll out a new epoch, and leave.",
    no_args_is_help=True,
)

Of = Annotated[Path, typer.Option("--scenario", metavar="FILE", help="The scenario of the fleet.")]
Quorum = Annotated[
    str | None,
    typer.Option(metavar="N|all", help="Members whose readings a result needs from then on."),
]
WAIT = 120.0  # seconds for an agent to hand over
AFTERWARDS = (
    "It stays a member of this epoch, and results name it, until it is removed where the fleet's files "
    "are kept: veilsum members remove {name}"
)


@members.command("list")
def show(
    scenario: Of = Path("scenario.toml"), as_json: AsJson = False, debug: Debug = False
) -> None:
    """List the members, their neighbours and addresses, and what the next epoch would change."""
    with guarded(debug):
        from veilsum.agents.membership.drafts import FOLDER, EpochFiles

        path = existing(scenario, "scenario")
        present, draft = EpochFiles.load(path), EpochFiles.draft(path)
        if as_json:
            found = _plain(present) | {"next": None if draft is None else _plain(draft)}
            print_json(found)
            return
        _print(present)
        if draft is not None:
            from veilsum.agents.membership.adoption import describe_change

            typer.echo(
                f"Next, not rolled out yet: epoch {draft.manifest.epoch}, "
                f"{describe_change(present.manifest, draft.manifest)}. `veilsum members rollout` signs it; "
                f"to drop it, remove the folder {path.parent / FOLDER}"
            )


@members.command()
def add(
    site: Annotated[str, typer.Argument(metavar="SITE[=HOST:PORT]")],
    link: Annotated[
        list[str] | None, typer.Option(metavar="SITE", help="A neighbour; may be repeated.")
    ] = None,
    quorum: Quorum = None,
    scenario: Of = Path("scenario.toml"),
    debug: Debug = False,
) -> None:
    """Draft the next epoch with a further member; nothing changes before it is rolled out."""
    with guarded(debug):
        from veilsum.agents.fleet import SiteAddress
        from veilsum.agents.membership.drafts import NextEpoch

        following = NextEpoch.load(existing(scenario, "scenario"))
        label, given, _ = site.partition("=")
        address = SiteAddress.parse(site, 0).endpoint if given else ""
        changed = following.add(label, link or (), address)
        _save(changed, quorum)
        near = ", ".join(changed.draft.neighbours(label))
        typer.echo(f"{label} joins with epoch {changed.draft.manifest.epoch}, linked to {near}.")
        if not given:
            typer.echo(f"{label} connects to its neighbours: its address is not stated.")
        typer.echo(
            f"Its keys: `veilsum keys request {label}` there, and `veilsum keys sign` at the authority. "
            "Next: veilsum members rollout"
        )


@members.command()
def remove(
    site: Annotated[str, typer.Argument(metavar="SITE")],
    link: Annotated[
        list[str] | None,
        typer.Option(metavar="A=B", help="A new link between two others; may be repeated."),
    ] = None,
    quorum: Quorum = None,
    scenario: Of = Path("scenario.toml"),
    debug: Debug = False,
) -> None:
    """Draft the next epoch without a member; nothing changes before it is rolled out."""
    with guarded(debug):
        from veilsum.agents.membership.drafts import NextEpoch

        following = NextEpoch.load(existing(scenario, "scenario"))
        changed = following.remove(site, [_pair(text) for text in link or ()])
        _save(changed, quorum)
        epoch = changed.draft.manifest.epoch
        if site not in following.present.manifest.certificates:
            typer.echo(
                f"{site} was never a member, and is not in the draft of epoch {epoch} any more."
            )
            return
        typer.echo(
            f"{site} is no member from epoch {epoch} on: what it released is in no estimate of that "
            "epoch, and every result names it as a former member. Next: veilsum members rollout"
        )


@members.command()
def rollout(
    scenario: Of = Path("scenario.toml"),
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            help="The authority's directory.",
            show_default="authority, beside the scenario",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The signed epoch.", show_default="epoch.json, beside the scenario"),
    ] = None,
    debug: Debug = False,
) -> None:
    """Sign the next epoch as one file, which running agents adopt, and make it the fleet's own."""
    with guarded(debug):
        from veilsum.agents.membership.adoption import describe_change
        from veilsum.agents.membership.drafts import NextEpoch
        from veilsum.agents.pki import Authority

        path = existing(scenario, "scenario")
        authority = Authority.load(directory or path.parent / "authority")
        following = NextEpoch.load(path)
        made = following.roll_out(authority, out)
        now = following.draft.manifest
        typer.echo(
            f"{made}: epoch {now.epoch} of {now.name}, signed; "
            f"{describe_change(following.present.manifest, now)}; manifest {now.digest.hex()[:12]}"
        )
        for label in sorted(set(now.labels) - set(following.present.manifest.labels)):
            typer.echo(
                f"{label} counts as missing until it runs: it needs its keys, this file, and an agent.toml, "
                f"which `veilsum init --agent {label} --scenario {path}` writes (the scenario's path as "
                "seen from the site's own folder)."
            )
        typer.echo(
            "Copy it to where [membership] file of each site says. An agent that runs adopts it "
            "within seconds, and one that starts does at once; until then it counts as missing. "
            "`veilsum status` and `veilsum watch` show the epoch of each."
        )


@members.command()
def leave(
    file: Annotated[Path, typer.Argument(metavar="AGENT", help="An agent's file, in TOML.")],
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for it.")] = WAIT,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """On a site: have its running agent leave for good, and hand its part over to its neighbours."""
    with guarded(debug):
        from veilsum.agents.config import Setup
        from veilsum.agents.ledger.lock import is_open
        from veilsum.agents.membership.leaving import (
            ask_to_leave,
            request_path,
            said_before,
            wait_for_answer,
        )

        setup = Setup.load(existing(file, "agent's file"))
        ledger, name = setup.path(setup.config.ledger.path), setup.config.name
        if not is_open(ledger):
            if said := said_before(ledger):
                raise AgentError(
                    f"{name} does not run; it left before: {said}. {AFTERWARDS.format(name=name)}"
                )
            raise AgentError(
                f"{name} does not run, so it has nothing to hand over; start it first, or have it "
                f"removed where the fleet's files are kept: veilsum members remove {name}"
            )
        asked = ask_to_leave(ledger)
        found = wait_for_answer(ledger, asked, wait, lambda: is_open(ledger))
        if found is None:
            raise AgentError(
                f"{name} has not left within {wait:g} s; it was asked to ({request_path(ledger)}) and "
                "does so once it can; its log says what it waits for"
            )
        if as_json:
            print_json(found)
        else:
            typer.echo(f"{name} has left: {found['sentence']}")
            typer.echo(AFTERWARDS.format(name=name))
        if found["lost"]:
            raise typer.Exit(3)


def _save(following: NextEpoch, quorum: str | None) -> None:
    if quorum is not None and not (quorum == "all" or quorum.isdecimal()):
        raise CommandError(f"--quorum must be a number of members, or all; found {quorum!r}")
    (following if quorum is None else following.with_quorum(quorum)).save()


def _pair(text: str) -> tuple[str, str]:
    one, given, other = text.partition("=")
    if not (one and given and other):
        raise CommandError(f"--link must name two members, such as north=east; found {text!r}")
    return one, other


def _plain(terms: EpochFiles) -> dict[str, Any]:
    manifest = terms.manifest
    return {
        "network": manifest.name,
        "epoch": manifest.epoch,
        "manifest": manifest.digest.hex(),
        "quorum": manifest.quorum,
        "members": {
            label: {
                "certificate": name,
                "neighbours": terms.neighbours(label),
                "address": terms.addresses.get(label),
            }
            for label, name in manifest.members
        },
        "former": dict(terms.former),
    }


def _print(terms: EpochFiles) -> None:
    from veilsum.agents.screens.tables import console, table

    manifest = terms.manifest
    typer.echo(
        f"{manifest.name}, epoch {manifest.epoch}: {len(manifest.members)} members, quorum "
        f"{manifest.quorum}, manifest {manifest.digest.hex()[:12]}"
    )
    rows = [
        (label, name, ", ".join(terms.neighbours(label)), terms.addresses.get(label, "-"))
        for label, name in manifest.members
    ]
    console().print(table(("member", "certificate", "neighbours", "address"), rows))
    for label, epoch in terms.former.items():
        typer.echo(f"{label}: no member since epoch {epoch}")
