"""What a person waits for: `veilsum run` with its page and table, as a process of its own.

The control is the same process without page and table: what is left is what the front costs.
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.clock import row

EXAMPLE = Path(__file__).parents[1] / "examples" / "us-power-grid.toml"
WITHOUT = """
import sys, warnings, veilsum
warnings.simplefilter("ignore")
str(veilsum.run(sys.argv[1]))
"""
ROWS = 300
STUDY = """
name = "kwh"
title = "Mean consumption of 300 households"
[network]
graph = "complete"
options = { size = 300 }
weights = "metropolis"
[family]
name = "normal"
sigma = 4.0
bounds = [0.0, 40.0]
[signals]
file = "readings.csv"
[privacy]
protect = "signal"
mode = "masked"
epsilon = 1.0
colluders = 60
[algorithm]
name = "masked-sum"
rounds = 5
"""


def processor(command: list[str], folder: str) -> float:
    """Processor seconds of a command and all it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def waited(study: Path, folder: str) -> tuple[float, float]:
    """Processor seconds with page and table, and without; after a run that fills the cache."""
    run = [sys.executable, "-m", "veilsum.cli", "run", str(study)]
    processor(run, folder)
    return processor(run, folder), processor([sys.executable, "-c", WITHOUT, str(study)], folder)


def readings() -> str:
    """A table of 300 rows: no two alike, and no randomness."""
    return "household,kwh\n" + "".join(f"{k},{5 + (k * 37 % 101) / 10:.1f}\n" for k in range(ROWS))


def measure() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        own, alone = waited(EXAMPLE, folder)
        yield row(
            "`veilsum run` on the US power grid with its page, processor seconds", own, "< 6", own < 6,
            f"{alone:.1f} s of them without page and table: {own / alone:.2f} times",
            "12 runs of 4,941 agents, 10 replicas each, take most of it",
        )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "kwh.toml"
        study.write_text(STUDY)
        (Path(folder) / "readings.csv").write_text(readings())
        own, alone = waited(study, folder)
        size = sum((Path(folder) / f"kwh{end}").stat().st_size for end in (".html", ".csv")) / 1e3
        yield row(
            "a masked mean of 300 rows on a complete graph, processor seconds", own, "< 3", own < 3,
            f"{alone:.1f} s of them without page and table: {own / alone:.2f} times",
        )  # fmt: skip
        yield row(
            "the page and the table of that mean, kB", size, "< 100", size < 100, "two files",
        )  # fmt: skip
