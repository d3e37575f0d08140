"""`as_signals`: whatever holds readings, as Signals."""

from __future__ import annotations

import os
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from murmura.errors import SignalError
from murmura.signals.columns import Wanted
from murmura.signals.core import Array, Signals, as_label, count, not_numbers
from murmura.signals.missing import Missing, check_policy, settle

_UNEQUAL = (
    "are not all numbers, or not of equal length; expected real numbers, as many for each agent, "
    "and NaN for a missing one"
)


def as_signals(
    source: Any,
    labels: Iterable[Hashable] | None = None,
    missing: Missing = "error",
    *,
    agent: Hashable | None = None,
    time: Hashable | None = None,
    value: Hashable | Sequence[Hashable] | None = None,
) -> Signals:
    """Signals from an array, a list, a dict, a pandas object or a file.

    source   Signals; an array or list (n,), (n, T) or (n, T, d); a dict label -> reading(s);
             a Series (index: agent, or agent and time); a DataFrame or a CSV or Parquet file, long
             (a row a reading) or wide (a row an agent, a column a time)
    labels   the network's: they name the rows of an array, and put labelled sources in order
    missing  "error", "drop-rounds", or a public constant that takes the place of a missing reading
    agent, time, value   the columns of a table, when their names do not tell; several values make
             vector signals; no time column is needed when every agent has one reading
    """
    check_policy(missing)
    wanted = Wanted(agent, time, value)
    names = None if labels is None else tuple(labels)
    signals = _labelled(source, wanted)
    if signals is None:
        signals = _from_array(_array(source), names)
    elif names is not None:
        signals = signals.aligned(names)
    return settle(signals, missing)


def _labelled(source: Any, wanted: Wanted) -> Signals | None:
    """Signals from a source that names its agents, or None."""
    if isinstance(source, Signals):
        return source
    if isinstance(source, (str, os.PathLike)):
        from murmura.signals.files import from_file

        return from_file(Path(source), wanted)
    if isinstance(source, Mapping):
        return _from_mapping(source)
    return _from_pandas(source, wanted)


def _from_pandas(source: Any, wanted: Wanted) -> Signals | None:
    pd = sys.modules.get("pandas")
    if pd is None or not isinstance(source, (pd.Series, pd.DataFrame)):
        return None
    from murmura.signals.tables import Source, from_frame

    rows = np.arange(len(source))
    if isinstance(source, pd.DataFrame):
        return from_frame(source, wanted, Source("the DataFrame", "row", rows))
    levels = source.index.nlevels
    if levels > 2:
        raise SignalError(f"a Series has the index agent, or agent and time; found {levels} levels")
    names = ["agent", "time"][:levels]
    frame = source.rename("value").rename_axis(names).reset_index()
    return from_frame(frame, Wanted(), Source("the Series", "row", rows))


def _from_mapping(source: Mapping[Hashable, Any]) -> Signals:
    """A row for each agent; all must have the same shape."""
    if not source:
        raise SignalError("the signals are empty: a dict must map labels to readings")
    shapes = {label: _array(readings, label).shape for label, readings in source.items()}
    first, shape = next(iter(shapes.items()))
    for label, other in shapes.items():
        if other != shape:
            raise SignalError(
                f"agent {as_label(label)} has readings of shape {other}, agent {as_label(first)} "
                f"of shape {shape}; all need the same times: mark a missing reading by NaN"
            )
    return _from_array(_array(list(source.values())), tuple(source))


def _from_array(values: Array, labels: tuple[Hashable, ...] | None) -> Signals:
    if values.ndim == 1:
        values = values[:, None]
    if labels is not None and values.ndim > 1 and len(values) != len(labels):
        turned = "; is it transposed?" if values.shape[1] == len(labels) else ""
        raise SignalError(
            f"the signals have {count(len(values), 'agent')} and the network {len(labels)}: an "
            f"array needs a row for each agent, in the order of the network's labels{turned}"
        )
    if values.ndim not in (2, 3):
        raise SignalError(
            f"signals must have shape (n,), (n, T) or (n, T, d); found {values.shape}"
        )
    return Signals(
        values, labels if labels is not None else range(len(values)), range(values.shape[1])
    )


def _array(source: Any, label: Hashable | None = None) -> Array:
    """float64, masked entries as NaN; an entry that is no number is named by its agent."""
    try:
        kind = not_numbers(source)
        if kind is None and isinstance(source, np.ma.MaskedArray):
            return np.asarray(np.ma.filled(source.astype(np.float64), np.nan))
        if kind is None:
            return np.asarray(source, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise SignalError(_culprit(source, label)) from None
    raise SignalError(_strange(source, label, kind))


def _strange(source: Any, label: Hashable | None, kind: str) -> str:
    whose = type(source).__name__ if label is None else f"the readings of agent {as_label(label)}"
    return f"cannot read signals from {whose} of {kind}; a signal is a real number"


def _culprit(source: Any, label: Hashable | None) -> str:
    if label is not None:
        return f"the readings of agent {as_label(label)} {_UNEQUAL}"
    if not isinstance(source, (list, tuple, np.ndarray)):
        return _unknown(source)
    for k, readings in enumerate(source):
        try:
            np.asarray(readings, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            return f"the readings of agent {k} {_UNEQUAL}"
    return "agents have different numbers of readings; mark a missing reading by NaN"


def _unknown(source: Any) -> str:
    return (
        f"cannot read signals from {type(source).__name__}; give an array, a list, a dict, a "
        "pandas Series or DataFrame, or the path of a CSV or Parquet file"
    )
