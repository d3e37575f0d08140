"""Is Laplace noise optimal (part 2 of Theorems 1 to 3, and the abstract)? It depends on privacy.

The proof asks |p'(u)| <= (eps/Delta) p(u) of the noise's density, the derivative form: the loss of
a small move is in proportion to it. There Laplace has the least variance (Koufogiannis, Han and
Pappas 2015), which a linear programme over densities on a grid finds here. Differential privacy as
the paper defines it, for moves of up to 1, asks p(u + x) <= e^eps p(u) for |x| <= Delta only, and
there the staircase has less (Geng and Viswanath 2014).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from murmura.paper.entry import Claim, Context, Entry, Finding, Measured, Verdict, judged
from murmura.paper.tabulate import frame
from murmura.report import style

EPSILONS = (1.0, 4.0, 10.0)
STEPS, QUICK_STEPS, TAILS = 20, 10, 12.0  # grid points in 1/eps; where the grid ends, in 1/eps


def least_variance(lipschitz: float, steps: int) -> float:
    """The least variance of a symmetric density with |log p(x + h) - log p(x)| <= lipschitz h.

    Over the masses w_k at k h, k = 0..m, taken twice but for k = 0: minimise the sum of (k h)^2 w_k
    with the sum of w equal to 1 and w_k <= e^{lipschitz h} w_{k+1}, and the other way round. The
    grid ends where a Laplace law has e^-12 of its mass left.
    """
    from scipy.optimize import linprog
    from scipy.sparse import eye_array, vstack

    h = 1 / (lipschitz * steps)
    m = int(TAILS * steps)
    x, twice = h * np.arange(m + 1), np.append(1.0, np.full(m, 2.0))
    step = math.exp(lipschitz * h)
    here, there = eye_array(m, m + 1), eye_array(m, m + 1, k=1)
    rules = vstack([here - step * there, there - step * here])
    found = linprog(
        twice * x**2, A_ub=rules, b_ub=np.zeros(2 * m), A_eq=twice[None], b_eq=[1.0],
        bounds=(0, None), method="highs",
    )  # fmt: skip
    assert found.success, found.message
    return float(found.fun)


def grid_laplace(lipschitz: float, steps: int) -> float:
    """The variance of the Laplace law on the same grid, cut at the same place."""
    h = 1 / (lipschitz * steps)
    k = np.arange(int(TAILS * steps) + 1)
    w = np.exp(-lipschitz * h * k) * np.where(k, 2.0, 1.0)
    return float((w * (h * k) ** 2).sum() / w.sum())


def measure(entry: Entry, context: Context) -> Measured:  # noqa: ARG001 - nothing is drawn
    """Variances at Delta = 1: Laplace, staircase, and the least that the derivative form allows."""
    from murmura.privacy.mechanisms import Staircase

    steps = QUICK_STEPS if context.quick else STEPS
    rows = [
        {"epsilon": e, "laplace": 2 / e**2, "staircase": Staircase(e, 1.0).worst_variance,
         "derivative_best": least_variance(e, steps), "derivative_laplace": grid_laplace(e, steps)}
        for e in EPSILONS
    ]  # fmt: skip
    curve = [
        {"epsilon": e, "ratio": Staircase(e, 1.0).worst_variance * e**2 / 2}
        for e in np.geomspace(0.1, 12.0, 60).tolist()
    ]
    return Measured({"": frame(rows), "curve": frame(curve)})


def draw(measured: Measured) -> Figure:
    """Variance over that of Laplace noise, against epsilon."""
    figure = style.figure(5.6, 3.8)
    ax = figure.add_subplot()
    curve, table = measured.tables["curve"], measured.table
    ax.plot(curve.epsilon, curve.ratio, color=style.VARIANTS[0], label="staircase, moves up to 1")
    ax.scatter(table.epsilon, table.derivative_best / table.derivative_laplace,
               color=style.VARIANTS[1], label="least, derivative form", zorder=3)  # fmt: skip
    ax.axhline(1.0, color=style.INK, linewidth=1)
    style.scale(ax, x="log")
    ax.set(xlabel="privacy budget ε", ylabel="variance over that of Laplace noise")
    ax.legend(fontsize=8, frameon=False)
    style.tidy(ax)
    return figure


def optimal(measured: Measured) -> Finding:
    """Laplace against the best, under either notion of privacy."""
    table: Any = measured.table
    ratios = table.staircase / table.laplace
    own = table.derivative_best / table.derivative_laplace
    listed = ", ".join(f"{e:g}" for e in table.epsilon)
    sentence = (
        f"For epsilon-DP with moves of up to 1, as Sec. 2.3 defines it, the staircase has "
        f"{', '.join(f'{r:.3f}' for r in ratios)} of Laplace's variance at epsilon = {listed}. "
        "Under the derivative form that the proof uses, |p'| <= (eps/Delta) p, a linear programme "
        f"over densities finds {own.min():.4f} of it at the least: there Laplace is optimal."
    )
    everywhere, proved = bool((ratios >= 1 - 1e-9).all()), bool((own >= 1 - 1e-6).all())
    return judged(everywhere and proved, sentence, Verdict.CORRECTED if proved else Verdict.REFUTED)


ENTRIES = (
    Entry(
        id="optimal-noise",
        title="Is Laplace noise optimal?",
        reference="Abstract; Theorems 1 to 3, part 2",
        runs=(),
        measure=measure,
        draw=draw,
        claims=(
            Claim(
                "Among all noise that is epsilon-DP, Laplace has the least variance.",
                optimal,
                quote="We show that the noise that minimizes the convergence time to the best "
                "estimates is the Laplace noise",
            ),
        ),
    ),
)
