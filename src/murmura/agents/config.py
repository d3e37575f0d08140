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

import difflib
import os
import re
import secrets
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from murmura.agents.ledger import key_of
from murmura.agents.manifest import Manifest
from murmura.agents.pki import Credentials
from murmura.agents.protocol import Options
from murmura.agents.runtime.readings import FIRST, CommandReadings, CsvReadings, Readings
from murmura.agents.transport.zenoh import ZenohTransport
from murmura.errors import AgentError, LedgerError, SignalError
from murmura.privacy.accounting import Budget
from murmura.scenario import Scenario
from murmura.scenario.errors import lines
from murmura.scenario.schema import Spec
from murmura.simulation import Problem

KEY_BYTES = 32
UNKNOWN, MISSING = "there is no such key", "missing; add it"
EXPECTED = {  # by pydantic's type of error
    "bool_type": "true or false",
    "dict_type": "a table of keys and values",
    "finite_number": "a finite number",
    "float_type": "a number",
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number of at least {ge:g}",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "less_than": "a number below {lt:g}",
    "list_type": 'a list such as ["a", "b"]',
    "literal_error": "{expected}",
    "model_type": "a table of keys and values",
    "string_too_short": "text that is not empty",
    "string_type": "text in quotes",
    "too_short": "a list that is not empty",
}


class ConfigTable(BaseModel):
    """A table of agent.toml: no unknown key, no conversion of types, immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


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

    path: str
    key: str | None = None  # the file of the key that seals it; PATH.key by default
    durability: Literal["full", "process"] = "full"
    confirmations: Annotated[int, Field(ge=1)] | Literal["all"] = (
        1  # of neighbours, before anything is released
    )


class BudgetTable(ConfigTable):
    """[budget]: what this agent may spend in total, per window or per reading."""

    epsilon: float = Field(gt=0)
    delta: float = Field(default=0.0, ge=0, lt=1)
    unit: Literal["stream", "window", "event"] = "stream"
    window: int | None = Field(default=None, ge=1)


class ReadingsTable(ConfigTable):
    """[readings]: a CSV file followed as it grows, or a command whose lines are readings.

    `key` names what identifies a reading, such as a column with the time.
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


class RoundsTable(ConfigTable):
    """[rounds]: how long to wait, in seconds."""

    deadline: float = Field(default=Options().deadline, gt=0)
    resend: float = Field(default=Options().resend, gt=0)
    tick: float = Field(default=Options().tick, gt=0)
    linger: float = Field(default=Options().linger, gt=0)


class AgentConfig(ConfigTable):
    """The contents of agent.toml."""

    name: str = Field(min_length=1)
    scenario: str = Field(min_length=1)
    variant: str | None = None
    listen: list[str] = Field(min_length=1)
    peers: dict[str, str] = {}
    keys: KeysTable | None = None
    ledger: LedgerTable
    budget: BudgetTable
    readings: ReadingsTable
    rounds: RoundsTable = RoundsTable()


@dataclass(frozen=True)
class Locator:
    """Where keys are in a configuration file.

    Parameters
    ----------
    file : str
        The file, as it was given.
    lines : mapping
        The line of every key, from 1.
    """

    file: str = "agent.toml"
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)

    def known(self, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
        """The longest part of a path that is in the file."""
        depth = next((k for k in range(len(path), 0, -1) if path[:k] in self.lines), 0)
        return path[:depth]

    def at(self, *path: str | int) -> str:
        """`agent.toml, line 12: budget.epsilon`."""
        line = self.lines.get(self.known(path), 1)
        return ": ".join(
            [f"{self.file}, line {line}", *([".".join(map(str, path))] if path else ())]
        )

    @contextmanager
    def errors_at(self, *path: str | int) -> Iterator[None]:
        """Prefix errors with the place of a key."""
        try:
            yield
        except (AgentError, SignalError) as problem:
            raise type(problem)(f"{self.at(*path)}: {problem}") from None


class Setup:
    """A checked agent.toml, with what it refers to.

    Parameters
    ----------
    config : AgentConfig
        The contents of the file.
    folder : Path
        Folder that paths are relative to.
    locator : Locator, optional
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
peers, keys, ledger, budget, readings, rounds; did you mean "scenario"?
    """

    def __init__(self, config: AgentConfig, folder: Path, locator: Locator | None = None) -> None:
        """Load the scenario; nothing is opened yet."""
        self.config, self.folder, self.locator = config, folder, locator or Locator()
        scenario = Scenario.load(self.path(config.scenario))
        self.problem, self.manifest = problem_and_manifest(scenario, config.variant)
        with self.locator.errors_at("name"):
            neighbours = self.manifest.link_weights(config.name)
        for peer in config.peers:
            if peer not in neighbours:
                raise AgentError(
                    f"{self.locator.at('peers', peer)}: not a neighbour of {config.name}; its "
                    f"neighbours are {', '.join(sorted(neighbours))}{_hint(peer, neighbours)}"
                )

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
        file = Path(path)
        try:
            text = file.read_bytes().decode("utf-8-sig")
            data = tomllib.loads(text)
        except OSError as problem:
            raise AgentError(f"cannot read {path}: {problem.strerror}") from None
        except UnicodeDecodeError as problem:
            raise AgentError(f"{path} is not UTF-8 text: {problem.reason}") from None
        except tomllib.TOMLDecodeError as problem:
            raise AgentError(_syntax_error(str(path), text, problem)) from None
        except (ValueError, RecursionError):  # tomllib leaves these to Python
            raise AgentError(
                f"{path} is not an agent's file: a number has too many digits, or values are "
                "nested too deeply"
            ) from None
        locator = Locator(str(path), lines(text))
        try:
            config = AgentConfig.model_validate(data)
        except ValidationError as problem:
            raise AgentError("\n".join(_messages(problem, locator))) from None
        return cls(config, file.resolve().parent, locator)

    def path(self, written: str) -> Path:
        """A path of the file, relative to it."""
        return self.folder / Path(written).expanduser()

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
        ledger = self.path(self.config.ledger.path)
        chosen = self.config.ledger.key
        file = ledger.with_name(f"{ledger.name}.key") if chosen is None else self.path(chosen)
        if file.exists():
            return key_of(_read_key(file))
        if ledger.exists():
            raise LedgerError(
                f"the key {file} of the ledger {ledger} is missing; restore it: without it "
                "a modification of the ledger cannot be detected"
            )
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
            made.write(secrets.token_bytes(KEY_BYTES))
            made.flush()
            os.fsync(made.fileno())
        return key_of(_read_key(file))

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

    def readings(self) -> Readings:
        """Open the source of readings."""
        chosen = self.config.readings
        if chosen.command is not None:
            return CommandReadings(chosen.command, keyed=chosen.key is not None)
        assert chosen.csv is not None, "the model has checked that there is one source"
        return CsvReadings(self.path(chosen.csv), chosen.column, chosen.follow, chosen.key)

    def check_readings(self) -> None:
        """Raise unless the source of readings exists and has the columns; starts no command.

        A CSV file that is followed may still be empty: the agent waits for its first line.

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
        assert chosen.csv is not None, "the model has checked that there is one source"
        with self.locator.errors_at("readings"):
            found = CsvReadings(self.path(chosen.csv), chosen.column, follow=False, key=chosen.key)
            found.close()
            if not (found.has_header or chosen.follow):
                raise AgentError(f"{found.path} is empty; expected a line of column names")


def problem_and_manifest(
    scenario: Scenario, variant: str | None = None
) -> tuple[Problem, Manifest]:
    """The problem of a scenario's variant, and the manifest of its agents."""
    job = scenario.build(variant, signals=False)
    spec = next(spec for spec in scenario.variants if spec.name == job.name)
    return job.problem, manifest_of(job.problem, spec, scenario.name)


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


def _read_key(file: Path) -> bytes:
    """The bytes of a ledger's key, if it is complete and private."""
    found = file.read_bytes()
    if len(found) != KEY_BYTES:
        raise LedgerError(
            f"the key {file} has {len(found)} bytes, expected {KEY_BYTES}; restore it"
        )
    if file.stat().st_mode & 0o077:
        raise LedgerError(f"the key {file} can be read by others; run `chmod 600 {file}`")
    return found


def _syntax_error(file: str, text: str, problem: tomllib.TOMLDecodeError) -> str:
    found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(problem))
    line = int(found[1]) if found and found[1] else text.count("\n") + 1
    reason = str(problem)[: found.start()] if found else str(problem)
    return f"{file}, line {line}: not valid TOML: {reason}"


def _messages(problem: ValidationError, locator: Locator) -> list[str]:
    """What is wrong, by line; the alternatives of a key that may have several types together."""
    found: dict[tuple[str | int, ...], list[str]] = {}
    for error in problem.errors(include_url=False, include_input=False):
        place, kind = tuple(error["loc"]), error["type"]
        if kind == "extra_forbidden":
            allowed = _keys_of(place[:-1])
            hint = _hint(str(place[-1]), allowed)
            text = f"{UNKNOWN}; allowed: {', '.join(allowed)}{hint}"
        elif kind == "missing":
            text = MISSING
        else:
            place = locator.known(place)  # without what pydantic adds for the members of a union
            context = error.get("ctx", {})
            expected = EXPECTED.get(kind, error["msg"].removeprefix("Value error, "))
            text = expected.format(**context) if kind in EXPECTED else expected
        texts = found.setdefault(place, [])
        if text not in texts:
            texts.append(text)
    ranked = []
    for place, texts in found.items():
        missing = texts == [MISSING]
        prefix = "" if missing or texts[0].startswith(UNKNOWN) else "expected "
        line = locator.lines.get(locator.known(place), 1)
        ranked.append((missing, line, f"{locator.at(*place)}: {prefix}{' or '.join(texts)}"))
    return [text for _, _, text in sorted(ranked)]  # a misspelt key before the one it stands for


def _keys_of(section: tuple[str | int, ...]) -> list[str]:
    """The keys that a table of agent.toml may have."""
    if not section:
        return list(AgentConfig.model_fields)
    annotation = AgentConfig.model_fields[str(section[0])].annotation
    models = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type)]
    return next(list(m.model_fields) for m in models if issubclass(m, ConfigTable))


def _hint(found: str, allowed: Mapping[str, object] | list[str]) -> str:
    near = difflib.get_close_matches(found.lower(), list(allowed), n=1, cutoff=0.5)
    return f'; did you mean "{near[0]}"?' if near else ""
