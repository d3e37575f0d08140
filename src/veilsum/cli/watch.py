"""veilsum watch: the sites of a fleet at this moment, as they allow an observer to see them."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilsum.cli.agent import print_line
from veilsum.cli.guard import FAILED, Debug, existing, guarded
from veilsum.errors import CommandError

if TYPE_CHECKING:
    from veilsum.agents.observers import Watch
    from veilsum.agents.observers.watcher import StatusWatcher, WatchEvent
    from veilsum.agents.runtime.status import StatusReport
    from veilsum.live.fleet import FleetTerms

Show = Callable[[Any], None]

ONCE = 15.0  # seconds in which a site may answer
TURN = 0.5  # seconds between two looks at what came

File = Annotated[Path, typer.Argument(metavar="WATCH", help="A watch file, in TOML.")]
Page = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Show the fleet in a browser, such as 127.0.0.1:8090."),
]
AsLines = Annotated[
    bool, typer.Option("--json", help="Print JSON lines: each status, and who falls silent.")
]
Once = Annotated[bool, typer.Option("--once", help="One status of each site, then exit.")]


def watch(
    file: File,
    page: Page = None,
    as_json: AsLines = False,
    once: Once = False,
    debug: Debug = False,
) -> None:
    """Watch the sites of a fleet that allow this observer, in a table, as JSON lines or in a browser.

    With [membership] in the watch file it follows new epochs while it runs, as agents do.

    The exit code is 0 if every site has an estimate that meets its quorum, 3 if one has none, 1 if
    one is silent.
    """
    with guarded(debug):
        from veilsum.agents.observers import StatusWatcher, Watch

        opened = Watch.load(existing(file, "watch file"))
        with ExitStack() as running:
            stopping = running.enter_context(_signals())
            watcher = StatusWatcher.of(opened)
            watcher.on_notice = lambda text: typer.echo(text, err=True)
            for text in _notes(opened):
                typer.echo(text, err=True)
            show = _shown(watcher, as_json, once, running)
            on_page = _page(opened, page, running) if page is not None else None
            running.enter_context(watcher)
            end = time.monotonic() + ONCE
            while not stopping.is_set():
                for event in watcher.take(TURN):
                    show(event)
                    if on_page is not None:
                        on_page(event)
                if once and (watcher.heard_of_all or time.monotonic() >= end):
                    break
            found = reports(watcher)
        if once and not as_json:
            from veilsum.agents.screens.statuses import print_watched

            print_watched(found, former(watcher))
        codes = {report.exit_code for report in found} - {0}
        if codes:
            raise typer.Exit(FAILED if FAILED in codes else codes.pop())


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Set when the process is asked to end."""
    asked = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: asked.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def reports(watcher: StatusWatcher) -> list[StatusReport]:
    """The last status of each site, as `veilsum status` shows those of files."""
    from veilsum.agents.runtime.status import StatusReport

    found = []
    for label, view in watcher.sites.items():
        data = view.last.status if view.last is not None else {}
        problem = ""
        if view.silent_since is not None:
            problem = f"silent since {_clock(view.silent_since)}: {view.reason}"
        elif not data:
            problem = "nothing was heard of it"
        found.append(StatusReport(Path(label), data, problem))
    return found


def _page(opened: Watch, text: str, running: ExitStack) -> Show:
    """Serve the fleet page, on loopback, until the end."""
    from veilsum.agents.observers import ObservedStatus, SilentSite
    from veilsum.live.fleet_server import FleetServer
    from veilsum.live.security import parse_address

    address = parse_address(text)
    if not address.is_loopback:
        raise CommandError(
            f"a page at {address} could be opened from other machines, and an observer's certificate "
            f"serves nobody; serve it on 127.0.0.1:{address.port}, and reach it through a tunnel "
            f"(ssh -L {address.port}:127.0.0.1:{address.port})"
        )
    server = FleetServer(_terms(opened), address)
    url = server.start()
    running.callback(server.close)
    typer.echo(f"The fleet page is at {url}", err=True)

    def follow(watch: Watch, change: str = "") -> None:
        for label in watch.manifest.labels:
            (server.page.watch if label in watch.sites else server.page.leave_out)(label)
        counts = f"{len(watch.sites)} of {server.page.terms.size} sites"
        server.page.run("running", f"{watch.name} watches {counts}{change}")

    def show(event: WatchEvent) -> None:
        if isinstance(event, ObservedStatus):
            server.page.update(event.label, event.status, event.received_at)
        elif isinstance(event, SilentSite):
            server.page.silent(event.label, event.since, event.reason, event.epoch)
        else:
            server.page.follow(_terms(event.watch))
            follow(event.watch, f"; {event.text}")

    follow(opened)
    return show


def _terms(watch: Watch) -> FleetTerms:
    """What the page shows of the fleet's terms."""
    from veilsum.agents.release.guarantees import covers_estimates, guarantee
    from veilsum.live.fleet import FleetTerms

    graph, family = watch.problem.network.graph, watch.problem.family
    return FleetTerms.of(
        watch.manifest,
        family,
        positions=None if graph is None else graph.positions,
        unit=watch.unit,
        title=f"watched by {watch.name}",
        estimates=covers_estimates(watch.manifest, guarantee(watch.manifest, family)),
        former=watch.former,
    )


def _notes(watch: Watch) -> list[str]:
    """What of the files is not used, and why."""
    found = list(watch.notes)
    if watch.strangers:
        found.append(
            f"{', '.join(watch.strangers)}: no member of {watch.manifest.name} in epoch "
            f"{watch.manifest.epoch}; watched once it is"
        )
    return found


def _shown(watcher: StatusWatcher, as_json: bool, once: bool, running: ExitStack) -> Show:
    """What is done with each event on standard output."""
    if as_json:
        return _line_of_json
    if once:
        return lambda _: None
    if sys.stdout.isatty():
        return _live(watcher, running)
    return _line_of_text


def _line_of_json(event: WatchEvent) -> None:
    from veilsum.agents.observers import ObservedStatus, WatchChanged

    if isinstance(event, ObservedStatus):
        print_line({"kind": "status", "received_at": event.received_at} | event.status)
    elif isinstance(event, WatchChanged):
        lists = {"joined": list(event.joined), "former": list(event.former)}
        watched = {"epoch": event.watch.manifest.epoch, "watched": list(event.watch.sites)}
        print_line({"kind": "epoch"} | watched | lists)
    else:
        print_line(
            {"kind": "silent", "agent": event.label, "since": event.since, "reason": event.reason}
        )


def _line_of_text(event: WatchEvent) -> None:
    from veilsum.agents.observers import ObservedStatus, WatchChanged

    if isinstance(event, WatchChanged):
        print(f"{_clock(time.time())} {event.text}", flush=True)
        return
    if not isinstance(event, ObservedStatus):
        text = f"silent since {_clock(event.since)}: {event.reason}"
    else:
        status = event.status
        text = f"{status['state']}, round {status['round']}, {status['coverage']['sentence']}"
    print(f"{_clock(time.time())} {event.label}: {text}", flush=True)


def _live(watcher: StatusWatcher, running: ExitStack) -> Show:
    """A table in the terminal that is drawn again when something happened."""
    from veilsum.agents.screens.statuses import LiveStatuses

    live = running.enter_context(LiveStatuses(reports(watcher), former(watcher)))
    return lambda _: live.show(reports(watcher), former(watcher))


def former(watcher: StatusWatcher) -> list[str]:
    """A line for each member of earlier epochs, and one for the members that are not watched."""
    from veilsum.agents.coverage import some_names

    watch = watcher.watch
    if watch is None:
        return []
    lines = [f"{label}: no member since epoch {epoch}" for label, epoch in watch.former.items()]
    if unwatched := [label for label in watch.manifest.labels if label not in watch.named]:
        lines.append(
            f"not watched: {some_names(unwatched)}; name it under [sites] of the watch file, with the "
            "address of its [observers]"
        )
    return lines


def _clock(at: float) -> str:
    """A time of day, with its date unless that is today: a site may be silent for days."""
    then, today = time.localtime(at), time.localtime()
    same = then[:3] == today[:3]
    return time.strftime("%H:%M:%S" if same else "%Y-%m-%d %H:%M:%S", then)
