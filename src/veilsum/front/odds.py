"""Epsilon in words: how much more likely, and how sure somebody can become.

(eps, delta)-differential privacy bounds what an observer may conclude. Whatever is observed is at most
e^eps times more (or less) likely under one signal than under another of the same unit, except for
events of probability delta. By Bayes' rule, an observer who thinks that a statement about the signal is
true with probability p believes it after observing with at most

    p e^eps / (1 - p + p e^eps).
"""

from __future__ import annotations

import math

from veilsum import _validate
from veilsum._numbers import rounded_up, upward
from veilsum.errors import PrivacyError

MOST_TIMES = 1e5  # beyond, a bound says nothing that helps to decide


def times(epsilon: float) -> float:
    """e^eps: the most that a likelihood changes by.

    Parameters
    ----------
    epsilon : float
        At least 0; infinite for none.

    Returns
    -------
    float
        1 or more.

    Examples
    --------
    >>> round(times(1.0), 2)
    2.72
    """
    if not epsilon >= 0:
        raise PrivacyError(f"epsilon must be at least 0; found {_validate.found(epsilon)}")
    return math.exp(epsilon) if epsilon < 700 else math.inf


def belief(epsilon: float, prior: float = 0.5) -> float:
    """The most that an observer may believe afterwards, who believed `prior` before.

    Parameters
    ----------
    epsilon : float
        At least 0.
    prior : float
        A probability.

    Returns
    -------
    float
        A probability, of at least the prior.

    Examples
    --------
    >>> round(belief(1.0), 2), round(belief(1.0, prior=0.01), 3)
    (0.73, 0.027)
    """
    if not 0 <= prior <= 1:
        raise PrivacyError(f"prior must lie in 0 .. 1; found {_validate.found(prior)}")
    odds = times(epsilon)
    if math.isinf(odds):
        return 1.0 if prior else 0.0
    return prior * odds / (1 - prior + prior * odds)


def in_words(epsilon: float, delta: float = 0.0) -> str:
    """Epsilon and delta as a phrase about likelihoods, rounded up.

    Parameters
    ----------
    epsilon, delta : float
        What is guaranteed.

    Returns
    -------
    str
        A phrase.

    Examples
    --------
    >>> in_words(1.0)
    'at most 2.72 times more likely'
    >>> in_words(0.05, 1e-6)
    'at most 1.06 times more likely, except with probability 1e-06'
    >>> in_words(20.0)
    'possibly more than 100,000 times more likely: no useful limit'
    """
    odds = times(epsilon)
    if odds > MOST_TIMES:
        return f"possibly more than {MOST_TIMES:,.0f} times more likely: no useful limit"
    except_for = f", except with probability {upward(delta, 3)}" if delta else ""
    return f"at most {rounded_up(odds, 3):,.10g} times more likely{except_for}"


def believed(epsilon: float, prior: float = 0.5) -> str:
    """`belief` in per cent, rounded up and never 100 for a finite epsilon.

    Parameters
    ----------
    epsilon, prior : float
        As in `belief`.

    Returns
    -------
    str
        Such as "73.2%".

    Examples
    --------
    >>> believed(1.0), believed(15.0)
    ('73.2%', 'over 99.9%')
    """
    found = belief(epsilon, prior)
    return "over 99.9%" if found > 0.999 else f"{math.ceil(found * 1000 - 1e-9) / 10:.3g}%"
