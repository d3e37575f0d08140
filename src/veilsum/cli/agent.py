"""veilsum agent: run the agent of one site."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from veilsum.cli.guard import FAILED, Debug, existing, guarded
from veilsum.cli.options import KeysFolder

if TYPE_CHECKING:
    from veilsum.agents.config import Setup
    from veilsum.agents.membership.control import MembershipControl
    from veilsum.agents.results import AgentResult
    from veilsum.agents.runtime import AgentStatus, Metrics, Node
    from veilsum.agents.runtime.service import ServiceNotifier
    from veilsum.agents.transport.zenoh_log import TransportLog
    from veilsum.live.site import SitePage

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
        from veilsum.agents.config import Setup
        from veilsum.agents.outputs import check_outputs
        from veilsum.agents.release import guarantee, make_mechanism

        setup = Setup.load(existing(file, "agent's file"), keys)
        make_mechanism(setup.manifest, setup.problem, setup.config.name, research=research)
        if check:
            from veilsum.agents import doctor
            from veilsum.cli.doctor import show

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
        run = RunOptions(
            insecure, research, log, metrics, metrics_host, metrics_file, page, as_json
        )
        process = AgentProcess()
        following: Setup | None = setup
        while following is not None:
            following = _run_epoch(following, run, process)


class RunOptions(NamedTuple):
    """How an agent is run, in all epochs."""

    insecure: bool
    research: bool
    log: str
    metrics: int | None
    metrics_host: str
    metrics_file: Path | None
    page: str | None
    as_json: bool


class AgentProcess:
    """What outlives an epoch: the service manager, and a signal to stop.

    Attributes
    ----------
    notifier : ServiceNotifier
        Speaks to the service manager.
    stopped : bool
        Whether a signal came.
    """

    def __init__(self) -> None:
        """Take signals from now on; without a node they end the process before the next one."""
        from veilsum.agents.runtime.service import ServiceNotifier

        self.notifier, self.stopped = ServiceNotifier(), False
        self._node: Node | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop())

    def _stop(self) -> None:
        self.stopped = True
        if self._node is not None:
            self._node.stop()

    def runs(self, node: Node, name: str) -> None:
        """A node has started: it is what a signal stops, and what the manager is shown."""
        self._node = node
        if self.stopped:
            node.stop()
        self.notifier.ready()
        if self.notifier.problem:
            text = (
                f"the service manager cannot be reached: {self.notifier.problem}; the agent goes on"
            )
            node.observability.log.write("service", name, text, level="warning")
        if self.notifier.active:
            node.reporter.receivers.append(self.notifier.show)


def _run_epoch(setup: Setup, run: RunOptions, process: AgentProcess) -> Setup | None:
    """Run the agent in one epoch; the setup of the next, or None when it has ended."""
    from veilsum.agents.membership.control import MembershipControl

    page, name = run.page or setup.config.page.address, setup.config.name
    measured = run.metrics is not None or run.metrics_file or page
    with ExitStack() as pages, ExitStack() as running:  # pages end after the last status
        shown, url = (None, "") if page is None else _start_page(setup, run.insecure, page)
        if shown is not None:
            pages.callback(shown.close)
        publisher = setup.publisher(run.insecure)
        if publisher is not None:  # closed after the node, which has a last status for it
            running.callback(publisher.close)
        node = build(setup, run.insecure, run.research, run.log, measured)
        running.callback(node.close)
        running.push(_failing(node))
        if not run.insecure:
            pages.enter_context(_transport_log(node))
        for note in setup.notes:
            node.observability.log.write("epoch", name, note, level="warning")
        if publisher is not None:
            publisher.start(node.observability.log)
            node.reporter.receivers.append(publisher)
        _watch(node, setup, run, running)
        if shown is not None and node.observability.metrics is not None:
            shown.attach(node.reporter, node.observability.metrics, node.observability.log, name)
            node.observability.log.write("page", name, url)
        node.start()
        process.runs(node, name)
        control = MembershipControl(setup, node)
        _work(node, setup, process.notifier, control)
        result = node.reporter.result(node.agents[name], ended=True)
        control.conclude()
        later = control.later
        following = None if later is None or node.all_done or process.stopped else later.setup
        if following is None:
            running.callback(process.notifier.stopping)
    if following is not None:
        following.keep_epoch()
        if run.as_json:
            epoch = {"kind": "epoch", "epoch": following.manifest.epoch, "before": result.to_json()}
            print_line(epoch)
        return following
    _conclude(node, result, run.as_json)
    return None


def _transport_log(node: Node) -> TransportLog:
    """What zenoh says of handshakes that it refuses, for the agent's log."""
    from veilsum.agents.transport.zenoh import ZenohTransport
    from veilsum.agents.transport.zenoh_log import TransportLog

    transport = node.transport
    assert isinstance(transport, ZenohTransport)
    return TransportLog(lambda refused: transport.handshake_refused(*refused))


def build(setup: Setup, insecure: bool, research: bool, level: str, metrics: Any = False) -> Node:
    """The node of one agent, with its ledger open and its transport ready."""
    from veilsum.agents.ledger import Ledger, stored_epoch
    from veilsum.agents.ledger.migration import backup_path
    from veilsum.agents.release import make_mechanism
    from veilsum.agents.runtime import Log, Metrics, Node
    from veilsum.agents.runtime.spool import open_spool

    config, name = setup.config, setup.config.name
    path = setup.path(config.ledger.path)
    setup.check_epoch(stored_epoch(path))
    setup.keep_epoch()
    node = Node(
        setup.manifest,
        setup.transport(insecure),
        options=setup.options,
        log=Log(sys.stderr, level),
        metrics=Metrics() if metrics else None,
    )
    node.reporter.signal_unit, node.reporter.former = setup.unit, tuple(setup.former)
    with ExitStack() as opened:  # a start that fails closes its ledger: the next one resumes
        opened.callback(node.close)
        ledger = Ledger.open(
            path, setup.manifest, name, setup.budget, unit=config.budget.unit,
            window=config.budget.window, per=config.budget.per, refill=config.budget.refill,
            zone=config.budget.zone, key=setup.ledger_key(), durability=config.ledger.durability,
            device=setup.device_secret(),
        )  # fmt: skip
        opened.callback(ledger.close)
        if ledger.migrated_from:
            text = (
                f"its ledger had format {ledger.migrated_from} and was migrated; what it was is kept in "
                f"{backup_path(path, ledger.migrated_from).name}"
            )
            node.observability.log.write("migrated", name, text)
        release_mechanism = make_mechanism(setup.manifest, setup.problem, name, research=research)
        spool = open_spool(ledger, setup.device_secret(), release_mechanism)
        opened.callback(spool.close)
        signing_key = setup.signing_key() if setup.manifest.masked else None
        readings = setup.readings()
        opened.callback(readings.close)
        node.add(name, ledger, release_mechanism, readings, spool, signing_key=signing_key)
        opened.pop_all()
    return node


def _watch(node: Node, setup: Setup, run: RunOptions, running: ExitStack) -> None:
    """Pass the status on: to its file, the text-file collector, standard output and the server."""
    from veilsum.agents.pki import expiry
    from veilsum.agents.runtime.endpoints import Endpoints
    from veilsum.agents.runtime.status import StatusFile

    reporter, metrics, name = node.reporter, node.observability.metrics, setup.config.name
    watch = None if run.insecure else setup.key_watch
    if watch is not None:

        def follow() -> None:
            reporter.certificate_expires = expiry(watch.credentials)

        follow()
        watch.renewed.append(follow)
    reporter.receivers.append(StatusFile(setup.status_file))
    if run.metrics_file is not None and metrics is not None:
        reporter.receivers.append(_collector(metrics, run.metrics_file))
    if run.as_json:
        reporter.receivers.append(JsonLines())
    if run.metrics is not None and metrics is not None:
        endpoints, host = Endpoints(reporter, metrics), run.metrics_host
        port = endpoints.serve(run.metrics, host)
        running.callback(endpoints.close)
        node.observability.log.write("metrics", name, f"http://{host}:{port}/metrics")


def _start_page(setup: Setup, insecure: bool, written: str) -> tuple[SitePage, str]:
    """The agent's page, which is served already, and its address."""
    from veilsum.live.security import PageTls, parse_address
    from veilsum.live.site import SitePage

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
        from veilsum.agents.runtime.status import ENDED

        now = (status.result.estimate, status.result.coverage, status.state)
        if now != self._last and status.state not in ENDED:
            self._last = now
            kind = "estimate" if status.result.estimate else "waiting"
            print_line({"kind": kind} | status.to_json())


def print_line(data: dict[str, Any]) -> None:
    """Print one line of JSON, at once."""
    print(json.dumps(data, allow_nan=False, ensure_ascii=False), flush=True)


def _failing(node: Node) -> Callable[[type[BaseException] | None, object, object], bool]:
    """On the way out, before the node is closed: an error is no stop in good order."""

    def leave(kind: type[BaseException] | None, _problem: object, _trace: object) -> bool:
        if kind is not None and issubclass(kind, Exception):
            node.reporter.fail()
        return False

    return leave


def _work(node: Node, setup: Setup, notifier: ServiceNotifier, control: MembershipControl) -> None:
    """Run until done and no neighbour waits, at most `linger` seconds; stopped; or a later epoch."""

    def turned(finished: bool) -> bool:
        notifier.alive()
        return control.turn() or finished

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
