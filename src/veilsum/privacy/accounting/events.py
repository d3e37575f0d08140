"""Privacy events: what a release costs, as frozen data.

A `PrivacyEvent` is the cost of one release, (epsilon, delta), with what is known of its mechanism; a
`ReleaseEvent` adds the agent, the round and what was released. The more is known of the mechanism,
the less k events cost together:

    laplace            Lap(b) on a statistic of sensitivity D:  parameter = b/D = 1/epsilon
    discrete-laplace   P(x) ~ exp(-epsilon |x| / parameter) on a grid, `parameter` being the
                       sensitivity in steps of the grid (rounding included): what an exact
                       sampler releases
    pure               any epsilon-DP mechanism: at worst randomised response
    approximate        any (epsilon, delta)-DP mechanism

Any other mechanism raises `PrivacyError`: what is unknown cannot be composed.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from veilsum import _validate
from veilsum.errors import PrivacyError


class Span(StrEnum):
    """How many readings a guarantee or a budget is for.

    Examples
    --------
    >>> Span("window") is Span.WINDOW
    True
    """

    EVENT = "event"  # any one reading
    WINDOW = "window"  # any w consecutive readings
    STREAM = "stream"  # all readings


class EventKind(StrEnum):
    """What is known of the mechanism behind a privacy event.

    Examples
    --------
    >>> EventKind("laplace") is EventKind.LAPLACE
    True
    """

    LAPLACE = "laplace"
    DISCRETE_LAPLACE = "discrete-laplace"
    PURE = "pure"
    APPROXIMATE = "approximate"


@dataclass(frozen=True)
class PrivacyEvent:
    """(epsilon, delta) of one release, and what is known of its mechanism.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        0 unless the mechanism is approximate.
    mechanism : EventKind or str
        One of the kinds of the module's table.
    parameter : float, optional
        Of a Laplace mechanism its scale over the sensitivity, which is 1/epsilon and may be left
        out; of a discrete Laplace mechanism its sensitivity in steps of the grid.

    Raises
    ------
    PrivacyError
        If a number is outside its range, or does not fit the mechanism.

    Examples
    --------
    >>> PrivacyEvent(0.5, mechanism="laplace").parameter
    2.0
    """

    epsilon: float
    delta: float = 0.0
    mechanism: EventKind | str = EventKind.PURE
    parameter: float | None = None

    def __post_init__(self) -> None:
        """Check every number, and that the parameter fits the mechanism."""
        _validate.positive(PrivacyError, epsilon=self.epsilon)
        _validate.probability(PrivacyError, delta=self.delta)
        _validate.one_of(PrivacyError, list(EventKind), mechanism=self.mechanism)
        object.__setattr__(self, "mechanism", EventKind(self.mechanism))
        self._check_delta()
        object.__setattr__(self, "parameter", self._checked_parameter())

    def _check_delta(self) -> None:
        approximate = self.mechanism is EventKind.APPROXIMATE
        if approximate and self.delta == 0:
            raise PrivacyError(
                "mechanism approximate needs a delta above 0; with delta = 0 use pure"
            )
        if not approximate and self.delta > 0:
            raise PrivacyError(
                f"mechanism {self.mechanism} has delta = 0; found {self.delta}; "
                "an (epsilon, delta)-DP release is approximate"
            )

    def _checked_parameter(self) -> float | None:
        if self.mechanism is EventKind.LAPLACE:
            return self._laplace_parameter()
        if self.mechanism is EventKind.DISCRETE_LAPLACE:
            steps = math.nan if self.parameter is None else self.parameter
            if not (steps >= 1 and math.isfinite(steps) and steps == int(steps)):
                raise PrivacyError(
                    "mechanism discrete-laplace needs as parameter its sensitivity in steps of "
                    f"the grid, a whole number of at least 1; found {self.parameter}"
                )
            return int(steps)
        if self.parameter is not None:
            raise PrivacyError(
                f"mechanism {self.mechanism} has no parameter; found {self.parameter}; leave it out"
            )
        return None

    def _laplace_parameter(self) -> float:
        found = 1 / self.epsilon if self.parameter is None else float(self.parameter)
        _validate.positive(PrivacyError, parameter=found)
        if not math.isclose(found * self.epsilon, 1, rel_tol=1e-9):
            raise PrivacyError(
                f"a laplace release of scale {found:g} times the sensitivity has epsilon "
                f"{1 / found:g}; found epsilon = {self.epsilon:g}; leave the parameter out"
            )
        return found


def group_event(event: PrivacyEvent, readings: int) -> PrivacyEvent:
    """What a release costs for m readings in it that move together: m epsilon (group privacy).

    The sum moves by m Delta under the same noise: Laplace noise stays Laplace noise, of epsilon m.

    Parameters
    ----------
    event : PrivacyEvent
        The cost for one reading, of a pure mechanism.
    readings : int
        m.

    Returns
    -------
    PrivacyEvent
        The cost for m.

    Raises
    ------
    PrivacyError
        For an approximate release, whose delta would grow with e^epsilon.

    Examples
    --------
    >>> group_event(PrivacyEvent(0.5, mechanism="laplace"), 4).epsilon
    2.0
    """
    if readings == 1:
        return event
    if event.delta:
        raise PrivacyError(
            "readings of one batch need a pure release (delta = 0); found "
            f"delta = {event.delta:g}; use sensitivity global"
        )
    steps = event.parameter
    if event.mechanism is EventKind.DISCRETE_LAPLACE and steps is not None:
        return PrivacyEvent(readings * event.epsilon, 0.0, event.mechanism, readings * steps)
    return PrivacyEvent(readings * event.epsilon, 0.0, event.mechanism)


@dataclass(frozen=True)
class ReleaseEvent:
    """One release: the agent, the round of the reading it is about, what it is, and its cost.

    Parameters
    ----------
    agent : int or str
        The agent that releases.
    round : int
        The round of the reading that the release is about.
    what : str
        What is released, such as "signal".
    epsilon, delta, mechanism, parameter
        As of `PrivacyEvent`, for one reading.
    readings : int
        How many readings it is about: those of the rounds before as well, up to `round`, if it is
        the sum of a batch.

    Raises
    ------
    PrivacyError
        If a field is outside its range.

    Examples
    --------
    >>> ReleaseEvent("meter-3", round=12, what="signal", epsilon=0.1).event
    PrivacyEvent(epsilon=0.1, delta=0.0, mechanism=<EventKind.PURE: 'pure'>, parameter=None)
    """

    agent: int | str
    round: int
    what: str
    epsilon: float
    delta: float = 0.0
    mechanism: EventKind | str = EventKind.PURE
    parameter: float | None = None
    readings: int = 1

    def __post_init__(self) -> None:
        """Check the agent, the rounds and the cost."""
        _validate.at_least(PrivacyError, 0, round=self.round)
        _validate.at_least(PrivacyError, 1, readings=self.readings)
        if self.readings > 1 and self.readings > self.round:
            raise PrivacyError(
                f"a batch of {self.readings} readings cannot end with the one of round "
                f"{self.round}; count rounds from 1"
            )
        object.__setattr__(self, "readings", int(self.readings))
        if not isinstance(self.agent, int | str) or isinstance(self.agent, bool):
            raise PrivacyError(f"agent must be a whole number or a name; found {self.agent!r}")
        if not self.what:
            raise PrivacyError("what must name what is released, such as 'signal'; found ''")
        object.__setattr__(self, "round", int(self.round))  # numpy's unsigned ones wrap around
        event = self.event
        object.__setattr__(self, "mechanism", event.mechanism)
        object.__setattr__(self, "parameter", event.parameter)

    @property
    def event(self) -> PrivacyEvent:
        """The cost alone."""
        return PrivacyEvent(self.epsilon, self.delta, self.mechanism, self.parameter)

    @property
    def rounds(self) -> range:
        """The rounds of the readings that it is about."""
        return range(self.round - self.readings + 1, self.round + 1)

    @property
    def key(self) -> tuple[int | str, int, str]:
        """(agent, round, what), which identifies a release."""
        return self.agent, self.round, self.what

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data.

        Returns
        -------
        dict
            Which JSON can store, and `ReleaseEvent(**data)` reads.
        """
        return asdict(self) | {"mechanism": str(self.mechanism)}
