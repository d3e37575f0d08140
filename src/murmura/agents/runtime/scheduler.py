"""When an agent takes a reading: the way of a reading from its source to the protocol.

    source --> ledger.charge (draws, commits) --> protocol

An agent's readings go to its release mechanism and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from murmura.agents.events import NoMoreReadings, Reading
from murmura.agents.ledger import ReadingOrigin
from murmura.agents.manifest import Manifest
from murmura.agents.runtime.hosted import HostedAgent
from murmura.agents.runtime.observability import Observability
from murmura.agents.runtime.readings import SourceState
from murmura.errors import SignalError
from murmura.privacy.accounting import BudgetExceeded

POLL = 0.05  # seconds between two looks at a source that had nothing
MOST_SKIPPED = 1000  # readings skipped before other agents have their turn
AT_ONCE = 0.0  # seconds until the next reading of an asynchronous agent


class ReadingScheduler:
    """Takes readings when an agent needs one, releases them and passes the releases on.

    Parameters
    ----------
    manifest : Manifest
        The terms of the network.
    observability : Observability
        Where unusable readings and an exhausted budget are reported.
    perform : callable
        Carries out an agent's actions.
    feed_later : callable
        Calls `feed` for an agent after so many seconds.
    """

    def __init__(
        self,
        manifest: Manifest,
        observability: Observability,
        perform: Callable[[HostedAgent, Iterable[Any]], None],
        feed_later: Callable[[HostedAgent, float], None],
    ) -> None:
        """Nothing is read yet."""
        self.manifest, self.observability = manifest, observability
        self.online = manifest.made_algorithm.online
        self._perform, self._feed_later = perform, feed_later

    def feed(self, agent: HostedAgent) -> None:
        """Take readings while the agent needs one; other agents have their turn in between.

        A source with a key may repeat a reading that was released: it is skipped.
        """
        skipped = 0
        while not agent.input_ended and self.needs_reading(agent):
            try:
                value = agent.readings.next()
            except SignalError as problem:
                agent.last_reading += 1
                self._unusable(agent, problem)
                continue
            if isinstance(value, SourceState):
                if value is SourceState.WAITING:
                    self._feed_later(agent, POLL)
                else:
                    self._no_more(agent)
                return
            origin = agent.ledger.hash_origin(agent.readings.origin, agent.last_reading + 1)
            if agent.readings.keyed and agent.ledger.has_origin(origin):
                skipped += 1
                if skipped % MOST_SKIPPED == 0:
                    self._feed_later(agent, AT_ONCE)
                    return
                continue
            self._release(agent, value, origin)
            if self.manifest.asynchronous:
                self._feed_later(agent, AT_ONCE)
                return

    @staticmethod
    def skip_released(agent: HostedAgent) -> None:
        """Skip the readings that were released, or raise if they are not where they were.

        A row that differs from the one released under its number was changed, or rows were
        inserted, reordered or removed before it; these cases cannot be distinguished.
        """

        def check(reading: int, origin: ReadingOrigin) -> None:
            known = agent.ledger.origin_of(reading)
            if known and known != agent.ledger.hash_origin(origin, reading):
                raise SignalError(
                    f"reading {reading} of agent {agent.label} is not the one that was released "
                    "under this number: the source was rewritten, or readings were inserted, "
                    "changed, reordered or removed before it; nothing was released; "
                    "give the agent the readings it had and add new ones at the end"
                )

        agent.ledger.set_naming(agent.readings.naming)
        agent.readings.skip(agent.last_reading, check)

    def needs_reading(self, agent: HostedAgent) -> bool:
        """One reading for an offline estimate, one ahead of each round for an online one.

        None before neighbours have sent what they remember of this agent, and all members that a
        result needs are present.
        """
        if not agent.protocol.gathered:
            return False
        if not self.online:
            return agent.last_reading < 1
        return self.manifest.asynchronous or agent.last_reading <= agent.protocol.round

    def _release(self, agent: HostedAgent, value: Any, origin: str) -> None:
        agent.last_reading += 1
        reading = agent.last_reading
        enters = max(reading, agent.protocol.round + 1)  # noise that grows must cover that round
        try:
            released = agent.release_mechanism.release(
                agent.ledger, reading, value, enters, origin=origin
            )
        except BudgetExceeded as problem:
            self.observability.log.write("budget", agent.label, str(problem))
            self._no_more(agent)
            return
        except SignalError as problem:
            self._unusable(agent, problem)
            return
        self.observability.budget(agent.label, agent.ledger, released=True)
        self._perform(agent, agent.protocol.handle(Reading(released)))

    def _unusable(self, agent: HostedAgent, problem: SignalError) -> None:
        """A reading cannot be released; where every round needs one, it was the last."""
        self.observability.log.write("reading", agent.label, str(problem))
        if self.manifest.hides_neighbours:
            self._no_more(agent)

    def _no_more(self, agent: HostedAgent) -> None:
        agent.input_ended = True
        self._perform(agent, agent.protocol.handle(NoMoreReadings()))
