"""Parquet files: each is complete, or not there."""

from __future__ import annotations

from dataclasses import dataclass

from veilsum.asking.tables import Table, open_table
from veilsum.fleet.sources.csv import CsvSource


@dataclass(frozen=True)
class ParquetSource(CsvSource):
    """Rows of Parquet files: write a file under another name, and rename it when it is complete."""

    name = "parquet"
    endings = (".parquet", ".pq")

    def _tables(self) -> Table:
        found = [open_table(path) for path in self._files()]
        return found[0] if len(found) == 1 else open_table(found)
