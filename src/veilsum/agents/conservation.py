"""Which algorithms agents can run: those whose update conserves mass.

With S = nu for the offline algorithms and S = t nu for the online ones, such an algorithm is

    S_t = (1 - p_t) S_{t-1} + p_t A S_{t-1} + x_t,        x_t = xi_t + d_t released in round t,

and the number of readings obeys the same with x_t = 1: w = 1 for average, w = t for learn. So
agents send parts of (S, w) to one another and read off S/w. What is sent is subtracted: the totals
of S and of w are those of all that was released, whatever is lost or late on the way.

What agents and the simulator share is `Algorithm.coefficients`: p_t is computed from them here, and
`check` compares them with the form above, so an algorithm is defined once. What they do not share is
the arithmetic: the simulator updates floating-point estimates of all agents at once, an agent moves
integers, because mass must be conserved to the bit. The parity suite runs every algorithm of
`supported` both ways and fails if one is missing.
"""

from __future__ import annotations

from veilsum.algorithms import ALGORITHMS
from veilsum.algorithms.base import Algorithm
from veilsum.errors import AgentError, AlgorithmError


def sent_fraction(algorithm: Algorithm, t: int) -> float:
    """p_t: how much of S goes through the weights in round t = 1, 2, ...

    Parameters
    ----------
    algorithm : Algorithm
        One that conserves mass.
    t : int
        The round.

    Returns
    -------
    float
        In [0, 1]; 0 while S is 0.

    Examples
    --------
    >>> from veilsum.algorithms import ALGORITHMS
    >>> sent_fraction(ALGORITHMS["learn"](), 5), sent_fraction(ALGORITHMS["learn-network"](), 5)
    (1.0, 0.25)
    """
    mixing = algorithm.coefficients(t).mixing
    if algorithm.ratio or not algorithm.online:  # S = nu
        return mixing
    return 0.0 if t == 1 else mixing * t / (t - 1)  # S = t nu


def conserves_mass(algorithm: Algorithm, rounds: int = 100) -> bool:
    """Whether S_t = (1 - p_t) S_{t-1} + p_t A S_{t-1} + x_t with one p_t in every round.

    Parameters
    ----------
    algorithm : Algorithm
        Any.
    rounds : int
        How many rounds are checked.

    Returns
    -------
    bool
        Whether the totals over all agents are those of the releases.

    Examples
    --------
    >>> from veilsum.algorithms import ALGORITHMS
    >>> conserves_mass(ALGORITHMS["average"]()), conserves_mass(ALGORITHMS["jacobi"]())
    (True, False)
    """
    whole = (0.0, 0.0) if algorithm.online else (1.0, 1.0)
    if algorithm.masked or (algorithm.start.innovation, algorithm.start.noise) != whole:
        return False
    return all(_conserves_in_round(algorithm, t) for t in range(1, rounds + 1))


def supported() -> tuple[str, ...]:
    """The names of the algorithms that agents can run with their default options.

    Returns
    -------
    tuple of str
        In alphabetical order.

    Examples
    --------
    >>> "learn-network" in supported(), "jacobi" in supported()
    (True, False)
    """
    names = []
    for name, algorithm in ALGORITHMS.items():
        try:
            made = algorithm()
        except TypeError:  # an option has no default
            continue
        if conserves_mass(made):
            names.append(name)
    return tuple(names)


def check(algorithm: Algorithm, rounds: int = 100) -> None:
    """Raise unless agents can run the algorithm.

    Parameters
    ----------
    algorithm : Algorithm
        Any.
    rounds : int
        How many rounds are checked.

    Raises
    ------
    AlgorithmError
        If it does not conserve mass, or is a secure sum.
    """
    if algorithm.summed and not algorithm.masked:
        raise AlgorithmError(
            f"algorithm {algorithm.name} does not conserve mass: secure sums run in a fleet, and "
            "`veilsum run` simulates them"
        )
    if not conserves_mass(algorithm, rounds):
        masked = [name for name, kind in ALGORITHMS.items() if kind.masked]
        raise AlgorithmError(
            f"algorithm {algorithm.name} does not conserve mass, which agents rely on: what one "
            f"sends must be what the others receive; agents run {', '.join(supported())} and "
            f"{' and '.join(masked)}, and `veilsum run` simulates the others"
        )


def keeps_weights_equal(algorithm: Algorithm, rounds: int = 100) -> bool:
    """Whether members with one release each have the same weight in all rounds, with symmetric A.

    So it is where S_t = A S_{t-1} and nothing enters after the start: w_0 = 1 for everyone and
    A 1 = 1. In a stream a reading that does not come makes weights differ, and a ratio algorithm is
    for weights that do. Then clip(a_ij (S_j - S_i), a_ij r) is a_ij clip(nu_j - nu_i, r): clipped
    gossip, in sums.

    Parameters
    ----------
    algorithm : Algorithm
        Any.
    rounds : int
        How many rounds are checked.

    Returns
    -------
    bool
        Whether its rounds can be clipped.

    Examples
    --------
    >>> from veilsum.algorithms import ALGORITHMS
    >>> [name for name in supported() if keeps_weights_equal(ALGORITHMS[name]())]
    ['average']
    """
    if algorithm.online or algorithm.ratio or not conserves_mass(algorithm, rounds):
        return False
    return all(_near(sent_fraction(algorithm, t), 1) for t in range(1, rounds + 1))


def check_clipping(algorithm: Algorithm, rounds: int = 100) -> None:
    """Raise unless the rounds of an algorithm can be clipped.

    Parameters
    ----------
    algorithm : Algorithm
        One that agents run.
    rounds : int
        How many rounds are checked.

    Raises
    ------
    AgentError
        If members can have different weights.
    """
    if not keeps_weights_equal(algorithm, rounds):
        names = [name for name in supported() if keeps_weights_equal(ALGORITHMS[name]())]
        raise AgentError(
            f"clip bounds what a neighbour changes where all members have the same weight, and with "
            f"algorithm {algorithm.name} they may not: a clipped sum would no longer fit its weight; "
            f"use {', '.join(names)}, or leave clip out of [agents]"
        )


def _conserves_in_round(algorithm: Algorithm, t: int) -> bool:
    own, mixing, momentum, innovation, noise, edge = algorithm.coefficients(t)
    if momentum or edge:
        return False
    if not algorithm.online:
        return _near(own + mixing, 1) and innovation == noise == 0
    unit = 1.0 if algorithm.ratio else 1 / t
    before = 1.0 if algorithm.ratio else (t - 1) / t
    entire = t == 1 or _near(own + mixing, before)
    return _near(innovation, unit) and _near(noise, unit) and entire


def _near(a: float, b: float) -> bool:
    return abs(a - b) < 1e-12
