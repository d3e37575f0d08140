"""The worst pair of records of a question: corners, random records, coordinate ascent, an optimiser."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tests.questions.make import on_grid, only, records
from veilsum.questions import Question
from veilsum.questions.columns import RECORDS

MANY = 160
PLACES = np.linspace(0.0, 1.0, 17)

Record = dict[str, Any]  # arrays of length 1


@dataclass
class Pair:
    """Two records, their vectors in steps, how far apart they are."""

    first: Record
    second: Record
    a: np.ndarray
    b: np.ndarray
    l1: float
    l2: float


def vector_of(question: Question, record: Record, step: Fraction) -> np.ndarray:
    return on_grid(question, record, step)


def pair_of(question: Question, first: Record, second: Record | None, step: Fraction) -> Pair:
    """Of two records, or of one and of being out."""
    a = vector_of(question, first, step)
    b = np.zeros_like(a) if second is None else vector_of(question, second, step)
    moved = np.abs((a - b).astype(float))
    return Pair(
        first, {} if second is None else second, a, b, moved.sum(), float(np.linalg.norm(moved))
    )


def corners_and_more(question: Question, rng: np.random.Generator, count: int) -> dict[str, Any]:
    many = records(question, count, rng)
    for column in question.columns:
        if column.places:
            many[column.name] = rng.integers(0, column.places, count)
        else:
            corners = rng.choice([0.0, 1.0, 0.5, 0.25], count)
            many[column.name] = np.where(rng.random(count) < 0.7, corners, many[column.name])
    return many


def worst_pair(question: Question, step: Fraction, rng: np.random.Generator) -> Pair:
    """The largest move in l1 norm that is found; for one of l2, `worst_pair(...).l2` of `ascent` serves."""
    many = corners_and_more(question, rng, MANY)
    each = [only(many, slice(k, k + 1)) for k in range(MANY)]
    x = np.array([vector_of(question, one, step) for one in each], dtype=float)
    moves = np.array([np.abs(x - row).sum(axis=1) for row in x])
    best = None
    for start in np.argsort(-moves, axis=None)[[0, 1, 5, 40]]:
        i, j = divmod(int(start), MANY)
        found = ascent(question, pair_of(question, each[i], each[j], step), step)
        best = found if best is None or found.l1 > best.l1 else best
    assert best is not None
    if question.partial:
        sizes = np.abs(x).sum(axis=1)
        out = ascent(question, pair_of(question, each[int(sizes.argmax())], None, step), step)
        best = out if out.l1 > best.l1 else best
    return best


def ascent(question: Question, start: Pair, step: Fraction) -> Pair:
    """Move one column of one record at a time to its best place, until nothing helps."""
    best, width = start, 1.0
    while width > 1e-6:
        found = best
        for side in ("first", "second"):
            for column in question.columns:
                if side == "second" and not best.second:
                    continue
                for value in _tries(found, side, column.name, column.places, width):
                    found = max(found, _moved(question, found, side, column.name, value, step),
                                key=lambda pair: pair.l1)  # fmt: skip
        if found.l1 <= best.l1 * (1 + 1e-9):
            width /= 8
        best = found if found.l1 > best.l1 else best
    return best


def _tries(pair: Pair, side: str, name: str, places: int, width: float) -> np.ndarray:
    if places:
        return np.arange(places)
    now = float(getattr(pair, side)[name][0])
    return np.unique(np.clip(now + width * (PLACES * 2 - 1), 0.0, 1.0))


def _moved(
    question: Question, pair: Pair, side: str, name: str, value: Any, step: Fraction
) -> Pair:
    changed = getattr(pair, side) | {name: np.array([value])}
    first, second = (changed, pair.second) if side == "first" else (pair.first, changed)
    return pair_of(question, first, second or None, step)


def every_record(question: Question, places: int) -> dict[str, Any] | None:
    """All records whose numbers lie on a coarse grid; None if they are too many."""
    axes = [
        np.arange(c.places) if c.places else np.linspace(0, 1, places) for c in question.columns
    ]
    if np.prod([len(axis) for axis in axes] or [1]) > 1500:
        return None
    mesh = np.meshgrid(*axes, indexing="ij") if axes else []
    found: dict[str, Any] = {
        c.name: np.ravel(one) for c, one in zip(question.columns, mesh, strict=True)
    }
    count = len(next(iter(found.values()))) if found else 1
    return found | {RECORDS: np.zeros(count, dtype=np.int8)}


def by_optimiser(question: Question, step: Fraction, norm: int, seed: int) -> float:
    """The largest move that differential evolution finds over two records, categories among them."""
    from scipy.optimize import differential_evolution

    columns = question.columns
    if not columns:
        return 0.0

    def record(x: np.ndarray) -> Record:
        found: Record = {RECORDS: np.zeros(1, dtype=np.int8)}
        for column, share in zip(columns, x, strict=True):
            place = min(int(share * column.places), column.places - 1)
            found[column.name] = np.array([place if column.places else share])
        return found

    def lost(x: np.ndarray) -> float:
        pair = pair_of(question, record(x[: len(columns)]), record(x[len(columns) :]), step)
        return -(pair.l1 if norm == 1 else pair.l2)

    done = differential_evolution(
        lost, [(0.0, 1.0)] * (2 * len(columns)), seed=seed, popsize=12, maxiter=60, polish=False
    )
    return -float(done.fun)
