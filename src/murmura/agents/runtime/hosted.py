"""One agent of a node: what belongs to it, and what the node knows of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from murmura.agents.events import Done
from murmura.agents.ledger import Ledger
from murmura.agents.messages import PeerStatus
from murmura.agents.protocol import Agent
from murmura.agents.readings import Readings
from murmura.agents.readings.base import Value
from murmura.agents.release import ReleaseMechanism
from murmura.agents.runtime.schedule import SlotSchedule
from murmura.agents.runtime.spool import MemorySpool, Spool


class TakenReading(NamedTuple):
    """A reading in the hands of the scheduler; never logged or shown.

    Attributes
    ----------
    value : float or tuple of float
        The reading.
    position : int
        Its place among all readings of the source.
    origin : str
        Its origin hash.
    observed_at : float or None
        Its own time.
    """

    value: Value
    position: int
    origin: str
    observed_at: float | None

    def __repr__(self) -> str:
        """The position, and nothing else."""
        return f"TakenReading({self.position})"


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


@dataclass(eq=False)
class HostedAgent:
    """An agent of a node: its protocol, its ledger and the source of its readings.

    Attributes
    ----------
    label : str
        Its label in the manifest.
    protocol : Agent
        Its state machine.
    ledger : Ledger
        Its releases and saved state.
    release_mechanism : ReleaseMechanism
        Draws its releases.
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
    slots : SlotSchedule or None
        Its reading schedule, once the first reading is needed.
    held : TakenReading or None
        A reading whose slot has not come.
    counts : ReadingCounts
        What became of its readings.
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
    protocol: Agent
    ledger: Ledger
    release_mechanism: ReleaseMechanism
    readings: Readings
    spool: Spool = field(default_factory=MemorySpool)
    last_reading: int = 0
    last_release: int = 0
    passed: int = 0
    position: int = 0
    slots: SlotSchedule | None = None
    held: TakenReading | None = None
    counts: ReadingCounts = field(default_factory=ReadingCounts)
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
