"""Alerts and the dashboard ask for series that agents have; every series is used, or listed here."""

import re
from itertools import pairwise

import pytest

from tests.deploy.rendered import (
    DASHBOARD,
    FILES,
    panel_expressions,
    problems,
    rules,
    selectors,
    series,
)
from veilsum.agents.fleet import FILLED

UNUSED = {  # in neither: what others show better
    "veilsum_readings_covered": "members_contributing says who is covered",
    "veilsum_last_reading_timestamp_seconds": "its age is shown",
    "veilsum_budget_refill_timestamp_seconds": "a date: `veilsum status` and the page show it",
}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_what_agents_have(rule: dict[str, str]) -> None:
    assert problems(rule["expr"]) == []
    assert selectors(rule["expr"]) or rule["expr"].startswith("up{")


@pytest.mark.parametrize("expression", panel_expressions())
def test_a_panel_asks_for_what_agents_have(expression: str) -> None:
    assert problems(expression) == []


@pytest.mark.parametrize(
    "expression",
    ["veilsum_rounds > 1", 'veilsum_round{peer="a"} > 1', 'veilsum_state{state="dead"} == 1',
     'veilsum_link_state{state=~"down|gone"} == 1', "sum by (peer) (veilsum_round)",
     "veilsum_messages_sent > 1", 'veilsum_readings{outcome="passed_over"}'],
)  # fmt: skip
def test_a_mistake_would_be_found(expression: str) -> None:
    assert problems(expression)


def test_every_series_is_used_or_listed() -> None:
    expressions = [*panel_expressions(), *(rule["expr"] for rule in rules())]
    used = {selector.name for each in expressions for selector in selectors(each)}
    assert series().keys() - used == UNUSED.keys()


def test_every_alert_says_how_bad_it_is_what_it_means_and_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "action"}
        assert all(text.rstrip().endswith((".", ":")) for text in rule["annotations"].values())


def test_annotations_use_labels_that_the_alert_has() -> None:
    for rule in rules():
        wanted = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        known = {"fleet", "agent", "job", "instance"}
        for selector in selectors(rule["expr"]):
            known |= series()[selector.name]
        assert wanted <= known
        kept = re.match(r"\(?(?:max|min|sum|count) by \(([^)]*)\)", rule["expr"])
        if kept:
            assert wanted <= set(re.findall(r"\w+", kept[1]))


def test_the_dashboard_fits_together() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [tuple(panel["gridPos"][key] for key in "yxwh") for panel in panels]
    assert all(x + w <= 24 for _, x, w, _ in places)
    for (y, x, w, h), (below, right, _, _) in pairwise(sorted(places)):
        assert below >= y + h or right >= x + w  # no panel covers another
    source = DASHBOARD["panels"][0]["datasource"]["uid"]
    assert {panel["datasource"]["uid"] for panel in panels} == {source}
    assert f"uid: {source}" in FILES[FILLED[1]]
    names = {each["name"] for each in DASHBOARD["templating"]["list"]}
    assert names == {"fleet", "agent"}
    for expression in panel_expressions():
        assert set(re.findall(r"\$(\w+)", expression)) <= names
