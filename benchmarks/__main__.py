"""Run every benchmark, print the ratios and write them to benchmarks/results.json."""

import json
import platform
from pathlib import Path

from benchmarks import memory, one_round, sweep

HERE = Path(__file__).parent


def main() -> None:
    rows = [*sweep.measure(), *one_round.measure(), *memory.measure()]
    width = max(len(row["what"]) for row in rows)
    print(f"\n{'what':<{width}}  {'measured':>10}  {'target':>10}  met")
    for row in rows:
        met = "yes" if row["met"] else "NO"
        print(f"{row['what']:<{width}}  {row['measured']:>10.4g}  {row['target']:>10}  {met}")
        print(f"{'':<{width}}  {row['detail']}")
    report = {"machine": platform.processor() or platform.machine(), "rows": rows}
    (HERE / "results.json").write_text(json.dumps(report, indent=2) + "\n")
    print(f"\nwritten to {HERE.name}/results.json")


if __name__ == "__main__":
    main()
