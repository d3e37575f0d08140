"""Epsilon in words: how much more likely, and how sure somebody can become.

(eps, delta)-differential privacy bounds what an observer may conclude. Whatever is observed is at most
e^eps times more (or less) likely under one signal than under another of the same unit, except for
events of probability delta. By Bayes' rule, an observer who thinks that a statement about the signal is
true with probability p believes it after observing with at most

    p e^eps / (1 - p + p e^eps).
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context

from veilsum import _validate
from veilsum.errors import PrivacyError

ROUNDING = 1e-12  # of sums of epsilons, as a budget allows it: 0.1 + 0.2 is printed as 0.3
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


def upward(value: float, digits: int = 4) -> str:
    """An epsilon, a delta or odds as text, rounded up: what is printed is never less than what holds.

    Parameters
    ----------
    value : float
        At least 0.
    digits : int
        How many significant digits.

    Returns
    -------
    str
        Decimal, with an exponent where it is very small and its thousands marked where it is large.

    Examples
    --------
    >>> upward(0.69314718), upward(1.0), upward(0.1 + 0.2), upward(1.234e-7, 3), upward(3e5)
    ('0.6932', '1', '0.3', '1.24e-07', '300,000')
    """
    if not 0 < value < math.inf:
        return f"{value:g}"
    if value >= 10**digits:
        return f"{math.ceil(value * (1 - ROUNDING)):,}"
    return f"{rounded_up(value, digits):.{digits}g}"


def epsilon_cell(epsilon: float) -> str:
    """An epsilon as a table has it: rounded up, a dash for none.

    Parameters
    ----------
    epsilon : float
        At least 0; infinite where nothing is guaranteed.

    Returns
    -------
    str
        The text of the cell.

    Examples
    --------
    >>> epsilon_cell(0.69314718), epsilon_cell(math.inf)
    ('0.6932', '-')
    """
    return upward(epsilon) if math.isfinite(epsilon) else "-"


def rounded_up(value: float, digits: int = 4) -> float:
    """So many significant digits, and never less than the value but for rounding in sums.

    Parameters
    ----------
    value : float
        At least 0.
    digits : int
        How many significant digits.

    Returns
    -------
    float
        What `upward` prints.

    Examples
    --------
    >>> rounded_up(0.69314718), rounded_up(0.1 + 0.2)
    (0.6932, 0.3)
    """
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return float(context.create_decimal(value * (1 - ROUNDING)))
