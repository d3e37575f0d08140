"""A source of data, as `[data]` of site.toml describes it: a table, readings by their time, or both.

    class CsvSource(TimedSource):       a frozen dataclass: its fields are the keys of [data]
        name, endings = "csv", (".csv",)
        def table(self): ...            what `asking.tables.open_table` takes
        def readings(self, start, end, now): ...       columns of the records of [start, end)

A source answers what it is asked and keeps nothing: no value is written anywhere. It raises `FleetError`
where it is described wrongly or a value is of the wrong kind, and `SourceBusyError` where it may answer
later.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from veilsum import _validate
from veilsum._registry import Registry
from veilsum.errors import FleetError
from veilsum.fleet.plain import made_of

Columns = dict[str, NDArray[Any]]


class SourceBusyError(FleetError):
    """A source that cannot be read now, and may be later."""


SOURCES: Registry[type[DataSource]] = Registry("source", "veilsum.fleet.sources", FleetError)


@dataclass(frozen=True)
class DataSource:
    """Data of a site; abstract."""

    name: ClassVar[str]
    endings: ClassVar[tuple[str, ...]] = ()  # of paths that it reads unless another is named

    def __init_subclass__(cls) -> None:
        """Register a source that states its name."""
        super().__init_subclass__()
        SOURCES.enlist(cls)

    @property
    def where(self) -> str:
        """What it is, for errors; without passwords and values."""
        return f"the source {self.name}"

    def table(self) -> Any:
        """All data, as `asking.tables.open_table` takes them, for a question about a whole table."""
        raise FleetError(
            f"{self.where} has no table, only readings by their time: ask a question that has a schedule"
        )

    def readings(self, start: int, end: int, now: int | None = None) -> Columns | None:
        """The records of [start, end), columns by name; None if they are not there yet.

        Only what shows nothing but its present value looks at `now`.
        """
        del start, end, now
        raise FleetError(
            f'{self.where} has no readings by their time: say in [data] which column has it, time = "at"'
        )

    def columns(self) -> list[str] | None:
        """The names of its columns; None if nobody knows them before a reading is there."""
        return None


def open_source(data: Mapping[str, Any], folder: Path) -> DataSource:
    """The source that `[data]` of site.toml describes.

    >>> open_source({"path": "meters.csv", "time": "at"}, Path("/srv/site")).where
    'meters.csv'
    """
    keys = dict(data)
    kind = SOURCES.get(str(keys.pop("source"))) if "source" in keys else _by_ending(keys)
    return made_of(kind, keys, f"[data] of source {kind.name}", folder)


def secret(variable: str, key: str) -> str | None:
    """What an environment variable has that [data] names; None if it names none."""
    if not variable:
        return None
    found = os.environ.get(variable)
    if found is None:
        raise FleetError(
            f"[data] {key} names the environment variable {_validate.found(variable)}, which is not "
            "set: set it for the process of this site, such as by EnvironmentFile of its systemd unit"
        )
    return found


def seconds_now(now: int | None) -> int:
    """The time that was given, or the clock's."""
    return int(time.time()) if now is None else now


def _by_ending(keys: Mapping[str, Any]) -> type[DataSource]:
    ending = Path(str(keys.get("path", ""))).suffix.lower()
    found = next((kind for kind in SOURCES.values() if ending and ending in kind.endings), None)
    if found is None:
        raise FleetError(
            f'[data] needs source = "...", one of {", ".join(SOURCES.names())}; only a path that ends in '
            f"{', '.join(e for kind in SOURCES.values() for e in kind.endings)} says it itself"
        )
    return found
