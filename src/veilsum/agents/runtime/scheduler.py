"""When an agent takes a reading: the way of a reading from its source to the protocol.

    source --> [slot] --> [spool: the open batch] --> ReleasePath --> protocol

An agent's readings go to its release mechanism and nowhere else: as releases with local noise
(`releases`), or as its part in masked sums (`queries`). Every number 1, 2, ... has at most
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

from veilsum.agents.coverage import unreleased_sentence
from veilsum.agents.events import AgentReport, ConcludeQuery
from veilsum.agents.ledger.clock import MACHINE, SystemClock
from veilsum.agents.manifest import Manifest
from veilsum.agents.readings import SourceState
from veilsum.agents.runtime.hosted import HostedAgent
from veilsum.agents.runtime.observability import Observability
from veilsum.agents.runtime.queries import MaskedQueries
from veilsum.agents.runtime.reader import SourceReader
from veilsum.agents.runtime.recovery import TakenReading
from veilsum.agents.runtime.releases import LocalReleases, ReleasePath, batches_of
from veilsum.agents.runtime.schedule import Phase, Place, SlotSchedule
from veilsum.agents.runtime.spool import NO_SLOT, SpooledReading
from veilsum.errors import LedgerError, SignalError
from veilsum.privacy.accounting import BudgetExceeded

POLL = 0.05  # seconds between two looks at a source that had nothing
LONGEST_POLL = 1.0  # the same with slots of minutes or more
RETRY = 5.0  # seconds until a spool that could not be written is tried again
MOST_TURNS = 1000  # readings passed over before other agents have their turn
AT_ONCE = 0.0  # seconds until the next reading of an asynchronous agent
EMPTY_LOOKS = (
    20  # at a source without a backlog, before numbers follow rounds that others went ahead
)


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
    poll : float, optional
        Seconds between two looks at a source in slots that had nothing.
    held : callable
        Whether no query of a masked sum may begin now.
    """

    def __init__(
        self,
        manifest: Manifest,
        observability: Observability,
        perform: Callable[[HostedAgent, Iterable[Any]], None],
        feed_later: Callable[[HostedAgent, float], None],
        clocks: SystemClock = MACHINE,
        poll: float | None = None,
        held: Callable[[], bool] = lambda: False,
    ) -> None:
        """Nothing is read yet."""
        self.manifest, self.observability, self.clocks = manifest, observability, clocks
        self.online = manifest.made_algorithm.online
        self.streaming = self.online or manifest.asynchronous  # more than one reading is taken
        self.batches = batches_of(manifest)
        self.queries = MaskedQueries(manifest, observability, perform) if manifest.masked else None
        self.path: ReleasePath = self.queries or LocalReleases(manifest, observability, perform)
        self.poll = poll or min(max(manifest.every / 100, POLL), LONGEST_POLL)
        self._feed_later, self._held = feed_later, held
        self._reader = SourceReader(manifest.algorithm, observability, lambda: self.clocks.wall())

    def prepare(self, agent: HostedAgent) -> None:
        """Continue where the ledger and the spool end: skip in the source what was taken.

        Parameters
        ----------
        agent : HostedAgent
            Before its protocol starts.

        Raises
        ------
        SignalError
            If the readings that were taken are not where they were.
        """
        spool = agent.spool
        self.path.resume(agent)
        agent.last_reading = max([agent.last_release, *(r.number for r in spool.records)])
        agent.passed = agent.ledger.last_reading
        agent.position = max([agent.passed, *(r.position for r in spool.records)])
        if self.streaming and not self.manifest.every and self.path.counts_places(agent):
            agent.last_reading = max(agent.last_reading, agent.position)
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
        if agent.recovery is not None and not spool.records:
            agent.position = min(agent.position, agent.recovery.first - 1)
        if any(map(agent.ledger.was_passed_over, spool.origins)):
            spool.clear(agent.last_release)  # a crash came before it was emptied
        self._reader.skip_taken(agent)

    def feed(self, agent: HostedAgent) -> None:
        """Take readings while the agent needs one; other agents have their turn in between."""
        if agent.input_ended:
            self._pace(agent)
            return
        if not self._may_release(agent):
            return
        if not agent.query and self._held():
            self._feed_later(agent, POLL)
            return
        self._take_turns(agent)
        settled = self._settled(agent)
        if settled > agent.ledger.last_reading:
            agent.ledger.pass_over(settled)

    def _take_turns(self, agent: HostedAgent) -> None:
        if not agent.resumed:  # the saved state, if there is one, may not know which are decided
            agent.resumed = True
            decided = max(agent.last_reading, agent.last_release)
            waits = self.manifest.hides_neighbours and agent.last_reading <= agent.last_release
            if decided and not waits and self.queries is None:
                self._skip(agent, decided)
        self._release_due(agent)
        for _ in range(MOST_TURNS):
            if agent.input_ended or not self.needs_reading(agent):
                return
            if agent.recovery is not None:
                pause = self._recover(agent)
                if pause is not None:
                    self._feed_later(agent, pause)
                    return
                continue
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
        """Whether a reading is to be taken now.

        None before neighbours have agreed on the manifest and sent what they remember of this
        agent, and none beyond the last round.
        """
        return self._may_release(agent) and self.path.needs_reading(agent)

    def concluded(self, agent: HostedAgent, action: ConcludeQuery) -> None:
        """A query of a masked sum is over."""
        assert self.queries is not None, "only masked sums have queries"
        self.queries.conclude(agent, action)

    def finished(self, agent: HostedAgent) -> None:
        """The agent has its estimate: report what is not in it."""
        if agent.open_batch:
            self._report(agent, "readings", unreleased_sentence(agent.open_batch))

    @staticmethod
    def _may_release(agent: HostedAgent) -> bool:
        """Whether neighbours agree on the manifest and know nothing that the ledger does not."""
        protocol, ledger = agent.protocol, agent.ledger
        if not protocol.gathered:
            return False
        if ledger.restored:  # from a backup: all must have said what they remember
            if not protocol.confirmed:
                return False
            ledger.confirm_restored()
        return True

    def _next_number(self, agent: HostedAgent) -> int:
        """The number that waits for a reading."""
        if not (self.manifest.every and self.streaming):
            return agent.last_reading + 1
        decided = max(agent.last_reading, self.path.decided(agent))
        if agent.slots is None:
            agent.slots = self._start_slots(agent, decided + 1)
        elif decided > agent.last_reading and agent.slots.phase(decided + 1) is Phase.FUTURE:
            # Who joins a stream goes after the others by rounds in no time, and not by slots.
            agent.slots.skip_to(decided + 1, agent.last_reading)
            agent.last_reading = decided
        if agent.slots.notice:
            self._report(agent, "clock", agent.slots.notice)
            agent.slots.notice = ""
        return decided + 1

    def _start_slots(self, agent: HostedAgent, number: int) -> SlotSchedule:
        every = self.manifest.every
        last = agent.ledger.last_slot()
        released_at = agent.ledger.last_release_time()
        if agent.spool.records and agent.spool.records[-1].slot != NO_SLOT:
            last = (agent.spool.records[-1].number, agent.spool.records[-1].slot)
        elif last is None and released_at is not None and agent.last_release:
            # of an earlier version, whose ledgers have no slots: that of a late release is too late
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
                self._follow_rounds(agent)
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

    def _follow_rounds(self, agent: HostedAgent) -> None:
        """Without a schedule: the next reading is that of the present round.

        Who joins a stream, or was away, skips to the others' round. A backlog of its source takes the
        numbers in between; where there is none, to wait for as many readings as the others have had
        would keep it out for ever, since they go on meanwhile.
        """
        common = self.online and not self.manifest.asynchronous and self.queries is None
        decided = self.path.decided(agent) if common else 0
        agent.empty_looks = agent.empty_looks + 1 if decided > agent.last_reading else 0
        if agent.empty_looks < EMPTY_LOOKS:
            return
        self._report(
            agent,
            "readings",
            f"the others are in round {decided + 1}, and there were {agent.position} readings here: the "
            f"next one is that of round {decided + 1}",
        )
        agent.last_reading = decided
        self._release_due(agent)

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
        if agent.waiting:
            return agent.waiting.popleft()
        try:
            return self._reader.take(agent)
        except SignalError as problem:
            self._unusable(agent, number, problem)
            return None

    def _use(self, agent: HostedAgent, number: int, taken: TakenReading) -> float | None:
        """Release a reading under a number, or let it wait for its batch."""
        try:
            agent.release_mechanism.check(number, taken.value)
        except SignalError as problem:
            agent.position -= agent.readings.keyed
            self._unusable(agent, number, problem)
            return None
        if self.batches.trivial and not agent.spool.durable and not self.path.spools_all:
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
        try:
            self.path.release(agent, number, taken)
        except BudgetExceeded as problem:
            self._commit_passed(agent, taken.position, [taken.origin])
            self._refused(agent, number, 1, problem)
            return
        if not self.streaming:
            self._reader.look_beyond(agent)

    def _release_batch(self, agent: HostedAgent, number: int) -> None:
        """Release the readings of the spool under a number; without a budget pass them over."""
        records = tuple(agent.spool.records)
        try:
            self.path.release_batch(agent, number)
        except BudgetExceeded as problem:
            agent.passed = max(agent.passed, records[-1].position)
            agent.ledger.pass_over(agent.passed, [record.origin for record in records])
            agent.spool.clear(agent.last_release)
            if not agent.spool.durable:
                self._acknowledge(agent)
            self._refused(agent, number, len(records), problem)

    def _recover(self, agent: HostedAgent) -> float | None:
        """Take readings of an open query again; seconds to wait, or None if something was done."""
        queries, recovery = self.queries, agent.recovery
        assert queries is not None
        assert recovery is not None
        if queries.collect(agent):
            return None
        if agent.position >= recovery.last and not agent.readings.keyed:
            queries.give_up(agent)
            return None
        taken = self._take(agent, recovery.last)
        if isinstance(taken, TakenReading):
            recovery.offer(taken, agent.readings.keyed)
        elif taken is SourceState.WAITING:
            return POLL
        elif taken is not None:
            queries.give_up(agent)
        return None

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
        else:
            self.path.skip(agent, number)

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
            self.path.no_more(agent)

    @property
    def _paces(self) -> bool:
        """Whether rounds follow the slots though there are no more readings."""
        rounds = self.online and not (self.manifest.asynchronous or self.manifest.masked)
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

    def _acknowledge(self, agent: HostedAgent) -> None:
        agent.readings.acknowledge()

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
