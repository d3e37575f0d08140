"""How readings leave an agent with local noise: each, or the sum of a batch, is a release.

    reading --> ledger.charge (draws, commits) --> protocol

`ReleasePath` is what the scheduler asks of this way and of the other one (`queries`): when a reading is
needed, and what becomes of one, of a batch, and of a number without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from veilsum.agents.events import NoMoreReadings, Reading, Released, SkipReading
from veilsum.agents.manifest import Manifest
from veilsum.agents.release import ReleaseMechanism
from veilsum.agents.runtime.hosted import HostedAgent
from veilsum.agents.runtime.observability import Observability
from veilsum.agents.runtime.recovery import TakenReading
from veilsum.agents.runtime.spool import SpooledReading
from veilsum.privacy import Batches

Perform = Callable[[HostedAgent, Iterable[Any]], None]


class ReleasePath(Protocol):
    """The way from a reading to the protocol.

    Attributes
    ----------
    spools_all : bool
        Whether readings wait in the spool even where each is a batch of its own.
    """

    spools_all: bool

    def resume(self, agent: HostedAgent) -> None:
        """Read off the ledger how far the agent came: last release, readings in all of them."""

    def counts_places(self, agent: HostedAgent) -> bool:
        """Whether a number is a place in the source, where there is no schedule."""

    def decided(self, agent: HostedAgent) -> int:
        """The last number that the protocol no longer waits for."""

    def needs_reading(self, agent: HostedAgent) -> bool:
        """Whether a reading is to be taken now."""

    def release(self, agent: HostedAgent, number: int, taken: TakenReading) -> None:
        """Release one reading; raises `BudgetExceeded`, and then nothing has happened."""

    def release_batch(self, agent: HostedAgent, number: int) -> None:
        """Release the readings in the spool; raises `BudgetExceeded` likewise."""

    def skip(self, agent: HostedAgent, number: int) -> None:
        """A number goes without a reading."""

    def no_more(self, agent: HostedAgent) -> None:
        """There are no more readings."""


class LocalReleases:
    """Releases with local noise.

    Parameters
    ----------
    manifest : Manifest
        The terms of the network.
    observability : Observability
        Where the budget is shown.
    perform : callable
        Carries out an agent's actions.
    """

    spools_all: bool

    def __init__(self, manifest: Manifest, observability: Observability, perform: Perform) -> None:
        """Nothing is released yet."""
        self.manifest, self.observability, self._perform = manifest, observability, perform
        self.spools_all = False
        self._online = manifest.made_algorithm.online

    def resume(self, agent: HostedAgent) -> None:
        """All releases of the ledger."""
        released = agent.ledger.released()
        agent.last_release = max((r.reading for r in released), default=0)
        agent.counts.released = sum(r.weight >> self.manifest.unit for r in released)

    def counts_places(self, agent: HostedAgent) -> bool:  # noqa: ARG002 - of every agent
        """In all epochs: rounds begin anew with the releases that there are."""
        return True

    def decided(self, agent: HostedAgent) -> int:
        """Rounds that went without one before a restart."""
        return 0 if self.manifest.asynchronous else agent.protocol.round - 1

    def needs_reading(self, agent: HostedAgent) -> bool:
        """One reading for an offline estimate, one ahead of each round for an online one.

        None beyond the last round.
        """
        if self.manifest.asynchronous:
            return True
        if not self._online:
            return agent.last_release < 1
        last = self.manifest.rounds
        return agent.last_reading <= agent.protocol.round and not 0 < last <= agent.last_reading

    def release(self, agent: HostedAgent, number: int, taken: TakenReading) -> None:
        """Charge and commit, then pass the release on."""
        released = _mechanism(agent).release(
            agent.ledger,
            number,
            taken.value,
            self._enters(agent, number),
            origin=taken.origin,
            last=taken.position,
            slot=_slot(agent, number),
        )
        self._released(agent, released, 1)

    def release_batch(self, agent: HostedAgent, number: int) -> None:
        """Charge and commit the sum of the spool, empty it, then pass the release on."""
        records = agent.spool.records
        count = len(records)
        released = _mechanism(agent).release_sum(
            agent.ledger,
            number,
            signals_of(agent),
            self._enters(agent, number),
            origins=origins_of(records),
            last=records[-1].position,
            slot=_slot(agent, number),
        )
        agent.spool.clear(released.reading)
        if not agent.spool.durable:
            agent.readings.acknowledge()
        self._released(agent, released, count)

    def skip(self, agent: HostedAgent, number: int) -> None:
        """The round of this number proceeds without a release."""
        if self._online and not self.manifest.asynchronous:
            self._perform(agent, agent.protocol.handle(SkipReading(number)))

    def no_more(self, agent: HostedAgent) -> None:
        """The protocol proceeds with what there is."""
        self._perform(agent, agent.protocol.handle(NoMoreReadings()))

    def _enters(self, agent: HostedAgent, number: int) -> int:
        """The round in which a release enters at the latest: noise that grows must cover it."""
        return max(number, agent.protocol.round + 1)

    def _released(self, agent: HostedAgent, released: Released, count: int) -> None:
        agent.last_release = released.reading
        agent.counts.released += count
        self.observability.budget(agent.label, agent.ledger)
        self._perform(agent, agent.protocol.handle(Reading(released)))


def signals_of(agent: HostedAgent) -> list[Any]:
    """The readings in the spool, as a mechanism takes them."""
    single = not agent.release_mechanism.family.signal_shape
    return [record.value[0] if single else record.value for record in agent.spool.records]


def origins_of(records: Sequence[SpooledReading]) -> list[str]:
    """The origins of a batch by place; empty for a reading of the source that is not in it."""
    found = {record.position: record.origin for record in records}
    return [found.get(k, "") for k in range(records[0].position, records[-1].position + 1)]


def batches_of(manifest: Manifest) -> Batches:
    """The batches of a manifest."""
    return Batches(manifest.batch_growth, manifest.longest_batch)


def _slot(agent: HostedAgent, number: int) -> int | None:
    """The slot of a number; a restart continues from it, however late the release was made."""
    return None if agent.slots is None else agent.slots.slot(number)


def _mechanism(agent: HostedAgent) -> ReleaseMechanism:
    found = agent.release_mechanism
    assert isinstance(found, ReleaseMechanism), "local noise has a release mechanism"
    return found
