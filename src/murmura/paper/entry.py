"""What an entry of the reproduction is: runs, what is measured of them, a drawing and claims.

    runs --measure--> Measured (tables) --draw--> figure
                                        --check--> Finding: verdict and a sentence with the numbers

Drawings read what was measured and compute nothing, so that the tables hold every plotted number.

A verdict never depends on the seed. Checks read expected errors, which are exact (`expected`);
where there are none, what is measured is so far from the line, or repeated so often, that the
chance of another verdict is below 1e-6, and the check says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from murmura.theory.verdict import Verdict as Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from murmura.paper.settings import Run

Tables = Mapping[str, Any]  # name -> pandas.DataFrame; "" is the main one

SEVERITY = {Verdict.CONFIRMED: 0, Verdict.CORRECTED: 1, Verdict.REFUTED: 2}
LEAST = Verdict.CONFIRMED


class Origin(StrEnum):
    """Whose statement it is."""

    PAPER = "paper"
    MURMURA = "murmura"


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
    """A statement, and the check that turns numbers into a finding.

    A statement of the paper comes with its words there (`quote`, as the source of the paper has
    them); one without a quote is murmura's own. A heading states nothing and is no quote.
    """

    statement: str
    check: Callable[[Measured], Finding]
    quote: str = ""

    @property
    def origin(self) -> Origin:
        """The paper's if it is quoted, else ours."""
        return Origin.PAPER if self.quote else Origin.MURMURA


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
    runs: tuple[Run, ...]  # none where everything is worked out without sampling
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


def counts(findings: Iterable[Mapping[str, str]]) -> dict[Origin, dict[Verdict, int]]:
    """How many statements fared how, the paper's apart from ours.

    A statement of the paper is its quote, one of ours its words: tried on two networks, or under
    two schemes, it is still one statement, and its worst verdict counts.
    """
    fared: dict[tuple[str, str], Verdict] = {}
    for each in findings:
        key = each["origin"], each["quote"] or each["statement"]
        fared[key] = max(fared.get(key, LEAST), Verdict(each["verdict"]), key=SEVERITY.__getitem__)
    found = Counter((origin, verdict) for (origin, _), verdict in fared.items())
    return {o: {v: found[str(o), v] for v in Verdict} for o in Origin}


def tally(findings: Iterable[Mapping[str, str]]) -> list[str]:
    """A sentence for the paper's statements and one for ours."""
    whose = {Origin.PAPER: "Statements of the paper", Origin.MURMURA: "Statements of our own"}
    return [
        f"{whose[origin]}: " + ", ".join(f"{count} {verdict}" for verdict, count in each.items())
        for origin, each in counts(findings).items()
    ]
