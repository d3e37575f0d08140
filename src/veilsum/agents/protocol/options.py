"""What each agent may choose for itself."""

from __future__ import annotations

from dataclasses import dataclass

from veilsum import _validate
from veilsum.errors import AgentError

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


class ResendPause:
    """The pause before messages are repeated: it doubles while nothing changes, and then is short again.

    Parameters
    ----------
    options : Options
        Has the shortest one.
    lost_after : float
        Seconds after which neighbours give an agent up; the longest pause is an eighth of it, at most.
    marker : object
        How far the agent is; whenever it differs from the last one, something has changed.

    Attributes
    ----------
    seconds : float
        The present pause.

    Examples
    --------
    >>> pause = ResendPause(Options(resend=0.5), 16.0, marker=0)
    >>> [(pause.over(marker), pause.seconds) for marker in (1, 1, 1, 1)]
    [(False, 0.5), (True, 1.0), (True, 2.0), (True, 2.0)]
    >>> pause.grown and pause.ends_early(2), pause.seconds
    (True, 0.5)
    """

    __slots__ = ("_longest", "_marker", "_shortest", "seconds")

    def __init__(self, options: Options, lost_after: float, marker: object) -> None:
        """As short as it can be."""
        self._shortest = self.seconds = options.resend
        self._longest, self._marker = min(LONGEST_PAUSE, lost_after / 8), marker

    @property
    def grown(self) -> bool:
        """Whether it is longer than it was at first."""
        return self.seconds > self._shortest

    def reset(self) -> None:
        """Make it short again."""
        self.seconds = self._shortest

    def ends_early(self, marker: object) -> bool:
        """Whether something has changed since the last one was over; then it is short again."""
        changed = marker != self._marker
        if changed:
            self.reset()
        return changed

    def over(self, marker: object, longest: float = 0.0) -> bool:
        """Begin the next one; whether nothing has changed during this, so that it is longer.

        Parameters
        ----------
        marker : object
            How far the agent is.
        longest : float
            Seconds, if another limit holds than at first.

        Returns
        -------
        bool
            Whether the agent is stuck.
        """
        stuck, self._marker = marker == self._marker, marker
        grown = min(2 * self.seconds, longest or self._longest)
        self.seconds = max(grown, self._shortest) if stuck else self._shortest
        return stuck
