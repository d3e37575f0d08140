"""Questions in words, one at least of each registered kind, and tables that they are asked of."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from veilsum.fleet.question import Asked, FleetQuestion

KWH = {"--between": [["0", "40"]]}
BOTH = {"--between": [["kwh", "0", "40"], ["age", "0", "100"]]}
CODED = {"--events": [["1"]], "--censored": [["0"]]}
REGIONS = [["north,south"]]
ASKS = {
    "cdf": Asked("cdf", ("kwh",), KWH),
    "clipped": Asked("clipped", ("kwh",), KWH),
    "count": Asked("count", ()),
    "distinct": Asked("distinct", ()),
    "heavy-hitters": Asked("heavy-hitters", ("region",), {"--candidates": [["north,south,east"]]}),
    "histogram": Asked("histogram", ("kwh",), {**KWH, "--bins": [["8"]]}),
    "mean": Asked("mean", ("kwh",), KWH),
    "proportion": Asked("proportion", ("region",), {"--values": [["north"]], "--categories": REGIONS}),
    "quantiles": Asked("quantiles", ("kwh",), KWH),
    "regression": Asked("regression", ("kwh", "age"), BOTH),
    "sum": Asked("sum", ("kwh",), KWH),
    "survival": Asked("survival", ("kwh",), {**KWH, "--event": [["died"]], **CODED}),
    "table": Asked("table", ("region", "died"), {"--categories": [["north,south"], ["0,1"]]}),
    "test": Asked("test", ("died",), {"--value": [["1"]], "--null": [["0.5"]], "--alternative": [["0.7"]]}),
    "variance": Asked("variance", ("kwh",), KWH),
}  # fmt: skip
STAGED = Asked(
    "logistic", ("kwh",), {"--outcome": [["died"]], **{"--between": [["kwh", "0", "40"]]}}
)


def question(*asks: Asked, **options: Any) -> FleetQuestion:
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
