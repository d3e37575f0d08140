"""From results to tables: rows of plain numbers, which become the CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LOW, HIGH = 0.1, 0.9  # quantiles of the replicas that a band shows


def frame(rows: Sequence[dict[str, Any]]) -> Any:
    """Rows as a pandas DataFrame."""
    import pandas as pd

    return pd.DataFrame(rows)


def error_rows(result: Any, **labels: Any) -> list[dict[str, Any]]:
    """Final errors of a result: a row per epsilon, mean over replicas, with the band of CoP."""
    trace = result.trace
    apart = float(trace.decentralisation[-1].mean())
    rows = []
    for k, epsilon in enumerate(result.problem.budgets):
        total, privacy = trace.total[-1, k], trace.privacy[-1, k]
        low, high = np.quantile(privacy, [LOW, HIGH])
        rows.append(
            {
                **labels, "law": result.problem.law.name, "protects": result.problem.want.protects,
                "rounds": result.problem.rounds, "replicas": result.problem.replicas,
                "epsilon": epsilon, "te": total.mean(), "cop": privacy.mean(), "cod": apart,
                "cop_low": low, "cop_high": high,
                "promise": str(result.guarantee_of(epsilon).status),
            }
        )  # fmt: skip
    return rows


def round_rows(result: Any, **labels: Any) -> list[dict[str, Any]]:
    """Errors of a result over rounds at its first epsilon: mean and band of the replicas."""
    trace = result.trace
    kinds = {"cod": trace.decentralisation}
    if result.problem.budgets:
        kinds |= {"te": trace.total[:, 0], "cop": trace.privacy[:, 0]}
    rows = []
    for t in range(len(trace.total)):
        row = {**labels, "round": t}
        for name, values in kinds.items():
            low, high = np.quantile(values[t], [LOW, HIGH])
            row |= {name: values[t].mean(), f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    return rows


def path_rows(result: Any, **labels: Any) -> list[dict[str, Any]]:
    """Estimates of the recorded agents: first epsilon, first replica.

    Those of measured signals without noise stay out: they are drawn nowhere either.
    """
    trace, names = result.trace, result.problem.network.labels
    rows = range(len(names)) if isinstance(trace.rows, slice) else trace.rows
    made = []
    for k, t in enumerate(trace.kept):
        for j, agent in enumerate(rows):
            row = {**labels, "round": t, "agent": names[agent], "target": trace.target[0, 0]}
            if result.problem.budgets:
                row["private"] = trace.private[k, j, 0, 0, 0]
            if not result.problem.source.measured:
                row["clean"] = trace.clean[k, j, 0, 0]
            made.append(row)
    return made


def value(table: Any, column: str, method: str, algorithm: str, epsilon: float) -> float:
    """One number of a sweep's table."""
    at = (table.method == method) & (table.algorithm == algorithm)
    found = table[at & np.isclose(table.epsilon, epsilon)]
    return float(found[column].iloc[0])


def expected_columns(found: Any, rounds: slice | int) -> dict[str, Any]:
    """Expected errors at the first epsilon, against what a run measures and against E xi."""
    from murmura.paper.expected import truth

    clean, private = truth(found)
    return {
        "te": found.total[rounds, 0], "cop": found.privacy[rounds, 0],
        "cod": found.decentralisation[rounds], "truth": private[rounds, 0],
        "truth_clean": clean[rounds],
    }  # fmt: skip


def expected_rounds(found: Any, **labels: Any) -> list[dict[str, Any]]:
    """Expected errors over rounds at the first epsilon."""
    columns = expected_columns(found, slice(None))
    rounds = range(len(found.total))
    return [{**labels, "round": t, **{k: v[t] for k, v in columns.items()}} for t in rounds]


def last(table: Any, column: str, variant: str) -> float:
    """A variant's number in the last round of a table over rounds."""
    part = table[table.variant == variant]
    return float(part.loc[part["round"].idxmax(), column])
