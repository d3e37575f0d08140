"""The paper as data: each figure and table an entry with its runs, its claims and its check.

    from murmura import paper
    paper.names()                                      what there is
    paper.reproduce(["fig-mse-us"], Path("out"))       figures, numbers and verdicts

Names are imported when first used, so that listing the entries stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from murmura._lazy import lazily

if TYPE_CHECKING:
    from murmura.paper.entry import Claim, Context, Entry, Finding, Measured, Origin, Verdict
    from murmura.paper.registry import ENTRIES, find, names
    from murmura.paper.runner import Report, reproduce

_HOMES = {
    "Claim": "entry",
    "Context": "entry",
    "ENTRIES": "registry",
    "Entry": "entry",
    "Finding": "entry",
    "Measured": "entry",
    "Origin": "entry",
    "Report": "runner",
    "Verdict": "entry",
    "find": "registry",
    "names": "registry",
    "reproduce": "runner",
}

__all__ = [
    "ENTRIES",
    "Claim",
    "Context",
    "Entry",
    "Finding",
    "Measured",
    "Origin",
    "Report",
    "Verdict",
    "find",
    "names",
    "reproduce",
]

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
