"""The laws and weights that a plan compares: those that keep at least the promise asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from murmura import laws
from murmura.engine import Problem
from murmura.errors import LawError, NetworkError
from murmura.laws import Law
from murmura.privacy import NoPrivacy, Status, promise

OFFLINE, ONLINE = ("average", "jacobi", "chebyshev"), ("learn", "learn-network")
SCHEMES = ("metropolis", "best-constant")
_RANKS = (Status.NONE, Status.REFUTED, Status.CLAIMED, Status.ESTIMATED, Status.PROVED)


def status(problem: Problem) -> Status:
    """How the promise of a problem stands."""
    return promise(problem.want, problem.law, problem.rounds, problem.family).status


def candidates(problem: Problem) -> Iterator[Problem]:
    """Every law and weights that keep at least the promise that the problem's own law keeps."""
    bare = isinstance(problem.want, NoPrivacy)
    least = 0 if bare else max(_RANKS.index(status(problem)), 1)
    for net in _networks(problem.network):
        for law in _laws(problem.law, net):
            made = replace(problem, network=net, law=law)
            if bare or _RANKS.index(status(made)) >= least:
                yield made


def _laws(own: Law, network: Any) -> Iterator[Law]:
    names = ONLINE if own.online else OFFLINE
    if own.name not in names and not own.diverges and not own.splits_budget:
        yield own
    for name in names:
        try:
            yield own if own.name == name and name != "chebyshev" else laws.get(name, network)
        except (LawError, NetworkError):  # not made for this network, or its spectrum is not found
            continue


def _networks(own: Any) -> Iterator[Any]:
    """The problem's weights, and others on the same graph that suit it."""
    yield own
    if own.graph is None:
        return
    from murmura.network import weigh

    for scheme in SCHEMES:
        if scheme == own.scheme.partition(",")[0]:
            continue
        try:
            yield weigh(own.graph, scheme)
        except NetworkError:  # periodic, such as metropolis on an even ring: no candidate
            continue
