"""The soak in short: a week of 8 agents with every fault, and weakened variants that it must catch."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.soak import checks, sockets
from tests.soak.__main__ import RESULTS, scaled
from tests.soak.record import number_of, value_of
from tests.soak.site import HOUR, SoakSite
from tests.soak.year import DAYS, WEEK, SoakSize, Year
from veilsum.agents.events import AgentReport
from veilsum.agents.ledger import Ledger
from veilsum.agents.ledger.budget import BudgetTracker
from veilsum.agents.readings import CsvReadings
from veilsum.agents.readings.rotation import FollowedFile, Part


def soak(home: Path, size: SoakSize = DAYS) -> tuple[Year, list[str]]:
    began = time.monotonic()
    year = Year(size, home)
    try:
        year.run()
        found = checks.violations(year)
    finally:
        year.close()
    print(checks.figures(year, time.monotonic() - began))
    return year, found


def test_a_week_of_eight_agents_loses_nothing(tmp_path: Path) -> None:
    year, found = soak(tmp_path, WEEK)
    assert not found, "\n".join(found[:20])
    said = checks.figures(year, 0.0)
    assert said["readings written"] > 7 * WEEK.hours
    assert said["passed over, budget"] > 0, "the budget is met"
    assert said["releases per reading, most"] == 1
    for fault in ("kills", "kills within a charge", "boots", "clock steps", "partitions",
                  "ends by a full disk", "members that left", "rotations by rename",
                  "rotations by copying and truncating"):  # fmt: skip
        assert said[fault] > 0, fault
    assert said["members that joined"] == 2
    assert year.manifest.epoch == 2


def test_the_documented_figures_are_those_of_a_year() -> None:
    found = json.loads(RESULTS.read_text())
    size = SoakSize()
    assert (found["year"]["agents"], found["year"]["slots"]) == (size.agents, size.hours)
    assert found["year"]["readings lost"] == 0
    assert found["sockets"]["epochs"] == 4
    assert scaled(size.agents, size.hours) == size  # what `make soak` runs


def test_a_reading_is_recognised_by_its_value() -> None:
    assert [number_of(value_of(n)) for n in range(20_000)] == list(range(20_000))


QUIET = SoakSize(6, 72, 16, 0, 0, 0, 0, 0, 0, 24, 100)


def soak_with_rows_ahead_of_time(home: Path) -> tuple[SoakSite, list[str]]:
    """While an agent is down, its meter writes with a clock that is ahead, and then set right."""
    year = Year(QUIET, home)
    site = year.sites["site-04"]
    assert site.meter.kind == "timed"
    year.at(30 * HOUR, site.kill)
    year.at(30 * HOUR, lambda: year._step_clock(site, 3 * HOUR))
    year.at(31.5 * HOUR, lambda: year._step_clock(site, -3 * HOUR))
    year.at(31.6 * HOUR, lambda: year._start(site))
    try:
        year.run()
        return site, checks.violations(year)
    finally:
        year.close()


def test_readings_of_a_time_that_has_not_come_are_passed_over_and_known(tmp_path: Path) -> None:
    site, found = soak_with_rows_ahead_of_time(tmp_path)
    assert not found, "\n".join(found[:20])
    assert "of a time that has not come" in (site.folder / "log.jsonl").read_text()
    assert sum(site.record.passed["surplus"]) > 0


def test_a_report_of_another_reading_than_the_one_passed_over_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = SoakSite._reported

    def reported(self: Any, label: str, report: AgentReport) -> None:
        if report.kind == "surplus":
            text = re.sub(r"reading (\d+)", lambda n: f"reading {int(n[1]) - 1}", report.text)
            report = report._replace(text=text)
        usual(self, label, report)

    monkeypatch.setattr(SoakSite, "_reported", reported)
    _, found = soak_with_rows_ahead_of_time(tmp_path)
    assert any("was released and is surplus" in each for each in found), found[:5]
    assert any("was lost" in each for each in found), found[:5]


def test_a_source_that_does_not_look_for_the_copy_of_a_truncated_file_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def truncated(self: Any, part: Any) -> None:
        part.close()
        self._parts.clear()
        self._parts.append(Part(self.path))

    monkeypatch.setattr(FollowedFile, "_truncated", truncated)
    rotate = SoakSite.write

    def write(self: Any) -> None:  # so that rows are there that nobody has seen
        rotate(self)
        if self.record.written % 20 == 0:
            self.meter.rotate("copytruncate")

    monkeypatch.setattr(SoakSite, "write", write)
    _, found = soak(tmp_path)
    assert any("was lost" in each for each in found), found[:5]


def test_rows_that_have_another_key_after_a_restart_are_caught_as_released_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, opened = CsvReadings._origin, CsvReadings.__init__
    starts = iter(range(10**6))

    def init(self: Any, *args: Any, **more: Any) -> None:
        self.salt = next(starts)
        opened(self, *args, **more)

    def origin(self: Any, cells: Any) -> Any:
        found = usual(self, cells)
        return found._replace(text=f"{found.text} {self.salt}")

    monkeypatch.setattr(CsvReadings, "__init__", init)
    monkeypatch.setattr(CsvReadings, "_origin", origin)
    _, found = soak(tmp_path)
    assert any("was released twice" in each for each in found), found[:5]


def test_a_restart_that_forgets_the_last_slot_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was: readings after a release that came within the grace were surplus."""
    monkeypatch.setattr(Ledger, "last_slot", lambda _: None)
    _, found = soak(tmp_path, replace(DAYS, kills=40))
    assert any("are surplus, and no clock was set" in each for each in found), found[:5]


def test_a_budget_that_admits_everything_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BudgetTracker, "admit", lambda *_: None)
    _, found = soak(tmp_path)
    assert any("within a day" in each for each in found), found[:5]


@pytest.fixture
def leak() -> Iterator[list[Any]]:
    kept: list[Any] = []
    yield kept
    for each in kept:
        if hasattr(each, "close"):
            each.close()


def test_memory_that_grows_with_every_release_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leak: list[Any]
) -> None:
    usual = SoakSite._probe

    def probe(self: Any, step: str) -> None:
        leak.append(bytearray(b"x" * 100_000))
        usual(self, step)

    monkeypatch.setattr(SoakSite, "_probe", probe)
    _, found = soak(tmp_path)
    assert any("memory grew" in each for each in found), found[:5]


def test_files_that_stay_open_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leak: list[Any]
) -> None:
    usual = SoakSite.write

    def write(self: Any) -> None:
        usual(self)
        leak.append(self.meter.path.open())

    monkeypatch.setattr(SoakSite, "write", write)
    _, found = soak(tmp_path)
    assert any("files were open" in each for each in found), found[:5]


@pytest.mark.slow
def test_processes_with_certificates_of_seconds_are_killed_and_lose_nothing(tmp_path: Path) -> None:
    soak = sockets.SocketSoak(tmp_path / "sockets")
    soak.run(60.0)
    said = sockets.figures(soak, 0.0)
    print(said)
    assert not soak.wrong, "\n".join(soak.wrong[:20])
    assert said["epochs"] == 4
    assert said["epochs adopted while running"] > 0
    site = soak.sites[0]
    site.written += 1  # the weakened variant: a row of which the ledger knows nothing
    assert sockets.violations(site) == [f"row {site.written} of {site.name} was lost"]
