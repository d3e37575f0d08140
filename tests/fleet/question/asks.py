"""Questions in words, one at least of each registered kind, and tables that they are asked of."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from veilsum.fleet.question import FleetQuestion, Worded

KWH = {"--between": [["0", "40"]]}
BOTH = {"--between": [["kwh", "0", "40"], ["age", "0", "100"]]}
CODED = {"--events": [["1"]], "--censored": [["0"]]}
REGIONS = [["north,south"]]
ASKS = {
    "cdf": Worded("cdf", ("kwh",), KWH),
    "clipped": Worded("clipped", ("kwh",), KWH),
    "count": Worded("count", ()),
    "distinct": Worded("distinct", ()),
    "heavy-hitters": Worded("heavy-hitters", ("region",), {"--candidates": [["north,south,east"]]}),
    "histogram": Worded("histogram", ("kwh",), {**KWH, "--bins": [["8"]]}),
    "mean": Worded("mean", ("kwh",), KWH),
    "proportion": Worded("proportion", ("region",), {"--values": [["north"]], "--categories": REGIONS}),
    "quantiles": Worded("quantiles", ("kwh",), KWH),
    "regression": Worded("regression", ("kwh", "age"), BOTH),
    "sum": Worded("sum", ("kwh",), KWH),
    "survival": Worded("survival", ("kwh",), {**KWH, "--event": [["died"]], **CODED}),
    "table": Worded("table", ("region", "died"), {"--categories": [["north,south"], ["0,1"]]}),
    "test": Worded("test", ("died",), {"--value": [["1"]], "--null": [["0.5"]], "--alternative": [["0.7"]]}),
    "variance": Worded("variance", ("kwh",), KWH),
}  # fmt: skip
STAGED = Worded(
    "logistic", ("kwh",), {"--outcome": [["died"]], **{"--between": [["kwh", "0", "40"]]}}
)


def question(*asks: Worded, **options: Any) -> FleetQuestion:
    given = {"epsilon": 1.0, "protocol": "pool", **options}
    if any(one.name == "distinct" for one in asks):
        given.setdefault("id", "person")
    if given["protocol"] == "secure-sum":
        given.setdefault("deadline", 1_800_000_000)
    return FleetQuestion(asks=asks or (ASKS["mean"],), **given)


def rows(count: int, seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "kwh": rng.uniform(-5, 50, count),
        "age": rng.integers(0, 100, count),
        "region": rng.choice(np.array(["north", "south"], dtype=object), count),
        "died": rng.choice(np.array(["0", "1"], dtype=object), count),
        "person": np.array(
            [f"p{k}" for k in rng.integers(0, max(count // 2, 1), count)], dtype=object
        ),
    }


def cut(table: dict[str, Any], ends: list[int]) -> list[dict[str, Any]]:
    """The table at sites: any number of rows each, none included."""
    places = [0, *ends, len(table["kwh"])]
    return [{name: values[a:b] for name, values in table.items()} for a, b in pairwise(places)]
