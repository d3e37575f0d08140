"""What to do about a reading that is not there. Never a silent drop.

    error         name the agent and the time, and how many more there are (the default)
    drop-rounds   keep only the times at which every agent has a reading
    a number      a stated public constant takes the place of the reading

There is no "carry the last value forward": it would release the same signal twice, each time with
fresh noise, and so spend the budget of one reading two times over.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from murmura._validate import as_float, found
from murmura.errors import SignalError
from murmura.families.support import number
from murmura.signals.core import Array, Origin, Signals, count

Missing = str | float
"""A policy: "error", "drop-rounds" or a number."""


def check_policy(missing: Missing) -> None:
    """Refuse a policy that does not exist."""
    if isinstance(missing, str):
        if missing not in ("error", "drop-rounds"):
            raise SignalError(
                f"missing must be 'error', 'drop-rounds' or a number; found {missing!r}"
                " (carrying a value forward would release the same signal twice)"
            )
    elif not math.isfinite(as_float(missing)):
        raise SignalError(
            f"missing must be a finite number, 'error' or 'drop-rounds'; found {found(missing)}"
        )


def settle(signals: Signals, missing: Missing) -> Signals:
    """Signals without NaN, by the policy; what was done is added to `notes`.

    An infinite reading is no reading either: under a policy that fills gaps it is one.
    """
    cells = ~np.isfinite(signals.values).reshape(signals.agents, signals.rounds, -1)
    gaps = np.asarray(cells.any(axis=-1))
    if not gaps.any():
        return signals
    if missing == "error":
        raise SignalError(_refusal(signals, gaps))
    if missing == "drop-rounds":
        return _drop_rounds(signals, gaps)
    return _fill(signals, gaps, float(missing))


def _refusal(signals: Signals, gaps: NDArray[np.bool_]) -> str:
    agent, time = (int(k) for k in np.argwhere(gaps)[0])
    missing = bool(np.isnan(signals.values[agent, time]).any())
    what = "missing" if missing else "not a finite number"
    return (
        f"{signals.where(agent, time)} is {what}; in all {int(gaps.sum())} of {gaps.size} "
        "readings are missing or infinite; pass missing='drop-rounds' to keep the "
        f"{count(int((~gaps.any(axis=0)).sum()), 'time')} at which every agent has a reading, or "
        "missing=0.0 (any public constant) to fill the gaps"
    )


def _drop_rounds(signals: Signals, gaps: NDArray[np.bool_]) -> Signals:
    whole = np.asarray(~gaps.any(axis=0))
    if not whole.any():
        raise SignalError(
            f"missing='drop-rounds' leaves nothing: at none of {gaps.shape[1]} times does every "
            "agent have a reading; fill the gaps with a public constant, missing=0.0"
        )
    dropped = int((~whole).sum())
    return replace(
        signals,
        values=signals.values[:, whole],
        times=tuple(time for time, keep in zip(signals.times, whole, strict=True) if keep),
        origin=_columns(signals.origin, whole),
        notes=(*signals.notes, f"dropped {dropped} of {whole.size} rounds with missing readings"),
    )


def _fill(signals: Signals, gaps: NDArray[np.bool_], constant: float) -> Signals:
    values: Array = signals.values.copy()
    values[gaps] = constant
    note = (
        f"filled {int(gaps.sum())} of {gaps.size} readings that were missing with the public "
        f"constant {number(constant)}"
    )
    return replace(signals, values=values, notes=(*signals.notes, note))


def _columns(origin: Origin | None, whole: NDArray[np.bool_]) -> Origin | None:
    return origin and replace(origin, rows=origin.rows[:, whole])
