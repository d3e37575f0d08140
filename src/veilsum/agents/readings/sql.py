"""Rows of a table or a query, over SQLAlchemy.

    SELECT key, values FROM table WHERE key >= :lowest ORDER BY key

Rows are read in the order of their key, from the beginning at each start; those that were released
are recognised by it. A transaction may commit a row after rows with higher keys: at every look the
last `LOOK_BACK` keys are read again, and a row that is later still is found at the next start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from veilsum._extras import install_command
from veilsum.agents.readings import arguments
from veilsum.agents.readings.base import Notice, Pauses
from veilsum.agents.readings.polled import Fields, Item, PolledReadings, UnavailableError, key_text
from veilsum.errors import AgentError, MissingExtraError, SignalError

LOOK_BACK = 1000  # keys that are read again at every look
PAGE = 1000  # rows in one answer


class SqlReadings(PolledReadings):
    """The rows of a table or a query, in the order of a key.

    Parameters
    ----------
    url : str
        As for SQLAlchemy, without a password: "postgresql+psycopg://user@host/database".
    key : str
        The column that identifies a row and grows.
    columns : str or sequence of str
        The columns with the values.
    table : str, optional
        Where the rows are, with a schema if there is one: "public.loads".
    query : str, optional
        Instead of a table: a SELECT that returns the columns.
    password : str, optional
        For the database.
    time : str, optional
        The column with the time of a reading.
    interval : float or str
        Seconds between two looks, or a time such as "10m".
    pauses : Pauses, optional
        How long to wait after failures.
    connect : bool
        Whether to begin at once; otherwise only the arguments are checked.

    Raises
    ------
    MissingExtraError
        Without SQLAlchemy or the driver of the database.
    AgentError
        If the address cannot be used.

    Examples
    --------
    >>> import sqlite3, time
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "meter.db"
    ...     with sqlite3.connect(file) as database:
    ...         _ = database.execute("CREATE TABLE loads (id INTEGER PRIMARY KEY, kwh REAL)")
    ...         _ = database.execute("INSERT INTO loads VALUES (1, 42.5)")
    ...     database.close()
    ...     readings = SqlReadings(f"sqlite:///{file}", "id", "kwh", table="loads")
    ...     value = readings.next()
    ...     while not isinstance(value, float):
    ...         time.sleep(0.01)
    ...         value = readings.next()
    ...     readings.close()
    >>> value
    42.5
    """

    def __init__(
        self,
        url: str,
        key: str,
        columns: str | Sequence[str],
        *,
        table: str | None = None,
        query: str | None = None,
        password: str | None = None,
        time: str | None = None,
        interval: float | str = 10.0,
        pauses: Pauses | None = None,
        connect: bool = True,
    ) -> None:
        """Begin to read, in a thread of its own."""
        sql = self._sql = _sqlalchemy()
        arguments.texts(table=table, query=query, password=password)
        if (table is None) == (query is None):
            raise AgentError("give one of table and query")
        self._fields = Fields(columns, key, time)
        if len(self._fields.key) != 1 or not self._fields.columns:
            raise AgentError("a table needs one key column and at least one column of values")
        url = arguments.text("sql", url, 'an address such as "postgresql+psycopg://user@host/db"')
        address = _address(sql, url, password)
        where = f"the database {address.render_as_string(hide_password=True)}"
        place = f"table {table}" if query is None else "query"
        super().__init__(f"sql {place}, {self._fields.naming}", where, interval, pauses)
        self._place = place
        self._statement = self._select(table, query)
        try:
            self._engine = sql.create_engine(
                address, poolclass=sql.NullPool, hide_parameters=True, echo=False
            )
        except sql.exc.ArgumentError:
            raise AgentError(
                f"{where} cannot be used: there is no driver {address.drivername}, or the address "
                "does not fit it"
            ) from None
        except ImportError as problem:
            raise MissingExtraError(
                f"{where} needs the driver {address.drivername}: {install_command('sql')} has the "
                f"one for PostgreSQL (postgresql+psycopg); {problem.name} is missing"
            ) from None
        self._keys: deque[Any] = deque(maxlen=LOOK_BACK)  # the last ones, ascending
        self._recent: set[str] = set()
        self._row, self._counted_nulls = 0, False
        if connect:
            self._start()

    def close(self) -> None:
        """Stop reading, and close the connection."""
        super().close()
        self._engine.dispose()

    def _select(self, table: str | None, query: str | None) -> Any:
        """The key, the values and the time of all rows."""
        sql = self._sql
        names = [*self._fields.key, *self._fields.columns]
        names += [self._fields.time] if self._fields.time else []
        columns = [sql.column(name) for name in dict.fromkeys(names)]
        if query is not None:
            return sql.select(*columns).select_from(
                sql.text(query.strip().rstrip(";")).columns(*columns).subquery("readings")
            )
        schema, _, name = (table or "").rpartition(".")
        return sql.select(*columns).select_from(sql.table(name, schema=schema or None))

    def _fetch(self) -> Iterator[Item]:
        try:
            connection = self._engine.connect()
        except Exception as problem:
            raise self._unavailable("cannot be reached", problem) from None
        with connection:
            try:
                self._count_nulls(connection)
                yield from self._scan(connection)
            except (self._sql.exc.SQLAlchemyError, OSError, TypeError) as problem:
                raise self._unavailable("cannot be read", problem) from None

    def _scan(self, connection: Any) -> Iterator[Item]:
        """All rows from the oldest key that is read again."""
        key = self._sql.column(self._fields.key[0])
        enough = len(self._keys) == self._keys.maxlen
        lowest, strictly = (self._keys[0] if enough else None), False
        while not self._stopping.is_set():
            statement = self._statement.where(key.is_not(None)).order_by(key).limit(PAGE)
            if lowest is not None:
                statement = statement.where(key > lowest if strictly else key >= lowest)
            rows = connection.execute(statement).mappings().all()
            connection.rollback()  # no transaction is left open while readings wait
            for row in rows:
                yield from self._new(dict(row))
            if len(rows) < PAGE:
                return
            lowest, strictly = rows[-1][self._fields.key[0]], True

    def _new(self, row: dict[str, Any]) -> Iterator[Item]:
        """The row as a reading, if it was not fetched before."""
        raw = row[self._fields.key[0]]
        try:
            text = key_text(raw, self._place)
        except SignalError:
            text = ""
        if text and text in self._recent:
            return
        self._row += 1
        where = f"{self._place}, row {self._row} in the order of {self._fields.key[0]}"
        yield self._fields.item(row, where)  # taken from here on: a key is kept only after that
        if text:
            self._remember(raw, text)

    def _remember(self, raw: Any, text: str) -> None:
        late = bool(self._keys) and raw < self._keys[-1]
        self._recent.add(text)
        if late:
            place = next(k for k, other in enumerate(self._keys) if raw < other)
            if len(self._keys) == self._keys.maxlen:
                self._forget(self._keys.popleft())
                place -= 1
            self._keys.insert(max(place, 0), raw)
            return
        if len(self._keys) == self._keys.maxlen:
            self._forget(self._keys[0])
        self._keys.append(raw)

    def _forget(self, raw: Any) -> None:
        self._recent.discard(key_text(raw, self._place))

    def _count_nulls(self, connection: Any) -> None:
        """Say once if rows have no key: they are no readings."""
        if self._counted_nulls:
            return
        key = self._sql.column(self._fields.key[0])
        inner = self._statement.where(key.is_(None)).subquery("without_key")
        count = connection.execute(self._sql.select(self._sql.func.count()).select_from(inner))
        found = count.scalar_one()
        self._counted_nulls = True
        if found:
            self._notices.append(
                Notice(
                    f"{found} rows of {self._place} have no {self._fields.key[0]}: nothing identifies "
                    "them, and they are left out"
                )
            )

    def _unavailable(self, what: str, problem: Exception) -> UnavailableError:
        """By type and SQLSTATE: the text of a driver may quote a row or a password."""
        cause = getattr(problem, "orig", None) or problem
        state = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None)
        code = f", {state}" if state else ""
        return UnavailableError(f"{self.where} {what} ({type(cause).__name__}{code})")


def _address(sql: Any, url: str, password: str | None) -> Any:
    try:
        found = sql.engine.make_url(url)
    except sql.exc.ArgumentError:
        raise AgentError(
            'sql must be an address such as "postgresql+psycopg://user@host/database"'
        ) from None
    if found.password is not None:
        raise AgentError("sql must have no password; use password_file or password_env")
    return found if password is None else found.set(password=password)


def _sqlalchemy() -> Any:
    try:
        return import_module("sqlalchemy")
    except ImportError as problem:
        raise MissingExtraError(f"SQL needs SQLAlchemy: {install_command('sql')}") from problem
