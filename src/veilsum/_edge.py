"""Conversion of the arguments of `estimate` and `sweep` to the types of the library.

A name stands for an object here, as in a scenario: `family="bernoulli"`, `network="ring:21"`.
Anything else raises an error with what was found, what is expected and how to write it.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from veilsum import _validate
from veilsum._types import Family, FamilyLike, Network, NetworkLike
from veilsum.algorithms import ALGORITHMS, Algorithm
from veilsum.errors import (
    FamilyError,
    NetworkError,
    PrivacyError,
    SignalError,
    VeilsumError,
)
from veilsum.families.base import ExponentialFamily

if TYPE_CHECKING:
    from veilsum.privacy import PrivacyRequest

_NEEDED = ("size", "labels", "kind", "dynamic", "stationary", "at", "largest_neighbour_weight")


def network_of(network: NetworkLike) -> Network:
    """A network with weights; the name or file of a graph gets those of `networks.weigh`."""
    if isinstance(network, str | os.PathLike):
        from veilsum.networks import load, weigh

        return weigh(load(network))
    if isinstance(network, type) or not all(hasattr(network, name) for name in _NEEDED):
        raise NetworkError(
            f"a network with weights is needed; found {_kind(network)}; try "
            "networks.metropolis(graph), or the name of a graph, such as 'ring:21'"
        )
    return network


def family_of(family: FamilyLike) -> Family:
    """A family, also by its name if it needs no options."""
    if isinstance(family, str):
        from veilsum.families import get

        return get(family)
    if not isinstance(family, ExponentialFamily):
        raise FamilyError(
            f"family must be a family or the name of one; found {_kind(family)}; try "
            "families.Bernoulli(), or 'bernoulli'"
        )
    return family


def request_of(privacy: Any) -> PrivacyRequest:
    """A privacy request, checked."""
    from veilsum.privacy import NoPrivacy
    from veilsum.privacy.requests import DifferentialPrivacy

    if not isinstance(privacy, DifferentialPrivacy | NoPrivacy):
        raise PrivacyError(
            f"privacy must be a privacy request; found {_kind(privacy)}; try "
            "privacy.SignalDP(epsilon=1.0), or privacy.NoPrivacy() for no noise"
        )
    return privacy


def epsilons_of(epsilons: Any, privacy: PrivacyRequest) -> tuple[float, ...]:
    """Several epsilons; a text is refused, although it can be iterated over."""
    wrong = isinstance(epsilons, str | bytes | bytearray | Mapping | set | frozenset)
    if wrong or not isinstance(epsilons, Iterable) or np.ndim(_listed(epsilons)) > 1:
        raise PrivacyError(
            "epsilons must be a list of different numbers above 0, such as [0.5, 1.0]; found "
            f"{_validate.found(epsilons)}"
        )
    values = tuple(epsilons)
    if values and not privacy.adds_noise:
        raise PrivacyError(
            "epsilons belong to a request that adds noise, and NoPrivacy adds none; leave epsilons "
            "out, or ask for privacy.SignalDP(epsilon=1.0)"
        )
    for place, value in enumerate(values):
        _validate.positive(PrivacyError, **{f"epsilons[{place}]": value})
    return tuple(map(float, values))


def record_of(record: Any, default: Any) -> Any:
    """What to record, or the default for None."""
    if record is None:
        return default
    if not isinstance(record, type(default)):
        raise VeilsumError(
            f"record must be a Record; found {_kind(record)}; try Record(every=10), or "
            "Record(estimates=False)"
        )
    return record


def progress_of(progress: Any) -> Any:
    """None, or a function of the round and the number of rounds."""
    if progress is not None and not callable(progress):
        raise VeilsumError(
            f"progress must be a function of (round, rounds) or None; found {_kind(progress)}"
        )
    return progress


def parameters_of(family: Family, parameters: Mapping[str, Any], agents: int) -> Mapping[str, Any]:
    """Parameters to draw signals from, tried once so that a wrong one is reported before the run."""
    names = ", ".join(parameters)
    try:
        with np.errstate(all="ignore"):
            one = family.sample(np.random.default_rng(0), (2, agents), **parameters)
            mean = family.mean(**parameters)
    except VeilsumError:
        raise
    except (TypeError, ValueError, ArithmeticError):
        raise SignalError(
            f"cannot draw signals of {family.name} from {names}: a parameter is not a real number, "
            "or has the wrong shape; one value of each is needed for all agents"
        ) from None
    if np.shape(mean) != (family.dimension,):
        raise SignalError(
            f"cannot draw signals of {family.name} from {names}: one value of each is needed, the "
            "same for all agents; draw them yourself where they differ, and pass the array"
        )
    if not (np.isfinite(one).all() and np.isfinite(mean).all()):
        raise SignalError(
            f"cannot draw signals of {family.name} from {names}: they are not finite; choose "
            "moderate parameters"
        )
    return parameters


SYNONYMS = {"seed": "rng", "random_state": "rng"}


def check_options(call: Callable[..., Any], algorithm: Any, options: Mapping[str, Any]) -> None:
    """Raise for an option that neither the call nor the algorithm has, and suggest the nearest one."""
    if not options:
        return
    own = [name for name in inspect.signature(call).parameters if name != "options"]
    known = algorithm in ALGORITHMS
    of_algorithm = [f.name for f in dataclasses.fields(ALGORITHMS[algorithm])] if known else []
    for option in options:
        near = difflib.get_close_matches(SYNONYMS.get(option, option), own, n=1, cutoff=0.75)
        if option not in of_algorithm and near and (known or isinstance(algorithm, Algorithm)):
            name = call.__name__
            raise VeilsumError(
                f"{name} has no option {option!r}; did you mean {near[0]!r}? The algorithm takes "
                f"{', '.join(of_algorithm) or 'no options'}"
            )


def _listed(values: Iterable[Any]) -> Any:
    """What `np.ndim` can look at: anything with axes as it is, anything else as one axis."""
    return values if hasattr(values, "ndim") else [0]


def _kind(value: Any) -> str:
    """A class is shown by its name, anything else as messages show values."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return _validate.found(value).removeprefix("a value of type ")
