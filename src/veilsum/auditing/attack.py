"""The attack of an audit, step by step, and the fault that it finds.

Power
    What a report says of faults is the power of the attack that was run. The same mechanism is sampled
    with a fraction of its noise missing (`weakened`), the test is learnt from it as an audit learns it,
    and its hits are counted in fresh runs. Clopper and Pearson's ends of the two probabilities, each
    wrong with probability 1/200, and the 1/50 quantiles of the hits in as many runs as the audit
    certifies with give counts that an audit of the weakened mechanism reaches with probability
    1 - 2/200 - 2/50 = 0.95 at least; the fault is found if they refute the claim. The least fault that
    is found is searched for by bisection, with the same random numbers for all faults.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilsum import _extras
from veilsum.auditing.events import NOTHING, Counts, DistinguishingTest, Score, learn
from veilsum.auditing.lower_bound import (
    DeltaBound,
    EpsilonBound,
    LowerBound,
    certifying,
    lower,
    upper,
)
from veilsum.errors import PrivacyError

Floats = NDArray[np.float64]
RandomisedMechanism = Callable[[Any, int, np.random.Generator], ArrayLike]
Pair = tuple[Any, Any]
Ratio = Callable[[Any, Any], Score]
Weakened = Callable[[float], RandomisedMechanism]

BATCH = 250_000  # runs in memory at once while they are counted
SEARCH_TRIALS = 20_000
LEARNT, COUNTED = 15_000, 40_000  # runs a side of a weakened mechanism, at most
SEED = 20_230_117  # of the weakened mechanisms
UNSURE, UNLUCKY = 1 / 200, 1 / 50
RESOLUTION, LEAST, MOST = 0.04, 0.002, 0.99  # of a fault; the larger end is stated


@dataclass(frozen=True, eq=False)
class Attack:
    """A claim, how many runs attack it, and the scores that are tried.

    Attributes
    ----------
    epsilon, delta : float
        The claim.
    confidence : float
        Of a refutation.
    trials : int
        Runs a side.
    scores : sequence of callables
        Of the outputs, whatever the pair.
    ratio : callable, optional
        The two inputs -> the log-likelihood ratio of the outputs.
    """

    epsilon: float
    delta: float
    confidence: float
    trials: int
    scores: Sequence[Score] = ()
    ratio: Ratio | None = None

    @property
    def bounds(self) -> tuple[LowerBound, LowerBound]:
        """On epsilon and on delta; without delta one test serves both, with all of the error."""
        sure = self.confidence if self.delta == 0 else (1 + self.confidence) / 2
        return EpsilonBound(self.delta, sure), DeltaBound(self.epsilon, sure)

    def worst(
        self, mechanism: RandomisedMechanism, pairs: Sequence[Pair], rng: np.random.Generator
    ) -> Pair:
        """The pair that a small sample distinguishes best."""
        if len(pairs) == 1:
            return pairs[0]
        trials = min(self.trials, SEARCH_TRIALS)
        bound, half, found = EpsilonBound(self.delta, 0.95), trials // 2, []
        for pair in pairs:
            first, second = (sample(mechanism, side, trials, rng) for side in pair)
            test = learn(first[:half], second[:half], bound, self._given(pair))
            found.append(test.certify(first[half:], second[half:], bound))
        return pairs[int(np.argmax(found))]

    def learnt(
        self, mechanism: RandomisedMechanism, pair: Pair, rng: np.random.Generator
    ) -> tuple[DistinguishingTest, DistinguishingTest]:
        """A test for each bound."""
        runs = self.trials - certifying(self.trials)
        first, second = (sample(mechanism, side, runs, rng) for side in pair)
        on_epsilon, on_delta = self.bounds
        best = learn(first, second, on_epsilon, self._given(pair))
        other = best if self.delta == 0 else learn(first, second, on_delta, self._given(pair))
        return best, other

    def certified(
        self,
        mechanism: RandomisedMechanism,
        pair: Pair,
        tests: tuple[DistinguishingTest, DistinguishingTest],
        rng: np.random.Generator,
    ) -> tuple[float, float]:
        """The bounds that fresh runs certify."""
        counts = _counted(mechanism, pair, tests, certifying(self.trials), rng)
        each = zip(tests, counts, self.bounds, strict=True)
        on_epsilon, on_delta = (done.certify(bound, test.pooled) for test, done, bound in each)
        return on_epsilon, on_delta

    def smallest_fault(self, weakened: Weakened, pair: Pair) -> float:
        """The least missing fraction of the noise that is found 95 times in 100; 1 if none is."""
        if not self._finds(weakened(MOST), pair):
            return 1.0
        low, high = 0.0, MOST
        while high - low > max(RESOLUTION * high, LEAST):
            middle = (low + high) / 2
            found = self._finds(weakened(middle), pair)
            low, high = (low, middle) if found else (middle, high)
        return high

    def _finds(self, mechanism: RandomisedMechanism, pair: Pair) -> bool:
        """Whether an audit of this mechanism refutes the claim 95 times in 100, as derived above."""
        rng, binom = np.random.default_rng(SEED), _extras.load("scipy.stats").binom
        certify = certifying(self.trials)
        runs = min(self.trials - certify, LEARNT)
        first, second = (sample(mechanism, side, runs, rng) for side in pair)
        bound, claim = (
            (self.bounds[0], self.epsilon) if self.delta == 0 else (self.bounds[1], self.delta)
        )
        test = learn(first, second, bound, self._given(pair), alone=self.ratio is not None)
        (seen,) = _counted(mechanism, pair, (test,), min(4 * certify, COUNTED), rng)
        p = float(lower(seen.hits, seen.trials, UNSURE))
        q = float(upper(seen.other, seen.others, UNSURE))
        trials = certify * (2 if test.pooled else 1)
        likely = Counts(
            int(binom.ppf(UNLUCKY, trials, p)), trials,
            int(binom.ppf(1 - UNLUCKY, trials, q)), trials,
        )  # fmt: skip
        return likely.certify(bound, test.pooled) > claim

    def _given(self, pair: Pair) -> tuple[Score, ...]:
        return (*self.scores, *([self.ratio(*pair)] if self.ratio else []))


def _counted(
    mechanism: RandomisedMechanism,
    pair: Pair,
    tests: Sequence[DistinguishingTest],
    trials: int,
    rng: np.random.Generator,
) -> list[Counts]:
    """Count the tests in fresh runs, a batch at a time."""
    counts = [NOTHING] * len(tests)
    for start in range(0, trials, BATCH):
        runs = min(BATCH, trials - start)
        first, second = (sample(mechanism, side, runs, rng) for side in pair)
        counts = [
            done.plus(test.counts(first, second)) for test, done in zip(tests, counts, strict=True)
        ]
    return counts


def sample(
    mechanism: RandomisedMechanism, side: Any, trials: int, rng: np.random.Generator
) -> Floats:
    """The outputs of so many runs, a row each."""
    outputs = np.asarray(mechanism(side, trials, rng), dtype=np.float64)
    outputs = outputs.reshape(len(outputs), -1)
    if len(outputs) != trials or not np.isfinite(outputs).all():
        raise PrivacyError(
            f"the mechanism must return {trials} finite outputs; found {len(outputs)}"
        )
    return outputs
