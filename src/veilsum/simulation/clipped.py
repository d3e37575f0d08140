"""Clipped gossip: averaging in which no neighbour changes an agent by more than a radius in a round.

    nu_i,t = nu_i,t-1 + sum_j a_ij clip(nu_j,t-1 - nu_i,t-1, r),    clip(z, r) = max(-r, min(z, r)),

for fleets with members that nobody vouches for (He, Karimireddy and Jaggi, 2022, with one public
radius r for everyone). With symmetric weights:

- *The mean is kept.* Agents i and j change by a_ij clip(z) and a_ij clip(-z), which add up to 0. One
  radius for all is needed for that: where each agent chooses its own, as in the paper, the two
  changes differ and honest agents alone end up elsewhere than at their mean.
- *A liar moves the mean of the honest agents* by at most r sum_i a_il / (honest agents) in a round,
  whatever it says, and so by at most T times that in T rounds. It never stops: an agent that
  insists wins in the end, as in every average; clipping sets the pace.
- *The cost is time.* While two neighbours differ by more than r they approach by a fixed amount in
  a round and not by a fraction. If all differ by at most r it is `average` to the bit.

The round is not linear in nu, so this is no `Algorithm`: the kernel, the theory and the derivation of
guarantees read coefficients. Under Signal DP it is post-processing of releases, and costs no epsilon.
Agents run it where their manifest has a radius (`clip`), and come to the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from veilsum import _validate
from veilsum._types import Floats, Network
from veilsum.errors import AlgorithmError
from veilsum.networks.rows import coordinates, first_rows


def clipped_gossip(
    network: Network,
    values: Any,
    radius: float,
    rounds: int,
    *,
    liars: Mapping[int, float] | None = None,
) -> Floats:
    """Run clipped gossip, with members that insist on a value.

    Parameters
    ----------
    network : Network
        With symmetric weights that do not change.
    values : array_like
        (n,): what each agent released.
    radius : float
        By how much a neighbour counts at most; inf is `average`.
    rounds : int
        How many.
    liars : mapping of int to float, optional
        Agents, by number, that say one value in all rounds, and what it is.

    Returns
    -------
    ndarray
        (rounds + 1, n): the estimates, from the start on.

    Raises
    ------
    AlgorithmError
        If the network changes or is not symmetric, or a number is not in its range.

    Examples
    --------
    >>> from veilsum import networks
    >>> from veilsum.simulation import clipped_gossip, clipping_bound
    >>> net = networks.metropolis("complete:4")
    >>> clipped_gossip(net, [0.0, 1.0, 2.0, 3.0], radius=1.0, rounds=50)[-1]
    array([1.5, 1.5, 1.5, 1.5])
    >>> ended = clipped_gossip(net, [0.0, 1.0, 2.0, 3.0], 1.0, 2, liars={3: 1e9})[-1, :3]
    >>> round(float(ended.mean()), 3), round(clipping_bound(net, 1.0, 2, liars=[3]), 3)
    (1.667, 0.667)
    """
    rows, columns, weights = _links(network)
    if not radius > 0:
        raise AlgorithmError(f"radius must be a number above 0; found {radius!r}")
    _validate.at_least(AlgorithmError, 0, rounds=rounds)
    said = {} if liars is None else dict(liars)
    now = np.array(values, dtype=np.float64)
    if now.shape != (network.size,):
        raise AlgorithmError(
            f"values must have one number for each of the {network.size} agents; found {now.shape}"
        )
    found = np.empty((rounds + 1, network.size))
    for number in range(rounds + 1):
        if number:
            step = weights * np.clip(now[columns] - now[rows], -radius, radius)
            now = now + np.bincount(rows, step, minlength=network.size)
        now[list(said)] = list(said.values())
        found[number] = now
    return found


def clipping_bound(network: Network, radius: float, rounds: int, liars: Any) -> float:
    """By how much some members can move the mean of the others, at most.

    Parameters
    ----------
    network, radius, rounds
        As of `clipped_gossip`.
    liars : iterable of int
        The members that lie, by number.

    Returns
    -------
    float
        rounds times the radius times the weight between them and the others, over the others.

    Examples
    --------
    >>> from veilsum import networks
    >>> round(clipping_bound(networks.metropolis("complete:4"), 1.0, 2, liars=[3]), 3)
    0.667
    """
    rows, columns, weights = _links(network)
    lying = np.zeros(network.size, dtype=np.bool_)
    lying[list(liars)] = True
    between = float(weights[~lying[rows] & lying[columns]].sum())
    return moved_mean(rounds, radius, between, int((~lying).sum()))


def moved_mean(rounds: int, radius: float, weight: float, others: int) -> float:
    """rounds radius weight / others: what a total weight to the others moves their mean by, at most."""
    return rounds * radius * weight / others


def _links(network: Network) -> tuple[Any, Any, Any]:
    """(i, j, a_ij) of all links, checked to be symmetric."""
    if network.dynamic:
        raise AlgorithmError("clipped gossip keeps the mean on a network that does not change")
    rows, columns, weights = coordinates(first_rows(network))
    other = rows != columns
    rows, columns, weights = rows[other], columns[other], weights[other]
    order = np.lexsort((columns, rows))
    back = np.lexsort((rows, columns))
    same = len(order) == len(back) and np.array_equal(rows[order], columns[back])
    if not same or not np.allclose(weights[order], weights[back], rtol=0, atol=1e-12):
        raise AlgorithmError(
            "clipped gossip needs symmetric weights, such as metropolis: otherwise what one agent "
            "gains is not what the other loses"
        )
    return rows, columns, weights
