"""What the locks pin: `requirements.lock` and `requirements-test.lock` as data.

A lock is universal: the same name may be there twice, with markers that tell Pythons or systems apart.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
RUN = ROOT / "requirements.lock"
TEST = ROOT / "requirements-test.lock"


@dataclass(frozen=True)
class LockedPackage:
    """One pinned distribution: its version, where it applies, and the hashes of its files."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    def applies(self, environment: Mapping[str, str] | None = None) -> bool:
        """Whether the marker holds, on this machine or in the environment of another one."""
        return not self.marker or Marker(self.marker).evaluate(dict(environment or {}))

    @property
    def constraint(self) -> str:
        """The line without hashes, for `pip install --constraint`."""
        return f"{self.name}=={self.version}" + (f" ; {self.marker}" if self.marker else "")


def read_lock(path: Path) -> list[LockedPackage]:
    """Read a lock in its order."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        hashes = tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", line))
        requirement = Requirement(line.split(" --hash=")[0])
        (pin,) = requirement.specifier
        name = canonicalize_name(requirement.name)
        found.append(LockedPackage(name, pin.version, str(requirement.marker or ""), hashes))
    return found


def versions(packages: list[LockedPackage]) -> dict[str, list[str]]:
    """Give the versions of each name, one for most."""
    found: dict[str, list[str]] = {}
    for package in packages:
        found.setdefault(package.name, []).append(package.version)
    return found


def extras(root: Path = ROOT) -> dict[str, list[Requirement]]:
    """Direct requirements of the core and of each extra, extras of veilsum itself resolved."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {
        name: list(map(Requirement, each))
        for name, each in project["optional-dependencies"].items()
    }

    def resolved(name: str) -> list[Requirement]:
        found: list[Requirement] = []
        for requirement in declared[name]:
            if requirement.name == project["name"]:
                for inner in sorted(requirement.extras):
                    found += resolved(inner)
            else:
                found.append(requirement)
        return list({str(one): one for one in found}.values())

    core = list(map(Requirement, project["dependencies"]))
    return {"core": core, **{name: resolved(name) for name in declared}}
