"""The statistical audit of a mechanism: attack it as it is, and report what was proved.

1. Search: for each pair of adjacent inputs, edges of the domain included, a small sample of the
   mechanism estimates how well the pair can be distinguished; the worst pair is attacked.
2. Learn: fresh samples of that pair; on a part of them, the test that separates it best.
3. Certify: on the rest, a lower bound on epsilon with the stated confidence.

A lower bound above the claim refutes the claim. One below it proves nothing, but every report
states the smallest fault that would have been found (`lower_bound`), and the number of runs is
chosen for one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum import _validate
from veilsum.auditing.events import NOTHING, DistinguishingTest, Score, learn
from veilsum.auditing.lower_bound import (
    FAULT,
    POWER,
    DeltaBound,
    EpsilonBound,
    LowerBound,
    certifying,
    runs,
    smallest_fault,
)
from veilsum.errors import PrivacyError

Floats = NDArray[np.float64]
RandomisedMechanism = Callable[[Any, int, np.random.Generator], ArrayLike]
Pair = tuple[Any, Any]

SEARCH_TRIALS = 20_000
BATCH = 250_000  # runs in memory at once while they are counted
CONFIDENCE = 1 - 1e-6
ROUNDING = 1e-9  # of an exact loss


@dataclass(frozen=True)
class AuditReport:
    """A claim beside the evidence.

    Attributes
    ----------
    name : str
        What was audited.
    epsilon, delta : float
        The claim.
    lower_bound : float
        Of epsilon at that delta, proved at `confidence`.
    delta_lower_bound : float
        Of delta at that epsilon, likewise.
    confidence : float
        Of both bounds.
    trials : int
        Runs a side; 0 where nothing was sampled.
    pair, event : str
        The inputs attacked, and the event that distinguishes them best.
    smallest_fault : float
        The least missing fraction of the noise that would have been found; 1 if none.
    asked_fault : float or None
        The fault that the number of runs was chosen for.
    exact : float or None
        The exact loss at delta = 0, where the likelihoods are known; it refutes pure claims only.
    sampler : str
        What drew the noise, where there are several.
    beyond : str
        Why the guarantee does not cover the adversary; epsilon is then what is stated against it,
        and nothing is claimed. Empty where it does.

    Examples
    --------
    >>> report = AuditReport("laplace", 1.0, 0.0, 1.2, 0.0, 0.95, 1000, "0 and 1", "output 0")
    >>> report.refuted
    True
    """

    name: str
    epsilon: float
    delta: float
    lower_bound: float
    delta_lower_bound: float
    confidence: float
    trials: int
    pair: str
    event: str
    smallest_fault: float = 1.0
    asked_fault: float | None = None
    exact: float | None = None
    sampler: str = ""
    beyond: str = ""

    @property
    def verdict(self) -> str:
        """One of "REFUTED", "not refuted" and "beyond", where nothing is claimed."""
        if self.refuted:
            return "REFUTED"
        return "beyond" if self.beyond else "not refuted"

    @property
    def refuted(self) -> bool:
        """Whether the evidence exceeds the claim; a loss at delta = 0 says nothing of a delta."""
        pure = 0.0 if self.exact is None or self.delta else self.exact
        known = pure > self.epsilon * (1 + ROUNDING)
        return known or self.lower_bound > self.epsilon or self.delta_lower_bound > self.delta

    def __str__(self) -> str:
        """State the verdict, and what the audit could have found."""
        claim = f"epsilon = {self.epsilon:.4g}" + (f", delta = {self.delta:g}" * bool(self.delta))
        verdict, found = self.verdict, f"; {self.found}"
        if self.beyond:
            claim, found = f"{self.beyond}, so that nothing is claimed; {claim} is stated", ""
            verdict = "and REFUTED" if self.refuted else "and not refuted"
        if not self.trials:
            return f"{self.name}: {claim} {verdict}: {self._exactly} ({self.pair}; {self.event})"
        exactly = "" if self.exact is None else f"{self._exactly}; by sampling, "
        excess = ""
        if self.delta_lower_bound > self.delta:
            excess = f"; at that epsilon, delta is at least {self.delta_lower_bound:.3g}"
        sampler = f", {self.sampler} sampler" if self.sampler else ""
        return (
            f"{self.name}: {claim} {verdict}: {exactly}epsilon is at least "
            f"{max(self.lower_bound, 0.0):.4g} (confidence 1 - {1 - self.confidence:.0e}, {self.trials:,} "
            f"runs on {self.pair}, by {self.event}{sampler}){excess}{found}"
        )

    @property
    def _exactly(self) -> str:
        """The exact loss in words."""
        loss = self.lower_bound if self.exact is None else self.exact
        return f"epsilon is {loss:.4g} exactly" + " at delta = 0" * bool(self.delta)

    @property
    def found(self) -> str:
        """The smallest fault that would have been found, and whether it is what was asked for."""
        if not self.trials and self.delta:
            return "nothing was sampled, and an exact loss at delta = 0 refutes no delta"
        if not self.trials:
            return "any fault would have been found: nothing was sampled"
        if self.smallest_fault >= 1:
            return "no fault of the noise could have been found by sampling"
        found = (
            f"a fault of {self.smallest_fault:.1%} or more of the noise that the claim needs would "
            f"have been found with probability {POWER:g}"
        )
        if self.asked_fault is None or self.smallest_fault <= self.asked_fault * (1 + 1e-2):
            return found
        return f"{found} (the number of runs is capped: {self.asked_fault:.0%} was asked for)"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data; JSON has no infinity, which becomes a string."""
        fields = {
            name: str(value) if isinstance(value, float) and math.isinf(value) else value
            for name, value in asdict(self).items()
        }
        return fields | {"refuted": self.refuted, "verdict": self.verdict}


def audit(
    mechanism: RandomisedMechanism,
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
    """Attack a mechanism by samples, and certify a lower bound on epsilon.

    Parameters
    ----------
    mechanism : callable
        `mechanism(input, trials, rng)`, which returns one output (or a row of them) per trial.
    pairs : sequence of pairs
        Adjacent inputs under the unit of the claim; include the edges of the domain.
    epsilon, delta : float
        The claim.
    trials : int, optional
        Runs a side; without it, as many as find a `fault` with probability 0.95, up to a cap.
    rng : int or numpy.random.Generator
        The seed, or the source of randomness.
    confidence : float
        Of the bounds.
    name : str
        Of the report.
    fault : float
        The fraction of the noise that, if it were missing, must be found.
    scores : sequence of callables
        Of the outputs, tried beside those that are learnt.
    exact : float, optional
        The exact loss, where it is known without sampling.

    Returns
    -------
    AuditReport
        The claim beside the evidence.

    Raises
    ------
    PrivacyError
        If an argument is outside its range, or the mechanism returns too few or infinite outputs.

    Examples
    --------
    >>> def half_noise(signal, trials, rng):
    ...     return signal + rng.laplace(scale=0.5, size=trials)
    >>> audit(half_noise, [(0.0, 1.0)], epsilon=1.0, trials=10_000).refuted
    True
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
    tests, bounds = _learnt(mechanism, pair, epsilon, delta, confidence, trials, rng, scores)
    epsilon_bound, delta_bound = _certified(mechanism, pair, tests, bounds, certifying(trials), rng)
    return AuditReport(
        name=name,
        epsilon=epsilon,
        delta=delta,
        lower_bound=epsilon_bound,
        delta_lower_bound=delta_bound,
        confidence=confidence,
        trials=trials,
        pair=f"inputs {pair[0]!s} and {pair[1]!s}",
        event=f"events on {tests[0].name}",
        smallest_fault=smallest_fault(trials, epsilon, delta, confidence),
        asked_fault=asked,
        exact=exact,
    )


def _worst(
    mechanism: RandomisedMechanism,
    pairs: Sequence[Pair],
    delta: float,
    trials: int,
    rng: np.random.Generator,
) -> Pair:
    """The pair that a small sample distinguishes best."""
    if len(pairs) == 1:
        return pairs[0]
    bound, half, found = EpsilonBound(delta, 0.95), trials // 2, []
    for pair in pairs:
        first, second = (_sample(mechanism, side, trials, rng) for side in pair)
        test = learn(first[:half], second[:half], bound)
        found.append(test.certify(first[half:], second[half:], bound))
    return pairs[int(np.argmax(found))]


def _learnt(
    mechanism: RandomisedMechanism,
    pair: Pair,
    epsilon: float,
    delta: float,
    confidence: float,
    trials: int,
    rng: np.random.Generator,
    scores: Sequence[Score],
) -> tuple[tuple[DistinguishingTest, DistinguishingTest], tuple[LowerBound, LowerBound]]:
    """A test for each bound; without delta one test serves both, with all of the error."""
    first, second = (_sample(mechanism, side, trials - certifying(trials), rng) for side in pair)
    sure = confidence if delta == 0 else (1 + confidence) / 2
    on_epsilon, on_delta = EpsilonBound(delta, sure), DeltaBound(epsilon, sure)
    best = learn(first, second, on_epsilon, scores)
    other = best if delta == 0 else learn(first, second, on_delta, scores)
    return (best, other), (on_epsilon, on_delta)


def _certified(
    mechanism: RandomisedMechanism,
    pair: Pair,
    tests: tuple[DistinguishingTest, DistinguishingTest],
    bounds: tuple[LowerBound, LowerBound],
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
    each = zip(tests, counts, bounds, strict=True)
    on_epsilon, on_delta = (done.certify(bound, test.pooled) for test, done, bound in each)
    return on_epsilon, on_delta


def _sample(
    mechanism: RandomisedMechanism, side: Any, trials: int, rng: np.random.Generator
) -> Floats:
    outputs = np.asarray(mechanism(side, trials, rng), dtype=np.float64)
    outputs = outputs.reshape(len(outputs), -1)
    if len(outputs) != trials or not np.isfinite(outputs).all():
        raise PrivacyError(
            f"the mechanism must return {trials} finite outputs; found {len(outputs)}"
        )
    return outputs
