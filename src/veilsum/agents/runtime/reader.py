"""Takes readings from their source: which were taken before, which are new, and what identifies them."""

from __future__ import annotations

from collections.abc import Callable

from veilsum.agents.events import AgentReport
from veilsum.agents.ledger import ReadingOrigin
from veilsum.agents.readings import SourceState
from veilsum.agents.readings.base import HasBeginning
from veilsum.agents.runtime.hosted import HostedAgent
from veilsum.agents.runtime.observability import Observability
from veilsum.agents.runtime.recovery import TakenReading
from veilsum.errors import SignalError


class SourceReader:
    """Takes one reading after the other.

    Parameters
    ----------
    algorithm : str
        Its name, for messages.
    observability : Observability
        Where notices of the source are written.
    wall : callable
        Seconds since 1970.
    """

    def __init__(
        self, algorithm: str, observability: Observability, wall: Callable[[], float]
    ) -> None:
        """Nothing is taken yet."""
        self.algorithm, self.observability, self.wall = algorithm, observability, wall

    def take(self, agent: HostedAgent) -> TakenReading | SourceState | None:
        """The next reading, or why there is none; None for one that was taken before.

        Raises
        ------
        SignalError
            If it is not a number.
        """
        try:
            value = agent.readings.next()
        except SignalError:
            agent.position += not agent.readings.keyed
            agent.counts.taken += 1
            raise
        finally:
            self._report_notices(agent)
        if isinstance(value, SourceState):
            return value
        origin = agent.ledger.hash_origin(agent.readings.origin, agent.position + 1)
        if agent.readings.keyed and self._known(agent, origin):
            agent.counts.repeated += 1
            agent.readings.acknowledge()
            return None
        agent.position += 1
        if self._settled(agent):
            agent.counts.repeated += 1
            return None
        agent.counts.taken += 1
        agent.counts.last_at = self.wall()
        return TakenReading(value, agent.position, origin, agent.readings.observed_at)

    @staticmethod
    def _known(agent: HostedAgent, origin: str) -> bool:
        """Whether a reading was released or passed over, or waits in the open batch."""
        if agent.recovery is not None and agent.recovery.expects(origin):
            return False  # it is needed again
        return origin in agent.spool.origins or agent.ledger.has_origin(origin)

    @staticmethod
    def _settled(agent: HostedAgent) -> bool:
        """Whether a reading without a key was taken before a restart, for a query that is over.

        A restart goes back to the readings of an open query, and the others may conclude it before
        they are taken again.
        """
        before = agent.position <= agent.ledger.last_reading
        return before and agent.recovery is None and not agent.readings.keyed

    def skip_taken(self, agent: HostedAgent) -> None:
        """Skip readings that were released or wait in the spool, provided they are where they were.

        A row that differs from the one taken at its place was changed, or rows were inserted,
        reordered or removed before it; these cases cannot be distinguished.

        Raises
        ------
        SignalError
            If a reading is not where it was.
        """
        ledger, readings = agent.ledger, agent.readings
        waiting = {record.position: record.origin for record in agent.spool.records}

        def check(position: int, origin: ReadingOrigin) -> bool:
            hashed = ledger.hash_origin(origin, position)
            if origin.keyed:
                return self._known(agent, hashed)
            known = waiting.get(position) or ledger.origin_of(position)
            if known and known != hashed:
                raise SignalError(
                    f"reading {position} of agent {agent.label} is not the one that was taken from "
                    "this place: the source was rewritten, or readings were inserted, changed, "
                    "reordered or removed before it; nothing was released; give the agent the "
                    "readings it had and add new ones at the end"
                )
            return bool(known)

        ledger.set_naming(readings.naming)
        self._find_beginning(agent)
        readings.skip(agent.position, check)
        self._report_notices(agent)

    @staticmethod
    def _find_beginning(agent: HostedAgent) -> None:
        """Have the source find where its readings begin, and store it at the first start."""
        ledger, readings, stored = agent.ledger, agent.readings, agent.ledger.beginning
        if not isinstance(readings, HasBeginning) or (agent.position and not stored):
            return  # or a ledger of an earlier version, whose releases say where reading goes on
        found = readings.find_beginning(
            stored, lambda number, origin: ledger.hash_origin(origin, number)
        )
        if found != stored:
            ledger.set_beginning(found)

    def look_beyond(self, agent: HostedAgent) -> None:
        """Say once if the source has more readings than the one that an offline estimate takes."""
        try:
            more = agent.readings.next()
        except SignalError:
            more = 0.0
        if not isinstance(more, SourceState):
            text = f"the source has more readings; {self.algorithm} takes one and leaves the others"
            report = AgentReport("source", agent.protocol.round, "", text)
            self.observability.report(agent.label, report)

    def _report_notices(self, agent: HostedAgent) -> None:
        """What the source says of itself; never a reading."""
        for notice in agent.readings.notices():
            self.observability.log.write("source", agent.label, notice.text, level=notice.level)
