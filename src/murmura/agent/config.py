"""agent.toml: one agent on one site.

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

Paths are relative to the file.
"""

from __future__ import annotations

import os
import secrets
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from murmura.agent.core import Options
from murmura.agent.keys import Credentials
from murmura.agent.ledger import key_of
from murmura.agent.manifest import Manifest
from murmura.agent.node.readings import FIRST, Command, Follow, Readings
from murmura.agent.transport.zenoh import ZenohTransport
from murmura.engine import Problem
from murmura.errors import AgentError, LedgerError
from murmura.privacy.accounting import Budget
from murmura.scenario import Scenario
from murmura.scenario.model import Spec

KEY_BYTES = 32


class Table(BaseModel):
    """A table of agent.toml: no unknown key, never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Keys(Table):
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


class LedgerTable(Table):
    """[ledger]: where it lies, and how state of mixing is kept."""

    path: str
    key: str | None = None  # the file of the key that signs it; PATH.key unless named
    durability: Literal["full", "process"] = "full"
    confirmations: Annotated[int, Field(ge=1)] | Literal["all"] = 1  # before anything is released


class BudgetTable(Table):
    """[budget]: what this agent may spend in all, per window or per reading."""

    epsilon: float = Field(gt=0)
    delta: float = Field(default=0.0, ge=0, lt=1)
    unit: Literal["stream", "window", "event"] = "stream"
    window: int | None = Field(default=None, ge=1)


class ReadingsTable(Table):
    """[readings]: a CSV file followed as it grows, or a command whose lines are readings.

    `key` names what tells readings apart, such as a column with the time.
    """

    csv: str | None = None
    column: str | list[str] | None = None
    key: str | list[str] | None = Field(default=None, min_length=1)
    follow: bool = True
    command: list[str] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.csv is None) == (self.command is None):
            raise ValueError('one of csv = "readings.csv" and command = ["program", "argument"]')
        if self.command is not None and self.key not in (None, FIRST):
            raise ValueError(f'with command, key = "{FIRST}": the first value of each line')
        return self


class RoundsTable(Table):
    """[rounds]: how long to wait, in seconds."""

    deadline: float = Field(default=Options().deadline, gt=0)
    resend: float = Field(default=Options().resend, gt=0)
    tick: float = Field(default=Options().tick, gt=0)
    linger: float = Field(default=60.0, gt=0)


class AgentConfig(Table):
    """All of agent.toml."""

    name: str = Field(min_length=1)
    scenario: str = Field(min_length=1)
    variant: str | None = None
    listen: list[str] = Field(min_length=1)
    peers: dict[str, str] = {}
    keys: Keys | None = None
    ledger: LedgerTable
    budget: BudgetTable
    readings: ReadingsTable
    rounds: RoundsTable = RoundsTable()


class Setup:
    """An agent.toml that was read and checked, with what it names."""

    def __init__(self, config: AgentConfig, folder: Path) -> None:
        """Load the scenario; nothing is opened yet."""
        self.config, self.folder = config, folder
        scenario = Scenario.load(self.path(config.scenario))
        self.problem, self.manifest = terms(scenario, config.variant)
        neighbours = self.manifest.shares(config.name)
        strangers = sorted(set(config.peers) - set(neighbours))
        if strangers:
            raise AgentError(
                f"[peers] names {', '.join(strangers)}, not a neighbour of {config.name}; its "
                f"neighbours are {', '.join(sorted(neighbours))}"
            )

    @classmethod
    def load(cls, path: str | Path) -> Setup:
        """Read an agent.toml."""
        file = Path(path)
        try:
            data = tomllib.loads(file.read_text("utf-8"))
        except OSError as problem:
            raise AgentError(f"cannot read {path}: {problem.strerror}") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
            raise AgentError(f"{path} is not TOML: {problem}") from None
        try:
            config = AgentConfig.model_validate(data)
        except ValidationError as problem:
            raise AgentError(f"{path}: {_first(problem)}") from None
        return cls(config, file.resolve().parent)

    def path(self, written: str) -> Path:
        """A path of the file, relative to it."""
        return self.folder / Path(written).expanduser()

    @property
    def options(self) -> Options:
        """How long the core waits."""
        rounds = self.config.rounds
        return Options(
            deadline=rounds.deadline,
            resend=rounds.resend,
            tick=rounds.tick,
            linger=rounds.linger,
            confirmations=max(len(self.manifest.shares(self.config.name)), 1)
            if self.config.ledger.confirmations == "all"
            else self.config.ledger.confirmations,
        )

    @property
    def budget(self) -> Budget | None:
        """What may be spent; None where nothing is promised."""
        if self.manifest.protect == "nothing":
            return None
        return Budget(self.config.budget.epsilon, self.config.budget.delta)

    def credentials(self) -> Credentials | None:
        """The files that prove this agent's name, or None if [keys] is left out."""
        asked = self.config.keys
        if asked is None:
            return None
        if asked.folder is not None:
            folder = self.path(asked.folder)
            name = self.manifest.certificates[self.config.name]
            found = Credentials(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")
        else:
            files = (asked.ca, asked.certificate, asked.key)
            found = Credentials(*(self.path(file) for file in files if file is not None))
        for path in found:
            if not path.is_file():
                raise AgentError(
                    f"[keys]: {path} is missing; `murmura keys issue {self.config.name}` makes "
                    "the files of a site, which are then carried there"
                )
        return found

    def ledger_key(self) -> bytes | None:
        """What signs the ledger: 32 bytes in a file beside it, made with it; None if insecure.

        It is not the agent's private key, which is renewed while the ledger goes on.
        """
        if self.config.keys is None:
            return None
        ledger = self.path(self.config.ledger.path)
        asked = self.config.ledger.key
        file = ledger.with_name(f"{ledger.name}.key") if asked is None else self.path(asked)
        if file.exists():
            return key_of(_secret(file))
        if ledger.exists():
            raise LedgerError(
                f"the key {file} of the ledger {ledger} is missing; put it back: without it "
                "nobody can tell whether the ledger was altered"
            )
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
            made.write(secrets.token_bytes(KEY_BYTES))
            made.flush()
            os.fsync(made.fileno())
        return key_of(_secret(file))

    def device_secret(self) -> bytes | None:
        """What names readings and proves this agent's words; None if insecure."""
        found = self.credentials()
        return None if found is None else found.secret()

    def transport(self, insecure: bool) -> ZenohTransport:
        """The session of this agent, not yet open."""
        names = self.manifest.certificates
        return ZenohTransport(
            self.manifest.name,
            names[self.config.name],
            listen=self.config.listen,
            connect={names[peer]: where for peer, where in self.config.peers.items()},
            devices=names,
            credentials=None if insecure else self.credentials(),
            insecure=insecure,
        )

    def readings(self) -> Readings:
        """Open the source of readings."""
        asked = self.config.readings
        if asked.command is not None:
            return Command(asked.command, keyed=asked.key is not None)
        assert asked.csv is not None, "the model has checked that there is one source"
        return Follow(self.path(asked.csv), asked.column, asked.follow, asked.key)


def _secret(file: Path) -> bytes:
    """The bytes of a ledger's key, if it is whole and nobody else's."""
    found = file.read_bytes()
    if len(found) != KEY_BYTES:
        raise LedgerError(
            f"the key {file} has {len(found)} bytes, expected {KEY_BYTES}; restore it"
        )
    if file.stat().st_mode & 0o077:
        raise LedgerError(f"the key {file} can be read by others; run `chmod 600 {file}`")
    return found


def terms(scenario: Scenario, variant: str | None = None) -> tuple[Problem, Manifest]:
    """The problem of a scenario's variant, and the terms that its agents agree on."""
    job = scenario.terms(variant)
    spec = next(spec for spec in scenario.variants if spec.name == job.name)
    return job.problem, manifest_of(job.problem, spec, scenario.name)


def manifest_of(problem: Problem, spec: Spec, name: str) -> Manifest:
    """The terms of one variant."""
    if len(problem.epsilons) > 1:
        raise AgentError(
            f"agents run one epsilon; the scenario has {len(problem.epsilons)}: keep one"
        )
    asked = spec.agents
    return Manifest.of(
        problem,
        name,
        epoch=asked.epoch,
        certificates=asked.certificates,
        asynchronous=asked.asynchronous,
        rounds=0 if asked.open_ended else None,
        tolerance=asked.tolerance,
    )


def _first(problem: ValidationError) -> str:
    """The first thing that is wrong, in words; values are not shown."""
    found: Any = problem.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in found["loc"])
    return f"{place or 'the file'}: {found['msg'].removeprefix('Value error, ')}"
