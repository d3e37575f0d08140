"""A sheet in a terminal: plain text of any width, in which no cell is ever cut.

Groups by verdict, best first. A column whose cells are all the same moves to the second line. One that
does not fit is left out and named in the last line. Where a name and its number do not fit beside each
other, the cells of a row are below one another. Answers in words are paragraphs: all their sentences if
the screen has room for those of all rows, else the first of each.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from veilsum.front.sheet import groups
from veilsum.front.words import listed, undrawn, with_bar

if TYPE_CHECKING:
    from veilsum.front.sheet import Answer, Answers

WIDTH = 80
MOST_ROWS = 16  # of a sheet; the long table has all
MOST_LINES = 11  # of answers in words
FOUND = "what was found"  # sentences that are left out
MOST_COMPONENTS = 12
MOST_VECTORS = 2
MOST_PROMISES = 6
BAR = 24  # the longest bar of a component
GAP = 2
TOO_FEW = "too few to say"  # records, where a number is not finite
ANSWER = "answer"  # the heading of numbers that are not of one quantity
Lines = list[str]


@dataclass(frozen=True)
class ScreenRow:
    """A row of the screen: a name, and cells by their headings, or sentences."""

    name: str
    cells: dict[str, str]
    sentences: tuple[str, ...] = ()


def screen(answers: Answers, width: int = WIDTH, files: Sequence[Path] = ()) -> str:
    """The whole screen.

    Parameters
    ----------
    answers
        The sheet.
    width
        Columns of the terminal.
    files
        What was written, for the last line.

    Returns
    -------
    str
        Lines that are no longer than the width, words that are longer aside.
    """
    if answers.layout is not None:
        body = answers.layout(answers, width)
        head = [*wrapped(answers.title, width), *wrapped(answers.about, width), ""]
        return "\n".join([*head, *body, *_said(answers, width), *_last(files, [], width)])
    shown, hidden = _chosen(answers.rows, width)
    made = iter(lines_of(shown))
    parts = [(heading, [next(made) for _ in rows]) for heading, rows in groups(shown)]
    lines = [line for _, found in parts for line in found]
    constant = _constant(lines)
    rest = [name for name in headings(lines) if name not in constant]
    kept = _fitting(parts, rest, width)
    about = ", ".join(
        [answers.about, *(f"{name} {cell}" for name, cell in constant.items() if cell)]
    )
    out = [*wrapped(answers.title, width), *wrapped(about, width), ""]
    out += _table(parts, kept, width) if kept is not None else _stacked(parts, rest, width)
    vectors = [row for row in shown if row.size > 1]
    for row in vectors[:MOST_VECTORS]:
        out += _components(row, width)
    table = next((path for path in files if path.suffix == ".csv"), f"{answers.name}.csv")
    if len(vectors) > MOST_VECTORS:
        more = len(vectors) - MOST_VECTORS
        out += wrapped(f"  ... and the components of {more:,} more, in {table}", width)
    if hidden:
        out += wrapped(f"  ... and {hidden:,} more, in {table}", width)
    out += _said(answers, width)
    left = [name for name in rest if kept is not None and name not in kept]
    left += [FOUND] if _words(shown) < _words(answers.rows) else []
    return "\n".join([*out, *_last(files, left, width)])


def _said(answers: Answers, width: int) -> Lines:
    """What is below the answers: promises, warnings, lines to paste, and what columns mean."""
    said = [*answers.promises[:MOST_PROMISES], *answers.warnings]
    if len(answers.promises) > MOST_PROMISES:
        more = len(answers.promises) - MOST_PROMISES
        said.insert(MOST_PROMISES, f"... and {more:,} more promises, on the page")
    out = [line for text in said for line in wrapped(text, width)]
    out += [f"    {line}" for line in answers.paste.splitlines() if line]
    return out + [line for text in answers.legend if text for line in wrapped(text, width)]


def _chosen(rows: Sequence[Answer], width: int) -> tuple[list[Answer], int]:
    """The first rows of every group, as evenly as they fit, and how many are left out."""
    most = MOST_LINES if any(row.sentences for row in rows) else MOST_ROWS
    if sum(_height(row, width) for row in rows) <= most:
        return list(rows), 0
    brief = [replace(row, sentences=row.sentences[:1]) for row in rows]
    parts = [found for _, found in groups(brief)]
    for each in range(MOST_ROWS, 0, -1):
        shown = [row for part in parts for row in part[:each]]
        if sum(_height(row, width) for row in shown) <= most:
            break
    return shown, len(rows) - len(shown)


def _words(rows: Iterable[Answer]) -> int:
    return max((len(row.sentences) for row in rows), default=0)


def _height(row: Answer, width: int) -> int:
    return len(_paragraph(ScreenRow(row.name, {}, row.sentences), width)) if row.sentences else 1


def _paragraph(line: ScreenRow, width: int) -> Lines:
    return wrapped(f"  {line.name}: {' '.join(line.sentences)}", width, "    ")


def lines_of(rows: Sequence[Answer]) -> list[ScreenRow]:
    """Names and cells; numbers are in the first column, after what they are where they differ."""
    quantities = list(dict.fromkeys(row.quantity for row in rows if row.quantity))
    heading = quantities[0] if len(quantities) == 1 else ANSWER
    found = []
    for row in rows:
        if row.sentences:
            found.append(ScreenRow(row.name, {}, row.sentences))
            continue
        number = with_bar(row.value, row.low, row.high, row.unit)
        if not (row.quantity or row.size):
            number = row.cells.get(ANSWER, "")
        elif len(quantities) > 1:
            number = f"{row.quantity} {number}".strip()
        rest = {name: cell for name, cell in row.cells.items() if name != ANSWER}
        found.append(ScreenRow(row.name, ({heading: number} if number else {}) | rest))
    return found


def headings(lines: Iterable[ScreenRow]) -> Lines:
    """All columns: the answer first, then in the order in which rows have them."""
    return list(dict.fromkeys(name for line in lines for name in line.cells))


def _constant(lines: Sequence[ScreenRow]) -> dict[str, str]:
    """Columns that say the same in every row, but for the first, which is the answer."""
    if len(lines) < 2:
        return {}
    names = headings(lines)[1:]
    found = {name: {line.cells.get(name, "") for line in lines} for name in names}
    return {name: texts.pop() for name, texts in found.items() if len(texts) == 1}


def _fitting(
    parts: Sequence[tuple[str, list[ScreenRow]]], names: Lines, width: int
) -> Lines | None:
    """The columns that fit beside one another, first ones first; None if not even one does."""
    left = width - _names(parts) - GAP
    kept: Lines = []
    for name in names:
        need = GAP + _column(parts, name)
        if need > left:
            break
        kept.append(name)
        left -= need
    return kept if kept or (not names and left >= 0) else None


def _names(parts: Sequence[tuple[str, list[ScreenRow]]]) -> int:
    return _widest(line.name for _, lines in parts for line in lines if not line.sentences)


def _column(parts: Sequence[tuple[str, list[ScreenRow]]], name: str) -> int:
    return _widest([name, *(line.cells.get(name, "") for _, lines in parts for line in lines)])


def _widest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


def _table(parts: Sequence[tuple[str, list[ScreenRow]]], kept: Lines, width: int) -> Lines:
    name = GAP + _names(parts)
    widths = {each: _column(parts, each) for each in kept}
    space = " " * GAP
    head = (" " * name + "".join(f"{space}{each:>{widths[each]}}" for each in kept)).rstrip()
    out = [head] if kept else []
    for heading, lines in parts:
        out += wrapped(heading, width) if heading else []
        for line in lines:
            if line.sentences:
                out += _paragraph(line, width)
                continue
            cells = "".join(f"{space}{line.cells.get(each, ''):>{widths[each]}}" for each in kept)
            out.append(f"{space}{line.name:<{name - GAP}}{cells}".rstrip())
    return [*out, ""]


def _stacked(parts: Sequence[tuple[str, list[ScreenRow]]], names: Lines, width: int) -> Lines:
    out: Lines = []
    for heading, lines in parts:
        out += wrapped(heading, width) if heading else []
        for line in lines:
            out += _paragraph(line, width) if line.sentences else wrapped(f"  {line.name}", width)
            for each in names:
                if line.cells.get(each):
                    out += wrapped(f"    {each} {line.cells[each]}", width, "      ")
    return [*out, ""]


def _components(row: Answer, width: int) -> Lines:
    """The components of a vector below the table, with bars from 0 to the largest."""
    if row.size <= 1:
        return []
    out = wrapped(f"{row.name}, {row.quantity}" if row.name else row.quantity, width)
    return [*out, *components(row, width, MOST_COMPONENTS), ""]


def components(row: Answer, width: int, most: int) -> Lines:
    """At most so many components of an array, each with its label, interval and bar.

    Of labels on a line they are evenly spaced, and the largest; of other labels they are the largest ones;
    without labels the first ones.
    """
    values = np.ravel(row.value).astype(float)
    low, high = ([None] * row.size if end is None else np.ravel(end) for end in (row.low, row.high))
    like = typical_width(row)
    places = _places(row, most)
    heads = [row.labels[k] if row.labels else f"{row.quantity}[{k}]" for k in places]
    cells = _aligned(
        with_bar(values[k], low[k], high[k], row.unit, like)
        if math.isfinite(values[k])
        else unsaid(row, k)
        for k in places
    )
    first, second = _widest(heads), _widest(cells)
    bars = _bars(values, min(BAR, width - first - second - 3 * GAP))
    out = []
    for head, cell, k in zip(heads, cells, places, strict=True):
        line = f"  {head:<{first}}  {cell:<{second}}  {bars[k]}".rstrip()
        out += [line] if len(line) <= width else wrapped(f"  {head} {cell.strip()}", width, "    ")
    more = row.size - len(places)
    if more:
        which = f"and {more:,} more components"
        if row.labels:
            spaced = "evenly spaced, and the largest" if row.ordered else "the largest"
            which = f"{len(places)} of {row.size:,}: {spaced}; -o STEM writes all"
        out += wrapped(f"  ... {which}", width)
    return out


def unsaid(row: Answer, k: int = 0) -> str:
    """What stands in place of a number that is not finite."""
    return (row.absent[k] if row.absent else "") or TOO_FEW


def _aligned(cells: Iterable[str]) -> Lines:
    """Numbers below each other, whatever stands behind them."""
    parts = [cell.split(" ", 1) for cell in cells]
    first = _widest(number for number, *_ in parts if number[-1:].isdigit())
    return [
        " ".join([f"{number:>{first}}" if number[-1:].isdigit() else number, *rest])
        for number, *rest in parts
    ]


def typical_width(row: Answer) -> float:
    """The median width of an array's intervals, so that its numbers have the same digits; 0 for numbered
    components, whose errors differ.
    """
    if row.low is None or not row.labels:
        return 0.0
    widths = np.ravel(row.high).astype(float) - np.ravel(row.low).astype(float)
    known = widths[np.isfinite(widths)]
    return float(np.median(known)) if known.size else 0.0


def _places(row: Answer, most: int) -> list[int]:
    """Which components are shown, in order."""
    if row.size <= most or not row.labels:
        return list(range(min(row.size, most)))
    known = np.nan_to_num(np.abs(np.ravel(row.value).astype(float)), nan=-1.0)
    if not row.ordered:
        return sorted(np.argsort(-known, kind="stable")[:most].tolist())
    places = np.unique(np.linspace(0, row.size - 1, most).round().astype(int))
    largest = int(known.argmax())
    if largest not in places:
        places[1 + np.abs(places[1:-1] - largest).argmin()] = largest
    return sorted(places.tolist())


def _bars(values: NDArray[np.float64], room: int) -> Lines:
    """A bar for each number, from 0 to the largest; none for negative ones."""
    known = np.where(np.isfinite(values), values, 0.0)
    largest = float(np.abs(known).max()) or 1.0
    return ["#" * round(max(room, 0) * max(float(x), 0.0) / largest) for x in known]


def _last(files: Sequence[Path], left: Lines, width: int) -> Lines:
    """Where the page and the table are, and which columns are only there."""
    if not files:
        return wrapped(f"Left out for want of room: {listed(left)}.", width) if left else []
    also = f" (also there: {', '.join(left)})" if left else ""
    drawn = "".join(f", figure {path}" for path in files[2:])
    missing = undrawn()
    said = wrapped(f"Page {files[0]}{also}{drawn}", width)
    return [*said, *(wrapped(missing, width) if missing else [])]


def wrapped(text: str, width: int, indent: str = "  ") -> Lines:
    """Between words only; what is continued is indented."""
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False,
    ) or [""]  # fmt: skip


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], width: int = WIDTH) -> str:
    """A plain table of texts for lists: columns that do not fit are below their row, never cut.

    Parameters
    ----------
    heads
        Of the columns.
    rows
        Cells; the first one names the row.
    width
        Columns of the terminal.

    Returns
    -------
    str
        Lines.
    """
    found = [list(map(str, row)) for row in rows]
    widths = [_widest([h, *(row[k] for row in found)]) for k, h in enumerate(heads)]
    room = width - sum(widths[:-1]) - GAP * (len(widths) - 1)
    space = " " * GAP
    if room < min(widths[-1], width // 3):  # not even a part of the last column fits
        out = []
        for row in found:
            out += wrapped(row[0], width)
            for head, cell in zip(heads[1:], row[1:], strict=True):
                out += wrapped(f"  {head}: {cell}", width, "    ") if cell else []
        return "\n".join(out)
    before = sum(widths[:-1]) + GAP * (len(widths) - 1)
    out = []
    for row in [list(heads), *found]:
        cells = space.join(f"{cell:<{w}}" for cell, w in zip(row[:-1], widths[:-1], strict=True))
        last = textwrap.wrap(row[-1], max(room, 1), break_long_words=False) or [""]
        out.append(f"{cells}{space if len(row) > 1 else ''}{last[0]}".rstrip())
        out += [" " * before + more for more in last[1:]]
    return "\n".join(out)
