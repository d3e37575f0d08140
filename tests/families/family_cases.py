"""The examples of every registered family, for the contract suites: a new family is here unasked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from veilsum import families as f
from veilsum.families.scalar import ScalarFamily
from veilsum.families.support import Metric


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
    parameters: Mapping[str, Any]
    strategies: Mapping[str, Any]

    def __str__(self) -> str:
        return self.family.name


def strategies(family: f.Family, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """From the domain of a scalar parameter; otherwise what resembles the example."""
    if isinstance(family, ScalarFamily):
        return {family.parameters[0]: within(family.domain)}
    return {name: resembling(np.asarray(value)) for name, value in parameters.items()}


def within(domain: f.Support) -> Any:
    """Of each size that a domain has: up to 20 where signs are mixed, up to 10^6 where not."""
    if math.isinf(domain.low):
        return st.floats(-20.0, min(20.0, domain.high))
    low = domain.low + 1e-6 if domain.open_low else domain.low
    if math.isinf(domain.high):
        return st.floats(low, low + 1e6) | st.floats(low, low + 20.0)
    return st.floats(low, domain.high - 1e-6 if domain.open_high else domain.high)


def resembling(value: Any) -> Any:
    """Of its length; of sum 1 if its numbers are; above 0 unless a number of it is below."""
    if value.ndim and math.isclose(value.sum(), 1.0) and (value >= 0).all():
        return st.lists(st.floats(0.01, 1.0), min_size=value.size, max_size=value.size).map(
            lambda raw: [x / sum(raw) for x in raw]
        )
    vector = {"min_size": value.size, "max_size": value.size}
    number = st.floats(-20.0, 20.0) if (value < 0).any() else st.floats(0.5, 20.0)
    return st.lists(number, **vector) if value.ndim else number


def bounded(example: f.Example) -> f.ExponentialFamily:
    """The example with a finite support: bounds between two quantiles of 1,000 of its draws."""
    family = example.family
    if family.metric is Metric.DISCRETE or math.isfinite(family.support.high - family.support.low):
        return family
    drawn = family.sample(np.random.default_rng(0), 1000, **example.parameters)
    low, high = np.quantile(drawn, [0.05, 0.9])
    return replace(family, bounds=(float(low), float(high)))


EXAMPLES = [example for cls in f.FAMILIES.values() for example in cls.examples()]
CASES = [
    *(Case(family, given, strategies(family, given)) for family, given in EXAMPLES),
    Case(square(), {"b": 0.8}, {"b": st.floats(0.01, 1.0)}),
]
