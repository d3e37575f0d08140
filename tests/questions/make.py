"""Records for any question, and answers without a table: what the contract suite is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from veilsum._statistic import Statistic
from veilsum.errors import QuestionError
from veilsum.questions import (
    QUESTIONS,
    By,
    Category,
    Decoded,
    GridNoise,
    NoisedVector,
    Question,
    priced,
)
from veilsum.questions.base import Ints
from veilsum.questions.columns import RECORDS

SIZES = (15, 300, 969, 4941)
EPSILONS = (0.1, 1.0, 10.0)
GROUPS = Category("group", ("p", "q", "r"))


def instances() -> list[Question]:
    """The examples of all questions, and each of them by group where it can be asked so."""
    plain = [question for kind in QUESTIONS.values() for question in kind.examples()]
    return [*plain, *grouped(plain)]


def grouped(plain: Sequence[Question]) -> Iterator[Question]:
    for one in plain:
        if not one.partial or type(one).examples()[0] == one:
            try:
                yield By(question=one, group=GROUPS)
            except QuestionError:
                continue  # it says itself that it has no answer by group


def identity(question: Question) -> str:
    kinds = [type(question).__name__, *(["by"] if isinstance(question, By) else [])]
    some = "some" if question.partial else "all"
    return "-".join([question.name, *kinds, some, str(question.dimension)])


def records(question: Question, count: int, rng: np.random.Generator) -> dict[str, Any]:
    """Columns as `Column.read` returns them: beta(2, 5) numbers, uneven categories."""
    found: dict[str, Any] = {RECORDS: np.zeros(count, dtype=np.int8)}
    for column in question.columns:
        if column.places:
            weights = 1 / np.arange(1, column.places + 1)
            found[column.name] = rng.choice(column.places, count, p=weights / weights.sum())
        else:
            found[column.name] = rng.beta(2, 5, count)
    return found


def in_of(question: Question, count: int, rng: np.random.Generator) -> np.ndarray:
    """Which records are in: all, or about three quarters where some may be out."""
    return rng.random(count) < (0.75 if question.partial else 1.0)


def only(rows: Mapping[str, Any], kept: Any) -> dict[str, Any]:
    return {name: values[kept] for name, values in rows.items()}


def joined(*parts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def noise_of(
    question: Question, epsilon: float, delta: float = 0.0, shrunk: float = 1.0
) -> GridNoise:
    """The noise of the question asked alone; with a fraction of its deviation, a weakened twin."""
    return noise_for(question.statistic, epsilon, delta, shrunk)


def noise_for(
    statistic: Statistic, epsilon: float, delta: float = 0.0, shrunk: float = 1.0
) -> GridNoise:
    noise = priced([statistic], [1.0], epsilon, delta).parts[0]
    return noise if shrunk == 1.0 else replace(noise, law=noise.law.shrunk(shrunk))


def vector(question: Question, rows: Mapping[str, Any], noise: GridNoise) -> Ints:
    """The true vector, in steps."""
    return on_grid(question, rows, noise.step)


def on_grid(question: Question, rows: Mapping[str, Any], step: Fraction) -> Ints:
    return question.expand(question.total(rows, step))


def released(
    question: Question, steps: Any, noise: GridNoise, records: int, population: bool = False
) -> NoisedVector:
    """A vector in steps as `decode` sees it, of a table with so many records."""
    return NoisedVector(
        np.asarray(steps, dtype=float) * float(noise.step), noise,
        None if question.partial else records, records, population,
    )  # fmt: skip


def stages_of(question: Question) -> Iterator[tuple[Question, Statistic]]:
    """What is asked at each stage after the stages before, and how far that moves."""
    rng = np.random.default_rng(3)
    before: list[NoisedVector] = []
    for k, statistic in enumerate(question.stage_statistics):
        one = question.stage(k, before)
        yield one, statistic
        noise = noise_for(statistic, 1.0)
        true = vector(one, records(one, 300, rng), noise)
        before.append(released(one, true + noise.law.sample(len(true), rng), noise, 300))


def answers(
    question: Question, rows: Mapping[str, Any], noises: Sequence[GridNoise], table: int,
    rng: np.random.Generator, replicas: int, silent: bool = False, population: bool = False,
) -> Iterator[tuple[Decoded, ...]]:  # fmt: skip
    """The findings of independent releases; `silent` is next to no noise, on the same grids."""
    known: dict[Question, Ints] = {}
    for _ in range(replicas):
        done: list[NoisedVector] = []
        for k, noise in enumerate(noises):
            one = question.stage(k, done)
            if one not in known:
                known[one] = vector(one, rows, noise)
            true = known[one]
            x = 0 if silent else noise.law.sample(len(true), rng)
            law = noise.law.shrunk(1e-3) if silent else noise.law
            done.append(released(question, true + x, replace(noise, law=law), table, population))
        yield question.conclude(done)


def noises_of(question: Question, epsilon: float, delta: float = 0.0) -> list[GridNoise]:
    """Of all stages of the question asked alone."""
    return list(priced(question.stage_statistics, question.stages, epsilon, delta).parts)
