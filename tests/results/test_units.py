"""The unit of signals reaches axes, tables and files, and only numbers that have it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

import veilsum as vs
from tests.front.studies import SEVERAL
from veilsum import families
from veilsum.errors import ScenarioError
from veilsum.front.of_runs import of_runs
from veilsum.front.table import long_table
from veilsum.results import Result, units
from veilsum.scenario import Scenario, run

WITH_UNIT = SEVERAL.replace("sigma = 1.0", 'sigma = 1.0\nunit = "kWh"')


def result_of(family: Any, parameters: dict[str, float], unit: str = "kWh") -> Result:
    request = vs.privacy.SignalDP(1.0)
    made = vs.sweep(parameters, "ring:7", family, request, "average", rounds=30, rng=1).result
    return replace(made, unit=unit)


def test_a_scenario_s_unit_reaches_the_screen_the_page_and_the_table() -> None:
    answers = run(Scenario.parse(WITH_UNIT))
    assert {r.unit for r in answers.results.values()} == {"kWh"}
    assert {row.unit for row in long_table(answers)} == {"kWh"}
    for row in answers.rows:
        assert row.cells["error"].endswith(" kWh")
        assert f"{row.cells['error']} " in str(answers)
    assert " kWh</span>" in answers._repr_html_()
    assert answers.plot().get_ylabel() == "error of one agent (kWh)"
    plain = run(Scenario.parse(SEVERAL))
    assert {row.unit for row in long_table(plain)} == {""}
    assert "kWh" not in str(plain)


def test_only_what_is_a_mean_of_signals_has_their_unit() -> None:
    normal = result_of(vs.families.Normal(sigma=1.0), {"mu": 3.0})
    assert (units.of_statistic(normal), units.of_parameter(normal, "mu")) == ("kWh", "kWh")
    waiting = result_of(vs.families.Exponential(bounds=(0.0, 9.0)), {"rate": 1.0})
    assert (units.of_statistic(waiting), units.of_parameter(waiting, "rate")) == ("kWh", "")
    logarithm = result_of(vs.families.LogNormal1p(sigma=1.0), {"mu": 1.0})
    assert (units.of_statistic(logarithm), units.of_parameter(logarithm, "mu")) == ("", "")


def test_a_dollar_is_drawn_as_it_is() -> None:
    result = result_of(vs.families.Normal(sigma=1.0), {"mu": 3.0}, unit="$/h$")
    axes = of_runs({"run": result}).plot()
    axes.figure.canvas.draw()
    assert r"(\$/h\$)" in axes.get_ylabel()


@pytest.mark.parametrize("unit", ['""', '" kWh"', '"a\\nb"', f'"{"k" * 25}"', "3"])
def test_a_unit_is_a_short_printable_word(unit: str) -> None:
    with pytest.raises(ScenarioError, match=r"family\.unit.*a unit such as"):
        Scenario.parse(WITH_UNIT.replace('"kWh"', unit))


def test_a_variant_with_another_family_keeps_the_unit() -> None:
    text = (
        WITH_UNIT + '[[variant]]\nname = "log"\nfamily = { name = "log-normal-1p", sigma = 1.0 }\n'
    )
    text += "signals.draw = { mu = 1.0 }\n"
    assert Scenario.parse(text).variants[-1].family.unit == "kWh"


@pytest.mark.parametrize(
    ("value", "width", "said"),
    [(9.99863, 0.0026, "9.9986"), (5.3642, 0.96, "5.36"), (1234.5, 300.0, "1234"), (0.5, 0.0, "0.5"),
     (3.0, math.inf, "3"), (2.5e8, 1.0, "2.5e+08")],
)  # fmt: skip
def test_a_number_has_the_digits_that_its_interval_supports(
    value: float, width: float, said: str
) -> None:
    assert units.rounded(value, width) == said


def test_ends_of_a_narrow_interval_differ() -> None:
    assert units.interval(9.9986, 10.0003) == "9.9986 to 10.0003"


def test_an_estimate_has_the_unit_of_its_signals_only_if_it_is_their_mean() -> None:
    assert units.of_family("kWh", families.Normal(sigma=1.0)) == "kWh"
    assert units.of_family("kWh", families.LogNormal1p(sigma=1.0)) == ""
