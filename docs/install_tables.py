"""Tables of docs/install.md: what each extra installs, and for which systems wheels exist.

They come from docs/install.json, which `make sizes` renews.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PURPOSE = {
    "core": "networks, families, privacy requests and guarantees, `veilsum ask`, reports, the command line",
    "sim": "`estimate`, `veilsum run`, `sweep`, `plan`, `audit`: the simulator and its data",
    "plot": "pictures on pages, figures for papers; includes `sim`",
    "parquet": "readings and graphs in Parquet files; includes `sim`",
    "tables": "`veilsum ask` of Parquet, Excel and SQL; CSV and data frames need nothing",
    "agents": "`veilsum agent`, `keys`, `ledger`, `doctor`, `status`: one agent on a site",
    "fleet": "`veilsum fleet`: a site of a fleet on a folder, a bucket or a WebDAV server",
    "live": "pages in a browser: `--page`, `veilsum watch`",
    "mqtt": "readings from an MQTT broker",
    "sql": "readings from a database",
    "mpi": "simulations on several machines; includes `sim`",
    "solvers": "fastest-mixing weights; includes `sim`",
    "accounting": "tight composition of many releases",
    "all": "everything",
}
AGENT = ("core", "agents", "live", "mqtt", "sql")


def report() -> dict[str, Any]:
    """Give what `make sizes` measured last."""
    found: dict[str, Any] = json.loads((ROOT / "docs" / "install.json").read_text())
    return found


def install_sizes() -> str:
    """Give one row per extra: what it is for, packages, size and import time."""
    measured = report()
    rows = [
        [
            "`veilsum`" if name == "core" else f"`veilsum[{name}]`",
            PURPOSE[name],
            str(len(each["packages"])),
            f"{each['megabytes']} MB",
            f"{each['import_seconds']:.2f} s",
        ]
        for name, each in measured["extras"].items()
    ]
    about = (
        f"Measured on {measured['date']} with Python {measured['python']} on {measured['system']}: "
        "each extra alone, with all that it needs, in an empty environment."
    )
    return f"{about}\n\n{_table(['install', 'for', 'packages', 'size', 'import'], rows)}"


def install_wheels() -> str:
    """Give one row per compiled package: for which systems and Pythons there are wheels."""
    measured = report()
    wheels, systems = measured["wheels"], measured["systems"]
    compiled = {name: each for name, each in wheels.items() if "any" not in each}
    rows = []
    for name, each in sorted(
        compiled.items(), key=lambda item: (_ways(measured, item[0]), item[0])
    ):
        cells = [_cell(each[system], measured) for system in systems]
        versions = " / ".join(measured["versions"][name])
        rows.append([f"`{name}` {versions}", _ways(measured, name)[1], *cells])
    about = (
        f"As of {measured['date']}, for the locked versions; Linux is glibc 2.36 (Debian 12). The other "
        f"{len(wheels) - len(compiled)} packages are pure Python and run everywhere."
    )
    return f"{about}\n\n{_table(['package', 'of', *systems], rows)}"


def install_boards() -> str:
    """Give what an agent needs on each system that has no wheel."""
    measured = report()
    needed = {name for extra in AGENT for name in measured["extras"][extra]["packages"]}
    rows = []
    for system in measured["systems"]:
        lacking = [
            f"`{name}`"
            for name in sorted(needed)
            if "any" not in (each := measured["wheels"][name]) and each[system] == []
        ]
        some = [
            f"`{name}`"
            for name in sorted(needed)
            if "any" not in (each := measured["wheels"][name])
            and each[system]
            and _cell(each[system], measured) != "yes"
        ]
        verdict = "nothing" if not lacking else ", ".join(lacking)
        rows.append([system, verdict, ", ".join(some) or "nothing"])
    return _table(["an agent on", "has to build", "has to build for some Pythons"], rows)


def _ways(measured: dict[str, Any], name: str) -> tuple[int, str]:
    """Give the first extra that brings a package, with its place in the order."""
    for place, (extra, each) in enumerate(measured["extras"].items()):
        if name in each["packages"]:
            return place, extra
    raise KeyError(name)


def _cell(pythons: list[str] | None, measured: dict[str, Any]) -> str:
    """Say in a word for which Pythons there is a wheel."""
    if pythons is None:
        return "not needed"
    if not pythons:
        return "no"
    return "yes" if pythons == measured["pythons"] else ", ".join(pythons)


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)


PARTS = (install_sizes, install_wheels, install_boards)
