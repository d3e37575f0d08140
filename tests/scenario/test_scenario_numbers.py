"""Numbers out of range and values of the wrong shape: each a ScenarioError with its line."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scenario_texts import BASE, edited, line_of
from veilsum.errors import ScenarioError
from veilsum.scenario import Scenario

HUGE = "1" + "0" * 400
SHAPE = "a value has the wrong shape"
FAMILY = """\
name = "log-normal"
sigma = 1.0
bounds = [1.0, inf]

[signals]
draw = { mu = 3.0 }
"""


def family(text: str, draw: str) -> tuple[str, str]:
    return FAMILY, f"{text}\n[signals]\ndraw = {draw}\n"


# (what stands in the base, what takes its place, the line is that of, part of the message)
WRONG = [
    ("epsilon = 1.0", f"epsilon = {HUGE}", "epsilon =", "privacy.epsilon: found 1000"),
    ("epsilon = 1.0", f"epsilon = 1.0\nradius = {HUGE}", "radius =", "privacy.radius: found 1000"),
    ("sigma = 1.0", f"sigma = {HUGE}", "sigma =", "none beyond 1e308"),
    ("mu = 3.0", f"mu = {HUGE}", "draw =", "signals.draw.mu: found 1000"),
    ("draw = { mu = 3.0 }", f'file = "x.csv"\nmissing = {HUGE}', "missing =", "signals.missing"),
    ("draw = { mu = 3.0 }", f'file = "x.csv"\nclip = [0, {HUGE}]', "clip =", "[low, high]"),
    ('name = "average"', 'name = "jacobi"\ndimension = 1e300', "dimension =", "too large"),
    ('name = "average"', 'name = "jacobi"\ndimension = 1e120', "dimension =", "too large"),
    ('name = "average"', 'name = "jacobi"\ndimension = [1]', "dimension =", "dimension must be"),
    ("sigma = 1.0", "sigma = [1.0]", "sigma =", "sigma must be a finite number above 0; found a"),
    ("mu = 3.0", "mu = [1, 2]", "draw =", SHAPE),
    ("agents = 3", "agents = [true]", "agents =", "or a list of agents"),
    ("agents = 3", "agents = [1.5]", "agents =", "or a list of agents"),
    (*family('name = "categorical"\ncategories = 3.0', "{ p = [0.2, 0.8] }"), "categories =",
     "family.categories: categories must be a whole number of at least 2; found 3.0; write 3"),
    (*family('name = "multivariate-normal"\nsigma = [[1, 0], [1]]', "{ mu = [1, 2] }"), "sigma =",
     "rows of equal length"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "at", "part"), WRONG)
def test_a_number_out_of_range_is_one_line(old: Any, new: Any, at: Any, part: Any) -> None:
    text = edited(old, new)
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(text, "us.toml")
    message = str(caught.value)
    assert message.startswith(f"us.toml, line {line_of(at, text)}: ")
    assert part in message
    assert "\n" not in message


# What shows when a scenario is built, and nothing later.
BUILT = [
    ("ring:7", "ring:5.0", "graph =", "found 5.0; write 5"),
    ("ring:7", "ring:1e400", "graph =", "found inf"),
    ("ring:7", "hypercube:63", "graph =", "dimension must be at most 24; found 63"),
    ("ring:7", "random-regular:4,2.0", "graph =", "degree must be a whole number"),
    ('"ring:7"', '"ring"\noptions = { size = inf }', "options =", "size must be a whole number"),
    ('"ring:7"', '"ring"\noptions = { size = [7] }', "options =", "size must be a whole number"),
    ("epsilon = 1.0", "epsilon = 1e-310", "epsilon =", "noise of a scale beyond 1e+100"),
    ("epsilon = 1.0", "epsilon = [1.0, 1e-200]", "epsilon =", "found 1e-200; with radius = 1.0"),
    (*family('name = "normal"\nsigma = 1.0', "{ mu = 3.0 }"), "epsilon =", "with radius = 1e+300"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "at", "part"), BUILT)
def test_what_cannot_be_computed_is_refused_when_built(
    old: Any, new: Any, at: Any, part: Any
) -> None:
    text = edited(old, new)
    if "radius" in part and "epsilon = 1.0" in text:
        text = edited("epsilon = 1.0", "epsilon = 1.0\nradius = 1e300", text)
    scenario = Scenario.parse(text, "us.toml")
    with pytest.raises(ScenarioError) as caught:
        scenario.build()
    assert str(caught.value).startswith(f"us.toml, line {line_of(at, text)}: ")
    assert part in str(caught.value)


def test_little_budget_is_allowed_while_it_can_be_computed() -> None:
    Scenario.parse(edited("epsilon = 1.0", "epsilon = 1e-90")).build()


def test_a_number_of_thousands_of_digits() -> None:
    with pytest.raises(ScenarioError, match=r"us\.toml: a whole number has too many digits"):
        Scenario.parse(edited("seed = 3", "seed = 1" + "0" * 5000), "us.toml")


def test_a_byte_order_mark_is_read_over(tmp_path: Any) -> None:
    file = tmp_path / "windows.toml"
    file.write_bytes(b"\xef\xbb\xbf" + BASE.encode())
    assert Scenario.load(file).name == "small"
