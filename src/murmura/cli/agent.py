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

if TYPE_CHECKING:
    from murmura.agents.config import Setup
    from murmura.agents.results import AgentResult
    from murmura.agents.runtime import AgentStatus, Metrics, Node

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
    metrics: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_file: MetricsFile = None,
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
        from murmura.agents.release import ReleaseMechanism, guarantee

        setup = Setup.load(existing(file, "agent's file"))
        ReleaseMechanism(setup.manifest, setup.problem, setup.config.name, research=research)
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
        with ExitStack() as running:
            node = build(setup, insecure, research, log, metrics is not None or metrics_file)
            running.callback(node.close)
            _watch(node, setup, insecure, running, metrics, metrics_host, metrics_file, as_json)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: node.stop())
            node.start()
            _work(node, setup)
            result = node.reporter.result(node.agents[setup.config.name], ended=True)
        _conclude(node, result, as_json)


def build(setup: Setup, insecure: bool, research: bool, level: str, metrics: Any = False) -> Node:
    """The node of one agent, with its ledger open and its transport ready."""
    from murmura.agents.ledger import Ledger
    from murmura.agents.release import ReleaseMechanism
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
    path = setup.path(config.ledger.path)
    ledger = Ledger.open(
        path, setup.manifest, name, setup.budget, unit=config.budget.unit,
        window=config.budget.window, per=config.budget.per, refill=config.budget.refill,
        zone=config.budget.zone, key=setup.ledger_key(), durability=config.ledger.durability,
        device=setup.device_secret(),
    )  # fmt: skip
    release_mechanism = ReleaseMechanism(setup.manifest, setup.problem, name, research=research)
    spool = open_spool(ledger, setup.device_secret(), release_mechanism)
    node.add(name, ledger, release_mechanism, setup.readings(), spool)
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
    credentials = None if insecure else setup.credentials()
    if credentials is not None:
        reporter.certificate_expires = expiry(credentials)
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
        now = (status.result.estimate, status.result.coverage, status.state)
        if now != self._last and status.state not in ("done", "stopped"):
            self._last = now
            kind = "estimate" if status.result.estimate else "waiting"
            print_line({"kind": kind} | status.to_json())


def print_line(data: dict[str, Any]) -> None:
    """Print one line of JSON, at once."""
    print(json.dumps(data, allow_nan=False, ensure_ascii=False), flush=True)


def _work(node: Node, setup: Setup) -> None:
    """Run until done and no neighbour waits, at most `linger` seconds; or until stopped."""
    node.run(until=lambda: node.all_done)
    if node.all_done:
        node.run(lambda: node.settled, setup.config.rounds.linger)


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
