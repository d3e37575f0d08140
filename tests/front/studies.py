"""Studies whose sheets are looked at: drawn signals, measured ones, vectors, a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from veilsum.cli.app import app

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DRAWN = """\
name = "small"
title = "A small ring"
seed = 3
replicas = 2
[network]
graph = "ring:7"
[family]
name = "normal"
sigma = 1.0
[signals]
draw = { mu = 3.0 }
[privacy]
protect = "signal"
epsilon = 1.0
[algorithm]
name = "average"
rounds = 5
"""
SEVERAL = f"""{DRAWN}
[[variant]]
name = "private"
[[variant]]
name = "sweep"
privacy.epsilon = [0.5, 2.0]
[[variant]]
name = "open"
privacy.protect = "nothing"
"""
GROUPS = f"""{DRAWN}
[[variant]]
name = "weak"
privacy.epsilon = 0.25
[[variant]]
name = "good"
privacy.epsilon = 4.0
[[variant]]
name = "stream"
algorithm.name = "learn"
[[variant]]
name = "published"
family = {{ name = "log-normal", sigma = 1.0 }}
signals.draw = {{ mu = 3.0 }}
privacy = {{ sensitivity = "smooth-as-published", delta = 0.01 }}
[[variant]]
name = "open"
privacy.protect = "nothing"
"""
MEASURED = """\
name = "meters"
title = "Seven meters"
{seed}
[network]
graph = "ring:7"
[family]
name = "normal"
sigma = 1.0
bounds = [0.0, 9.0]
unit = "kWh"
[signals]
file = "readings.csv"
[privacy]
protect = "signal"
epsilon = 1.0
[algorithm]
name = "average"
rounds = 5
"""
READINGS = np.array([0.53217, 1.58213, 2.51871, 3.59341, 4.51937, 5.57193, 6.53791])
VECTOR = """\
name = "votes"
seed = 3
[network]
graph = "ring:9"
[family]
name = "categorical"
categories = {categories}
[signals]
draw = {{ p = {shares} }}
[privacy]
protect = "signal"
epsilon = 4.0
[algorithm]
name = "average"
rounds = 30
"""


def vector(categories: int) -> str:
    """A study of shares that fall from the first category on."""
    weights = np.arange(categories, 0, -1.0)
    return VECTOR.format(categories=categories, shares=(weights / weights.sum()).round(12).tolist())


def many(variants: int) -> str:
    """A study with that many variants."""
    return DRAWN + "".join(f'[[variant]]\nname = "variant-{k:03}"\n' for k in range(variants))


def study(folder: Path, text: str = DRAWN, name: str = "s.toml", seed: str = "") -> Path:
    """The study's file, with the readings beside it."""
    rows = "".join(f"{k},{float(value)!r}\n" for k, value in enumerate(READINGS))
    (folder / "readings.csv").write_text(f"agent,value\n{rows}")
    (folder / name).write_text(text.replace("{seed}", seed))
    return folder / name


def call(*words: object, **more: Any) -> Any:
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(word) for word in words], **more)
