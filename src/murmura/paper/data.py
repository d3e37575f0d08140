"""The real Swiss households: where they are, or where to get them.

`MURMURA_DATA` names a directory with `households_daily_kwh.csv` and
`households_hourly_kwh.parquet`, derived from `elcons_15min` of the R package
ResidentialEnergyConsumption 1.1.0 (CC BY-SA 4.0, so murmura ships no copy). Without it, files are
fetched from `MURMURA_DATA_URL`, a base address of your choice, and checked by their SHA-256.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import urlopen

from murmura.errors import MurmuraError

DIRECTORY, ADDRESS = "MURMURA_DATA", "MURMURA_DATA_URL"
SOURCE = "elcons_15min of the R package ResidentialEnergyConsumption 1.1.0 (CC BY-SA 4.0)"
CACHE = Path(".cache") / "murmura"  # in the home directory
SCHEMES = ("https", "http", "file")
LONGEST_WAIT = 60.0  # seconds without an answer


@dataclass(frozen=True)
class File:
    """A file by name and by what is in it."""

    name: str
    sha256: str


FILES = {
    "swiss-daily": File(
        "households_daily_kwh.csv",
        "b3e2b35c49b551824289c936b1362ae71f87b91ed9efa0ec4bd8f74c82b4b2c1",
    ),
    "swiss-hourly": File(
        "households_hourly_kwh.parquet",
        "217776c84c4779866aeabf85635aabfe23c6a777ba11b49563c8cd58656df19d",
    ),
}


class MissingDataError(MurmuraError, FileNotFoundError):
    """The real readings are not there; an entry that needs them is skipped."""

    __str__ = Exception.__str__


def locate(place: str) -> Path:
    """The file of a place: in `MURMURA_DATA`, or fetched from `MURMURA_DATA_URL` and checked."""
    file, directory = FILES[place], os.environ.get(DIRECTORY)
    if directory:
        path = Path(directory) / file.name
        if path.is_file():
            return _published(path, file)
    address = os.environ.get(ADDRESS)
    if address:
        return fetch(file, address, Path.home() / CACHE)
    where = f"{DIRECTORY} = {directory} has no {file.name}" if directory else f"no {DIRECTORY}"
    raise MissingDataError(
        f"real household readings are not here ({where}, no {ADDRESS}); set {DIRECTORY} to a "
        f"directory with {file.name}, or {ADDRESS} to an address to fetch it from. Its source is "
        f"{SOURCE}"
    )


def _published(path: Path, file: File) -> Path:
    """The file, if it is the published one: a reproduction writes what compares with the truth."""
    if digest(path) != file.sha256:
        raise MissingDataError(
            f"{path} is not the published {file.name} (its SHA-256 is another). A reproduction "
            "writes errors against the truth, which is for public data only; run your own "
            "readings with `murmura run`"
        )
    return path


def fetch(file: File, address: str, directory: Path) -> Path:
    """Download a file once; what does not have the known SHA-256 is not kept."""
    kept = directory / file.name
    if kept.is_file() and digest(kept) == file.sha256:
        return kept
    url = f"{address.rstrip('/')}/{file.name}"
    if urlparse(url).scheme not in SCHEMES:
        raise MissingDataError(
            f"{ADDRESS} must begin with one of {', '.join(SCHEMES)}; found {url}"
        )
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=directory, delete=False) as part:
        partial = Path(part.name)
        try:
            with urlopen(url, timeout=LONGEST_WAIT) as answer:
                while block := answer.read(1 << 20):
                    part.write(block)
        except OSError as problem:
            partial.unlink()
            raise MissingDataError(
                f"{file.name} could not be fetched from {url}: {problem}"
            ) from None
    found = digest(partial)
    if found != file.sha256:
        partial.unlink()
        raise MissingDataError(
            f"{url} has SHA-256 {found}, expected {file.sha256}; it is not the file this "
            "reproduction was written for and was not kept"
        )
    return partial.rename(kept)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def state() -> str:
    """What the outcome of an entry with real readings depends on: their digests, or nothing."""
    try:
        return " ".join(digest(locate(place)) for place in FILES)
    except MissingDataError:
        return "absent"


def raw(place: str) -> Any:
    """The readings as the meters sent them, zeros and negative ones included."""
    return _read(locate(place))


def readings(place: str) -> Any:
    """The readings in the order of the network's agents, negative ones moved to 0."""
    from murmura.signals import as_signals

    return as_signals(raw(place).clip(0.0, None).values)


@cache
def _read(path: Path) -> Any:
    from murmura.signals import as_signals

    return as_signals(path)
