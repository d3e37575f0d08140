"""What an entry of the reproduction is: runs, what is measured of them, a drawing and claims.

    runs --measure--> Measured (tables) --draw--> figure
                                        --check--> Finding: verdict and a sentence with the numbers

Drawings read what was measured and compute nothing, so that the tables hold every plotted number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from murmura.paper.settings import Run

Tables = Mapping[str, Any]  # name -> pandas.DataFrame; "" is the main one


class Verdict(StrEnum):
    """How a statement of the paper stands against the numbers."""

    CONFIRMED = "confirmed"
    CORRECTED = "corrected"  # true once something in it is put right, or only in part
    REFUTED = "refuted"


SEVERITY = {Verdict.CONFIRMED: 0, Verdict.CORRECTED: 1, Verdict.REFUTED: 2}


@dataclass(frozen=True)
class Finding:
    """A verdict and the sentence that gives its numbers."""

    verdict: Verdict
    sentence: str


@dataclass(frozen=True)
class Measured:
    """What was measured: tables that are written, and results that are only drawn."""

    tables: Tables
    results: Mapping[str, Any] = field(default_factory=dict)

    @property
    def table(self) -> Any:
        """The main table."""
        return self.tables[""]


@dataclass(frozen=True)
class Claim:
    """A statement, and the check that turns numbers into a finding."""

    statement: str
    check: Callable[[Measured], Finding]


@dataclass(frozen=True)
class Context:
    """How to run: the seed, whether a sketch is enough, and whom to tell of every run."""

    seed: int = 0
    quick: bool = False
    tell: Callable[[str], None] = lambda name: None  # noqa: ARG005 - nobody listens


@dataclass(frozen=True)
class Entry:
    """A figure or a table of the paper, or one that it should have had."""

    id: str
    title: str
    reference: str
    runs: tuple[Run, ...]
    measure: Callable[[Entry, Context], Measured]
    draw: Callable[[Measured], Figure]
    claims: tuple[Claim, ...]
    needs_data: bool = False


def worst(findings: list[Finding]) -> Verdict:
    """The verdict of an entry: the severest of its claims."""
    return max((finding.verdict for finding in findings), key=SEVERITY.__getitem__)


def judged(holds: bool, sentence: str, otherwise: Verdict = Verdict.REFUTED) -> Finding:
    """Confirmed if it holds."""
    return Finding(Verdict.CONFIRMED if holds else otherwise, sentence)
