"""When an agent takes a reading: the way of a reading from its source to the protocol.

    source --> [slot] --> [spool: the open batch] --> ledger.charge (draws, commits) --> protocol

An agent's readings go to its release mechanism and nowhere else. Every number 1, 2, ... has at most
one reading, and where agents have rounds in common it is the round. A number is decided when its
reading is released, waits in the spool, was passed over, or its slot ended without one; of all but
the first the protocol is notified by `SkipReading`, and the round proceeds without a release.
Deadlines of messages decide nothing here: without a schedule the next reading is awaited however
long it takes.

A source is acknowledged once its reading is committed: released, passed over or in a spool that
survives a restart. What is passed over (surplus in a slot, or without a budget) is counted and
reported, and never released: the ledger stores its position, and its origin if the source has a
key, since such a source returns it again after a restart.

An unusable reading is not passed over: a source with a key may return it again after a restart,
corrected, and then it is a new reading. It has no position until then, so that the positions, which
budgets per window count, do not depend on how often it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from murmura.agents.events import (
    AgentReport,
    NoMoreReadings,
    Reading,
    Released,
    SkipReading,
)
from murmura.agents.ledger import ReadingOrigin
from murmura.agents.ledger.clock import MACHINE, SystemClock
from murmura.agents.manifest import Manifest
from murmura.agents.readings import SourceState
from murmura.agents.runtime.hosted import HostedAgent, TakenReading
from murmura.agents.runtime.observability import Observability
from murmura.agents.runtime.schedule import Phase, Place, SlotSchedule
from murmura.agents.runtime.spool import NO_SLOT, SpooledReading
from murmura.errors import LedgerError, SignalError
from murmura.privacy import Batches
from murmura.privacy.accounting import BudgetExceeded

POLL = 0.05  # seconds between two looks at a source that had nothing
LONGEST_POLL = 1.0  # the same with slots of minutes or more
RETRY = 5.0  # seconds until a spool that could not be written is tried again
MOST_TURNS = 1000  # readings passed over before other agents have their turn
AT_ONCE = 0.0  # seconds until the next reading of an asynchronous agent


class ReadingScheduler:
    """Takes readings when an agent needs one, releases them and passes the releases on.

    Parameters
    ----------
    manifest : Manifest
        The terms of the network.
    observability : Observability
        Where readings that are passed over and an exhausted budget are reported.
    perform : callable
        Carries out an agent's actions.
    feed_later : callable
        Calls `feed` for an agent after so many seconds.
    clocks : SystemClock
        Where the time comes from.
    """

    def __init__(
        self,
        manifest: Manifest,
        observability: Observability,
        perform: Callable[[HostedAgent, Iterable[Any]], None],
        feed_later: Callable[[HostedAgent, float], None],
        clocks: SystemClock = MACHINE,
    ) -> None:
        """Nothing is read yet."""
        self.manifest, self.observability, self.clocks = manifest, observability, clocks
        self.online = manifest.made_algorithm.online
        self.streaming = self.online or manifest.asynchronous  # more than one reading is taken
        self.batches = Batches(manifest.batch_growth, manifest.longest_batch)
        self.poll = min(max(manifest.every / 100, POLL), LONGEST_POLL)
        self._perform, self._feed_later = perform, feed_later

    def prepare(self, agent: HostedAgent, released: tuple[Released, ...]) -> None:
        """Continue where the ledger and the spool end: skip in the source what was taken.

        Parameters
        ----------
        agent : HostedAgent
            Before its protocol starts.
        released : tuple of Released
            All releases of its ledger.

        Raises
        ------
        SignalError
            If the readings that were taken are not where they were.
        """
        spool, unit = agent.spool, self.manifest.unit
        agent.last_release = max((r.reading for r in released), default=0)
        agent.last_reading = max([agent.last_release, *(r.number for r in spool.records)])
        agent.passed = agent.ledger.last_reading
        agent.position = max([agent.passed, *(r.position for r in spool.records)])
        if self.streaming and not self.manifest.every:  # a number is a place in the source
            agent.last_reading = max(agent.last_reading, agent.position)
        agent.counts.released = sum(r.weight >> unit for r in released)
        if not (self.batches.trivial or spool.durable):
            self._report(
                agent,
                "spool",
                "there is no device key to encrypt with: the readings of an open batch are in "
                "memory only, and their source is acknowledged when the batch is released",
            )
        if spool.lost:
            self._report(
                agent,
                "spool",
                f"the spool was removed with {spool.lost} readings that were not released; they "
                "are lost, unless their source still has them",
            )
        if any(map(agent.ledger.was_passed_over, spool.origins)):
            spool.clear(agent.last_release)  # a crash came before it was emptied
        self._skip_taken(agent)

    def feed(self, agent: HostedAgent) -> None:
        """Take readings while the agent needs one; other agents have their turn in between."""
        if agent.input_ended:
            self._pace(agent)
            return
        if not self._may_release(agent):
            return
        self._take_turns(agent)
        settled = self._settled(agent)
        if settled > agent.ledger.last_reading:
            agent.ledger.pass_over(settled)

    def _take_turns(self, agent: HostedAgent) -> None:
        if not agent.resumed:  # the saved state, if there is one, may not know which are decided
            agent.resumed = True
            decided = max(agent.last_reading, agent.last_release)
            if decided and not self.manifest.hides_neighbours:
                self._skip(agent, decided)
            elif agent.last_reading > agent.last_release:
                self._skip(agent, agent.last_reading)
        self._release_due(agent)
        for _ in range(MOST_TURNS):
            if agent.input_ended or not self.needs_reading(agent):
                return
            number = self._next_number(agent)
            pause = self._decide(agent, number)
            if pause is None and self.manifest.asynchronous and agent.last_reading == number:
                pause = AT_ONCE
            if pause is not None:
                if not agent.input_ended:
                    self._feed_later(agent, pause)
                return
        self._feed_later(agent, AT_ONCE)

    def needs_reading(self, agent: HostedAgent) -> bool:
        """One reading for an offline estimate, one ahead of each round for an online one.

        None before neighbours have agreed on the manifest and sent what they remember of this
        agent, and none beyond the last round.
        """
        if not self._may_release(agent):
            return False
        if self.manifest.asynchronous:
            return True
        if not self.online:
            return agent.last_release < 1
        last = self.manifest.rounds
        return agent.last_reading <= agent.protocol.round and not 0 < last <= agent.last_reading

    def finished(self, agent: HostedAgent) -> None:
        """The agent has its estimate: report what is not in it."""
        if agent.spool.records:
            self._report(
                agent,
                "readings",
                f"{len(agent.spool.records)} readings of the open batch are not in the estimate; "
                "they were not released and cost nothing",
            )

    @staticmethod
    def _may_release(agent: HostedAgent) -> bool:
        """Whether neighbours agree on the manifest and know nothing that the ledger does not."""
        protocol, ledger = agent.protocol, agent.ledger
        if not protocol.gathered:
            return False
        if ledger.restored:  # from a backup: all must have said what they remember
            if not all(link.confirmed for link in protocol.links.values()):
                return False
            ledger.confirm_restored()
        return True

    def _next_number(self, agent: HostedAgent) -> int:
        """The number that waits for a reading."""
        if not (self.manifest.every and self.streaming):
            return agent.last_reading + 1
        decided = agent.last_reading
        if not self.manifest.asynchronous:  # rounds that went without one before a restart
            decided = max(decided, agent.protocol.round - 1)
        if agent.slots is None:
            agent.slots = self._start_slots(agent, decided + 1)
        if agent.slots.notice:
            self._report(agent, "clock", agent.slots.notice)
            agent.slots.notice = ""
        return decided + 1

    def _start_slots(self, agent: HostedAgent, number: int) -> SlotSchedule:
        every = self.manifest.every
        last = None
        released_at = agent.ledger.last_release_time()
        if agent.spool.records and agent.spool.records[-1].slot != NO_SLOT:
            last = (agent.spool.records[-1].number, agent.spool.records[-1].slot)
        elif released_at is not None and agent.last_release:
            last = (agent.last_release, int(released_at // every))
        return SlotSchedule(every, self.manifest.grace, self.clocks, number, last)

    def _decide(self, agent: HostedAgent, number: int) -> float | None:
        """Take one reading for a number; seconds to wait, or None if something was done."""
        taken = self._take(agent, number)
        if taken is None:
            return None
        slots = agent.slots
        if isinstance(taken, SourceState):
            if taken is not SourceState.WAITING:
                self._no_more(agent, failed=taken is SourceState.FAILED)
                return AT_ONCE
            if slots is None:
                return POLL
            slots.seen_empty()
            return self._await_slot(agent, slots, number)
        place = Place.FITS if slots is None else slots.place(number, taken.observed_at)
        if place is Place.FITS:
            return self._use(agent, number, taken)
        assert slots is not None, "without slots every reading fits"
        if place is Place.LATER:
            agent.held = taken
            return self._await_slot(agent, slots, number)
        what = "surplus: its slot has its reading, or was passed"
        if place is Place.BEYOND:
            what = "of a time that has not come; check the clocks of the source and this machine"
        self._commit_passed(agent, taken.position, [taken.origin])
        self._pass_over(agent, "surplus", f"reading {taken.position} of the source is {what}")
        self._acknowledge(agent)
        return None

    def _await_slot(self, agent: HostedAgent, slots: SlotSchedule, number: int) -> float | None:
        """Seconds to wait for the reading of a slot, or None if its time is over."""
        if slots.phase(number) is not Phase.OVER:
            return min(self.poll, slots.wait(number))
        agent.counts.skipped += 1
        began = slots.describe(number)
        text = f"no reading came in the slot of {began}; round {number} proceeds without one"
        self._report(agent, "slot", text)
        self._decided(agent, number)
        return None

    def _take(self, agent: HostedAgent, number: int) -> TakenReading | SourceState | None:
        """The next reading, or why there is none; None if it was passed over."""
        if agent.held is not None:
            held, agent.held = agent.held, None
            return held
        try:
            value = agent.readings.next()
        except SignalError as problem:
            agent.position += not agent.readings.keyed
            agent.counts.taken += 1
            self._unusable(agent, number, problem)
            return None
        finally:
            self._report_notices(agent)
        if isinstance(value, SourceState):
            return value
        origin = agent.ledger.hash_origin(agent.readings.origin, agent.position + 1)
        if agent.readings.keyed and self._known(agent, origin):
            agent.counts.repeated += 1
            self._acknowledge(agent)
            return None
        agent.position += 1
        agent.counts.taken += 1
        agent.counts.last_at = self.clocks.wall()
        return TakenReading(value, agent.position, origin, agent.readings.observed_at)

    @staticmethod
    def _known(agent: HostedAgent, origin: str) -> bool:
        """Whether a reading was released or passed over, or waits in the open batch."""
        return origin in agent.spool.origins or agent.ledger.has_origin(origin)

    def _use(self, agent: HostedAgent, number: int, taken: TakenReading) -> float | None:
        """Release a reading under a number, or let it wait for its batch."""
        try:
            agent.release_mechanism.check(number, taken.value)
        except SignalError as problem:
            agent.position -= agent.readings.keyed
            self._unusable(agent, number, problem)
            return None
        if self.batches.trivial and not agent.spool.durable:
            agent.last_reading = number
            self._release(agent, number, taken)
            if not agent.input_ended:  # without a budget it stays at its source
                self._acknowledge(agent)
            return None
        value = taken.value if isinstance(taken.value, tuple) else (taken.value,)
        slot = NO_SLOT if agent.slots is None else agent.slots.slot(number)
        try:
            agent.spool.append(SpooledReading(number, taken.position, slot, taken.origin, value))
        except LedgerError as problem:
            if not agent.spool.usable:
                raise
            agent.held = taken
            self._report(agent, "spool", str(problem))
            return RETRY
        if agent.spool.durable:
            self._acknowledge(agent)
        self._decided(agent, number)
        return None

    def _decided(self, agent: HostedAgent, number: int) -> None:
        """A number has its reading in the spool, or none: release the batch if it is complete."""
        agent.last_reading = number
        records = agent.spool.records
        if records and self.batches.closing(records[0].number) <= number:
            self._release_batch(agent, number)
        else:
            self._skip(agent, number)

    def _release_due(self, agent: HostedAgent) -> None:
        """Release a batch that was complete before a restart."""
        records = agent.spool.records
        if records:
            closing = self.batches.closing(records[0].number)
            if closing < self._next_number(agent):
                agent.last_reading = max(agent.last_reading, closing)
                self._release_batch(agent, closing)

    def _release(self, agent: HostedAgent, number: int, taken: TakenReading) -> None:
        mechanism, enters = agent.release_mechanism, self._enters(agent, number)
        try:
            released = mechanism.release(
                agent.ledger,
                number,
                taken.value,
                enters,
                origin=taken.origin,
                last=taken.position,
            )
        except BudgetExceeded as problem:
            self._commit_passed(agent, taken.position, [taken.origin])
            self._refused(agent, number, 1, problem)
            return
        self._released(agent, released, 1)
        if not self.streaming:
            self._look_beyond(agent)

    def _release_batch(self, agent: HostedAgent, number: int) -> None:
        """Release the sum of the spool under a number, then empty it."""
        records, enters = agent.spool.records, self._enters(agent, number)
        count, single = len(records), not agent.release_mechanism.family.signal_shape
        signals = [record.value[0] if single else record.value for record in records]
        origins = {record.position: record.origin for record in records}
        last = records[-1].position
        try:
            released = agent.release_mechanism.release_sum(
                agent.ledger,
                number,
                signals,
                enters,
                origins=[origins.get(k, "") for k in range(records[0].position, last + 1)],
                last=last,
            )
        except BudgetExceeded as problem:
            agent.passed = max(agent.passed, last)
            agent.ledger.pass_over(agent.passed, list(origins.values()))
            agent.spool.clear(agent.last_release)
            self._acknowledge_batch(agent)
            self._refused(agent, number, count, problem)
            return
        agent.spool.clear(released.reading)
        self._acknowledge_batch(agent)
        self._released(agent, released, count)

    def _enters(self, agent: HostedAgent, number: int) -> int:
        """The round in which a release enters at the latest: noise that grows must cover it."""
        return max(number, agent.protocol.round + 1)

    def _released(self, agent: HostedAgent, released: Released, count: int) -> None:
        agent.last_release = released.reading
        agent.counts.released += count
        self.observability.budget(agent.label, agent.ledger)
        self._perform(agent, agent.protocol.handle(Reading(released)))

    def _refused(
        self, agent: HostedAgent, number: int, count: int, problem: BudgetExceeded
    ) -> None:
        """No budget: these readings are passed over, and no more are taken if none ever fits."""
        self._pass_over(agent, "budget", str(problem), count)
        if not self.streaming:
            agent.last_reading = agent.last_release  # the next one takes its place
        if agent.input_ended:
            return
        if problem.final:
            self._no_more(agent)
        else:
            self._skip(agent, number)

    def _unusable(self, agent: HostedAgent, number: int, problem: SignalError) -> None:
        """A reading cannot be released; in a slot or offline the next one takes its place."""
        agent.counts.refused += 1
        self._report(agent, "reading", str(problem))
        self._acknowledge(agent)
        if self.manifest.hides_neighbours:  # where every round needs one, it was the last
            self._no_more(agent)
        elif agent.slots is None and self.streaming:
            self._decided(agent, number)

    def _skip(self, agent: HostedAgent, number: int) -> None:
        """A number goes without a release."""
        if self.manifest.hides_neighbours:
            self._no_more(agent)
        elif self.online and not self.manifest.asynchronous:
            self._perform(agent, agent.protocol.handle(SkipReading(number)))

    def _no_more(self, agent: HostedAgent, failed: bool = False) -> None:
        """No further reading: release the open batch, unless it can wait for a better source."""
        agent.input_ended = True
        if agent.spool.records and not (failed and agent.spool.durable):
            self._release_batch(agent, agent.last_reading)
        if not agent.contributes:
            self._report(
                agent,
                "readings",
                "the readings ended and none was released: nothing of this agent is in the "
                "estimate; check its source and its budget",
            )
        if self._paces:
            self._pace(agent)
        else:
            self._perform(agent, agent.protocol.handle(NoMoreReadings()))

    @property
    def _paces(self) -> bool:
        """Whether rounds follow the slots though there are no more readings."""
        rounds = self.online and not self.manifest.asynchronous
        return bool(self.manifest.every) and rounds and not self.manifest.hides_neighbours

    def _pace(self, agent: HostedAgent) -> None:
        """Without readings, let each round proceed when its slot is over."""
        if agent.done is not None or not self._paces:
            return
        number = self._next_number(agent)
        slots = agent.slots
        assert slots is not None, "there is a schedule"
        while slots.phase(number) is Phase.OVER:
            agent.counts.skipped += 1
            agent.last_reading = number
            self._skip(agent, number)
            number = self._next_number(agent)
        self._feed_later(agent, min(self.poll, slots.wait(number)))

    def _look_beyond(self, agent: HostedAgent) -> None:
        """Say once if the source has more readings than the one that an offline estimate takes."""
        try:
            more = agent.readings.next()
        except SignalError:
            more = 0.0
        if not isinstance(more, SourceState):
            name = self.manifest.algorithm
            text = f"the source has more readings; {name} takes one and leaves the others"
            self._report(agent, "source", text)

    def _acknowledge(self, agent: HostedAgent) -> None:
        agent.readings.acknowledge()

    def _acknowledge_batch(self, agent: HostedAgent) -> None:
        if not agent.spool.durable:
            agent.readings.acknowledge()

    def _skip_taken(self, agent: HostedAgent) -> None:
        """Skip readings that were released or wait in the spool, provided they are where they were.

        A row that differs from the one taken at its place was changed, or rows were inserted,
        reordered or removed before it; these cases cannot be distinguished.
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
        readings.skip(agent.position, check)

    def _report_notices(self, agent: HostedAgent) -> None:
        """What the source says of itself; never a reading."""
        for notice in agent.readings.notices():
            self.observability.log.write("source", agent.label, notice.text, level=notice.level)

    def _commit_passed(self, agent: HostedAgent, position: int, origins: list[str]) -> None:
        """Store in the ledger what is passed over, before the source is acknowledged."""
        agent.passed = max(agent.passed, position)
        keyed = agent.readings.keyed  # otherwise the position identifies a reading
        agent.ledger.pass_over(self._settled(agent), origins if keyed else ())

    @staticmethod
    def _settled(agent: HostedAgent) -> int:
        """The last position passed over, short of a batch that a restart loses and reads again."""
        if agent.spool.durable or not agent.spool.records:
            return agent.passed
        return min(agent.passed, agent.spool.records[0].position - 1)

    def _pass_over(self, agent: HostedAgent, kind: str, text: str, count: int = 1) -> None:
        agent.counts.passed_over += count
        self._report(agent, kind, text)

    def _report(self, agent: HostedAgent, kind: str, text: str) -> None:
        """Report something of the agent's readings; the log bounds how often."""
        round = agent.protocol.round
        self.observability.report(agent.label, AgentReport(kind, round, "", text))
