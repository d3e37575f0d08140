"""For which systems the package index has wheels of the locked versions.

The files are those of the index's simple pages (PEP 503, PEP 691). A wheel counts for a system if one of
its tags fits and its hash is in the lock.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.request import Request, urlopen

from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from tools.locks import LockedPackage

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
GLIBC = 36  # of Debian 12 and of Raspberry Pi OS 12, 2.36
SIMPLE = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"


@dataclass(frozen=True)
class TargetSystem:
    """A kind of machine: the tags of its wheels, and what markers see there."""

    name: str
    platforms: tuple[str, ...]
    system: str
    machine: str

    def tags(self, python: str) -> frozenset[Tag]:
        """Give every tag that a Python of this version accepts there."""
        major, minor = map(int, python.split("."))
        given = list(self.platforms)
        own = cpython_tags((major, minor), platforms=given)
        return frozenset([*own, *compatible_tags((major, minor), platforms=given)])

    def environment(self, python: str) -> dict[str, str]:
        """Give what environment markers see there."""
        platform = {"Linux": "linux", "Darwin": "darwin", "Windows": "win32"}[self.system]
        return {
            "implementation_name": "cpython",
            "os_name": "nt" if platform == "win32" else "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_system": self.system,
            "python_full_version": f"{python}.0",
            "python_version": python,
            "sys_platform": platform,
        }


def _linux(machine: str) -> TargetSystem:
    libc = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC, 4, -1)]
    older = [
        f"{name}_{machine}" for name in ("manylinux2014", "manylinux2010", "manylinux1", "linux")
    ]
    return TargetSystem(f"Linux {machine}", (*libc, *older), "Linux", machine)


SYSTEMS = (
    _linux("x86_64"),
    _linux("aarch64"),
    _linux("armv7l"),
    TargetSystem("macOS arm64", tuple(mac_platforms((14, 0), "arm64")), "Darwin", "arm64"),
    TargetSystem("Windows x86_64", ("win_amd64",), "Windows", "AMD64"),
)


def index_address() -> str:
    """Give the address of the index that pip is set up to use."""
    code = (
        "from pip._internal.cli.main_parser import parse_command\n"
        "from pip._internal.commands import create_command\n"
        "options, _ = create_command('install').parse_args(['x'])\n"
        "print(options.index_url)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip().rstrip("/")


def files_of(index: str, name: str) -> dict[str, str]:
    """Give the files of a project on the index: the hash of each by its name."""
    request = Request(f"{index}/{name}/", headers={"Accept": SIMPLE})
    with urlopen(request, timeout=60) as answer:
        return parse_page(answer.read().decode(), answer.headers.get_content_type())


def parse_page(text: str, kind: str) -> dict[str, str]:
    """Read a project's page of an index, in HTML or JSON."""
    if kind.endswith("json"):
        listed = json.loads(text)["files"]
        return {file["filename"]: file["hashes"].get("sha256", "") for file in listed}
    links = re.findall(r'<a\s[^>]*?href="([^"]+)"[^>]*>([^<]+)</a>', text)
    return {
        file.strip(): html.unescape(address).partition("sha256=")[2][:64] for address, file in links
    }


def wheels_for(
    packages: Iterable[LockedPackage], files: dict[str, str], system: TargetSystem, python: str
) -> Iterator[str]:
    """Give the wheels of the locked version that a system and Python accepts."""
    tags = system.tags(python)
    for package in packages:
        if not package.applies(system.environment(python)):
            continue
        for file, digest in files.items():
            try:
                _, version, _, offered = parse_wheel_filename(file)
            except InvalidWheelFilename:
                continue
            if str(version) == package.version and digest in package.hashes and offered & tags:
                yield file


Survey = dict[str, dict[str, list[str] | None]]


def survey(packages: list[LockedPackage]) -> Survey:
    """Look up which Pythons of each system have a wheel, for every name.

    Returns
    -------
    dict
        By name, then by system: the Pythons for which the locked version has a wheel; None where
        markers leave the package out. A name whose wheels are pure Python has the one entry `any`.
    """
    index = index_address()
    names = sorted({package.name for package in packages})
    with ThreadPoolExecutor(8) as pool:
        found = dict(zip(names, pool.map(lambda name: files_of(index, name), names), strict=True))
    return {name: covered([p for p in packages if p.name == name], found[name]) for name in names}


def covered(packages: list[LockedPackage], files: dict[str, str]) -> dict[str, list[str] | None]:
    """Give for one name, by system, the Pythons that have a wheel among its files."""
    hashes = {digest for package in packages for digest in package.hashes}
    wheels = [name for name, digest in files.items() if digest in hashes and ".whl" in name]
    if wheels and all(name.endswith("-none-any.whl") for name in wheels):
        return {"any": list(PYTHONS)}
    found: dict[str, list[str] | None] = {}
    for system in SYSTEMS:
        needed = [
            python
            for python in PYTHONS
            if any(package.applies(system.environment(python)) for package in packages)
        ]
        having = [python for python in needed if any(wheels_for(packages, files, system, python))]
        found[system.name] = having if needed else None
    return found
