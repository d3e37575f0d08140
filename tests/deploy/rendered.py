"""What the tests of this folder look at: the files of a fleet, parsed, and the metrics that agents have."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from veilsum.agents.fleet import Fleet
from veilsum.agents.runtime.metrics import (
    GONE,
    LINK_STATES,
    OUTCOMES,
    STAGES,
    STATES,
    Metrics,
)

ROOT = Path(__file__).resolve().parents[2]
SITES = ("north", "east", "west")
FILES = Fleet("example", SITES, unit="kWh").files()
ALERTS = "monitoring/alerts.yml"
DASHBOARD: dict[str, Any] = json.loads(FILES["monitoring/grafana/dashboards/veilsum.json"])
OF_TARGETS = {"job", "instance", "fleet", "agent"}  # labels that a scrape adds
VALUES = {  # labels with known values, by series
    ("veilsum_state", "state"): set(STATES),
    ("veilsum_link_state", "state"): set(LINK_STATES),
    ("veilsum_session_stage", "stage"): set(STAGES),
    ("veilsum_readings", "outcome"): set(OUTCOMES),
    ("veilsum_members_gone", "how"): set(GONE),
    ("veilsum_session", "number"): {"query", "attempt", "view", "records"},
}
SELECTOR = re.compile(r"\b(veilsum_\w+)\s*(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
GROUPED = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")


class Selector(NamedTuple):
    """A series in an expression, and its matchers: label, operator, value."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(FILES[ALERTS])["groups"] for rule in group["rules"]]


def panel_expressions() -> list[str]:
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return found + [each["query"]["query"] for each in DASHBOARD["templating"]["list"]]


@cache
def series() -> dict[str, set[str]]:
    """Every series that an agent has, by name, with its labels."""
    made = [each for each in vars(Metrics()).values() if hasattr(each, "_labelnames")]
    assert len(made) > 20
    return {
        each._name + ("_total" if each._type == "counter" else ""): set(each._labelnames)
        for each in made
    }


def selectors(expression: str) -> list[Selector]:
    return [
        Selector(name, tuple(MATCHER.findall(inside or "")))
        for name, inside in SELECTOR.findall(expression)
    ]


def problems(expression: str) -> list[str]:
    """What an expression asks for that no agent has: series, labels, values of labels."""
    found, known = [], set(OF_TARGETS)
    for name, matchers in selectors(expression):
        if name not in series():
            found.append(f"no series {name}")
            continue
        labels = series()[name]
        known |= labels
        for label, how, value in matchers:
            if label not in labels | OF_TARGETS:
                found.append(f"{name} has no label {label}")
            allowed = VALUES.get((name, label))
            if allowed is not None and not value.startswith("$"):
                given = set(value.split("|")) if "~" in how else {value}
                found += [f"{name} has no {label} {each}" for each in given - allowed]
    for group in GROUPED.findall(expression):
        found += [f"no label {label}" for label in re.findall(r"\w+", group) if label not in known]
    return found
