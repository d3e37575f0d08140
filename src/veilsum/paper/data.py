"""Locate or download the recorded readings of 537 Swiss households.

`VEILSUM_DATA` names a directory with `households_daily_kwh.csv` and
`households_hourly_kwh.parquet`, derived from `elcons_15min` of the R package
ResidentialEnergyConsumption 1.1.0 (CC BY-SA 4.0, so veilsum ships no copy). Without it, files are
downloaded from `VEILSUM_DATA_URL`, a base address of your choice. Either way their SHA-256 is
checked.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse
from urllib.request import urlopen

from veilsum.errors import VeilsumError

if TYPE_CHECKING:
    from veilsum.signals import Signals

DIRECTORY, ADDRESS = "VEILSUM_DATA", "VEILSUM_DATA_URL"
SOURCE = "elcons_15min of the R package ResidentialEnergyConsumption 1.1.0 (CC BY-SA 4.0)"
CACHE = Path(".cache") / "veilsum"  # in the home directory
SCHEMES = ("https", "http", "file")
LONGEST_WAIT = 60.0  # seconds without an answer


DAILY, HOURLY = "households_daily_kwh.csv", "households_hourly_kwh.parquet"
CHECKSUMS = {  # SHA-256
    DAILY: "b3e2b35c49b551824289c936b1362ae71f87b91ed9efa0ec4bd8f74c82b4b2c1",
    HOURLY: "217776c84c4779866aeabf85635aabfe23c6a777ba11b49563c8cd58656df19d",
}


class MissingDataError(VeilsumError, FileNotFoundError):
    """The recorded readings are not there; an experiment that needs them is skipped."""

    __str__ = Exception.__str__


def locate(name: str) -> Path:
    """The file in `VEILSUM_DATA`, or downloaded from `VEILSUM_DATA_URL`; its checksum is right."""
    directory, address = os.environ.get(DIRECTORY), os.environ.get(ADDRESS)
    if directory and (Path(directory) / name).is_file():
        return _published(Path(directory) / name)
    if address:
        return fetch(name, address, Path.home() / CACHE)
    where = f"{DIRECTORY} = {directory} has no {name}" if directory else f"no {DIRECTORY}"
    raise MissingDataError(
        f"recorded household readings were not found ({where}, no {ADDRESS}); set {DIRECTORY} to a "
        f"directory with {name}, or {ADDRESS} to an address to download it from. Its source is "
        f"{SOURCE}"
    )


def _published(path: Path) -> Path:
    """The path, if it is the published file: outputs compare with the truth, which is public."""
    if digest(path) != CHECKSUMS[path.name]:
        raise MissingDataError(
            f"{path} is not the published {path.name} (its SHA-256 differs). A reproduction "
            "writes errors against the truth, which is for public data only; run other readings "
            "with `veilsum run`"
        )
    return path


def fetch(name: str, address: str, directory: Path) -> Path:
    """Download a file once; a file with another SHA-256 is deleted."""
    path, checksum = directory / name, CHECKSUMS[name]
    if path.is_file() and digest(path) == checksum:
        return path
    url = f"{address.rstrip('/')}/{name}"
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
            raise MissingDataError(f"{name} could not be fetched from {url}: {problem}") from None
    found = digest(partial)
    if found != checksum:
        partial.unlink()
        raise MissingDataError(
            f"{url} has SHA-256 {found}, expected {checksum}; it is not the file that this "
            "reproduction was written for and was deleted"
        )
    return partial.rename(path)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def state() -> str:
    """The checksums of the readings, on which the outcome depends, or "absent"."""
    try:
        return " ".join(digest(locate(name)) for name in CHECKSUMS)
    except MissingDataError:
        return "absent"


@cache
def _read(path: Path) -> Signals:
    from veilsum.signals import as_signals

    return as_signals(path)


def raw(name: str) -> Signals:
    """The readings as the meters sent them, zeros and negative ones included."""
    return _read(locate(name))
