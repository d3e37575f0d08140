"""Networks: graphs, the weights by which agents average, and how fast they agree.

    graph = networks.load("us-power-grid")
    mixing = networks.metropolis(graph)
    mixing.beta_star, mixing.rounds_to(1e-3)

Names are imported when first used, so that `import veilsum` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veilsum._lazy import lazily

if TYPE_CHECKING:
    from veilsum._types import Kind, Network
    from veilsum.networks.generators import (
        NamedGraph,
        complete,
        feeder,
        grid,
        hypercube,
        load,
        names,
        path,
        ring,
        star,
        torus,
    )
    from veilsum.networks.graph import Graph
    from veilsum.networks.io import as_graph, read, read_edges
    from veilsum.networks.mixing import DirectedMixing, Mixing
    from veilsum.networks.order import arrange, permuted
    from veilsum.networks.random_graphs import (
        erdos_renyi,
        join,
        power_law,
        random_geometric,
        random_regular,
        watts_strogatz,
    )
    from veilsum.networks.schedules import Schedule, asleep, from_callable, link_failures, sequence
    from veilsum.networks.spectrum import extreme_eigenvalues
    from veilsum.networks.weights import (
        SCHEMES,
        best_constant,
        column_stochastic,
        fastest,
        lazy_metropolis,
        max_degree,
        metropolis,
        row_stochastic,
        weigh,
    )

# No name here may also be a submodule's: importing the submodule would replace the function.
_HOMES = {
    "DirectedMixing": "mixing",
    "Graph": "graph",
    "Kind": "veilsum._types",
    "Mixing": "mixing",
    "NamedGraph": "generators",
    "Network": "veilsum._types",
    "SCHEMES": "weights",
    "Schedule": "schedules",
    "arrange": "order",
    "as_graph": "io",
    "asleep": "schedules",
    "best_constant": "weights",
    "column_stochastic": "weights",
    "complete": "generators",
    "erdos_renyi": "random_graphs",
    "extreme_eigenvalues": "spectrum",
    "fastest": "weights",
    "feeder": "generators",
    "from_callable": "schedules",
    "grid": "generators",
    "hypercube": "generators",
    "join": "random_graphs",
    "lazy_metropolis": "weights",
    "link_failures": "schedules",
    "load": "generators",
    "max_degree": "weights",
    "metropolis": "weights",
    "names": "generators",
    "path": "generators",
    "permuted": "order",
    "power_law": "random_graphs",
    "random_geometric": "random_graphs",
    "random_regular": "random_graphs",
    "read": "io",
    "read_edges": "io",
    "ring": "generators",
    "row_stochastic": "weights",
    "sequence": "schedules",
    "star": "generators",
    "torus": "generators",
    "watts_strogatz": "random_graphs",
    "weigh": "weights",
}

__all__ = [
    "SCHEMES",
    "DirectedMixing",
    "Graph",
    "Kind",
    "Mixing",
    "NamedGraph",
    "Network",
    "Schedule",
    "arrange",
    "as_graph",
    "asleep",
    "best_constant",
    "column_stochastic",
    "complete",
    "erdos_renyi",
    "extreme_eigenvalues",
    "fastest",
    "feeder",
    "from_callable",
    "grid",
    "hypercube",
    "join",
    "lazy_metropolis",
    "link_failures",
    "load",
    "max_degree",
    "metropolis",
    "names",
    "path",
    "permuted",
    "power_law",
    "random_geometric",
    "random_regular",
    "read",
    "read_edges",
    "ring",
    "row_stochastic",
    "sequence",
    "star",
    "torus",
    "watts_strogatz",
    "weigh",
]

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
