"""Privacy events: what a release costs, as frozen data, and the table of kinds of mechanisms.

A `PrivacyEvent` is the cost of one release, (epsilon, delta), with what is known of its mechanism. A
`Release` adds the readings that it is about, a `ReleaseEvent` the agent, the round and what was
released. The more is known of the mechanism, the less k events cost together:

    pure               any epsilon-DP mechanism: at worst randomised response
    approximate        any (epsilon, delta)-DP mechanism
    laplace            Lap(b) on a statistic of sensitivity D:  parameter = b/D = 1/epsilon
    discrete-laplace   P(x) ~ exp(-epsilon |x| / parameter) on a grid, `parameter` being the
                       sensitivity in steps of the grid (rounding included): what an exact
                       sampler releases

The table is open: a kind of its own is a class in the file of its mechanism or law, which registers
itself. Any other name raises `PrivacyError`: what is unknown cannot be composed.

A kind answers five questions, each by a bound that holds:

    times     What do m readings cost that move together? (Group privacy, decided here alone.) Noise
              of a known distribution stays what it is, under m times the shift. Of any (eps, delta)-DP
              release m neighbouring steps cost

                  (m eps,  delta (1 + e^eps + ... + e^((m-1) eps))).

    renyi     What is the Renyi divergence of order alpha, in the worst case? `apart` is the delta that
              is not in it: an (eps, delta)-DP release is at worst randomised response that reveals the
              secret with probability delta (Kairouz, Oh and Viswanath 2017).
    loss      What is the distribution of the privacy loss?
    part      What is a release with so small a part of its divergence? Only where divergences add up
              to one of the same kind: noise of another size.
    together  What are several releases of the kind as one?
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any

from veilsum import _validate
from veilsum._registry import Registry
from veilsum.errors import PrivacyError

ROUNDING = 1e-15  # of a logarithm of a sum: a divergence is never stated too small
LARGEST_DELTA = math.nextafter(1.0, 0.0)  # of an event: nothing is limited
LARGEST_EXPONENT = 700.0  # e^700 is near the largest float
GROUP_ROUNDING = 1e-12  # of exponentials of up to 700: a group's delta is never stated too small
STEPS = 1024  # of a discrete Laplace, before its grid is made coarser
PURE, APPROXIMATE, LAPLACE, DISCRETE_LAPLACE = "pure", "approximate", "laplace", "discrete-laplace"

ADDS_UP = (
    "the costs of {name} noise add up, so that nothing is gained by dividing one of them over the readings "
    "of a stream: the mean of t readings would have sqrt(t) times the noise of one release or more"
)
LEAST_EPSILON = 1e-12  # of an event that costs nothing at its delta

Parameter = float | tuple[float, ...] | None


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


@dataclass(frozen=True)
class PrivacyEvent:
    """(epsilon, delta) of one release, and what is known of its mechanism.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        0 for a pure kind.
    mechanism : str
        One of the kinds of the module's table.
    parameter : float or tuple of float, optional
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
    mechanism: str = PURE
    parameter: Parameter = None

    def __post_init__(self) -> None:
        """Check every number, and that the parameter fits the mechanism."""
        _validate.positive(PrivacyError, epsilon=self.epsilon)
        _validate.probability(PrivacyError, delta=self.delta)
        if isinstance(self.parameter, list):  # as JSON has it
            object.__setattr__(self, "parameter", tuple(self.parameter))
        object.__setattr__(self, "mechanism", self.kind.name)
        object.__setattr__(self, "parameter", self.kind.checked(self))

    @classmethod
    def of(cls, epsilon: float, delta: float = 0.0) -> PrivacyEvent:
        """Return the event of a mechanism of which only epsilon and delta are known.

        Parameters
        ----------
        epsilon, delta : float
            What it guarantees.
        """
        return cls(epsilon, delta, APPROXIMATE if delta else PURE)

    @property
    def kind(self) -> EventKind:
        """The row of the table for its mechanism."""
        return EVENT_KINDS.get(self.mechanism)()

    def times(self, readings: int) -> PrivacyEvent:
        """Return what the release costs for m readings in it that move together.

        Parameters
        ----------
        readings : int
            m.

        Examples
        --------
        >>> PrivacyEvent(0.5, mechanism="laplace").times(4)
        PrivacyEvent(epsilon=2.0, delta=0.0, mechanism='laplace', parameter=0.5)
        >>> round(PrivacyEvent(1.0, 1e-6, "approximate").times(2).delta, 9)  # 1e-6 (1 + e)
        3.718e-06
        """
        _validate.at_least(PrivacyError, 1, readings=readings)
        return self if readings == 1 else self.kind.times(self, int(readings))

    def part(self, share: float) -> PrivacyEvent:
        """Return the release of the same kind with that part of its divergence, above 0 and up to 1.

        Parameters
        ----------
        share : float
            Releases whose shares add up to 1 cost together what this one costs.
        """
        if not 0 < share <= 1:
            raise PrivacyError(f"a share is above 0 and at most 1; found {share:g}")
        return self if share == 1 else self.kind.part(self, share)


EVENT_KINDS: Registry[type[EventKind]]


class EventKind:
    """What is known of a mechanism; this base class is any epsilon-DP mechanism.

    A mechanism with an exact cost of its own defines a subclass with a name, which overrides what it
    knows better.

    Examples
    --------
    >>> EVENT_KINDS.names()
    ['approximate', 'discrete-laplace', 'gaussian', 'laplace', 'pure', 'skellam']
    """

    name: str = PURE

    def __init_subclass__(cls) -> None:
        """Register a kind that has a name of its own."""
        super().__init_subclass__()
        if "name" in vars(cls):
            EVENT_KINDS.add(cls.name, cls)

    def checked(self, event: PrivacyEvent) -> Parameter:
        """Return the parameter as it is kept, or raise if a field does not fit the kind."""
        self.refuse_delta(event)
        self.refuse_parameter(event)
        return None

    def times(self, event: PrivacyEvent, readings: int) -> PrivacyEvent:
        """What m readings cost that move together."""
        return PrivacyEvent(readings * event.epsilon, 0.0, self.name)

    def renyi(self, event: PrivacyEvent, order: int) -> float:
        """At most this is the Renyi divergence of a whole order: that of randomised response."""
        a, eps = order, event.epsilon
        log_sum = _log_sum(a * eps, (1 - a) * eps) - _log_sum(0.0, eps)
        return min(eps, (log_sum + ROUNDING * (1 + a * eps)) / (a - 1))

    def apart(self, event: PrivacyEvent) -> float:
        """The delta that is not in the Renyi divergence."""
        return event.delta

    def loss(self, module: Any, event: PrivacyEvent, interval: float) -> Any:
        """The privacy loss distribution of dp_accounting, as an upper bound."""
        common = import_module("dp_accounting.pld.common")
        cost = common.DifferentialPrivacyParameters(event.epsilon, event.delta)
        return module.from_privacy_parameters(cost, value_discretization_interval=interval)

    def part(self, event: PrivacyEvent, share: float) -> PrivacyEvent:  # noqa: ARG002
        """What has that part of the divergence; it is not known here."""
        raise PrivacyError(ADDS_UP.format(name=self.name))

    def together(self, events: Counter[PrivacyEvent], delta: float) -> PrivacyEvent | None:  # noqa: ARG002
        """One event at that delta for several of this kind; None where there is none."""
        return None

    def refuse_delta(self, event: PrivacyEvent) -> None:
        """Raise where a pure kind has a delta."""
        if event.delta > 0:
            raise PrivacyError(
                f"mechanism {self.name} has delta = 0; found {event.delta}; "
                "an (epsilon, delta)-DP release is approximate"
            )

    def refuse_parameter(self, event: PrivacyEvent) -> None:
        """Raise where a kind without a parameter has one."""
        if event.parameter is not None:
            raise PrivacyError(
                f"mechanism {self.name} has no parameter; found {event.parameter}; leave it out"
            )


EVENT_KINDS = Registry("kind of privacy event", "veilsum.privacy.mechanisms", PrivacyError)
EVENT_KINDS.add(EventKind.name, EventKind)


class _Approximate(EventKind):
    """Any (epsilon, delta)-DP mechanism."""

    name = APPROXIMATE

    def checked(self, event: PrivacyEvent) -> Parameter:
        if event.delta == 0:
            raise PrivacyError(
                "mechanism approximate needs a delta above 0; with delta = 0 use pure"
            )
        self.refuse_parameter(event)
        return None

    def times(self, event: PrivacyEvent, readings: int) -> PrivacyEvent:
        eps, delta = event.epsilon, LARGEST_DELTA
        if (readings - 1) * eps < LARGEST_EXPONENT:  # the sum is a float
            growth = _powers(readings, eps)
            delta = min(event.delta * growth * (1 + GROUP_ROUNDING), LARGEST_DELTA)
        return PrivacyEvent(readings * eps, delta, self.name)


class _Laplace(EventKind):
    """Laplace noise on a statistic of known sensitivity."""

    name = LAPLACE

    def checked(self, event: PrivacyEvent) -> Parameter:
        self.refuse_delta(event)
        scale = (
            1 / event.epsilon if event.parameter is None else _validate.as_float(event.parameter)
        )
        _validate.positive(PrivacyError, parameter=scale)
        if not math.isclose(scale * event.epsilon, 1, rel_tol=1e-9):
            raise PrivacyError(
                f"a laplace release of scale {scale:g} times the sensitivity has epsilon "
                f"{1 / scale:g}; found epsilon = {event.epsilon:g}; leave the parameter out"
            )
        return scale

    def renyi(self, event: PrivacyEvent, order: int) -> float:
        """log((a e^((a-1) eps) + (a-1) e^(-a eps))/(2a - 1))/(a - 1) (Mironov 2017)."""
        a, eps = order, event.epsilon
        terms = math.log(a) + (a - 1) * eps, math.log(a - 1) - a * eps
        log_sum = _log_sum(*terms) - math.log(2 * a - 1)
        return min(eps, (log_sum + ROUNDING * (2 + a * (1 + eps))) / (a - 1))

    def loss(self, module: Any, event: PrivacyEvent, interval: float) -> Any:
        return module.from_laplace_mechanism(
            event.parameter, value_discretization_interval=interval
        )


class _DiscreteLaplace(EventKind):
    """Discrete Laplace noise, of which a move of the statistic is a whole number of steps."""

    name = DISCRETE_LAPLACE

    def checked(self, event: PrivacyEvent) -> Parameter:
        self.refuse_delta(event)
        steps = math.nan if event.parameter is None else _validate.as_float(event.parameter)
        if not (steps >= 1 and math.isfinite(steps) and steps == int(steps)):
            raise PrivacyError(
                "mechanism discrete-laplace needs as parameter its sensitivity in steps of "
                f"the grid, a whole number of at least 1; found {event.parameter}"
            )
        return int(steps)

    def times(self, event: PrivacyEvent, readings: int) -> PrivacyEvent:
        steps = _validate.as_float(event.parameter)
        return PrivacyEvent(readings * event.epsilon, 0.0, self.name, readings * steps)

    def loss(self, module: Any, event: PrivacyEvent, interval: float) -> Any:
        decay, steps = coarse(event)
        return module.from_discrete_laplace_mechanism(
            decay, sensitivity=steps, use_connect_dots=True, value_discretization_interval=interval
        )


def coarse(event: PrivacyEvent) -> tuple[float, int]:
    """(a c, ceil(m / c)): decay per coarse step and steps, for m fine steps of decay a = eps/m."""
    m = int(_validate.as_float(event.parameter))
    c = -(-m // STEPS)
    return event.epsilon / m * c, -(-m // c)


def _powers(count: int, eps: float) -> float:
    """1 + e^eps + ... + e^((count - 1) eps), which does not overflow where the last one does not."""
    last = math.exp((count - 1) * eps)
    return last * -math.expm1(-count * eps) / -math.expm1(-eps)


def _log_sum(one: float, other: float) -> float:
    """log(e^one + e^other), without overflow."""
    high, low = max(one, other), min(one, other)
    return high + math.log1p(math.exp(low - high))


@dataclass(frozen=True)
class Release:
    """A privacy event, and the readings of rounds `first` to `last` that it is about.

    Parameters
    ----------
    event : PrivacyEvent
        The cost for one reading.
    first, last : int
        The rounds of its readings.

    Raises
    ------
    PrivacyError
        If the first round is after the last.

    Examples
    --------
    >>> batch = Release(PrivacyEvent(0.5), first=3, last=6)
    >>> batch.moved(range(5, 100)), batch.moved(None)
    (2, 4)
    """

    event: PrivacyEvent
    first: int = 1
    last: int = 1

    def __post_init__(self) -> None:
        """Check the order of the rounds."""
        if self.first > self.last:
            raise PrivacyError(
                f"a release is about at least one reading; found first = {self.first} after "
                f"last = {self.last}"
            )

    def moved(self, readings: range | None) -> int:
        """Return how many of its readings are among some consecutive ones; None stands for all."""
        if readings is None:
            return self.last - self.first + 1
        return max(0, min(self.last, readings.stop - 1) - max(self.first, readings.start) + 1)


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
    PrivacyEvent(epsilon=0.1, delta=0.0, mechanism='pure', parameter=None)
    """

    agent: int | str
    round: int
    what: str
    epsilon: float
    delta: float = 0.0
    mechanism: str = PURE
    parameter: Parameter = None
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
        object.__setattr__(self, "parameter", self.event.parameter)

    @property
    def event(self) -> PrivacyEvent:
        """The cost alone."""
        return PrivacyEvent(self.epsilon, self.delta, self.mechanism, self.parameter)

    @property
    def rounds(self) -> range:
        """The rounds of the readings that it is about."""
        return range(self.round - self.readings + 1, self.round + 1)

    @property
    def release(self) -> Release:
        """The cost and the rounds."""
        return Release(self.event, self.rounds[0], self.rounds[-1])

    @property
    def key(self) -> tuple[int | str, int, str]:
        """(agent, round, what), which identifies a release."""
        return self.agent, self.round, self.what

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return asdict(self)
