"""CSV and Parquet files to signals."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from murmura.errors import SignalError
from murmura.signals.columns import Wanted, agent_column, recognise
from murmura.signals.core import Signals
from murmura.signals.tables import Source, from_frame

_BLANK = ["", "NA", "N/A", "NaN", "nan", "null", "None", "-"]


def from_file(path: str | Path, wanted: Wanted) -> Signals:
    """The signals of a CSV (.csv, .tsv, .csv.gz) or Parquet (.parquet, .pq) file."""
    path = Path(path)
    if not path.is_file():
        raise SignalError(f"there is no file {str(path)!r}")
    kinds = set(path.suffixes)
    if kinds & {".parquet", ".pq"}:
        return _from_parquet(path, wanted)
    if kinds & {".csv", ".tsv", ".txt"}:
        return _from_csv(path, wanted)
    raise SignalError(f"{path.name} is neither CSV (.csv, .tsv) nor Parquet (.parquet)")


def _from_parquet(path: Path, wanted: Wanted) -> Signals:
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError):
        raise SignalError(f"{path.name} is not a Parquet file that can be read") from None
    return from_frame(frame, wanted, Source(path.name, "row", np.arange(len(frame))))


def _from_csv(path: Path, wanted: Wanted) -> Signals:
    """Labels and times are read as text, so that "007" stays "007"; blank lines are skipped."""
    names = list(_read(path, nrows=0).columns)
    columns = recognise(names, wanted)
    text = [columns.agent, columns.time] if columns else [agent_column(names, wanted)]
    numbers = [name for name in names if name not in text]
    frame = _read(
        path,
        dtype={name: str for name in text if name is not None},
        na_values=dict.fromkeys(numbers, _BLANK),
    )
    lines = np.arange(len(frame)) + 2
    empty = (frame.isna() | (frame == "")).all(axis=1).to_numpy()
    if empty.any():
        frame, lines = frame[~empty], lines[~empty]
    if not len(frame):
        raise SignalError(f"{path.name} has a header and no readings")
    return from_frame(frame, wanted, Source(path.name, "line", lines, text=True))


def _read(path: Path, **options: Any) -> Any:
    """pandas.read_csv, strict: a row of the wrong length is an error that shows no value."""
    import pandas as pd

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
    except UnicodeDecodeError:
        raise SignalError(f"{path.name} is not UTF-8 text; convert it first") from None


def _ragged(path: Path, problem: str) -> str:
    """Where pandas says it, which line has too many fields; never the line itself."""
    import re

    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", problem)
    where = f"line {found[2]} has {found[3]} fields, not {found[1]}" if found else "a row is longer"
    return f"{path.name}: {where} than its header says; write decimals as 1.5, not 1,5"
