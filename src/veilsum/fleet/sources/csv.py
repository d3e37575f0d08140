"""A CSV file, or several, which may grow and be rotated: a line counts once it has ended."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from veilsum.asking.tables import Table, open_table
from veilsum.asking.text_tables import CsvTable, Line
from veilsum.errors import FleetError
from veilsum.fleet.sources.base import Columns
from veilsum.fleet.sources.records import TimedSource


class GrowingCsv(CsvTable):
    """A CSV file whose last line may be written just now: what is after the last end of line is left out."""

    def _lines(self) -> Iterator[Line]:
        data = self._file.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        with io.TextIOWrapper(io.BytesIO(whole), encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=self._delimiter, strict=True)
            lines = whole.count(b"\n")
            try:
                for fields in reader:
                    if fields:
                        yield reader.line_num, fields
            except csv.Error as error:
                if reader.line_num < lines or "unexpected end" not in str(error):
                    raise FleetError(f"{self.name}, line {reader.line_num:,}: {error}") from None
            except UnicodeDecodeError:
                raise self._undecoded() from None


@dataclass(frozen=True, kw_only=True)
class CsvSource(TimedSource):
    """Rows of CSV files."""

    name = "csv"
    endings: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".txt")

    path: Path  # a file, or a pattern such as "load*.csv" for a file and those it was rotated to
    decimal: str = "."  # "." or ","

    @property
    def where(self) -> str:
        """The file."""
        return self.path.name

    def table(self) -> Any:
        """The file, or all of them."""
        found = self._files()
        return found[0] if len(found) == 1 else found

    def readings(self, start: int, end: int, now: int | None = None) -> Columns | None:
        """The rows of all files."""
        if not self.time:
            return super().readings(start, end, now)
        return self.within(self._tables(), start, end)

    def columns(self) -> list[str]:
        """Of the first line."""
        return list(self._tables().columns)

    def _tables(self) -> Table:
        found = [self._opened(path) for path in self._files()]
        return found[0] if len(found) == 1 else open_table(found)

    def _opened(self, path: Path) -> Table:
        return GrowingCsv(path, self.decimal)

    def _files(self) -> list[Path]:
        if self.path.is_file():
            return [self.path]
        found = sorted(self.path.parent.glob(self.path.name))
        if not found:
            raise FleetError(
                f"there is no file {self.path}; correct path in [data], or write the file, names first"
            )
        return found
