"""CSV and Parquet files to signals."""

from __future__ import annotations

import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from murmura.errors import SignalError
from murmura.signals.columns import Wanted, agent_column, check_distinct, recognise
from murmura.signals.core import Signals
from murmura.signals.tables import Source, from_frame

_MARKS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_BLANK = ["", "NA", "N/A", "NaN", "nan", "null", "None", "-"]


def from_file(path: str | Path, wanted: Wanted) -> Signals:
    """The signals of a CSV (.csv, .tsv, .csv.gz) or Parquet (.parquet, .pq) file."""
    path = Path(path)
    if not path.is_file():
        raise SignalError(f"there is no file {str(path)!r}; check the path")
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
    _check_header(path)
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
    blank = frame.isna() | (frame == "")
    empty = blank.all(axis=1).to_numpy()
    _check_comments(frame, blank, path)
    if empty.any():
        frame, lines = frame[~empty], lines[~empty]
    if not len(frame):
        raise SignalError(f"{path.name} has a header and no readings")
    return from_frame(frame, wanted, Source(path.name, "line", lines, text=True))


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
        raise SignalError(
            f"{path.name} separates its columns by {other[0]}: expected commas (tabs in a .tsv "
            "file), and decimals as 1.5; convert it, or read it with pandas and pass the DataFrame"
        )
    check_distinct(names, path.name)


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4096)


def _check_comments(frame: Any, blank: Any, path: Path) -> None:
    """Refuse a line that holds nothing but a comment: it would be an agent without readings."""
    lone = np.flatnonzero(blank.iloc[:, 1:].all(axis=1).to_numpy())
    for row in lone:
        if str(frame.iat[row, 0]).lstrip().startswith("#"):
            raise SignalError(
                f"line {row + 2} of {path.name} is a comment, not a reading; remove it"
            )


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
    except (OSError, EOFError, zlib.error):
        raise SignalError(
            f"{path.name} cannot be read; is it whole, and compressed as it says?"
        ) from None
    except UnicodeDecodeError:
        raise SignalError(f"{path.name} is not UTF-8 text; convert it first") from None


def _ragged(path: Path, problem: str) -> str:
    """Where pandas says it, which line has too many fields; never the line itself."""
    import re

    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", problem)
    where = (
        f"line {found[2]} has {found[3]} fields, not {found[1]} as its header says"
        if found
        else "a row is longer than its header says"
    )
    return f"{path.name}: {where}; write decimals as 1.5, not 1,5, and quote text with commas"
