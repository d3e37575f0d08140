"""The audit of a sum over a roster: attack it with what colluders know.

What is sent is uniform given the sum over the roster (of a secure sum by the lemma of its shares, of a
masked one by that of docs/masked-sum, class by class), so that sum is all that an adversary has. Colluders
subtract what they drew themselves, and the smallest roster leaves least noise: what is attacked is a
member's value plus the draws that remain unknown.

Simulations draw in floating point, agents exactly. Either sampler can be audited: the latter with
fewer runs, since it is slower, in one component, and without the exact loss, which is not about draws.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from veilsum import _validate
from veilsum.auditing.attack import RandomisedMechanism, Ratio
from veilsum.auditing.events import Score
from veilsum.auditing.lower_bound import FAULT
from veilsum.auditing.mechanism import AuditReport, audit
from veilsum.errors import PrivacyError
from veilsum.privacy import Law, SecureParameters

ONE_BY_ONE = 32  # members up to which every draw is made; beyond, the sum of the unknown ones
FAST, EXACT = "floating-point", "exact"
FEWEST, MOST = 1000, 20_000  # runs a side with exact draws
POINTS, WIDEST = 2**17, 2048.0  # of a table of probabilities; standard deviation in steps
RAREST = 1e-13
MOST_POINTS, BEYOND = 2**21, 1e-18  # of a law's characteristic function; what it leaves out
MOST_LOSS, FLOOR = (
    15.0,
    1e-9,
)  # a claim, and a mass over that at 0, that rounding leaves 9 digits of
LONGEST = 20.0  # seconds for which exact draws are made member by member, about


def audit_sum(
    terms: SecureParameters,
    colluders: int | None = None,
    trials: int | None = None,
    rng: int = 0,
    name: str = "secure-sum",
    fault: float = FAULT,
    drawn_exactly: bool = False,
) -> AuditReport:
    """Attack one member's value in the sum over the smallest roster, with colluders' draws known.

    Parameters
    ----------
    terms : SecureParameters
        The claim: epsilon for one query, of a masked sum one session.
    colluders : int, optional
        How many of the other members collude; those that the claim covers if left out.
    trials : int, optional
        Runs a side; as many as `fault` needs without it.
    rng : int
        The seed.
    name : str
        Of the report.
    fault : float
        The fraction of the noise that, if it were missing, must be found.
    drawn_exactly : bool
        Whether the noise is drawn as agents draw it, with the system's entropy; then `trials` are by
        default enough to find noise that is missing altogether.

    Returns
    -------
    AuditReport
        The claim beside the evidence; the exact loss for one component, of the fast sampler.

    Raises
    ------
    PrivacyError
        If more members collude than there are others.

    Examples
    --------
    >>> from veilsum.privacy import Law, SecureParameters
    >>> terms = SecureParameters(14, colluders=4, absent=2, epsilon=1.0, sensitivity_steps=16)
    >>> audit_sum(terms, trials=20_000).refuted
    False
    >>> audit_sum(terms, colluders=8, trials=20_000).refuted  # half of the noise is known
    True
    >>> audit_sum(terms, drawn_exactly=True, trials=500).sampler
    'exact'
    """
    known = terms.colluders if colluders is None else colluders
    _validate.at_least(PrivacyError, 0, colluders=known)
    if known >= terms.smallest_roster:
        raise PrivacyError(
            f"at most {terms.smallest_roster - 1} of the other members can collude, for a roster may "
            f"have n - absent = {terms.smallest_roster} members, the one under attack included; "
            f"found {known}"
        )
    if drawn_exactly:
        return _audit_exact_draws(terms, known, trials, rng, name, fault)
    exact = terms.epsilon_against(known) if terms.dimension == 1 else None
    law = terms.noise_of(terms.smallest_roster - known)

    def seen(moved: Shift, runs: int, source: np.random.Generator) -> NDArray[np.int64]:
        return np.asarray(_unknown_noise(terms, known, runs, source) + np.array(moved.steps))

    report = audit(
        seen, _pairs(terms), terms.epsilon, terms.event.delta, trials, rng, name=name, fault=fault,
        scores=(_untouched,), exact=exact, ratio=_ratio(law),
        weakened=lambda missing: _drawn(law.shrunk(1 - missing)),
    )  # fmt: skip
    return replace(report, sampler=FAST)


def sum_likelihoods(
    terms: SecureParameters, colluders: int | None = None, name: str = "secure sum"
) -> AuditReport | None:
    """Attack one query by the likelihoods of the sum, from which colluders subtract their draws.

    The law of what remains is computed from what each member draws, by its characteristic function, and
    not from the theorem that the claim rests on. Nothing is sampled.

    Parameters
    ----------
    terms : SecureParameters
        The claim.
    colluders : int, optional
        How many members collude; as many as the claim covers without it.
    name : str
        Of the report.

    Returns
    -------
    AuditReport or None
        The claim beside the evidence; None if the claim has a delta, or its epsilon or the law of the
        noise is beyond what floats resolve.

    Examples
    --------
    >>> from veilsum.privacy import Law, SecureParameters
    >>> terms = SecureParameters(14, colluders=4, absent=2, epsilon=1.0, sensitivity_steps=16)
    >>> round(sum_likelihoods(terms).exact, 9)
    1.0
    >>> sum_likelihoods(terms, colluders=8).refuted
    True
    """
    known = terms.colluders if colluders is None else colluders
    unknown = terms.smallest_roster - known
    points = 2 ** math.ceil(math.log2(2 * terms.noise_of(unknown).tail(BEYOND)))
    if terms.event.delta or points > MOST_POINTS or terms.epsilon > MOST_LOSS:
        return None
    moves = [shift.steps for _, shift in _pairs(terms)]
    log = _log_masses(terms.noise, unknown, points, {0, *(by for move in moves for by in move)})
    loss = max(sum(log[0] - log[by] for by in move) for move in moves)
    return AuditReport(
        name=name, epsilon=terms.epsilon, delta=0.0, lower_bound=loss, delta_lower_bound=0.0,
        confidence=1.0, trials=0, pair=f"no move, and one of {terms.sensitivity_steps:,} grid steps",
        event=f"the sum of {unknown:,} members' noise", smallest_fault=0.0, exact=loss,
    )  # fmt: skip


def _log_masses(law: Law, draws: int, points: int, places: set[int]) -> dict[int, float]:
    """log N P(X = k) of so many draws together: N P(X = k) = sum_j phi(2 pi j/N) cos(2 pi j k/N).

    phi is real and even, so that half of the points do; the angles are reduced in whole numbers. Masses
    below a floor are raised to it, which makes a loss smaller, never larger.
    """
    j = np.arange(points // 2 + 1)
    phi = np.exp(draws * law.log_characteristic(2 * np.pi * j / points))
    phi[1:-1] *= 2
    whole = phi.sum()
    return {
        k: math.log(max((phi * np.cos(2 * np.pi * (j * k % points) / points)).sum(), FLOOR * whole))
        for k in places
    }


def _audit_exact_draws(
    terms: SecureParameters, known: int, trials: int | None, rng: int, name: str, fault: float
) -> AuditReport:
    """Attack the component that moves most, with draws of the sampler that agents use."""
    if trials is None:
        trials = int(min(max(FEWEST, 60 * math.exp(min(terms.epsilon, 10.0))), MOST))
    unknown = terms.smallest_roster - known
    noise, each = terms.noise, unknown
    noise.draw(1)  # makes its tables
    began = time.perf_counter()
    noise.draw(unknown)
    if 2 * trials * (time.perf_counter() - began) > LONGEST:
        noise, each = terms.noise_of(unknown), 1  # their sum in one draw
    moved = max(one.steps[0] for _, one in _pairs(terms))

    def seen(move: Shift, runs: int, _: np.random.Generator) -> NDArray[np.int64]:
        drawn = np.asarray(noise.draw(runs * each)).reshape(runs, each)
        return np.asarray(drawn.sum(axis=1) + move.steps[0], dtype=np.int64)

    law = terms.noise_of(unknown)
    report = audit(
        seen, [(Shift((0,)), Shift((moved,)))], terms.epsilon, terms.event.delta, trials, rng,
        name=name, fault=fault, scores=(_untouched,),
        weakened=lambda missing: _drawn(law.shrunk(1 - missing)),
    )  # fmt: skip
    return replace(report, sampler=EXACT if each > 1 else f"{EXACT} (parts at once)")


def _untouched(outputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many components show no noise: where noise is missing, that is the likeliest of all."""
    return np.asarray((outputs == 0).sum(axis=1), dtype=np.float64)


def spread(moved: int, dimension: int) -> tuple[int, ...]:
    """A move of that many steps in l1 norm over all components, as evenly as it goes."""
    each, more = divmod(moved, dimension)
    return (each + 1,) * more + (each,) * (dimension - more)


@dataclass(frozen=True)
class Shift:
    """By how many grid steps each component moves, and which of them do in the pair that it is of."""

    steps: tuple[int, ...]
    moving: tuple[int, ...] = (0,)

    def __str__(self) -> str:
        """The steps in all, and over how many components."""
        several = len(self.moving) > 1 and any(self.steps)
        over = f" over {len(self.moving)} components" if several else ""
        return f"{sum(map(abs, self.steps)):,}{over}"


def _pairs(terms: SecureParameters) -> list[tuple[Shift, Shift]]:
    """No move, and the largest that the claim covers: of one component, of all of them, half of it."""
    l1, size = terms.sensitivity_steps, terms.dimension
    l2 = float(terms.l2_steps or l1) if terms.delta else float(l1)
    one, over_all = min(l1, max(1, math.floor(l2))), l1
    while sum(k * k for k in spread(over_all, size)) > max(l2 * l2, 1.0):
        over_all -= 1
    moves = {spread(over_all, size), spread(max(1, over_all // 2), size), (one, *(0,) * (size - 1))}
    pairs = []
    for move in sorted(moves, reverse=True):
        moving = tuple(k for k, by in enumerate(move) if by)
        pairs.append((Shift((0,) * size, moving), Shift(move, moving)))
    return pairs


def _drawn(law: Law) -> RandomisedMechanism:
    """A member's value with noise of this law, drawn in floating point where something moves."""

    def seen(moved: Shift, runs: int, rng: np.random.Generator) -> NDArray[np.int64]:
        values = np.zeros((runs, len(moved.steps)), dtype=np.int64)
        values[:, moved.moving] = law.sample((runs, len(moved.moving)), rng)
        return np.asarray(values + np.array(moved.steps))

    return seen


def _ratio(law: Law) -> Ratio:
    """The exact log-likelihood ratio: components have independent noise, so their ratios add up."""

    def ratio(first: Shift, second: Shift) -> Score:
        log, grain = _log_probabilities(law)
        a, b = (np.array(one.steps) for one in (first, second))
        moving = list(first.moving)

        def at(outputs: NDArray[np.float64], shift: NDArray[np.int64]) -> NDArray[np.float64]:
            places = np.abs(np.rint((outputs[:, moving] - shift[moving]) / grain)).astype(np.int64)
            return np.asarray(log[np.minimum(places, len(log) - 1)].sum(axis=1))

        return lambda outputs: np.round(at(outputs, a) - at(outputs, b), 9)

    return ratio


def _log_probabilities(law: Law) -> tuple[NDArray[np.float64], float]:
    """log P(X = 0), log P(X = 1), ..., from its characteristic function; and the steps of a place.

    N points give P(X = k) + P(X = k +- N) + ..., by a Fourier transform. A law that is wider than the
    table is taken in larger steps, where it has the same form. What is too rare for a float to know
    ends the table: nobody will see it.
    """
    grain = max(1.0, math.sqrt(float(law.variance)) / WIDEST)
    u = 2 * np.pi * np.arange(POINTS) / POINTS
    found = np.fft.ifft(np.exp(law.shrunk(1 / grain).log_characteristic(u))).real[: POINTS // 2]
    seen = int(np.argmax(found < RAREST)) or len(found)
    return np.log(found[:seen]), grain


def _unknown_noise(
    terms: SecureParameters, known: int, runs: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """(runs, components): the sum over the smallest roster without what colluders drew."""
    roster, components = terms.smallest_roster, terms.dimension
    if roster > ONE_BY_ONE:
        return terms.noise_of(roster - known).sample((runs, components), rng)
    drawn = terms.noise.sample((runs, roster, components), rng)
    total, subtracted = drawn.sum(axis=1), drawn[:, :known].sum(axis=1)
    return np.asarray(total - subtracted)
