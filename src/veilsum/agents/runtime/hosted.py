"""One agent of a node: what belongs to it, and what the node knows of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from veilsum.agents.coverage import Coverage, Departure
from veilsum.agents.events import Action, Done, Event
from veilsum.agents.ledger import Ledger
from veilsum.agents.messages import PeerStatus
from veilsum.agents.readings import Readings
from veilsum.agents.release import ContributionMechanism, ReleaseMechanism
from veilsum.agents.runtime.query_ledger import QueryLedger
from veilsum.agents.runtime.recovery import Recovery, TakenReading
from veilsum.agents.runtime.schedule import SlotSchedule
from veilsum.agents.runtime.spool import MemorySpool, Spool


@dataclass
class ReadingCounts:
    """What became of an agent's readings.

    Attributes
    ----------
    taken : int
        Readings taken from the source since the start, repeated ones aside.
    released : int
        Readings in all releases of the ledger.
    passed_over : int
        Readings that are never released: surplus in a slot, or without a budget.
    refused : int
        Readings that are not usable: not a number, or outside the support.
    repeated : int
        Readings that the source returned again and that were recognised.
    skipped : int
        Slots without a reading.
    last_at : float or None
        When the last reading was taken, in seconds since 1970.
    """

    taken: int = 0
    released: int = 0
    passed_over: int = 0
    refused: int = 0
    repeated: int = 0
    skipped: int = 0
    last_at: float | None = None


class AgentProtocol(Protocol):
    """What a node needs of an agent's state machine: `protocol.Agent`, or `masked.MaskedAgent`.

    Attributes
    ----------
    label : str
        The agent's name.
    incarnation : int
        How often it began anew.
    round : int
        The present round; in a masked sum, the last query that is concluded.
    reason : str
        Why it is done; empty while it is not.
    estimate, reported_estimate : tuple of float
        What it has found so far; empty if nothing.
    coverage : Coverage
        Whose readings are in the estimate.
    gathered : bool
        Whether readings may be taken and released.
    assembled : bool
        Whether enough members take part for a result.
    settled : bool
        Whether it is done and nobody waits for it.
    confirmed : bool
        Whether all neighbours have said what they remember of it.
    departure : Departure or None
        What became of its part of the estimate, once it has left.
    """

    @property
    def label(self) -> str: ...  # noqa: D102

    @property
    def incarnation(self) -> int: ...  # noqa: D102

    @property
    def round(self) -> int: ...  # noqa: D102

    @property
    def reason(self) -> str: ...  # noqa: D102

    @property
    def estimate(self) -> tuple[float, ...]: ...  # noqa: D102

    @property
    def reported_estimate(self) -> tuple[float, ...]: ...  # noqa: D102

    @property
    def coverage(self) -> Coverage: ...  # noqa: D102

    @property
    def gathered(self) -> bool: ...  # noqa: D102

    @property
    def assembled(self) -> bool: ...  # noqa: D102

    @property
    def settled(self) -> bool: ...  # noqa: D102

    @property
    def confirmed(self) -> bool: ...  # noqa: D102

    @property
    def departure(self) -> Departure | None: ...  # noqa: D102

    def handle(self, event: Event) -> list[Action]:
        """Take one event and return the actions that follow, to be carried out in order."""

    def links_status(self) -> dict[str, str]:
        """The state of the link to each neighbour, in a word."""

    def to_bytes(self) -> bytes:
        """The snapshot of the present state, for the ledger."""


@dataclass(eq=False)
class HostedAgent:
    """An agent of a node: its protocol, its ledger and the source of its readings.

    Attributes
    ----------
    label : str
        Its label in the manifest.
    protocol : AgentProtocol
        Its state machine.
    ledger : Ledger
        Its releases and saved state.
    release_mechanism : ReleaseMechanism or ContributionMechanism
        Draws its releases, or its part in masked sums.
    readings : Readings
        The source of its readings.
    spool : Spool
        The readings of the open batch.
    last_reading : int
        The last number that is decided: it has a reading, or goes without one.
    last_release : int
        The number of the last release.
    passed : int
        The last position whose reading was passed over.
    position : int
        How many readings were taken from the source in all runs, repeated ones aside.
    empty_looks : int
        How often its source had nothing while the others are rounds ahead, without a schedule.
    slots : SlotSchedule or None
        Its reading schedule, once the first reading is needed.
    held : TakenReading or None
        A reading whose slot has not come.
    counts : ReadingCounts
        What became of its readings.
    sessions : QueryLedger or None
        Its queries, in a masked sum.
    query : int
        The query in which it takes part at present; 0 in none.
    recovery : Recovery or None
        Readings of an open query that are taken again after a restart.
    waiting : deque of TakenReading
        Readings that were taken out of their turn.
    bytes_sent : int
        Bytes of records of masked sums, since the start.
    resumed : bool
        Whether the protocol knows which numbers were decided before the start.
    input_ended : bool
        Whether no further reading is taken.
    reachable : set of str
        Neighbours that are up.
    done : Done or None
        Its estimate, once there is one.
    """

    label: str
    protocol: AgentProtocol
    ledger: Ledger
    release_mechanism: ReleaseMechanism | ContributionMechanism
    readings: Readings
    spool: Spool = field(default_factory=MemorySpool)
    last_reading: int = 0
    last_release: int = 0
    passed: int = 0
    position: int = 0
    empty_looks: int = 0
    slots: SlotSchedule | None = None
    held: TakenReading | None = None
    counts: ReadingCounts = field(default_factory=ReadingCounts)
    sessions: QueryLedger | None = None
    query: int = 0
    recovery: Recovery | None = None
    waiting: deque[TakenReading] = field(default_factory=deque)
    bytes_sent: int = 0
    resumed: bool = False
    input_ended: bool = False
    reachable: set[str] = field(default_factory=set)
    done: Done | None = None
    unsaved_peers: dict[str, PeerStatus] = field(default_factory=dict)  # not yet in the ledger
    saved_peers: set[str] = field(default_factory=set)
    timers: dict[str, int] = field(default_factory=dict)

    @property
    def contributes(self) -> bool:
        """Whether a reading of this agent is released: without one it is in no estimate."""
        return self.counts.released > 0

    @property
    def open_batch(self) -> int:
        """How many readings wait for their batch to be complete: released by nobody, charged to nobody.

        Those of an open query of a masked sum are not among them: its budget is reserved.
        """
        return 0 if self.query or self.recovery is not None else len(self.spool.records)

    @property
    def departure(self) -> Departure | None:
        """What became of its part of the estimate, once it has left, and of its open batch."""
        found = self.protocol.departure
        return None if found is None else found._replace(unreleased=self.open_batch)
