"""A sheet in a terminal: plain text of any width, in which no cell is ever cut.

Groups by verdict, best first. A column whose cells are all the same moves to the second line. One that
does not fit is left out and named in the last line. Where a name and its number do not fit beside each
other, the cells of a row are below one another.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from veilsum.front.sheet import groups
from veilsum.front.words import listed, with_bar

if TYPE_CHECKING:
    from veilsum.front.sheet import Answer, Answers

WIDTH = 80
MOST_ROWS = 16  # of a sheet; the long table has all
MOST_COMPONENTS = 12
BAR = 24  # the longest bar of a component
GAP = 2
Lines = list[str]


@dataclass(frozen=True)
class Line:
    """A row of the screen: a name, and cells by their headings."""

    name: str
    cells: dict[str, str]


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
    shown, hidden = _chosen(answers.rows)
    parts = [(heading, [_line(row) for row in rows]) for heading, rows in groups(shown)]
    constant = _constant([line for _, lines in parts for line in lines])
    rest = [name for name in headings(shown) if name not in constant]
    kept = _fitting(parts, rest, width)
    about = ", ".join(
        [answers.about, *(f"{name} {cell}" for name, cell in constant.items() if cell)]
    )
    out = [*_wrap(answers.title, width), *_wrap(about, width), ""]
    out += _table(parts, kept, width) if kept is not None else _stacked(parts, rest, width)
    for row in shown:
        out += _components(row, width)
    if hidden:
        where = f"{answers.name}.csv" if not files else str(files[-1])
        out += _wrap(f"  ... and {hidden:,} more, in {where}", width)
    out += [line for text in (*answers.promises, *answers.warnings) for line in _wrap(text, width)]
    out += [line for text in answers.legend if text for line in _wrap(text, width)]
    left = [name for name in rest if kept is not None and name not in kept]
    left += ["lines for the study"] if answers.paste and files else []
    return "\n".join([*out, *_last(files, left, width)])


def _chosen(rows: Sequence[Answer]) -> tuple[list[Answer], int]:
    """The first rows of every group, as evenly as they fit, and how many are left out."""
    parts = [found for _, found in groups(rows)]
    if len(rows) <= MOST_ROWS:
        return list(rows), 0
    each = max(1, MOST_ROWS // len(parts))
    shown = [row for part in parts for row in part[:each]]
    return shown, len(rows) - len(shown)


def _line(row: Answer) -> Line:
    heading = row.quantity or "answer"
    number = with_bar(row.value, row.low, row.high, row.unit)
    cells = {heading: number} if row.quantity or row.size else {}
    return Line(row.name, cells | dict(row.cells))


def headings(rows: Iterable[Answer]) -> Lines:
    """All columns, in the order in which rows have them."""
    return list(dict.fromkeys(name for row in rows for name in _line(row).cells))


def _constant(lines: Sequence[Line]) -> dict[str, str]:
    """Columns that say the same in every row, but for the first, which is the answer."""
    if len(lines) < 2:
        return {}
    names = list(dict.fromkeys(name for line in lines for name in line.cells))[1:]
    found = {name: {line.cells.get(name, "") for line in lines} for name in names}
    return {name: texts.pop() for name, texts in found.items() if len(texts) == 1}


def _fitting(parts: Sequence[tuple[str, list[Line]]], names: Lines, width: int) -> Lines | None:
    """The columns that fit beside one another, first ones first; None if not even one does."""
    left = width - _widest(line.name for _, lines in parts for line in lines) - GAP
    kept: Lines = []
    for name in names:
        need = GAP + _column(parts, name)
        if need > left:
            break
        kept.append(name)
        left -= need
    return kept if kept or not names else None


def _column(parts: Sequence[tuple[str, list[Line]]], name: str) -> int:
    return _widest([name, *(line.cells.get(name, "") for _, lines in parts for line in lines)])


def _widest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


def _table(parts: Sequence[tuple[str, list[Line]]], kept: Lines, width: int) -> Lines:
    name = GAP + _widest(line.name for _, lines in parts for line in lines)
    widths = {each: _column(parts, each) for each in kept}
    space = " " * GAP
    out = [(" " * name + "".join(f"{space}{each:>{widths[each]}}" for each in kept)).rstrip()]
    for heading, lines in parts:
        out += _wrap(heading, width) if heading else []
        for line in lines:
            cells = "".join(f"{space}{line.cells.get(each, ''):>{widths[each]}}" for each in kept)
            out.append(f"{space}{line.name:<{name - GAP}}{cells}".rstrip())
    return [*out, ""]


def _stacked(parts: Sequence[tuple[str, list[Line]]], names: Lines, width: int) -> Lines:
    out: Lines = []
    for heading, lines in parts:
        out += _wrap(heading, width) if heading else []
        for line in lines:
            out += _wrap(f"  {line.name}", width, "  ")
            for each in names:
                if line.cells.get(each):
                    out += _wrap(f"    {each} {line.cells[each]}", width, "      ")
    return [*out, ""]


def _components(row: Answer, width: int) -> Lines:
    """The components of a vector below the table, with bars from 0 to the largest."""
    if row.size <= 1:
        return []
    values = np.ravel(row.value)[:MOST_COMPONENTS]
    ends = [np.ravel(e)[:MOST_COMPONENTS] if e is not None else None for e in (row.low, row.high)]
    largest = max(float(np.max(np.abs(np.ravel(row.value)))), 1e-300)
    heads = [f"{row.quantity}[{k}]" for k in range(len(values))]
    cells = [
        with_bar(v, *(None if e is None else e[k] for e in ends), row.unit)
        for k, v in enumerate(values)
    ]
    first, second = _widest(heads), _widest(cells)
    room = min(BAR, width - first - second - 3 * GAP)
    out = [row.name] if row.name else []
    for head, cell, value in zip(heads, cells, values, strict=True):
        bar = "#" * round(room * max(float(value), 0.0) / largest) if room > 0 else ""
        out.append(f"  {head:<{first}}  {cell:>{second}}  {bar}".rstrip())
    if row.size > len(values):
        out.append(f"  ... and {row.size - len(values):,} more components")
    return [*out, ""]


def _last(files: Sequence[Path], left: Lines, width: int) -> Lines:
    """Where the page and the table are, and which columns are only there."""
    if not files:
        return _wrap(f"Left out for want of room: {listed(left)}.", width) if left else []
    also = f" (also there: {', '.join(left)})" if left else ""
    return _wrap(f"Page {', '.join(map(str, files[:1]))}{also}", width)


def _wrap(text: str, width: int, indent: str = "  ") -> Lines:
    """Between words only; what is continued is indented."""
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False,
        replace_whitespace=False, drop_whitespace=True,
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
            out += _wrap(row[0], width)
            for head, cell in zip(heads[1:], row[1:], strict=True):
                out += _wrap(f"  {head}: {cell}", width, "    ") if cell else []
        return "\n".join(out)
    before = sum(widths[:-1]) + GAP * (len(widths) - 1)
    out = []
    for row in [list(heads), *found]:
        cells = space.join(f"{cell:<{w}}" for cell, w in zip(row[:-1], widths[:-1], strict=True))
        last = textwrap.wrap(row[-1], max(room, 1), break_long_words=False) or [""]
        out.append(f"{cells}{space if len(row) > 1 else ''}{last[0]}".rstrip())
        out += [" " * before + more for more in last[1:]]
    return "\n".join(out)
