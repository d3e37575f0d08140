"""What a protocol asks of a question: which noise its sites can draw, and how large it may be.

    pool          each site draws all of a law: discrete Laplace or Gaussian, or Skellam if it is named
    secure-sum    each site draws the part 1/h of a law: discrete Laplace, or Skellam with a delta; Gaussian
                  noise on the integers has no parts

A person with a record at s sites: in a pool s releases, whose costs add up; in a secure sum one release,
whose sum all s records move.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from veilsum._registry import did_you_mean
from veilsum.errors import FleetError
from veilsum.privacy.accounting import PrivacyEvent, Release, spent
from veilsum.privacy.laws import Law
from veilsum.questions.noise import GAUSSIAN, LAPLACE, SKELLAM

if TYPE_CHECKING:
    from veilsum.fleet.question import FleetQuestion

POOL, SECURE_SUM = "pool", "secure-sum"
FIELD_BITS = 60  # of a sum in a secure sum, beside its sign (SECURE_SUM.md section 2)
TAIL = 2.0**-60  # probability of noise that reaches further than is reckoned with


class ReleaseRule(ABC):
    """What a protocol asks of a question; abstract, one for each protocol."""

    name: ClassVar[str]
    laws: ClassVar[tuple[str, ...]]  # among which a price chooses where the asker names none
    able: ClassVar[tuple[str, ...]]  # which the asker may name
    most_components: ClassVar[int]

    def chosen(self, noise: str | None) -> tuple[str, ...]:
        """The laws among which the price chooses."""
        if noise is None:
            return self.laws
        if noise not in self.able:
            raise FleetError(
                f"a question by {self.name} takes {' or '.join(self.able)} noise; found {noise!r}"
            )
        return (noise,)

    def check(self, question: FleetQuestion) -> None:
        """Raise for a question that this protocol cannot answer."""
        if question.length > self.most_components:
            raise FleetError(
                f"a question by {self.name} has at most {self.most_components:,} components; this one has "
                f"{question.length:,}: ask for fewer bins or groups, or in several questions"
            )

    @abstractmethod
    def for_person(self, event: PrivacyEvent, sites: int) -> tuple[float, float]:
        """(epsilon, delta) for a person who has a record at so many sites."""


class PoolRule(ReleaseRule):
    """Every site adds noise of its own: any law, and a release for each site that a person is at."""

    name: ClassVar[str] = POOL
    laws: ClassVar[tuple[str, ...]] = (LAPLACE, GAUSSIAN)
    able: ClassVar[tuple[str, ...]] = (LAPLACE, GAUSSIAN, SKELLAM)
    most_components: ClassVar[int] = 1 << 15

    def for_person(self, event: PrivacyEvent, sites: int) -> tuple[float, float]:
        """Releases with noise of their own: their costs add up."""
        total = spent([Release(event)] * sites)
        return total.epsilon, total.delta


class SecureSumRule(ReleaseRule):
    """Every site adds a share of one noise: a law that has parts, and a sum that fits the field."""

    name: ClassVar[str] = SECURE_SUM
    laws: ClassVar[tuple[str, ...]] = (LAPLACE, SKELLAM)
    able: ClassVar[tuple[str, ...]] = (LAPLACE, SKELLAM)
    most_components: ClassVar[int] = 4096

    def check(self, question: FleetQuestion) -> None:
        """Also that one site's sum fits; `check_room` says whether that of all does."""
        super().check(question)
        if question.schedule is not None:
            raise FleetError(
                "a secure sum is asked once; a question that repeats is a pool: --protocol pool"
            )
        if question.deadline is None:
            raise FleetError(
                "a secure sum names its sites after a deadline: state deadline, in UTC seconds"
            )
        check_room(question, sites=1)

    def for_person(self, event: PrivacyEvent, sites: int) -> tuple[float, float]:
        """One release, whose sum so many records move together."""
        found = event.times(sites)
        return found.epsilon, found.delta


RULES: Mapping[str, ReleaseRule] = {rule.name: rule for rule in (SecureSumRule(), PoolRule())}


def rule_of(protocol: str) -> ReleaseRule:
    """The rule of a protocol, or an error that lists them."""
    if protocol not in RULES:
        raise FleetError(
            f"there is no protocol {protocol!r}; {did_you_mean(protocol, RULES)}it is one of "
            f"{', '.join(RULES)}"
        )
    return RULES[protocol]


def check_room(question: FleetQuestion, sites: int) -> None:
    """Raise if the sum over so many sites, with its noise, may not fit the field of a secure sum.

    The rule is log2(sites) + log2(range of one site's sum in steps) + 2 <= 60, the range being twice the
    largest absolute value; noise has the rest.
    """
    largest = 2 * max(question.bound(question.most_records))
    tail = max(_tail(law, sites) for law in set(question.laws))
    room = 1 << (FIELD_BITS - 2)
    if tail > room:
        raise FleetError(
            f"noise for epsilon = {question.epsilon:g} does not fit {FIELD_BITS} bits: ask for more epsilon"
        )
    if sites * largest > room:
        many = "one site" if sites == 1 else f"{sites:,} sites"
        raise FleetError(
            f"the sum over {many} with up to {question.most_records:,} records each does not fit "
            f"{FIELD_BITS} bits: state most_records of at most "
            f"{room * question.most_records // (sites * largest):,}"
        )


@lru_cache(256)
def _tail(law: Law, sites: int) -> int:
    return law.summed(Fraction(sites)).tail(TAIL)


def noise_for(question: FleetQuestion, draws: Fraction | int = 1) -> tuple[Law, ...]:
    """What is drawn of each block's noise: all of it (a pool), or 1/h (a site of a secure sum)."""
    return tuple(law if draws == 1 else law.part(Fraction(draws)) for law in question.laws)
