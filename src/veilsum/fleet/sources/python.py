"""Functions of the site's own Python file: what no other source can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
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

    def _called(self, function: Callable[..., Any], *arguments: int) -> Any:
        """Its result; its errors by type and line, as their text may show a value."""
        try:
            return function(*arguments)
        except Exception as problem:
            raise self._failed(problem) from None

    def _failed(self, problem: BaseException) -> FleetError:
        trace, line = problem.__traceback__, 0
        while trace is not None:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == str(self.path) else line
            trace = trace.tb_next
        return FleetError(
            f"{self.path.name}, line {line}: {type(problem).__name__}; run the file by hand to see more"
        )

    def _function(self, name: str) -> Callable[..., Any] | None:
        spec = spec_from_file_location(f"_site_{self.path.stem}", self.path)
        if spec is None or spec.loader is None or not self.path.is_file():
            raise FleetError(f"there is no Python file {self.path}; correct path in [data]")
        module = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as problem:
            raise self._failed(problem) from None
        found: Callable[..., Any] | None = getattr(module, name, None)
        return found
