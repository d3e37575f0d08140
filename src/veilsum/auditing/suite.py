"""Every mechanism of the package whose guarantee is proved, under attack.

Each case is the mechanism itself, the worst pairs of adjacent inputs of its domain (edges
included), and its guarantee. A guarantee that the audit refutes is a defect of veilsum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum.auditing.attack import Pair, RandomisedMechanism, Weakened
from veilsum.auditing.mechanism import AuditReport, additive, audit
from veilsum.privacy import MECHANISMS, Mechanism, Status, mechanisms, sensitivity

EPSILON, DELTA = 1.0, 0.01


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
    """Return a case for every proved mechanism of the registry, sampled and exact.

    Returns
    -------
    list of AuditCase
        None of which an audit may refute.

    Examples
    --------
    >>> any(case.name.startswith("exact laplace") for case in proved())
    True
    """
    return list(_cases())


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
    return lambda value, trials, rng: mechanism.sample(_again(value, trials), rng)


def released_exactly(mechanism: Mechanism) -> RandomisedMechanism:
    """A mechanism's exact releases as `audit` calls it; entropy of the operating system draws them."""
    return lambda value, trials, _rng: mechanism.release(_again(value, trials))


def _again(value: ArrayLike, trials: int) -> NDArray[np.float64]:
    """One input, a number or a vector, for each of so many releases."""
    x = np.asarray(value, dtype=np.float64)
    return np.broadcast_to(x, (trials, *x.shape))


def _cases() -> Iterator[AuditCase]:
    """Every example of every mechanism, as it is simulated and as it is released."""
    for made in (one for kind in MECHANISMS.values() for one in kind.examples()):
        name, less = f"{made.name} at {made.pairs[0]}", _less(made)
        yield AuditCase(name, released(made), made.pairs, made.epsilon, made.delta, less)
        if made.status is Status.PROVED:
            exact = released_exactly(made)
            yield AuditCase(f"exact {name}", exact, made.pairs, made.epsilon, made.delta, less)


def _less(mechanism: Mechanism) -> Weakened:
    """The mechanism with a part of its noise missing, sampled."""
    return lambda fault: released(mechanism.weakened(fault))


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
