"""Cold start: how much of the first `veilsum run` after installation is compiling."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.clock import row

CODE = """
import sys, time
from numba.core import event

class Clock(event.Listener):
    depth, began, spent = 0, 0.0, 0.0

    def on_start(self, event):
        self.began = self.began if self.depth else time.process_time()
        self.depth += 1

    def on_end(self, event):
        self.depth -= 1
        self.spent += 0.0 if self.depth else time.process_time() - self.began

sys.argv = ["veilsum", "run", "us-power-grid.toml"]
clock = Clock()
with event.install_listener("numba:compile", clock):
    from veilsum.cli import main
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
print("COMPILED", clock.spent)
"""
EXAMPLE = Path(__file__).parents[1] / "examples" / "us-power-grid.toml"


def compiling(folder: str) -> float:
    """Processor seconds spent in the compiler by one run that keeps its cache in a folder."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": f"{folder}/cache"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], check=True, capture_output=True, text=True, cwd=folder,
        env=environment,
    )  # fmt: skip
    return float(done.stdout.rsplit("COMPILED", 1)[1])


def measure() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(EXAMPLE, folder)
        first, second = compiling(folder), compiling(folder)
    yield row(
        "compiling in the first `veilsum run`, seconds", first, "< 3", first < 3,
        f"all kernels together; {second:.2f} s in the second run, from the cache",
    )  # fmt: skip
