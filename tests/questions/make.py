"""Records for any question, and answers without a table: what the contract suite is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from veilsum.questions import Category, GridNoise, NoisedVector, Number, Question, priced
from veilsum.questions.base import Ints

SIZES = (15, 300, 969, 4941)
EPSILONS = (0.1, 1.0, 10.0)


def records(question: Question, count: int, rng: np.random.Generator) -> dict[str, Any]:
    """Columns as `Column.read` returns them: beta(2, 5) numbers, uneven categories, some records out."""
    found: dict[str, Any] = {}
    for column in question.columns:
        if isinstance(column, Category):
            weights = 1 / np.arange(1, len(column.values) + 1)
            found[column.name] = rng.choice(len(column.values), count, p=weights / weights.sum())
        else:
            assert isinstance(column, Number)
            found[column.name] = rng.beta(2, 5, count)
    return found


def in_of(question: Question, count: int, rng: np.random.Generator) -> np.ndarray:
    """Which records are in: all, or about three quarters where some may be out."""
    return rng.random(count) < (0.75 if question.partial else 1.0)


def only(rows: Mapping[str, Any], kept: np.ndarray) -> dict[str, Any]:
    return {name: values[kept] for name, values in rows.items()}


def noise_of(
    question: Question, epsilon: float, delta: float = 0.0, shrunk: float = 1.0
) -> GridNoise:
    """The noise of the question asked alone; with a fraction of its deviation, a weakened twin."""
    noise = priced([question.statistic], [1.0], epsilon, delta).parts[0]
    return noise if shrunk == 1.0 else replace(noise, law=noise.law.shrunk(shrunk))


def vector(question: Question, rows: Mapping[str, Any], noise: GridNoise) -> Ints:
    """The true vector, in steps."""
    return question.expand(question.total(rows, noise.step))


def released(
    question: Question, steps: Any, noise: GridNoise, records: int, table: int | None = None
) -> NoisedVector:
    """A vector in steps as `decode` sees it."""
    return NoisedVector(
        np.asarray(steps, dtype=float) * float(noise.step), noise,
        None if question.partial else records, records if table is None else table,
    )  # fmt: skip
