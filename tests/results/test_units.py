"""The unit of signals reaches axes, tables and files, and only numbers that have it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from io import StringIO
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import veilsum as vs
from tests.results.test_writer import SYNTHETIC
from veilsum import families
from veilsum.cli.display import errors_table
from veilsum.errors import ScenarioError
from veilsum.front import paths
from veilsum.results import Result, units
from veilsum.results.run_page import page
from veilsum.results.summary import paragraph, summary
from veilsum.scenario import Scenario, run

WITH_UNIT = SYNTHETIC.replace("sigma = 1.0", 'sigma = 1.0\nunit = "kWh"')


def result_of(family: Any, parameters: dict[str, float], unit: str = "kWh") -> Result:
    request = vs.privacy.SignalDP(1.0)
    made = vs.sweep(parameters, "ring:7", family, request, "average", rounds=30, rng=1).result
    return replace(made, unit=unit)


def test_a_scenario_s_unit_reaches_results_files_and_figures() -> None:
    results = run(Scenario.parse(WITH_UNIT)).results
    result = results["private"]
    assert {r.unit for r in results.values()} == {"kWh"}
    assert result.data.attrs["unit"] == "kWh"
    assert summary(results)["variants"]["private"]["unit"] == "kWh"
    assert " kWh (95% interval" in paragraph(result)
    assert result.plot_paths().get_ylabel().endswith("ξ = s, s in kWh")
    assert result.plot_errors().get_ylabel().endswith("(kWh)")
    bar = figures.network(result).figure.axes[1]
    assert "(kWh)" in bar.get_ylabel()
    plain = run(Scenario.parse(SYNTHETIC)).results["private"]
    assert "unit" not in plain.data.attrs
    assert "kWh" not in paragraph(plain)


def test_errors_have_the_unit_in_the_terminal_and_on_the_page() -> None:
    results = run(Scenario.parse(WITH_UNIT)).results
    shown = Console(width=200, file=StringIO())
    shown.print(errors_table(results))
    assert isinstance(shown.file, StringIO)
    _, *rows = [line for line in shown.file.getvalue().splitlines() if line.strip("\u2500 ")]
    assert rows
    assert all(line.rstrip().endswith(" kWh") for line in rows)
    section = page(results, figures=False).split('id="errors"')[1].split("</section>")[0]
    cells = re.findall(
        r'data-head="(?:per agent|total|privacy|decentralisation)"[^>]*>([^<]+)', section
    )
    assert len(cells) == 4 * section.count('data-head="per agent"')
    assert all(cell.endswith(" kWh") for cell in cells)


def test_only_what_is_a_mean_of_signals_has_their_unit() -> None:
    normal = result_of(vs.families.Normal(sigma=1.0), {"mu": 3.0})
    assert (units.of_statistic(normal), units.of_parameter(normal, "mu")) == ("kWh", "kWh")
    waiting = result_of(vs.families.Exponential(bounds=(0.0, 9.0)), {"rate": 1.0})
    assert (units.of_statistic(waiting), units.of_parameter(waiting, "rate")) == ("kWh", "")
    logarithm = result_of(vs.families.LogNormal1p(sigma=1.0), {"mu": 1.0})
    assert (units.of_statistic(logarithm), units.of_parameter(logarithm, "mu")) == ("", "")
    assert figures._estimate_label(logarithm).endswith("ξ = log(1 + s), s in kWh")


def test_a_dollar_is_drawn_as_it_is() -> None:
    result = result_of(vs.families.Normal(sigma=1.0), {"mu": 3.0}, unit="$/h$")
    axes = result.plot_errors()
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


def test_colours_do_not_spread_over_differences_that_do_not_matter() -> None:
    """0.05677 to 0.05686 was drawn over the full range of colours."""
    close, apart = np.linspace(0.05677, 0.05686, 9), np.linspace(0.01, 0.06, 9)
    assert figures._colour_scale(close).vmin == 0.0
    assert figures._colour_scale(apart).vmin == 0.01
    assert figures._spread_note(apart) == ""
    note = figures._spread_note(close)
    assert note == "\nall agents: 0.05677 to 0.05686, a difference of 0.16%"
    assert figures._spread_note(np.full(3, 0.5)) == "\nall agents: 0.5"
    assert figures._spread_note(np.zeros(3)) == "", "0 for all is no claim about colours"


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
