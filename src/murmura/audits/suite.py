"""Every mechanism of the package whose promise is proved, under attack.

Each entry is the mechanism itself, the worst pairs of adjacent inputs its domain has (edges
included), and the promise. A promise that the audit refutes is a defect of murmura.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.privacy import mechanisms, sensitivity
from murmura.privacy.auditing import AuditReport, audit
from murmura.privacy.auditing.audit import Mechanism, Pair
from murmura.privacy.exact import ExactDiscreteLaplace, ExactLaplace

EPSILON, DELTA = 1.0, 0.01
FLOOR, CEILING = 0.5, 20.0  # of the signals under smooth sensitivity


@dataclass(frozen=True, eq=False)
class Entry:
    """A mechanism, where to attack it, and what it promises."""

    name: str
    mechanism: Mechanism
    pairs: tuple[Pair, ...]
    epsilon: float = EPSILON
    delta: float = 0.0

    def audit(self, trials: int | None = None, rng: int = 0) -> AuditReport:
        """Attack it; with as many runs as find a tenth of the noise missing, unless told."""
        return audit(
            self.mechanism, self.pairs, self.epsilon, self.delta, trials, rng, name=self.name
        )


def proved() -> list[Entry]:
    """All of them: additive, local, smooth and exact."""
    return [*_additive(), *_local(), *_smooth(), *_exact()]


def released(mechanism: Any) -> Mechanism:
    """A mechanism of the package as the audit calls it: one value, released again and again."""
    return lambda value, trials, rng: mechanism.release(np.full(trials, float(value)), rng)


def _additive() -> Iterator[Entry]:
    for made in (
        mechanisms.Laplace(EPSILON, 2.0),
        mechanisms.Staircase(EPSILON, 2.0),
        mechanisms.DiscreteLaplace(EPSILON, 2),
    ):
        yield Entry(made.name, released(made), ((0.0, 2.0), (0.0, 1.0), (5.0, 7.0)))


def _local() -> Iterator[Entry]:
    pairs = ((-1.0, 1.0), (-1.0, 0.0), (0.0, 1.0))
    for made in (
        mechanisms.Duchi(EPSILON),
        mechanisms.Piecewise(EPSILON),
        mechanisms.Hybrid(EPSILON),
    ):
        yield Entry(made.name, released(made), pairs)


def _smooth() -> Iterator[Entry]:
    pairs = ((FLOOR, FLOOR + 1), (1.0, 2.0), (3.0, 4.0), (CEILING - 1, CEILING))
    gentle = sensitivity.smooth_log(FLOOR, CEILING, smoothing=EPSILON / 10)
    heavy = mechanisms.StudentT(EPSILON, np.log, gentle)
    yield Entry(heavy.name, released(heavy), pairs)
    bound = sensitivity.smooth_log(FLOOR, CEILING, smoothing=sensitivity.smoothing(EPSILON, DELTA))
    made = mechanisms.SmoothLaplace(EPSILON, np.log, bound, DELTA)
    yield Entry(made.name, released(made), pairs, delta=DELTA)


def _exact() -> Iterator[Entry]:
    real, whole = ExactLaplace(EPSILON, 1.0), ExactDiscreteLaplace(EPSILON, 1)
    yield Entry(
        "exact laplace",
        lambda value, trials, _rng: real.release(np.full(trials, float(value))),
        ((0.0, 1.0), (0.3, 1.3), (1e6, 1e6 + 1)),
    )
    yield Entry(
        "exact discrete laplace",
        lambda value, trials, _rng: whole.release(np.full(trials, int(value))),
        ((0, 1), (1000, 1001)),
    )


def broken() -> list[Entry]:
    """What must be refuted: the printed smooth sensitivity, and mechanisms weakened on purpose."""
    weak = mechanisms.Laplace(EPSILON / 0.9, 1.0)
    return [
        Entry("laplace with 0.9 of its noise", released(weak), ((0.0, 1.0),)),
        Entry("printed smooth sensitivity", _printed, ((1.1, 0.1), (2.0, 1.0)), delta=DELTA),
    ]


def _printed(signal: float, trials: int, rng: np.random.Generator) -> NDArray[np.float64]:
    scale = sensitivity.printed(EPSILON, DELTA).at(np.array([signal]))[0] * 2 / EPSILON
    return np.asarray(np.log(signal) + rng.laplace(scale=scale, size=trials))
