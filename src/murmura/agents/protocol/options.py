"""What each agent may choose for itself."""

from __future__ import annotations

from dataclasses import dataclass

from murmura import _validate
from murmura.errors import AgentError

ONE = 53  # link weights are in units of 2^-53
LONGEST_PAUSE = 5.0  # seconds between two repetitions of a message while an agent waits, at most


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
