"""Pictures from the long table: a quantity over rounds or epsilons, or answers with their intervals.

On a page they are SVG inside the file: text stays text, and what is black takes the colour of the page,
so that they can be read on a dark one. The policy of a page allows no style attributes; they become
attributes of their own.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import matplotlib
import numpy as np
from markupsafe import Markup, escape

from veilsum.errors import VeilsumError
from veilsum.front import style
from veilsum.front.table import Row, long_table
from veilsum.results import units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from veilsum.front.sheet import Answer, Answers

MOST_CURVES = 12
MOST_BARS = 40
MOST_PANELS = 3
MOST_VECTORS = 6
FEW = 12  # points that are marked
FLOOR = 1e-6  # of the largest: what is smaller leaves the picture
WIDE, HIGH = 7.2, 3.4  # inches
BRIGHT = (style.BLUE, style.GREEN, style.SKY, style.TEAL, style.OLIVE)  # on white and on black
COLOURS = {"proved": BRIGHT, "": style.VARIANTS}
DASHES = {"proved": "-", "estimated": "-.", "claimed": "--", "refuted": "--", "none": ":"}


class Picture(NamedTuple):
    """A figure as SVG, and what it shows."""

    svg: Markup
    caption: str


def picture(ax: Axes, name: str, caption: str) -> Picture:
    """The figure of axes for a page."""
    return Picture(svg(_figure(ax), name, caption), caption)


def pictures(answers: Answers) -> list[Picture]:
    """What the page of runs shows: errors where there are any, vectors, or answers side by side."""
    table = long_table(answers)
    found = []
    vectors = [row for row in answers.rows if row.size > 1][:MOST_VECTORS]
    if vectors:
        text = "Components with their 95% intervals."
        found.append(Picture(svg(bars(vectors), "bars", text), text))
    if any(row.quantity == "error" for row in table):
        found.append(_curves(answers, table))
    elif not vectors and any(row.low is not None for row in answers.rows):
        text = "Answers with their 95% intervals."
        found.append(picture(_intervals(answers.rows), "intervals", text))
    return found


def errors(answers: Answers) -> Figure:
    """Errors over rounds or epsilons: a panel for each kind, since their targets differ."""
    table = long_table(answers)
    x = "epsilon" if _swept(table) else "round"
    kinds = list(dict.fromkeys(row.kind for row in table if row.quantity == "error"))[:MOST_PANELS]
    figure = style.figure(max(WIDE, 4.4 * len(kinds)), HIGH + 0.9)
    for ax, kind in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds, strict=True):
        draw(answers, "error", x, style.tidy(ax), kind)
        if len(kinds) > 1:
            ax.set_title(kind, fontsize=9)
    return figure


def _curves(answers: Answers, table: Sequence[Row]) -> Picture:
    x = "epsilon" if _swept(table) else "round"
    text = f"Error of one agent over {x}s, a curve for each run; dashed where nothing is proved."
    return Picture(svg(errors(answers), "errors", text), text)


def draw(
    answers: Answers,
    y: str | None = None,
    x: str | None = None,
    ax: Axes | None = None,
    kind: str | None = None,
) -> Axes:
    """A quantity of the long table over rounds or epsilons; see `Answers.plot`."""
    if y is None and x is None and answers.drawing is not None:
        return answers.drawing(ax)
    table = long_table(answers)
    quantities = dict.fromkeys(row.quantity for row in table if row.value is not None)
    if y is None:
        if "error" not in quantities:
            return _intervals(answers.rows, ax)
        y = "error"
    if y not in quantities:
        raise VeilsumError(f"there is no quantity {y!r}; there are {', '.join(quantities)}")
    x = x or ("epsilon" if _swept(table) else "round")
    if x not in ("round", "epsilon"):
        raise VeilsumError(f"x is 'round' or 'epsilon'; found {x!r}")
    chosen = [
        row for row in table
        if row.quantity == y and row.value is not None and kind in (None, row.kind)
    ]  # fmt: skip
    drawn = style.axes(ax, WIDE, HIGH)
    order = {name: k for k, name in enumerate(answers)}
    names = sorted({row.run for row in chosen}, key=lambda n: order.get(n, len(order)))
    used: dict[str, int] = {}
    for name in names[:MOST_CURVES]:
        mine = [row for row in chosen if row.run == name]
        status = mine[0].status
        palette = COLOURS.get(status, style.NOT_PROVED if status else style.VARIANTS)
        colour = palette[used.setdefault(status, 0) % len(palette)]
        used[status] += 1
        xs, ys = _points(mine, x)
        marker = "o" if len(xs) <= FEW else ""
        drawn.plot(xs, ys, color=colour, linestyle=DASHES.get(status, "-"), marker=marker,
                   markersize=3.5, linewidth=1.5, label=name)  # fmt: skip
    _axes(drawn, y, x, chosen)
    return drawn


def _points(rows: Sequence[Row], x: str) -> tuple[list[float], list[float]]:
    """One point for each x: of every round the first epsilon, of every epsilon the last round."""
    found: dict[float, float] = {}
    for row in rows:
        if x == "round" and row.round is not None:
            found.setdefault(float(row.round), float(row.value or 0.0))
        elif x == "epsilon" and row.epsilon is not None:
            found[row.epsilon] = float(row.value or 0.0)
    points = sorted((a, b) for a, b in found.items() if b > 0)
    return [a for a, _ in points], [b for _, b in points]


def _axes(drawn: Axes, y: str, x: str, rows: Sequence[Row]) -> None:
    online = all("stream" in row.kind for row in rows)
    style.scale(drawn, x="log" if x == "epsilon" or online else "linear", y="log")
    low, high = drawn.get_ylim()
    drawn.set_ylim(max(low, FLOOR * high), high)
    kinds = {row.unit for row in rows}
    if x == "round" and not online:
        style.whole_numbers(drawn.xaxis)
    drawn.set_xlabel(x)
    drawn.set_ylabel(units.in_brackets(f"{y} of one agent", kinds.pop() if len(kinds) == 1 else ""))
    names = drawn.get_legend_handles_labels()[0]
    if len(names) > 1:
        drawn.legend(handles=names, loc="upper center", bbox_to_anchor=(0.5, -0.16), fontsize=8,
                     frameon=False, ncols=2)  # fmt: skip


def _swept(table: Sequence[Row]) -> bool:
    by: dict[str, set[float]] = {}
    for row in table:
        if row.epsilon is not None:
            by.setdefault(row.run, set()).add(row.epsilon)
    return any(len(epsilons) > 1 for epsilons in by.values())


def _intervals(rows: Sequence[Answer], ax: Axes | None = None) -> Axes:
    """A line for each answer: its number and its interval."""
    shown = [row for row in rows if row.size == 1][:MOST_BARS]
    if not shown:
        raise VeilsumError("there is no number to draw")
    drawn = style.axes(ax, WIDE, 0.7 + 0.28 * len(shown))
    places = np.arange(len(shown))[::-1]
    for place, row in zip(places, shown, strict=True):
        colour = style.BLUE if row.status == "proved" else style.VERMILION
        if row.low is not None:
            drawn.plot([row.low, row.high], [place, place], color=colour, linewidth=2)
        drawn.plot([row.value], [place], "o", color=colour, markersize=4.5)
    several = len({row.quantity for row in shown}) > 1
    swept = len({(row.name, row.quantity) for row in shown}) < len(shown)
    drawn.set_yticks(
        places,
        [
            f"{row.name}{f', {row.quantity}' if several else ''}"
            f"{f', ε = {row.epsilon:g}' if swept and row.epsilon is not None else ''}"
            for row in shown
        ],
    )
    drawn.set_ylim(-0.7, len(shown) - 0.3)
    found = {(row.quantity, row.unit) for row in shown}
    drawn.set_xlabel(units.in_brackets(*found.pop()) if len(found) == 1 else "")
    drawn.grid(axis="y", visible=False)
    return drawn


def bars(rows: Sequence[Answer]) -> Figure:
    """The components of vectors, a panel for each answer."""
    figure = style.figure(WIDE, 0.6 + 1.9 * len(rows))
    panels = figure.subplots(len(rows), 1, squeeze=False)[:, 0]
    for ax, row in zip(panels, rows, strict=True):
        values = np.ravel(row.value)
        ends = None
        if row.low is not None:
            low, high = (np.broadcast_to(e, values.shape) for e in (row.low, row.high))
            ends = np.maximum([values - low, high - values], 0.0)
        ax.bar(
            np.arange(values.size),
            values,
            yerr=ends,
            color=style.SKY,
            ecolor=style.MUTED,
            capsize=2,
        )
        ax.set_title(row.name, fontsize=9)
        ax.set_ylabel(units.in_brackets(row.quantity, row.unit))
        style.tidy(ax)
        style.whole_numbers(ax.xaxis)
    panels[-1].set_xlabel("component")
    return figure


def _figure(ax: Axes) -> Figure:
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


_STYLE = re.compile(r' style="([^"]*)"')
_NAME = re.compile(r'((?:\bid="|href="#|url\(#))([^")]+)')
_PARTS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (r"<style.*?</style>", r"<metadata>.*?</metadata>", r"<!--.*?-->",
                    r' id="text_\d+"')
)  # fmt: skip
_FONT = re.compile(r"^(?:\w+ )*?([\d.]+)px\b.*$")
JOINTS = ' stroke-linejoin="round" stroke-linecap="butt"'  # what matplotlib's style sheet says


def svg(figure: Figure, name: str, description: str) -> Markup:
    """A figure as an <svg> element of a page whose policy allows no style but its own.

    Parameters
    ----------
    figure
        Any.
    name
        Unique in the page; letters and digits.
    description
        What it shows, for those who do not see it.

    Returns
    -------
    Markup
        The same figure gives the same text.
    """
    out = io.StringIO()
    figure.patch.set_visible(False)
    for ax in figure.axes:
        ax.patch.set_visible(False)
    with matplotlib.rc_context({"svg.hashsalt": "veilsum", "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    for part in _PARTS:
        text = part.sub("", text)
    text = _STYLE.sub(_attributes, text)
    text = _NAME.sub(rf"\g<1>{name}-\g<2>", text)
    text = text.replace("#000000", "currentColor").replace(style.MUTED, "currentColor")
    text = text.replace(f'stroke="{style.LINES}"', 'stroke="currentColor" stroke-opacity="0.15"')
    start = f'<svg role="img" aria-label="{escape(description)}" fill="currentColor"{JOINTS}'
    return Markup(text.replace("<svg", start, 1))


def _attributes(found: re.Match[str]) -> str:
    """`style="a: b; c: d"` as ` a="b" c="d"`; of a font its size, the page has the family."""
    pairs = [part.partition(":") for part in found[1].split(";") if ":" in part]
    known = {key.strip(): value.strip().replace('"', "'") for key, _, value in pairs}
    font = _FONT.match(known.pop("font", ""))
    if font:
        known["font-size"] = font[1]
    return "".join(f' {key}="{value}"' for key, value in known.items())
