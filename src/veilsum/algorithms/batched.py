"""An online algorithm whose readings enter in batches: a batch's sum, in the round that closes it.

In sums, S_t = t nu_t, an online algorithm that counts all readings alike is

    S_t = W_t S_{t-1} + x_t,    W_t = (own_t I + mixing_t A_t)/(own_t + mixing_t),

and so is the number of readings, with x_t = 1: w_t = t. Where a batch of L_t readings closes in
round t, x_t is their sum with one draw of noise and w grows by L_t; in all other rounds nothing
enters. As every agent closes its batches in the same rounds, w_t = N_t, the readings that are in,
at all of them, and the estimate S_t/w_t follows

    nu_t = N_{t-1}/N_t W_t nu_{t-1} + 1/N_t (x_t + d_t),    N_t = N_{t-1} + L_t.

A ratio algorithm (push-sum-learn) has S and w apart, and adds (x_t + d_t, L_t) to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from veilsum.algorithms.base import Algorithm, Coefficients, Sensitivities
from veilsum.errors import AlgorithmError

if TYPE_CHECKING:
    from veilsum.algorithms.summed import SummedAlgorithm

CHECKED = 32  # rounds whose form is checked before a run; `coefficients` checks the others
_TAKEN_OVER = (
    "name", "reference", "formula", "ratio", "static_only", "kinds", "diverges", "summed",
    "masked",
)  # fmt: skip


class BatchSchedule(Protocol):
    """Which batches close when (`veilsum.privacy.Batches`)."""

    def closes(self, t: int) -> int:
        """How many readings are in the batch that closes with round t, or 0."""

    def released(self, t: int) -> int:
        """How many are in all batches that are closed after round t."""

    def closing(self, reading: int) -> int:
        """The round in which the batch of a reading closes."""


@dataclass(frozen=True)
class Batched(Algorithm):
    """nu_t = N_{t-1}/N_t W_t nu_{t-1} + 1/N_t (x_t + d_t), x_t the sum of the batch that closes.

    Parameters
    ----------
    algorithm : Algorithm
        An online algorithm that counts all readings alike, such as `Learn`; others are refused.
    batches : Batches
        When batches close, and how many readings are in each.

    Examples
    --------
    >>> from veilsum import algorithms
    >>> from veilsum.privacy import Batches
    >>> doubling = algorithms.Batched(algorithms.Learn(), Batches(growth=2.0))
    >>> [doubling.readings(t) for t in (1, 2, 3, 4)]
    [1, 1, 0, 2]
    >>> doubling.at(3).mixing, doubling.at(4).mixing, doubling.at(4).innovation
    (1.0, 0.5, 0.25)
    """

    algorithm: Algorithm
    batches: BatchSchedule

    start = Coefficients()
    online = True

    def __post_init__(self) -> None:
        """Take the name and the requirements over, and check the form of the first rounds."""
        problem = misfit(self.algorithm)
        if problem:
            raise AlgorithmError(problem)
        for name in _TAKEN_OVER:
            if hasattr(self.algorithm, name):
                object.__setattr__(self, name, getattr(self.algorithm, name))
        # beside the fields, so that caches by attributes see all that the algorithm is made of
        object.__setattr__(self, "_inner", tuple(sorted(vars(self.algorithm).items())))

    @property
    def session(self) -> SummedAlgorithm | None:
        """That of the algorithm."""
        return self.algorithm.session

    def latest(self, t: int) -> int:
        """As of the algorithm."""
        return self.algorithm.latest(t)

    def readings(self, t: int) -> int:
        """The readings of the batch that enters in round t."""
        return self.batches.closes(self.latest(t))

    def enters(self, reading: int) -> int:
        """The round in which the batch of a reading enters."""
        return self.algorithm.enters(self.batches.closing(reading))

    def coefficients(self, t: int) -> Coefficients:
        """Weigh the past by N_{t-1} readings and the batch by those in it."""
        now = self.algorithm.at(t)
        if not _counts_alike(self.algorithm, t, now):
            raise AlgorithmError(_form(self.algorithm, t))
        last = self.latest(t)
        past, total = self.batches.released(max(last - 1, 0)), self.batches.released(last)
        if not total:  # the first result is under way
            return Coefficients(own=1.0)
        entering = 1.0 if total > past else 0.0
        if self.ratio:
            return Coefficients(now.own, now.mixing, innovation=entering, noise=entering)
        kept = past / total / (now.own + now.mixing) if past else 0.0
        weight = entering / total
        return Coefficients(kept * now.own, kept * now.mixing, innovation=weight, noise=weight)

    def sensitivities(self, t: int) -> Sensitivities:
        """1 per unit of one reading's statistic, in whichever round its batch closes."""
        if not self.readings(t):
            return Sensitivities(1.0, 0.0)  # nothing is released
        return super().sensitivities(t)


def misfit(algorithm: Algorithm | type[Algorithm]) -> str:
    """Why the readings of an algorithm, or of all instances of a class, cannot enter in batches.

    Empty where they can.
    """
    if not algorithm.online:
        return (
            f"algorithm {algorithm.name} uses one signal of each agent, so there is nothing to put "
            "in batches; use an online algorithm such as learn"
        )
    if algorithm.splits_budget or algorithm.perturbs_links or algorithm.perturbs_messages:
        return (
            f"algorithm {algorithm.name} does not release each reading once, and batches of its "
            "readings have no proof; use learn, learn-network or push-sum-learn"
        )
    if algorithm.start.innovation or algorithm.start.noise:
        return f"algorithm {algorithm.name} starts from a reading; batches need a start from 0"
    if isinstance(algorithm, type):
        return ""
    rounds = range(1, CHECKED + 1)
    wrong = [t for t in rounds if not _counts_alike(algorithm, t, algorithm.at(t))]
    return _form(algorithm, wrong[0]) if wrong else ""


def batched(algorithm: Algorithm, batches: BatchSchedule | None) -> Algorithm:
    """The algorithm with its readings in these batches in place of others; None: one by one."""
    if not isinstance(algorithm, Batched):
        return algorithm if batches is None else Batched(algorithm, batches)
    return algorithm if algorithm.batches == batches else batched(algorithm.algorithm, batches)


def _counts_alike(algorithm: Algorithm, t: int, now: Coefficients) -> bool:
    """Whether round t is S_t = W_t S_{t-1} + x_t with rows of W_t that add up to 1."""
    own, mixing, momentum, innovation, noise, link_noise = now
    s = algorithm.latest(t)
    if not s:
        return innovation == noise == link_noise == 0.0
    one = 1.0 if algorithm.ratio else 1 / s
    kept = 1.0 if algorithm.ratio else (s - 1) / s
    whole = abs(own + mixing - kept) < 1e-12 or (s == 1 and not algorithm.ratio)
    same = abs(innovation - one) < 1e-12 and abs(noise - one) < 1e-12
    return whole and same and momentum == link_noise == 0.0


def _form(algorithm: Algorithm, t: int) -> str:
    return (
        f"algorithm {algorithm.name} does not count all readings alike (round {t}), so that the "
        "sum of a batch cannot enter in their place; use learn, learn-network or push-sum-learn"
    )
