"""One agent of a node: what belongs to it, and what the node knows of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from murmura.agents.events import Done
from murmura.agents.ledger import Ledger
from murmura.agents.messages import PeerStatus
from murmura.agents.protocol import Agent
from murmura.agents.readings import Readings
from murmura.agents.release import ReleaseMechanism


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
    last_reading : int
        Number of the last reading taken from the source.
    input_ended : bool
        Whether no further reading is taken.
    source_failed : bool
        Whether that is because the source broke.
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
    last_reading: int = 0
    input_ended: bool = False
    source_failed: bool = False
    reachable: set[str] = field(default_factory=set)
    done: Done | None = None
    unsaved_peers: dict[str, PeerStatus] = field(default_factory=dict)  # not yet in the ledger
    saved_peers: set[str] = field(default_factory=set)
    timers: dict[str, int] = field(default_factory=dict)
