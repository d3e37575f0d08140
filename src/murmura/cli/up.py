"""murmura up: run a scenario by real agents on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from murmura.cli.guard import AsJson, Debug, guarded
from murmura.cli.perform import Evaluate, File, NoFigures, Out, Seed, present

if TYPE_CHECKING:
    from murmura.agent.fleet import Fleet
    from murmura.scenario import Scenario

Agents = Annotated[
    int | None,
    typer.Option(min=2, help="Run only so many, walking from the first [default: all]."),
]
Processes = Annotated[int, typer.Option(min=1, help="Processes that share the agents.")]
Variant = Annotated[str | None, typer.Option(help="Which variant [default: the first].")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="No certificates; on loopback all the same.")
]
Research = Annotated[bool, typer.Option("--research", help="Allow promises that are not proved.")]
Keep = Annotated[Path | None, typer.Option(help="Keep ledgers, keys and logs in this folder.")]
EveryRound = Annotated[
    bool,
    typer.Option("--every-round", help="Write the state of mixing down in every round."),
]
Timeout = Annotated[float | None, typer.Option(min=0, help="Seconds after which to give up.")]
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
    debug: Debug = False,
) -> None:
    """Run a scenario by real agents: processes on this machine, mutual TLS, ledgers."""
    with guarded(debug):
        from murmura.agent.fleet import Terms, up
        from murmura.scenario import Scenario

        loaded = Scenario.load(scenario)
        terms = Terms(
            agents, processes, variant, seed, insecure, research, every_round,
            deadline=deadline, timeout=timeout, folder=keep,
        )  # fmt: skip
        with _Live(not as_json, _tells(loaded, variant)) as live:
            found = up(loaded, terms, live.show)
        results = {found.result.name: found.result}
        directory = out or Path("murmura-out") / f"{loaded.name}-agents"
        seconds = {found.result.name: found.seconds}
        chosen = loaded.with_(seed=seed, replicas=1)
        present(chosen, results, seconds, directory, as_json, not no_figures, evaluate)


def _tells(scenario: Scenario, variant: str | None) -> bool:
    """Whether estimates may be shown: not of measured signals that nothing protects."""
    chosen = [spec for spec in scenario.variants if variant in (None, spec.name)][:1]
    return all(s.signals.file is None or s.privacy.protect != "nothing" for s in chosen)


class _Live:
    """A table of the processes while they run, on a terminal; nothing elsewhere."""

    def __init__(self, shown: bool, tells: bool = True) -> None:
        self._shown, self._tells = shown, tells
        self._live: Any = None

    def __enter__(self) -> _Live:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        if self._shown and console.is_terminal:
            self._live = Live(console=console, transient=True, refresh_per_second=5)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, fleet: Fleet) -> None:
        if self._live is not None:
            self._live.update(table(fleet.status, self._tells))


def table(status: dict[str, dict[str, Any]], tells: bool = True) -> Any:
    """Rounds, disagreement, estimate, budget and links of each process, and of all.

    Without `tells` it has no estimates: nothing protects the signals that they are made of.
    """
    from rich.table import Table

    if not tells:
        status = {device: said | {"held": []} for device, said in status.items()}
    shown = Table(title="agents")
    for name in ("process", "agents", "round", "estimate", "disagreement", "spent", "links"):
        shown.add_column(name, justify="left" if name == "process" else "right")
    for device in sorted(status):
        shown.add_row(device, *_cells(status[device]))
    held = [s["held"] for s in status.values() if s["held"]]
    if held and len(status) > 1:
        shown.add_section()
        shown.add_row("all", *_cells(_total(list(status.values()))))
    return shown


def _cells(s: dict[str, Any]) -> list[str]:
    low, high = s["rounds"]
    estimate = spread = "-"
    if s["held"]:
        count, total, least, most = s["held"]
        estimate, spread = f"{total / count:.6g}", f"{most - least:.3g}"
    rounds = str(low) if low == high else f"{low}-{high}"
    links = f"{s['links'][0]}/{s['links'][1]}"
    return [f"{s['done']}/{s['agents']} done", rounds, estimate, spread, f"{s['spent']:g}", links]


def _total(each: list[dict[str, Any]]) -> dict[str, Any]:
    held = [s["held"] for s in each if s["held"]]
    return {
        "agents": sum(s["agents"] for s in each),
        "done": sum(s["done"] for s in each),
        "rounds": [min(s["rounds"][0] for s in each), max(s["rounds"][1] for s in each)],
        "held": [
            sum(h[0] for h in held), sum(h[1] for h in held),
            min(h[2] for h in held), max(h[3] for h in held),
        ],
        "spent": max(s["spent"] for s in each),
        "links": [sum(s["links"][k] for s in each) for k in (0, 1)],
    }  # fmt: skip
