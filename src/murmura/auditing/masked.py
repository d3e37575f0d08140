"""The audit of a masked sum: attack a class sum with what colluders know.

The published values of a session are uniform given the sums over its closed classes (the lemma of
docs/masked-sum), so the sum of one class is all that an adversary has. Colluders subtract what they
drew themselves, and the smallest roster leaves least noise: what is attacked is a member's value
plus the draws that remain unknown.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from murmura import _validate
from murmura.auditing.lower_bound import FAULT
from murmura.auditing.mechanism import AuditReport, audit
from murmura.errors import PrivacyError
from murmura.privacy import MaskedParameters
from murmura.privacy.exact import GeneralizedDiscreteLaplace

ONE_BY_ONE = 32  # members up to which every draw is made; beyond, the sum of the unknown ones


def audit_masked(
    terms: MaskedParameters,
    colluders: int | None = None,
    trials: int | None = None,
    rng: int = 0,
    name: str = "masked-sum",
    fault: float = FAULT,
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

    Returns
    -------
    AuditReport
        The claim beside the evidence; the exact loss for one component.

    Raises
    ------
    PrivacyError
        If more members collude than there are others.

    Examples
    --------
    >>> from murmura.privacy import MaskedParameters
    >>> terms = MaskedParameters(14, colluders=4, absent=2, epsilon=1.0, sensitivity_steps=16)
    >>> audit_masked(terms, trials=20_000).refuted
    False
    >>> audit_masked(terms, colluders=8, trials=20_000).refuted  # half of the noise is known
    True
    """
    known = terms.colluders if colluders is None else colluders
    _validate.at_least(PrivacyError, 0, colluders=known)
    if known >= terms.smallest_roster:
        raise PrivacyError(
            f"at most {terms.smallest_roster - 1} of the other members can collude; found {known}"
        )
    exact = terms.epsilon_against(known) if terms.dimension == 1 else None
    steps = terms.sensitivity_steps
    pairs = [(0, steps), (0, max(1, steps // 2))]

    def seen(moved: int, runs: int, source: np.random.Generator) -> NDArray[np.int64]:
        unknown = _unknown_noise(terms, known, runs, source)
        return unknown + spread(moved, terms.dimension)

    return audit(
        seen, pairs, terms.epsilon, 0.0, trials, rng, name=name, fault=fault,
        scores=(_untouched,), exact=exact,
    )  # fmt: skip


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
        order = Fraction(roster - known, terms.honest)
        return GeneralizedDiscreteLaplace(order, terms.scale).sample((runs, components), rng)
    drawn = terms.noise.sample((runs, roster, components), rng)
    total, subtracted = drawn.sum(axis=1), drawn[:, :known].sum(axis=1)
    return np.asarray(total - subtracted)
