"""The audit: attack a mechanism as it is, and report what was proved against it.

1. Search: for each pair of adjacent inputs, edges of the domain included, a small sample of the
   real mechanism estimates how well the pair can be told apart; the worst pair is kept.
2. Learn: fresh samples of that pair; on a part of them, the test that separates it best.
3. Certify: on the rest, a lower bound on epsilon with the stated confidence.

A lower bound above the claim refutes the claim. One below it proves nothing, but every report says
the smallest fault that would have been found (`power`), and the number of runs is chosen for one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.privacy.auditing.bound import Loss, Measure, Spent
from murmura.privacy.auditing.event import NOTHING, Score, Test, learn
from murmura.privacy.auditing.power import FAULT, POWER, certifying, runs, smallest_fault

Floats = NDArray[np.float64]
Mechanism = Callable[[Any, int, np.random.Generator], ArrayLike]
Pair = tuple[Any, Any]

SEARCH_TRIALS = 20_000
BATCH = 250_000  # runs held at once while they are counted
CONFIDENCE = 1 - 1e-6
ROUNDING = 1e-9  # of an exact loss


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
    smallest_fault: float = 1.0  # share of the noise missing that would have been found; 1: none
    asked_fault: float | None = None  # what the number of runs was chosen for
    exact: float | None = None  # epsilon really spent, from the likelihoods, where they are known

    @property
    def refuted(self) -> bool:
        """Whether the evidence exceeds the claim."""
        known = self.exact is not None and self.exact > self.epsilon * (1 + ROUNDING)
        return known or self.lower_bound > self.epsilon or self.spent_delta > self.delta

    def __str__(self) -> str:
        """Say the verdict, and what the audit could have found."""
        claim = f"epsilon = {self.epsilon:.4g}" + (f", delta = {self.delta:g}" * bool(self.delta))
        verdict = "REFUTED" if self.refuted else "not refuted"
        if not self.trials:
            return (
                f"{self.name}: {claim} {verdict}: epsilon is {self.lower_bound:.4g} exactly "
                f"({self.pair}; {self.event})"
            )
        return (
            f"{self.name}: {claim} {verdict}: {self._exactly()}epsilon is at least "
            f"{self.lower_bound:.4g} (confidence 1 - {1 - self.confidence:.0e}, {self.trials:,} "
            f"runs on {self.pair}, by {self.event}){self._spent()}; {self.found}"
        )

    @property
    def found(self) -> str:
        """The smallest fault that would have been found, and whether it is what was asked for."""
        if not self.trials:
            return "any fault would have been found: nothing was sampled"
        if self.smallest_fault >= 1:
            return "no fault of the noise could have been found by sampling"
        words = (
            f"a fault of {self.smallest_fault:.1%} or more of the noise that the claim needs would "
            f"have been found with probability {POWER:g}"
        )
        if self.asked_fault is None or self.smallest_fault <= self.asked_fault * (1 + 1e-2):
            return words
        return f"{words} (the number of runs is capped: {self.asked_fault:.0%} was asked for)"

    def _exactly(self) -> str:
        return "" if self.exact is None else f"epsilon is {self.exact:.4g} exactly; by sampling, "

    def _spent(self) -> str:
        if self.spent_delta <= self.delta:
            return ""
        return f"; at that epsilon, delta is at least {self.spent_delta:.3g}"

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as plain data that JSON can hold."""
        return {k: _plain(v) for k, v in asdict(self).items()} | {"refuted": self.refuted}


def _plain(value: Any) -> Any:
    """JSON has no infinity: it becomes a word."""
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def audit(
    mechanism: Mechanism,
    pairs: Sequence[Pair],
    epsilon: float,
    delta: float = 0.0,
    trials: int | None = None,
    rng: int | np.random.Generator = 0,
    confidence: float = CONFIDENCE,
    name: str = "mechanism",
    fault: float = FAULT,
    scores: Sequence[Score] = (),
    exact: float | None = None,
) -> AuditReport:
    """Attack `mechanism(input, trials, rng)`, which gives one output (or row of them) per trial.

    `pairs` are adjacent inputs under the unit of the claim; include the edges of the domain.
    Without `trials`, as many runs are taken as find a `fault` (the share of the noise that is
    missing) with probability 0.95, up to a cap. `scores` of the outputs are tried beside those
    that are learnt, and `exact` is the loss where it is known without sampling.
    """
    _validate.positive(PrivacyError, epsilon=epsilon, fault=fault)
    _validate.probability(PrivacyError, delta=delta, confidence=confidence, fault=fault)
    if not pairs:
        raise PrivacyError("an audit needs at least one pair of adjacent inputs")
    asked = fault if trials is None else None
    trials = runs(fault, epsilon, delta, confidence) if trials is None else trials
    _validate.at_least(PrivacyError, 100, trials=trials)
    rng = np.random.default_rng(rng)
    pair = _worst(mechanism, pairs, delta, min(trials, SEARCH_TRIALS), rng)
    tests, measures = _learnt(mechanism, pair, epsilon, delta, confidence, trials, rng, scores)
    bounds = _certified(mechanism, pair, tests, measures, certifying(trials), rng)
    return AuditReport(
        name=name,
        epsilon=epsilon,
        delta=delta,
        lower_bound=bounds[0],
        spent_delta=bounds[1],
        confidence=confidence,
        trials=trials,
        pair=f"inputs {pair[0]!s} and {pair[1]!s}",
        event=f"events on {tests[0].name}",
        smallest_fault=smallest_fault(trials, epsilon, delta, confidence),
        asked_fault=asked,
        exact=exact,
    )


def _worst(
    mechanism: Mechanism, pairs: Sequence[Pair], delta: float, trials: int, rng: np.random.Generator
) -> Pair:
    """The pair that a small sample tells apart best."""
    if len(pairs) == 1:
        return pairs[0]
    measure, half, found = Loss(delta, 0.95), trials // 2, []
    for pair in pairs:
        first, second = (_sample(mechanism, side, trials, rng) for side in pair)
        test = learn(first[:half], second[:half], measure)
        found.append(test.certify(first[half:], second[half:], measure))
    return pairs[int(np.argmax(found))]


def _learnt(
    mechanism: Mechanism,
    pair: Pair,
    epsilon: float,
    delta: float,
    confidence: float,
    trials: int,
    rng: np.random.Generator,
    scores: Sequence[Score],
) -> tuple[tuple[Test, Test], tuple[Measure, Measure]]:
    """A test for each bound; without delta one test serves both, with all of the error."""
    first, second = (_sample(mechanism, side, trials - certifying(trials), rng) for side in pair)
    sure = confidence if delta == 0 else (1 + confidence) / 2
    loss, spent = Loss(delta, sure), Spent(epsilon, sure)
    best = learn(first, second, loss, scores)
    other = best if delta == 0 else learn(first, second, spent, scores)
    return (best, other), (loss, spent)


def _certified(
    mechanism: Mechanism,
    pair: Pair,
    tests: tuple[Test, Test],
    measures: tuple[Measure, Measure],
    trials: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Count the tests in fresh runs, a batch at a time."""
    counts = [NOTHING, NOTHING]
    for start in range(0, trials, BATCH):
        runs = min(BATCH, trials - start)
        first, second = (_sample(mechanism, side, runs, rng) for side in pair)
        counts = [
            done.plus(test.counts(first, second)) for test, done in zip(tests, counts, strict=True)
        ]
    each = zip(tests, counts, measures, strict=True)
    loss, spent = (done.certify(measure, test.pooled) for test, done, measure in each)
    return loss, spent


def _sample(mechanism: Mechanism, side: Any, trials: int, rng: np.random.Generator) -> Floats:
    outputs = np.asarray(mechanism(side, trials, rng), dtype=np.float64)
    outputs = outputs.reshape(len(outputs), -1)
    if len(outputs) != trials or not np.isfinite(outputs).all():
        raise PrivacyError(
            f"the mechanism must give {trials} finite outputs; it gave {len(outputs)}"
        )
    return outputs
