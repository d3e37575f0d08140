"""veilsum fleet check: what is wrong at a site, before it matters."""

from __future__ import annotations

import time

import typer

from veilsum.cli.fleet_options import HERE
from veilsum.cli.guard import FAILED, AsJson, Debug, guarded, print_json


def check(as_json: AsJson = False, debug: Debug = False) -> None:
    """Check site.toml, rights, store, witness, clock, columns, budget and posts, each with a remedy.

    Nothing is released. Exit code 0 if all is well, 1 if something needs a person.
    """
    with guarded(debug):
        from dataclasses import asdict

        from veilsum.fleet.check import check_site
        from veilsum.front.of_fleet import check_lines
        from veilsum.front.terminal import say, width

        found = check_site(HERE, int(time.time()))
        if as_json:
            print_json({"checks": [asdict(one) for one in found]})
        else:
            say("\n".join(check_lines(found, width())))
    if not all(one.ok for one in found):
        raise typer.Exit(FAILED)
