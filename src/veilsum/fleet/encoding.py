"""From a site's rows to a vector of whole numbers, and from the noised sum over sites to answers.

    rows ── encode ──> steps + noise ── sum over sites ──> decode ──> answers ── reply ──> screens and pages

A site encodes and adds up all of its rows in one pass (`asking.engine.totals`): whole numbers, so that the
sum over sites is what one table of all rows would have, to the last step, however rows are split. Units are
those of one site: one row, or all rows that have one id *there*.

`decode` sees the noised sum, public numbers, and how many draws of the question's noise are in it: m of a
pool of m sites, |F|/h of a secure sum. The law of so many draws is exact (`Law.part`); discrete Gaussian
draws do not add up to one, and their sum is taken as the discrete Gaussian of m times the variance, which
differs by about e^(-pi^2 v) a draw (`Law.summed`), as in forecasts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from veilsum.asking.by_id import IdCodes
from veilsum.asking.codebook import Coded
from veilsum.asking.engine import Reply, notes_of, released, totals
from veilsum.asking.forecasting import at_sites
from veilsum.asking.tables import open_table
from veilsum.errors import FleetError
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.release_rules import TAIL
from veilsum.privacy.guarantee import Guarantee
from veilsum.questions import Decoded

if TYPE_CHECKING:
    from veilsum.asking.codebook_contents import Codebook

OWN_BUDGET = "each site's own budget"


@dataclass(frozen=True)
class EncodedSite:
    """What a site adds up, without noise: as secret as its rows, for memory alone."""

    steps: list[int]  # of all questions, in steps of their grids
    records: int  # units; 0 where that is private
    units: int = 0  # for the ledger of the site alone

    def __repr__(self) -> str:
        """Without a number of it."""
        return "EncodedSite(...)"


def encode(
    question: FleetQuestion, data: Any, *, decimal: str = ".", codebook: Codebook | None = None
) -> EncodedSite:
    """One pass over the rows of a site.

    >>> from veilsum.fleet.question import Worded
    >>> count = FleetQuestion(asks=(Worded("count", ()),), epsilon=1.0, protocol="pool")
    >>> encode(count, {"kwh": [1.0, 2.0, 3.0]}).steps
    [3]
    """
    table, settled = open_table(data, decimal), question.settled()
    if table.filtered and settled.rows_public:
        raise FleetError(
            f"{table.name} leaves rows out by a SELECT, so how many there are is private, and this question "
            "makes the number of records public: give the whole table, or ask with rows_public = false"
        )
    table.check(settled.view.names([one.question for one in settled.asked]))
    view = replace(settled.view, decimal=decimal)
    coded = table if codebook is None else Coded(table, codebook)
    vectors, units = totals(coded, view, settled.asked, IdCodes())
    if units > question.most_records:
        raise FleetError(
            f"{table.name} has more than the {question.most_records:,} records that this question takes "
            "from one site: ask with a larger most_records"
        )
    if not units and settled.rows_public:
        raise FleetError(f"{table.name} has no records: there is nothing to ask")
    steps = [int(step) for vector in vectors for step in vector]
    return EncodedSite(steps, units if settled.rows_public else 0, units)


def decode(
    question: FleetQuestion, steps: Sequence[int], records: int, draws: Fraction | int
) -> list[tuple[Decoded, ...]]:
    """The answers of each question: a function of the noised sum and public numbers.

    >>> from veilsum.fleet.question import Worded
    >>> count = FleetQuestion(asks=(Worded("count", ()),), epsilon=1.0, protocol="pool")
    >>> found = decode(count, [300], 0, draws=4)[0][0]
    >>> found.value, found.high - found.value
    (300.0, 5.0)
    """
    settled, found, start = question.settled(), [], 0
    if len(steps) != question.length:
        raise FleetError(
            f"the vector of {question.title()} has {question.length} components; found {len(steps)}"
        )
    for one, length in zip(settled.asked, question.lengths, strict=True):
        noised = replace(one, noises=(at_sites(one.noises[0], Fraction(draws)),))
        block = steps[start : start + length]
        found.append(one.question.conclude(released(noised, [block], records, settled)))
        start += length
    return found


def reply(
    question: FleetQuestion, steps: Sequence[int], records: int, draws: Fraction | int, *, who: str,
    promise: Guarantee, notes: Sequence[str] = (), codebook: Codebook | None = None,
) -> Reply:  # fmt: skip
    """The answers as `asking.ask` gives them, for screens, pages and tables."""
    settled, decoded = question.settled(), decode(question, steps, records, draws)
    questions = [one.question for one in settled.asked]
    said = notes_of(settled, decoded, records)
    if codebook is not None:
        pairs = zip(questions, decoded, strict=True)
        decoded = [codebook.with_units(*pair) for pair in pairs]
    whole = settled.rows_public and not any(one.partial for one in questions)
    return Reply(
        table=who, records=records if whole else None, unit=settled.unit, questions=questions,
        decoded=decoded, shares=[float(one.share) for one in settled.asked], event=settled.event,
        epsilon_spent=settled.event.epsilon, epsilon_limit=settled.event.epsilon, budget=OWN_BUDGET,
        stored=False, notes=(*notes, *said, *_of_sites(question, promise)),
        population=settled.population, where=settled.where, delta_spent=settled.event.delta,
        promise=promise,
    )  # fmt: skip


def _of_sites(question: FleetQuestion, promise: Guarantee) -> list[str]:
    """What a fleet's answer says that one table's does not."""
    found = [str(promise)] if promise.assumes or question.sites_per_person > 1 else []
    if question.id is not None:
        found.append(f"A {question.id} of two sites counts at each of them.")
    return found


def far_limit(question: FleetQuestion, readings: int, draws: int) -> list[int]:
    """The steps beyond which no honest register is, for each component, but for a probability of 2^-60 each.

    What one record can add, times the records, and the tail of the noise: never the question's own bounds
    of an answer, at which an honest register would be clamped, and the mean biased.
    """
    many = readings if question.records_public else math.ceil(question.most_records * draws)
    tails = [law.summed(Fraction(draws)).tail(TAIL) for law in question.laws]
    each = [t for t, length in zip(tails, question.lengths, strict=True) for _ in range(length)]
    return [bound + tail for bound, tail in zip(question.bound(many), each, strict=True)]
