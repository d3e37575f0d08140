"""What a release of answers promises: a `Guarantee` about one row, or all rows of one id, of a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from veilsum.privacy.guarantee import Adversary, Guarantee, Noise, RunReleases, Sees, Unit

if TYPE_CHECKING:
    from veilsum.asking.engine import Reply


@dataclass(frozen=True)
class TableUnit(Unit):
    """What may be replaced by anything in a table.

    Parameters
    ----------
    what : str
        Such as "one row of households.csv".
    """

    what: str = ""

    def __str__(self) -> str:
        """Of a promise."""
        return f"{self.what}, replaced by any other"


@dataclass(frozen=True)
class Readers(Adversary):
    """Everyone who sees what is published; whoever holds the table sees all of it anyway."""

    def __str__(self) -> str:
        """Of a promise."""
        return "everyone who sees what is published"


def guarantee_of_reply(reply: Reply) -> Guarantee:
    """What is promised to whoever is in the table, by the answers of one release.

    Parameters
    ----------
    reply
        Of `asking.ask`.

    Returns
    -------
    Guarantee
        Of the least status among its questions.
    """
    if reply.promise is not None:
        return reply.promise
    statistics = [one for question in reply.questions for one in question.stage_statistics]
    worst = max(statistics, key=lambda one: one.status.rank)
    return Guarantee(
        reply.event.epsilon, reply.event.delta,
        TableUnit(math.inf, steps=1, what=f"{reply.unit} of {reply.table}"),
        Readers(Sees.EVERYONE), worst.status,
        f"noise drawn exactly, in integers, on sums to which a record adds a bounded vector: {worst.reason}",
        runs=(RunReleases(reply.event),), noise=Noise.EXACT,
    )  # fmt: skip
