"""The page to sign for a fleet: what a site's own files and its copy of the board say, before it agrees.

Its sentences are in front/templates/sign/fleet.html; here are the numbers in them. No reading is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veilsum._numbers import upward
from veilsum.errors import CommandError
from veilsum.fleet.answers import Posted, questions_on
from veilsum.fleet.consent import columns_of
from veilsum.fleet.membership import KEEPER, SITE, Membership
from veilsum.fleet.post import short
from veilsum.fleet.promise import guarantee_of
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.release_rules import SECURE_SUM
from veilsum.fleet.seat import Seat
from veilsum.fleet.secure_sum.numbers import SumNumbers
from veilsum.fleet.site import Site
from veilsum.fleet.sum_posts import numbers_of
from veilsum.front.odds import believed, in_words
from veilsum.front.page import page as rendered
from veilsum.privacy import Guarantee
from veilsum.results.describe import versions

PRIORS = (0.5, 0.1, 0.01)


@dataclass(frozen=True)
class SignedQuestion:
    """A question as the page states it.

    Parameters
    ----------
    posted : Posted
        The question, and who asks.
    guarantee : Guarantee
        Of one answer.
    numbers : SumNumbers, optional
        Of a secure sum.
    """

    posted: Posted
    guarantee: Guarantee
    numbers: SumNumbers | None

    @classmethod
    def of(cls, posted: Posted, membership: Membership) -> SignedQuestion:
        """With what it promises in this membership."""
        summed = posted.question.protocol == SECURE_SUM
        numbers = numbers_of(membership) if summed else None
        return cls(posted, guarantee_of(posted.question, numbers), numbers)

    @property
    def question(self) -> FleetQuestion:
        """What is asked."""
        return self.posted.question

    @property
    def reads(self) -> str:
        """Which columns."""
        return ", ".join(columns_of(self.question)) or "no column, only how many records there are"

    @property
    def digest(self) -> str:
        """Of the question, whole."""
        return self.posted.terms.hex()

    @property
    def beliefs(self) -> list[tuple[str, str]]:
        """What somebody who believed so much believes afterwards at most."""
        epsilon = self.guarantee.epsilon
        return [(f"{prior:.0%}", believed(epsilon, prior)) for prior in PRIORS]


def fleet_page(folder: Path, prefix: str = "") -> str:
    """The page for the questions on a site's boards, or for one of them.

    Parameters
    ----------
    folder
        Of the site.
    prefix
        First digits of the question's digest; all questions without it.

    Returns
    -------
    str
        HTML that fetches nothing and runs nothing.
    """
    with Site(folder) as site:
        seats = [(seat, _questions(seat, prefix)) for seat in site.seats.values()]
        if prefix and not any(found for _, found in seats):
            raise CommandError(
                f"no question that begins with {prefix} is on the boards of {folder}; veilsum fleet inbox "
                "lists them"
            )
        budget, data = site.config.budget, site.data
        spent = None if data is None else site.ledger.spent(data.source)
        return rendered(
            "sign/fleet.html",
            f"{site.config.name}: what it reveals at most",
            site=site.config.name, budget=budget, spent=spent, policy=site.config.policy,
            seats=[_seat(seat, found) for seat, found in seats], versions=versions(), odds=in_words,
            upward=upward, count="{:,}".format,
        )  # fmt: skip


def _questions(seat: Seat, prefix: str) -> Sequence[SignedQuestion]:
    membership = seat.membership
    return [
        SignedQuestion.of(posted, membership)
        for posted in questions_on(seat.board)
        if posted.terms.hex().startswith(prefix.lower())
    ]


def _seat(seat: Seat, questions: Sequence[SignedQuestion]) -> dict[str, Any]:
    membership = seat.membership
    return {
        "name": seat.name,
        "address": seat.stores[0].address,
        "authority": seat.fleet.hex(),
        "epoch": membership.number,
        "membership": membership.digest.hex(),
        "sites": len(membership.having(SITE)),
        "keepers": len(membership.having(KEEPER)),
        "witnesses": membership.witnesses,
        "questions": questions,
        "key": short(seat.public),
        "summed": any(one.numbers is not None for one in questions),
        "pooled": any(one.numbers is None for one in questions),
    }
