"""How much of the releases can have crossed a link, net: what an honest neighbour never exceeds.

In a run with a last round every round is followed exactly, and the mass that reading k puts in moves
by v_{u+1} = v_u - p_u (I - A) v_u from v_0 = e_k, A symmetric. Over the link from j to i it has
moved, net, after s rounds

    f_k(s) = a_ij sum_{u<s} p_u (v_u(j) - v_u(i)).

With phi = sum p_u v_u this is a_ij (phi(j) - phi(i)) and (I - A) phi = e_k - v_s: an electrical
current from k to the distribution v_s >= 0 in a network of conductances a_ij. So |f_k| <= 1, and by
reciprocity, with psi = (I - A)^+ (e_j - e_i), whose largest value is at j and whose least is at i,

    f_k(s) = a_ij (psi(k) - sum_l v_s(l) psi(l)),
    a_ij (psi(k) - psi(j)) <= f_k(s) <= a_ij (psi(k) - psi(i)),

whatever the p_u in [0, 1] are. Where p is the same in all rounds, f_k(s) is computed for every s
instead, which is sharper: on a complete graph of n members it is about 1/n for k = j and 0 for all
but the two ends, while the bound is near 1/n for each of them.

A release may enter late or never, so the weight that has crossed is between -minus and plus times
the readings of one member, plus = sum_k max_s f_k(s)^+ and minus = sum_k max_s f_k(s)^-, and a sum is
at most (plus + minus) times the largest release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from veilsum._types import Bools, Floats, Ints
from veilsum.agents import conservation
from veilsum.simulation.clipped import moved_mean

if TYPE_CHECKING:
    from veilsum.agents.manifest import Manifest

LARGEST_EXACT = 128  # members up to which every round is computed
LARGEST = 512  # members up to which potentials are; beyond, all releases may cross a link
MOST_ROUNDS = 4096  # that are computed
EQUAL = 1e-12  # difference of two weights that are taken for one
SETTLED = 1e-13  # by how much less a round changes the distributions once they are mixed
ANYWHERE = 2.0  # from one end of [-largest, largest] to the other
MARGIN = 1e-6  # of a reading: more than all rounding in 2^40 rounds, and far less than counts


class LinkFlow(NamedTuple):
    """What can have crossed one link in its direction, net, in readings of one member.

    Attributes
    ----------
    plus, minus : float
        The most weight forwards and backwards.
    step : float
        The most that one more round sends: the weight of the link.
    """

    plus: float
    minus: float
    step: float


class LinkFlows:
    """The flows over the links of a manifest, in each view.

    Parameters
    ----------
    manifest : Manifest
        The terms.

    Attributes
    ----------
    symmetric : bool
        Whether every link has the same weight in both directions; if not, mass may move in circles,
        and there is no limit to what crosses a link.

    Examples
    --------
    >>> from veilsum.agents import Manifest
    >>> from veilsum.scenario import Scenario
    >>> problem = Scenario.parse('''
    ... network = {graph = "complete:4", weights = "metropolis"}
    ... family = {name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}
    ... signals = {draw = {mu = 0.5}}
    ... privacy = {protect = "signal", epsilon = 1.0}
    ... algorithm = {name = "average", rounds = 20}
    ... ''').build().problem
    >>> flow = Manifest.of(problem).flows.of(0)["0", "1"]
    >>> round(flow.plus, 3), round(flow.minus, 3), round(flow.step, 3)
    (0.333, 0.333, 0.333)
    """

    def __init__(self, manifest: Manifest) -> None:
        """Compare the weights of both directions."""
        self._manifest = manifest
        weights = {(a, b): weight for a, b, weight in manifest.links}
        self.symmetric = all(
            abs(weights.get((b, a), 0.0) - weight) <= EQUAL for (a, b), weight in weights.items()
        )
        self._cached = lru_cache(8)(self._compute)

    def of(self, dropped: int) -> Mapping[tuple[str, str], LinkFlow]:
        """The flow over each link, as (from, to), of a view without the dropped links."""
        return self._cached(dropped)

    def influence(self, label: str, dropped: int = 0) -> float:
        """By how much a lying member can move the mean of the others' estimates, by their weights.

        With s and w the sum and the weight that have crossed its links, net, the mean m of the others
        becomes (N m + s)/(N + w): it moves by (s - w m)/(N + w).

        Parameters
        ----------
        label : str
            The member that lies.
        dropped : int
            The view.

        Returns
        -------
        float
            In units of the largest release. `ANYWHERE` if nothing limits it but that a sum is at most
            the largest release times its weight, as without a last round. Where rounds are clipped,
            the flows above do not hold: the bound is that of clipped gossip
            (`simulation.clipping_bound`).
        """
        if self._manifest.clip:
            return self._clipped_influence(label, dropped)
        if not (self._manifest.waits and self.symmetric):
            return ANYWHERE
        own = [flow for (a, _), flow in self.of(dropped).items() if a == label]
        others = self._manifest.graph.component(label, dropped).bit_count() - 1
        moved = sum(flow.plus + flow.minus + flow.step for flow in own)
        drained = sum(flow.minus + flow.step for flow in own)
        found = (moved + drained) / (others - drained) if drained < others else ANYWHERE
        return min(found, ANYWHERE)

    def _clipped_influence(self, label: str, dropped: int) -> float:
        manifest, graph = self._manifest, self._manifest.graph
        others = graph.component(label, dropped).bit_count() - 1
        weight = sum(
            w for a, b, w in manifest.links if a == label and not dropped & graph.link(a, b)
        )
        if not others:
            return 0.0
        if not math.isfinite(manifest.largest):
            return ANYWHERE
        moved = moved_mean(manifest.rounds, manifest.clip, weight, others)
        return min(moved / manifest.largest, ANYWHERE)

    def _compute(self, dropped: int) -> Mapping[tuple[str, str], LinkFlow]:
        manifest, graph = self._manifest, self._manifest.graph
        links = [
            (a, b, weight)
            for a, b, weight in manifest.links
            if weight and not dropped & graph.link(a, b)
        ]
        size = len(manifest.members)
        if not self.symmetric or size > LARGEST:
            return {(a, b): LinkFlow(float(size), float(size), w) for a, b, w in links}
        together = np.array(
            [[graph.component(a, dropped) >> k & 1 for k in range(size)] for a, _, _ in links],
            dtype=np.bool_,
        )
        conductances = Conductances(
            size,
            np.array([graph.index[a] for a, _, _ in links], dtype=np.int64),
            np.array([graph.index[b] for _, b, _ in links], dtype=np.int64),
            np.array([weight for _, _, weight in links]),
            together,
        )
        plus, minus = self._extremes(conductances)
        return {
            (a, b): LinkFlow(float(p) + MARGIN, float(m) + MARGIN, w)
            for (a, b, w), p, m in zip(links, plus, minus, strict=True)
        }

    def _extremes(self, net: Conductances) -> tuple[Floats, Floats]:
        fraction = self._fraction()
        if fraction is not None and net.size <= LARGEST_EXACT:
            found = _by_rounds(net, fraction, self._manifest.rounds)
            if found is not None:
                return found
        return _by_potentials(net)

    def _fraction(self) -> float | None:
        """The part of the mass that goes through the weights, if it is the same in all rounds."""
        algorithm = self._manifest.made_algorithm
        last = max(min(self._manifest.rounds, 64), 3)
        found = {conservation.sent_fraction(algorithm, t) for t in range(2, last + 1)}
        return found.pop() if len(found) == 1 else None


class Conductances(NamedTuple):
    """The links of a view as arrays: from `rows` to `columns`, with whom each is connected."""

    size: int
    rows: Ints
    columns: Ints
    weights: Floats
    together: Bools

    @property
    def laplacian(self) -> Floats:
        """I - A."""
        found = np.zeros((self.size, self.size))
        found[self.rows, self.columns] = -self.weights
        np.fill_diagonal(found, -found.sum(axis=1))
        return found


def _by_rounds(net: Conductances, fraction: float, last: int) -> tuple[Floats, Floats] | None:
    """plus and minus from the flows of every round; None if there are too many to compute."""
    step = np.eye(net.size) - fraction * net.laplacian
    now, total = np.eye(net.size), np.zeros((net.size, net.size))
    most, least = np.zeros((2, net.size, len(net.rows)))
    for number in range(1, last + 1):
        total += now
        flow = fraction * net.weights * (total[:, net.rows] - total[:, net.columns])
        np.maximum(most, flow, out=most)
        np.minimum(least, flow, out=least)
        later = now @ step
        if np.abs(later - now).max() < SETTLED:
            break
        now = later
        if number == MOST_ROUNDS < last:
            return None
    return most.sum(axis=0), -least.sum(axis=0)


def _by_potentials(net: Conductances) -> tuple[Floats, Floats]:
    """plus and minus that hold for every sequence of fractions."""
    inverse = np.linalg.pinv(net.laplacian, hermitian=True)
    plus, minus = np.zeros((2, len(net.rows)))
    for at, weight in enumerate(net.weights):
        psi = inverse[:, net.rows[at]] - inverse[:, net.columns[at]]
        psi = psi[net.together[at]]
        plus[at] = weight * (psi - psi.min()).sum()
        minus[at] = weight * (psi.max() - psi).sum()
    return plus, minus
