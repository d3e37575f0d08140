"""veilsum fleet step and run: once, or until it is ended."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from veilsum.cli.fleet_options import HERE, say
from veilsum.cli.guard import Debug, guarded

At = Annotated[int | None, typer.Option("--at", hidden=True, help="UTC seconds, for tests.")]


def step(at: At = None, debug: Debug = False) -> None:
    """Read the board, do what is due, write, and be done: a site in cron is this line.

    It prints nothing when nothing happened. Exit code 0: done, or nothing to do; 75: a store does not answer,
    or another step is running, and the next one tries again; 1: something is wrong that a person must mend,
    printed once a day, and by veilsum fleet status; 3: this site has stopped for good.
    """
    with guarded(debug):
        from veilsum.fleet.running import one_step

        found = one_step(HERE, int(time.time()) if at is None else at)
        for line in found.lines:
            say(line, "    ")
    raise typer.Exit(found.code)


def run(
    every: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Between steps if nothing happens.")
    ] = 15.0,
    debug: Debug = False,
) -> None:
    """Step until Ctrl-C or SIGTERM; sooner while something happens, later while a store is silent.

    It may end at any moment, by a crash too, and goes on where it was.
    """
    with guarded(debug):
        from veilsum.fleet.running import run as steps
        from veilsum.fleet.site import Site

        ended = threading.Event()

        def end(*_: Any) -> None:
            ended.set()

        with Site(HERE) as site:  # says what is wrong with site.toml before it runs
            where = f"{site.config.name} of {', '.join(one.address for one in site.config.fleets)}"
        before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            say(f"{where}: a step every {every:g} seconds until Ctrl-C.")
            code = steps(Path(), every=every, say=_line, clock=time.time, wait=ended.wait)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    raise typer.Exit(code if code not in (1, 75) else 0)


def _line(text: str) -> None:
    say(f"{time.strftime('%H:%M:%S')}  {text}", " " * 10)
