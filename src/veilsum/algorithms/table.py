"""The coefficients of all rounds of an algorithm as arrays, and how much each round contributes.

Guarantee and plan both read the coefficients here, checked once, so that one that is not a
number cannot pass one of the two unseen.

Weights that conserve mass turn an algorithm into a recursion of one number, the mean y_t of nu_t:

    y_t = (own + mixing) y_{t-1} + momentum y_{t-2} + innovation xi_t + noise d_t.

The coefficient of round tau's statistic in y_T is innovation_tau g_tau, and that of its noise is
noise_tau g_tau, where g runs backwards: g_T = 1,
g_tau = (own + mixing)_{tau+1} g_{tau+1} + momentum_{tau+2} g_{tau+2}. In the algorithms that learn
the mean the coefficients of the statistic, times the readings in it, add up to 1. Noise that
messages carry has `Algorithm.noise_gain` at 1 in place of noise_tau: 0 where it cancels in the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from veilsum._types import Floats
from veilsum.algorithms.base import Algorithm, Coefficients
from veilsum.errors import AlgorithmError

CACHED_ROUNDS = 100_000  # rounds up to which a table is cached
CACHED_TABLES = 64  # tables in the cache


@dataclass(frozen=True, eq=False)
class CoefficientTable:
    """Coefficients and sensitivities of rounds 0 .. rounds, the start being round 0."""

    algorithm: Algorithm
    own: Floats
    mixing: Floats
    momentum: Floats
    innovation: Floats
    noise: Floats
    link_noise: Floats
    signal: Floats  # Sensitivities.signal, 0 in rounds without noise
    network: Floats  # Sensitivities.network, likewise

    @property
    def rounds(self) -> int:
        """The last round."""
        return len(self.mixing) - 1

    @property
    def releases(self) -> int:
        """How many rounds have noise, the start included."""
        return int(np.count_nonzero(self.noise))

    @cached_property
    def reused(self) -> tuple[int, int] | None:
        """The reading of a stream that enters most often, and in how many rounds; None if once at most.

        Round t adds up readings latest(t) - readings(t) + 1 .. latest(t), as the simulator does. A
        reading that is not there yet, or that no round has, is as wrong as one that enters twice.
        """
        algorithm = self.algorithm
        if not algorithm.online:
            return None
        rounds = [t for t in np.flatnonzero(self.innovation).tolist() if t]
        ends = np.array([algorithm.latest(t) for t in rounds], dtype=np.int64)
        counts = np.array([algorithm.readings(t) for t in rounds], dtype=np.int64)
        wrong = (counts < 0) | (ends > rounds) | ((counts > 0) & (ends - counts < 0))
        if wrong.any():
            raise AlgorithmError(
                f"algorithm {algorithm.name} adds up {counts[wrong][0]} readings up to reading "
                f"{ends[wrong][0]} in round {np.array(rounds)[wrong][0]}; readings are 1, 2, ... up "
                "to that of the round"
            )
        starts = np.zeros(self.rounds + 2, dtype=np.int64)
        np.add.at(starts, ends - counts + 1, counts > 0)
        np.add.at(starts, ends + 1, -(counts > 0).astype(np.int64))
        entered = np.cumsum(starts)
        most = int(entered.argmax())
        return (most, int(entered[most])) if entered[most] > 1 else None


def coefficient_table(algorithm: Algorithm, rounds: int) -> CoefficientTable:
    """The coefficients of all rounds, each checked to be finite, and no sensitivity negative.

    Cached for the algorithms of this package. What a custom algorithm's coefficients follow from,
    such as a global, cannot be known: it is asked every time.

    >>> from veilsum.algorithms import Learn
    >>> coefficient_table(Learn(), 4).mixing
    array([0.        , 0.        , 0.5       , 0.66666667, 0.75      ])
    """
    if not _of_this_package(algorithm):
        return _tabulate(algorithm, rounds)
    key = (type(algorithm), rounds, *sorted(getattr(algorithm, "__dict__", {"": []}).items()))
    try:
        found = _cache.get(key)
    except TypeError:  # an algorithm with a list or an array for an option
        return _tabulate(algorithm, rounds)
    if found is None:
        found = _tabulate(algorithm, rounds)
        if rounds <= CACHED_ROUNDS:
            while len(_cache) >= CACHED_TABLES:
                _cache.pop(next(iter(_cache)), None)
            _cache[key] = found
    return found


def _of_this_package(algorithm: Algorithm) -> bool:
    """Whether its class, and those of the algorithms that it wraps, are defined in veilsum."""
    parts = [algorithm, *getattr(algorithm, "__dict__", {}).values()]
    kinds = [type(part) for part in parts if isinstance(part, Algorithm)]
    return all(kind.__module__.startswith("veilsum.") for kind in kinds)


# by type and all attributes: `==` of algorithms sees fields only
_cache: dict[Any, CoefficientTable] = {}


def _tabulate(algorithm: Algorithm, rounds: int) -> CoefficientTable:
    numbers = np.array([algorithm.at(t) for t in range(rounds + 1)], dtype=np.float64)
    moves = np.zeros((rounds + 1, 2))
    for t in np.flatnonzero(numbers[:, 4]):
        moves[t] = algorithm.sensitivities(int(t))
    _check(algorithm, numbers, Coefficients._fields)
    _check(algorithm, moves, ("sensitivities.signal", "sensitivities.network"))
    if (moves < 0).any():
        first = int(np.argwhere(moves < 0)[0][0])
        raise AlgorithmError(
            f"algorithm {algorithm.name} has a negative sensitivity in round {first}"
        )
    return CoefficientTable(algorithm, *numbers.T.copy(), *moves.T.copy())


def _check(algorithm: Algorithm, numbers: Floats, names: tuple[str, ...]) -> None:
    wrong = np.argwhere(~np.isfinite(numbers))
    if wrong.size:
        t, k = wrong[0]
        raise AlgorithmError(
            f"algorithm {algorithm.name} gives {numbers[t, k]} for {names[k]} in round {t}; every "
            "coefficient and sensitivity must be a finite number"
        )


@dataclass(frozen=True, eq=False)
class Response:
    """Coefficients of rounds 0 .. T in the mean estimate at round T.

    Attributes
    ----------
    statistic, noise, link_noise : ndarray, shape (T + 1,)
        Of what enters in each round.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.response(algorithms.NaiveNetwork(), 3).noise
    array([1., 1., 1., 1.])
    """

    statistic: Floats
    noise: Floats
    link_noise: Floats


SETTLED = 5000  # rounds after which what stays of a difference is compared with twice as many
STAYS = 0.75  # of it after twice as many rounds: where differences fade, half is left


def keeps_differences(algorithm: Algorithm) -> bool:
    """Whether agents whose readings have different means stay apart for ever, on any network.

    Readings that are constant in time, and differ between agents along an eigenvector of A at 0,
    which one round of averaging would remove: `learn` leaves 1/t of them, `learn-network` 1/2 (erratum
    20). Offline algorithms have one reading each, and all of them differ.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.

    Returns
    -------
    bool

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.keeps_differences(algorithms.Learn())
    False
    >>> algorithms.keeps_differences(algorithms.LearnNetwork())
    True
    """
    if not algorithm.online or algorithm.summed:
        return False
    left = _left(algorithm, 2 * SETTLED)
    early, late = min(left[SETTLED // 2 : SETTLED]), min(left[SETTLED:])
    return late > STAYS * early


def _left(algorithm: Algorithm, rounds: int) -> list[float]:
    """What readings of 1 make of an estimate at lambda = 0, over lambda = 1, in every round.

    Where readings enter in batches there are rounds without any: the least of many rounds counts.
    """
    steps, left = coefficient_table(algorithm, rounds), []
    before = mean_before = 0.0
    now = mean = float(steps.innovation[0])
    columns = (steps.own, steps.mixing, steps.momentum, steps.innovation)
    for t, row in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        own, mixing, momentum, weight = row
        if t:
            new = weight * algorithm.readings(t)
            before, now = now, own * now + momentum * before + new
            mean_before, mean = mean, (own + mixing) * mean + momentum * mean_before + new
        left.append(abs(now / mean) if mean else 0.0)
    return left


def response(algorithm: Algorithm, rounds: int) -> Response:
    """The coefficient of every round in the mean estimate after `rounds` rounds.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.
    rounds : int
        T, the last round.

    Returns
    -------
    Response

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.response(algorithms.Learn(), 4).statistic
    array([0.  , 0.25, 0.25, 0.25, 0.25])
    """
    steps = [algorithm.at(t) for t in range(rounds + 1)]
    gain = np.zeros(rounds + 3)
    gain[rounds] = 1.0
    for tau in range(rounds - 1, -1, -1):
        gain[tau] = (steps[tau + 1].own + steps[tau + 1].mixing) * gain[tau + 1]
        if tau + 2 <= rounds:
            gain[tau] += steps[tau + 2].momentum * gain[tau + 2]
    entering = np.array(steps)[:, 3:]
    entering[:, 1] = [algorithm.noise_gain(t, 1.0) for t in range(rounds + 1)]
    coefficients = entering * gain[: rounds + 1, None]
    if algorithm.ratio:
        counts = [algorithm.readings(t) for t in range(rounds + 1)]
        coefficients = coefficients / (coefficients[:, 0] @ counts)
    return Response(*coefficients.T)
