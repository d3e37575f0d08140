"""Scenario: what to run, read from TOML and checked before anything is built."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from murmura.errors import ScenarioError
from murmura.scenario import check, locate
from murmura.scenario.faults import Fault, Places, from_pydantic, refuse, shown
from murmura.scenario.merge import Table, merged
from murmura.scenario.model import Spec

if TYPE_CHECKING:
    from murmura.scenario.build import Job


@dataclass(frozen=True, eq=False)
class Scenario:
    """A checked scenario; `variants` holds one full specification for each run.

    Scenario.load("examples/us-power-grid.toml").with_(replicas=2).jobs()
    """

    name: str
    title: str
    text: str
    folder: Path
    places: Places
    tables: tuple[Table, ...]
    variants: tuple[Spec, ...]

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Scenario:
        """Read a scenario from a file; its paths are relative to the file."""
        file = Path(path)
        try:
            text = file.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as problem:
            raise ScenarioError(f"{path} is not UTF-8 text: {problem.reason}") from None
        except OSError as problem:
            raise ScenarioError(
                f"cannot read the scenario {path}: {problem.strerror}; `murmura init` writes one"
            ) from None
        return cls.parse(text, str(path), folder=file.resolve().parent, name=_name_of(file))

    @classmethod
    def parse(
        cls,
        text: str,
        where: str = "<text>",
        folder: str | PathLike[str] = ".",
        name: str = "scenario",
    ) -> Scenario:
        """Read a scenario from its text; `name` stands if the text gives none."""
        base = _toml(text, where)
        variants = base.pop("variant", [])
        places = Places(where, locate.lines(text))
        _check_variants(variants, places)
        names = {index: variant["name"] for index, variant in enumerate(variants)}
        places = replace(places, names=names)
        base = {"name": name} | base
        tables = tuple(merged(base, variant) for variant in variants) or (base,)
        specs = _specs(tables, places, Path(folder), bool(variants))
        _check_name(base, places)
        title = base.get("title") or base["name"]
        return cls(base["name"], title, text, Path(folder), places, tables, specs)

    @property
    def digest(self) -> str:
        """sha256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def with_(
        self,
        seed: int | None = None,
        replicas: int | None = None,
        epsilons: Sequence[float] | None = None,
    ) -> Self:
        """The same scenario with another seed, other replicas or other epsilons in all variants."""
        asked = {"seed": seed, "replicas": replicas}
        given = {key: value for key, value in asked.items() if value is not None}
        tables = [dict(table) | given for table in self.tables]
        for table in tables:
            if epsilons is not None and table["privacy"]["protect"] != "nothing":
                table["privacy"] = table["privacy"] | {"epsilon": list(epsilons)}
        specs = _specs(tuple(tables), Places("with_"), self.folder, False)
        return replace(self, tables=tuple(tables), variants=specs)

    def build(self, variant: str | Spec | None = None) -> Job:
        """Build one variant, the first if none is named, ready to run."""
        from murmura.scenario.build import Builder

        return Builder(self).job(self._index(variant))

    def terms(self, variant: str | Spec | None = None) -> Job:
        """Build one variant without its signals: what real agents have in common."""
        from murmura.scenario.build import Builder

        return Builder(self).job(self._index(variant), signals=False)

    def jobs(self) -> list[Job]:
        """Build every variant; what they share is built once."""
        from murmura.scenario.build import Builder

        builder = Builder(self)
        return [builder.job(index) for index in range(len(self.variants))]

    def _index(self, variant: str | Spec | None) -> int:
        name = variant.name if isinstance(variant, Spec) else variant
        known = [spec.name for spec in self.variants]
        if name is not None and name not in known:
            raise ScenarioError(f"there is no variant {name!r}; known: {', '.join(known)}")
        return 0 if name is None else known.index(name)


def _toml(text: str, where: str) -> Table:
    """The text as a table; a mistake of syntax is named by its line."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(problem))
        line = int(found[1]) if found and found[1] else text.count("\n") + 1
        reason = str(problem)[: found.start()] if found else str(problem)
        raise ScenarioError(f"{where}, line {line}: not valid TOML: {reason}") from None
    except ValueError:  # tomllib leaves this one to int()
        raise ScenarioError(f"{where}: a whole number has too many digits; write 1e9") from None
    except RecursionError:
        raise ScenarioError(f"{where}: not a scenario: its values are nested too deeply") from None


def _check_variants(variants: Any, places: Places) -> None:
    """[[variant]] is a list of tables, each with a name of its own."""
    if not isinstance(variants, list) or not all(isinstance(v, dict) for v in variants):
        refuse([places.message(Fault(("variant",), "allowed: sections [[variant]]"))])
    names = [variant.get("name") for variant in variants]
    wrong = []
    for index, name in enumerate(names):
        path = ("variant", index, "name")
        if not isinstance(name, str):
            wrong.append(Fault(path, 'missing; every variant needs a name = "..." of its own'))
        elif name in names[:index]:
            wrong.append(Fault(path, f"found {shown(name)} twice; every variant needs its own"))
    refuse(map(places.message, wrong))


def _check_name(base: Table, places: Places) -> None:
    """The scenario's own name and title: with variants, no `Spec` has seen them."""
    stated: Table = {key: base[key] for key in ("name", "title") if key in base}
    errors = _model_faults(stated)
    refuse(places.message(fault) for fault in errors if fault.path in (("name",), ("title",)))


def _specs(
    tables: tuple[Table, ...], places: Places, folder: Path, varied: bool
) -> tuple[Spec, ...]:
    """Every table as a specification, or one error that names all that is wrong in any of them."""
    messages, specs = [], []
    for index, table in enumerate(tables):
        found = _model_faults(table)
        if not found:
            specs.append(Spec.model_validate(table))
            found = list(check.faults(specs[-1], folder))
        messages += [places.message(fault, index if varied else None) for fault in found]
    refuse(messages)
    return tuple(specs)


def _model_faults(table: Table) -> list[Fault]:
    try:
        Spec.model_validate(table)
    except ValidationError as problem:
        return from_pydantic(problem)
    return []


def _name_of(file: Path) -> str:
    """The name of a scenario that gives none: its file's, in the letters that a name may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem).strip("-._")[:64] or "scenario"
