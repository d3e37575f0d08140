"""A figure cut into its columns: each says what it needs to be read alone."""

import io

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from veilsum.front import panels, style


def figure(columns: int, common: bool = True) -> Figure:
    drawn = style.figure(3 * columns, 4)
    grid = drawn.subplots(2, columns, squeeze=False, sharey="row" if common else False)
    for k, ax in enumerate(grid[0]):
        ax.plot([0, 1], [0, k + 1])
    for row, label in zip(grid, ("above", "below"), strict=True):
        row[0].set_ylabel(label)
    style.legend_above(drawn, [Line2D([], [], label=name) for name in ("one", "two", "three")])
    return drawn


def test_a_figure_of_one_column_is_not_cut() -> None:
    assert panels.cut(figure(1)) == []


def test_there_is_a_legend_and_a_picture_for_each_column() -> None:
    parts = [Image.open(io.BytesIO(part)) for part in panels.cut(figure(3))]
    assert len(parts) == 1 + 3
    widths = [part.width for part in parts[1:]]
    assert max(widths) < 1.3 * min(widths)  # each is one column, none is all of them
    assert sum(widths) < 1.2 * 9 * style.DOTS_PER_INCH


def test_every_column_has_the_label_and_the_numbers_of_its_rows() -> None:
    drawn = figure(2)
    second = [ax for ax in drawn.axes if ax.get_subplotspec().colspan.start == 1]  # type: ignore[union-attr]
    assert [ax.get_ylabel() for ax in second] == ["", ""]
    panels.cut(drawn)
    assert [ax.get_ylabel() for ax in second] == ["above", "below"]
    assert all(any(t.get_visible() for t in ax.get_yticklabels()) for ax in second)
    assert not any(legend.get_visible() for legend in drawn.legends)


def test_columns_with_numbers_of_their_own_keep_them() -> None:
    drawn = figure(2, common=False)
    second = drawn.axes[1]
    before = second.get_ylim()
    panels.cut(drawn)
    assert second.get_ylim() == before
