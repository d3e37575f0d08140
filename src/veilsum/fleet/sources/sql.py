"""Rows of a table or a query in a database, over SQLAlchemy.

    SELECT * FROM (table or query) WHERE time >= :start AND time < :end

The bounds are sent in the type that the column has: a time with a zone, one without, or a number. Where times
are text, all rows are read and compared here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from veilsum import _extras, _validate
from veilsum.asking.tables import ArrayTable
from veilsum.errors import FleetError, MissingExtraError
from veilsum.fleet.periods import zone_of
from veilsum.fleet.sources.base import Columns, SourceBusyError, secret
from veilsum.fleet.sources.records import TimedSource

_DAY = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class SqlSource(TimedSource):
    """Rows of a database."""

    name = "sql"

    url: str  # as for SQLAlchemy, without a password: "postgresql+psycopg://user@host/database"
    from_table: str = ""  # with a schema if there is one: "public.loads"
    query: str = ""  # a SELECT, in place of a table
    password_env: str = ""  # variable with the password

    def __post_init__(self) -> None:
        """Check what does not need the database."""
        super().__post_init__()
        if bool(self.from_table) == bool(self.query):
            raise FleetError("[data] of source sql needs either from_table or query")
        self._address()

    @property
    def where(self) -> str:
        """The database and the table."""
        place = f"table {self.from_table}" if self.from_table else "the query"
        return f"{place} of {self._address().render_as_string(hide_password=True)}"

    def table(self) -> Any:
        """All rows, as columns."""
        with self._connected() as (sql, connection):
            return _columns(connection.execute(self._rows(sql)))

    def readings(self, start: int, end: int, now: int | None = None) -> Columns | None:
        """The rows of these times."""
        if not self.time:
            return super().readings(start, end, now)
        with self._connected() as (sql, connection):
            rows, time = self._rows(sql), sql.column(self.time)
            first = connection.execute(rows.where(time.is_not(None)).limit(1)).mappings().first()
            if first is None:
                return None
            if self.time not in first:
                raise FleetError(
                    f"{self.where} has no column {self.time!r}; it has {', '.join(first)}"
                )
            bounds = self._bounds(first[self.time], start, end)
            if bounds is not None:
                rows = rows.where(time >= bounds[0], time < bounds[1])
            found = _columns(connection.execute(rows.where(time.is_not(None))))
        return self.within(ArrayTable(found, self.where), start, end)

    def columns(self) -> list[str]:
        """Those of the answer, of which no row is read."""
        with self._connected() as (sql, connection):
            return list(connection.execute(self._rows(sql).where(sql.false())).keys())

    def _bounds(self, value: Any, start: int, end: int) -> tuple[Any, Any] | None:
        """Both times in the type of a value of the column; None if they must be compared here."""
        if isinstance(value, datetime):
            zone = UTC if value.tzinfo else zone_of(self.zone or "UTC")
            both = [datetime.fromtimestamp(time, zone) for time in (start, end)]
            one, other = (x if value.tzinfo else x.replace(tzinfo=None) for x in both)
            # where clocks go back, local times are not in order: those around are read as well
            return (one, other) if value.tzinfo else (one - _DAY, other + _DAY)
        if not np.isnan(_validate.as_float(value)):
            return start, end
        return None

    def _rows(self, sql: Any) -> Any:
        if self.query:
            plain = self.query.strip().rstrip(";").replace(":", "\\:")  # no parameters
            inner = sql.text(f"({plain}) as readings")
            return sql.select(sql.text("*")).select_from(inner)
        schema, _, name = self.from_table.rpartition(".")
        return sql.select(sql.text("*")).select_from(sql.table(name, schema=schema or None))

    def _address(self) -> Any:
        sql = _extras.load("sqlalchemy")
        try:
            found = sql.engine.make_url(self.url)
        except sql.exc.ArgumentError:
            raise FleetError(
                '[data] url must be an address such as "postgresql+psycopg://user@host/database"'
            ) from None
        if found.password is not None:
            raise FleetError(
                "[data] url must have no password: put it into an environment variable, and name that with "
                'password_env = "METER_PASSWORD"'
            )
        return found

    @contextmanager
    def _connected(self) -> Iterator[tuple[Any, Any]]:
        """SQLAlchemy and a connection; errors by type and SQLSTATE, as a driver's text may quote a row."""
        sql = _extras.load("sqlalchemy")
        address = self._address()
        password = secret(self.password_env, "password_env")
        if password is not None:
            address = address.set(password=password)
        try:
            engine = sql.create_engine(address, poolclass=sql.NullPool, hide_parameters=True)
        except (sql.exc.ArgumentError, ImportError):
            raise MissingExtraError(
                f"{self.where} needs the driver {address.drivername}: {_extras.install_command('sql')} has "
                "the one for PostgreSQL (postgresql+psycopg)"
            ) from None
        try:
            with engine.connect() as connection:
                yield sql, connection
        except (sql.exc.SQLAlchemyError, OSError) as problem:
            cause = getattr(problem, "orig", None) or problem
            state = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None)
            code = f", {state}" if state else ""
            raise SourceBusyError(
                f"{self.where} cannot be read ({type(cause).__name__}{code}); check the database, the "
                "password and the names; it is tried again with the next step"
            ) from None
        finally:
            engine.dispose()


def _columns(result: Any) -> dict[str, list[Any]]:
    """Rows as columns; decimals as floats."""
    rows = result.all()
    return {name: [_number(row[k]) for row in rows] for k, name in enumerate(result.keys())}


def _number(value: Any) -> Any:
    return float(value) if type(value).__name__ == "Decimal" else value
