"""The sheet of a question that a fleet answered: that of a table, with whom it covers and its promise.

Mean of kwh, 3 of 3 sites of north
300 rows, may be published

  12.05 ± 0.31 kWh
Proved: If one row of one site were any other, anything on the board is at most 2.72 times more likely ...
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from veilsum.asking.promise import guarantee_of_reply
from veilsum.front.odds import in_words
from veilsum.front.of_ask import of_ask, stem_of, title_of
from veilsum.front.words import STARTS, budget
from veilsum.privacy.guarantee import Sees

if TYPE_CHECKING:
    from veilsum.fleet.asking import FleetReply
    from veilsum.front.sheet import Answers
    from veilsum.privacy import Guarantee


def of_fleet_answer(found: FleetReply) -> Answers:
    """The sheet of an answered question.

    Parameters
    ----------
    found
        Of `fleet.asking`.

    Returns
    -------
    Answers
        As of `of_ask`.
    """
    reply = found.reply
    promise = guarantee_of_reply(reply)
    sheet = of_ask(reply)
    return replace(
        sheet,
        name=stem_of(found.fleet, [*map(title_of, reply.questions), reply.where]),
        warnings=tuple(text for text in sheet.warnings if text != str(promise)),
        notes=(*sheet.notes, str(promise)),
        about=_about(found),
        promises=(promised(promise),),
        legend=(_spent(found),),
        origin={key: _plain(value) for key, value in found.facts.items() if value},
    )


def _about(found: FleetReply) -> str:
    records = found.reply.records
    many = "number of rows private" if records is None else f"{records:,} rows"
    how = "secure sum" if found.answer.numbers is not None else "each site with its own noise"
    return f"{many}, {how}; may be published"


def promised(promise: Guarantee) -> str:
    """The promise in words."""
    odds = in_words(promise.epsilon, promise.delta)
    what = str(promise.unit).partition(", replaced")[0]
    start = f"{STARTS[promise.status]}: If {what} were any other, anything on the board is {odds}"
    seen = promise.adversary
    if seen.sees is not Sees.KEEPERS:
        return f"{start}, for the store and all other sites, too. Each site sees its own rows."
    return (
        f"{start}, as long as no more than {seen.keepers} of the keepers and {seen.colluders} of the sites "
        "pool what they know, and standard cryptography holds. Each site sees its own rows."
    )


def _spent(found: FleetReply) -> str:
    sites = len(found.answer.sites)
    return (
        f"Spent {budget(found.reply.event.epsilon)} epsilon of the own budget of each of {sites} "
        f"site{'' if sites == 1 else 's'}. Asking the same again costs nothing."
    )


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,g}" if isinstance(value, float) else str(value)
