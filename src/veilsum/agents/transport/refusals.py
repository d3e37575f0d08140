"""Whom to call, and when: a neighbour that refuses this device is called again after growing pauses.

zenoh calls an endpoint again as soon as a link to it has ended. Its pauses between attempts
(`zenoh_config.RETRY`) grow only while no link comes about, and one that the other end closes because this
device is denied, or is refused by its TLS, did come about: such a device would call dozens of times in
a second, for ever.

    link that lasts --> nothing to count
    link that ends at once, `ENOUGH` times in a row --> a pause of 5, 10, 20, ... up to 300 s
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

SHORT = 1.0  # seconds: a link that lasts less may have been refused
ENOUGH = 4  # such links in a row; one may end by chance, as when its other end restarts
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0  # seconds until a neighbour that refuses is called again


class RefusedCalls:
    """Counts links that neighbours end at once, and pauses calls to those who do.

    Parameters
    ----------
    clock : callable
        Seconds that never decrease.

    Examples
    --------
    >>> now = [0.0]
    >>> calls = RefusedCalls(clock=lambda: now[0])
    >>> for _ in range(ENOUGH):
    ...     calls.made("north", "link")
    ...     pause = calls.ended("north", "link")
    >>> pause, calls.paused()
    (5.0, {'north'})
    >>> now[0] = 5.0
    >>> calls.paused()
    set()
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nobody has refused anything."""
        self._clock, self._lock = clock, threading.Lock()
        self._since: dict[tuple[str, str], float] = {}  # when a link was made
        self._short: dict[str, int] = {}  # links in a row that ended at once
        self._pause: dict[str, float] = {}  # the last pause
        self._until: dict[str, float] = {}  # when it is over

    def made(self, device: str, link: str) -> None:
        """A link to a device has come about."""
        with self._lock:
            self._since[device, link] = self._clock()

    def ended(self, device: str, link: str) -> float:
        """A link has ended; the pause that begins with it, in seconds, or 0."""
        with self._lock:
            now = self._clock()
            since = self._since.pop((device, link), None)
            if since is None or now < self._until.get(device, now):
                return 0.0  # during a pause the session is replaced
            if now - since >= SHORT:
                self._forget(device)
                return 0.0
            self._short[device] = self._short.get(device, 0) + 1
            return self._begin(device, now) if self._short[device] >= ENOUGH else 0.0

    def refused(self, device: str) -> float:
        """A device does not accept our certificate; the pause that begins, in seconds."""
        with self._lock:
            return self._begin(device, self._clock())

    def settle(self) -> None:
        """Who has not ended a link for a while does not refuse this device."""
        with self._lock:
            now = self._clock()
            for (device, _), since in self._since.items():
                if now - since >= SHORT:
                    self._forget(device)

    def hang_up(self) -> None:
        """This device has ended all links itself."""
        with self._lock:
            self._since.clear()

    def clear(self) -> None:
        """Our certificate is another one: begin anew with everybody."""
        with self._lock:
            for device in {*self._short, *self._pause}:
                self._forget(device)

    def paused(self) -> set[str]:
        """The devices that are not called at this moment."""
        with self._lock:
            now = self._clock()
            return {device for device, end in self._until.items() if now < end}

    def next_end(self) -> float:
        """Seconds until the first pause is over; infinite without any."""
        with self._lock:
            now = self._clock()
            return min(
                (end - now for end in self._until.values() if end > now), default=float("inf")
            )

    def _begin(self, device: str, now: float) -> float:
        if now < self._until.get(device, now):
            return 0.0
        pause = min(2 * self._pause.get(device, FIRST_PAUSE / 2), LONGEST_PAUSE)
        self._pause[device], self._until[device], self._short[device] = pause, now + pause, 0
        return pause

    def _forget(self, device: str) -> None:
        for known in (self._short, self._pause, self._until):
            known.pop(device, None)
