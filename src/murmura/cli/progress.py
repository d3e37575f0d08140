"""A progress bar on stderr, for work that lasts: nothing below two seconds, nothing in a pipe."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE = 2.0  # seconds


class Bar:
    """with Bar(total) as bar: bar.tell("offline", t)."""

    def __init__(self, total: int) -> None:
        """Count to `total` steps from now."""
        self.total, self.done = total, 0
        self.began = time.monotonic()
        self.shown: Progress | None = None
        self.task: Any = None

    def __enter__(self) -> Self:
        """Show nothing yet."""
        return self

    def __exit__(self, *problem: object) -> None:
        """Take the bar away."""
        if self.shown is not None:
            self.shown.stop()

    def tell(self, name: str) -> None:
        """One step of `name` is done."""
        self.done += 1
        if self.shown is None and sys.stderr.isatty() and self._late():
            self._show()
        if self.shown is not None:
            self.shown.update(self.task, completed=self.done, description=name)

    def _late(self) -> bool:
        return time.monotonic() - self.began > PATIENCE

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self.shown = Progress(console=Console(stderr=True), transient=True)
        self.task = self.shown.add_task("", total=self.total)
        self.shown.start()
