"""A small scenario that every test of scenarios starts from."""

from __future__ import annotations

BASE = """\
name = "small"
seed = 3
replicas = 2

[network]
graph = "ring:7"
weights = "metropolis"

[family]
name = "log-normal"
sigma = 1.0
bounds = [1.0, inf]

[signals]
draw = { mu = 3.0 }

[privacy]
protect = "signal"
epsilon = 1.0

[algorithm]
name = "average"
rounds = 5

[record]
every = 1
agents = 3
"""


def edited(old: str, new: str, text: str = BASE) -> str:
    """The base with one change, which must apply."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


def line_of(part: str, text: str) -> int:
    """The line, from 1, on which a part of a text stands."""
    return text[: text.index(part)].count("\n") + 1
