"""A site: a folder with site.toml and site.db, and what it has in each fleet.

`Site.open` holds site.db alone until it is closed, so that two steps cannot overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

from veilsum.asking.codebook import codebook_of
from veilsum.asking.codebook_contents import Codebook
from veilsum.errors import FleetError
from veilsum.fleet.config import SiteConfig, read_site_config
from veilsum.fleet.database import SiteFile
from veilsum.fleet.encoding import EncodedSite, encode
from veilsum.fleet.ledger import SiteLedger
from veilsum.fleet.membership import Member
from veilsum.fleet.post import public
from veilsum.fleet.question import FleetQuestion, Worded
from veilsum.fleet.seat import Seat
from veilsum.fleet.sources import DataSource, open_source
from veilsum.fleet.store import Store, open_store

TOML = "site.toml"


class LocalData:
    """The readings of a site, as protocols see them: encoded; `name` is theirs in the ledger."""

    def __init__(
        self, source: DataSource, name: str, book: Codebook | None, decimal: str = "."
    ) -> None:
        """Without reading anything."""
        self._source, self.source, self.book, self._decimal = source, name, book, decimal

    def columns(self) -> list[str] | None:
        """Names of its columns, if they are known without a reading."""
        return self._source.columns()

    def table(self, question: FleetQuestion) -> EncodedSite:
        """All rows, encoded for a question."""
        return encode(question, self._source.table(), decimal=self._decimal, codebook=self.book)

    def records(self) -> int:
        """How many rows the table has."""
        count = FleetQuestion(
            asks=(Worded("count", ()),), epsilon=1.0, protocol="pool", rows_public=True
        )
        return encode(count, self._source.table(), decimal=self._decimal).records

    def readings(
        self, question: FleetQuestion, start: int, end: int, now: int
    ) -> EncodedSite | None:
        """Those of a time, encoded; None if they are not there yet."""
        found = self._source.readings(start, end, now)
        return encode(question, found, codebook=self.book) if _any(found) else None

    def present(self, start: int, end: int, now: int) -> bool:
        """Whether there are readings of a time."""
        return _any(self._source.readings(start, end, now))


def _any(columns: Mapping[str, Any] | None) -> TypeGuard[Mapping[str, Any]]:
    return columns is not None and len(next(iter(columns.values()), ())) > 0


class Site:
    """An open site."""

    def __init__(
        self, folder: Path, *, durable: bool = True, stores: Callable[[str], Store] = open_store,
        source: DataSource | None = None,
    ) -> None:  # fmt: skip
        """Open it, or raise `SiteBusyError` while another step has it."""
        self.folder = Path(folder)
        self.config: SiteConfig = read_site_config(self.folder / TOML)
        with ExitStack() as stack:
            self.file = stack.enter_context(SiteFile(self.config.database, durable=durable))
            self.public = public(self.file.key)
            with self.file.transaction():
                self.ledger = SiteLedger(self.file.db, self.config.budget, self.public.hex())
            self._source, self._stores = source, stores
            self.seats: Mapping[str, Seat] = {
                one.address: Seat(
                    self.file, bytes.fromhex(one.authority), self._opened(one.address, stack)
                )
                for one in self.config.fleets
            }
            self._stack = stack.pop_all()

    def _opened(self, address: str, stack: ExitStack) -> list[Store]:
        found = self._stores(address if "://" in address else str(self.config.path(address)))
        if self._stores is open_store:
            stack.callback(found.close)
        return [found]

    def close(self) -> None:
        """Let another step have it."""
        self._stack.close()

    def __enter__(self) -> Site:
        """Open until the block ends."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def seat(self, address: str | None = None) -> Seat:
        """The place in one fleet; the only one without an address."""
        return self.seats[self.config.fleet(address).address]

    @cached_property
    def data(self) -> LocalData | None:
        """Its readings; None for a member without."""
        if self._source is None and not self.config.data:
            return None
        source = self._source or open_source(self.config.data, self.folder)
        table: Any = self.config.data.get("path")
        book = codebook_of(self.config.path(table), None) if isinstance(table, str) else None
        return LocalData(source, "data", book, str(self.config.data.get("decimal", ".")))

    def member(self, seat: Seat) -> Member:
        """Who it is in a fleet."""
        return seat.member

    def needed_data(self) -> LocalData:
        """Its readings, or an error that says that it has none."""
        if self.data is None:
            raise FleetError(
                f"{self.folder / TOML} has no [data]: this member asks, and is not asked"
            )
        return self.data
