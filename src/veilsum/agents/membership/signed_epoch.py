"""One epoch as one file: the scenario and what it refers to, signed by the authority.

    {"kind": "veilsum epoch", "format": 1, "network": "demo", "epoch": 2, "scenario": "scenario.toml",
     "files": {"scenario.toml": "...", "links.csv": "..."}, "addresses": {"north": "tls/..."},
     "signature": "..."}

The signature is over all other fields in canonical JSON (`pki.statements`, purpose "epoch"), so an
agent can tell an epoch that the authority rolled out from a file that somebody edited. The file
holds no key and no reading.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from veilsum.agents.pki import Authority
from veilsum.agents.pki.files import store
from veilsum.agents.pki.statements import is_signed
from veilsum.errors import AgentError

KIND, FORMAT, PURPOSE = "veilsum epoch", 1, "epoch"
MOST_BYTES = 1 << 24
FIELDS = {"kind", "format", "network", "epoch", "scenario", "files", "addresses", "signature"}


@dataclass(frozen=True)
class SignedEpoch:
    """The terms of one epoch, with the authority's signature.

    Parameters
    ----------
    network : str
        Name of the network.
    epoch : int
        Counts changes of membership.
    scenario : str
        Which of the files is the scenario.
    files : mapping of str to str
        The text of each file by its path, relative to the scenario's folder.
    addresses : mapping of str to str
        Where members listen, by label, as far as is known.
    signature : bytes
        Of the authority; `SignedEpoch.sign` makes it, and `read` verifies it.

    Raises
    ------
    AgentError
        If a path leads out of the folder, or the scenario is not among the files.
    """

    network: str
    epoch: int
    scenario: str
    files: Mapping[str, str]
    addresses: Mapping[str, str]
    signature: bytes = b""

    def __post_init__(self) -> None:
        """Check what would be written where."""
        for name in self.files:
            path = PurePosixPath(name)
            if not name or "\\" in name or path.is_absolute() or ".." in path.parts:
                raise AgentError(
                    f"{name!r} is outside the scenario's folder, and an epoch is one folder; keep "
                    "the links and the signing keys beside the scenario"
                )
        if self.scenario not in self.files:
            raise AgentError(f"the epoch has no file {self.scenario!r}, which is its scenario")

    @property
    def statement(self) -> bytes:
        """What is signed: all but the signature, in canonical JSON."""
        fields = {
            "kind": KIND, "format": FORMAT, "network": self.network, "epoch": self.epoch,
            "scenario": self.scenario, "files": dict(self.files),
            "addresses": dict(self.addresses),
        }  # fmt: skip
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()

    def sign(self, authority: Authority) -> SignedEpoch:
        """The same epoch with the signature of an authority.

        Parameters
        ----------
        authority : Authority
            Whose certificate all sites have.
        """
        signature = authority.state(PURPOSE, self.statement)
        return SignedEpoch(
            self.network, self.epoch, self.scenario, self.files, self.addresses, signature
        )

    def write(self, path: Path, *, secret: bool = False) -> None:
        """Write it as one file, replaced as a whole.

        Parameters
        ----------
        path : Path
            The file.
        secret : bool
            Whether only its owner may read it.
        """
        fields = json.loads(self.statement) | {"signature": self.signature.hex()}
        store(path, (json.dumps(fields, indent=1) + "\n").encode(), secret=secret)

    @classmethod
    def read(cls, path: Path, ca: Path) -> SignedEpoch:
        """Read an epoch, if the authority has signed it.

        Parameters
        ----------
        path : Path
            The file.
        ca : Path
            The certificate of the authority.

        Returns
        -------
        SignedEpoch
            Verified.

        Raises
        ------
        AgentError
            If it cannot be read, is no epoch, or is not signed by this authority.
        """
        made = cls._parsed(path)
        if not is_signed(ca, PURPOSE, made.statement, made.signature):
            raise AgentError(
                f"{path} is not signed by the authority of {ca}: somebody edited it, or it is of "
                "another fleet; nothing of it is used; `veilsum members rollout` signs an epoch"
            )
        return made

    @classmethod
    def _parsed(cls, path: Path) -> SignedEpoch:
        try:
            if not path.is_file():  # a pipe would be waited for, and a device has no end
                raise ValueError("it is no file")
            if path.stat().st_size > MOST_BYTES:
                raise ValueError(f"more than {MOST_BYTES:,} bytes")
            found = json.loads(path.read_bytes())
            if not isinstance(found, dict) or found.keys() != FIELDS:
                raise ValueError("it has other fields than an epoch")
            if (found["kind"], found["format"]) != (KIND, FORMAT):
                raise ValueError(f"expected {KIND!r} of format {FORMAT}")
            return cls(
                _text(found["network"]),
                _number(found["epoch"]),
                _text(found["scenario"]),
                _texts(found["files"]),
                _texts(found["addresses"]),
                bytes.fromhex(_text(found["signature"])),
            )
        except (OSError, ValueError, RecursionError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else problem
            raise AgentError(
                f"{path} cannot be read as an epoch ({why}); `veilsum members rollout` writes it"
            ) from None

    @contextmanager
    def unpacked(self) -> Iterator[Path]:
        """Its files in a folder that is removed at the end; gives the path of the scenario."""
        with TemporaryDirectory(prefix="veilsum-epoch-") as folder:
            write_files(Path(folder), self.files)
            yield Path(folder) / self.scenario


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts by their relative paths.

    Parameters
    ----------
    folder : Path
        Where to; folders in it are made.
    files : mapping of str to str
        Text by path.
    """
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        store(path, text.encode())


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("text expected")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("the epoch is a number from 1")
    return value


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError("a table of texts expected")
    return value
