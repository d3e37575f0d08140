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
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from veilsum._toml import (
    MISSING,
    Issue,
    KeyPath,
    SourceMap,
    choose,
    format_value,
    lines,
    options,
    raise_,
    read_text,
    read_toml,
    unknown,
)
from veilsum.errors import FleetError, VeilsumError
from veilsum.fleet.budget_units import SiteBudget
from veilsum.fleet.consent import PERIODS, Policy
from veilsum.fleet.release_rules import RULES
from veilsum.questions import QUESTIONS

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
KEY = re.compile(r"[0-9a-f]{64}")
SECRETS = re.compile(
    r"passw|secret|token|credential|access_?key|private|api_?key|^(user)?pwd?$|^key$", re.I
)
IN_ADDRESS = re.compile(
    r"://[^/@:]*:[^/@]*@|[?&][^=]*(sig|token|secret|key|password|credential)[^=]*=", re.I
)
SECTIONS = ("name", "data", "budget", "fleet", "policy", "site")
BUDGET, FLEET, SITE = ("epsilon", "delta", "per"), ("address", "authority"), ("log", "database")
POLICY = ("kinds", "columns", "max_epsilon", "per", "min_records", "protocols", "askers")
NO_SECRET = (
    "a secret does not belong into this file, which is copied and shown: a store's credentials come from "
    "the environment or the provider's own files; take it out, and change it if others could read the file"
)
DATABASE = "site.db"
Value = TypeVar("Value")


@dataclass(frozen=True)
class FleetAddress:
    """A fleet that a site is in."""

    address: str  # of its board: a folder or a store's URL
    authority: str  # the key that signs its membership, in hexadecimal digits


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
    where: SourceMap = field(default_factory=lambda: SourceMap("site.toml"))  # for errors

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
            raise FleetError(
                f"{self.where.file} has {len(known)} fleets; say which: {', '.join(known)}"
            )
        raise FleetError(f"{self.where.file} has no fleet at {address}; {options(address, known)}")


def read_site_config(path: str | Path) -> SiteConfig:
    """Read and check a site.toml."""
    text = read_text(path, "configuration of the site", FleetError)
    return site_config(text, str(path), Path(path).resolve().parent)


def site_config(text: str, file: str, folder: Path = Path()) -> SiteConfig:
    """A configuration from its text."""
    table = read_toml(text, file, "configuration of a site", FleetError)
    reader = _SiteReader(SourceMap(file, lines(text)))
    found = reader.config(table, folder)
    raise_(map(reader.where.message, reader.issues), FleetError)
    return found


@dataclass
class _SiteReader:
    """Checks values one by one and collects everything that is wrong."""

    where: SourceMap
    issues: list[Issue] = field(default_factory=list)

    def config(self, table: Mapping[str, Any], folder: Path) -> SiteConfig:
        self.no_secrets((), table)
        self.known((), table, SECTIONS)
        site = self.section(table, "site", SITE, needed=False)
        log = self.text(site, ("site", "log"), needed=False)
        database = self.text(site, ("site", "database"), needed=False) or DATABASE
        return SiteConfig(
            self.name(table), self.data(table), self.budget(table), self.fleets(table),
            self.policy(table), (folder / log) if log else None, folder / database, folder, self.where,
        )  # fmt: skip

    def name(self, table: Mapping[str, Any]) -> str:
        found = self.text(table, ("name",))
        if found and not NAME.fullmatch(found):
            self.wrong(
                ("name",), f"found {format_value(found)}; allowed: letters, digits, dots, hyphens and "
                "underscores, 64 at most, such as north"
            )  # fmt: skip
        return found

    def data(self, table: Mapping[str, Any]) -> Mapping[str, Any]:
        found = self.section(table, "data", None, needed=False)  # who only asks has none
        if "data" in table and isinstance(table["data"], dict) and not found:
            self.wrong(("data",), 'says nothing; add its source, such as path = "readings.csv"')
        return found

    def budget(self, table: Mapping[str, Any]) -> SiteBudget:
        section = self.section(table, "budget", BUDGET, needed="data" in table)
        epsilon = self.number(
            section, ("budget", "epsilon"), needed=isinstance(table.get("budget"), dict)
        )
        delta = self.number(section, ("budget", "delta"), 0.0)
        if not 0 < epsilon < math.inf:
            self.wrong(
                ("budget", "epsilon"), f"found {epsilon:g}; allowed: a finite number above 0"
            )
        if not 0 <= delta < 1:
            self.wrong(("budget", "delta"), f"found {delta:g}; allowed: a number from 0 to below 1")
        usual = {"epsilon": 1.0, "delta": 0.0, "per": "reading"}
        per = section.get("per", "reading")
        found = self.tried(("budget", "per"), lambda: SiteBudget.of(usual | {"per": per}))
        fine = found is not None and 0 < epsilon < math.inf and 0 <= delta < 1
        return SiteBudget.of(
            usual | ({"epsilon": epsilon, "delta": delta, "per": per} if fine else {})
        )

    def fleets(self, table: Mapping[str, Any]) -> tuple[FleetAddress, ...]:
        given = table.get("fleet")
        if isinstance(given, dict):
            self.wrong(
                ("fleet",), "is [fleet]; write [[fleet]], with two brackets: there may be several"
            )
            return ()
        if not isinstance(given, list) or not given or not all(isinstance(g, dict) for g in given):
            self.wrong(("fleet",), f"{MISSING[2:]}a section [[fleet]] with address and authority")
            return ()
        found = tuple(self.fleet(k, one) for k, one in enumerate(given))
        addresses = [one.address for one in found if one.address]
        if len(set(addresses)) < len(addresses):
            self.wrong(("fleet",), "has one address twice; write each fleet once")
        return found

    def fleet(self, k: int, section: Mapping[str, Any]) -> FleetAddress:
        path: KeyPath = ("fleet", k)
        self.known(path, section, FLEET)
        address = self.text(section, (*path, "address"), shown="[[fleet]]")
        authority = self.text(section, (*path, "authority"), shown="[[fleet]]").lower()
        if authority and not KEY.fullmatch(authority):
            self.wrong(
                (*path, "authority"), "found another text; allowed: the authority's public key, 64 "
                "hexadecimal digits, as `veilsum fleet init` prints it",
            )  # fmt: skip
        return FleetAddress(address, authority)

    def policy(self, table: Mapping[str, Any]) -> Policy | None:
        if "policy" not in table:
            return None
        section = self.section(table, "policy", POLICY)
        before = len(self.issues)
        kinds = self.words(section, "kinds", QUESTIONS, needed=True)
        columns = self.words(section, "columns", None, needed=True)
        epsilon = self.number(section, ("policy", "max_epsilon"), needed=True)
        per = self.text(section, ("policy", "per"), needed=False) or "question"
        if per not in PERIODS:
            self.wrong(("policy", "per"), choose(per, PERIODS))
        least = section.get("min_records", 1)
        if not isinstance(least, int) or isinstance(least, bool) or least < 1:
            self.wrong(
                ("policy", "min_records"), f"found {format_value(least)}; allowed: a whole number of at "
                "least 1"
            )  # fmt: skip
        protocols = self.words(section, "protocols", RULES) or tuple(RULES)
        askers = self.words(section, "askers", None)
        if not 0 < epsilon < math.inf:
            self.wrong(
                ("policy", "max_epsilon"), f"found {epsilon:g}; allowed: a finite number above 0"
            )
        if len(self.issues) > before:
            return None
        return Policy(kinds, columns, epsilon, per, least, protocols, askers)

    def words(
        self, section: Mapping[str, Any], name: str, allowed: Any, needed: bool = False
    ) -> tuple[str, ...]:
        path = ("policy", name)
        if name not in section:
            if needed:
                self.wrong(path, f"{MISSING[2:]}{name} = [...] to [policy]")
            return ()
        given = section[name]
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            self.wrong(
                path, f'found {format_value(given)}; allowed: a list of texts, such as ["a", "b"]'
            )
            return ()
        for one in given:
            if allowed is not None and one not in allowed:
                self.wrong(path, choose(one, allowed))
        return tuple(given)

    def section(
        self,
        table: Mapping[str, Any],
        name: str,
        allowed: Sequence[str] | None,
        needed: bool = True,
    ) -> Mapping[str, Any]:
        found = table.get(name)
        if not isinstance(found, dict):
            if name in table:
                self.wrong((name,), f"allowed: a section [{name}] of keys and values")
            elif needed:
                self.wrong((name,), f"{MISSING[2:]}a section [{name}]")
            return {}
        if allowed is not None:
            self.known((name,), found, allowed)
        return found

    def text(
        self, section: Mapping[str, Any], path: KeyPath, needed: bool = True, shown: str = ""
    ) -> str:
        name = str(path[-1])
        if name not in section:
            if needed:
                to = shown or (
                    f"[{path[0]}]" if len(path) > 1 else "the top, before the first section"
                )
                self.wrong(path, f"{MISSING[2:]}{name} = ... to {to}")
            return ""
        found = section[name]
        if not isinstance(found, str) or not found.strip() or "\0" in found:
            self.wrong(path, "allowed: text in quotes that is not empty")
            return ""
        return found

    def number(
        self,
        section: Mapping[str, Any],
        path: KeyPath,
        otherwise: float = 1.0,
        needed: bool = False,
    ) -> float:
        name = str(path[-1])
        if name not in section:
            if needed:
                self.wrong(path, f"{MISSING[2:]}{name} = ... to [{path[0]}]")
            return otherwise
        found = section[name]
        if not isinstance(found, int | float) or isinstance(found, bool):
            self.wrong(path, f"found {format_value(found)}; allowed: a number")
            return otherwise
        return float(found)

    def tried(self, path: KeyPath, make: Callable[[], Value]) -> Value | None:
        try:
            return make()
        except VeilsumError as error:
            self.wrong(path, str(error))
            return None

    def no_secrets(self, path: KeyPath, table: Mapping[str, Any]) -> None:
        """A key that is named like one, anywhere; its value is not shown."""
        for name, value in table.items():
            if isinstance(value, str) and self._is_secret(path, name, value):
                self.wrong((*path, name), NO_SECRET)
            elif isinstance(value, dict):
                self.no_secrets((*path, name), value)
            elif isinstance(value, list):
                for k, one in enumerate(value):
                    if isinstance(one, dict):
                        self.no_secrets((*path, name, k), one)

    @staticmethod
    def _is_secret(path: KeyPath, name: str, value: str) -> bool:
        """By its name, or as a part of an address; a column may be the key of readings."""
        named = SECRETS.search(name) and not name.endswith(("_file", "_env"))
        return bool(IN_ADDRESS.search(value) or (named and (path, name) != (("data",), "key")))

    def known(self, path: KeyPath, section: Mapping[str, Any], allowed: Sequence[str]) -> None:
        already = {issue.path for issue in self.issues}
        for name in section:
            if name not in allowed and (*path, name) not in already:
                self.wrong((*path, name), unknown(name, allowed))

    def wrong(self, path: KeyPath, text: str) -> None:
        self.issues.append(Issue(path, text))


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
per = {_quoted(per)}         # {PER_WORDS}

"""


PER_WORDS = 'reading, stream, "window 7 days", day, month, year'
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
