"""`veilsum up --page`: where the page is, what it takes from the processes, and what it must not show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from veilsum.agents.local_cluster import cluster
from veilsum.agents.local_cluster.cluster import LaunchOptions, prepare
from veilsum.cli.app import app
from veilsum.cli.fleet_page import SILENT_AFTER, UpPage
from veilsum.cli.options import with_page_address
from veilsum.errors import AgentError
from veilsum.live.security import PageAddress
from veilsum.scenario import Scenario

SCENARIO = """
name = "ring"
network = {graph = "ring:4", weights = "lazy-metropolis"}
family = {name = "normal", sigma = 1.0, unit = "kW", bounds = [0.0, 1.0]}
signals = {draw = {mu = 0.5}}
privacy = {protect = "signal", epsilon = 1.0}
algorithm = {name = "average", rounds = 20}
"""
ANYWHERE = PageAddress("127.0.0.1", 0)


@pytest.fixture
def page(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    options = LaunchOptions(processes=2, insecure=True)
    plan, problem, _ = prepare(Scenario.parse(SCENARIO), options, tmp_path)
    made = UpPage(ANYWHERE, "kW", "Four sites", getattr(request, "param", True))
    made.planned(plan, problem)
    yield made
    made.close()


def line(page: UpPage, device: str, **status: Any) -> dict[str, Any]:
    given = {"state": "running", "round": 2, "estimate": [0.5625]} | status
    sites = dict.fromkeys(page._sites[device], given)
    return {"device": device, "sites": sites, "trail": {"1": dict.fromkeys(sites, 0.6875)}}


def sites(page: UpPage) -> dict[str, Any]:
    page.page.flush()
    found: dict[str, Any] = page.page.hub.snapshot["sites"]
    return found


def test_the_page_is_served_before_anything_starts(page: UpPage) -> None:
    with urlopen(page.url) as answer:
        assert "<title>ring</title>" in answer.read().decode()
    assert page.page.hub.snapshot["run"]["state"] == "starting"


def test_lines_of_processes_reach_the_page(page: UpPage) -> None:
    page.heard("process-1", line(page, "process-1"))
    assert {label: site["estimate"] for label, site in sites(page).items()} == dict.fromkeys(
        page._sites["process-1"], 0.5625
    )
    rounds = page.page.hub.snapshot["rounds"]
    assert [(row["round"], row["mean"], row["count"]) for row in rounds] == [
        (1, 0.6875, 2), (2, 0.5625, 2),
    ]  # fmt: skip
    page.look()
    assert page.page.hub.snapshot["run"]["state"] == "starting"
    later = line(page, "process-1") | {"trail": {"3": dict.fromkeys(sites(page), 0.5)}}
    page.heard("process-1", later)  # its status is of round 2, and removes no round
    page.page.flush()
    assert [row["round"] for row in page.page.hub.snapshot["rounds"]] == [1, 2, 3]
    page.heard("process-2", line(page, "process-2"))
    page.look()
    assert page.page.hub.snapshot["run"]["state"] == "running"


def test_a_status_from_within_a_round_does_not_replace_the_estimate_after_it(page: UpPage) -> None:
    trail = {"2": dict.fromkeys(page._sites["process-1"], 0.5)}
    page.heard("process-1", line(page, "process-1") | {"trail": trail})
    page.page.flush()
    (row,) = page.page.hub.snapshot["rounds"]
    assert (row["round"], row["mean"], row["half_width"]) == (2, 0.5, None)
    last = line(page, "process-1", estimate=[0.5], half_width=[0.25]) | {"trail": {}}
    page.heard("process-1", last)  # with the interval, which is computed at the end
    page.page.flush()
    assert page.page.hub.snapshot["rounds"][0]["half_width"] == 0.25


@pytest.mark.parametrize("page", [False, True], indirect=True, ids=["withheld", "shown"])
def test_estimates_without_protection_are_withheld(page: UpPage) -> None:
    page.heard("process-1", line(page, "process-1"))
    sites(page)
    text = json.dumps(page.page.hub.snapshot)
    assert (("0.5625" in text), ("0.6875" in text)) == (page.estimates, page.estimates)


def test_a_process_that_ends_early_is_silent_and_one_that_is_done_is_not(page: UpPage) -> None:
    page.heard("process-1", line(page, "process-1"))
    page.heard("process-2", line(page, "process-2", state="done"))
    page.exited("process-1")
    page.exited("process-2")
    assert page.page.silent_sites == tuple(sorted(page._sites["process-1"]))
    page.failed(AgentError("process-1 exited"))
    assert page.page.hub.snapshot["run"] == {
        "state": "failed", "text": "the run failed: process-1 exited",
    }  # fmt: skip


def test_a_process_that_says_nothing_is_silent_until_it_does(page: UpPage) -> None:
    for device in ("process-1", "process-2"):
        page.heard(device, line(page, device))
    page.look()
    assert page.page.silent_sites == ()
    page._heard["process-2"] -= SILENT_AFTER + 1
    page.look()
    assert page.page.silent_sites == tuple(sorted(page._sites["process-2"]))
    page.heard("process-2", {"device": "process-2"})  # nothing has changed, and it is there
    assert page.page.silent_sites == ()


def test_others_cannot_be_shown_the_page() -> None:
    with pytest.raises(AgentError, match="certificate"):
        UpPage(PageAddress("0.0.0.0", 8090), "", "", True)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["up", "a.toml", "--page"], "127.0.0.1:8090"),
        (["up", "--page", "a.toml"], "127.0.0.1:8090"),
        (["agent", "a.toml", "--page"], "127.0.0.1:8080"),
        (["up", "a.toml", "--page", "localhost:9000"], "localhost:9000"),
    ],
)
def test_a_page_without_an_address_has_the_usual_one(given: list[str], expected: str) -> None:
    found = with_page_address(given)
    assert found[found.index("--page") + 1] == expected
    assert [a for a in found if a not in ("--page", expected)] == [
        a for a in given if a not in ("--page", expected)
    ]


@pytest.mark.parametrize(
    ("protect", "shown"), [("nothing", False), ("signal", True)], ids=["none", "signal"]
)
def test_the_verb_withholds_estimates_of_measured_signals_without_protection(
    protect: str, shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`_shows_estimates` decides for the page as for the table."""
    (tmp_path / "loads.csv").write_text("0,1,2,3\n0.5,0.5,0.5,0.5\n")
    text = SCENARIO.replace("{draw = {mu = 0.5}}", '{file = "loads.csv"}')
    text = text.replace('protect = "signal", epsilon = 1.0', f'protect = "{protect}"')
    if protect == "signal":
        text = text.replace('protect = "signal"', 'protect = "signal", epsilon = 1.0')
    (tmp_path / "scenario.toml").write_text(text)
    seen: list[UpPage] = []

    def instead(*given: Any) -> Any:
        seen.append(given[-1])
        raise AgentError("as far as this goes")

    monkeypatch.setattr(cluster, "up", instead)
    monkeypatch.setattr("veilsum.agents.local_cluster.up", instead, raising=False)
    arguments = ["up", str(tmp_path / "scenario.toml"), "--page", "127.0.0.1:0", "--page-for", "0"]
    found = CliRunner().invoke(app, arguments)
    assert "as far as this goes" in found.output
    assert [each.estimates for each in seen] == [shown]
