"""What a page shows: the last snapshot, and the events after it, for any number of readers.

An event changes the snapshot (by `apply`, a function of the page) and is passed to every reader.
Publishing never waits for a reader: each has a queue of `most_waiting` events, from which the oldest
is dropped. A reader that lost one, or comes back after it was away, receives the whole snapshot and
then what follows it; nothing is replayed.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

MOST_WAITING = 64  # events that a reader may be behind

Apply = Callable[[dict[str, Any], str, dict[str, Any]], None]


@dataclass(frozen=True)
class LiveEvent:
    """One event as it is sent: its number, its kind, and its data in JSON."""

    id: int
    kind: str
    data: str

    def encode(self) -> bytes:
        """The event in the format of text/event-stream."""
        return f"id: {self.id}\nevent: {self.kind}\ndata: {self.data}\n\n".encode()


def replace_part(snapshot: dict[str, Any], kind: str, data: dict[str, Any]) -> None:
    """The default of `Hub.apply`: the snapshot has the last data of each kind."""
    snapshot[kind] = data


class Hub:
    """The snapshot of a page, and its readers; safe to use from any thread.

    Parameters
    ----------
    snapshot : dict, optional
        What a page shows before the first event; JSON must take it.
    apply : callable
        Called with the snapshot, the kind and the data of an event; changes the snapshot in place.
        It must keep it bounded, and be quick: it runs in the thread that publishes.
    most_waiting : int
        Events that a reader may be behind.

    Attributes
    ----------
    dropped : int
        Events that some reader did not receive because it was behind.

    Examples
    --------
    >>> hub = Hub({"name": "north"})
    >>> hub.publish("status", {"round": 3})
    >>> hub.snapshot, hub.last_id
    ({'name': 'north', 'status': {'round': 3}}, 1)
    """

    def __init__(
        self,
        snapshot: dict[str, Any] | None = None,
        apply: Apply = replace_part,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """Nobody reads yet."""
        self._snapshot: dict[str, Any] = json.loads(_encoded(snapshot or {}))
        self._apply, self.most_waiting = apply, most_waiting
        self._lock = threading.Lock()
        self._subscriptions: set[Subscription] = set()
        self._encoded: LiveEvent | None = None
        self.last_id, self.dropped, self.closed = 0, 0, False

    @property
    def snapshot(self) -> dict[str, Any]:
        """A copy of the present snapshot."""
        found: dict[str, Any] = json.loads(self.snapshot_event().data)
        return found

    @property
    def readers(self) -> int:
        """How many subscriptions there are."""
        return len(self._subscriptions)

    def publish(self, kind: str, data: dict[str, Any]) -> None:
        """Change the snapshot and pass an event to every reader, without waiting for any.

        Parameters
        ----------
        kind : str
            One word; "snapshot", "beat" and "end" are the hub's own.
        data : dict
            JSON must take it, without NaN and infinities.

        Raises
        ------
        ValueError
            If the kind is no word, or JSON cannot take the data.
        """
        if not kind.isidentifier() or kind in ("snapshot", "beat", "end"):
            raise ValueError(
                f"kind must be one word other than snapshot, beat, end; found {kind!r}"
            )
        text = _encoded(data)
        with self._lock:
            if self.closed:
                return
            self._apply(self._snapshot, kind, data)
            self._encoded = None
            self.last_id += 1
            event = LiveEvent(self.last_id, kind, text)
            for subscription in tuple(self._subscriptions):
                self.dropped += subscription.offer(event)

    def subscribe(self) -> Subscription:
        """A reader's place, for `with` and `async for` in the loop of a server.

        Returns
        -------
        Subscription
            It yields the snapshot first.
        """
        return Subscription(self)

    def snapshot_event(self) -> LiveEvent:
        """The snapshot as an event; encoded once for all that ask before the next change."""
        with self._lock:
            return self._as_event()

    def take(self, subscription: Subscription) -> LiveEvent | None:
        """What a reader receives next: the snapshot if it is new or behind; None for nothing."""
        with self._lock:
            if subscription.behind:
                subscription.behind = False
                subscription.queue.clear()
                return self._as_event()
            return subscription.queue.popleft() if subscription.queue else None

    def _as_event(self) -> LiveEvent:
        if self._encoded is None:
            self._encoded = LiveEvent(self.last_id, "snapshot", _encoded(self._snapshot))
        return self._encoded

    def close(self) -> None:
        """End every subscription; what is published from now on goes nowhere."""
        with self._lock:
            self.closed = True
            for subscription in tuple(self._subscriptions):
                subscription.wake()

    def enter(self, subscription: Subscription) -> None:
        """Begin to pass events to a reader."""
        with self._lock:
            self._subscriptions.add(subscription)

    def leave(self, subscription: Subscription) -> None:
        """Pass no more events to a reader; may be called twice."""
        with self._lock:
            self._subscriptions.discard(subscription)


class Subscription:
    """One reader of a hub: a bounded queue between the publisher's thread and the server's loop.

    Parameters
    ----------
    hub : Hub
        Whose events it receives.

    Attributes
    ----------
    queue : deque of LiveEvent
        What waits for it; changed with the hub's lock only.
    behind : bool
        Whether it needs the snapshot: it is new, or an event was dropped.
    dropped : int
        Events that it did not receive.
    """

    def __init__(self, hub: Hub) -> None:
        """Nothing is received before `with`."""
        self._hub = hub
        self.queue: deque[LiveEvent] = deque(maxlen=hub.most_waiting)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = asyncio.Event()
        self._signalled = False
        self.behind = True  # a new reader needs the snapshot
        self.dropped = 0

    def __enter__(self) -> Self:
        """Register with the hub, from the server's loop."""
        self._loop = asyncio.get_running_loop()
        self._hub.enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the hub."""
        self._hub.leave(self)

    @property
    def waiting(self) -> int:
        """Events in the queue."""
        return len(self.queue)

    def offer(self, event: LiveEvent) -> int:
        """Add an event, called with the hub's lock; how many were dropped for it."""
        lost = int(len(self.queue) == self.queue.maxlen)
        self.queue.append(event)
        if lost:
            self.behind = True
            self.dropped += 1
        self.wake()
        return lost

    def wake(self) -> None:
        """Let the server's loop look; one call waits there at most, however many events come."""
        if self._signalled or self._loop is None:
            return
        self._signalled = True
        try:
            self._loop.call_soon_threadsafe(self._ready.set)
        except RuntimeError:  # the server's loop has ended
            self._signalled = False

    async def next(self, patience: float) -> LiveEvent | None:
        """The next event, or None if there is none for so many seconds, or the hub has closed.

        Parameters
        ----------
        patience : float
            Seconds to wait.

        Returns
        -------
        LiveEvent or None
            The snapshot for a reader that is new or behind.
        """
        while True:
            event = self._hub.take(self)
            if event is not None:
                return event
            if self._hub.closed:
                return None
            try:
                async with asyncio.timeout(patience):
                    await self._ready.wait()
            except TimeoutError:
                return None
            self._ready.clear()
            self._signalled = False

    async def __aiter__(self) -> AsyncIterator[LiveEvent]:
        """All events until the hub closes."""
        while not (self._hub.closed and not self.queue):
            event = await self.next(60.0)
            if event is not None:
                yield event


def _encoded(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
