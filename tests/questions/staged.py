"""Questions that may ask in stages, without a table: what the engine does with one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from veilsum.questions import Decoded, GridNoise, NoisedVector, Question, priced


def noises(question: Question, epsilon: float, shrunk: float = 1.0) -> list[GridNoise]:
    """Of each stage; with a fraction of its deviation, of a weakened twin."""
    price = priced(list(question.stage_statistics), list(question.stages), epsilon)
    if shrunk == 1.0:
        return list(price.parts)
    return [replace(noise, law=noise.law.shrunk(shrunk)) for noise in price.parts]


def answered(
    question: Question,
    rows: Mapping[str, Any],
    epsilon: float,
    rng: np.random.Generator,
    *,
    stated: list[GridNoise] | None = None,
    drawn: list[GridNoise] | None = None,
    population: bool = False,
) -> tuple[Decoded, ...]:
    """The answer, with simulated noise; `drawn` is what is added, `stated` what `decode` believes."""
    stated = noises(question, epsilon) if stated is None else stated
    drawn = stated if drawn is None else drawn
    count = len(next(iter(rows.values())))
    done: list[NoisedVector] = []
    for k, (noise, added) in enumerate(zip(stated, drawn, strict=True)):
        asked = question.stage(k, done)
        assert asked.statistic == question.stage_statistics[k]
        true = asked.expand(asked.total(rows, noise.step))
        values = np.asarray(
            (true + added.law.sample(len(true), rng)) * float(noise.step), np.float64
        )
        records = None if question.partial else count
        done.append(NoisedVector(values, noise, records, count, population))
    return question.conclude(done)
