"""What each agent may choose for itself, and the limits that follow from the manifest for all."""

from __future__ import annotations

import math
from dataclasses import dataclass

from murmura import _validate
from murmura.agents.manifest import Manifest
from murmura.errors import AgentError

ONE = 53  # link weights are in units of 2^-53
READINGS = 2**32  # of one agent, where the manifest sets no limit
LONGEST_PAUSE = 5.0  # seconds between two repetitions of a message while an agent waits, at most
UNKNOWN = 2**256  # size of a release where the manifest knows no largest: still fits a message


@dataclass(frozen=True)
class Options:
    """The time limits of one agent, in seconds; none of them changes the limit of the estimate.

    Parameters
    ----------
    deadline : float
        A round that waits for messages is reported after this; without a last round it proceeds.
    resend : float
        While waiting, the last message is repeated after this, and then at growing pauses.
    tick : float
        Between two transmissions of an asynchronous agent.
    linger : float
        After the end, the agent stays so long for members that have not ended.
    patience : int
        Rounds without an acknowledgement before a neighbour is sent no more mass.
    buffer : int
        Messages buffered of one neighbour that is ahead.
    confirmations : int
        Neighbours that must say what they remember of the agent before it releases anything.
    poll : float, optional
        Between two looks at a source that had nothing for its slot: by default a hundredth of the
        slot, but no less than 0.05 s and no more than a second.

    Raises
    ------
    AgentError
        If a time is not positive or a count too small.

    Examples
    --------
    >>> Options(deadline=5.0).resend
    0.25
    """

    deadline: float = 2.0
    resend: float = 0.25
    tick: float = 0.1
    linger: float = 3600.0
    patience: int = 16
    buffer: int = 64
    confirmations: int = 1
    poll: float | None = None

    def __post_init__(self) -> None:
        """Check the times and counts."""
        _validate.positive(
            AgentError, deadline=self.deadline, resend=self.resend, tick=self.tick,
            linger=self.linger,
        )  # fmt: skip
        if self.poll is not None:
            _validate.positive(AgentError, poll=self.poll)
        _validate.at_least(AgentError, 1, confirmations=self.confirmations)
        _validate.at_least(AgentError, 2, patience=self.patience, buffer=self.buffer)


class DoublingPause:
    """Lets something happen at once, then after pauses that double up to an hour.

    Parameters
    ----------
    first : float
        Seconds of the first pause.

    Examples
    --------
    >>> pause = DoublingPause(2.0)
    >>> [pause.passed(1.0) for _ in range(8)]
    [True, False, True, False, False, False, True, False]
    """

    LONGEST = 3600.0

    def __init__(self, first: float) -> None:
        """Nothing happened yet."""
        self._first = first
        self.reset()

    def reset(self) -> None:
        """The next time is the first one again."""
        self._pause, self._left = self._first, 0.0

    def passed(self, seconds: float) -> bool:
        """Whether it is time, now that so many seconds have passed since the last question."""
        if self._left > 0:
            self._left -= seconds
        if self._left > 0:
            return False
        self._left, self._pause = self._pause, min(2 * self._pause, self.LONGEST)
        return True


@dataclass(frozen=True)
class Limits:
    """What an honest neighbour never exceeds, in units of 2^-unit.

    No more weight exists than every member's readings, and no sum beyond `largest` times it; the
    mass sent in one round is at most that. All three bounds add up over rounds, so it is enough to
    compare a message with the one before. A sum is not bounded by `largest` times its own weight:
    where mass was rolled back, an honest agent may have a sum with little weight for a while.

    Parameters
    ----------
    weight, sums : int
        The most that one round may send.
    rounds : int
        The last round; 0 is open-ended.
    """

    weight: int
    sums: int
    rounds: int

    @classmethod
    def of(cls, manifest: Manifest) -> Limits:
        """Read them off the manifest."""
        if manifest.asynchronous:
            readings = READINGS
        elif manifest.made_algorithm.online:
            readings = manifest.rounds or READINGS
        else:
            readings = max(1, manifest.longest_batch)
        count = len(manifest.members) * readings
        known = math.isfinite(manifest.largest)
        largest = math.ceil(manifest.largest) + 1 if known else UNKNOWN
        weight = count << manifest.unit
        return cls(weight=weight, sums=largest * weight, rounds=manifest.rounds)

    def excess(self, sums: list[int], weight: int) -> int:
        """Bits to shift the mass sent down by so that it is accepted; 0 except after a rollback."""
        largest = max(map(abs, sums))
        if weight <= self.weight and largest <= self.sums:
            return 0
        return max(_above(weight, self.weight), _above(largest, self.sums))


def _above(value: int, limit: int) -> int:
    return 0 if value <= limit else value.bit_length() - limit.bit_length() + 1
