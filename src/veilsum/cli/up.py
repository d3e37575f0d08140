"""veilsum up: run a scenario with real agents on this machine."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilsum.cli.guard import AsJson, Debug, guarded, needs_simulator
from veilsum.cli.options import File, PageFor, Plot, Seed, Truth
from veilsum.cli.run import save
from veilsum.cli.sheets import check_places, tell
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
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="STEM",
        help="Write STEM.html and STEM.csv.",
        show_default="NAME-agents",
    ),
]
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
    truth: Truth = False,
    plot: Plot = None,
    page: Page = None,
    page_for: PageFor = None,
    debug: Debug = False,
) -> None:
    """Run a scenario by real agents: processes on this machine, mutual TLS, ledgers."""
    with guarded(debug):
        needs_simulator("veilsum up", plot, "agents")
        from veilsum.agents.local_cluster import LaunchOptions, up
        from veilsum.agents.screens.processes import LiveProcesses
        from veilsum.scenario import Scenario

        loaded = Scenario.load(scenario)
        stem = check_places(f"{loaded.name}-agents", out, plot, truth)
        options = LaunchOptions(
            agents, processes, variant, seed, insecure, research, every_round,
            deadline=deadline, timeout=timeout, folder=keep,
        )  # fmt: skip
        spec = next((each for each in loaded.variants if variant in (None, each.name)), None)
        unit, title = ("", "") if spec is None else (spec.family.unit, spec.title)
        shown = _shows_estimates(loaded, variant)
        with _ended_by_signals(), _page(page, page_for, unit, title, shown) as observer:
            with LiveProcesses(not as_json, shown) as live:

                def look(cluster: LocalCluster) -> None:
                    live.show(cluster)
                    if observer is not None:
                        observer.look()

                found = up(loaded, options, look, observer)
            if observer is not None:
                observer.ended(found.seconds)
            results = {found.result.name: found.result}
            tell(save(loaded, results, stem, truth, plot), as_json)


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
