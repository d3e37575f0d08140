"""[readings] of agent.toml: the source that it describes, opened or only checked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from veilsum._toml import SourceMap
from veilsum.agents.config_tables import SQLITE, ReadingsTable
from veilsum.agents.readings import (
    CommandReadings,
    CsvReadings,
    HttpReadings,
    MqttReadings,
    Readings,
    SqlReadings,
    secret_of,
)
from veilsum.errors import AgentError


@dataclass(frozen=True)
class ReadingsSource:
    """The source of an agent's readings, as its file describes it.

    Parameters
    ----------
    table : ReadingsTable
        [readings].
    client : str
        How the agent introduces itself to a broker, unless the table says.
    path : callable
        From a path as it is written to where it is.
    locator : SourceMap
        Where keys are in the file, for errors.
    """

    table: ReadingsTable
    client: str
    path: Callable[[str], Path]
    locator: SourceMap

    def open(self, connect: bool = True) -> Readings:
        """Open it; without `connect`, a source over a network stays away from it."""
        chosen = self.table
        with self.locator.errors_at("readings", chosen.source):
            if chosen.csv is not None:
                return self._csv(chosen.csv, chosen.follow)
            if chosen.command is not None:
                return CommandReadings(chosen.command, keyed=chosen.key is not None)
            if chosen.mqtt is not None:
                return self._mqtt(chosen.mqtt, connect)
            if chosen.sql is not None:
                return self._sql(chosen.sql, connect)
            assert chosen.http is not None, "the table has one source"
            return self._http(chosen.http, connect)

    def check(self) -> None:
        """Raise unless it exists and has the columns; see `Setup.check_readings`."""
        chosen = self.table
        if chosen.command is not None:
            program = chosen.command[0]
            if shutil.which(program) is None:
                raise AgentError(
                    f"{self.locator.at('readings', 'command')}: there is no program {program!r}; "
                    "give its path, or install it"
                )
            return
        if chosen.csv is None:
            self.open(connect=False).close()
            return
        with self.locator.errors_at("readings"):
            found = self._csv(chosen.csv, follow=False)
            found.close()
            if not (found.has_header or chosen.follow):
                raise AgentError(f"{found.path} is empty; expected a line of column names")

    def _csv(self, file: str, follow: bool) -> CsvReadings:
        chosen = self.table
        return CsvReadings(self.path(file), chosen.column, follow, chosen.key, chosen.time)

    def _mqtt(self, broker: str, connect: bool) -> Readings:
        chosen = self.table
        assert chosen.topic is not None
        return MqttReadings(
            broker,
            chosen.topic,
            chosen.key or (),
            chosen.column or (),
            client=chosen.client or self.client,
            user=chosen.user,
            password=self._secret(chosen.password_file),
            ca=self._file(chosen.ca),
            certificate=self._file(chosen.certificate),
            certificate_key=self._file(chosen.certificate_key),
            time=chosen.time,
            connect=connect,
        )

    def _sql(self, address: str, connect: bool) -> Readings:
        chosen = self.table
        assert isinstance(chosen.key, str)
        file = address.removeprefix(SQLITE)
        is_file = file != address and file not in ("", ":memory:")
        return SqlReadings(
            f"{SQLITE}{self.path(file)}" if is_file else address,
            chosen.key,
            chosen.column or (),
            table=chosen.table,
            query=chosen.query,
            password=self._secret(chosen.password_file, chosen.password_env),
            time=chosen.time,
            interval=chosen.interval,
            connect=connect,
        )

    def _http(self, address: str, connect: bool) -> Readings:
        chosen = self.table
        return HttpReadings(
            address,
            chosen.key or (),
            chosen.column or (),
            items=chosen.items,
            token=self._secret(chosen.token_file),
            ca=self._file(chosen.ca),
            time=chosen.time,
            interval=chosen.interval,
            timeout=chosen.timeout,
            largest=chosen.largest,
            connect=connect,
        )

    def _file(self, written: str | None) -> str | None:
        return None if written is None else str(self.path(written))

    def _secret(self, file: str | None, variable: str | None = None) -> str | None:
        """A password, from a private file or from a variable of the environment."""
        if variable is not None:
            found = os.environ.get(variable)
            if not found:
                raise AgentError(f"the environment has no variable {variable} with the password")
            return found
        return None if file is None else secret_of(self.path(file))
