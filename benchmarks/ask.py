"""Asking of large tables, beside the same question in plain DuckDB; and what a shell waits for.

`python -m benchmarks.ask --rows 1000000` is quick. Rows are drawn in chunks and written to a temporary
Parquet file: kwh (three decimals), region (8 texts), person (100 rows each).

ask        the whole answer: one pass, one exact draw, charged and kept, of a file whose budget is there
DuckDB     plain AVG, COUNT and GROUP BY: no noise, no bounds but those of the last bins

Both run in one child process, in turn; the control enters DuckDB's query twice, so that a ratio below
the control's distance from 1 means nothing. Peak memory is that of a child that only asks.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.clock import race, row
from benchmarks.memory import PEAK

ROWS = 100_000_000
CHUNK = 1_000_000
REGIONS = tuple(f"region-{k}" for k in range(8))
HIGH, BINS = 40.0, 20
TURNS, SHELL_TURNS = 5, 11
TIMES, GIB, SECONDS = 2.0, 1.0, 0.3  # targets
SMALL = 1_000  # rows that a shell asks of

BIN = f"least({BINS - 1}, cast(floor(greatest(kwh, 0) * {BINS} / {HIGH:g}) as integer))"
SQL = {
    "mean": "select avg(kwh) from '{}'",
    "histogram by group": f"select region, {BIN} as bin, count(*) from '{{}}' group by region, bin",
    "mean by id": "select avg(mean) from (select avg(kwh) as mean from '{}' group by person)",
}
RATIO = "`ask`, {name}, {rows:.0e} Parquet rows: times DuckDB"
MEMORY = "`ask`, {name}, {rows:.0e} rows: peak memory, GiB"
SHELL = f"`veilsum ask mean` of {SMALL:,} rows from the shell, seconds"
EXPECTED = (
    *(title.format(name=name, rows=ROWS) for name in SQL for title in (RATIO, MEMORY)),
    SHELL,
)  # rows of the page, which says of those that are missing that they were not measured


def write(path: Path, rows: int) -> None:
    """The table, a chunk at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    names = pa.array(REGIONS)
    writer = None
    for start in range(0, rows, CHUNK):
        count = min(CHUNK, rows - start)
        rng = np.random.default_rng(start)
        places = pa.array(rng.integers(0, len(REGIONS), count, dtype=np.int32))
        chunk = pa.table({
            "kwh": np.round(rng.gamma(4.0, 3.0, count), 3),
            "region": pa.DictionaryArray.from_arrays(places, names).cast(pa.string()),
            "person": rng.integers(0, max(1, rows // 100), count),
        })  # fmt: skip
        writer = writer or parquet.ParquetWriter(path, chunk.schema)
        writer.write_table(chunk)
    if writer is not None:
        writer.close()


def question(name: str) -> tuple[Any, dict[str, Any]]:
    """What is asked, and how."""
    from veilsum import questions

    if name == "histogram by group":
        asked = questions.QUESTIONS["histogram"].make("kwh", between=(0.0, HIGH), bins=BINS)
        return asked, {"by": questions.Category("region", REGIONS)}
    asked = questions.QUESTIONS["mean"].make("kwh", between=(0.0, HIGH))
    return asked, {"id": "person"} if name == "mean by id" else {}


def asking(name: str, path: Path) -> Callable[[], Any]:
    """An answer of its own at each call, charged to the file's budget, which is large enough."""
    from veilsum.asking import ask

    asked, how = question(name)
    terms: dict[str, Any] = {"epsilon": 1.0, "limit": 1e4, "fresh": True}
    return lambda: ask(path, asked, **terms, **how)


def child(work: str, name: str, path: Path) -> Any:
    """In a process of its own: `race` gives seconds, `peak` GiB, `profile` prints where time goes."""
    ours = asking(name, path)
    if work == "peak":
        ours()
        scope: dict[str, Any] = {}
        exec(PEAK, scope)
        return scope["peak"]()
    if work == "profile":
        return _profiled(ours)
    import duckdb

    base = duckdb.connect()
    sql = SQL[name].format(path)

    def theirs() -> Any:
        return base.execute(sql).fetchall()

    began = time.perf_counter()
    ours()
    first = time.perf_counter() - began
    took = race({"ask": ours, "DuckDB": theirs, "control": theirs}, TURNS)
    return {"first": first, "processor": processor(ours) / processor(theirs)} | took


def processor(work: Callable[[], Any]) -> float:
    """Processor seconds of all threads: what a busy machine disturbs less."""
    found = []
    for _ in range(TURNS):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def _profiled(work: Callable[[], Any]) -> None:
    import cProfile
    import pstats

    work()
    with cProfile.Profile() as profile:
        work()
    pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(25)


def run(work: str, name: str, path: Path) -> Any:
    """The child's answer, in a home of its own: the fingerprint of the file is not known there."""
    for known in path.parent.glob("budgets.sqlite*"):
        known.unlink()
    command = [sys.executable, "-m", "benchmarks.ask", "--child", work, name, str(path)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, text=True, env=_homed(path.parent)
    )
    return json.loads(done.stdout)


def _homed(folder: Path) -> dict[str, str]:
    """The environment, with budgets found again in this folder alone, and compiled modules kept there."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"VEILSUM_HOME": str(folder), "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


def large(rows: int) -> Iterator[Any]:
    """Ratios to DuckDB, and peak memory, of each question."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write(path, rows)
        for name in SQL:
            took = run("race", name, path)
            ratio = took["ask"] / took["DuckDB"]
            control = took["control"] / took["DuckDB"]
            yield row(
                RATIO.format(name=name, rows=rows), ratio, f"<= {TIMES:g}",
                ratio <= TIMES,
                f"{took['ask']:.2f} s against {took['DuckDB']:.2f} s, control {control:.2f}, processor time "
                f"{took['processor']:.2f}; the first question of a file, with the fingerprint of "
                f"all columns, {took['first']:.1f} s",
            )  # fmt: skip
            peak = run("peak", name, path)
            yield row(
                MEMORY.format(name=name, rows=rows), peak, f"< {GIB:g}", peak < GIB,
                "a process that only asks",
            )  # fmt: skip


def shell() -> Iterator[Any]:
    """Wall time of a question on a small CSV file from the shell, beside a bare interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        lines = "".join(f"{k},{5 + (k * 37 % 101) / 10:.1f}\n" for k in range(SMALL))
        (Path(folder) / "households.csv").write_text("household,kwh\n" + lines)
        ask = ["-m", "veilsum.cli", "ask", "mean", "kwh", "households.csv", "--between", "0", "40",
               "--eps", "1", "--limit", "1000", "--fresh"]  # fmt: skip
        commands = {"ask": ask, "bare": ["-c", "pass"], "control": ["-c", "pass"]}
        found: dict[str, list[float]] = {name: [] for name in commands}
        for turn in range(SHELL_TURNS + 1):
            for name, command in commands.items():
                began = time.perf_counter()
                subprocess.run(
                    [sys.executable, *command],
                    cwd=folder,
                    check=True,
                    stdout=subprocess.DEVNULL,
                    env=_homed(Path(folder)),
                )
                if turn:
                    found[name].append(time.perf_counter() - began)
        took = {name: statistics.median(times) for name, times in found.items()}
    yield row(
        SHELL, took["ask"], f"< {SECONDS:g}",
        took["ask"] < SECONDS,
        f"{took['ask'] / took['bare']:.1f} times `python -c pass` ({took['bare'] * 1e3:.0f} ms, control "
        f"{took['control'] / took['bare']:.2f})",
    )  # fmt: skip


def measure(rows: int = ROWS) -> Iterator[Any]:
    """All rows of the table."""
    yield from large(rows)
    yield from shell()


def main() -> None:
    """Print the rows; with `--child` be one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ask", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--child", nargs=3, metavar=("WORK", "QUESTION", "PATH"))
    parser.add_argument("--profile", choices=list(SQL), help="where the time of one question goes")
    given = parser.parse_args()
    if given.child:
        work, name, path = given.child
        print(json.dumps(child(work, name, Path(path))))
        return
    if given.profile:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            write(path, given.rows)
            run("profile", given.profile, path)
        return
    for one in measure(given.rows):
        print(one)


if __name__ == "__main__":
    main()
