"""All entries, in the order of the paper."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from murmura.errors import ScenarioError
from murmura.paper import (
    distributions,
    extensions,
    headline,
    heterogeneous,
    optimal_noise,
    real,
    sample_paths,
    sweeps,
    tables,
    theorems,
)
from murmura.paper.entry import Entry

ENTRIES: dict[str, Entry] = {
    entry.id: entry
    for part in (
        theorems, optimal_noise, distributions, sample_paths, sweeps, tables, heterogeneous,
        extensions, headline, real,
    )
    for entry in part.ENTRIES
}  # fmt: skip


def names() -> list[str]:
    """List the ids."""
    return list(ENTRIES)


def find(ids: Iterable[str] = ()) -> list[Entry]:
    """The entries with these ids, or all of them."""
    wanted = list(ids) or names()
    for id in wanted:
        if id not in ENTRIES:
            near = difflib.get_close_matches(id, ENTRIES, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ScenarioError(
                f"the reproduction has no entry {id!r}{hint} Known: {', '.join(ENTRIES)}"
            )
    return [ENTRIES[id] for id in dict.fromkeys(wanted)]
