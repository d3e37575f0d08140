"""The audit: attack a mechanism as it is, and report what was proved against it.

1. Search: for each pair of adjacent inputs, edges of the domain included, a small sample of the
   real mechanism estimates how well the pair can be told apart; the worst pair is kept.
2. Learn: fresh samples of that pair; on one half of them, the event that separates it best.
3. Certify: on the other half, a lower bound on epsilon with the stated confidence.

A lower bound above the claim refutes the claim. One below it proves nothing, but the closer it
comes the less room there is for a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.privacy.auditing.bound import Loss, Measure, Spent
from murmura.privacy.auditing.event import Event, learn

Floats = NDArray[np.float64]
Mechanism = Callable[[Any, int, np.random.Generator], ArrayLike]
Pair = tuple[Any, Any]

SEARCH_TRIALS = 20_000
CONFIDENCE = 1 - 1e-6


@dataclass(frozen=True)
class AuditReport:
    """The claim beside the evidence."""

    name: str
    epsilon: float  # claimed
    delta: float  # claimed
    lower_bound: float  # of epsilon at that delta, proved at the confidence below
    spent_delta: float  # lower bound of delta at that epsilon, likewise
    confidence: float
    trials: int
    pair: str
    event: str

    @property
    def refuted(self) -> bool:
        """Whether the evidence exceeds the claim."""
        return self.lower_bound > self.epsilon or self.spent_delta > self.delta

    def __str__(self) -> str:
        """Say the verdict."""
        claim = f"epsilon = {self.epsilon:g}" + (f", delta = {self.delta:g}" if self.delta else "")
        verdict = "REFUTED" if self.refuted else "not refuted"
        return (
            f"{self.name}: {claim} {verdict}: epsilon is at least {self.lower_bound:.4g} "
            f"(confidence 1 - {1 - self.confidence:.0e}, {self.trials:,} runs on {self.pair}, "
            f"by {self.event})" + self._spent()
        )

    def _spent(self) -> str:
        if self.spent_delta <= self.delta:
            return ""
        return f"; at that epsilon, delta is at least {self.spent_delta:.3g}"

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as plain data."""
        return asdict(self) | {"refuted": self.refuted}


def audit(
    mechanism: Mechanism,
    pairs: Sequence[Pair],
    epsilon: float,
    delta: float = 0.0,
    trials: int = 200_000,
    rng: int | np.random.Generator = 0,
    confidence: float = CONFIDENCE,
    name: str = "mechanism",
) -> AuditReport:
    """Attack `mechanism(input, trials, rng)`, which gives one output (or row of them) per trial.

    `pairs` are adjacent inputs under the unit of the claim; include the edges of the domain.
    """
    _validate.positive(PrivacyError, epsilon=epsilon)
    _validate.probability(PrivacyError, delta=delta, confidence=confidence)
    _validate.at_least(PrivacyError, 100, trials=trials)
    if not pairs:
        raise PrivacyError("an audit needs at least one pair of adjacent inputs")
    rng = np.random.default_rng(rng)
    error = (1 - confidence) / 2  # shared by the two bounds
    loss, spent = Loss(delta, 1 - error), Spent(epsilon, 1 - error)
    pair = _worst(mechanism, pairs, delta, min(trials, SEARCH_TRIALS), rng)
    samples = tuple(_sample(mechanism, side, trials, rng) for side in pair)
    bound, event = _attack(samples, loss)
    return AuditReport(
        name=name,
        epsilon=epsilon,
        delta=delta,
        lower_bound=bound,
        spent_delta=_attack(samples, spent)[0],
        confidence=confidence,
        trials=trials,
        pair=f"inputs {pair[0]!s} and {pair[1]!s}",
        event=f"an event on {event.name}",
    )


def _worst(
    mechanism: Mechanism, pairs: Sequence[Pair], delta: float, trials: int, rng: np.random.Generator
) -> Pair:
    """The pair, in its worse order, that a small sample tells apart best."""
    both = [p for a, b in pairs for p in ((a, b), (b, a))]
    scores = []
    for pair in both:
        samples = tuple(_sample(mechanism, side, trials, rng) for side in pair)
        scores.append(_attack(samples, Loss(delta, 0.95))[0])
    return both[int(np.argmax(scores))]


def _attack(samples: tuple[Floats, ...], measure: Measure) -> tuple[float, Event]:
    """Learn an event on half of the samples; say what the half it has not seen certifies."""
    first, second = samples
    half = len(first) // 2
    event = learn(first[:half], second[:half], measure)
    return event.certify(first[half:], second[half:], measure), event


def _sample(mechanism: Mechanism, side: Any, trials: int, rng: np.random.Generator) -> Floats:
    outputs = np.asarray(mechanism(side, trials, rng), dtype=np.float64)
    outputs = outputs.reshape(len(outputs), -1)
    if len(outputs) != trials or not np.isfinite(outputs).all():
        raise PrivacyError(
            f"the mechanism must give {trials} finite outputs; it gave {len(outputs)}"
        )
    return outputs
