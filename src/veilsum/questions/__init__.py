"""Questions: what can be asked of a table, each an encoding into a vector of sums and a reading of it.

    vs.ask("households.csv", vs.questions.mean("kwh", between=(0, 40)), epsilon=1)
    vs.questions.QUESTIONS.names()

A question is a class in a file of this package. It registers itself, and its name is a name of the
package.
"""

from __future__ import annotations

from typing import Any

from veilsum.questions.base import QUESTIONS, Decoded, Forecast, NoisedVector, Question
from veilsum.questions.by import By
from veilsum.questions.columns import Category, Column, Number
from veilsum.questions.noise import GridNoise, priced

__all__ = [
    "QUESTIONS",
    "By",
    "Category",
    "Column",
    "Decoded",
    "Forecast",
    "GridNoise",
    "NoisedVector",
    "Number",
    "Question",
    "priced",
]


def __getattr__(name: str) -> Any:
    """`questions.mean(...)`: the maker of that question."""
    if not name.startswith("_") and name in QUESTIONS:
        return QUESTIONS[name].make
    hint = "" if name.startswith("_") else QUESTIONS.hint(name)
    raise AttributeError(f"veilsum.questions has no {name!r}; {hint}".rstrip("; "))


def __dir__() -> list[str]:
    return [*__all__, *(name.replace("-", "_") for name in QUESTIONS)]
