"""What a release costs: frozen events, as data.

A `Loss` is the price of one release, (epsilon, delta), with what is known of its mechanism; a
`Release` adds who released what, and when. The more is known, the less k of them cost together:

    laplace            Lap(b) on a statistic of sensitivity D:  parameter = b/D = 1/epsilon
    discrete-laplace   P(x) ~ exp(-epsilon |x| / parameter) on a grid, `parameter` being the
                       sensitivity in steps of the grid (rounding included): what an exact
                       sampler releases
    pure               any epsilon-DP mechanism: as bad as randomised response
    approximate        any (epsilon, delta)-DP mechanism

A mechanism that is not in the table is refused: what is unknown cannot be composed.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from murmura import _validate
from murmura.errors import PrivacyError

LAPLACE, DISCRETE_LAPLACE, PURE, APPROXIMATE = "laplace", "discrete-laplace", "pure", "approximate"
MECHANISMS = (LAPLACE, DISCRETE_LAPLACE, PURE, APPROXIMATE)


@dataclass(frozen=True)
class Loss:
    """The price of one release: epsilon, delta, and what is known of the mechanism."""

    epsilon: float
    delta: float = 0.0
    mechanism: str = PURE
    parameter: float | None = None

    def __post_init__(self) -> None:
        """Check every number, and that the parameter fits the mechanism."""
        _validate.positive(PrivacyError, epsilon=self.epsilon)
        _validate.probability(PrivacyError, delta=self.delta)
        _validate.one_of(PrivacyError, MECHANISMS, mechanism=self.mechanism)
        _check_delta(self)
        object.__setattr__(self, "parameter", _parameter(self))


@dataclass(frozen=True)
class Release:
    """One release: the agent, the round whose reading it speaks of, what, and its price."""

    agent: int | str
    round: int
    what: str
    epsilon: float
    delta: float = 0.0
    mechanism: str = PURE
    parameter: float | None = None

    def __post_init__(self) -> None:
        """Check the round and the price."""
        _validate.at_least(PrivacyError, 0, round=self.round)
        if not isinstance(self.agent, int | str) or isinstance(self.agent, bool):
            raise PrivacyError(f"agent must be a whole number or a name; found {self.agent!r}")
        if not self.what:
            raise PrivacyError("what must say what is released, such as 'signal'; found ''")
        object.__setattr__(self, "round", int(self.round))  # numpy's unsigned ones wrap around
        object.__setattr__(self, "parameter", self.loss.parameter)

    @property
    def loss(self) -> Loss:
        """The price alone."""
        return Loss(self.epsilon, self.delta, self.mechanism, self.parameter)

    @property
    def key(self) -> tuple[int | str, int, str]:
        """What makes two releases the same one: agent, round, what."""
        return self.agent, self.round, self.what

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as plain data."""
        return asdict(self)


def _check_delta(loss: Loss) -> None:
    if loss.mechanism == APPROXIMATE and loss.delta == 0:
        raise PrivacyError("mechanism approximate needs a delta above 0; with delta = 0 say pure")
    if loss.mechanism != APPROXIMATE and loss.delta > 0:
        raise PrivacyError(
            f"mechanism {loss.mechanism} has delta = 0; found {loss.delta}; "
            "an (epsilon, delta)-DP release is approximate"
        )


def _parameter(loss: Loss) -> float | None:
    if loss.mechanism == LAPLACE:
        return _laplace_parameter(loss)
    if loss.mechanism == DISCRETE_LAPLACE:
        steps = math.nan if loss.parameter is None else loss.parameter
        if not (steps >= 1 and math.isfinite(steps) and steps == int(steps)):
            raise PrivacyError(
                "mechanism discrete-laplace needs as parameter its sensitivity in steps of the "
                f"grid, a whole number of at least 1; found {loss.parameter}"
            )
        return int(steps)
    if loss.parameter is not None:
        raise PrivacyError(
            f"mechanism {loss.mechanism} has no parameter; found {loss.parameter}; leave it out"
        )
    return None


def _laplace_parameter(loss: Loss) -> float:
    found = 1 / loss.epsilon if loss.parameter is None else float(loss.parameter)
    _validate.positive(PrivacyError, parameter=found)
    if not math.isclose(found * loss.epsilon, 1, rel_tol=1e-9):
        raise PrivacyError(
            f"a laplace release of scale {found:g} times the sensitivity has epsilon "
            f"{1 / found:g}; found epsilon = {loss.epsilon:g}; leave the parameter out"
        )
    return found
