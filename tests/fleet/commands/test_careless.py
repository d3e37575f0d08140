"""Mistakes of newcomers and tired operators: each is said, with what to do, and said again while it stays."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.fleet.commands.folders import ALLOWED, WRONG, Folders, squeezed
from veilsum.cli import fleet_options
from veilsum.cli.fleet_members import SHARED
from veilsum.errors import FleetError
from veilsum.fleet.database import SiteFile
from veilsum.fleet.running import failed_at
from veilsum.fleet.site import Site

ROOT = Path(__file__).resolve().parents[3]
SECRET = "3777,73"


def asked(folders: Folders) -> None:
    """Post a question without waiting for its answer."""
    with Site(folders.place("desk")) as site:
        from tests.fleet.fleets import mean
        from veilsum.fleet.post import Kind

        question = mean()
        seat = site.seat()
        seat.read()
        seat.publish(Kind.QUESTION, question.digest, question.canonical(), 1)
        seat.write(1)


def test_data_that_cannot_be_read_stays_in_status_and_check(folders: Folders) -> None:
    folders.begin("north", "east")
    table = folders.place("north") / "readings.csv"
    right = table.read_text()
    table.write_text(f"hour,kwh\n1,12.5\n2,{SECRET}\n".replace(SECRET, f'"{SECRET}"'))
    asked(folders)
    said = squeezed(folders.step("north", code=1))
    assert "readings.csv, line 3" in said
    assert folders.step("north", code=1) == ""  # cron hears of it once a day
    for words, code in (("status", 0), ("check", 1)):
        shown = squeezed(folders.fleet("north", words, code))
        assert "readings.csv, line 3" in shown
        assert SECRET not in shown
    assert SECRET not in (folders.place("north") / "site.db").read_bytes().decode("latin-1")
    table.write_text(right)
    folders.step("north")
    assert "line 3" not in squeezed(folders.fleet("north", "status"))
    with Site(folders.place("north")) as site:
        assert failed_at(site, "board") == []


def test_a_site_that_was_removed_learns_it(folders: Folders) -> None:
    folders.begin()
    folders.fleet("desk", "remove east --yes")
    assert "removed this site" in squeezed(folders.step("east"))
    assert folders.step("east") == ""
    assert "was removed by the authority" in squeezed(folders.fleet("east", "status"))
    assert "was removed by the authority" in squeezed(folders.fleet("east", "check", 1))
    assert "was removed" not in squeezed(folders.fleet("north", "status"))


def test_a_closed_fleet_says_so_everywhere(folders: Folders) -> None:
    folders.begin("north", "east")
    folders.fleet("desk", "close --yes")
    assert "board is closed" in squeezed(folders.step("north"))
    for name in ("north", "desk"):
        assert "is closed: nobody asks" in squeezed(folders.fleet(name, "status"))
    assert "is closed already" in squeezed(folders.fleet("desk", "close --yes", 1))


def test_who_is_out_already_is_not_removed_again(folders: Folders) -> None:
    folders.begin("north", "east")
    folders.fleet("desk", "remove east --yes")
    assert "east is out already" in squeezed(folders.fleet("desk", "remove east --yes", 1))
    with Site(folders.place("desk")) as site:
        assert site.seat().membership.number == 3


def test_after_a_rotation_join_shows_the_key_of_the_authoritys_screen(folders: Folders) -> None:
    folders.begin("north", "east")
    for _ in range(2):
        screen = squeezed(folders.fleet("desk", "rotate"))
    key = screen.partition("authority ")[2].partition("   ")[0].partition(" (")[0]
    assert len(key.replace(" ", "")) == 20
    assert squeezed(folders.join("west")).count(f"since a rotation {key}") == 2


def test_a_question_that_too_few_can_answer_is_no_question_that_waits(folders: Folders) -> None:
    folders.begin("north", "east", joined="")
    asked(folders)
    for name in ("north", "east"):
        folders.step(name)
        mark = folders.fleet(name, "inbox").split()[0]
        folders.fleet(name, f"approve {mark} --no")
        folders.step(name)
    folders.fleet("desk", "step")
    said = squeezed(folders.fleet("desk", "status"))
    assert "will not be answered: too few sites agree" in said
    assert "waits for" not in said


def test_a_column_that_a_refused_question_wants_is_no_fault(folders: Folders) -> None:
    folders.begin("north", "east")
    table = folders.place("north") / "readings.csv"
    table.write_text(table.read_text().replace("hour,kwh", "hour,power"))
    asked(folders)
    assert "no column 'kwh'" in squeezed(folders.step("north"))
    assert "wrong" not in folders.fleet("north", "check")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--epsilon -3", "epsilon is a number above 0"),
        ("--epsilon 0", "epsilon is a number above 0"),
        ("--epsilon nan", "epsilon is a number above 0"),
        ("--epsilon 3 --columns kwh --data ..", ".. is a folder; give a file"),
        ("--epsilon 3 --columns nothing", "has no column nothing; it has hour, kwh"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(
    folders: Folders, options: str, expected: str
) -> None:
    folders.begin("north")
    words = f"join ../board --name south --data ../north/readings.csv --approve mean {options}"
    assert expected in squeezed(folders.fleet("south", words, WRONG))
    assert not list(folders.place("south").iterdir())


@pytest.mark.parametrize("words", ["step", "status", "run", "inbox", "approve 1", "ledger show"])
def test_a_folder_that_is_no_site_says_which_folder(folders: Folders, words: str) -> None:
    said = squeezed(folders.fleet("nowhere", words, 1))
    assert f"{folders.place('nowhere').name} is no site: it has no site.toml" in said
    assert "veilsum fleet join" in said


@pytest.mark.parametrize("words", ["admit x", "remove x --yes", "rotate", "close --yes"])
def test_a_folder_that_is_no_authority_says_which_folder(folders: Folders, words: str) -> None:
    said = squeezed(folders.fleet("nowhere", words, 1))
    assert "nowhere has no authority.key" in said


def test_a_site_without_site_db_is_not_asked_to_restore_it(folders: Folders) -> None:
    folders.begin("north", joined=ALLOWED)
    (folders.place("north") / "site.db").unlink()
    said = squeezed(folders.fleet("north", "step", 1))
    assert "is lost, with the key of this site" in said
    assert "never take it from a backup" in said


@pytest.mark.parametrize("opens", [False, True])
def test_a_database_that_may_not_be_opened_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens: bool
) -> None:
    path = tmp_path / "site.db"
    SiteFile(path, new=True).close()

    def denied(*_: Any, **__: Any) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    if opens:
        monkeypatch.setattr(SiteFile, "_open", denied)
    else:
        monkeypatch.setattr(sqlite3, "connect", denied)
    with pytest.raises(FleetError, match=r"cannot be opened: attempt to write.*look at the rights"):
        SiteFile(path)


def test_a_prompt_is_no_wider_than_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    monkeypatch.setattr(fleet_options, "on_terminal", lambda: True)

    def prompt(text: str, *, prompt_suffix: str, **_: Any) -> str:
        shown.append(text + prompt_suffix)
        return "mounted"

    monkeypatch.setattr(typer, "prompt", prompt)
    assert fleet_options.asked(None, "--mounted", SHARED, str, "synced") == "mounted"
    assert fleet_options.asked(None, "--data", "Where?", str) == "mounted"
    assert all(len(line) <= 80 for text in shown for line in text.splitlines())
    assert shown[0].endswith("[synced]: ")
    assert shown[1] == "Where? "


def test_the_page_quotes_what_status_says() -> None:
    part = (ROOT / "docs" / "fleet.md").read_text().split("## When status names a problem")[1]
    table = [line.split("|")[1] for line in part.split("\n## ")[0].splitlines() if line[:2] == "| "]
    said = "".join(path.read_text() for path in sorted((ROOT / "src/veilsum/fleet").rglob("*.py")))
    quoted = [quote for cell in table for quote in re.findall("`([^`]+)`", cell)]
    assert len(quoted) >= 8
    assert not [quote for quote in quoted if quote not in said]
