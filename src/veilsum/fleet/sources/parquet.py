"""Parquet files: each is complete, or not there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from veilsum.asking.tables import Table, open_table
from veilsum.fleet.sources.csv import CsvSource


@dataclass(frozen=True, kw_only=True)
class ParquetSource(CsvSource):
    """Rows of Parquet files: write a file under another name, and rename it when it is complete."""

    name = "parquet"
    endings = (".parquet", ".pq")

    def _opened(self, path: Path) -> Table:
        return open_table(path)
