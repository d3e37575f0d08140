"""How readings leave an agent in masked sums: the readings of a batch are its part in one query.

    [spool: the batch] --> ledger.begin_query (budget for all attempts) --> Contribute --> protocol
    ConcludeQuery --> ledger.conclude_query --> the spool is emptied, the source acknowledged

Query k is the k-th batch; where each reading is a batch of its own, the k-th reading. One query is
open at a time, and no reading is taken while it is: readings wait at their source, or in a spool that
survives a restart. A batch without a reading, or without a budget, is a query in which this member
takes no part; the result of the others is found all the same. A query that the others concluded
before this member had its batch complete passes its readings over.
"""

from __future__ import annotations

from veilsum.agents.events import (
    AgentReport,
    ConcludeQuery,
    Contribute,
    NoMoreReadings,
    SkipReading,
)
from veilsum.agents.manifest import Manifest
from veilsum.agents.masked.actions import STOPPED
from veilsum.agents.release import ContributionMechanism
from veilsum.agents.runtime.hosted import HostedAgent
from veilsum.agents.runtime.observability import Observability
from veilsum.agents.runtime.query_ledger import QueryLedger
from veilsum.agents.runtime.recovery import Recovery, TakenReading
from veilsum.agents.runtime.releases import Perform, batches_of, origins_of, signals_of
from veilsum.agents.runtime.spool import NO_SLOT, SpooledReading


class MaskedQueries:
    """Parts in masked sums.

    Parameters
    ----------
    manifest : Manifest
        The terms of the network.
    observability : Observability
        Where the budget, and readings that are in no sum, are reported.
    perform : callable
        Carries out an agent's actions.
    """

    spools_all: bool

    def __init__(self, manifest: Manifest, observability: Observability, perform: Perform) -> None:
        """No query is open yet."""
        self.manifest, self.observability, self._perform = manifest, observability, perform
        self.spools_all = True
        self._batches, self._online = batches_of(manifest), manifest.made_algorithm.online
        self._last = manifest.queries
        self._ends = [0]  # numbers with which queries 0, 1, ... end

    def closing(self, query: int) -> int:
        """The number of the last reading of a query."""
        while len(self._ends) <= query:
            self._ends.append(self._batches.closing(self._ends[-1] + 1))
        return self._ends[query]

    def query_of(self, number: int) -> int:
        """The query that a reading is in."""
        return self._batches.count(number)

    def resume(self, agent: HostedAgent) -> None:
        """Concluded queries count; the readings of an open one are needed again."""
        sessions = sessions_of(agent)
        agent.last_release = self.closing(sessions.last_query)
        if any(agent.ledger.has_origin(origin) for origin in agent.spool.origins if origin):
            agent.spool.clear(agent.last_release)  # sent in a run that other terms have ended
        own = self.manifest.labels.index(agent.label)
        for summed in sessions.concluded():
            if own in summed.members:
                agent.counts.released += summed.readings[summed.members.index(own)]
        opened = sessions.open_query()
        if opened is None:
            return
        agent.recovery = Recovery(opened, agent.label)
        for record in agent.spool.records:
            value = record.value if len(record.value) > 1 else record.value[0]
            taken = TakenReading(value, record.position, record.origin, None)
            agent.recovery.offer(taken, keyed=False)
        if not agent.recovery.complete and agent.spool.records:
            agent.spool.clear(agent.last_release)

    def counts_places(self, agent: HostedAgent) -> bool:
        """Not after an earlier run, of which readings were taken: queries begin with 1 in each."""
        return not sessions_of(agent).continued

    def decided(self, agent: HostedAgent) -> int:
        """Numbers of concluded queries."""
        return self.closing(agent.protocol.round)

    def needs_reading(self, agent: HostedAgent) -> bool:
        """While no query is open, and there is a further one."""
        if agent.query:
            return False
        following = max(agent.protocol.round, self.query_of(agent.last_reading)) + 1
        if agent.recovery is not None:
            return True
        if not self._online:
            return agent.protocol.round < 1 and agent.last_reading < 1
        if self._awaited(agent):
            return False
        return self._last == 0 or following <= self._last or bool(agent.spool.records)

    def _awaited(self, agent: HostedAgent) -> bool:
        """Whether a query in which this member takes no part is not concluded yet."""
        whole = agent.last_reading
        skipped = whole and self._batches.closing(whole) == whole
        return bool(skipped) and self.query_of(whole) > agent.protocol.round

    def release(self, agent: HostedAgent, number: int, taken: TakenReading) -> None:  # noqa: ARG002
        """Every reading waits in the spool until its query is concluded."""
        raise AssertionError("readings of a masked sum go through the spool")

    def release_batch(self, agent: HostedAgent, number: int) -> None:
        """Reserve the budget of all attempts, then take part; raises `BudgetExceeded`."""
        mechanism, records, query = _mechanism(agent), agent.spool.records, self.query_of(number)
        if query == agent.query:
            return  # it has begun, and its readings wait for its end
        if query <= agent.protocol.round:
            self._settle(agent, query, "was concluded before this member had its readings")
            return
        contribution = mechanism.contribution(query, signals_of(agent))
        sessions_of(agent).begin_query(
            query,
            mechanism.event(),
            mechanism.terms.attempts,
            readings=len(records),
            last=records[-1].position,
            origins=origins_of(records),
        )
        agent.query = query
        self.observability.budget(agent.label, agent.ledger)
        self._perform(agent, agent.protocol.handle(Contribute(contribution)))

    def skip(self, agent: HostedAgent, number: int) -> None:
        """A batch without a reading: the member takes no part in its query."""
        if self._online and self._batches.closing(number) == number:
            query = self.query_of(number)
            self._perform(agent, agent.protocol.handle(SkipReading(query)))

    def no_more(self, agent: HostedAgent) -> None:
        """Once the open query is concluded, there is no further one."""
        if not agent.query:
            self._perform(agent, agent.protocol.handle(NoMoreReadings()))

    def collect(self, agent: HostedAgent) -> bool:
        """Take part again in an open query, if all of its readings are found."""
        recovery = agent.recovery
        if recovery is None or not recovery.complete:
            return False
        end = self.closing(recovery.query)
        if not agent.spool.records:
            found = recovery.found()
            for k, taken in enumerate(found):
                value = taken.value if isinstance(taken.value, tuple) else (taken.value,)
                number = end - len(found) + 1 + k
                agent.spool.append(
                    SpooledReading(number, taken.position, NO_SLOT, taken.origin, value)
                )
        agent.last_reading = max(agent.last_reading, end)
        agent.position = max(agent.position, recovery.last)
        self._end_recovery(agent)
        self.release_batch(agent, end)
        return True

    def give_up(self, agent: HostedAgent) -> None:
        """The readings of an open query are gone: no further part in it."""
        assert agent.recovery is not None
        query = agent.recovery.query
        self._end_recovery(agent)
        agent.last_reading = max(agent.last_reading, self.closing(query))
        self._report(
            agent,
            f"the readings of query {query} are no longer at their source: this member takes no "
            "further part in it; what it has sent stays valid",
        )
        self._perform(agent, agent.protocol.handle(SkipReading(query)))

    @staticmethod
    def _end_recovery(agent: HostedAgent) -> None:
        recovery, agent.recovery = agent.recovery, None
        for taken in recovery.others if recovery is not None else ():
            agent.position += 1
            agent.waiting.append(taken._replace(position=agent.position))

    def conclude(self, agent: HostedAgent, action: ConcludeQuery) -> None:
        """A query is over: store it, then settle its readings."""
        if action.reason in STOPPED:
            return
        sessions = sessions_of(agent)
        known = action.query <= sessions.last_query  # the sum of an earlier attempt came late
        sessions.conclude_query(action.query, action.reason, action.summed)
        if known:
            return
        self.observability.budget(agent.label, agent.ledger)
        own, summed = self.manifest.labels.index(agent.label), action.summed
        if summed is not None and own in summed.members:
            agent.counts.released += summed.readings[summed.members.index(own)]
            self._settle(agent, action.query)
        else:
            why = "has no sum" if summed is None else "was summed without this member"
            self._settle(agent, action.query, why)
        if agent.recovery is not None and agent.recovery.query <= action.query:
            self._end_recovery(agent)
        if agent.input_ended or action.query == self._last:
            self._perform(agent, agent.protocol.handle(NoMoreReadings()))

    def _settle(self, agent: HostedAgent, query: int, lost: str = "") -> None:
        """The readings of a query are done with: in its sum, or in none."""
        records, end = agent.spool.records, self.closing(query)
        if records and lost:
            agent.counts.passed_over += len(records)
            if agent.query != query:  # otherwise the ledger has them with their query
                origins = [record.origin for record in records] if agent.readings.keyed else []
                agent.passed = max(agent.passed, records[-1].position)
                agent.ledger.pass_over(agent.passed, origins)
            self._report(agent, f"query {query} {lost}: {len(records)} readings are in no sum")
        if records:
            agent.spool.clear(max(end, agent.last_release))
            if not agent.spool.durable:
                agent.readings.acknowledge()
        agent.query = 0
        agent.last_release = max(agent.last_release, end)
        agent.last_reading = max(agent.last_reading, end)

    def _report(self, agent: HostedAgent, text: str) -> None:
        report = AgentReport("readings", agent.protocol.round, "", text)
        self.observability.report(agent.label, report)


def sessions_of(agent: HostedAgent) -> QueryLedger:
    """The queries of an agent."""
    assert agent.sessions is not None, "a masked sum has a ledger of its sessions"
    return agent.sessions


def _mechanism(agent: HostedAgent) -> ContributionMechanism:
    found = agent.release_mechanism
    assert isinstance(found, ContributionMechanism), "a masked sum has a contribution mechanism"
    return found
