"""Noise that was drawn ahead, so that how long a draw takes moves no message.

A draw of 0 takes less time than another one, and nearly all parts of the noise of a large masked sum
are 0: whoever could time draws would know the noise. A thread beside the others is no remedy, since
a draw computes, and while it does the threads of a process wait for one another. So noise is drawn
only while the process sends nothing: before any of it is visible, and in pauses of a length that does
not depend on the draws (`in_silence`).
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

DEPTH = 6  # vectors of noise that wait: one for each view of a session
LOW = 4  # as many should wait when a query begins
PAUSE = 0.5  # seconds; a silence lasts a whole number of them, one as a rule
Vector = tuple[int, ...]


def in_silence(draw: Callable[[], None], pause: float = PAUSE) -> None:
    """Draw, and return after a whole number of pauses; the caller sends nothing meanwhile.

    What was handed over for sending before leaves in the first half of the pause, in which nothing is
    computed.

    Parameters
    ----------
    draw : callable
        Draws what is missing.
    pause : float
        Seconds.

    Examples
    --------
    >>> began = time.monotonic()
    >>> in_silence(lambda: None, pause=0.01)
    >>> time.monotonic() - began >= 0.01
    True
    """
    began = time.monotonic()
    time.sleep(pause / 2)
    draw()
    passed = time.monotonic() - began
    time.sleep(math.ceil(passed / pause) * pause - passed)


class NoiseReserve:
    """Vectors of noise that were drawn ahead; each is given out once.

    Parameters
    ----------
    source : callable
        Draws a vector, exactly.
    depth : int
        How many wait after a refill.

    Attributes
    ----------
    pause : float
        Seconds, of which an agent without noise in reserve waits a whole number.

    Examples
    --------
    >>> drawn = iter(range(10))
    >>> reserve = NoiseReserve(lambda: (next(drawn),), depth=2)
    >>> reserve.draw(), reserve.draw(), len(reserve)
    ((0,), (1,), 0)
    >>> reserve.refill()
    >>> len(reserve), reserve
    (2, NoiseReserve(depth=2))
    """

    def __init__(self, source: Callable[[], Vector], depth: int = DEPTH) -> None:
        """Fill it: nothing of this agent is visible yet."""
        self.depth, self.pause = depth, PAUSE
        self._source = source
        self._ready: deque[Vector] = deque()
        self.refill()

    def __repr__(self) -> str:
        """How many it is for, and no noise."""
        return f"NoiseReserve(depth={self.depth})"

    def __len__(self) -> int:
        """How many vectors wait."""
        return len(self._ready)

    @property
    def low(self) -> bool:
        """Whether fewer wait than a query should begin with."""
        return len(self._ready) < min(LOW, self.depth)

    def draw(self) -> Vector:
        """A vector that nobody has had; at once, or in a silence of its own if none waits."""
        if not self._ready:
            in_silence(lambda: self._ready.append(self._source()), self.pause)
        return self._ready.popleft()

    def refill(self) -> None:
        """Draw until as many wait as should: only while nothing is sent."""
        while len(self._ready) < self.depth:
            self._ready.append(self._source())
