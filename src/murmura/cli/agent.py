"""murmura agent: run the agent of one site."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from murmura.cli.guard import Debug, existing, guarded

if TYPE_CHECKING:
    from murmura.agents.config import Setup
    from murmura.agents.runtime import Node

UNFINISHED = {
    "rolled-back": "its ledger is older than what its neighbours received; restore the newest one",
    "conflicting-releases": "its neighbours remember releases of this name that its ledger does "
    "not have, or another copy of it runs; the log says which, and what to do",
    "quorum": "fewer members than the quorum could be reached; the log says who was lost",
    "excluded": "the others went on without it; use their estimate, or take part in the next epoch",
    "late": "its neighbours were done before it restarted without its state; use their estimate",
}

File = Annotated[Path, typer.Argument(metavar="AGENT", help="An agent's file, in TOML.")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Without certificates; binds to loopback only.")
]
Research = Annotated[bool, typer.Option("--research", help="Allow guarantees that are not proved.")]
MetricsPort = Annotated[
    int | None, typer.Option("--metrics", min=0, max=65535, help="Serve Prometheus metrics here.")
]
MetricsHost = Annotated[str, typer.Option(help="Address to serve metrics on.")]
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
    log: Level = "info",
    check: Check = False,
    debug: Debug = False,
) -> None:
    """Run one agent until it has its estimate; logs are JSON lines on standard error."""
    with guarded(debug):
        from murmura.agents.config import Setup
        from murmura.agents.release import ReleaseMechanism, guarantee

        setup = Setup.load(existing(file, "agent's file"))
        ReleaseMechanism(setup.manifest, setup.problem, setup.config.name, research=research)
        if check:
            setup.check_readings()
            typer.echo(f"{setup.config.name} of {setup.manifest.name}")
            typer.echo(f"manifest {setup.manifest.digest.hex()}")
            typer.echo(str(guarantee(setup.manifest, setup.problem.family)))
            return
        node = build(setup, insecure, research, metrics, metrics_host, log)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: node.stop())
        try:
            node.start()
            finished = _work(node, setup)
        finally:
            node.close()
        _conclude(node, setup.config.name, finished)


def build(
    setup: Setup, insecure: bool, research: bool, port: int | None, host: str, level: str
) -> Node:
    """The node of one agent, with its ledger open and its transport ready."""
    from murmura.agents.ledger import Ledger
    from murmura.agents.release import ReleaseMechanism
    from murmura.agents.runtime import Log, Metrics, Node

    config, name = setup.config, setup.config.name
    metrics = None if port is None else Metrics()
    node = Node(
        setup.manifest,
        setup.transport(insecure),
        options=setup.options,
        log=Log(sys.stderr, level),
        metrics=metrics,
    )
    path = setup.path(config.ledger.path)
    ledger = Ledger.open(
        path, setup.manifest, name, setup.budget, unit=config.budget.unit,
        window=config.budget.window, key=setup.ledger_key(), durability=config.ledger.durability,
        device=setup.device_secret(),
    )  # fmt: skip
    release_mechanism = ReleaseMechanism(setup.manifest, setup.problem, name, research=research)
    node.add(name, ledger, release_mechanism, setup.readings())
    if metrics is not None:
        port = metrics.serve(port or 0, host)
        node.observability.log.write("metrics", name, f"http://{host}:{port}/metrics")
    return node


def _work(node: Node, setup: Setup) -> bool:
    """Run until done and no neighbour waits, at most `linger` seconds; False if stopped."""
    finished = node.run(until=lambda: node.all_done)
    if not node.all_done:
        return False
    return finished and (node.run(lambda: node.settled, setup.config.rounds.linger) or True)


def _conclude(node: Node, name: str, finished: bool) -> None:
    done: Any = node.agents[name].done
    if not finished or done is None:
        node.observability.log.write(
            "stopped", name, "stopped before the end; start again to continue"
        )
        return
    if done.reason in UNFINISHED:
        typer.echo(f"{name}: no estimate: {UNFINISHED[done.reason]}", err=True)
        raise typer.Exit(1)
    estimate = ", ".join(f"{value:.9g}" for value in done.estimate)
    typer.echo(f"{name}: {estimate} after {done.round} rounds ({done.reason})")
