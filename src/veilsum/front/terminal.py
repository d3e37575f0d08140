"""The terminal: its width, colours on a sheet's headings, and one progress bar.

What is not a terminal gets plain text of 80 columns.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from veilsum.front.screen import WIDTH, screen, wrapped

if TYPE_CHECKING:
    from rich.progress import Progress

    from veilsum.front.sheet import Answers

PATIENCE = 2.0  # seconds before a bar is shown
NARROWEST = 40
COLOURS = {
    "PROVED": "32", "ESTIMATED": "33", "CLAIMED": "33", "REFUTED": "31", "NO PROMISE": "31",
    "CONFIRMED": "32", "TRUE, UNINFORMATIVE": "33", "CORRECTED": "33", "FAILED": "31",
    "BEYOND": "33",
}  # fmt: skip
HEADING = re.compile(rf"^({'|'.join(COLOURS)})", re.M)


def width() -> int:
    """Columns of the terminal; 80 where there is none."""
    if not sys.stdout.isatty():
        return WIDTH
    return max(NARROWEST, shutil.get_terminal_size((WIDTH, 24)).columns)


def show(answers: Answers, files: Sequence[Path] = ()) -> None:
    """Print the screen of a sheet; verdicts in colour where there is a terminal."""
    text = screen(answers, width(), files)
    if _coloured():
        text = HEADING.sub(lambda found: f"\x1b[1;{COLOURS[found[1]]}m{found[1]}\x1b[0m", text)
    say(text)


def say(text: str) -> None:
    """Print lines."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def say_sentence(text: str) -> None:
    """Print a sentence, wrapped between words."""
    say("\n".join(wrapped(text, width())))


def _coloured() -> bool:
    return (
        sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


class Bar:
    """A progress bar on stderr: shown after two seconds, also during one long step; never in a pipe.

    with Bar() as bar: bar.step("offline", 3, 100)
    """

    def __init__(self) -> None:
        """Show nothing yet."""
        self.display: Progress | None = None
        self.task: Any = None
        self.latest: dict[str, Any] = {"description": "", "completed": 0, "total": None}
        self.lock = threading.Lock()
        self.timer = threading.Timer(PATIENCE, self._show)
        self.timer.daemon = True

    def __enter__(self) -> Self:
        """Start the clock."""
        if sys.stderr.isatty():
            self.timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Remove the bar."""
        if self.timer.ident is not None:
            self.timer.cancel()
            self.timer.join()
        if self.display is not None:
            self.display.stop()

    def step(self, name: str, done: int, total: int) -> None:
        """`done` of `total` steps of `name` are done."""
        with self.lock:
            self.latest = {"description": name, "completed": done, "total": total}
            if self.display is not None:
                self.display.update(self.task, **self.latest)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        with self.lock:
            self.display = Progress(console=Console(stderr=True), transient=True)
            self.task = self.display.add_task(**self.latest)
            self.display.start()
