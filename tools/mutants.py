"""Mutation testing of the science: change one expression, and see whether a test notices.

    python tools/mutants.py [--count 240] [--seed 1] [--workers 2] [--only PATTERN] [--promise NAME]

Mutants are sampled by promise, as many for each (`PROMISES`), and the score is printed by promise: a
test that is cut for another must leave it as it was.

A mutant changes one comparison, sign, constant, condition, call of min or max, ceil or floor, or
removes one `raise`. It is killed if one of the tests that execute its line fails. Which tests these
are is measured once, by the coverage of each test (`pytest --cov-context=test`); the quickest of
them run first. A mutant that survives is either equivalent (nothing that a caller can see has
changed) or shows a property that no test holds.

mutmut 3.8 was tried first: it does not run under the pytest of requirements-test.lock, and cosmic-ray
runs all tests for each mutant, which takes days here.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
# What people rely on -> where it is decided, as the starts of paths. A file belongs to the first that
# names it.
PROMISES: dict[str, tuple[str, ...]] = {
    "a price is never too low": ("src/veilsum/privacy/accounting",),
    "noise is drawn exactly": ("src/veilsum/privacy/exact", "src/veilsum/privacy/laws"),
    "noise hides what it claims": ("src/veilsum/privacy/mechanisms",),
    "a sensitivity is never too small": (
        "src/veilsum/_statistic.py", "src/veilsum/privacy/sensitivity", "src/veilsum/families",
        "src/veilsum/auditing/lipschitz.py",
    ),
    "a guarantee is true": ("src/veilsum/privacy", "src/veilsum/_numbers.py"),
    "a release is charged once": ("src/veilsum/agents/release", "src/veilsum/agents/ledger"),
    "an error is what theory says": ("src/veilsum/theory",),
    "an audit finds a fault": ("src/veilsum/auditing",),
    "a run is what the algorithm says": ("src/veilsum/simulation", "src/veilsum/algorithms"),
}  # fmt: skip
TARGETS = tuple(sorted({part for parts in PROMISES.values() for part in parts}))
TESTS = (
    "tests/privacy", "tests/families", "tests/algorithms", "tests/theory", "tests/auditing",
    "tests/simulation", "tests/agents/ledger", "tests/test_numbers.py",
)  # fmt: skip
MOST_TESTS = 60  # that run against one mutant, the quickest first
PATIENCE = 120.0  # seconds after which a mutant counts as killed: it does not end

SWAPPED: dict[type[ast.AST], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Pow: "*",
}  # fmt: skip
CALLS = {
    "min": "max", "max": "min", "ceil": "floor", "floor": "ceil", "maximum": "minimum",
    "minimum": "maximum", "any": "all", "all": "any",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One changed expression: the text from `start` to `end` of a file becomes `text`."""

    path: str
    line: int
    start: int
    end: int
    before: str
    text: str

    def __str__(self) -> str:
        """Where, what was there, and what is there now."""
        return f"{self.path}:{self.line}: {self.before!r} -> {self.text!r}"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file."""
    source = path.read_text()
    name = str(path.relative_to(ROOT))
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = source.splitlines()

    def place(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def mutant(node: ast.expr | ast.stmt, text: str) -> Mutant:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = place(node.lineno, node.col_offset)
        end = place(node.end_lineno, node.end_col_offset)
        return Mutant(name, node.lineno, start, end, source[start:end], text)

    for node in _executed(ast.parse(source)):
        for text in _changes(node, source):
            if isinstance(node, ast.expr | ast.stmt):
                yield mutant(node, text)


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but annotations, docstrings, imports for types, and `__all__`."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "bases"):
                continue
            children = value if isinstance(value, list) else [value]
            todo.extend(
                child for child in children if isinstance(child, ast.AST) and not _is_quiet(child)
            )


def _is_quiet(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) in ("__all__", "_WHERE", "_HOMES")
    return isinstance(node, ast.JoinedStr)  # what an error says is read by people


def _changes(node: ast.AST, source: str) -> Iterator[str]:
    """What a node becomes in its mutants."""

    def text(part: ast.AST) -> str:
        return f"({ast.get_source_segment(source, part)})"

    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        swapped = SWAPPED.get(type(node.ops[0]))
        if swapped:
            yield f"({text(node.left)} {swapped} {text(node.comparators[0])})"
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        yield f"({text(node.left)} {SWAPPED[type(node.op)]} {text(node.right)})"
    elif isinstance(node, ast.BoolOp):
        other = " or " if isinstance(node.op, ast.And) else " and "
        yield "(" + other.join(text(value) for value in node.values) + ")"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield text(node.operand)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield repr(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield f"({node.value + 1!r})" if node.value in (0, 1, -1) else f"({2 * node.value!r})"
    elif isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        called = node.func.id if isinstance(node.func, ast.Name) else called
        if called in CALLS:
            whole = ast.get_source_segment(source, node) or ""
            yield whole.replace(f"{called}(", f"{CALLS[called]}(", 1)
    elif isinstance(node, ast.Raise):
        yield "pass"
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp | ast.Call):
        yield f"{ast.unparse(node.targets[0])} = 0"


def tests_by_line(folder: Path) -> dict[tuple[str, int], list[str]]:
    """Which tests execute each line of the targets, the quickest first."""
    command = [
        sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "--durations=0",
        "--durations-min=0", "--cov=src/veilsum", "--cov-context=test",
        "--cov-report=", f"--cov-config={folder / 'coverage.toml'}", *TESTS,
    ]  # fmt: skip
    (folder / "coverage.toml").write_text(f'[tool.coverage.run]\ndata_file = "{folder / "data"}"\n')
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"the tests must pass before anything is mutated:\n{done.stdout[-3000:]}")
    seconds: dict[str, float] = defaultdict(float)
    for line in done.stdout.splitlines():
        parts = line.split()
        if len(parts) >= 3 and parts[0].endswith("s") and "::" in parts[2]:
            seconds[" ".join(parts[2:])] += float(parts[0][:-1])
    import coverage

    data = coverage.CoverageData(str(folder / "data"))
    data.read()
    found: dict[tuple[str, int], list[str]] = {}
    for path in data.measured_files():
        name = str(Path(path).relative_to(ROOT))
        for number, contexts in data.contexts_by_lineno(path).items():
            tests = {context.rpartition("|")[0] for context in contexts if "|" in context}
            found[name, number] = sorted(tests, key=lambda test: seconds[test])
    return found


def survives(mutant: Mutant, tests: list[str], copy: Path) -> bool:
    """Whether all tests pass on the mutated copy."""
    target = copy / mutant.path
    source = (ROOT / mutant.path).read_text()
    target.write_text(source[: mutant.start] + mutant.text + source[mutant.end :])
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [*command, *tests[:MOST_TESTS]], cwd=copy, env=environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        return process.wait(PATIENCE) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False
    finally:
        target.write_text(source)


def promise_of(path: str) -> str:
    """The promise that a file decides about."""
    return next(
        name for name, starts in PROMISES.items() if any(path.startswith(one) for one in starts)
    )


def sampled(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """As many of each promise, in an order that follows from the seed."""
    by_promise: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_promise[promise_of(mutant.path)].append(mutant)
    each = -(-count // len(by_promise)) if count else len(mutants)
    found: list[Mutant] = []
    for name in sorted(by_promise):
        some = by_promise[name]
        found += random.Random(f"{seed} {name}").sample(some, min(each, len(some)))
    return found


def main() -> None:
    """Sample mutants, run the tests that execute them, and print the scores and the survivors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=240, help="mutants to sample; 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="text that a mutant's description contains")
    parser.add_argument("--promise", default="", help="text that a promise's name contains")
    parser.add_argument("--json", type=Path, help="also write the outcome to this file")
    asked = parser.parse_args()
    sources = (ROOT / "src").rglob("*.py")
    files = sorted(path for path in sources if str(path.relative_to(ROOT)).startswith(TARGETS))
    every = [
        mutant
        for path in files
        for mutant in mutants_of(path)
        if asked.only in str(mutant) and asked.promise in promise_of(mutant.path)
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        covered = tests_by_line(folder)
        reached = [mutant for mutant in every if covered.get((mutant.path, mutant.line))]
        sample = sampled(reached, asked.count, asked.seed)
        copies: SimpleQueue[Path] = SimpleQueue()
        for worker in range(asked.workers):
            copy = folder / f"copy{worker}"
            for part in ("src", "tests", "docs", "examples", "benchmarks"):
                shutil.copytree(
                    ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__")
                )
            for part in ("pyproject.toml", "README.md"):
                shutil.copy(ROOT / part, copy / part)
            copies.put(copy)

        def judge(mutant: Mutant) -> bool:
            copy = copies.get()
            try:
                alive = survives(mutant, covered[mutant.path, mutant.line], copy)
            finally:
                copies.put(copy)
            print("SURVIVED" if alive else "killed  ", mutant, flush=True)
            return alive

        with ThreadPoolExecutor(asked.workers) as pool:
            outcome = list(pool.map(judge, sample))
    survivors = [str(mutant) for mutant, alive in zip(sample, outcome, strict=True) if alive]
    tried = Counter(promise_of(mutant.path) for mutant in sample)
    alive = Counter(
        promise_of(mutant.path) for mutant, left in zip(sample, outcome, strict=True) if left
    )
    score = {
        "mutants": len(every), "reached": len(reached), "sampled": len(sample),
        "killed": len(sample) - len(survivors),
        "promises": {name: [tried[name] - alive[name], tried[name]] for name in tried},
        "survivors": survivors,
    }  # fmt: skip
    for name in tried:
        print(f"{tried[name] - alive[name]:>4} of {tried[name]:<4} {name}")
    if asked.json:
        asked.json.write_text(json.dumps(score, indent=1) + "\n")
    print(
        f"{score['killed']} of {len(sample)} sampled mutants killed; {len(every)} mutants, "
        f"{len(every) - len(reached)} of them on lines that no test of {', '.join(TESTS)} executes"
    )


if __name__ == "__main__":
    main()
