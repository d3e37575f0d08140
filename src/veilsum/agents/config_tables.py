"""The tables of agent.toml, as frozen pydantic models: types, ranges and the rules of one table."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from veilsum._validate import DURATION, HOST_AND_PORT
from veilsum.agents.ledger.periods import NAMED, RANGE, Period
from veilsum.agents.protocol import Options
from veilsum.agents.readings import FIRST, LARGEST
from veilsum.errors import PrivacyError
from veilsum.scenario.schema import Duration, Section

LONGEST_NAME = 64  # characters of the name on a certificate


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
    """[keys]: a folder as `veilsum keys` writes it, or three files; and what goes with them."""

    folder: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    signing: str | None = Field(
        default=None, min_length=1
    )  # the file of the signing key; NAME.signing.key in the folder by default
    secret: str | None = Field(
        default=None, min_length=1
    )  # the file of the site's secret; NAME.secret beside the private key by default
    denied: str | None = Field(
        default=None, min_length=1
    )  # the authority's deny list, which is followed, and so is denied.json beside ca.pem

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


class MembershipTable(ConfigTable):
    """[membership]: the file in which a later epoch comes, signed by the authority."""

    file: str = Field(min_length=1)


class StatusTable(ConfigTable):
    """[status]: the file that the agent's status is written to; LEDGER.status.json by default."""

    file: str | None = Field(default=None, min_length=1)


class PageTable(ConfigTable):
    """[page]: where the agent's page is served, such as "127.0.0.1:8080"; none by default."""

    address: str | None = None

    @field_validator("address")
    @classmethod
    def _is_address(cls, address: str | None) -> str | None:
        if address is not None and not HOST_AND_PORT.fullmatch(address):
            raise ValueError('a host and a port, such as "127.0.0.1:8080"')
        return address


class ObserversTable(ConfigTable):
    """[observers]: who may read this agent's status, and where it is served to them.

    By default on the first address of `listen`, on the port that is 1000 higher.
    """

    allow: list[str] = Field(min_length=1)
    listen: str | None = Field(default=None, min_length=1)

    @field_validator("allow")
    @classmethod
    def _are_names(cls, allow: list[str]) -> list[str]:
        if any(not name or len(name) > LONGEST_NAME or ":" in name for name in allow):
            raise ValueError(
                'names on observer certificates, such as ["control-room"], without "observer:"'
            )
        return allow


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
    page: PageTable = PageTable()
    observers: ObserversTable | None = None
    membership: MembershipTable | None = None
