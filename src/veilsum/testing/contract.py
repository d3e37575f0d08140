"""The contract of an algorithm: what every algorithm of veilsum, or of a user, must satisfy.

    nu_t = own nu_{t-1} + mixing A nu_{t-1} + momentum nu_{t-2} + innovation xi_t + noise d_t

with coefficients that are finite, add up to one in every round (so that agents that agree on c and
observe c stay at c), survive pickling, and give the same numbers whether the compiled simulator runs
them or every agent takes its step by hand, from its row of A alone.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veilsum import algorithms, networks
from veilsum.agents.conservation import conserves_mass
from veilsum.algorithms.base import DOUBLY, Algorithm
from veilsum.errors import AlgorithmError, VeilsumError
from veilsum.families import Normal
from veilsum.networks import DirectedMixing, Mixing
from veilsum.privacy import Guarantee, NoPrivacy, PrivacyRequest, SignalDP, guarantee_of
from veilsum.simulation import Problem, Record, SyntheticSignals, simulate

Floats = NDArray[np.float64]
Static = Mixing | DirectedMixing
TOLERANCE = 1e-9  # relative: what the order of a sum's terms may change
FAR_ROUND = 10_000


class _NotApplicableError(Exception):
    """A check that does not apply, and why."""


@dataclass(frozen=True)
class AlgorithmCheck:
    """What `check_algorithm` found.

    Parameters
    ----------
    name : str
        The algorithm's.
    passed : tuple of str
        The checks that it passed.
    skipped : tuple of str
        Those that do not apply, each with the reason.
    guarantee : Guarantee
        What it guarantees under the privacy request; `guarantee.status` is its status.
    runs_on_agents : bool
        Whether it conserves mass, so that real agents can run it.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> found = check_algorithm(algorithms.Average())
    >>> found.name, found.skipped, found.runs_on_agents
    ('average', (), True)
    """

    name: str
    passed: tuple[str, ...]
    skipped: tuple[str, ...]
    guarantee: Guarantee
    runs_on_agents: bool


def check_algorithm(
    algorithm: Algorithm,
    network: Static | None = None,
    *,
    rounds: int = 30,
    privacy: PrivacyRequest | None = None,
    seed: int = 0,
) -> AlgorithmCheck:
    """Check an algorithm against the contract that all algorithms of veilsum satisfy.

    Parameters
    ----------
    algorithm : Algorithm
        The one to check; it may be custom.
    network : Mixing or DirectedMixing, optional
        What it runs over; by default the Florentine families with Metropolis weights, or a small
        directed network if it needs one.
    rounds : int
        How many rounds are run.
    privacy : PrivacyRequest, optional
        What its guarantee is stated for; by default `SignalDP(1.0)`.
    seed : int
        Of the signals.

    Returns
    -------
    AlgorithmCheck
        The checks that passed, those that do not apply, and the guarantee.

    Raises
    ------
    AlgorithmError
        If a check failed; the message names all that did, and what was expected.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> found = check_algorithm(algorithms.Learn())
    >>> found.passed
    ('description', 'finite', 'weights', 'unbiased', 'pickling', 'simulator')
    >>> str(found.guarantee.status), found.runs_on_agents
    ('proved', True)
    """
    algorithms.complete(algorithm)
    network = _default_network(algorithm) if network is None else network
    algorithms.check(algorithm, network)
    checks: dict[str, Callable[[], None]] = {
        "description": lambda: _described(algorithm),
        "finite": lambda: _finite(algorithm, rounds),
        "weights": lambda: _weights_add_up(algorithm, rounds),
        "unbiased": lambda: _unbiased(algorithm, network, rounds),
        "pickling": lambda: _pickles(algorithm, rounds),
        "simulator": lambda: _simulator_agrees(algorithm, network, rounds, seed),
    }
    passed, skipped, failed = [], [], []
    for name, run in checks.items():
        try:
            run()
            passed.append(name)
        except _NotApplicableError as why:
            skipped.append(f"{name}: {why}")
        except VeilsumError as problem:
            failed.append(f"{name}: {problem}")
    if failed:
        raise AlgorithmError(
            f"algorithm {type(algorithm).__name__} breaks its contract; " + "; ".join(failed)
        )
    guarantee = guarantee_of(privacy or SignalDP(1.0), algorithm, rounds)
    return AlgorithmCheck(
        algorithm.name, tuple(passed), tuple(skipped), guarantee, conserves_mass(algorithm, rounds)
    )


def _default_network(algorithm: Algorithm) -> Static:
    if DOUBLY in algorithm.kinds:
        return networks.metropolis(networks.load("florentine-families"))
    arcs = np.array([[0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0]])
    return networks.column_stochastic(networks.as_graph(arcs))


def _described(algorithm: Algorithm) -> None:
    name = getattr(algorithm, "name", None)
    if not isinstance(name, str) or not name:
        raise AlgorithmError("it needs a class attribute `name`, which results and errors show")
    formula = getattr(algorithm, "formula", "nu_t")
    if not str(formula).startswith("nu_t"):
        raise AlgorithmError(f"its formula must begin with nu_t; found {formula!r}")
    if not type(algorithm).__doc__:
        raise AlgorithmError("its class needs a docstring")


def _finite(algorithm: Algorithm, rounds: int) -> None:
    for t in (*range(rounds + 1), FAR_ROUND):
        algorithm.at(t)


def _weights_add_up(algorithm: Algorithm, rounds: int) -> None:
    if algorithm.diverges:
        raise _NotApplicableError(f"it is known to diverge, {algorithm.diverges}")
    for t in (*range(1, rounds + 1), FAR_ROUND):
        now = algorithm.at(t)
        total = now.own + now.mixing + now.momentum + (0 if algorithm.ratio else now.innovation)
        if abs(total - 1) > TOLERANCE:
            raise AlgorithmError(
                f"in round {t} own + mixing + momentum{'' if algorithm.ratio else ' + innovation'} "
                f"is {total:.12g}, expected 1: agents that agree would drift; if it is meant to, "
                "set `diverges` to the reason"
            )


def _unbiased(algorithm: Algorithm, network: Static, rounds: int) -> None:
    """Agents that all observe c estimate c, exactly or in the limit."""
    if algorithm.diverges:
        raise _NotApplicableError(f"it is known to diverge, {algorithm.diverges}")
    signals = np.full((rounds + 1, network.size), 3.0)
    bias = np.abs(_by_rows(algorithm, network, signals) - 3.0).max(axis=1)
    exact = bias[-1] <= 3.0 * TOLERANCE
    if not exact and not bias[-1] < bias[len(bias) // 2] < bias[0]:
        raise AlgorithmError(
            f"agents that all observe 3 estimate {3 + bias[-1]:.6g} or {3 - bias[-1]:.6g} after "
            f"{rounds} rounds, and the difference does not shrink; check its start"
        )


def _pickles(algorithm: Algorithm, rounds: int) -> None:
    kind = type(algorithm)
    home = sys.modules.get(kind.__module__)
    if getattr(home, kind.__qualname__, None) is not kind:
        raise _NotApplicableError(
            f"{kind.__qualname__} cannot be imported; define it at the top of a module"
        )
    try:
        again = pickle.loads(pickle.dumps(algorithm))
    except Exception as problem:
        raise AlgorithmError(
            f"it must survive pickling, for runs on several processes: {problem}"
        ) from problem
    for t in range(rounds + 1):
        if again.at(t) != algorithm.at(t):
            raise AlgorithmError(f"a pickled copy has other coefficients in round {t}")


def _simulator_agrees(algorithm: Algorithm, network: Static, rounds: int, seed: int) -> None:
    family = Normal(sigma=1.0)
    source = SyntheticSignals(family, {"mu": 5.0}, network.size, seed)
    problem = Problem(network, algorithm, family, source, NoPrivacy(), rounds, seed=seed)
    final = simulate(problem, Record()).final
    if final is None:
        raise AlgorithmError("the simulator returned no final estimates")
    if algorithm.online:
        drawn = [source.signals(max(t, 1), 1) for t in range(rounds + 1)]
    else:
        drawn = [source.signals(1, 1)] * (rounds + 1)
    signals = np.array([family.columns(one)[:, 0, 0] for one in drawn])
    stepped = _by_rows(algorithm, network, signals)[-1]
    off = float(np.max(np.abs(final[:, 0, 0, 0] - stepped) / np.maximum(1.0, np.abs(stepped))))
    if not off <= TOLERANCE:
        raise AlgorithmError(
            f"after {rounds} rounds the simulator and agents that step by hand differ by {off:.3g}, "
            f"expected at most {TOLERANCE:g}; does coefficients(t) depend on anything but t?"
        )


def _by_rows(algorithm: Algorithm, network: Static, signals: Floats) -> Floats:
    """Estimates (round, agent) without noise: every agent steps from its own row of A."""
    size, zero = network.size, 0.0
    states = [algorithms.init(algorithm, float(x), zero) for x in signals[0]]
    weights = [algorithms.init(algorithm, 1.0, zero) for _ in range(size)]
    found = [_estimates(algorithm, states, weights)]
    for t in range(1, len(signals)):
        A = network.at(t)
        nu, w = [s.nu for s in states], [s.nu for s in weights]
        entering = signals[t]
        if algorithm.session is not None:  # every agent gets the mean
            entering = np.full(size, algorithm.session.mass @ entering)
        for i in range(size):
            row = range(A.indptr[i], A.indptr[i + 1])
            mixed = sum(A.data[k] * nu[A.indices[k]] for k in row)
            shared = sum(A.data[k] * w[A.indices[k]] for k in row)
            x = float(entering[i])
            states[i] = algorithms.step(algorithm, t, states[i], mixed, x, zero)
            weights[i] = algorithms.step(algorithm, t, weights[i], shared, 1.0, zero)
        found.append(_estimates(algorithm, states, weights))
    return np.array(found)


def _estimates(
    algorithm: Algorithm, states: list[algorithms.State], weights: list[algorithms.State]
) -> list[float]:
    if not algorithm.ratio:
        return [s.nu for s in states]
    return [s.nu / w.nu if w.nu else 0.0 for s, w in zip(states, weights, strict=True)]
