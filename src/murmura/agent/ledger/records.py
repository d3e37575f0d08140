"""What a ledger holds, as frozen data: whose it is, what was released, what it cost."""

from __future__ import annotations

import hashlib
import json
import math
from fractions import Fraction
from typing import NamedTuple

from murmura.agent.events import Released
from murmura.agent.manifest import Manifest
from murmura.privacy.accounting import Budget

TERMS = (  # what the law of a release depends on; members and links are not in it
    "family",
    "dimension",
    "protect",
    "sensitivity",
    "epsilon",
    "delta",
    "radius",
    "law",
    "options",
    "unit",
)


def release_terms(manifest: Manifest) -> str:
    """sha256 of the fields that determine a release: an epoch with other members keeps them."""
    values = {name: getattr(manifest, name) for name in TERMS}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), default=float)
    return hashlib.sha256(text.encode()).hexdigest()


class Spent(NamedTuple):
    """An amount of budget: spent, or left."""

    epsilon: float
    delta: float


class Identity(NamedTuple):
    """Whose ledger it is and under which terms; none of it ever changes."""

    agent: str
    terms: str  # `release_terms` of the manifest
    unit: str  # what the budget is for: stream, window or event
    window: int  # readings of a window; 0 without
    epsilon: float  # the budget; inf where nothing is promised
    delta: float

    @classmethod
    def of(
        cls, agent: str, manifest: Manifest, budget: Budget | None, unit: str, window: int | None
    ) -> Identity:
        """Put it together; without a budget nothing is promised and nothing is refused."""
        epsilon, delta = (math.inf, 0.0) if budget is None else (budget.epsilon, budget.delta)
        return cls(agent, release_terms(manifest), unit, window or 0, float(epsilon), float(delta))

    @property
    def budget(self) -> Budget | None:
        """The budget, or None where nothing is promised."""
        return None if math.isinf(self.epsilon) else Budget(self.epsilon, self.delta)


class Entry(NamedTuple):
    """One release as it is written down; `before` and `hash` chain it to the one before."""

    seq: int
    reading: int
    round: int
    epsilon: float
    delta: float
    sums: tuple[int, ...]
    weight: int
    origin: str  # what the reading is known by; empty: by its number alone
    before: str
    hash: str

    @property
    def released(self) -> Released:
        """What the agent's core is given."""
        return Released(self.reading, self.sums, self.weight)


class Total(NamedTuple):
    """The exact sum of all prices; no order of adding can change it."""

    epsilon: Fraction | float = Fraction(0)  # inf where nothing was promised
    delta: Fraction = Fraction(0)

    def plus(self, epsilon: float, delta: float) -> Total:
        """The sum with one more price."""
        more = epsilon if math.isinf(epsilon) else Fraction(epsilon)
        return Total(self.epsilon + more, self.delta + Fraction(delta))

    @property
    def rounded(self) -> Spent:
        """As floats."""
        return Spent(float(self.epsilon), float(self.delta))


def words(numbers: tuple[int, ...]) -> str:
    """Whole numbers of any size as text, in hexadecimal."""
    return " ".join(format(number, "x") for number in numbers)


def numbers(text: str) -> tuple[int, ...]:
    """Read what `words` wrote."""
    return tuple(int(word, 16) for word in text.split())
