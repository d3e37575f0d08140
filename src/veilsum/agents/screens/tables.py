"""Tables of the verbs of agents, in the width of the terminal or 120 columns in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from rich.box import SIMPLE
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Column, Table

PIPE_WIDTH = 120
GAP = 2  # columns between two columns of a table
_STYLE: dict[str, Any] = {
    "box": SIMPLE, "padding": (0, 1, 0, 0), "header_style": "bold", "show_edge": False,
}  # fmt: skip


def console() -> Console:
    """A console on stdout, without markup and highlighting."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(width=width, highlight=False, markup=False)


class FittedTable(Table):
    """A table that cuts nothing: what does not fit beside the first column goes below, with it again.

    Numbers have the width that they need; text is wrapped between words.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As many tables below each other as the width needs."""
        first, *others = self.columns
        spare, least = options.max_width + 1 - GAP, [_least(column) for column in others]
        own = min(_longest(first), max(spare // 2, spare - GAP - max(least, default=0)))
        blocks, left = [list[Column]()], -1
        for column, width in zip(others, least, strict=True):
            if left < width + GAP:
                blocks.append([])
                left = spare - own
            blocks[-1].append(column)
            left -= width + GAP
        for number, block in enumerate(blocks[1:] or blocks):
            if number:
                yield ""
            yield _block([first, *block], [own, *_widths(block, spare - own)])


def _block(columns: Sequence[Column], widths: Sequence[int]) -> Table:
    made = Table(**_STYLE)
    for column, width in zip(columns, widths, strict=True):
        made.add_column(column.header, justify=column.justify, overflow="fold", width=width)
    for row in zip(*(column.cells for column in columns), strict=True):
        made.add_row(*row)
    return made


def _texts(column: Column) -> Iterable[str]:
    return map(str, (column.header, *column.cells))


def _longest(column: Column) -> int:
    return max(map(cell_len, _texts(column)))


def _least(column: Column) -> int:
    """All of a number or a name, or the longest word of a text."""
    if column.no_wrap:
        return _longest(column)
    return max((cell_len(word) for text in _texts(column) for word in text.split()), default=0)


def _widths(columns: Sequence[Column], room: int) -> list[int]:
    """Of each column: what it asks for, less for the widest texts until all fit."""
    widths, least = [_longest(column) for column in columns], [_least(c) for c in columns]
    while sum(widths) + GAP * len(widths) > room:
        k = max(range(len(widths)), key=lambda k: (widths[k] > least[k], widths[k]))
        if widths[k] <= least[k] and widths[k] <= room - GAP:
            break
        widths[k] -= 1
    return widths


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> Table:
    """A plain table; the last `numbers` columns are right-aligned and, as the first, not wrapped."""
    rendered = FittedTable(**_STYLE)
    for k, name in enumerate(columns):
        right = k >= len(columns) - numbers
        justify: Literal["left", "right"] = "right" if right else "left"
        rendered.add_column(name, justify=justify, no_wrap=right or k == 0, overflow="fold")
    for row in rows:
        rendered.add_row(*row)
    return rendered
