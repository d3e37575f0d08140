"""examples/ask/veilsum.R asks from R, and raises what the command refuses as an error of R."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "examples" / "ask"
pytestmark = pytest.mark.integration
SCRIPT = """
source("veilsum.R")
options(veilsum.command = "./command")
one <- veilsum_ask("mean", "kwh", "meters.csv", between = c(0, 40), eps = 1, limit = 9)
stopifnot(one$interval[["low"]] < one$value, one$value < one$interval[["high"]])
stopifnot(grepl("^Proved: If one row of meters.csv", one$promise), one$epsilon_spent == 1)
again <- veilsum_ask("mean", "kwh", "meters.csv", between = c(0, 40), eps = 1)
stopifnot(again$stored, again$value == one$value)
bins <- veilsum_ask("histogram", "kwh", "meters.csv", between = c(-2.5, 40), bins = 4, eps = 2)
stopifnot(length(bins$value) == 4, dim(bins$interval) == c(4, 2), abs(sum(bins$value) - 1) < 1e-9)
stopifnot(names(bins$value)[1] == "-2.5 to 8.125")
some <- veilsum_ask("mean", "kwh", "meters.csv", between = c(0, 40), eps = 3,
                    where = list(region = c("north", "west")), anyway = TRUE)
stopifnot(is.null(some$records), grepl("region north or west", some$title))
wrong <- tryCatch(veilsum_ask("mean", "kvh", "meters.csv", between = c(0, 40), eps = 1),
                  error = conditionMessage)
stopifnot(grepl("did you mean kwh?", wrong, fixed = TRUE))
spent <- tryCatch(veilsum_ask("mean", "kwh", "meters.csv", between = c(0, 40), eps = 8),
                  error = conditionMessage)
stopifnot(grepl("budget", spent))
cat("all of R is well\\n")
"""


def test_one_function_of_r(tmp_path: Path) -> None:
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.skip("Rscript is not there: install r-base-core and r-cran-jsonlite")
    for name in ("veilsum.R", "meters.csv"):
        shutil.copy(FILES / name, tmp_path)
    command = tmp_path / "command"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m veilsum.cli "$@"\n')
    command.chmod(0o700)
    (tmp_path / "script.R").write_text(SCRIPT)
    done = subprocess.run(
        [rscript, "--vanilla", "script.R"], cwd=tmp_path, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "all of R is well" in done.stdout
