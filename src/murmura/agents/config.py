"""agent.toml: the configuration of one agent on one site.

    name = "north"
    scenario = "scenario.toml"          # the same file on every site
    listen = ["tls/0.0.0.0:7447"]

    [peers]                             # where its neighbours listen
    south = "tls/south.example:7447"

    [keys]
    folder = "keys"                     # ca.pem, north.pem, north.key: `murmura keys issue north`

    [ledger]
    path = "north.ledger"

    [budget]
    epsilon = 1.0

    [readings]
    csv = "readings.csv"
    column = "kwh"

Paths are relative to the file. Every error names the file, the line and the key; numbers and text
are never converted into each other.
"""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from murmura._validate import DURATION
from murmura.agents.ledger import LedgerIdentity, key_of
from murmura.agents.ledger.periods import NAMED, RANGE, Period
from murmura.agents.manifest import Manifest
from murmura.agents.pki import Credentials
from murmura.agents.protocol import Options
from murmura.agents.readings import (
    FIRST,
    LARGEST,
    CommandReadings,
    CsvReadings,
    HttpReadings,
    MqttReadings,
    Readings,
    SqlReadings,
    secret_of,
)
from murmura.agents.runtime.status import SUFFIX
from murmura.agents.transport.zenoh import ZenohTransport
from murmura.errors import AgentError, LedgerError, PrivacyError
from murmura.privacy.accounting import Budget
from murmura.scenario import Scenario
from murmura.scenario.errors import Issue, SourceMap, attribute, options
from murmura.scenario.json_schema import schema_of
from murmura.scenario.loader import load_model
from murmura.scenario.schema import Duration, Section, Spec
from murmura.simulation import Problem

KEY_BYTES = 32


class ConfigTable(Section):
    """A table of agent.toml: no unknown key, no conversion of types, immutable."""

    @field_validator("*")
    @classmethod
    def _can_be_passed_on(cls, value: Any) -> Any:
        """No path, address or argument of a program can have a NUL character."""
        texts = [value] if isinstance(value, str) else value
        if isinstance(texts, list | dict) and any("\0" in text for text in texts):
            raise ValueError("text without the NUL character")
        if isinstance(texts, dict) and any("\0" in text for text in texts.values()):
            raise ValueError("text without the NUL character")
        return value


class KeysTable(ConfigTable):
    """[keys]: a folder as `murmura keys` writes it, or three files."""

    folder: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        files = (self.ca, self.certificate, self.key)
        if self.folder is None and None in files:
            raise ValueError('folder = "keys", or all of ca, certificate and key')
        if self.folder is not None and any(files):
            raise ValueError("folder, or ca, certificate and key; not both")
        return self


class LedgerTable(ConfigTable):
    """[ledger]: its file, and how the mixing state is saved."""

    path: str = Field(min_length=1)
    key: str | None = Field(
        default=None, min_length=1
    )  # the file of the key that seals it; PATH.key by default
    durability: Literal["full", "process"] = "full"
    confirmations: Annotated[int, Field(ge=1)] | Literal["all"] = (
        1  # of neighbours, before anything is released
    )


class BudgetTable(ConfigTable):
    """[budget]: what this agent may spend in total, per day or month, per window or per reading."""

    epsilon: float = Field(gt=0, allow_inf_nan=False)
    delta: float = Field(default=0.0, ge=0, lt=1)
    unit: Literal["stream", "window", "event"] = "stream"
    window: int | None = Field(default=None, ge=1)
    per: str | float | None = None
    refill: Literal["rolling", "fixed"] = "rolling"
    zone: str = "UTC"

    @field_validator("per")
    @classmethod
    def _is_period(cls, per: str | float | None) -> str | float | None:
        try:
            _ = None if per is None else Period.of(per)
        except PrivacyError:
            raise ValueError(f"day, week, month or {DURATION}, {RANGE}") from None
        return per

    @field_validator("zone")
    @classmethod
    def _is_zone(cls, zone: str) -> str:
        try:
            Period.of("day", "fixed", zone)
        except PrivacyError:
            allowed = 'a time zone of this system, such as "UTC" or "Europe/Madrid"'
            raise ValueError(allowed) from None
        return zone

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.per is not None and self.unit != "stream":
            raise ValueError('per with unit = "stream" only; leave out one of the two')
        if self.unit == "window" and self.window is None:
            raise ValueError(
                'unit = "window" with window, a number of readings, such as window = 7'
            )
        if self.unit != "window" and self.window is not None:
            raise ValueError('window with unit = "window" only; leave out one of the two')
        for name in ("refill", "zone"):
            if self.per is None and name in self.model_fields_set:
                raise ValueError(f'{name} with per only, such as per = "day"')
        if self.zone != "UTC" and (self.refill != "fixed" or self.per not in NAMED):
            raise ValueError(
                'zone with refill = "fixed" and per = "day", "week" or "month" only; leave it out'
            )
        return self

    @property
    def period(self) -> Period | None:
        """After which the budget is refilled."""
        return None if self.per is None else Period.of(self.per, self.refill, self.zone)


SOURCES = {  # source -> (how it is written, the keys that only go with such sources)
    "csv": ('csv = "readings.csv"', {"column", "key", "time", "follow"}),
    "command": ('command = ["program", "argument"]', {"key"}),
    "mqtt": (
        'mqtt = "mqtts://host:8883"',
        {"column", "key", "time", "topic", "client", "user", "password_file", "ca", "certificate",
         "certificate_key"},
    ),
    "sql": (
        'sql = "postgresql+psycopg://user@host/database"',
        {"column", "key", "time", "table", "query", "password_file", "password_env", "interval"},
    ),
    "http": (
        'http = "https://host/path"',
        {"column", "key", "time", "items", "token_file", "ca", "interval", "timeout", "largest"},
    ),
}  # fmt: skip
SQLITE = "sqlite:///"  # before a path
NEEDED = {"mqtt": ("topic", "key"), "sql": ("column", "key"), "http": ("column", "key")}


class ReadingsTable(ConfigTable):
    """[readings]: where readings come from: a CSV file, a command, MQTT, SQL or HTTP.

    `key` names what identifies a reading: columns or fields, such as its time.
    """

    csv: str | None = None
    command: list[str] | None = Field(default=None, min_length=1)
    mqtt: str | None = None
    sql: str | None = None
    http: str | None = None
    column: str | list[str] | None = Field(default=None, min_length=1)
    key: str | list[str] | None = Field(default=None, min_length=1)
    time: str | None = Field(default=None, min_length=1)
    follow: bool = True
    topic: str | None = Field(default=None, min_length=1)
    client: str | None = Field(default=None, min_length=1)
    user: str | None = None
    password_file: str | None = None
    password_env: str | None = None
    token_file: str | None = None
    ca: str | None = None
    certificate: str | None = None
    certificate_key: str | None = None
    table: str | None = Field(default=None, min_length=1)
    query: str | None = Field(default=None, min_length=1)
    items: str = ""
    interval: Duration = 10.0
    timeout: Duration = 10.0
    largest: int = Field(default=LARGEST, ge=1)

    @property
    def source(self) -> str:
        """The kind of source."""
        return next(name for name in SOURCES if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"one of {', '.join(how for how, _ in SOURCES.values())}")
        (source,) = given
        for name in self.model_fields_set - {source} - SOURCES[source][1]:
            kinds = [kind for kind, (_, keys) in SOURCES.items() if name in keys]
            raise ValueError(f"{name} only with {' or '.join(kinds)}; this source is {source}")
        if source == "command" and self.key not in (None, FIRST):
            raise ValueError(f'with command, key = "{FIRST}": the first value of each line')
        for name in NEEDED.get(source, ()):
            if getattr(self, name) is None:
                raise ValueError(f"{name} with {source}")
        if source == "sql" and (self.table is None) == (self.query is None):
            raise ValueError('one of table = "loads" and query = "SELECT ..." with sql')
        if source == "sql" and isinstance(self.key, list):
            raise ValueError("one key column with sql, in whose order rows are read")
        if self.password_file is not None and self.password_env is not None:
            raise ValueError("password_file or password_env, not both")
        return self


class RoundsTable(ConfigTable):
    """[rounds]: how long to wait."""

    deadline: Duration = Field(default=Options().deadline, gt=0)
    resend: Duration = Field(default=Options().resend, gt=0)
    tick: Duration = Field(default=Options().tick, gt=0)
    linger: Duration = Field(default=Options().linger, gt=0)


class StatusTable(ConfigTable):
    """[status]: the file that the agent's status is written to; LEDGER.status.json by default."""

    file: str | None = Field(default=None, min_length=1)


class AgentConfig(ConfigTable):
    """The contents of agent.toml."""

    name: str = Field(min_length=1)
    scenario: str = Field(min_length=1)
    variant: str | None = None
    listen: list[str] = Field(min_length=1)
    peers: dict[str, str] = Field(default_factory=dict)
    keys: KeysTable | None = None
    ledger: LedgerTable
    budget: BudgetTable
    readings: ReadingsTable
    rounds: RoundsTable = RoundsTable()
    status: StatusTable = StatusTable()


class Setup:
    """A checked agent.toml, with what it refers to.

    Parameters
    ----------
    config : AgentConfig
        The contents of the file.
    folder : Path
        Folder that paths are relative to.
    locator : SourceMap, optional
        Where keys are in the file, for errors.

    Attributes
    ----------
    problem : Problem
        The scenario's problem, without signals.
    manifest : Manifest
        The terms of the network.

    Raises
    ------
    AgentError
        If the agent is no member of the network, or [peers] names an agent that is no neighbour.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "agent.toml"
    ...     _ = path.write_text('name = "north"\\nscenarios = "scenario.toml"\\n')
    ...     try:
    ...         Setup.load(path)
    ...     except AgentError as problem:
    ...         print(str(problem).replace(f"{folder}/", "").splitlines()[0])
    agent.toml, line 2: scenarios: there is no such key; allowed: name, scenario, variant, listen, \
peers, keys, ledger, budget, readings, rounds, status; did you mean "scenario"?
    """

    def __init__(self, config: AgentConfig, folder: Path, locator: SourceMap | None = None) -> None:
        """Load the scenario; nothing is opened yet."""
        self.config, self.folder, self.locator = config, folder, locator or SourceMap("agent.toml")
        scenario = Scenario.load(self.path(config.scenario))
        self.problem, self.manifest = problem_and_manifest(scenario, config.variant)
        with self.locator.errors_at("name"):
            neighbours = self.manifest.link_weights(config.name)
        for peer in config.peers:
            if peer not in neighbours:
                said = f"no neighbour of {config.name}; {options(peer, sorted(neighbours))}"
                raise AgentError(self.locator.message(Issue(("peers", peer), said)))

    @classmethod
    def load(cls, path: str | Path) -> Setup:
        """Read an agent.toml.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Setup
            Checked; nothing is opened.

        Raises
        ------
        AgentError
            If the file cannot be read or is invalid: every problem with its line, and the nearest
            key where one is misspelt. Values are not shown.
        """
        config, locator = load_model(path, AgentConfig, "agent's file", AgentError)
        return cls(config, Path(path).resolve().parent, locator)

    def path(self, written: str) -> Path:
        """A path of the file, relative to it."""
        try:
            return self.folder / Path(written).expanduser()
        except RuntimeError:
            raise AgentError(
                f"{self.locator.file}: a path begins with ~ and no user of this machine; write the "
                "whole path"
            ) from None

    @property
    def status_file(self) -> Path:
        """Where the agent's status is written: beside its ledger by default."""
        ledger = self.path(self.config.ledger.path)
        chosen = self.config.status.file
        return ledger.with_name(f"{ledger.name}{SUFFIX}") if chosen is None else self.path(chosen)

    @property
    def options(self) -> Options:
        """How long the agent waits, and for how many confirmations."""
        rounds = self.config.rounds
        return Options(
            deadline=rounds.deadline,
            resend=rounds.resend,
            tick=rounds.tick,
            linger=rounds.linger,
            confirmations=max(len(self.manifest.link_weights(self.config.name)), 1)
            if self.config.ledger.confirmations == "all"
            else self.config.ledger.confirmations,
        )

    @property
    def budget(self) -> Budget | None:
        """What may be spent; None where nothing is guaranteed."""
        if not self.manifest.adds_noise:
            return None
        return Budget(self.config.budget.epsilon, self.config.budget.delta)

    @property
    def ledger_identity(self) -> LedgerIdentity:
        """The agent, the terms of its releases and its budget, as its ledger records them."""
        chosen = self.config.budget
        return LedgerIdentity.of(
            self.config.name, self.manifest, self.budget, chosen.unit, chosen.window, chosen.period
        )

    def credentials(self) -> Credentials | None:
        """The files that prove this agent's name, or None without [keys]; raises if one is missing."""
        chosen = self.config.keys
        if chosen is None:
            return None
        if chosen.folder is not None:
            folder = self.path(chosen.folder)
            name = self.manifest.certificates[self.config.name]
            found = Credentials(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")
        else:
            files = (chosen.ca, chosen.certificate, chosen.key)
            found = Credentials(*(self.path(file) for file in files if file is not None))
        for path in found:
            if not path.is_file():
                raise AgentError(
                    f"{self.locator.at('keys')}: {path} is missing; `murmura keys issue "
                    f"{self.config.name}` makes the files of a site, which are then copied to it"
                )
        return found

    def ledger_key(self) -> bytes | None:
        """The key that seals the ledger: 32 bytes in a file beside it, created with it.

        None without certificates. It is not the agent's private key, which may be replaced while
        the ledger continues.
        """
        if self.config.keys is None:
            return None
        ledger, file = self.path(self.config.ledger.path), self.ledger_key_file
        if file.exists():
            return key_of(self.read_ledger_key())
        if ledger.exists():
            raise LedgerError(
                f"the key {file} of the ledger {ledger} is missing; restore it: without it "
                "a modification of the ledger cannot be detected"
            )
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
            made.write(secrets.token_bytes(KEY_BYTES))
            made.flush()
            os.fsync(made.fileno())
        return key_of(self.read_ledger_key())

    @property
    def ledger_key_file(self) -> Path:
        """The file of the key that seals the ledger: beside it by default."""
        ledger, chosen = self.path(self.config.ledger.path), self.config.ledger.key
        return ledger.with_name(f"{ledger.name}.key") if chosen is None else self.path(chosen)

    def read_ledger_key(self) -> bytes:
        """The bytes of the ledger's key, if it is complete and private."""
        file = self.ledger_key_file
        found = file.read_bytes()
        if len(found) != KEY_BYTES:
            raise LedgerError(
                f"the key {file} has {len(found)} bytes, expected {KEY_BYTES}; restore it"
            )
        if file.stat().st_mode & 0o077:
            raise LedgerError(f"the key {file} can be read by others; run `chmod 600 {file}`")
        return found

    def device_secret(self) -> bytes | None:
        """What identifies readings and proves what this agent sent; None without certificates."""
        found = self.credentials()
        return None if found is None else found.secret()

    def transport(self, insecure: bool) -> ZenohTransport:
        """The transport of this agent, not yet open."""
        names = self.manifest.certificates
        return ZenohTransport(
            self.manifest.name,
            names[self.config.name],
            listen=self.config.listen,
            connect={names[peer]: endpoint for peer, endpoint in self.config.peers.items()},
            devices=names,
            credentials=None if insecure else self.credentials(),
            insecure=insecure,
        )

    def readings(self, connect: bool = True) -> Readings:
        """Open the source of readings; without `connect`, a source over a network stays away from it."""
        chosen = self.config.readings
        with self.locator.errors_at("readings", chosen.source):
            if chosen.csv is not None:
                path = self.path(chosen.csv)
                return CsvReadings(path, chosen.column, chosen.follow, chosen.key, chosen.time)
            if chosen.command is not None:
                return CommandReadings(chosen.command, keyed=chosen.key is not None)
            if chosen.mqtt is not None:
                return self._mqtt(chosen, connect)
            if chosen.sql is not None:
                return self._sql(chosen, connect)
            return self._http(chosen, connect)

    def _mqtt(self, chosen: ReadingsTable, connect: bool) -> Readings:
        assert chosen.mqtt is not None
        assert chosen.topic is not None
        return MqttReadings(
            chosen.mqtt,
            chosen.topic,
            chosen.key or (),
            chosen.column or (),
            client=chosen.client or f"murmura-{self.manifest.name}-{self.config.name}",
            user=chosen.user,
            password=self._secret(chosen.password_file),
            ca=self._file(chosen.ca),
            certificate=self._file(chosen.certificate),
            certificate_key=self._file(chosen.certificate_key),
            time=chosen.time,
            connect=connect,
        )

    def _sql(self, chosen: ReadingsTable, connect: bool) -> Readings:
        assert chosen.sql is not None
        assert isinstance(chosen.key, str)
        file = chosen.sql.removeprefix(SQLITE)
        is_file = file != chosen.sql and file not in ("", ":memory:")
        return SqlReadings(
            f"{SQLITE}{self.path(file)}" if is_file else chosen.sql,
            chosen.key,
            chosen.column or (),
            table=chosen.table,
            query=chosen.query,
            password=self._secret(chosen.password_file, chosen.password_env),
            time=chosen.time,
            interval=chosen.interval,
            connect=connect,
        )

    def _http(self, chosen: ReadingsTable, connect: bool) -> Readings:
        assert chosen.http is not None
        return HttpReadings(
            chosen.http,
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

    def check_readings(self) -> None:
        """Raise unless the source of readings exists and has the columns; starts no command.

        Of a broker, a database or a server only what is on this site is checked: packages,
        addresses, files and passwords. A CSV file that is followed may still be empty: the agent
        waits for its first line.

        Raises
        ------
        SignalError
            If the file cannot be read.
        AgentError
            If a column is missing, a file that is not followed is empty, or there is no command.
        """
        chosen = self.config.readings
        if chosen.command is not None:
            program = chosen.command[0]
            if shutil.which(program) is None:
                raise AgentError(
                    f"{self.locator.at('readings', 'command')}: there is no program {program!r}; "
                    "give its path, or install it"
                )
            return
        if chosen.csv is None:
            self.readings(connect=False).close()
            return
        with self.locator.errors_at("readings"):
            found = CsvReadings(
                self.path(chosen.csv), chosen.column, False, chosen.key, chosen.time
            )
            found.close()
            if not (found.has_header or chosen.follow):
                raise AgentError(f"{found.path} is empty; expected a line of column names")


def agent_schema() -> dict[str, Any]:
    """The JSON Schema of agent.toml, for editors.

    Returns
    -------
    dict
        A JSON Schema, in draft 7.
    """
    return schema_of(AgentConfig, "murmura agent")


def problem_and_manifest(
    scenario: Scenario, variant: str | None = None
) -> tuple[Problem, Manifest]:
    """The problem of a scenario's variant, and the manifest of its agents."""
    job = scenario.build(variant, signals=False)
    index = next(k for k, spec in enumerate(scenario.variants) if spec.name == job.name)
    spec, source_map = scenario.variants[index], scenario.source_map
    try:
        return job.problem, manifest_of(job.problem, spec, scenario.name)
    except AgentError as problem:
        issue = attribute("agents", spec.agents.model_fields_set, problem)
        if len(issue.path) == 1:  # of several sections
            raise AgentError(f"{source_map.file}: {problem}") from None
        said = source_map.message(issue, index if source_map.variants else None)
        raise AgentError(said) from None


def manifest_of(problem: Problem, spec: Spec, name: str) -> Manifest:
    """The manifest of one variant."""
    if len(problem.epsilons) > 1:
        raise AgentError(
            f"agents run one epsilon; the scenario has {len(problem.epsilons)}: keep one"
        )
    chosen = spec.agents
    return Manifest.of(
        problem,
        name,
        epoch=chosen.epoch,
        certificates=chosen.certificates,
        asynchronous=chosen.asynchronous,
        rounds=0 if chosen.open_ended else None,
        tolerance=chosen.tolerance,
        quorum=None if chosen.quorum == "all" else chosen.quorum,
        gathering=chosen.gathering,
        lost_after=chosen.lost_after,
        every=chosen.every,
        grace=chosen.grace,
    )
