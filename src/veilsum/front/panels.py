"""A figure cut into its columns, which a page puts side by side or, on a phone, below one another.

Columns of a figure share a legend and, often, the numbers of their vertical axes. Cut apart, each
column gets its own numbers and label, and the legend is drawn again, two entries to a row.
"""

from __future__ import annotations

import io
import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from veilsum.front import style

MARGIN = 0.04  # inches around a column
LEGEND_WIDTH, ENTRY_HEIGHT = 4.4, 0.24  # inches


def cut(drawn: Figure) -> list[bytes]:
    """The legend, if there is one, and the columns from left to right, as PNG.

    Parameters
    ----------
    drawn
        A figure, which is changed: write it before.

    Returns
    -------
    list of bytes
        Nothing for a figure of one column, which needs no cutting.
    """
    columns = _columns(drawn)
    if len(columns) < 2:
        return []
    _label_every_column(columns)
    legends = [_legend(each) for each in drawn.legends]
    for each in drawn.legends:
        each.set_visible(False)
    drawn.canvas.draw()
    return [*legends, *(_png(drawn, _box(column)) for column in columns)]


def _columns(drawn: Figure) -> list[list[Axes]]:
    """Panels by column, from top to bottom; colour bars with the panel that is nearest."""
    found: dict[int, list[Axes]] = {}
    others = []
    for ax in drawn.axes:
        place = ax.get_subplotspec()
        if place is None or hasattr(ax, "_colorbar"):
            others.append(ax)
        else:
            found.setdefault(place.colspan.start, []).append(ax)
    columns = [found[k] for k in sorted(found)]
    for bar in others:
        middle = bar.get_position().x0
        min(columns, key=lambda c: abs(c[0].get_position().x1 - middle)).append(bar)
    return columns


def _label_every_column(columns: list[list[Axes]]) -> None:
    """What only the first column says of a row, the others say, too."""
    for column in columns[1:]:
        for ax, first in zip(column, columns[0], strict=False):
            shared = ax.get_shared_y_axes().joined(ax, first)
            if shared:
                ax.yaxis.set_tick_params(which="both", labelleft=True)
            if not ax.get_ylabel():
                ax.set_ylabel(first.get_ylabel(), fontsize=first.yaxis.label.get_fontsize())


def _box(column: list[Axes]) -> Bbox:
    boxes = [box for ax in column if (box := ax.get_tightbbox()) is not None]
    return Bbox.union(boxes)


def _png(drawn: Figure, box: Bbox) -> bytes:
    inches = box.transformed(drawn.dpi_scale_trans.inverted()).padded(MARGIN)
    out = io.BytesIO()
    drawn.savefig(out, format="png", dpi=style.DOTS_PER_INCH, bbox_inches=inches)
    return out.getvalue()


def _legend(found: object) -> bytes:
    """The entries of a legend in two columns, as a picture of their own."""
    handles = list(found.legend_handles)  # type: ignore[attr-defined]
    labels = [text.get_text() for text in found.get_texts()]  # type: ignore[attr-defined]
    rows = math.ceil(len(handles) / 2)
    made = style.figure(LEGEND_WIDTH, ENTRY_HEIGHT * rows + 0.1)
    made.legend(handles, labels, loc="center", ncols=2, fontsize=9, frameon=False)
    out = io.BytesIO()
    made.savefig(out, format="png", dpi=style.DOTS_PER_INCH)
    return out.getvalue()
