"""The generated parts of docs/compared.md: code beside code, error beside error.

Noise is drawn anew each time, so that errors are measured by `python docs/generate.py --compared` and kept
in docs/compared.json. All releases are read the same way before they are compared: shares are projected on
the simplex, which whoever holds a release may do.
"""

from __future__ import annotations

import ast
import inspect
import json
import math
import os
import re
import tempfile
import textwrap
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from docs.masked_tables import table

from docs import compared_code

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs" / "compared.json"
LIBRARIES = ("veilsum", "opendp", "diffprivlib")
NAMES = {"veilsum": "veilsum", "opendp": "OpenDP", "diffprivlib": "diffprivlib"}
REPLICAS = 400
EXTENSION = "privacy"  # of DuckDB's community


def rms(errors: Any) -> float:
    """Over replicas, and components where there are several."""
    return float(np.sqrt(np.mean(np.square(np.asarray(errors, dtype=float)))))


def count_error(found: Any, rows: Any) -> float:
    """In records."""
    return rms(found - (rows["region"] == "a").sum())


def mean_error(found: Any, rows: Any) -> float:
    """In kWh."""
    return rms(found - rows["kwh"].mean())


def histogram_error(found: Any, rows: Any) -> float:
    """Of a share, in percentage points, after the same projection for all."""
    from veilsum.questions.histograms import projected

    counts, _ = np.histogram(rows["kwh"], compared_code.BINS, (0, 40))
    return 100 * rms([projected(one) - counts / counts.sum() for one in found])


def median_error(found: Any, rows: Any) -> float:
    """Of the rank, in percent of all records."""
    ranks = np.searchsorted(np.sort(rows["kwh"]), found) / len(rows["kwh"])
    return 100 * rms(ranks - 0.5)


def groups_error(found: Any, rows: Any) -> float:
    """In kWh, over all groups."""
    truth = [rows["kwh"][rows["region"] == g].mean() for g in compared_code.REGIONS]
    return rms(found - np.array(truth))


QUESTIONS: dict[str, tuple[str, str, Callable[[Any, Any], float]]] = {
    "count": ("Count under a filter", "records", count_error),
    "mean": ("Mean", "kWh", mean_error),
    "histogram": ("Histogram, 20 bins", "percentage points of a share", histogram_error),
    "median": ("Median", "percent of rank", median_error),
    "groups": ("Means of 5 groups", "kWh", groups_error),
}


def answers(library: str, question: str, replicas: int, rows: Any) -> Any:
    """Of so many releases."""
    ask = getattr(compared_code, f"{library}_{question}")
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, {"VEILSUM_HOME": folder}),  # where budgets are found again
    ):
        kept = {"budget": Path(folder) / "rows.budget", "limit": 1e6, "fresh": True}
        known = {"rows": rows, "kept": kept, **rows}
        given = {name: known[name] for name in inspect.signature(ask).parameters}
        return np.array([ask(**given) for _ in range(replicas)])


def measure(replicas: int = REPLICAS) -> dict[str, Any]:
    """Errors of all, and what they were measured with."""
    rows = compared_code.households()
    errors = {
        question: {
            library: error(answers(library, question, replicas, rows), rows)
            for library in LIBRARIES
        }
        for question, (_, _, error) in QUESTIONS.items()
    }
    versions = {library: version(library) for library in LIBRARIES[1:]} | {
        "duckdb": version("duckdb")
    }
    return {"replicas": replicas, "versions": versions, "extension": extension(), "errors": errors}


def extension() -> str:
    """Whether DuckDB's extension can be installed: "" or why not."""
    import duckdb

    try:
        with duckdb.connect() as base:
            base.execute(f"install {EXTENSION} from community")
    except duckdb.Error as error:
        return type(error).__name__
    return ""


def renew() -> None:
    """Measure and keep."""
    KEPT.write_text(json.dumps(measure(), indent=1) + "\n")


def kept() -> dict[str, Any]:
    """What was measured last."""
    found: dict[str, Any] = json.loads(KEPT.read_text())
    return found


def compared_errors() -> str:
    """Error beside error."""
    found = kept()
    rows = [
        [title, *(f"{found['errors'][name][library]:.3g}" for library in LIBRARIES), unit]
        for name, (title, unit, _) in QUESTIONS.items()
    ]
    heads = [
        "rms error",
        "veilsum",
        *(f"{NAMES[x]} {found['versions'][x]}" for x in LIBRARIES[1:]),
        "in",
    ]
    known = uncertainty(found["replicas"])
    chance = 3 * math.sqrt(2) * known
    said = (
        f"Over {found['replicas']} releases each. The error of a single number is known to about "
        f"{known:.0%}, so that a difference of {chance:.0%} may be chance in the rows of one number; "
        "those of 20 and 5 numbers are closer."
    )
    return f"{table(heads, rows)}\n\n{textwrap.fill(said, 104)}"


def uncertainty(replicas: int) -> float:
    """Relative deviation of an rms of so many Laplace draws, whose kurtosis is 6."""
    return math.sqrt((6 - 1) / (4 * replicas))


def compared_code_blocks() -> str:
    """Code beside code."""
    parts = []
    for name, (title, _, _) in QUESTIONS.items():
        parts.append(f"### {title}")
        parts += [f"```py\n# {NAMES[x]}\n{body(f'{x}_{name}')}\n```" for x in LIBRARIES]
    return "\n\n".join(parts)


def body(name: str) -> str:
    """The lines of a function, without its name, docstring and imports."""
    text = textwrap.dedent(inspect.getsource(getattr(compared_code, name)))
    (made,) = ast.parse(text).body
    assert isinstance(made, ast.FunctionDef)
    first = next(
        line for line in made.body[1:]
        if not isinstance(line, ast.Import | ast.ImportFrom)
        and "enable_features" not in ast.unparse(line)
    )  # fmt: skip
    lines = textwrap.dedent("\n".join(text.splitlines()[first.lineno - 1 :]))
    return re.sub(r"^return ", "", lines, flags=re.MULTILINE)


def compared_extension() -> str:
    """Whether DuckDB's extension took part."""
    found = kept()
    why = found["extension"]
    said = (
        f"It was not run: `INSTALL {EXTENSION} FROM community` needs a download, which failed where these "
        f"numbers were measured (DuckDB {found['versions']['duckdb']}, {why})."
        if why
        else "It can be installed, and was not measured: its unit is added or removed, not replaced."
    )
    return textwrap.fill(said, 104)


PARTS: tuple[Callable[[], str], ...] = (compared_errors, compared_code_blocks, compared_extension)
