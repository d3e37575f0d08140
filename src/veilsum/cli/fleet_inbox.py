"""veilsum fleet inbox and approve: what is asked of this site, and yes or no."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from veilsum.cli.fleet_options import HERE, say
from veilsum.cli.guard import AsJson, Debug, guarded, print_json
from veilsum.errors import CommandError

if TYPE_CHECKING:
    from veilsum.fleet.inbox import InboxItem
    from veilsum.fleet.site import Site


def inbox(
    everything: Annotated[
        bool, typer.Option("--all", help="Also what was decided already.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """What is asked of this site and waits for a person: cost, what is left, quality, an example.

    It shows what the last step read, and reads no row: the example is noise alone.
    """
    with guarded(debug):
        from veilsum.fleet import inbox as box
        from veilsum.fleet.site import Site

        now = int(time.time())
        with Site(HERE) as site:
            found = box.items(site, now, everything)
            if as_json:
                print_json({"questions": [_facts(site, one, now) for one in found]})
                return
            for one in found:
                _show(site, one, now)
        if not found:
            say("Nothing waits for a person here.")


def _facts(site: Site, item: InboxItem, now: int) -> dict[str, object]:
    from veilsum.fleet.inbox import shown

    found = shown(site, item, now)
    return {
        "question": item.posted.terms.hex(), "asker": item.posted.asker.name, "title": found.title,
        "fleet": item.seat.name, "protocol": item.posted.question.protocol, "columns": list(found.columns),
        "epsilon": found.epsilon, "delta": found.delta, "epsilon_after": found.epsilon_after,
        "verdict": item.verdict or None, "by": item.by or None, "example": list(found.example),
    }  # fmt: skip


def _show(site: Site, item: InboxItem, now: int) -> None:
    from veilsum.fleet.inbox import shown

    state = f"  [{item.verdict} by {item.by}]" if item.verdict else ""
    say(f"{item.mark}  {item.line()}{state}", " " * 10)
    if item.verdict:
        return
    for sentence in shown(site, item, now).sentences():
        say(f"  {sentence}", "    ")
    say(f"  yes: veilsum fleet approve {item.mark}")
    say(f"  no:  veilsum fleet approve {item.mark} --no")
    say("")


def approve(
    prefix: Annotated[
        str, typer.Argument(metavar="DIGITS", help="Of the question, as inbox shows them.")
    ],
    no: Annotated[bool, typer.Option("--no", help="Say no instead.")] = False,
    reason: Annotated[
        str, typer.Option("--post-reason", metavar="TEXT", help="Of a no, for all to read.")
    ] = "",
    debug: Debug = False,
) -> None:
    """Say yes to a question, or no: it leaves with the next step."""
    with guarded(debug):
        from veilsum.fleet import inbox as box
        from veilsum.fleet.site import Site

        if reason and not no:
            raise CommandError("--post-reason is of a no: add --no")
        now = int(time.time())
        with Site(HERE) as site:
            item = box.found(site, prefix, now)
            if no:
                box.refuse(site, item, reason, now)
                shown = "its reason is posted" if reason else "no reason is posted"
                say(f"No to {item.mark}, {item.posted.question.title()}; {shown}.")
            else:
                box.approve(site, item, now)
                say(
                    f"Yes to {item.mark}, {item.posted.question.title()}, for epsilon "
                    f"{item.posted.question.event.epsilon:g}."
                )
        say("Next: veilsum fleet step, unless veilsum fleet run is running.")
