"""The processes of `veilsum up` in a table while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

if TYPE_CHECKING:
    from veilsum.agents.local_cluster import LocalCluster


class LiveProcesses:
    """A table of the processes while they run, on a terminal; nothing elsewhere."""

    def __init__(self, enabled: bool, estimates: bool = True) -> None:
        """Without `estimates` the table has none."""
        self._enabled, self._estimates = enabled, estimates
        self._live: Live | None = None

    def __enter__(self) -> LiveProcesses:
        """Start on an empty screen."""
        console = Console(stderr=True)
        if self._enabled and console.is_terminal:
            self._live = Live(console=console, transient=True, refresh_per_second=5)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove it."""
        if self._live is not None:
            self._live.stop()

    def show(self, cluster: LocalCluster) -> None:
        """Draw what the processes say now."""
        if self._live is not None:
            self._live.update(process_table(cluster.status, self._estimates))


def process_table(status: dict[str, dict[str, Any]], estimates: bool = True) -> Table:
    """Rounds, disagreement, estimate, budget and links of each process, and of all.

    Without `estimates` it shows none: nothing protects the signals that they are computed from.
    """
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
