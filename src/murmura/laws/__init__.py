"""The algorithms of the paper, and those beyond it, as one linear law each.

`get("jacobi", network, dimension=2)` makes the law for a network; `names()` lists them. To add
one, write a `Law` of your own: it needs a start and the coefficients of round t.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import fields
from typing import Any

from murmura import _validate
from murmura.errors import LawError
from murmura.laws.average import Average
from murmura.laws.base import (
    Coefficients,
    Law,
    Sensitivities,
    State,
    advance,
    begin,
    combine,
)
from murmura.laws.chebyshev import Chebyshev
from murmura.laws.first_order import FirstOrder, FirstOrderEdges, FirstOrderOnline
from murmura.laws.graph_homomorphic import GraphHomomorphic
from murmura.laws.jacobi import Jacobi
from murmura.laws.learn import Learn
from murmura.laws.learn_network import LearnDynamic, LearnDynamicPrinted, LearnNetwork
from murmura.laws.naive_network import NaiveNetwork
from murmura.laws.push_sum import PushSum, PushSumLearn
from murmura.laws.response import Response, response

__all__ = [
    "LAWS",
    "Average",
    "Chebyshev",
    "Coefficients",
    "FirstOrder",
    "FirstOrderEdges",
    "FirstOrderOnline",
    "GraphHomomorphic",
    "Jacobi",
    "Law",
    "Learn",
    "LearnDynamic",
    "LearnDynamicPrinted",
    "LearnNetwork",
    "NaiveNetwork",
    "PushSum",
    "PushSumLearn",
    "Response",
    "Sensitivities",
    "State",
    "advance",
    "begin",
    "check",
    "combine",
    "get",
    "names",
    "response",
]

LAWS: dict[str, type[Law]] = {
    law.name: law
    for law in (
        Average,
        Learn,
        LearnNetwork,
        LearnDynamic,
        LearnDynamicPrinted,
        FirstOrder,
        FirstOrderOnline,
        FirstOrderEdges,
        GraphHomomorphic,
        NaiveNetwork,
        Chebyshev,
        Jacobi,
        PushSum,
        PushSumLearn,
    )
}


def names() -> list[str]:
    """List the names that `get` knows."""
    return list(LAWS)


def get(law: str | Law, network: Any, **options: Any) -> Law:
    """Make the named law for a network, checked against it; a `Law` passes through the check."""
    if isinstance(law, str):
        law = _made(_named(law), network, options)
    elif not isinstance(law, Law):
        raise LawError(
            f"law must be a name or a Law; found {_kind(law)}; known names: {', '.join(LAWS)}"
        )
    elif options:
        raise LawError(f"options {sorted(options)} go with a law's name, not with a made {law!r}")
    check(law, network)
    return law


def _made(law: type[Law], network: Any, options: dict[str, Any]) -> Law:
    known = [f.name for f in fields(law)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise LawError(
            f"law {law.name} has no option {', '.join(unknown)}; "
            f"it takes {', '.join(known) or 'none'}"
        )
    fits(law, network)
    return law.for_network(network, **options)


def check(law: Law, network: Any) -> None:
    """Raise unless the law is made for this kind of network, and its first rounds are numbers."""
    fits(law, network)
    for t in (0, 1, 2):
        now = law.at(t)
        moves = law.sensitivities(t) if now.noise else Sensitivities(0.0, 0.0)
        if not all(0 <= _validate.as_float(move) < math.inf for move in moves):
            raise LawError(
                f"law {law.name} must move by finite amounts of at least 0 in round {t}; check its "
                "sensitivities(t): noise cannot be made for what it gives"
            )


def fits(law: Law | type[Law], network: Any) -> None:
    """Raise unless the law is made for this kind of network."""
    if network.kind not in law.kinds:
        fit = [name for name, other in LAWS.items() if network.kind in other.kinds]
        raise LawError(
            f"law {law.name} needs {' or '.join(sorted(law.kinds))} weights; this network's are "
            f"{network.kind}, which suit {', '.join(fit)}"
        )
    if network.dynamic and law.static_only:
        raise LawError(
            f"law {law.name} is a polynomial of one fixed matrix and the network is dynamic; "
            "try average"
        )


def _named(name: str) -> type[Law]:
    if name not in LAWS:
        near = difflib.get_close_matches(name, LAWS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise LawError(f"no law is called {name!r}; {hint}known: {', '.join(LAWS)}")
    return LAWS[name]


def _kind(law: Any) -> str:
    return f"the class {law.__name__}" if isinstance(law, type) else _validate.found(law)
