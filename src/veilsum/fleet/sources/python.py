"""Functions of the site's own Python file: what no other source can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np

from veilsum.asking.tables import open_table
from veilsum.errors import FleetError
from veilsum.fleet.sources.base import Columns, DataSource


@dataclass(frozen=True, kw_only=True)
class PythonSource(DataSource):
    """A Python file with a function `table()`, or `readings(start, end)`, or both; `columns()` if it likes.

    `readings` returns columns by name, or None if they are not there yet; `table` returns what `open_table`
    takes.
    """

    name = "python"
    endings = (".py",)

    path: Path  # runs with all rights of this site

    @property
    def where(self) -> str:
        """The file."""
        return self.path.name

    def table(self) -> Any:
        """What `table()` returns."""
        found = self._function("table")
        return super().table() if found is None else self._called(found)

    def readings(self, start: int, end: int, now: int | None = None) -> Columns | None:
        """What `readings(start, end)` returns."""
        del now
        asked = self._function("readings")
        if asked is None:
            raise FleetError(f"{self.where} has no function readings(start, end): add one")
        found = self._called(asked, start, end)
        if found is None:
            return None
        if not isinstance(found, Mapping):
            raise FleetError(
                f"{self.where}: readings(start, end) must return columns by name, such as {{'kwh': [..]}}, "
                f"or None; found {type(found).__name__}"
            )
        table = open_table(found)
        (only,) = list(table.batches(table.columns)) if table.rows() <= 1 << 15 else [found]
        return {name: np.asarray(only[name]) for name in table.columns}

    def columns(self) -> list[str] | None:
        """What `columns()` returns, or those of the table."""
        for name in ("columns", "table"):
            asked = self._function(name)
            if asked is not None:
                found = self._called(asked)
                return list(found) if name == "columns" else list(open_table(found).columns)
        return None

    def _function(self, name: str) -> Callable[..., Any] | None:
        if not self.path.is_file():
            raise FleetError(f"there is no Python file {self.path}; correct path in [data]")
        found: Callable[..., Any] | None = self._called(run_path, str(self.path)).get(name)
        return found

    def _called(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Its result; its errors by type and line, as their text may show a value."""
        try:
            return function(*arguments)
        except Exception as problem:
            at, line = problem.__traceback__, 0
            while at is not None:
                line = at.tb_lineno if at.tb_frame.f_code.co_filename == str(self.path) else line
                at = at.tb_next
            raise FleetError(
                f"{self.path.name}, line {line}: {type(problem).__name__}; run the file by hand to see more"
            ) from None
