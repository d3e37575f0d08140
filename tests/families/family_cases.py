"""One specimen of every family, for the contract suite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from veilsum import families as f

positive = st.floats(0.05, 20.0)
real = st.floats(-20.0, 20.0)
SIGMA = ((2.0, 0.5, 0.0), (0.5, 1.0, -0.2), (0.0, -0.2, 0.5))


def _probabilities(raw: list[float]) -> list[float]:
    return [x / sum(raw) for x in raw]


def square() -> f.Custom:
    """xi(s) = s^2 on [0, 1]:  omega(r) = 1 - (1 - r)^2,  s uniform on [0, b], E xi = b^2/3."""
    return f.Custom(
        lambda s: s**2,
        f.Support(low=0.0, high=1.0),
        lambda r: 1 - (1 - min(r, 1.0)) ** 2,
        name="square",
        parameters=("b",),
        parameter=lambda m: {"b": np.sqrt(3 * m[..., 0])},
        mean=lambda b: np.asarray(b)[..., None] ** 2 / 3,
        covariance=lambda b: (np.asarray(b) ** 4 * (1 / 5 - 1 / 9))[..., None, None],
        sampler=lambda rng, size, b: b * rng.random(size),
        mean_domain=(0.0, 1 / 3),
    )


@dataclass(frozen=True)
class Case:
    """A family, parameters to sample with, and a strategy for each parameter."""

    family: f.Family
    parameters: dict[str, Any]
    strategies: dict[str, Any]

    def __str__(self) -> str:
        return self.family.name


CASES = [
    Case(f.Normal(1.5), {"mu": -0.7}, {"mu": real}),
    Case(f.LogNormal(0.8), {"mu": 0.3}, {"mu": real}),
    Case(f.LogNormal1p(1.04), {"mu": 0.4}, {"mu": real}),
    Case(f.Bernoulli(), {"p": 0.3}, {"p": st.floats(0.0, 1.0)}),
    Case(f.Poisson(), {"rate": 3.7}, {"rate": st.floats(0.0, 1e6)}),
    Case(f.Geometric(), {"p": 0.2}, {"p": st.floats(1e-6, 1.0)}),
    Case(f.Exponential(), {"rate": 2.5}, {"rate": positive}),
    Case(f.GammaKnownShape(2.2), {"rate": 0.6}, {"rate": positive}),
    Case(f.GammaKnownRate(1.7), {"shape": 1.3}, {"shape": st.floats(1e-3, 1e6)}),
    Case(f.Pareto(2.0), {"alpha": 1.8}, {"alpha": positive}),
    Case(f.Weibull(0.6), {"scale": 3.0}, {"scale": positive}),
    Case(f.Laplace(0.5), {"scale": 1.2}, {"scale": positive}),
    Case(
        f.Categorical(4),
        {"p": [0.1, 0.2, 0.3, 0.4]},
        {"p": st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4).map(_probabilities)},
    ),
    Case(
        f.NormalBoth(),
        {"mu": 1.1, "sigma": 0.7},
        {"mu": st.floats(-5.0, 5.0), "sigma": st.floats(0.5, 20.0)},
    ),
    Case(
        f.MultivariateNormal(SIGMA),
        {"mu": [1.0, -2.0, 0.5]},
        {"mu": st.lists(real, min_size=3, max_size=3)},
    ),
    Case(square(), {"b": 0.8}, {"b": st.floats(0.01, 1.0)}),
]
