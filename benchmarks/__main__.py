"""Run every benchmark, print the ratios and write them to benchmarks/results.json."""

import json
import os
import platform
from pathlib import Path
from typing import Any

from benchmarks import (
    ask,
    build,
    cold,
    exact_noise,
    fleet,
    fleet_sums,
    front,
    large,
    memory,
    noise,
    plan,
    rounds,
    secure_sum,
    startup,
    sweep,
)

HERE = Path(__file__).parent


def main() -> None:
    parts = (
        front,
        sweep,
        rounds,
        noise,
        build,
        large,
        memory,
        cold,
        startup,
        plan,
        exact_noise,
        ask,
        secure_sum,
        fleet,
        fleet_sums,
    )
    rows = [row for part in parts for row in part.measure()]
    width = max(len(row["what"]) for row in rows)
    print(f"\n{'what':<{width}}  {'measured':>10}  {'target':>10}  met")
    for row in rows:
        met = "yes" if row["met"] else "NO"
        print(f"{row['what']:<{width}}  {row['measured']:>10.4g}  {row['target']:>10}  {met}")
        print(f"{'':<{width}}  {row['detail']}")
    for row in rows:
        row.update(measured=float(row["measured"]), met=bool(row["met"]))
    report = {"cores": os.cpu_count(), "machine": platform.machine(), "rows": rows}
    (HERE / "results.json").write_text(json.dumps(report, indent=2) + "\n")
    print(f"\nwritten to {HERE.name}/results.json")
    print("\n".join(missed(rows)))


def missed(rows: list[dict[str, Any]]) -> list[str]:
    """The targets that were missed, by how much, and what limits the figure."""
    behind = [row for row in rows if not row["met"]]
    if not behind:
        return [f"all {len(rows)} targets are met"]
    lines = [f"{len(behind)} of {len(rows)} targets are missed:"]
    for row in behind:
        why = row.get("why") or "no reason is known"
        lines.append(f"- {row['what']}: {row['measured']:.3g}, target {row['target']}: {why}")
    return lines


if __name__ == "__main__":
    main()
