"""The picture of docs/masked-sum.md: masks that cancel, noise parts that add up to one draw.

The numbers in it are computed: small ones, modulo 100 instead of 2^64.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from veilsum.front import style

MODULUS = 100
LABELS = "abcde"
STATISTICS = (12, 7, 9, 15, 11)
NOISE = (0, 0, 2, 0, -1)
MASKS = (31, 88, 7, 64, 52, 19, 76, 43, 95, 28)  # of ab, ac, ad, ae, bc, ...
LINKS = ("ab", "bc", "cd", "de", "ae", "bd")
HONEST, SCALE = 5, 12.0
BOX = {"boxstyle": "round,pad=0.25", "facecolor": "#f0f0f0", "edgecolor": "none"}
PAIRS = tuple("".join(pair) for pair in combinations(LABELS, 2))
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00",
           "#56B4E9", "#332288", "#117733", "#882255", "#999933")  # fmt: skip


@dataclass(frozen=True)
class ExampleRow:
    """One member's numbers: its statistic, its noise, its signed masks by pair, what it publishes."""

    label: str
    statistic: int
    noise: int
    masks: dict[str, int]

    @property
    def published(self) -> int:
        """z = x + eta + masks, modulo 100."""
        return (self.statistic + self.noise + sum(self.masks.values())) % MODULUS


def example() -> list[ExampleRow]:
    """The numbers of the picture."""
    table = dict(zip(PAIRS, MASKS, strict=True))
    return [
        ExampleRow(
            label, x, eta, {p: m if p[0] == label else -m for p, m in table.items() if label in p}
        )
        for label, x, eta in zip(LABELS, STATISTICS, NOISE, strict=True)
    ]


def probabilities(order: float, scale: float, size: int = 4096) -> NDArray[np.float64]:
    """P(X = k), k = -size/2 .. size/2 - 1, of GDL(order, scale): its characteristic function inverted."""
    r = np.exp(-1 / scale)
    turn = np.exp(2j * np.pi * np.arange(size) / size)
    values = ((1 - r) ** 2 / np.abs(1 - r * turn) ** 2) ** order
    return np.asarray(np.fft.fftshift(np.fft.ifft(values).real))


def drawing() -> Figure:
    """Three panels: who exchanges masks, what is published, what the noise is."""
    drawn = style.figure(10.0, 3.5)
    left, middle, right = drawn.subplots(1, 3, width_ratios=(1.0, 1.75, 1.1))
    _graph(left)
    _table(middle)
    _noise(right)
    return drawn


def _title(ax: Axes, text: str) -> None:
    ax.set_title(text, fontsize=9.5, loc="left", fontweight="bold")


def _graph(ax: Axes) -> None:
    angle = np.pi / 2 - 2 * np.pi * np.arange(5) / 5
    place = dict(zip(LABELS, np.column_stack([np.cos(angle), np.sin(angle)]), strict=True))
    for pair, colour in zip(PAIRS, COLOURS, strict=True):
        (x0, y0), (x1, y1) = place[pair[0]], place[pair[1]]
        if pair in LINKS:
            ax.plot([x0, x1], [y0, y1], color=style.FAINT, linewidth=6, zorder=1)
        ax.plot([x0, x1], [y0, y1], color=colour, linewidth=1.4, linestyle=(0, (4, 2)), zorder=2)
    for label, (x, y) in place.items():
        ax.plot(x, y, "o", markersize=21, color="white", markeredgecolor=style.INK, zorder=3)
        ax.text(x, y, label, ha="center", va="center", fontsize=11, zorder=4)
    ax.plot([-1.15, -0.85], [-1.32, -1.32], color=style.FAINT, linewidth=6)
    ax.text(-0.75, -1.32, "link: records are flooded", fontsize=8, va="center")
    ax.plot([-1.15, -0.85], [-1.58, -1.58], color=COLOURS[0], linewidth=1.4, linestyle=(0, (4, 2)))
    ax.text(-0.75, -1.58, "mask: one for every pair", fontsize=8, va="center")
    ax.set(xlim=(-1.3, 1.3), ylim=(-1.75, 1.25), aspect="equal", anchor="N")
    ax.axis("off")
    _title(ax, "1  every pair agrees on a mask")


def _signed(number: int) -> str:
    return f"{number:+d}".replace("-", "\N{MINUS SIGN}") if number else "0"


def _table(ax: Axes) -> None:
    rows = example()
    columns = {"": 0.2, "statistic": 1.15, "noise": 2.35, "masks": 4.85, "published": 7.9}
    top = len(rows)
    for name, x in columns.items():
        ax.text(x, top + 0.1, name, ha="center", fontsize=8.5, color=style.MUTED)
    for row, y in zip(rows, range(top - 1, -1, -1), strict=True):
        cells = {"": row.label, "statistic": f"{row.statistic}", "noise": _signed(row.noise)}
        for name, text in cells.items():
            ax.text(columns[name], y, text, ha="center", va="center", fontsize=10)
        for (pair, mask), dx in zip(row.masks.items(), (-1.35, -0.45, 0.45, 1.35), strict=True):
            colour = COLOURS[PAIRS.index(pair)]
            text = _signed(mask)
            ax.text(
                columns["masks"] + dx, y, text, ha="center", va="center", fontsize=10, color=colour
            )
        ax.text(
            columns["published"], y, f"{row.published:02d}", ha="center", va="center", fontsize=10,
            fontweight="bold", bbox=BOX,
        )  # fmt: skip
    ax.axhline(-0.55, color=style.MUTED, linewidth=0.8)
    x, eta = sum(r.statistic for r in rows), sum(r.noise for r in rows)
    total = sum(r.published for r in rows) % MODULUS
    for name, text in (("", "Σ"), ("statistic", f"{x}"), ("noise", _signed(eta)), ("masks", "0")):
        ax.text(columns[name], -1.05, text, ha="center", va="center", fontsize=10)
    ax.text(
        columns["published"],
        -1.05,
        f"{total}",
        ha="center",
        va="center",
        fontsize=10,
        fontweight="bold",
    )
    ax.text(
        4.3,
        -1.75,
        f"modulo {MODULUS}; equal colours cancel",
        ha="center",
        fontsize=8,
        color=style.MUTED,
    )
    ax.set(xlim=(-0.2, 8.6), ylim=(-2.0, top + 0.6))
    ax.axis("off")
    _title(ax, "2  what is published: masks cancel in the sum")


def _noise(ax: Axes) -> None:
    reach = 40
    k = np.arange(-reach, reach + 1)
    middle = slice(2048 - reach, 2048 + reach + 1)
    part, whole = (probabilities(order, SCALE)[middle] for order in (1 / HONEST, 1.0))
    ax.plot(k, part, color="#D55E00", linewidth=1.5, label=f"a member's part, GDL(1/{HONEST})")
    ax.plot(k, whole, color="#0072B2", linewidth=1.8, label=f"{HONEST} parts: discrete Laplace")
    ax.set(xlabel="grid steps", ylabel="probability", yscale="log", ylim=(3e-4, 6.0))
    style.tidy(ax)
    style.plain_numbers(ax.yaxis)
    ax.legend(fontsize=7.5, frameon=False, loc="upper center")
    _title(ax, "3  parts of noise make up one draw")


def write(folder: Path) -> None:
    """Save `masked-sum.png`."""
    style.write(drawing(), folder / "masked-sum")
    (folder / "masked-sum.svg").unlink()
