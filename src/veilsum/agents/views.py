"""Views: which members are connected once some links are no longer waited for.

A view is a set of dropped links. Its *component* of a member is who can still be reached from it
over the other links. Members and links are numbered as in the manifest, and sets of them are
integers with one bit for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2s

CACHED = 16  # views whose components are remembered; all agents of a process have the same
LARGE = 2000  # members beyond which the diameter is an upper bound
VIEW_SIZE = 8  # bytes


class ViewGraph:
    """The links of a manifest, and what is connected without some of them.

    Parameters
    ----------
    labels : sequence of str
        The members, in order.
    links : sequence of (str, str, float)
        (from, to, weight).

    Attributes
    ----------
    index : dict of str to int
        The number of each member.
    pairs : tuple of (str, str)
        The links without direction, in order.

    Examples
    --------
    >>> ring = [("a", "b", 1.0), ("b", "c", 1.0), ("c", "d", 1.0), ("d", "a", 1.0)]
    >>> graph = ViewGraph("abcd", ring + [(b, a, w) for a, b, w in ring])
    >>> bin(graph.component("a", 0)), bin(graph.component("a", graph.all_links("b")))
    ('0b1111', '0b1101')
    """

    def __init__(self, labels: Sequence[str], links: Sequence[tuple[str, str, float]]) -> None:
        """Number the members and the links."""
        self.index = {label: k for k, label in enumerate(labels)}
        self.pairs = tuple(sorted({(min(a, b), max(a, b)) for a, b, _ in links}))
        self.everyone = (1 << len(labels)) - 1
        self.every_link = (1 << len(self.pairs)) - 1
        self._bits = {pair: 1 << k for k, pair in enumerate(self.pairs)}
        arcs = {(self.index[a], self.index[b]) for a, b, _ in links}
        self._directed = any((b, a) not in arcs for a, b in arcs)
        self._out: list[list[tuple[int, int]]] = [[] for _ in labels]
        self._in: list[list[tuple[int, int]]] = [[] for _ in labels]
        for source, to, _ in links:
            bit, a, b = self.link(source, to), self.index[source], self.index[to]
            self._out[a].append((b, bit))
            self._in[b].append((a, bit))
        self._components = lru_cache(CACHED)(self._find_components)
        self._depth = lru_cache(CACHED)(self._find_depth)

    def link(self, a: str, b: str) -> int:
        """The bit of a link, in either direction."""
        return self._bits[(a, b) if a < b else (b, a)]

    def all_links(self, label: str) -> int:
        """The bits of all links of a member."""
        found = 0
        for pair, bit in self._bits.items():
            if label in pair:
                found |= bit
        return found

    def component(self, label: str, dropped: int) -> int:
        """The members that are connected to one, itself included, without the dropped links."""
        return self._components(dropped)[self.index[label]]

    def connected(self, label: str, dropped: int) -> bool:
        """Whether mass gets from everyone in the component to everyone else in it."""
        if not self._directed:
            return True
        whole, first = self.component(label, dropped), self.index[label]
        return all(_reached([near], first, dropped) == whole for near in (self._out, self._in))

    def depth(self, label: str, dropped: int) -> int:
        """The diameter of the component, or a bound on it if it is large."""
        return self._depth(self.component(label, dropped), dropped)

    def names(self, members: int) -> tuple[str, ...]:
        """The labels of a set of members, in order."""
        return tuple(label for label, k in self.index.items() if members >> k & 1)

    def _find_components(self, dropped: int) -> list[int]:
        found = [0] * len(self.index)
        for k in range(len(found)):
            if not found[k]:
                whole = _reached([self._out, self._in], k, dropped)
                for other in range(k, len(found)):
                    if whole >> other & 1:
                        found[other] = whole
        return found

    def _find_depth(self, component: int, dropped: int) -> int:
        near = [self._out, self._in]
        inside = [k for k in range(len(self.index)) if component >> k & 1]
        if len(inside) > LARGE:
            return 2 * _eccentricity(near, inside[0], dropped)
        return max(_eccentricity(near, k, dropped) for k in inside)


def view_id(generation: int, dropped: int) -> bytes:
    """What identifies a view in a message; empty for the first one."""
    if not (generation or dropped):
        return b""
    return blake2s(f"{generation} {dropped:x}".encode(), digest_size=VIEW_SIZE).digest()


def _layers(near: Sequence[list[list[tuple[int, int]]]], first: int, dropped: int) -> list[int]:
    """The members at 0, 1, 2, ... hops, as sets."""
    layers, seen, edge = [], 1 << first, [first]
    while edge:
        layers.append(sum(1 << k for k in edge))
        following = []
        for k in edge:
            for links in near:
                for other, bit in links[k]:
                    if not (dropped & bit or seen >> other & 1):
                        seen |= 1 << other
                        following.append(other)
        edge = following
    return layers


def _reached(near: Sequence[list[list[tuple[int, int]]]], first: int, dropped: int) -> int:
    return sum(_layers(near, first, dropped))


def _eccentricity(near: Sequence[list[list[tuple[int, int]]]], first: int, dropped: int) -> int:
    return len(_layers(near, first, dropped)) - 1
