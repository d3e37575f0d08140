"""docs/fleet.md: what it says of sources, and that the page for privacy officers stays short."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from veilsum.fleet.sources import SOURCES

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_table_of_sources_names_all_of_them_and_keys_that_they_have() -> None:
    part = (DOCS / "fleet.md").read_text().split("## Sources")[1].split("\n## ")[0]
    named = set()
    for line in (line for line in part.splitlines() if line.startswith("| `")):
        first, *_, last = line.strip("|").split("|")
        for name in re.findall(r"`(\w+)`", first):
            named.add(name)
            known = {field.name for field in fields(SOURCES[name])}
            assert set(re.findall(r"`(\w+)`", last)) <= known | {"decimal"}, name
    assert named == set(SOURCES.names()) - {"rows"}  # of other tests


def test_the_page_for_privacy_officers_is_read_in_one_go() -> None:
    assert len((DOCS / "who-learns-what.md").read_text().split()) <= 1200
