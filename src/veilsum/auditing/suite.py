"""Every mechanism of the package whose guarantee is proved, under attack.

Each case is the mechanism itself, the worst pairs of adjacent inputs of its domain (edges
included), and its guarantee. A guarantee that the audit refutes is a defect of veilsum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum.auditing.attack import Pair, RandomisedMechanism, Weakened
from veilsum.auditing.mechanism import MOST_EPSILON, AuditReport, additive, audit
from veilsum.privacy import mechanisms, sensitivity
from veilsum.privacy.mechanisms import DiscreteLaplaceMechanism, LaplaceMechanism, Mechanism

EPSILON, DELTA = 1.0, 0.01
FLOOR, CEILING = 0.5, 20.0  # of the signals under smooth sensitivity


@dataclass(frozen=True, eq=False)
class AuditCase:
    """A mechanism, the inputs to attack it at, and what it guarantees.

    Attributes
    ----------
    name : str
        Of the mechanism.
    mechanism : callable
        As `audit` calls it.
    pairs : tuple of pairs
        Adjacent inputs.
    epsilon, delta : float
        The guarantee.
    weakened : callable, optional
        fault -> the mechanism with that fraction of its noise missing.

    Examples
    --------
    >>> proved()[0].audit(trials=2_000).refuted
    False
    """

    name: str
    mechanism: RandomisedMechanism
    pairs: tuple[Pair, ...]
    epsilon: float = EPSILON
    delta: float = 0.0
    weakened: Weakened | None = None

    def audit(self, trials: int | None = None, rng: int = 0) -> AuditReport:
        """Attack the mechanism.

        Parameters
        ----------
        trials : int, optional
            Runs a side; as many as find a tenth of the noise missing without it.
        rng : int
            The seed.

        Returns
        -------
        AuditReport
            The claim beside the evidence.
        """
        return audit(
            self.mechanism, self.pairs, self.epsilon, self.delta, trials, rng, name=self.name,
            weakened=self.weakened,
        )  # fmt: skip


def proved() -> list[AuditCase]:
    """Return a case for every proved mechanism: additive, local, smooth and exact.

    Returns
    -------
    list of AuditCase
        None of which an audit may refute.

    Examples
    --------
    >>> "laplace" in [case.name for case in proved()]
    True
    """
    return [*_additive(), *_local(), *_smooth(), *_exact()]


def released(mechanism: Any) -> RandomisedMechanism:
    """Return a mechanism of the package as `audit` calls it: one value, released again and again.

    Parameters
    ----------
    mechanism : Mechanism
        Of `veilsum.privacy.mechanisms`.

    Returns
    -------
    callable
        `mechanism(value, trials, rng)`.

    Examples
    --------
    >>> laplace = mechanisms.LaplaceMechanism(1.0, 1.0)
    >>> released(laplace)(0.0, 3, np.random.default_rng(1)).shape
    (3,)
    """
    return lambda value, trials, rng: mechanism.sample(np.full(trials, float(value)), rng)


def released_exactly(mechanism: Mechanism) -> RandomisedMechanism:
    """A mechanism's exact releases as `audit` calls it; entropy of the operating system draws them."""
    return lambda value, trials, _rng: mechanism.release(np.full(trials, float(value)))


def _at_more(mechanism: Mechanism) -> Weakened:
    """A mechanism at epsilon/(1 - fault), sampled: what less noise is for any of them."""
    return lambda fault: released(
        replace(mechanism, epsilon=min(mechanism.epsilon / (1 - fault), MOST_EPSILON))
    )


def _additive() -> Iterator[AuditCase]:
    for made in (
        mechanisms.LaplaceMechanism(EPSILON, 2.0),
        mechanisms.StaircaseMechanism(EPSILON, 2.0),
        mechanisms.DiscreteLaplaceMechanism(EPSILON, 2),
    ):
        pairs = ((0.0, 2.0), (0.0, 1.0), (5.0, 7.0))
        yield AuditCase(made.name, released(made), pairs, weakened=_at_more(made))


def _local() -> Iterator[AuditCase]:
    pairs = ((-1.0, 1.0), (-1.0, 0.0), (0.0, 1.0))
    for made in (
        mechanisms.DuchiMechanism(EPSILON),
        mechanisms.PiecewiseMechanism(EPSILON),
        mechanisms.HybridMechanism(EPSILON),
    ):
        yield AuditCase(made.name, released(made), pairs, weakened=_at_more(made))


def _smooth() -> Iterator[AuditCase]:
    pairs = ((FLOOR, FLOOR + 1), (1.0, 2.0), (3.0, 4.0), (CEILING - 1, CEILING))
    gentle = sensitivity.smooth_log(FLOOR, CEILING, smoothing=EPSILON / 10)
    heavy = mechanisms.StudentTMechanism(EPSILON, np.log, gentle)
    less = additive(released(heavy), np.log)
    yield AuditCase(heavy.name, released(heavy), pairs, weakened=less)
    bound = sensitivity.smooth_log(FLOOR, CEILING, smoothing=sensitivity.smoothing(EPSILON, DELTA))
    made = mechanisms.SmoothLaplaceMechanism(EPSILON, np.log, bound, DELTA)
    less = additive(released(made), np.log)
    yield AuditCase(made.name, released(made), pairs, delta=DELTA, weakened=less)


def _exact() -> Iterator[AuditCase]:
    real, whole = LaplaceMechanism(EPSILON, 1.0), DiscreteLaplaceMechanism(EPSILON, 1)
    pairs = ((0.0, 1.0), (0.3, 1.3), (1e6, 1e6 + 1))
    yield AuditCase("exact laplace", released_exactly(real), pairs, weakened=_at_more(real))
    yield AuditCase(
        "exact discrete laplace",
        lambda value, trials, _rng: whole.release(np.full(trials, int(value))),
        ((0, 1), (1000, 1001)),
        weakened=_at_more(whole),
    )
    stairs = mechanisms.StaircaseMechanism(EPSILON, 1.0)
    yield AuditCase(
        "exact staircase", released_exactly(stairs), pairs[:2], weakened=_at_more(stairs)
    )
    for made in (
        mechanisms.DuchiMechanism(EPSILON),
        mechanisms.PiecewiseMechanism(EPSILON),
        mechanisms.HybridMechanism(EPSILON),
    ):
        yield AuditCase(
            f"exact {made.name}", released_exactly(made), ((-1.0, 1.0), (-0.3, 1.0)),
            weakened=_at_more(made),
        )  # fmt: skip


def broken() -> list[AuditCase]:
    """Return cases that an audit must refute: a weakened mechanism, and the published sensitivity.

    Returns
    -------
    list of AuditCase
        All of which an audit must refute.

    Examples
    --------
    >>> len(broken())
    2
    """
    weak = mechanisms.LaplaceMechanism(EPSILON / 0.9, 1.0)
    return [
        AuditCase("laplace with 0.9 of its noise", released(weak), ((0.0, 1.0),)),
        AuditCase(
            "published smooth sensitivity",
            _as_published,
            ((1.1, 0.1), (2.0, 1.0)),
            delta=DELTA,
            weakened=additive(_as_published, np.log),
        ),
    ]


def _as_published(signal: float, trials: int, rng: np.random.Generator) -> NDArray[np.float64]:
    scale = sensitivity.as_published(EPSILON, DELTA).at(np.array([signal]))[0] * 2 / EPSILON
    return np.asarray(np.log(signal) + rng.laplace(scale=scale, size=trials))
