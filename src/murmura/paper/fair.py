"""The first-order method as its authors have it, made private and tuned: a fair baseline.

`graph-homomorphic` starts from the noised statistic, its noise cancels in the mean of all agents,
and it has the step eta that gives the least expected error for the network, the budget and the
rounds. Both methods hide a signal s >= floor, with noise for the same global sensitivity
log(1 + 1/floor) of the same statistic log s. The baseline's noise is in proportion to the number
of rounds, so it may also stop earlier.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from murmura import laws, theory
from murmura.engine import Drawn, Problem
from murmura.families import Normal
from murmura.paper.expected import moments
from murmura.paper.settings import GLOBAL, Run, family, network
from murmura.privacy import SignalDP

ETAS = tuple(float(eta) for eta in np.geomspace(1e-6, 1.0, 13))
EPSILONS = (0.125, 1.0, 4.0)


@cache
def compared(place: str, quick: bool = False) -> tuple[dict[str, Any], ...]:
    """Expected total errors offline, Signal DP: ours and theirs, with the best step and rounds."""
    ours = Run("ours", place, "average", epsilons=EPSILONS, sensitivity=GLOBAL, bounded=True)
    ours = ours.sketch(quick)
    theirs = replace(ours, law="graph-homomorphic")
    errors = problem(ours, laws.Average())
    tried = {eta: problem(theirs, laws.GraphHomomorphic(eta=eta)) for eta in ETAS}
    rows = []
    for k, epsilon in enumerate(EPSILONS):
        best = min(ETAS, key=lambda eta: tried[eta].total[-1, k])
        eta, rounds, least = stopped(tried, k)
        rows.append(
            {"epsilon": epsilon, "rounds": ours.rounds, "ours": errors.total[-1, k],
             "theirs": tried[best].total[-1, k], "eta": best,
             "theirs_stopped": least, "eta_stopped": eta, "rounds_stopped": rounds,
             "ours_stopped": errors.total[rounds, k]}
        )  # fmt: skip
    return tuple(rows)


def problem(run: Run, law: Any) -> Any:
    """Expected errors of a law that hides log s, s >= floor, in every round."""
    where, (mean, deviation) = network(run.place), moments(run)
    normal, reach = Normal(sigma=deviation), float(family(run).sensitivity(1.0).value)
    source = Drawn(normal, {"mu": mean}, where.size, 0)
    want = SignalDP(1.0, radius=reach)  # the statistic of a normal signal moves as far as it does
    return theory.expected(Problem(where, law, normal, source, want, run.rounds, run.epsilons))


def stopped(tried: dict[float, Any], k: int) -> tuple[float, int, float]:
    """The step and the number of rounds t with the least error: (t + 1) shares make the noise."""
    best = (0.0, 0, np.inf)
    for eta, found in tried.items():
        shares = (np.arange(len(found.total)) + 1) / len(found.total)
        totals = np.hypot(shares * found.privacy[:, k], found.decentralisation)
        t = int(totals[1:].argmin()) + 1
        if totals[t] < best[2]:
            best = (eta, t, float(totals[t]))
    return best


def said(table: Any) -> str:
    """The comparison at epsilon 1 in words."""
    row = table[table.epsilon == 1.0].iloc[0]
    return (
        "A fair comparison offline (Rizk et al. as they have it: noise that cancels in the mean, "
        "a noised start, the best step; the same global sensitivity for both): at epsilon = 1 "
        f"their error is {row.theirs / row.ours:.3g} times ours after {int(row.rounds):,} rounds "
        f"(eta = {row.eta:.2g}), and {row.theirs_stopped / row.ours:.3g} times ours when it stops "
        f"at its best round, {int(row.rounds_stopped)}."
    )
