"""The fleet page's data: what of a status is kept, who is silent, and what is published when."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.request import urlopen

import pytest

from veilsum.agents.scenario_terms import manifest_of
from veilsum.errors import AgentError
from veilsum.live.fleet import FleetPage, FleetTerms, fold, site_of
from veilsum.live.fleet_server import FleetServer
from veilsum.live.hub import Hub
from veilsum.live.security import PageAddress
from veilsum.scenario import Scenario

SCENARIO = """
name = "ring"
title = "Four sites"
network = {graph = "ring:4", weights = "lazy-metropolis"}
family = {name = "normal", sigma = 1.0, unit = "kW", bounds = [0.0, 1.0]}
signals = {draw = {mu = 0.5}}
privacy = {protect = "signal", epsilon = 1.0}
algorithm = {name = "average", rounds = 20}
"""
STATUS = {
    "agent": "0", "network": "ring", "manifest": "ab" * 32, "round": 3, "reason": "running",
    "estimate": [0.625], "half_width": [0.25], "unprojected": [0.7071], "state": "running",
    "coverage": {"members": 4, "contributing": 3, "quorum": 4, "missing": ["2"]},
    "budget": {"epsilon": 1.0, "spent": 0.5, "remaining": 0.5, "reserved": 0.0, "unit": "event"},
    "links": {"1": "open", "3": "down"}, "session": None, "version": "0.1.0",
    "certificate_days": 12.345, "last_reading": 90.0, "process": 4711, "machine": "boot-of-it",
    "guarantee": "in words", "readings": {"released": 3},
}  # fmt: skip


def terms(**changes: Any) -> FleetTerms:
    labels = ("0", "1", "2", "3")
    places = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
    given: dict[str, Any] = {
        "labels": labels, "edges": ((0, 1), (1, 2), (2, 3), (0, 3)), "positions": places,
        "bounds": (0.0, 1.0), "unit": "kW", "guarantee": "", "rounds": 20,
    }  # fmt: skip
    return FleetTerms(**(given | changes))


def made(interval: float = 0.0, **changes: Any) -> FleetPage:
    return FleetPage(Hub(apply=fold), terms(**changes), interval=interval)


def test_the_terms_of_a_manifest() -> None:
    scenario = Scenario.parse(SCENARIO)
    problem = scenario.build().problem
    manifest = manifest_of(problem, scenario.variants[0], scenario.name)
    found = FleetTerms.of(manifest, problem.family, unit="kW", title="Four sites")
    assert found.labels == ("0", "1", "2", "3")
    assert found.edges == ((0, 1), (0, 3), (1, 2), (2, 3))
    assert (found.bounds, found.rounds, found.quorum) == ((0.0, 1.0), 20, 4)
    assert found.manifest == manifest.digest.hex()
    assert found.placed == "layout"
    assert "between any two values of its domain" in found.guarantee
    rounds = [t for t, _ in found.expected]
    assert rounds[0] == 1
    assert rounds[-1] == 20
    widths = [width for _, width in found.expected]
    assert widths == sorted(widths, reverse=True)  # it shrinks with every round
    located = FleetTerms.of(manifest, problem.family, positions=[(0, 0), (9, 0), (9, 3), (0, 3)])
    assert located.placed == "map"


def test_a_page_keeps_what_it_shows_and_nothing_else_of_a_status() -> None:
    page = made()
    page.update("0", STATUS, at=100.04)
    site = page.hub.snapshot["sites"]["0"]
    assert (site["estimate"], site["half_width"], site["round"]) == (0.625, 0.25, 3)
    assert site["links"] == {"open": 1, "total": 2, "broken": {"3": "down"}}
    assert site["coverage"]["missing"] == ["2"]
    assert site["certificate_days"] == 12.3
    assert site["received_at"] == 100.0
    text = json.dumps(page.hub.snapshot)
    for secret in ("4711", "boot-of-it", "0.7071"):
        assert secret not in text
    assert set(site) - {"received_at", "silent_since", "silent_reason"} == set(site_of(STATUS))


def test_a_page_knows_the_epoch_of_each_site_and_of_its_terms() -> None:
    page = made(epoch=3, former=(("9", 2),))
    page.update("0", STATUS | {"epoch": 2}, at=100.0)
    snapshot = page.hub.snapshot
    assert snapshot["sites"]["0"]["epoch"] == 2
    assert (snapshot["terms"]["epoch"], snapshot["terms"]["former"]) == (3, [["9", 2]])


def test_a_page_follows_a_later_epoch() -> None:
    """Who stays keeps what is known, who is gone has nothing, and rounds begin anew."""
    page = made(manifest="ab" * 32)
    for label in ("0", "3"):
        page.update(label, STATUS | {"epoch": 1}, at=100.0)
    page.leave_out("1")
    later = terms(
        labels=("0", "1", "2", "4"), manifest="cd" * 32, epoch=2, former=(("3", 2),)
    )  # fmt: skip
    page.follow(later)
    snapshot = page.hub.snapshot
    assert (snapshot["terms"]["epoch"], snapshot["rounds"]) == (2, [])
    assert set(snapshot["sites"]) == {"0", "1"}
    page.update("0", STATUS | {"epoch": 1, "round": 9}, at=101.0)  # behind: no round of this epoch
    page.update("4", STATUS | {"epoch": 2, "round": 2}, at=101.0)
    page.watch("1")
    snapshot = page.hub.snapshot
    assert [row["round"] for row in snapshot["rounds"]] == [2]
    assert snapshot["sites"]["1"]["unwatched"] is False
    with pytest.raises(AgentError, match="no site"):
        page.update("3", STATUS, at=102.0)
    page.silent("2", 99.0, "in another epoch", epoch=1)
    assert page.hub.snapshot["sites"]["2"]["epoch"] == 1


def test_estimates_that_nothing_protects_are_nowhere_on_the_page() -> None:
    page = made(estimates=False)
    page.update("0", STATUS, at=100.0)
    page.record(4, {"0": 0.625})
    text = json.dumps(page.hub.snapshot)
    assert "0.625" not in text
    assert "0.25" not in text
    shown = made()  # the weakened variant: this is how it would look
    shown.update("0", STATUS, at=100.0)
    assert "0.625" in json.dumps(shown.hub.snapshot)


def test_only_what_changed_is_published() -> None:
    page = made()
    page.update("0", STATUS, at=100.0)
    sent: list[tuple[str, Any]] = []
    publish = page.hub.publish
    page.hub.publish = lambda kind, data: sent.append((kind, data)) or publish(kind, data)  # type: ignore[method-assign,func-returns-value]
    page.update("0", STATUS | {"state": "done"}, at=100.0)
    (first, *_) = sent
    assert first == ("sites", {"sites": {"0": {"state": "done"}}})


def test_changes_wait_for_each_other() -> None:
    page = made(interval=60.0)
    before = page.hub.last_id
    for k in range(100):
        page.update("0", STATUS | {"round": k}, at=float(k))
    assert page.hub.last_id == before
    page.close()
    assert page.hub.last_id == before + 2  # sites, rounds
    assert page.hub.snapshot["sites"]["0"]["round"] == 99
    assert len(page.hub.snapshot["rounds"]) == 100


def test_a_silent_site_is_named_until_it_is_heard_again() -> None:
    page = made()
    page.update("1", STATUS, at=100.0)
    page.silent("1", since=101.0)
    page.silent("1", since=140.0, reason="it does not answer")  # since the first time
    assert page.silent_sites == ("1",)
    site = page.hub.snapshot["sites"]["1"]
    assert (site["silent_since"], site["silent_reason"]) == (101.0, "it does not answer")
    page.seen("1")
    assert not page.silent_sites
    page.silent("1", since=150.0)
    page.update("1", STATUS, at=160.0)
    assert not page.silent_sites


def test_sites_that_are_stopped_are_neither_silent_nor_done() -> None:
    page = made()
    for label, state in (("0", "running"), ("1", "done"), ("2", "running")):
        page.update(label, STATUS | {"state": state}, at=1.0)
    page.silent("2", since=1.0)
    page.stopped()
    sites = page.hub.snapshot["sites"]
    assert [sites[k]["state"] for k in "012"] == ["stopped", "done", "running"]
    assert page.has_ended("0")
    assert not page.has_ended("2")


def test_a_stranger_is_refused() -> None:
    page = made()
    refused = "'9' is no site of fleet"
    with pytest.raises(AgentError, match=refused):
        page.update("9", STATUS, at=0.0)
    with pytest.raises(AgentError, match=refused):
        page.silent("9", since=0.0)
    with pytest.raises(AgentError, match=refused):
        page.record(1, {"9": 0.5})


@pytest.mark.parametrize(
    "wrong", [{"positions": ((0.0, 0.0),)}, {"edges": ((0, 4),)}, {"labels": ("0", "0", "1", "2")}]
)
def test_terms_that_do_not_fit_together_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(AgentError, match="fleet page"):
        terms(**wrong)


def test_every_address_that_the_page_names_is_served() -> None:
    server = FleetServer(terms(), PageAddress("127.0.0.1", 0))
    url = server.start()
    try:
        with urlopen(url) as answer:
            text = answer.read().decode()
        named = set(re.findall(r"(?<![<\w.])/[a-z][\w./]*", text))
        assert "/static/fleet.js" in named
        for path in named:
            with urlopen(f"{url}{path[1:]}") as answer:
                assert answer.status == 200, path
    finally:
        server.close()
