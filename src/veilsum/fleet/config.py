"""site.toml: what one site is, what data it has, what may be spent of it, and what it says yes to.

    name = "north"

    [data]
    path = "readings.csv"         # or another source; its own keys go here

    [budget]
    epsilon = 3.0
    per = "reading"

    [[fleet]]                     # one for each fleet; all of them share the budget
    address = "/mnt/shared/fleet"
    authority = "5d41..."         # the key that admits members

    [policy]                      # without it a person approves each question
    kinds = ["mean", "count"]
    columns = ["kwh"]
    max_epsilon = 1.0
    per = "month"

    [site]
    log = "site.log"

Paths are relative to the file. Every error names the file, the line and the key. No secret belongs here: a
store's credentials come from the environment or the provider's own files, and the site's key is in its
ledger. What looks like a secret is refused, and never shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from veilsum._toml import (
    Issue,
    KeyPath,
    SourceMap,
    format_value,
    lines,
    options,
    raise_,
    read_text,
    read_toml,
)
from veilsum.errors import FleetError, VeilsumError
from veilsum.fleet.budget_units import SiteBudget
from veilsum.fleet.consent import Policy
from veilsum.fleet.plain import Section, Sections, made, problems

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
KEY = re.compile(r"[0-9a-f]{64}")
SECRETS = re.compile(
    r"passw|passphrase|secret|token|credential|access_?key|private|api_?key|^(user)?pwd?$|^key$",
    re.I,
)
IN_ADDRESS = re.compile(
    r"://[^/@:]*:[^/@]*@|[?&][^=]*(sig|token|secret|key|password|credential)[^=]*=", re.I
)
NO_SECRET = (
    "a secret does not belong into this file, which is copied and shown: a store's credentials come from "
    "the environment or the provider's own files, a source's from the variable that a key such as "
    "password_env names; take it out, and change it if others could read the file"
)
DATABASE = "site.db"
EMPTY: Section = {}


@dataclass(frozen=True)
class FleetAddress:
    """A fleet that a site is in."""

    address: str  # of its board: a folder or a store's URL
    authority: str  # the key that signs its membership, in hexadecimal digits

    def __post_init__(self) -> None:
        """Check the key."""
        object.__setattr__(self, "authority", self.authority.lower())
        if not KEY.fullmatch(self.authority):
            raise FleetError(
                "authority must be the authority's public key, 64 hexadecimal digits, as `veilsum fleet "
                "init` prints it; found another text"
            )


@dataclass(frozen=True, eq=False)
class SiteConfig:
    """A site.toml that was read and checked.

    >>> text = '''name = "north"
    ... [data]
    ... path = "readings.csv"
    ... [budget]
    ... epsilom = 3.0
    ... [[fleet]]
    ... address = "/mnt/fleet"
    ... authority = "''' + 64 * "0" + '"'
    >>> try:
    ...     site_config(text, "site.toml")
    ... except FleetError as problem:
    ...     print(problem)
    site.toml, line 5: budget.epsilom: there is no such key; allowed: epsilon, delta, per; did you mean \
"epsilon"?
    site.toml, line 4: budget.epsilon: missing; add epsilon = ... to [budget]
    """

    name: str
    data: Mapping[str, Any]  # its source, as the source reads it
    budget: SiteBudget  # of its data, on all boards together
    fleets: tuple[FleetAddress, ...]
    policy: Policy | None = None  # what is approved without a person
    log: Path | None = None  # where `step` writes; standard error without
    database: Path = Path(DATABASE)  # ledger and key
    folder: Path = Path()  # that paths are relative to
    file: str = "site.toml"  # for errors

    def path(self, text: str) -> Path:
        """A path of the file."""
        return self.folder / Path(text).expanduser()

    def fleet(self, address: str | None = None) -> FleetAddress:
        """The fleet of that address; the only one without."""
        found = [one for one in self.fleets if address in (None, one.address)]
        if len(found) == 1:
            return found[0]
        known = [one.address for one in self.fleets]
        if address is None:
            raise FleetError(f"{self.file} has {len(known)} fleets; say which: {', '.join(known)}")
        raise FleetError(f"{self.file} has no fleet at {address}; {options(address, known)}")


def read_site_config(path: str | Path) -> SiteConfig:
    """Read and check a site.toml."""
    if not Path(path).exists():
        raise FleetError(
            f"{Path(path).resolve().parent} is no site: it has no {Path(path).name}; go to the folder of the "
            "site, or make one: veilsum fleet join ADDRESS"
        )
    text = read_text(path, "configuration of the site", FleetError)
    return site_config(text, str(path), Path(path).resolve().parent)


def site_config(text: str, file: str, folder: Path = Path()) -> SiteConfig:
    """A configuration from its text."""
    table = read_toml(text, file, "configuration of a site", FleetError)
    reader = _SiteReader(SourceMap(file, lines(text)))
    reader.no_secrets((), table)
    found = reader.config(table, folder)
    raise_(map(reader.where.message, reader.issues.values()), FleetError)
    return found


def _file(
    name: str, fleet: Sections, data: Section = EMPTY, budget: Section = EMPTY,
    policy: Section = EMPTY, site: Section = EMPTY,
) -> None:  # fmt: skip
    """What the file has."""


def _site(log: str = "", database: str = DATABASE) -> tuple[str, str]:
    """What [site] has."""
    return log, database


@dataclass
class _SiteReader:
    """Reads section by section, and collects everything that is wrong, once for each key."""

    where: SourceMap
    issues: dict[KeyPath, Issue] = field(default_factory=dict)

    def config(self, table: Section, folder: Path) -> SiteConfig:
        self.made(_file, (), table)
        name = table.get("name", "-")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            self.wrong(
                ("name",), f"found {format_value(name)}; allowed: letters, digits, dots, hyphens and "
                "underscores, 64 at most, such as north"
            )  # fmt: skip
        if table.get("data") == {}:
            self.wrong(("data",), 'says nothing; add its source, such as path = "readings.csv"')
        given = table.get("fleet")
        fleets = [
            self.made(FleetAddress, ("fleet", k), one)
            for k, one in enumerate(given if isinstance(given, list) else ())
        ]
        if len({one.address for one in fleets if one}) < sum(one is not None for one in fleets):
            self.wrong(("fleet",), "has one address twice; write each fleet once")
        asks = {} if "data" in table else {"epsilon": 1.0}  # who only asks spends nothing
        budget = self.made(SiteBudget.of, ("budget",), table.get("budget", asks))
        policy = self.made(Policy, ("policy",), table["policy"]) if "policy" in table else None
        log, database = self.made(_site, ("site",), table.get("site", {})) or ("", "")
        return SiteConfig(
            str(name), table.get("data", {}), budget, tuple(fleets), policy,
            (folder / log) if log else None, folder / database, folder, self.where.file,
        )  # fmt: skip

    def made(self, make: Callable[..., Any], path: KeyPath, table: Any) -> Any:
        """What is made of a section; None where something is wrong with it."""
        if not isinstance(table, dict):
            return None  # said of the file
        head = path[0] if path else ""
        place = f"[[{head}]]" if len(path) > 1 else f"[{head}]" if path else "the top of the file"
        found = problems(make, table, place)
        for key, text in found.items():
            self.wrong((*path, key), text)
        try:
            return None if found else made(make, table)
        except VeilsumError as error:
            key = re.split(r"\W", str(error))[0]
            text = str(error).removeprefix(f"{key}: ")
            self.wrong((*path, key) if key in table else path, text)
            return None

    def no_secrets(self, path: KeyPath, table: Section) -> None:
        """A key that is named like one, anywhere; its value is not shown."""
        for name, value in table.items():
            if isinstance(value, str) and self._is_secret(path, name, value):
                self.wrong((*path, name), NO_SECRET)
            for k, one in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(one, dict):
                    self.no_secrets((*path, name, k) if one is not value else (*path, name), one)

    @staticmethod
    def _is_secret(path: KeyPath, name: str, value: str) -> bool:
        """By its name, or as a part of an address; a column may be the key of readings."""
        named = SECRETS.search(name) and not name.endswith(("_file", "_env"))
        return bool(IN_ADDRESS.search(value) or (named and (path, name) != (("data",), "key")))

    def wrong(self, path: KeyPath, text: str) -> None:
        self.issues.setdefault(path, Issue(path, text))


def write_site_toml(
    path: str | Path, *, name: str, address: str, authority: str, table: str | None, epsilon: float,
    per: str = "reading", policy: Policy | None = None,
) -> SiteConfig:  # fmt: skip
    """Write a short site.toml with comments, where none is yet, and return what it says."""
    text = site_toml(name, address, authority, table, epsilon, per, policy)
    found = site_config(text, str(path), Path(path).resolve().parent)
    try:
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise FleetError(f"{path} is there already: change it, or name another file") from None
    except OSError as problem:
        raise FleetError(f"cannot write {path}: {problem.strerror}; check the folder") from None
    return found


def site_toml(
    name: str, address: str, authority: str, table: str | None, epsilon: float, per: str,
    policy: Policy | None,
) -> str:  # fmt: skip
    """The text of a site.toml."""
    data = "" if table is None else _data_text(table, epsilon, per)
    return f"""\
# What this site is and allows. No passwords here: a store's credentials come from the environment.
name = {_quoted(name)}

{data}[[fleet]]
address = {_quoted(address)}
authority = {_quoted(authority)}

{"" if table is None else _policy_text(policy)}"""


def _data_text(table: str, epsilon: float, per: str) -> str:
    return f"""\
[data]
path = {_quoted(table)}

[budget]                # of these data, in all fleets together; nobody else can raise it
epsilon = {float(epsilon)!r}
per = {_quoted(per)}         # reading, stream, "window 7 days", day, month, year

"""


_NO_POLICY = """\
# [policy]              # without it each question waits for `veilsum fleet approve`
# kinds = ["mean", "count"]
# columns = ["kwh"]
# max_epsilon = 1.0
# per = "month"         # question, day, month, year
"""


def _policy_text(policy: Policy | None) -> str:
    if policy is None:
        return _NO_POLICY
    askers = f"askers = {_listed(policy.askers)}\n" if policy.askers else ""
    return f"""\
[policy]                # what is approved without a person
kinds = {_listed(policy.kinds)}
columns = {_listed(policy.columns)}
max_epsilon = {policy.max_epsilon!r}
per = {_quoted(policy.per)}
min_records = {policy.min_records}
protocols = {_listed(policy.protocols)}
{askers}"""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _listed(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"
