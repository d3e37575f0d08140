"""murmura agent: run the agent of one site."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from murmura.cli.guard import Debug, existing, guarded

if TYPE_CHECKING:
    from murmura.agent.config import Setup
    from murmura.agent.node import Node

UNFINISHED = {
    "rolled-back": "its ledger is older than what its neighbours heard; put the newest one back",
    "conflicting-releases": "its neighbours remember releases of this name that its ledger does "
    "not know of, or another copy of it runs; the log says which, and what to do",
    "late": "its neighbours were done before it came back without its state; theirs stands",
}

File = Annotated[Path, typer.Argument(metavar="AGENT", help="An agent's file, in TOML.")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Without certificates; binds to loopback only.")
]
Research = Annotated[bool, typer.Option("--research", help="Allow promises that are not proved.")]
MetricsPort = Annotated[
    int | None, typer.Option("--metrics", min=0, max=65535, help="Serve Prometheus metrics here.")
]
MetricsHost = Annotated[str, typer.Option(help="Address to serve metrics on.")]
Level = Annotated[str, typer.Option("--log", help="debug, info, warning or error.")]
Check = Annotated[
    bool, typer.Option("--check", help="Check the files, say the terms, and start nothing.")
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
    """Run one agent until its estimate stands; logs are JSON lines on standard error."""
    with guarded(debug):
        from murmura.agent.config import Setup
        from murmura.agent.release import Drawer, guarantee

        setup = Setup.load(existing(file, "agent's file"))
        Drawer(setup.manifest, setup.problem, setup.config.name, research=research)
        if check:
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
    from murmura.agent.ledger import Ledger
    from murmura.agent.node import Log, Metrics, Node
    from murmura.agent.release import Drawer

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
    drawer = Drawer(setup.manifest, setup.problem, name, research=research)
    node.add(name, ledger, drawer, setup.readings())
    if metrics is not None:
        port = metrics.serve(port or 0, host)
        node.voice.log.say("metrics", name, f"http://{host}:{port}/metrics")
    return node


def _work(node: Node, setup: Setup) -> bool:
    """Until done and nobody waits for it, or for as long as it may linger; False if stopped."""
    finished = node.run(until=lambda: node.all_done)
    if not node.all_done:
        return False
    return finished and (node.run(lambda: node.settled, setup.config.rounds.linger) or True)


def _conclude(node: Node, name: str, finished: bool) -> None:
    done: Any = node.sites[name].done
    if not finished or done is None:
        node.voice.log.say("stopped", name, "stopped before the end; start again to go on")
        return
    if done.reason in UNFINISHED:
        typer.echo(f"{name}: no estimate: {UNFINISHED[done.reason]}", err=True)
        raise typer.Exit(1)
    estimate = ", ".join(f"{value:.9g}" for value in done.estimate)
    typer.echo(f"{name}: {estimate} after {done.round} rounds ({done.reason})")
