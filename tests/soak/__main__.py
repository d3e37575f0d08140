"""make soak: a year of 50 agents in virtual time, and some minutes of real processes.

python -m tests.soak [--agents 50] [--hours 8760] [--minutes 4] [--home FOLDER]

Prints the figures. Those of a whole year and of processes are written to tests/soak/soak.json, from
which `make docs` makes a table.
The exit code is 1 if something was lost, released twice, exceeded its budget or leaked; then the files
of all sites are kept.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tests.soak import checks, sockets
from tests.soak.year import SoakSize, Year
from veilsum.agents.local_cluster.worker import COLLECT

RESULTS = Path(__file__).with_name("soak.json")
MEMORY = Path("/dev/shm")  # for ledgers of a year, in a new folder


def scaled(agents: int, hours: int) -> SoakSize:
    """The faults of the year, as many as this size has room for."""
    usual = SoakSize()
    part = agents * hours / (usual.agents * usual.hours)
    kinds = ("restarts", "kills", "charge_kills", "reboots", "clock_steps", "partitions")
    faults = {kind: max(2, round(part * getattr(usual, kind))) for kind in kinds}
    turns = min(usual.rotate_hours, max(hours // 5, 1))
    return replace(usual, agents=agents, hours=hours, rotate_hours=turns, **faults)


def year(size: SoakSize, home: Path) -> tuple[dict[str, Any], list[str]]:
    """Let the year pass."""
    began = time.monotonic()
    gc.freeze()  # as a worker of `veilsum up`: almost nothing here is cyclic
    gc.set_threshold(*COLLECT)
    made = Year(size, home)
    try:
        made.run()
        wrong = checks.violations(made)
    finally:
        made.close()
    return checks.figures(made, time.monotonic() - began), wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--agents", type=int, default=SoakSize().agents)
    parser.add_argument("--hours", type=int, default=SoakSize().hours)
    parser.add_argument("--minutes", type=float, default=4.0, help="of real processes")
    parser.add_argument("--home", type=Path, default=MEMORY if MEMORY.is_dir() else None)
    parser.add_argument("--no-file", action="store_true", help="print only")
    chosen = parser.parse_args()
    folder = Path(mkdtemp(prefix="veilsum-soak-", dir=chosen.home))
    size = scaled(chosen.agents, chosen.hours)
    found, wrong = year(size, folder / "year")
    _show(f"{chosen.hours // 24} days in virtual time", found)
    real: dict[str, Any] = {}
    if chosen.minutes:
        real, more = sockets.run(folder / "sockets", 60 * chosen.minutes)
        _show("processes over sockets", real)
        wrong += more
    if wrong:
        print(f"ledgers and logs of all sites are in {folder}; remove it when you have looked")
    else:
        shutil.rmtree(folder)
    if size == SoakSize() and real and not wrong and not chosen.no_file:
        cores = len(os.sched_getaffinity(0))
        machine = f"{cores} cores, Python {platform.python_version()}"
        text = json.dumps({"machine": machine, "year": found, "sockets": real}, indent=1)
        RESULTS.write_text(f"{text}\n")
    print("\n".join(wrong[:50]) or "nothing lost, nothing twice, no budget exceeded, no leak")
    return 1 if wrong else 0


def _show(title: str, found: dict[str, Any]) -> None:
    print(f"{title}:")
    for name, value in found.items():
        print(f"  {name:65} {value:,}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
