"""What a question to a fleet promises to whoever is in a site's rows: a `Guarantee` for each protocol.

    pool         epsilon against everyone who sees the board: every site hides its rows by its own noise
    secure sum   epsilon against c keepers and c' sites together; computational; beyond c keepers a cliff

One person at up to s sites has a record at each of them: in a pool s releases, whose costs add up, in a
secure sum one release whose sum s records move. Either way pure noise costs s epsilon, and the unit says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from veilsum._numbers import upward
from veilsum._statistic import Statistic
from veilsum.asking.promise import TableUnit
from veilsum.errors import FleetError
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.release_rules import SECURE_SUM
from veilsum.fleet.secure_sum.numbers import SumNumbers
from veilsum.privacy.guarantee import Adversary, Guarantee, Noise, RunReleases, Sees
from veilsum.privacy.laws import SkellamCost
from veilsum.privacy.secure import COMPUTATIONAL

DERIVED = (
    "bits that a secret seed of the site gives by SHA-256 and ChaCha20, as random as these are"
)


@dataclass(frozen=True)
class BoardReaders(Adversary):
    """Everyone to whom the store shows the posts."""

    def __str__(self) -> str:
        """Of a promise."""
        return "everyone who sees the board, the store and all other sites among them"


def guarantee_of(question: FleetQuestion, numbers: SumNumbers | None = None) -> Guarantee:
    """What is promised by one answer.

    >>> from veilsum.fleet.question import Worded
    >>> count = Worded("count", ())
    >>> found = guarantee_of(FleetQuestion(asks=(count,), epsilon=0.5, protocol="pool", sites_per_person=2))
    >>> found.epsilon, str(found.unit)
    (1.0, 'the records of one person at up to 2 sites, one row at each, replaced by any other')
    """
    if question.protocol != SECURE_SUM:
        return _pool(question)
    if numbers is None:
        raise FleetError(
            "the promise of a secure sum needs its numbers: `SumNumbers` of the membership"
        )
    return _secure_sum(question, numbers)


def _pool(question: FleetQuestion) -> Guarantee:
    moved = _moved(question)
    epsilon, delta = question.for_person
    return Guarantee(
        epsilon, delta, _unit(question), BoardReaders(Sees.EVERYONE), moved.status,
        f"each site adds noise drawn exactly, in integers, from {DERIVED}, to sums to which a record adds a "
        f"bounded vector: {moved.reason}",
        runs=(RunReleases(question.event, times=question.sites_per_person),), noise=Noise.EXACT,
    )  # fmt: skip


def _secure_sum(question: FleetQuestion, numbers: SumNumbers) -> Guarantee:
    moved = _moved(question)
    epsilon, delta = question.for_person
    event = question.event.times(question.sites_per_person)
    return Guarantee(
        epsilon, delta, _unit(question),
        Adversary(Sees.KEEPERS, colluders=numbers.corrupt, keepers=numbers.colluding), moved.status,
        f"keepers see random numbers and open one sum a query, in which the noise of at least "
        f"{numbers.honest} honest sites is what a trusted server would add, drawn exactly, in integers: "
        f"{moved.reason}",
        runs=(RunReleases(event),), noise=Noise.EXACT, assumes=COMPUTATIONAL,
        caveat=_beyond(question, numbers),
    )  # fmt: skip


def _unit(question: FleetQuestion) -> TableUnit:
    one, sites = question.settled().unit, question.sites_per_person
    what = f"{one} of one site"
    if sites > 1:
        what = f"the records of one person at up to {sites} sites, {one} at each"
    return TableUnit(math.inf, steps=1, what=what)


def _moved(question: FleetQuestion) -> Statistic:
    """The statistic of the least status."""
    statistics = [one.question.statistic for one in question.settled().asked]
    return max(statistics, key=lambda one: one.status.rank)


def _beyond(question: FleetQuestion, numbers: SumNumbers) -> str:
    """What becomes of it where more collude than are covered."""
    more = 2 * numbers.corrupt if numbers.corrupt else 1
    honest = max(numbers.honest - (more - numbers.corrupt), 1)
    found = epsilon_at(question, Fraction(honest, numbers.honest))
    then = (
        "no number holds" if math.isinf(found) else f"epsilon would be {upward(found, 3)} a query"
    )
    return (
        f"beyond {numbers.colluding} of the {numbers.keepers} keepers is a cliff: two sums of one query may "
        f"be opened, and {numbers.threshold} keepers together read the vector of every site, nearly raw; if "
        f"{more} sites pooled their values in place of {numbers.corrupt}, {then}"
    )


def epsilon_at(question: FleetQuestion, unknown: Fraction) -> float:
    """What one person's records cost where the adversary knows all but that part of the noise, such as 0.9.

    Below a half it depends on the grid of the question.
    """
    parameter, many = question.event.parameter, question.sites_per_person
    if isinstance(parameter, tuple):
        variance, l1, l2 = parameter
        return SkellamCost(variance * float(unknown), many * l1, many * l2).epsilon(
            question.event.delta
        )
    total = 0.0
    for one in question.settled().asked:
        noise = one.noises[0]
        l1, l2 = one.unit.statistic(one.question.statistic).steps(noise.step)
        total += noise.law.part(unknown).epsilon(many * l1, many * l2, one.question.dimension)
    return total
