"""The tutorials of fleets, played as they are printed."""

from __future__ import annotations

import time
from pathlib import Path

from docs.fleet_tutorials import commands, plain, playing

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"


def test_three_suppliers_on_a_shared_folder(tmp_path: Path) -> None:
    page = (TUTORIALS / "three-suppliers-folder.md").read_text()
    begun = time.monotonic()
    with playing(page, tmp_path) as found:
        pass
    assert time.monotonic() - begun < 120
    assert [one.code for one in found] == [0] * len(found)
    typed = [one.command.split(" ../")[0] for one in found if one.command.startswith("veilsum")]
    assert len(typed[:-1]) == 9, "nine commands, and a look at the ledger"
    for one in found:
        printed = plain(one.printed)
        assert printed == plain(one.output), one.command
        assert all(len(line) <= 80 for line in one.output.splitlines())


def test_every_word_of_a_page_is_a_command_that_is_played() -> None:
    for path in TUTORIALS.glob("*.md"):
        for one in commands(path.read_text()):
            assert one.command.split()[0] in ("veilsum", "python", "crontab"), one
