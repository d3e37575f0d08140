"""The algorithms of the paper, and others, each as one linear recursion in one file.

`get("jacobi", network, dimension=2)` builds the algorithm for a network; `names()` lists them. A
custom `Algorithm` needs a start and the coefficients of round t. `init` and `step` run any of them
by hand: hold a state, call step. A class in a file of this package that states a `name` is known
by it everywhere: `ALGORITHMS` finds it, and no list has to be changed.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from veilsum import _validate
from veilsum._types import Network
from veilsum.algorithms.average import Average
from veilsum.algorithms.base import (
    ALGORITHMS,
    Algorithm,
    Coefficients,
    Sensitivities,
    State,
    init,
    step,
    update,
)
from veilsum.algorithms.batched import Batched
from veilsum.algorithms.chebyshev import Chebyshev
from veilsum.algorithms.first_order import FirstOrder, FirstOrderEdges, FirstOrderOnline
from veilsum.algorithms.graph_homomorphic import GraphHomomorphic
from veilsum.algorithms.jacobi import Jacobi
from veilsum.algorithms.keepers import Keepers
from veilsum.algorithms.learn import Learn
from veilsum.algorithms.learn_network import LearnDynamic, LearnDynamicAsPublished, LearnNetwork
from veilsum.algorithms.masked_learn import MaskedLearn
from veilsum.algorithms.masked_session import MaskedAlgorithm
from veilsum.algorithms.masked_sum import MaskedSum
from veilsum.algorithms.naive_network import NaiveNetwork
from veilsum.algorithms.push_sum import PushSum, PushSumLearn
from veilsum.algorithms.secure_learn import SecureLearn
from veilsum.algorithms.secure_sum import SecureSum
from veilsum.algorithms.summed import SummedAlgorithm
from veilsum.algorithms.table import Response, keeps_differences, response
from veilsum.errors import AlgorithmError

__all__ = [
    "ALGORITHMS", "Algorithm", "Average", "Batched", "Chebyshev", "Coefficients", "FirstOrder",
    "FirstOrderEdges", "FirstOrderOnline", "GraphHomomorphic", "Jacobi", "Keepers", "Learn",
    "LearnDynamic", "LearnDynamicAsPublished", "LearnNetwork", "MaskedAlgorithm", "MaskedLearn",
    "MaskedSum", "NaiveNetwork", "PushSum", "PushSumLearn", "Response", "SecureLearn", "SecureSum",
    "Sensitivities", "State", "SummedAlgorithm", "check", "get", "init", "keeps_differences", "names",
    "response", "step", "update",
]  # fmt: skip


def names() -> list[str]:
    """The names that `get` knows, in alphabetical order.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from veilsum import algorithms
    >>> algorithms.names()[:3]
    ['average', 'chebyshev', 'first-order']
    """
    return ALGORITHMS.names()


def get(algorithm: str | Algorithm, network: Network, **options: Any) -> Algorithm:
    """The algorithm of that name for a network, checked against it.

    Parameters
    ----------
    algorithm : str or Algorithm
        A name of `names()`; an `Algorithm` is only checked.
    network : Network
        Where it is to run.
    **options
        Fields of the algorithm, with a name only.

    Returns
    -------
    Algorithm

    Raises
    ------
    AlgorithmError
        For an unknown name or option, or a network of a kind that the algorithm does not work on.

    Examples
    --------
    >>> from veilsum import algorithms, networks
    >>> algorithms.get("jacobi", networks.lazy_metropolis("ring:8"), dimension=1)
    Jacobi(dimension=1)
    """
    if isinstance(algorithm, str):
        kind = ALGORITHMS.get(algorithm)
        known = [f.name for f in fields(kind)]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise AlgorithmError(
                f"algorithm {kind.name} has no option {', '.join(unknown)}; it takes "
                f"{', '.join(known) or 'none'}"
            )
        fits(kind, network)
        algorithm = kind.for_network(network, **options)
    elif not isinstance(algorithm, Algorithm):
        raise AlgorithmError(
            f"algorithm must be a name or an Algorithm; {_found(algorithm)}; known names: "
            f"{', '.join(names())}"
        )
    elif options:
        raise AlgorithmError(
            f"options {sorted(options)} go with an algorithm's name, not with the instance {algorithm!r}"
        )
    check(algorithm, network)
    return algorithm


def check(algorithm: Algorithm, network: Network) -> None:
    """Raise unless the algorithm works on this network, and its first rounds are finite numbers.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.
    network : Network
        Where it is to run.

    Raises
    ------
    AlgorithmError
        With the reason.

    Examples
    --------
    >>> from veilsum import algorithms, networks
    >>> algorithms.check(algorithms.Average(), networks.lazy_metropolis("ring:8"))
    """
    complete(algorithm)
    fits(algorithm, network)
    for t in (0, 1, 2):
        moves = algorithm.sensitivities(t) if algorithm.at(t).noise else Sensitivities(0.0, 0.0)
        if not all(0 <= _validate.as_float(move) < math.inf for move in moves):
            raise AlgorithmError(
                f"algorithm {algorithm.name} must move by finite amounts of at least 0 in round {t}; "
                "check its sensitivities(t): noise cannot be made for what it gives"
            )


def complete(algorithm: Algorithm) -> None:
    """Raise unless it is an instance of `Algorithm` with a name and a start."""
    if not isinstance(algorithm, Algorithm):
        raise AlgorithmError(f"an Algorithm is needed; {_found(algorithm)}")
    missing = [name for name in ("name", "start") if not hasattr(algorithm, name)]
    if missing:
        raise AlgorithmError(
            f"class {type(algorithm).__name__} lacks {' and '.join(missing)}, which an algorithm "
            'needs as class attributes, such as name = "custom" and start = '
            "Coefficients(innovation=1.0, noise=1.0)"
        )


def fits(algorithm: Algorithm | type[Algorithm], network: Network) -> None:
    """Raise unless the algorithm works on this kind of network."""
    if network.kind not in algorithm.kinds:
        fit = [name for name, other in ALGORITHMS.items() if network.kind in other.kinds]
        raise AlgorithmError(
            f"algorithm {algorithm.name} needs {' or '.join(sorted(algorithm.kinds))} weights; "
            f"this network's are {network.kind}, which suit {', '.join(fit)}"
        )
    session = algorithm.session if isinstance(algorithm, Algorithm) else None
    if session is not None and session.members != network.size:
        raise AlgorithmError(
            f"algorithm {algorithm.name} has {session.members} members and the network "
            f"{network.size} agents"
        )
    if network.dynamic and algorithm.summed:
        raise AlgorithmError(
            f"algorithm {algorithm.name} is simulated as floods over one fixed network, and this one "
            "is dynamic; use fixed weights (of real agents' links it is enough that records get "
            "through in the end)"
        )
    if network.dynamic and algorithm.static_only:
        raise AlgorithmError(
            f"algorithm {algorithm.name} belongs to one fixed network, and the network is dynamic; "
            "try average"
        )


def _found(algorithm: Any) -> str:
    if isinstance(algorithm, type):
        return f"found the class {algorithm.__name__}; write {algorithm.__name__}()"
    return f"found {_validate.found(algorithm)}"
