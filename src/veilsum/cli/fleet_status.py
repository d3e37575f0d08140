"""veilsum fleet status: answers, who is in, and what needs a person."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilsum.cli.fleet_options import HERE
from veilsum.cli.guard import AsJson, Debug, guarded, print_json

if TYPE_CHECKING:
    from veilsum.fleet.status import FleetStatus

EVERY = 10.0  # seconds between two looks of the page
Read = Annotated[
    bool, typer.Option("--read", help="Read the lists of all members first, of a large fleet too.")
]
Page = Annotated[
    str | None,
    typer.Option(
        metavar="[HOST:PORT]", help="Serve a page of it on this machine, until Ctrl-C.",
        show_default=False,
    ),
]  # fmt: skip
Metrics = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write metrics for Prometheus to a file, and print nothing."),
]
Which = Annotated[
    str | None,
    typer.Option("--fleet", metavar="ADDRESS", help="Of a site that is in several fleets."),
]


def status(
    read: Read = False,
    page: Page = None,
    metrics: Metrics = None,
    fleet: Which = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Answers, who is in and who is not, what is wrong, and what is left of the budget.

    A site that is like the others has no line. Nothing is posted; a step that is running is waited for.
    """
    with guarded(debug):
        if page is not None:
            _serve(page, fleet, everything=read)
            return
        found = looked(fleet, everything=read)
        if metrics is not None:
            from veilsum.fleet.metrics import write_metrics

            write_metrics(metrics, found)
        if as_json:
            plain = [one.to_dict() for one in found]
            print_json(plain[0] if len(plain) == 1 else {"fleets": plain})
        elif metrics is None:
            _show(found)


def looked(fleet: str | None, *, everything: bool = False) -> list[FleetStatus]:
    """The status of the fleets of a site; of one, if it is named."""
    from veilsum.fleet.site import Site
    from veilsum.fleet.status_of import look

    with Site(HERE) as site:
        seats = list(site.seats.values()) if fleet is None else [site.seat(fleet)]
        return [look(site, seat, int(time.time()), everything=everything) for seat in seats]


def _show(found: list[FleetStatus]) -> None:
    from veilsum.front.of_fleet import status_lines
    from veilsum.front.terminal import say, width

    for k, one in enumerate(found):
        say("\n".join([*([""] if k else []), *status_lines(one, width())]))


def _serve(address: str, fleet: str | None, *, everything: bool) -> None:
    """Look again and again, and show what was found, until Ctrl-C."""
    import threading
    from contextlib import suppress

    from veilsum.fleet.database import SiteBusyError
    from veilsum.live.board_page import BoardServer
    from veilsum.live.security import parse_address

    first, *more = looked(fleet, everything=everything)
    with BoardServer(parse_address(address)) as server, suppress(KeyboardInterrupt):
        server.update(first)
        if more:
            typer.echo(
                "note: this site is in several fleets; --fleet ADDRESS shows another", err=True
            )
        typer.echo(f"The page of {first.fleet} is at {server.url} until Ctrl-C", err=True)
        while True:
            threading.Event().wait(EVERY)
            with suppress(SiteBusyError):
                server.update(looked(fleet, everything=everything)[0])
