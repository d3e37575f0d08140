"""The audit of a masked sum: attack a class sum with what colluders know.

The published values of a session are uniform given the sums over its closed classes (the lemma of
docs/masked-sum), so the sum of one class is all that an adversary has. Colluders subtract what they
drew themselves, and the smallest roster leaves least noise: what is attacked is a member's value
plus the draws that remain unknown.

Simulations draw in floating point, agents exactly. Either sampler can be audited: the latter with
fewer runs, since it is slower, in one component, and without the exact loss, which is not about draws.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from veilsum import _validate
from veilsum.auditing.lower_bound import FAULT
from veilsum.auditing.mechanism import AuditReport, audit
from veilsum.errors import PrivacyError
from veilsum.privacy import MaskedParameters

ONE_BY_ONE = 32  # members up to which every draw is made; beyond, the sum of the unknown ones
FAST, EXACT = "floating-point", "exact"
FEWEST, MOST = 1000, 20_000  # runs a side with exact draws
LONGEST = 20.0  # seconds for which exact draws are made member by member, about


def audit_masked(
    terms: MaskedParameters,
    colluders: int | None = None,
    trials: int | None = None,
    rng: int = 0,
    name: str = "masked-sum",
    fault: float = FAULT,
    drawn_exactly: bool = False,
) -> AuditReport:
    """Attack one member's value in the sum over the smallest roster, with colluders' draws known.

    Parameters
    ----------
    terms : MaskedParameters
        The claim: epsilon for one session.
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
    >>> from veilsum.privacy import MaskedParameters
    >>> terms = MaskedParameters(14, colluders=4, absent=2, epsilon=1.0, sensitivity_steps=16)
    >>> audit_masked(terms, trials=20_000).refuted
    False
    >>> audit_masked(terms, colluders=8, trials=20_000).refuted  # half of the noise is known
    True
    >>> audit_masked(terms, drawn_exactly=True, trials=500).sampler
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
    steps = terms.sensitivity_steps
    pairs = [(0, steps), (0, max(1, steps // 2))]

    def seen(moved: int, runs: int, source: np.random.Generator) -> NDArray[np.int64]:
        unknown = _unknown_noise(terms, known, runs, source)
        return unknown + spread(moved, terms.dimension)

    report = audit(
        seen, pairs, terms.epsilon, terms.event.delta, trials, rng, name=name, fault=fault,
        scores=(_untouched,), exact=exact,
    )  # fmt: skip
    return replace(report, sampler=FAST)


def _audit_exact_draws(
    terms: MaskedParameters, known: int, trials: int | None, rng: int, name: str, fault: float
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
    moved = int(spread(terms.sensitivity_steps, terms.dimension)[0])

    def seen(move: int, runs: int, _: np.random.Generator) -> NDArray[np.int64]:
        drawn = np.asarray(noise.draw(runs * each)).reshape(runs, each)
        return np.asarray(drawn.sum(axis=1) + move, dtype=np.int64)

    report = audit(
        seen, [(0, moved)], terms.epsilon, terms.event.delta, trials, rng, name=name, fault=fault,
        scores=(_untouched,),
    )  # fmt: skip
    return replace(report, sampler=EXACT if each > 1 else f"{EXACT} (parts at once)")


def _untouched(outputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many components show no noise: where noise is missing, that is the likeliest of all."""
    return np.asarray((outputs == 0).sum(axis=1), dtype=np.float64)


def spread(moved: int, dimension: int) -> NDArray[np.int64]:
    """A move of that many steps in l1 norm over all components, as evenly as it goes."""
    each = np.full(dimension, moved // dimension, dtype=np.int64)
    each[: moved % dimension] += 1
    return each


def _unknown_noise(
    terms: MaskedParameters, known: int, runs: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """(runs, components): the sum over the smallest roster without what colluders drew."""
    roster, components = terms.smallest_roster, terms.dimension
    if roster > ONE_BY_ONE:
        return terms.noise_of(roster - known).sample((runs, components), rng)
    drawn = terms.noise.sample((runs, roster, components), rng)
    total, subtracted = drawn.sum(axis=1), drawn[:, :known].sum(axis=1)
    return np.asarray(total - subtracted)
