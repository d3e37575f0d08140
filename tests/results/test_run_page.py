"""Pages and tables of results: escaped, self-contained, and without what must not be released."""

from __future__ import annotations

import base64
import hashlib
import re
import stat
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import veilsum as vs
from tests.results.test_writer import MEASURED, SYNTHETIC, scenario_file
from veilsum import _html
from veilsum.cli.app import app
from veilsum.networks import Graph
from veilsum.front import style
from veilsum.results import Result
from veilsum.results.inline_svg import inline
from veilsum.results.run_page import page, write_page
from veilsum.scenario import Scenario, run

HOSTILE = '<script>alert("1")</script>\'"&<img src=x onerror=alert(1)>'


class Tags(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def check_harmless(text: str) -> None:
    found = Tags(text)
    assert not found.tags & {"script", "img", "iframe", "object", "link", "form", "base"}
    assert not {name for name in found.attributes if name.startswith("on")}


def hostile_result(measured: bool = False) -> Result:
    labels = tuple(f"{HOSTILE}{k}" for k in range(5))
    links = np.array([[k, (k + 1) % 5] for k in range(5)])
    net = vs.networks.metropolis(Graph(5, links, labels, name=HOSTILE))
    signals: Any = {"mu": 3.0}
    if measured:
        signals = dict(zip(labels, (3.14159, 2.71828, 1.41421, 1.73205, 2.23606), strict=True))
    request = vs.privacy.SignalDP(1.0, radius=1.0)
    made = vs.sweep(
        signals, net, vs.families.Normal(sigma=1.0), request, "average", rounds=8, rng=1
    ).result
    return replace(made, name=HOSTILE, unit="$\\frac<&")


@pytest.mark.parametrize("measured", [False, True])
def test_hostile_labels_names_and_units_are_text(measured: bool) -> None:
    result = hostile_result(measured)
    network: Any = result.problem.network
    plan = None
    if not measured:
        plan = vs.theory.plan(result.problem, error=0.9)
        plan = replace(plan, best=replace(plan.best, algorithm=HOSTILE))
    things: list[Any] = [result, result.guarantee, network]
    things += [] if plan is None else [plan]
    things.append(replace(result.guarantee, reason=HOSTILE, caveat=HOSTILE, assumes=HOSTILE))
    for thing in things:
        check_harmless(thing._repr_html_())
    whole = page({HOSTILE: result}, HOSTILE)
    check_harmless(whole)
    for text in (whole, *(thing._repr_html_() for thing in (network, result))):
        assert "&lt;script&gt;alert(&quot;1&quot;)" in text


def test_the_check_finds_what_is_not_escaped() -> None:
    with pytest.raises(AssertionError):
        check_harmless(f"<p>{HOSTILE}</p>")
    with pytest.raises(AssertionError):
        check_harmless(_html.element("p", _html.Markup(HOSTILE)))
    check_harmless(_html.element("p", HOSTILE, title=HOSTILE))


def test_dynamic_and_directed_networks_have_tables() -> None:
    for network in (vs.networks.link_failures("ring:8", 0.3, seed=1),
                    vs.networks.row_stochastic("ring:8")):  # fmt: skip
        text = network._repr_html_()
        assert "<td>8</td>" in text
        assert "0, 1, 2, 3, 4, 5, 6, 7" in text


def test_a_notebook_shows_of_measured_signals_what_may_be_released() -> None:
    text = hostile_result(measured=True)._repr_html_()
    for number in ("3.14159", "2.71828", "decentralisation"):
        assert number not in text
    assert "decentralisation" in hostile_result()._repr_html_()


def test_the_page_of_a_run_is_self_contained() -> None:
    results = run(Scenario.parse(SYNTHETIC, "a/b/small.toml")).results
    text = page(results)
    check_harmless(text)
    assert not re.findall(r'(?:src|href)="(?!#|data:image/png)', text)
    assert " style=" not in text, "the policy allows no style but the sheet"
    (sheet,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in text
    assert "default-src 'none'" in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids)), "names in figures are unique"
    for part in ("answer", "picture", "guarantee", "errors", "again"):
        assert f'<section id="{part}">' in text
    assert "veilsum run small.toml --seed 3 --replicas 2" in text
    assert "a/b" not in text
    assert text == page(run(Scenario.parse(SYNTHETIC, "a/b/small.toml")).results)
    assert "<svg" not in page(results, figures=False)


def test_what_was_simulated_says_so_beside_the_answer() -> None:
    """A badge that says "proved" must not be taken for leave to publish."""
    text = page(run(Scenario.parse(SYNTHETIC)).results, figures=False)
    before_the_answer = text.partition('id="answer"')[0]
    assert '">proved' in before_the_answer
    assert "nothing here may be released" in before_the_answer


def test_measured_signals_are_compared_with_the_truth_on_request_only(tmp_path: Path) -> None:
    file, out = (
        scenario_file(tmp_path, MEASURED.replace("evaluate = true", "")),
        tmp_path / "p.html",
    )
    calls = ["run", str(file), "--out", str(tmp_path / "out"), "--html", str(out)]
    done = CliRunner().invoke(app, [*calls, "--no-figures"])
    assert done.exit_code == 0, done.output
    text = out.read_text()
    secret = tmp_path / "p.secret.html"
    assert not secret.exists()
    assert "decentralisation</th>" not in text
    assert "are not on this page" in text
    assert "--seed" not in text
    assert Scenario.load(file).digest not in text, "its text has the seed"
    again = CliRunner().invoke(app, [*calls, "--evaluate", "--force", "--no-figures"])
    assert again.exit_code == 0, again.output
    assert "decentralisation</th>" not in out.read_text()
    assert "decentralisation</th>" in secret.read_text()
    assert "SECRET: as secret as the signals" in secret.read_text()
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    refused = CliRunner().invoke(
        app, [*calls[:2], "--html", str(out), "--out", str(tmp_path / "o")]
    )
    assert refused.exit_code == 2
    assert "--force" in refused.output
    assert not (tmp_path / "o").exists(), "refused before anything ran"


def test_unprotected_measured_signals_have_no_answer(tmp_path: Path) -> None:
    text = MEASURED.replace('"signal"\nepsilon = 1.0', '"nothing"')
    results = run(Scenario.load(scenario_file(tmp_path, text))).results
    (path,) = write_page(results, tmp_path / "deep" / "p.html")
    shown = path.read_text()
    assert "withheld: nothing protects the signals" in shown
    assert "<svg" not in shown
    mean = next(iter(results.values())).estimate["mu"]
    assert f"{mean:.4g}" not in re.sub(r"<style>.*?</style>", "", shown, flags=re.DOTALL)


def test_a_figure_keeps_its_look_without_style_attributes() -> None:
    figure = style.figure(3, 2)
    figure.subplots().plot([1, 2, 3], color="#0072B2", linewidth=1.25)
    text = inline(figure, "one", 'a "curve"')
    ET.fromstring(text)
    assert 'stroke="#0072b2"' in text
    assert 'stroke-width="1.25"' in text
    assert 'aria-label="a &quot;curve&quot;"' in text
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    assert used <= set(re.findall(r'\bid="([^"]+)"', text))
    assert used
    assert "<style" not in text
