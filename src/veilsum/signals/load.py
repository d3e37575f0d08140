"""as_signals: signals from arrays, dicts, pandas objects, CSV and Parquet files.

A reading that is missing is never dropped silently. The policies are

    error         name the agent and the time, and how many more there are (the default)
    drop-rounds   keep only the times at which every agent has a reading
    a number      a stated public constant takes the place of the reading

There is no "carry the last value forward": it would release the same signal twice, each time with
new noise, and so spend the budget of one reading two times over.
"""

from __future__ import annotations

import math
import os
import re
import sys
import warnings
import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum import _extras
from veilsum._validate import as_float, found
from veilsum.errors import SignalError
from veilsum.families.support import number
from veilsum.signals.core import Array, Origin, Signals, as_label, count, not_numbers
from veilsum.signals.tables import (
    ColumnNames,
    TableSource,
    agent_column,
    check_distinct,
    from_frame,
    recognise,
)

Missing = str | float
"""A policy: "error", "drop-rounds" or a number."""
_UNEQUAL = (
    "are not all numbers, or not of equal length; expected real numbers, as many for each agent, "
    "and NaN for a missing one"
)
_MARKS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_BLANK = ["", "NA", "N/A", "NaN", "nan", "null", "None", "-"]


def as_signals(
    source: Any,
    labels: Iterable[Hashable] | None = None,
    missing: Missing = "error",
    *,
    agent: Hashable | None = None,
    time: Hashable | None = None,
    value: Hashable | Sequence[Hashable] | None = None,
) -> Signals:
    """Signals from an array, a dict, a pandas object or a file.

    Parameters
    ----------
    source : Signals, array_like, mapping, Series, DataFrame, str or path
        An array (n,), (n, T) or (n, T, d); a mapping of labels to readings; a Series or DataFrame;
        the path of a CSV or Parquet file, long (a row a reading) or wide (a row an agent, a column
        a time).
    labels : iterable of hashable, optional
        The network's: they name the rows of an array, and put labelled sources in order.
    missing : {"error", "drop-rounds"} or float
        What to do about a missing reading; a number is a public constant that takes its place.
    agent, time : hashable, optional
        The columns of a table, where their names are not recognised. No time column is needed when
        every agent has one reading.
    value : hashable or sequence of hashable, optional
        The column of the readings; several columns make vector signals.

    Returns
    -------
    Signals

    Raises
    ------
    SignalError
        With the agent, the time and the row of what is wrong, never a value.

    Examples
    --------
    >>> from veilsum import signals
    >>> readings = signals.as_signals({"a": [1.0, 2.0], "b": [3.0, float("nan")]}, missing="drop-rounds")
    >>> readings, readings.notes
    (Signals(2 agents, 1 rounds), ('dropped 1 of 2 rounds with missing readings',))
    """
    check_policy(missing)
    requested = ColumnNames(agent, time, value)
    names = None if labels is None else tuple(labels)
    signals = _labelled(source, requested)
    if signals is None:
        signals = _from_array(_array(source), names)
    elif names is not None:
        signals = signals.aligned(names)
    return fill_gaps(signals, missing)


def _labelled(source: Any, requested: ColumnNames) -> Signals | None:
    """Signals from a source that names its agents, or None."""
    if isinstance(source, Signals):
        return source
    if isinstance(source, (str, os.PathLike)):
        return from_file(Path(source), requested)
    if isinstance(source, Mapping):
        return _from_mapping(source)
    return _from_pandas(source, requested)


def _from_pandas(source: Any, requested: ColumnNames) -> Signals | None:
    pd = sys.modules.get("pandas")
    if pd is None or not isinstance(source, (pd.Series, pd.DataFrame)):
        return None
    rows = np.arange(len(source))
    if isinstance(source, pd.DataFrame):
        return from_frame(source, requested, TableSource("the DataFrame", "row", rows))
    levels = source.index.nlevels
    if levels > 2:
        raise SignalError(f"a Series has the index agent, or agent and time; found {levels} levels")
    names = ["agent", "time"][:levels]
    frame = source.rename("value").rename_axis(names).reset_index()
    return from_frame(frame, ColumnNames(), TableSource("the Series", "row", rows))


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


def from_file(path: str | Path, requested: ColumnNames) -> Signals:
    """The signals of a CSV (.csv, .tsv, .csv.gz) or Parquet (.parquet, .pq) file."""
    path = Path(path)
    if not path.is_file():
        raise SignalError(f"there is no file {str(path)!r}; check the path")
    kinds = set(path.suffixes)
    if kinds & {".parquet", ".pq"}:
        return _from_parquet(path, requested)
    if kinds & {".csv", ".tsv", ".txt"}:
        return _from_csv(path, requested)
    raise SignalError(f"{path.name} is neither CSV (.csv, .tsv) nor Parquet (.parquet)")


def _from_parquet(path: Path, requested: ColumnNames) -> Signals:
    pd = _extras.load("pandas")
    _extras.load("pyarrow")
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError):
        raise SignalError(f"{path.name} is not a Parquet file that can be read") from None
    return from_frame(frame, requested, TableSource(path.name, "row", np.arange(len(frame))))


def _from_csv(path: Path, requested: ColumnNames) -> Signals:
    """Labels and times are read as text, so that "007" stays "007"; blank lines are skipped."""
    _check_header(path)
    names = list(_read(path, nrows=0).columns)
    columns = recognise(names, requested)
    text = [columns.agent, columns.time] if columns else [agent_column(names, requested)]
    numbers = [name for name in names if name not in text]
    frame = _read(
        path,
        dtype={name: str for name in text if name is not None},
        na_values=dict.fromkeys(numbers, _BLANK),
    )
    lines = np.arange(len(frame)) + 2
    blank = frame.isna() | (frame == "")
    empty = blank.all(axis=1).to_numpy()
    _check_comments(frame, blank, path)
    if len(names) == 1:  # a blank is a missing reading there, except behind the last one
        last = int(np.flatnonzero(~empty)[-1]) if (~empty).any() else -1
        empty = np.arange(len(empty)) > last
    if empty.any():
        frame, lines = frame[~empty].reset_index(drop=True), lines[~empty]
    if not len(frame):
        raise SignalError(f"{path.name} has a header and no readings")
    return from_frame(frame, requested, TableSource(path.name, "line", lines, text=True))


def _check_header(path: Path) -> None:
    """Refuse a file whose first line cannot be the names of its columns."""
    if path.suffix in (".csv", ".tsv", ".txt") and b"\0" in _beginning(path):
        raise SignalError(f"{path.name} is not UTF-8 text but binary; save it as CSV in UTF-8")
    names = _read(path, header=None, nrows=1, dtype=str).iloc[0].tolist()
    first = str(names[0]).lstrip()
    if first.startswith("#"):
        raise SignalError(
            f"line 1 of {path.name} is a comment: the first line must name the columns, such as "
            "agent,time,value; remove the lines that begin with #"
        )
    other = [word for mark, word in _MARKS.items() if mark in first]
    if ";" in first or (len(names) == 1 and other):
        raise _separated(path.name, other[0])
    check_distinct(names, path.name)


def _separated(what: str, by: str) -> SignalError:
    return SignalError(
        f"{what} separates its columns by {by}: expected commas (tabs in a .tsv file), and decimals "
        "as 1.5; save the file again so"
    )


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4096)


def _check_comments(frame: Any, blank: Any, path: Path) -> None:
    """Refuse a comment, and readings behind another separator, as names of agents."""
    lone = np.flatnonzero(blank.iloc[:, 1:].all(axis=1).to_numpy())
    for row in lone:
        first = str(frame.iat[row, 0])
        other = [word for mark, word in _MARKS.items() if mark in first and frame.shape[1] > 1]
        if other:
            raise _separated(f"line {row + 2} of {path.name}", other[0])
        if first.lstrip().startswith("#"):
            raise SignalError(
                f"line {row + 2} of {path.name} is a comment, not a reading; remove it"
            )


def _read(path: Path, **options: Any) -> Any:
    """pandas.read_csv, strict: a row of the wrong length is an error that shows no value."""
    pd = _extras.load("pandas")
    separator = "\t" if ".tsv" in path.suffixes else ","
    settings: dict[str, Any] = {
        "sep": separator,
        "index_col": False,
        "skip_blank_lines": False,
        "keep_default_na": False,
        "low_memory": False,
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(path, **settings, **options)
    except pd.errors.EmptyDataError:
        raise SignalError(f"{path.name} is empty") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as problem:
        raise SignalError(_ragged(path, str(problem))) from None
    except (OSError, EOFError, zlib.error):
        raise SignalError(
            f"{path.name} cannot be read; is it whole, and compressed as it says?"
        ) from None
    except UnicodeDecodeError:
        raise SignalError(f"{path.name} is not UTF-8 text; convert it first") from None


def _ragged(path: Path, problem: str) -> str:
    """Where pandas says it, which line has too many fields; never the line itself."""
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", problem)
    where = (
        f"line {found[2]} has {found[3]} fields, not {found[1]} as its header says"
        if found
        else "a row is longer than its header says"
    )
    return f"{path.name}: {where}; write decimals as 1.5, not 1,5, and quote text with commas"


"""A policy: "error", "drop-rounds" or a number."""


def check_policy(missing: Missing) -> None:
    """Raise unless the policy for missing readings exists."""
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


def fill_gaps(signals: Signals, missing: Missing) -> Signals:
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
    whole = int((~gaps.any(axis=0)).sum())
    keep = (
        f"missing='drop-rounds' to keep the {count(whole, 'time')} at which every agent has a "
        "reading, or "
    )
    return (
        f"{signals.where(agent, time)} is {what}; in all {int(gaps.sum())} of {gaps.size} "
        f"readings are missing or infinite; pass {keep if whole else ''}missing=0.0 (any public "
        "constant) to fill the gaps"
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
