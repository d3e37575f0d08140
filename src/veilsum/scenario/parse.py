"""Scenario: a TOML file that says what to run, checked before anything is built.

A variant is the base of the file with its own keys merged in. A choice brings its own options: a
variant that takes another family or algorithm drops the options of the one in the base.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from veilsum._toml import Issue, SourceMap, format_value, lines, raise_, read_text, read_toml
from veilsum.errors import ScenarioError
from veilsum.results import Provenance
from veilsum.scenario import check
from veilsum.scenario.loader import Table, validate
from veilsum.scenario.schema import Epsilons, Name, Replicas, Section, Seed, Spec

if TYPE_CHECKING:
    from veilsum.scenario.build import Job


@dataclass(frozen=True, eq=False)
class Scenario:
    """A checked scenario with one full specification for each variant.

    Attributes
    ----------
    name, title
        Of the scenario; the name is part of file names.
    text
        The TOML text.
    folder
        Paths in the text are relative to it.
    source_map
        The file and the line of each key, for error messages.
    variants
        A `Spec` for each variant; a scenario without [[variant]] tables has one.

    Examples
    --------
    >>> from veilsum.scenario import template
    >>> scenario = Scenario.parse(template())
    >>> [spec.name for spec in scenario.variants]
    ['jacobi', 'average', 'no-privacy']
    """

    name: str
    title: str
    text: str
    folder: Path
    source_map: SourceMap
    variants: tuple[Spec, ...]

    @property
    def public_text(self) -> str:
        """The text, for a page; empty if it has the seed of measured signals' noise."""
        secret = any(s.signals.draw is None and s.seed is not None for s in self.variants)
        return "" if secret else self.text

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Scenario:
        """Read a scenario from a file.

        Parameters
        ----------
        path
            A TOML file. Paths in it are relative to its folder.

        Returns
        -------
        Scenario
            The checked scenario.

        Raises
        ------
        ScenarioError
            If the file cannot be read or is wrong; the message names every wrong line.
        """
        if not isinstance(path, str | PathLike):
            raise ScenarioError(
                f"a scenario is read from the path of a TOML file; found a {type(path).__name__}; "
                "Scenario.parse takes the text itself"
            )
        file = Path(path)
        text = read_text(path, "scenario")
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem).strip("-._")[:64]
        return cls.parse(text, str(path), folder=file.resolve().parent, name=stem or "scenario")

    @classmethod
    def parse(
        cls,
        text: str,
        where: str = "<text>",
        folder: str | PathLike[str] = ".",
        name: str = "scenario",
    ) -> Scenario:
        """Read a scenario from its text.

        Parameters
        ----------
        text
            TOML.
        where
            What error messages call the text.
        folder
            Paths in the text are relative to it.
        name
            The name of the scenario if the text has none.

        Returns
        -------
        Scenario
            The checked scenario.

        Raises
        ------
        ScenarioError
            If the text is wrong; the message names every wrong line.
        """
        if not isinstance(text, str):
            raise ScenarioError(
                f"a scenario is text in TOML; found a {type(text).__name__}; decode bytes as UTF-8, or "
                "give Scenario.load the path of a file"
            )
        base = read_toml(text, where)
        variants = base.pop("variant", [])
        source_map = SourceMap(where, lines(text))
        _check_variants(variants, source_map)
        names = {index: variant["name"] for index, variant in enumerate(variants)}
        source_map = replace(source_map, variants=names)
        base = {"name": name} | base
        tables = [with_mode(merge(base, variant)) for variant in variants] or [with_mode(base)]
        specs, messages = [], []
        for index, table in enumerate(tables):
            spec, issues = validate(Spec, table, also=("variant",))
            if spec is not None:
                specs.append(spec)
                issues = list(check.issues(spec, Path(folder)))
            messages += [source_map.message(i, index if variants else None) for i in issues]
        heading, issues = validate(_Heading, {k: base[k] for k in ("name", "title") if k in base})
        raise_([*messages, *map(source_map.message, issues)])
        assert heading is not None, "there were no issues"
        title = heading.title or heading.name
        return cls(heading.name, title, text, Path(folder), source_map, tuple(specs))

    @property
    def digest(self) -> str:
        """sha256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def provenance(self) -> Provenance:
        """What the results of this scenario say of where they come from."""
        seed = self.variants[0].seed or 0
        return Provenance(self.name, self.title, self.source_map.file, self.digest, seed)

    def with_(
        self,
        seed: int | None = None,
        replicas: int | None = None,
        epsilons: Sequence[float] | None = None,
    ) -> Self:
        """The same scenario with other values in every variant.

        Parameters
        ----------
        seed, replicas
            In place of those of the scenario.
        epsilons
            In place of those of the scenario, in variants that protect something.

        Returns
        -------
        Scenario
            A changed copy. Only the new values are checked.

        Raises
        ------
        ScenarioError
            If a value is wrong.

        Examples
        --------
        >>> from veilsum.scenario import template
        >>> changed = Scenario.parse(template()).with_(seed=5, epsilons=[0.5, 2.0])
        >>> changed.variants[0].seed, changed.variants[0].privacy.epsilon
        (5, (0.5, 2.0))
        """
        given: Table = {"seed": seed, "replicas": replicas, "epsilon": epsilons}
        given = {key: value for key, value in given.items() if value is not None}
        if "epsilon" in given:
            given["epsilon"] = list(given["epsilon"])
        values, issues = validate(_Overrides, given)
        raise_(SourceMap("with_").message(_at_privacy(issue)) for issue in issues)
        assert values is not None, "there were no issues"
        return replace(self, variants=tuple(values.applied(spec) for spec in self.variants))

    def build(self, variant: str | Spec | None = None, signals: bool = True) -> Job:
        """Build one variant, ready to run.

        Parameters
        ----------
        variant
            A variant or its name; the first without one.
        signals
            Without them no file of readings is opened: each agent reads its own.

        Returns
        -------
        Job
            The problem to run and what to record.

        Raises
        ------
        ScenarioError
            If there is no such variant, or its parts do not fit together.

        Examples
        --------
        >>> from veilsum.scenario import template
        >>> Scenario.parse(template()).build("average").problem.rounds
        60
        """
        from veilsum.scenario.build import Builder

        name = variant.name if isinstance(variant, Spec) else variant
        known = [spec.name for spec in self.variants]
        if name is not None and name not in known:
            raise ScenarioError(f"there is no variant {name!r}; known: {', '.join(known)}")
        return Builder(self).job(0 if name is None else known.index(name), signals)

    def jobs(self) -> list[Job]:
        """Build every variant; a network or file that several use is loaded once.

        Returns
        -------
        list of Job
            In the order of the file.

        Examples
        --------
        >>> from veilsum.scenario import template
        >>> [job.name for job in Scenario.parse(template()).jobs()]
        ['jacobi', 'average', 'no-privacy']
        """
        from veilsum.scenario.build import Builder

        builder = Builder(self)
        return [builder.job(index) for index in range(len(self.variants))]


class _Heading(Section):
    """The name and the title of a scenario, which its variants replace."""

    name: Name
    title: str = ""


class _Overrides(Section):
    """Values that replace those of every variant."""

    seed: Seed | None = None
    replicas: Replicas | None = None
    epsilon: Epsilons = ()

    def applied(self, spec: Spec) -> Spec:
        """A copy of the specification with the values that are set."""
        update: Table = {"seed": self.seed, "replicas": self.replicas}
        update = {key: value for key, value in update.items() if value is not None}
        if self.epsilon and spec.privacy.epsilon:
            update["privacy"] = spec.privacy.model_copy(update={"epsilon": self.epsilon})
        return spec.model_copy(update=update) if update else spec


def _at_privacy(issue: Issue) -> Issue:
    return Issue(("privacy", *issue.path), issue.text) if issue.path[0] == "epsilon" else issue


def _check_variants(variants: Any, source_map: SourceMap) -> None:
    """[[variant]] must be a list of tables with different names."""
    if not isinstance(variants, list) or not all(isinstance(v, dict) for v in variants):
        raise_([source_map.message(Issue(("variant",), "allowed: sections [[variant]]"))])
    names = [variant.get("name") for variant in variants]
    issues = []
    for index, name in enumerate(names):
        path = ("variant", index, "name")
        if not isinstance(name, str):
            issues.append(Issue(path, 'missing; every variant needs a name = "..." of its own'))
        elif name in names[:index]:
            text = f"found {format_value(name)} twice; every variant needs its own"
            issues.append(Issue(path, text))
    raise_(map(source_map.message, issues))


SECURE = ("secure-sum", "secure-learn")
_CHOICES = {"algorithm": "name", "family": "name", "network": "graph", "privacy": "mode"}
_DEFAULTS = {"mode": "local"}  # of choices that a base may leave out
_UNAFFECTED = {
    "algorithm": ("rounds",),
    "family": ("unit",),
    "network": ("weights", "link_failures", "asleep"),
    "privacy": ("protect", "epsilon", "radius"),
}


def with_mode(table: Table) -> Table:
    """The table with the mode of a secure sum, which its algorithm says well enough."""
    privacy, algorithm = _section(table, "privacy"), _section(table, "algorithm")
    stated = "mode" in privacy or privacy.get("protect") != "signal"
    if stated or algorithm.get("name") not in SECURE:
        return table
    return table | {"privacy": dict(privacy) | {"mode": "secure"}}


def merge(base: Mapping[str, Any], variant: Mapping[str, Any]) -> Table:
    """The base with a variant merged in: tables are merged, other values replaced."""
    return _overlay(_without_options(deepcopy(dict(base)), variant), variant)


def _overlay(base: Table, variant: Mapping[str, Any]) -> Table:
    for key, value in variant.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        base[key] = _overlay(base[key], value) if both else deepcopy(value)
    return base


def _without_options(base: Table, variant: Mapping[str, Any]) -> Table:
    """The base without the options of every choice that the variant changes."""
    if _differs(base, variant, "family", "name") and isinstance(base.get("signals"), dict):
        base["signals"].pop("draw", None)
    if _differs(base, variant, "privacy", "sensitivity"):
        base["privacy"].pop("delta", None)
    if _section(variant, "privacy").get("protect") == "nothing":
        base["privacy"] = {}
    for section, choice in _CHOICES.items():
        if _differs(base, variant, section, choice):
            base[section] = {k: v for k, v in base[section].items() if k in _UNAFFECTED[section]}
    for source in {"draw", "file"} & set(_section(variant, "signals")):
        if source not in _section(base, "signals"):
            base["signals"] = {}
    return base


def _differs(base: Mapping[str, Any], variant: Mapping[str, Any], section: str, key: str) -> bool:
    """Whether both have the section, and the variant another choice."""
    new, old = _section(variant, section), _section(base, section)
    return bool(old) and key in new and new[key] != old.get(key, _DEFAULTS.get(key))


def _section(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name, {})
    return found if isinstance(found, dict) else {}
