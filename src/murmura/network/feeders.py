"""Radial feeders: trees, as the last mile of a power grid is.

The IEEE test feeders are the public topologies of the Distribution System Analysis Subcommittee
(Kersting, "Radial distribution test feeders", 2001); regulators, switches and transformers between
two nodes count as links.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from murmura.network.graph import Graph, sized

# Each walk is a chain of nodes down the tree; it begins at a node of an earlier walk.
IEEE_13 = """
650 632 671 692 675
632 633 634
632 645 646
671 680
671 684 611
684 652
"""

IEEE_34 = """
800 802 806 808 812 814 850 816 824 828 830 854 852 832 858 834 860 836 862 838
808 810
816 818 820 822
824 826
854 856
832 888 890
858 864
834 842 844 846 848
836 840
"""


def ieee_13() -> Graph:
    """The IEEE 13-node test feeder: 13 nodes, 12 links, labelled 650, 632, ..."""
    return _from_walks(IEEE_13, "ieee-13")


def ieee_34() -> Graph:
    """The IEEE 34-node test feeder: 34 nodes, 33 links, labelled 800, 802, ..."""
    return _from_walks(IEEE_34, "ieee-34")


def feeder(trunk: int, laterals: int, length: int = 3) -> Graph:
    """A trunk of `trunk` agents and `laterals` side lines of `length` agents spread evenly on it.

    n = trunk + laterals * length; lateral k leaves agent floor((k + 1/2) trunk / laterals).
    """
    sized(2, trunk=trunk)
    sized(1, laterals=laterals, length=length)
    sized(3, size=trunk + laterals * length)
    k = np.arange(laterals)
    side = trunk + np.arange(laterals * length).reshape(laterals, length)
    roots = (2 * k + 1) * trunk // (2 * laterals)
    chains = np.concatenate([roots[:, None], side], axis=1)
    main = np.arange(trunk)
    sources = np.concatenate([main[:-1], chains[:, :-1].ravel()])
    targets = np.concatenate([main[1:], chains[:, 1:].ravel()])
    size = trunk + laterals * length
    return Graph(size, np.stack([sources, targets], axis=1), name="feeder")


def _from_walks(text: str, name: str) -> Graph:
    walks = [list(map(int, line.split())) for line in text.split("\n") if line]
    labels = list(dict.fromkeys(node for walk in walks for node in walk))
    index = {label: i for i, label in enumerate(labels)}
    pairs = [(index[a], index[b]) for w in walks for a, b in pairwise(w)]
    return Graph(len(labels), np.array(pairs), labels, name=name)
