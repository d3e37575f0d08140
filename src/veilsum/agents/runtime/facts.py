"""What a hosted agent is at the moment, read off its protocol and its ledger: public facts only."""

from __future__ import annotations

from typing import NamedTuple

from veilsum.agents.coverage import Coverage
from veilsum.agents.runtime.hosted import HostedAgent
from veilsum.agents.runtime.metrics import OUTCOMES


class BudgetFacts(NamedTuple):
    """What an agent may spend.

    Parameters
    ----------
    epsilon : float
        The budget.
    spent : float
        The most in one unit of it: in total or in this period, in a window, on a reading.
    spent_in_all : float
        What all releases cost together.
    remaining : float
        What the next reading may cost.
    reserved : float
        What an open query may still cost; it is not in `spent`, and not in `remaining`.
    unit, period : str
        What it is for: "stream", "window" or "event", and how long until it refills, or nothing.
    refills_at : float or None
        When a spent budget refills, in seconds of the epoch.
    """

    epsilon: float
    spent: float
    spent_in_all: float
    remaining: float
    reserved: float
    unit: str
    period: str
    refills_at: float | None


class SessionFacts(NamedTuple):
    """How far an agent is in masked sums; public.

    Parameters
    ----------
    query : int
        The query in which it takes part, or the last one that is concluded; 0 before the first.
    attempt, view : int
        Of its session there, from 1, or of the one that was summed; 0 where there is none.
    stage : str
        "waiting", "opened", "prepared", "sent", "withdrawn" or "concluded".
    records, bytes_sent : int
        Signed records that it holds, and bytes of records, names and digests that it sent.
    """

    query: int
    attempt: int
    view: int
    stage: str
    records: int
    bytes_sent: int


def session_of(agent: HostedAgent) -> SessionFacts | None:
    """The present session of an agent; None without masked sums."""
    if agent.sessions is None:
        return None
    held = getattr(agent.protocol, "records_held", 0)
    return SessionFacts(*stage_of(agent), held, agent.bytes_sent)


def stage_of(agent: HostedAgent) -> tuple[int, int, int, str]:
    """Query, attempt, view and stage of the present session, as in `SessionFacts`.

    Of a query that is concluded they are those of the session that was summed.
    """
    sessions = agent.sessions
    if sessions is None:
        return 0, 0, 0, ""
    entries = sessions.entries(agent.query) if agent.query else ()
    if entries:
        last = entries[-1]
        return agent.query, last.attempt + 1, last.view + 1, last.stage.value
    if agent.query or not sessions.last_query:
        return agent.query, 0, 0, "waiting"
    summed = getattr(agent.protocol, "last_sum", None)
    place = (summed.attempt + 1, summed.view + 1) if summed is not None else (0, 0)
    return sessions.last_query, *place, "concluded"


def coverage_of(agent: HostedAgent) -> Coverage:
    """Whose readings are in the agent's estimate."""
    return agent.protocol.coverage if agent.done is None else agent.done.coverage


def budget_of(agent: HostedAgent) -> BudgetFacts | None:
    """What may be spent and when it refills; None without a guarantee."""
    if agent.ledger.identity.budget is None:
        return None
    now = agent.ledger.budget_status()
    return BudgetFacts(
        now.epsilon, now.spent.epsilon, now.spent_in_all.epsilon, now.remaining.epsilon,
        now.reserved.epsilon, now.unit, now.period, now.refills_at,
    )  # fmt: skip


def readings_of(agent: HostedAgent) -> dict[str, int]:
    """What became of the agent's readings: counts by outcome."""
    return {name: int(getattr(agent.counts, name.replace("-", "_"))) for name in OUTCOMES}


def last_reading_time(agent: HostedAgent) -> float | None:
    """When the agent last took a reading: in this start, or released one before it."""
    found = agent.counts.last_at
    return agent.ledger.last_release_time() if found is None else found
