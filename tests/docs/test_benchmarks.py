"""What benchmarks divide by and what they say: the yardstick, the peers, the missed targets, growth."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from benchmarks import growth, peers, triad
from benchmarks.__main__ import missed
from benchmarks.rounds import MEAN, NOISY, moved
from veilsum.simulation.workers import Workers


def test_every_triad_is_computed(monkeypatch: Any) -> None:
    """The closures compute a = b + 3 c, on all threads."""
    monkeypatch.setattr(triad, "COUNT", 1001)
    made: list[Any] = []

    def ones(count: int) -> Any:
        made.append(np.full(count, float(len(made))))
        return made[-1]

    monkeypatch.setattr(np, "ones", ones)
    with Workers(2) as workers:
        found = triad.triads(workers)
        assert triad.NUMBA in found
        for run in found.values():
            made[0][:] = -1.0
            run()
            assert (made[0] == 1.0 + 3.0 * 2.0).all()


def test_the_faster_triad_is_the_limit() -> None:
    rate, said = triad.limit({triad.C: 1.0, triad.NUMBA: 2.0, "ours": 0.1})
    assert rate == triad.BYTES
    assert triad.C in said
    assert triad.NUMBA in said
    rate, said = triad.limit({triad.NUMBA: 2.0})
    assert rate == triad.BYTES / 2
    assert "no C compiler" in said


def test_products_of_others_are_those_of_scipy_and_what_is_missing_is_named() -> None:
    matrix = csr_array(np.eye(12) + np.diag(np.ones(11), 1))
    found = peers.products(matrix)
    assert peers.SCIPY in found
    for multiply in found.values():
        multiply()
    for name, command in peers.INSTALL.items():
        assert (name in found) != (f"{name} is not installed ({command})" in peers.missing(found))


def test_bytes_of_a_round() -> None:
    matrix = csr_array(np.eye(10))
    assert moved(matrix, 1, MEAN) == 12 * 10 + 16 * 10
    assert moved(matrix, 2, NOISY) == 12 * 10 + 10 * (32 + 8 + 28)


def test_missed_targets_are_listed_with_their_reason() -> None:
    rows: list[dict[str, Any]] = [
        {"what": "quick", "measured": 2.0, "target": ">= 1", "met": True},
        {"what": "slow", "measured": 0.5, "target": ">= 1", "met": False, "why": "it is heavy"},
        {"what": "odd", "measured": 0.25, "target": ">= 1", "met": False},
    ]
    assert missed(rows) == [
        "2 of 3 targets are missed:",
        "- slow: 0.5, target >= 1: it is heavy",
        "- odd: 0.25, target >= 1: no reason is known",
    ]
    assert missed(rows[:1]) == ["all 1 targets are met"]


def test_slopes_and_jumps() -> None:
    points = [{"agents": 10**k, "seconds": 1e-9 * 10 ** (1.5 * k)} for k in range(4, 8)]
    assert growth.slope(points, "agents") == pytest.approx(1.5)
    point = {"nanoseconds": 1.0, "path": "tiles, 8 rounds a pass", "state": 1e5}
    assert growth.reason(point, {**point, "nanoseconds": 1.5}) == ""
    dear = {**point, "nanoseconds": 2.0}
    assert growth.reason(point, dear) == "NOT EXPLAINED"
    other = {**dear, "path": "one round at a time"}
    assert growth.reason(point, other) == "tiles, 8 rounds a pass before, one round at a time now"
    assert "leave the last cache" in growth.reason(point, {**dear, "state": 1e9})


def test_all_sizes_are_covered_once() -> None:
    cases = growth.cases()
    assert len(cases) == 2 * sum(len(values) for values in growth.SERIES.values())
    assert {c["agents"] for c in cases} >= {10**4, 10**7}
    assert {c["degree"] for c in cases} >= {2, 64}
    assert {c["runs"] for c in cases} >= {1, 512}
    assert {c["graph"] for c in cases} == {"random geometric", "power law"}


ROOT = Path(__file__).resolve().parents[2]


def test_the_baseline_of_the_fleet_is_complete() -> None:
    """All that `make bench-agents` and `make soak` measure, of one commit and one machine."""
    kept = json.loads((ROOT / "benchmarks" / "fleet-baseline.json").read_text())
    assert re.fullmatch(r"[0-9a-f]{40}", kept["commit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", kept["date"])
    assert all(kept[name] for name in ("machine", "conditions"))
    rows = json.loads((ROOT / "benchmarks" / "agents.json").read_text())["rows"]
    assert [row["what"] for row in kept["agents"]] == [row["what"] for row in rows]
    for row in kept["agents"]:
        assert set(row) == {"what", "measured", "target", "met", "detail"}
        assert np.isfinite(row["measured"])
    soak = json.loads((ROOT / "tests" / "soak" / "soak.json").read_text())
    for part in ("year", "sockets"):
        assert list(kept["soak"][part]) == list(soak[part])
        assert all(np.isfinite(value) for value in kept["soak"][part].values())
    assert kept["soak"]["year"]["readings lost"] == 0
