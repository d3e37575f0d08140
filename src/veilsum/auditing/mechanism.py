"""The statistical audit of a mechanism: attack it as it is, and report what was proved.

1. Search: for each pair of adjacent inputs, edges of the domain included, a small sample of the
   mechanism estimates how well the pair can be distinguished; the worst pair is attacked.
2. Learn: fresh samples of that pair; on a part of them, the test that separates it best.
3. Certify: on the rest, a lower bound on epsilon with the stated confidence.

A lower bound above the claim refutes the claim. One below it proves nothing, but a report states how
much too small the noise must be for this very attack to find it (`attack`). Where nobody says what
less noise would be, that is known for one number without delta, taken to have Laplace noise
(`lower_bound`), and else not at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _validate
from veilsum.auditing.attack import (
    Attack,
    Pair,
    RandomisedMechanism,
    Ratio,
    Weakened,
    sample,
)
from veilsum.auditing.events import Score
from veilsum.auditing.lower_bound import FAULT, POWER, runs, smallest_fault
from veilsum.errors import PrivacyError

Floats = NDArray[np.float64]

CONFIDENCE = 1 - 1e-6
MOST_EPSILON = 700.0  # that every mechanism takes
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
    smallest_fault : float or None
        The least missing fraction of the noise that this attack finds 95 times in 100; 1 if none, and
        None if it is not known.
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
    smallest_fault: float | None = 1.0
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
        found = max(pure, self.lower_bound)
        return found > self.epsilon * (1 + ROUNDING) or self.delta_lower_bound > self.delta

    def __str__(self) -> str:
        """State the verdict, and what the audit could have found."""
        claim = f"epsilon = {self.epsilon:.4g}" + (f", delta = {self.delta:g}" * bool(self.delta))
        verdict, found = self.verdict, "" if self.refuted else f"; {self.found}"
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
        if self.smallest_fault is None:
            return "how much too small the noise must be for this test to find it is not known"
        if self.smallest_fault >= 1:
            return "no fault of the noise could have been found by sampling"
        found = (
            f"if the noise were {self.smallest_fault:.1%} too small, this test would have found it "
            f"{100 * POWER:.0f} times in 100"
        )
        if self.asked_fault is None or self.smallest_fault <= self.asked_fault * (1 + 2e-2):
            return found
        return f"{found} ({self.asked_fault:.0%} was asked for, which takes more runs)"

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
    ratio: Ratio | None = None,
    weakened: Weakened | None = None,
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
        Runs a side; without it, as many as find a `fault` of Laplace noise in one number with
        probability 0.95, up to a cap.
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
    ratio : callable, optional
        (input, other) -> the log-likelihood ratio of outputs, as a score. Outputs of several components
        need it: no component, and no sum of them, shows what all of them show together.
    weakened : callable, optional
        fault -> the mechanism with that fraction of its noise missing. The report states the power of
        this attack against it. Without it the power is known for one number and delta = 0 only.

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
    attack = Attack(epsilon, delta, confidence, trials, scores, ratio)
    pair = attack.worst(mechanism, pairs, rng)
    tests = attack.learnt(mechanism, pair, rng)
    epsilon_bound, delta_bound = attack.certified(mechanism, pair, tests, rng)
    report = AuditReport(
        name=name,
        epsilon=epsilon,
        delta=delta,
        lower_bound=epsilon_bound,
        delta_lower_bound=delta_bound,
        confidence=confidence,
        trials=trials,
        pair=f"inputs {pair[0]!s} and {pair[1]!s}",
        event=f"events on {tests[0].name}",
        smallest_fault=None,
        asked_fault=asked,
        exact=exact,
    )
    if report.refuted and weakened is not None:
        return report  # what else it would have found is of no interest
    return replace(report, smallest_fault=_power(attack, mechanism, pair, weakened))


def _power(
    attack: Attack, mechanism: RandomisedMechanism, pair: Pair, weakened: Weakened | None
) -> float | None:
    """The smallest fault that the attack finds; None where nobody says what a fault is."""
    if weakened is not None:
        return attack.smallest_fault(weakened, pair)
    if attack.delta or sample(mechanism, pair[0], 1, np.random.default_rng(0)).shape[1] > 1:
        return None
    return smallest_fault(attack.trials, attack.epsilon, 0.0, attack.confidence)


def additive(mechanism: RandomisedMechanism, centre: Callable[[Any], Any]) -> Weakened:
    """A mechanism of additive noise around `centre(input)`, with a fraction of its noise missing.

    A fault is tried on the same runs as the one before: drawn once, shrunk as often as needed.
    """
    drawn: dict[tuple[str, int, str], tuple[Floats, Any]] = {}

    def weakened(fault: float) -> RandomisedMechanism:
        def less(side: Any, trials: int, rng: np.random.Generator) -> Floats:
            source = rng.bit_generator
            key = (str(side), trials, str(source.state))
            if key not in drawn:
                outputs = np.asarray(mechanism(side, trials, rng), dtype=np.float64)
                drawn[key] = (outputs - centre(side), source.state)
            noise, source.state = drawn[key]
            return np.asarray(centre(side) + (1 - fault) * noise)

        return less

    return weakened
