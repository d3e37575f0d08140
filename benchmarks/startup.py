"""Start-up: what `import veilsum` and `veilsum --help` take, beside the commit before names registered.

Each command is a process of its own, in turn with the same command of that commit (`git archive`), a bare
interpreter and, as the control, a bare interpreter once more; medians.
"""

import io
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.clock import row

ROOT = Path(__file__).parents[1]
BEFORE = "2684c9a2d3c012b26eb9ce25393d95d4e2b9e3d1"  # lists of names, no registry
TURNS = 15
HELP = "import sys; sys.argv = ['veilsum', '--help']; from veilsum.cli import main; main()"
CODES = {"import veilsum": "import veilsum", "veilsum --help": HELP}
LOOKED_UP = "from veilsum.privacy import MECHANISMS; MECHANISMS.names()"
UNRESOLVED = 0.05  # of a ratio, below which two runs of one command differ


def seconds(code: str, source: Path) -> float:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=environment
    )
    return time.perf_counter() - began


def medians(codes: dict[str, tuple[str, Path]], turns: int = TURNS) -> dict[str, float]:
    """The median of each command, which take turns."""
    found: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(turns):
        for name, (code, source) in codes.items():
            found[name].append(seconds(code, source))
    return {name: statistics.median(times) for name, times in found.items()}


def before(folder: str) -> Path | None:
    """The sources of that commit; None without the history."""
    done = subprocess.run(
        ["git", "archive", BEFORE, "src"], cwd=ROOT, capture_output=True, check=False
    )
    if done.returncode:
        return None
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return Path(folder) / "src"


def measure() -> Any:
    here = ROOT / "src"
    with tempfile.TemporaryDirectory() as folder:
        other = before(folder)
        codes = {"bare": ("pass", here), "control": ("pass", here), "look-up": (LOOKED_UP, here)}
        for name, code in CODES.items():
            codes[name] = code, here
            if other is not None:
                codes[f"{name} before"] = code, other
        took = medians(codes)
    control = max(took["control"] / took["bare"], took["bare"] / took["control"])
    most = 1 + max(UNRESOLVED, control - 1)
    for name in CODES:
        ratio = took[name] / took.get(f"{name} before", float("nan"))
        yield row(
            f"`{name}`, times the same before names registered themselves", ratio, f"<= {most:.2f}",
            ratio <= most,
            f"{took[name] * 1e3:.0f} ms, a bare interpreter {took['bare'] * 1e3:.0f} ms, control "
            f"{control:.3f}; all mechanisms by name {took['look-up'] * 1e3:.0f} ms",
            "" if other else f"commit {BEFORE[:7]} is not in this history",
        )  # fmt: skip


if __name__ == "__main__":
    for one in measure():
        print(one)
