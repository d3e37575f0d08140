"""Observers: who reads the statuses of agents that allow it, and does nothing else.

Each site serves its statuses on a listener of its own (`StatusPublisher`), over TLS with certificates on
both ends; an observer connects to the sites of a watch file (`StatusWatcher`). Not over zenoh: its
access control tells certificates apart by common name only, says nothing on the listening side about a
certificate that it refuses, counts observers among the members' sessions, and waits for those that have
stopped reading. docs/threat-model.md says what an observer learns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veilsum._lazy import lazily

if TYPE_CHECKING:
    from veilsum.agents.observers.publisher import StatusPublisher
    from veilsum.agents.observers.received import checked_status
    from veilsum.agents.observers.watch_file import Watch
    from veilsum.agents.observers.watcher import (
        ObservedStatus,
        SilentSite,
        StatusWatcher,
        WatchChanged,
    )

_WHERE = {
    "ObservedStatus": "watcher",
    "SilentSite": "watcher",
    "StatusPublisher": "publisher",
    "StatusWatcher": "watcher",
    "Watch": "watch_file",
    "WatchChanged": "watcher",
    "checked_status": "received",
}

__all__ = [
    "ObservedStatus",
    "SilentSite",
    "StatusPublisher",
    "StatusWatcher",
    "Watch",
    "WatchChanged",
    "checked_status",
]

__getattr__ = lazily(__name__, _WHERE)
