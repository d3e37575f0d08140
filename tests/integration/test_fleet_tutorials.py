"""Five hospitals: the tutorial as it is printed, over a real WebDAV server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.fleet_tutorials import commands, plain, playing

from tests.fleet.servers import RcloneWebDav

pytestmark = pytest.mark.integration
PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "five-hospitals.md"
DRAWN = ("veilsum ask", "veilsum fleet inbox")  # what they print has noise in it


def test_five_hospitals_over_webdav(tmp_path: Path) -> None:
    page = PAGE.read_text()
    server = RcloneWebDav(tmp_path)
    root = tmp_path / "play"
    root.mkdir()
    try:
        server.start()
        with playing(page, root, server.environment(), server.address) as found:
            pass
    finally:
        server.close()
    assert [one.code for one in found] == [0] * len(commands(page))
    for one in found:
        if not one.command.startswith(DRAWN):
            assert plain(one.printed) == plain(one.output), one.command
    said = next(one.output for one in found if "-o survival" in one.command)
    assert "5 of 5 sites of trial" in said
    assert re.search(r"The arms differ: the log-rank statistic", said)
    assert (root / "office" / "survival.html").stat().st_size > 5_000
    assert "user" not in "".join(path.read_text() for path in root.glob("*/site.toml"))
