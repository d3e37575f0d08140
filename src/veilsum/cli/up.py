"""veilsum up: run a scenario with real agents on this machine."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilsum.cli.guard import AsJson, Debug, guarded, needs_simulator
from veilsum.cli.options import Evaluate, File, NoFigures, Out, PageFor, Seed
from veilsum.cli.run import report
from veilsum.errors import VeilsumError

if TYPE_CHECKING:
    from veilsum.agents.local_cluster import LocalCluster
    from veilsum.cli.fleet_page import UpPage
    from veilsum.scenario import Scenario

Agents = Annotated[
    int | None,
    typer.Option(
        min=2,
        help="Run only so many, in breadth-first order from the first.",
        show_default="all",
    ),
]
Processes = Annotated[int, typer.Option(min=1, help="Processes that the agents are divided among.")]
Variant = Annotated[str | None, typer.Option(help="Which variant.", show_default="the first")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="No certificates; loopback only, as always.")
]
Research = Annotated[bool, typer.Option("--research", help="Allow guarantees that are not proved.")]
Keep = Annotated[Path | None, typer.Option(help="Keep ledgers, keys and logs in this folder.")]
EveryRound = Annotated[
    bool,
    typer.Option("--every-round", help="Save the mixing state in every round."),
]
Timeout = Annotated[float | None, typer.Option(min=0, help="Seconds after which to give up.")]
Page = Annotated[
    str | None,
    typer.Option(
        "--page", metavar="[ADDRESS]", help="Serve the fleet page, at 127.0.0.1:8090 by default."
    ),
]
WaitFor = Annotated[float, typer.Option(min=0.01, help="Seconds to wait for a neighbour.")]


def up(
    scenario: File,
    agents: Agents = None,
    processes: Processes = 4,
    variant: Variant = None,
    seed: Seed = None,
    out: Out = None,
    keep: Keep = None,
    deadline: WaitFor = 5.0,
    timeout: Timeout = None,
    every_round: EveryRound = False,
    insecure: Insecure = False,
    research: Research = False,
    as_json: AsJson = False,
    no_figures: NoFigures = False,
    evaluate: Evaluate = False,
    page: Page = None,
    page_for: PageFor = None,
    debug: Debug = False,
) -> None:
    """Run a scenario by real agents: processes on this machine, mutual TLS, ledgers."""
    with guarded(debug):
        needs_simulator("veilsum up", not no_figures, "agents")
        from veilsum.agents.local_cluster import LaunchOptions, up
        from veilsum.scenario import Scenario

        loaded = Scenario.load(scenario)
        options = LaunchOptions(
            agents, processes, variant, seed, insecure, research, every_round,
            deadline=deadline, timeout=timeout, folder=keep,
        )  # fmt: skip
        spec = next((each for each in loaded.variants if variant in (None, each.name)), None)
        unit, title = ("", "") if spec is None else (spec.family.unit, spec.title)
        shown = _shows_estimates(loaded, variant)
        with _ended_by_signals(), _page(page, page_for, unit, title, shown) as observer:
            with _Live(not as_json, shown) as live:

                def look(cluster: LocalCluster) -> None:
                    live.show(cluster)
                    if observer is not None:
                        observer.look()

                found = up(loaded, options, look, observer)
            if observer is not None:
                observer.ended(found.seconds)
            folder = out or Path("veilsum-out") / f"{loaded.name}-agents"
            results = {found.result.name: found.result}
            report(loaded, results, folder, as_json, not no_figures, evaluate)


@contextmanager
def _page(
    page: str | None, seconds: float | None, unit: str, title: str, estimates: bool
) -> Iterator[UpPage | None]:
    """The page while the block runs, and after it until Ctrl-C or for some seconds."""
    if page is None:
        yield None
        return
    from veilsum.cli.fleet_page import UpPage
    from veilsum.live.security import parse_address

    made = UpPage(parse_address(page), unit, title, estimates)
    try:
        yield made
        made.stay(seconds)
    except VeilsumError as problem:
        made.failed(problem)
        if made.url:
            typer.echo(f"The run failed: {problem}", err=True)
        made.stay(seconds)
        raise
    finally:
        made.close()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block as Ctrl-C does: processes first, then keys and ledgers.

    A second signal does not interrupt the removal.
    """
    ending = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else ())]

    def end(number: int, _: object) -> None:
        for each in (*ending, signal.SIGINT):
            signal.signal(each, lambda *_: None)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    before = {each: signal.signal(each, end) for each in (*ending, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _shows_estimates(scenario: Scenario, variant: str | None) -> bool:
    """Whether estimates may be shown: not those of measured signals without protection."""
    chosen = [spec for spec in scenario.variants if variant in (None, spec.name)][:1]
    return all(s.signals.file is None or s.privacy.protect != "nothing" for s in chosen)


class _Live:
    """A table of the processes while they run, on a terminal; nothing elsewhere."""

    def __init__(self, enabled: bool, estimates: bool = True) -> None:
        self._enabled, self._estimates = enabled, estimates
        self._live: Any = None

    def __enter__(self) -> _Live:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        if self._enabled and console.is_terminal:
            self._live = Live(console=console, transient=True, refresh_per_second=5)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, cluster: LocalCluster) -> None:
        if self._live is not None:
            self._live.update(table(cluster.status, self._estimates))


def table(status: dict[str, dict[str, Any]], estimates: bool = True) -> Any:
    """Rounds, disagreement, estimate, budget and links of each process, and of all.

    Without `estimates` it shows none: nothing protects the signals that they are computed from.
    """
    from rich.table import Table

    if not estimates:
        status = {device: each | {"estimates": []} for device, each in status.items()}
    made = Table(title="agents")
    for name in ("process", "agents", "round", "estimate", "disagreement", "spent", "links"):
        made.add_column(name, justify="left" if name == "process" else "right")
    for device in sorted(status):
        made.add_row(device, *_cells(status[device]))
    if len(status) > 1 and any(s["estimates"] for s in status.values()):
        made.add_section()
        made.add_row("all", *_cells(_total(list(status.values()))))
    return made


def _cells(s: dict[str, Any]) -> list[str]:
    low, high = s["rounds"]
    estimate = spread = "-"
    if s["estimates"]:
        count, total, least, most = s["estimates"]
        estimate, spread = f"{total / count:.6g}", f"{most - least:.3g}"
    rounds = str(low) if low == high else f"{low}-{high}"
    links = f"{s['links'][0]}/{s['links'][1]}"
    return [f"{s['done']}/{s['agents']} done", rounds, estimate, spread, f"{s['spent']:g}", links]


def _total(each: list[dict[str, Any]]) -> dict[str, Any]:
    found = [s["estimates"] for s in each if s["estimates"]]
    return {
        "agents": sum(s["agents"] for s in each),
        "done": sum(s["done"] for s in each),
        "rounds": [min(s["rounds"][0] for s in each), max(s["rounds"][1] for s in each)],
        "estimates": [
            sum(e[0] for e in found), sum(e[1] for e in found),
            min(e[2] for e in found), max(e[3] for e in found),
        ],
        "spent": max(s["spent"] for s in each),
        "links": [sum(s["links"][k] for s in each) for k in (0, 1)],
    }  # fmt: skip
