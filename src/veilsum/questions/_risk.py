"""Survival in bins of time: the Kaplan-Meier curve and the log-rank statistic of a table of counts.

A table has, for each arm a and bin i, d_ai events and c_ai censored; at the start of bin i there are at risk

    r_ai = n_a - sum over j < i of (d_aj + c_aj),      S_a(end of bin i) = prod over j <= i of (1 - d_aj/r_aj)

    Z = sum_i (d_1i - d_i r_1i/r_i) / sqrt(sum_i d_i (r_1i/r_i) (r_2i/r_i) (r_i - d_i)/(r_i - 1))

Counts need not be whole numbers: they are of a noised table, made nonnegative. All functions take many
tables, (..., arms, bins, 2), at once.
"""

from __future__ import annotations

import numpy as np

from veilsum.questions.columns import Floats

LEAST = 1e-9  # at risk; below it nothing can happen


def at_risk(table: Floats) -> Floats:
    """r, (..., arms, bins)."""
    left = table.sum(axis=-1)
    after = np.cumsum(left[..., ::-1], axis=-1)[..., ::-1]
    return np.asarray(after)


def kaplan_meier(table: Floats) -> Floats:
    """S at the end of each bin, (..., arms, bins)."""
    events, risk = table[..., 0], at_risk(table)
    hazard = np.divide(events, risk, out=np.zeros_like(events), where=risk > LEAST)
    return np.asarray(np.cumprod(1 - np.clip(hazard, 0.0, 1.0), axis=-1))


def log_rank(table: Floats) -> Floats:
    """Z of two arms, (...): above 0 if the first one has more events than expected."""
    events, risk = table[..., 0], at_risk(table)
    d, r = events.sum(axis=-2), risk.sum(axis=-2)
    share = np.divide(risk[..., 0, :], r, out=np.zeros_like(r), where=r > LEAST)
    more = (events[..., 0, :] - d * share).sum(axis=-1)
    rest = np.divide(r - d, r - 1, out=np.zeros_like(r), where=r > 1 + LEAST)
    variance = (d * share * (1 - share) * np.clip(rest, 0.0, 1.0)).sum(axis=-1)
    return np.asarray(
        np.divide(more, np.sqrt(variance), out=np.zeros_like(more), where=variance > 0)
    )


def without_difference(table: Floats) -> Floats:
    """The same table, (arms, bins, 2), as expected if all arms had the hazard of all together.

    Numbers of each arm and its censoring are kept.
    """
    events, risk = table[..., 0], at_risk(table)
    whole = risk.sum(axis=0)
    hazard = np.divide(events.sum(axis=0), whole, out=np.zeros_like(whole), where=whole > LEAST)
    stay = np.clip(risk - events, 0.0, None)
    leaving = np.divide(table[..., 1], stay, out=np.ones_like(stay), where=stay > LEAST)
    leaving = np.clip(leaving, 0.0, 1.0)
    leaving[:, -1] = 1.0  # follow-up ends
    kept = np.cumprod((1 - hazard) * (1 - leaving), axis=1)
    there = risk[:, :1] * np.concatenate([np.ones((len(risk), 1)), kept[:, :-1]], axis=1)
    return np.stack([there * hazard, there * (1 - hazard) * leaving], axis=-1)
