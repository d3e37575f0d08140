"""murmura agent: run the agent of one site."""

from __future__ import annotations

import json
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from murmura.cli.guard import FAILED, Debug, existing, guarded
from murmura.cli.options import KeysFolder

if TYPE_CHECKING:
    from murmura.agents.config import Setup
    from murmura.agents.results import AgentResult
    from murmura.agents.runtime import AgentStatus, Metrics, Node
    from murmura.agents.runtime.service import ServiceNotifier
    from murmura.agents.transport.zenoh_log import TransportLog
    from murmura.live.site import SitePage

File = Annotated[Path, typer.Argument(metavar="AGENT", help="An agent's file, in TOML.")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Without certificates; binds to loopback only.")
]
Research = Annotated[bool, typer.Option("--research", help="Allow guarantees that are not proved.")]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics",
        min=0,
        max=65535,
        help="Serve /metrics for Prometheus, /healthz, /readyz and /status.json here.",
    ),
]
MetricsHost = Annotated[str, typer.Option(help="Address to serve them on.")]
MetricsFile = Annotated[
    Path | None,
    typer.Option(help="Write metrics to this file, for the text-file collector (.prom)."),
]
PagePlace = Annotated[
    str | None,
    typer.Option(
        "--page",
        metavar="[ADDRESS]",
        help="Serve a page for browsers, at 127.0.0.1:8080 by default; page.address in the file "
        "does it too. Beyond loopback it needs certificates, and so does whoever opens it.",
    ),
]
AsLines = Annotated[
    bool, typer.Option("--json", help="Print JSON lines: estimates as they change, the result.")
]
Level = Annotated[str, typer.Option("--log", help="debug, info, warning or error.")]
Check = Annotated[
    bool,
    typer.Option(
        "--check", help="Check the files, print the manifest's hash and the guarantee, and exit."
    ),
]


def agent(
    file: File,
    insecure: Insecure = False,
    research: Research = False,
    keys: KeysFolder = None,
    metrics: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_file: MetricsFile = None,
    page: PagePlace = None,
    as_json: AsLines = False,
    log: Level = "info",
    check: Check = False,
    debug: Debug = False,
) -> None:
    """Run one agent until it has its result; logs are JSON lines on standard error.

    The exit code is 3 without a result, or with one below the quorum.
    """
    with guarded(debug):
        from murmura.agents.config import Setup
        from murmura.agents.outputs import check_outputs
        from murmura.agents.release import guarantee, make_mechanism

        setup = Setup.load(existing(file, "agent's file"), keys)
        make_mechanism(setup.manifest, setup.problem, setup.config.name, research=research)
        if check:
            from murmura.agents import doctor
            from murmura.cli.doctor import show

            results = doctor.checks(
                setup, insecure=insecure, research=research, metrics_file=metrics_file
            )
            typer.echo(f"{setup.config.name} of {setup.manifest.name}")
            typer.echo(f"manifest {setup.manifest.digest.hex()}")
            typer.echo(str(guarantee(setup.manifest, setup.problem.family)))
            show(results, brief=True)
            if any(result.outcome is doctor.CheckOutcome.FAILURE for result in results):
                raise typer.Exit(FAILED)
            return
        check_outputs(setup, metrics_file)
        page, name = page or setup.config.page.address, setup.config.name
        measured = metrics is not None or metrics_file or page
        with ExitStack() as pages, ExitStack() as running:  # pages end after the last status
            shown, url = (None, "") if page is None else _start_page(setup, insecure, page)
            if shown is not None:
                pages.callback(shown.close)
            publisher = setup.publisher(insecure)
            if publisher is not None:  # closed after the node, which has a last status for it
                running.callback(publisher.close)
            node = build(setup, insecure, research, log, measured)
            running.callback(node.close)
            if not insecure:
                pages.enter_context(_transport_log(node))
            if publisher is not None:
                publisher.start(node.observability.log)
                node.reporter.receivers.append(publisher)
            _watch(node, setup, insecure, running, metrics, metrics_host, metrics_file, as_json)
            if shown is not None and node.observability.metrics is not None:
                shown.attach(
                    node.reporter, node.observability.metrics, node.observability.log, name
                )
                node.observability.log.write("page", name, url)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: node.stop())
            node.start()
            notifier = _notifier(node, setup.config.name)
            running.callback(notifier.stopping)
            _work(node, setup, notifier)
            result = node.reporter.result(node.agents[setup.config.name], ended=True)
        _conclude(node, result, as_json)


def _transport_log(node: Node) -> TransportLog:
    """What zenoh says of handshakes that it refuses, for the agent's log."""
    from murmura.agents.transport.zenoh import ZenohTransport
    from murmura.agents.transport.zenoh_log import TransportLog

    transport = node.transport
    assert isinstance(transport, ZenohTransport)
    return TransportLog(lambda refused: transport.handshake_refused(*refused))


def build(setup: Setup, insecure: bool, research: bool, level: str, metrics: Any = False) -> Node:
    """The node of one agent, with its ledger open and its transport ready."""
    from murmura.agents.ledger import Ledger
    from murmura.agents.release import make_mechanism
    from murmura.agents.runtime import Log, Metrics, Node
    from murmura.agents.runtime.spool import open_spool

    config, name = setup.config, setup.config.name
    node = Node(
        setup.manifest,
        setup.transport(insecure),
        options=setup.options,
        log=Log(sys.stderr, level),
        metrics=Metrics() if metrics else None,
    )
    node.reporter.signal_unit = setup.unit
    path = setup.path(config.ledger.path)
    with ExitStack() as opened:  # a start that fails closes its ledger: the next one resumes
        opened.callback(node.close)
        ledger = Ledger.open(
            path, setup.manifest, name, setup.budget, unit=config.budget.unit,
            window=config.budget.window, per=config.budget.per, refill=config.budget.refill,
            zone=config.budget.zone, key=setup.ledger_key(), durability=config.ledger.durability,
            device=setup.device_secret(),
        )  # fmt: skip
        opened.callback(ledger.close)
        release_mechanism = make_mechanism(setup.manifest, setup.problem, name, research=research)
        spool = open_spool(ledger, setup.device_secret(), release_mechanism)
        opened.callback(spool.close)
        signing_key = setup.signing_key() if setup.manifest.masked else None
        readings = setup.readings()
        opened.callback(readings.close)
        node.add(name, ledger, release_mechanism, readings, spool, signing_key=signing_key)
        opened.pop_all()
    return node


def _watch(
    node: Node,
    setup: Setup,
    insecure: bool,
    running: ExitStack,
    port: int | None,
    host: str,
    file: Path | None,
    as_json: bool,
) -> None:
    """Pass the status on: to its file, the text-file collector, standard output and the server."""
    from murmura.agents.pki import expiry
    from murmura.agents.runtime.endpoints import Endpoints
    from murmura.agents.runtime.status import StatusFile

    reporter, metrics, name = node.reporter, node.observability.metrics, setup.config.name
    watch = None if insecure else setup.key_watch
    if watch is not None:

        def follow() -> None:
            reporter.certificate_expires = expiry(watch.credentials)

        follow()
        watch.renewed.append(follow)
    reporter.receivers.append(StatusFile(setup.status_file))
    if file is not None and metrics is not None:
        reporter.receivers.append(_collector(metrics, file))
    if as_json:
        reporter.receivers.append(JsonLines())
    if port is not None and metrics is not None:
        endpoints = Endpoints(reporter, metrics)
        port = endpoints.serve(port, host)
        running.callback(endpoints.close)
        node.observability.log.write("metrics", name, f"http://{host}:{port}/metrics")


def _start_page(setup: Setup, insecure: bool, written: str) -> tuple[SitePage, str]:
    """The agent's page, which is served already, and its address."""
    from murmura.live.security import PageTls, parse_address
    from murmura.live.site import SitePage

    address = parse_address(written)
    watch = None if insecure or address.is_loopback else setup.key_watch
    tls = None if watch is None else PageTls.of(watch.credentials, setup.page_readers, watch)
    page = SitePage(setup.config.name, setup.manifest, address, tls, folder=setup.folder)
    return page, page.start()


def _collector(metrics: Metrics, file: Path) -> Any:
    metrics.write(file)  # a place that cannot be written to is an error before the start
    return lambda _: metrics.write(file)


class JsonLines:
    """Prints a line of JSON when the estimate, its coverage or the state has changed."""

    def __init__(self) -> None:
        """Nothing is printed yet."""
        self._last: Any = None

    def __call__(self, status: AgentStatus) -> None:
        """Print a status, if it says something new; the end is the result's."""
        from murmura.agents.runtime.status import ENDED

        now = (status.result.estimate, status.result.coverage, status.state)
        if now != self._last and status.state not in ENDED:
            self._last = now
            kind = "estimate" if status.result.estimate else "waiting"
            print_line({"kind": kind} | status.to_json())


def print_line(data: dict[str, Any]) -> None:
    """Print one line of JSON, at once."""
    print(json.dumps(data, allow_nan=False, ensure_ascii=False), flush=True)


def _notifier(node: Node, name: str) -> ServiceNotifier:
    """Say to a service manager that the agent is ready, and later how it fares."""
    from murmura.agents.runtime.service import ServiceNotifier

    notifier = ServiceNotifier()
    notifier.ready()
    if notifier.problem:
        text = f"the service manager cannot be reached: {notifier.problem}; the agent goes on"
        node.observability.log.write("service", name, text, level="warning")
    if notifier.active:
        node.reporter.receivers.append(notifier.show)
    return notifier


def _work(node: Node, setup: Setup, notifier: ServiceNotifier) -> None:
    """Run until done and no neighbour waits, at most `linger` seconds; or until stopped."""

    def turned(finished: bool) -> bool:
        notifier.alive()
        return finished

    node.run(until=lambda: turned(node.all_done))
    if node.all_done:
        node.run(lambda: turned(node.settled), setup.config.rounds.linger)


def _conclude(node: Node, result: AgentResult, as_json: bool) -> None:
    """Print the result; the exit code says whether there is one that meets the quorum."""
    if result.reason == "stopped":
        text = "stopped; start again to continue"
        node.observability.log.write("stopped", result.agent, text)
    if as_json:
        print_line({"kind": "result"} | result.to_json())
    else:
        typer.echo(result.sentence(), err=not result.estimate)
    if result.exit_code:
        raise typer.Exit(result.exit_code)
