"""Networks: graphs, the weights by which agents average, and how fast they agree.

    graph = network.load("us-power-grid")
    mixing = network.metropolis(graph)
    mixing.beta_star, mixing.rounds_to(1e-3)

Names are imported when first used, so that `import murmura` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from murmura._lazy import lazily

if TYPE_CHECKING:
    from murmura.network.convert import as_graph
    from murmura.network.directed import DirectedMixing, column_stochastic, row_stochastic
    from murmura.network.edges import read_edges
    from murmura.network.feeders import feeder
    from murmura.network.files import read
    from murmura.network.generators import complete, grid, hypercube, path, ring, star, torus
    from murmura.network.geometric import random_geometric
    from murmura.network.graph import Graph
    from murmura.network.joining import join
    from murmura.network.mixing import Mixing
    from murmura.network.named import Named, load, names
    from murmura.network.order import arrange, permuted
    from murmura.network.protocol import Kind, Network
    from murmura.network.random_graphs import (
        erdos_renyi,
        power_law,
        random_regular,
        watts_strogatz,
    )
    from murmura.network.schedule import Schedule, asleep, from_callable, link_failures, sequence
    from murmura.network.semidefinite import fastest
    from murmura.network.spectrum import extremes
    from murmura.network.weights import (
        SCHEMES,
        best_constant,
        lazy_metropolis,
        max_degree,
        metropolis,
        weigh,
    )

# No name here may also be a submodule's: importing the submodule would replace the function.
_HOMES = {
    "DirectedMixing": "directed",
    "Graph": "graph",
    "Kind": "protocol",
    "Mixing": "mixing",
    "Named": "named",
    "Network": "protocol",
    "SCHEMES": "weights",
    "Schedule": "schedule",
    "arrange": "order",
    "as_graph": "convert",
    "asleep": "schedule",
    "best_constant": "weights",
    "column_stochastic": "directed",
    "complete": "generators",
    "erdos_renyi": "random_graphs",
    "extremes": "spectrum",
    "fastest": "semidefinite",
    "feeder": "feeders",
    "from_callable": "schedule",
    "grid": "generators",
    "hypercube": "generators",
    "join": "joining",
    "lazy_metropolis": "weights",
    "link_failures": "schedule",
    "load": "named",
    "max_degree": "weights",
    "metropolis": "weights",
    "names": "named",
    "path": "generators",
    "permuted": "order",
    "power_law": "random_graphs",
    "random_geometric": "geometric",
    "random_regular": "random_graphs",
    "read": "files",
    "read_edges": "edges",
    "ring": "generators",
    "row_stochastic": "directed",
    "sequence": "schedule",
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
    "Named",
    "Network",
    "Schedule",
    "arrange",
    "as_graph",
    "asleep",
    "best_constant",
    "column_stochastic",
    "complete",
    "erdos_renyi",
    "extremes",
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
