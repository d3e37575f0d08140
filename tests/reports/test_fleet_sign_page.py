"""The page to sign for a site of a fleet: numbers of its own files, and no reading."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.fleet.fleets import NOW, SmallFleet, mean
from veilsum.cli.app import app
from veilsum.errors import CommandError
from veilsum.fleet.store import open_store
from veilsum.reports.fleet_page import fleet_page

SECRET = 17.173717  # a reading that no page may show


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """A site of five, whose board has a question of each protocol."""
    board = tmp_path / "board"
    board.mkdir()
    fleet = SmallFleet(
        tmp_path / "sites", 5, store=open_store(str(board)), rows=lambda *_: {"kwh": [SECRET] * 40}
    )
    fleet.ask(mean("pool", sites_per_person=2))
    fleet.ask(mean("secure-sum", deadline=NOW + 1000))
    for _ in range(2):
        fleet.step()
    place = tmp_path / "sites" / "s0"
    text = (place / "site.toml").read_text()
    (place / "site.toml").write_text(text.replace('"memory"', f'"{board}"'))
    return place


def test_it_states_epsilon_for_a_person_keepers_and_the_cliff(folder: Path) -> None:
    page = fleet_page(folder)
    assert "7.39 times more likely" in page  # epsilon 1 at each of two sites
    assert "2.72 times more likely" in page
    assert "fewer than 4 of the 5 keepers learn nothing" in page
    assert "4 of them together read the numbers of each site" in page
    assert page.count("epsilon 1 of this site") == 2


def test_no_reading_is_on_it_and_nothing_is_fetched(folder: Path) -> None:
    page = fleet_page(folder)
    assert "17.17" not in page
    assert "<script" not in page
    assert "http-equiv" in page


def test_one_question_by_its_digest(folder: Path) -> None:
    digest = mean("pool", sites_per_person=2).digest.hex()
    page = fleet_page(folder, digest[:8])
    assert digest in page
    assert page.count("<h3>") == 1
    with pytest.raises(CommandError, match="no question that begins with 0000"):
        fleet_page(folder, "0000")


def test_the_command_writes_it_for_a_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == 0, done.output
    assert "s0-report.html: a page to print and to sign" in done.output
    assert "Fleet north" in (tmp_path / "s0-report.html").read_text()
