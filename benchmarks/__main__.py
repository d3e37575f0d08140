"""Run every benchmark, print the ratios and write them to benchmarks/results.json."""

import json
import os
import platform
from pathlib import Path

from benchmarks import build, cold, exact_noise, large, memory, noise, rounds, sweep

HERE = Path(__file__).parent


def main() -> None:
    parts = (sweep, rounds, noise, build, large, memory, cold, exact_noise)
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


if __name__ == "__main__":
    main()
