"""One agent of a process: its core, its ledger and where its readings come from."""

from __future__ import annotations

from dataclasses import dataclass, field

from murmura.agent.core import Core
from murmura.agent.events import Done
from murmura.agent.ledger import Ledger
from murmura.agent.messages import Standing
from murmura.agent.node.readings import Readings
from murmura.agent.release import Drawer


@dataclass(eq=False)
class Site:
    """An agent and what belongs to it."""

    label: str
    core: Core
    ledger: Ledger
    drawer: Drawer
    readings: Readings
    life: int = 0
    fed: int = 0  # the last reading that was taken from the source
    ended: bool = False
    seen: dict[str, Standing] = field(default_factory=dict)  # not yet in the ledger
    met: set[str] = field(default_factory=set)  # neighbours that the ledger remembers
    up: set[str] = field(default_factory=set)
    done: Done | None = None
    timers: dict[str, int] = field(default_factory=dict)
