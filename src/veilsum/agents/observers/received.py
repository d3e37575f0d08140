"""A status as an observer received it: every field has its type and size, or none of it is used.

A site may state whatever it likes of itself, but nothing that would break a table or a page: texts have
no control characters, which a terminal would obey.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from veilsum.errors import AgentError

MOST_ENTRIES = 100
SMALL, LARGE = 300, 8000  # characters

PLAIN = r"^[^\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]*$"  # nor the marks that turn text
SENTENCES = r"^[^\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]*$"  # lines, too

Label = Annotated[str, Field(max_length=SMALL, pattern=PLAIN)]
Text = Annotated[str, Field(max_length=LARGE, pattern=SENTENCES)]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Numbers = Annotated[list[Number | None], Field(max_length=MOST_ENTRIES)]
Names = Annotated[list[Label], Field(max_length=MOST_ENTRIES)]
Counts = Annotated[dict[Label, Count], Field(max_length=MOST_ENTRIES)]


class ReceivedTable(BaseModel):
    """What a site sent: no conversion of types; fields of a later version are dropped."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class ReceivedCoverage(ReceivedTable):
    """Whose readings are in the estimate."""

    members: Count
    present: Count
    contributing: Count
    readings: Count
    missing: Names
    absent: Names
    left: Names = []
    lost: Names = []
    former: Names = []
    draws: Count
    attempt: Count
    quorum: Count
    sentence: Text


class ReceivedBudget(ReceivedTable):
    """What may be spent."""

    epsilon: Number | None
    spent: Number | None
    spent_in_all: Number | None
    remaining: Number | None
    reserved: Number | None
    unit: Label
    period: Label
    refills_at: Number | None


class ReceivedSession(ReceivedTable):
    """How far a masked sum is."""

    query: Count
    attempt: Count
    view: Count
    stage: Label
    records: Count
    bytes_sent: Count


class ReceivedStatus(ReceivedTable):
    """The fields of `AgentStatus.public()`."""

    agent: Label
    network: Label
    manifest: Label
    round: Count
    reason: Label
    estimate: Numbers
    half_width: Numbers
    sampling: Numbers | None
    confidence: Number
    coverage: ReceivedCoverage
    epsilon: Number | None
    delta: Number
    guarantee: Text
    attempts: Count
    epoch: Count = 1
    complete: bool
    state: Label
    ready: bool
    readings: Counts
    budget: ReceivedBudget | None
    links: Annotated[dict[Label, Label], Field(max_length=MOST_ENTRIES)]
    session: ReceivedSession | None
    unit: Label
    last_reading: Number | None
    certificate_days: Number | None
    time: Number
    version: Label
    withheld: Names
    left_out: Counts


def checked_status(text: str) -> dict[str, Any]:
    """A status from the text of a `StatusMessage`.

    Parameters
    ----------
    text : str
        JSON.

    Returns
    -------
    dict
        The fields of `AgentStatus.public()`, each of its type and of bounded size.

    Raises
    ------
    AgentError
        If it is no status; the reason names the field and quotes nothing.

    Examples
    --------
    >>> checked_status("[1, 2]")
    Traceback (most recent call last):
    ...
    veilsum.errors.AgentError: its status cannot be used: not a table of fields
    """
    try:
        data = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise AgentError("its status cannot be used: not JSON") from None
    if not isinstance(data, dict):
        raise AgentError("its status cannot be used: not a table of fields")
    try:
        made = ReceivedStatus.model_validate(data)
    except ValidationError as problem:
        first = problem.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"][:2])[:SMALL] or "status"
        raise AgentError(f"its status cannot be used: field {place!r}: {first['msg']}") from None
    if len(made.estimate) != len(made.half_width) or None in made.estimate:
        raise AgentError("its status cannot be used: an estimate without its interval")
    return made.model_dump()


def _refuse(_: str) -> NoReturn:
    raise ValueError
