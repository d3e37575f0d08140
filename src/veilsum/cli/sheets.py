"""What a verb does with its sheet: write the page, the table and a figure, and print it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilsum.cli.guard import print_json

if TYPE_CHECKING:
    from veilsum.front.sheet import Answers


def check_places(name: str, stem: Path | None, plot: Path | None) -> None:
    """Raise before anything is computed if something else is where the files go."""
    from veilsum.front.files import check_figure, places

    places(name, stem)
    if plot is not None:
        check_figure(plot)


def give(
    answers: Answers, stem: Path | None, plot: Path | None, as_json: bool, **more: Any
) -> None:
    """Write the files of a sheet, and print the screen or a JSON object with `more` in it."""
    from veilsum.front.files import save_figure
    from veilsum.front.terminal import show

    written = answers.save(stem)
    if plot is not None:
        save_figure(answers, plot)
        written.append(plot)
    if as_json:
        print_json(answers.to_dict() | more | {"files": [str(path) for path in written]})
    else:
        show(answers, written)
