"""What a hosted agent is at the moment, read off its protocol and its ledger: public facts only."""

from __future__ import annotations

from typing import NamedTuple

from murmura.agents.coverage import Coverage
from murmura.agents.runtime.hosted import HostedAgent
from murmura.agents.runtime.metrics import OUTCOMES


class BudgetFacts(NamedTuple):
    """What an agent may spend.

    Parameters
    ----------
    epsilon : float
        The budget.
    spent, remaining : float
        Of it.
    unit, period : str
        What it is for: "stream", "window" or "event", and how long until it refills, or nothing.
    refills_at : float or None
        When a spent budget refills, in seconds of the epoch.
    """

    epsilon: float
    spent: float
    remaining: float
    unit: str
    period: str
    refills_at: float | None


def coverage_of(agent: HostedAgent) -> Coverage:
    """Whose readings are in the agent's estimate."""
    return agent.protocol.coverage if agent.done is None else agent.done.coverage


def budget_of(agent: HostedAgent) -> BudgetFacts | None:
    """What may be spent and when it refills; None without a guarantee."""
    ledger = agent.ledger
    budget = ledger.identity.budget
    if budget is None:
        return None
    now = ledger.budget_status()
    return BudgetFacts(
        now.epsilon, now.spent.epsilon, now.remaining.epsilon, now.unit, now.period, now.refills_at
    )


def readings_of(agent: HostedAgent) -> dict[str, int]:
    """What became of the agent's readings: counts by outcome."""
    return {name: int(getattr(agent.counts, name.replace("-", "_"))) for name in OUTCOMES}


def last_reading_time(agent: HostedAgent) -> float | None:
    """When the agent last took a reading: in this start, or released one before it."""
    found = agent.counts.last_at
    return agent.ledger.last_release_time() if found is None else found
