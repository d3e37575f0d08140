"""What a verb does with its sheet: write the page, the table and a figure, and print it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilsum.cli.guard import print_json

if TYPE_CHECKING:
    from veilsum.front.sheet import Answers

Written = list[tuple["Answers", list[Path]]]


def check_places(name: str, stem: Path | None, plot: Path | None, truth: bool = False) -> Path:
    """Raise before anything is computed if something else is where the files go; their stem."""
    from veilsum.front.files import check_figure, places

    places(name, stem, secret=truth)
    if plot is not None:
        check_figure(plot)
    return places(name, stem)[0].with_suffix("")


def written(answers: Answers, stem: Path | None, plot: Path | None = None) -> list[Path]:
    """Write the files of a sheet, and its figure if one is asked for."""
    from veilsum.front.files import save_figure

    found = answers.save(stem)
    if plot is not None:
        save_figure(answers, plot)
        found.append(plot)
    return found


def tell(sheets: Written, as_json: bool, **more: Any) -> None:
    """Print the screen of each sheet, or a JSON object with `more` in it, which has nothing secret."""
    from veilsum.front.files import stale_secrets
    from veilsum.front.terminal import show

    files = [path for _, paths in sheets for path in paths]
    if as_json:
        print_json(sheets[0][0].to_dict() | more | {"files": [str(path) for path in files]})
    else:
        for answers, paths in sheets:
            show(answers, paths)
    for path in stale_secrets(files):
        print(f"note: {path} is of an earlier run, and secret", file=sys.stderr)
