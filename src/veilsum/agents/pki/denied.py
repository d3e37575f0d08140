"""The deny list: what the authority has revoked, signed by its key, numbered so that it only grows.

    signature = statement of the authority (`agents.pki.statements`) over [number, entries]

A list is complete: number n + 1 has all that is denied, and a site that has seen it takes none with a
smaller number any more, whoever hands it one (`agents.pki.watch` keeps the newest). An entry denies

    name     every certificate with this common name: the member, or observer, is out
    serial   one certificate
    key      every certificate of one key, by the sha256 of the public key: the name goes on with another

An entry of the last two kinds says whose it is: from that name on, a link is accepted only with a
proof of which certificate is at its other end (`agents.transport.channels`).
"""

from __future__ import annotations

import errno
import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from veilsum.agents.pki.files import store
from veilsum.agents.pki.statements import is_signed, sign_statement
from veilsum.errors import AgentError

FILE = "denied.json"
PURPOSE = "deny list"
NAME, SERIAL, KEY = "name", "serial", "key"
MOST_BYTES = 1 << 22
WHAT = {NAME: "its name", SERIAL: "this certificate", KEY: "the key of this certificate"}


class DeniedEntry(NamedTuple):
    """One thing that is denied.

    Attributes
    ----------
    kind : str
        "name", "serial" or "key".
    value : str
        The common name, the serial number in hexadecimal, or the sha256 of the public key.
    name : str
        The common name whose certificates are meant.
    since : str
        When it was denied, in UTC.
    reason : str
        Why, in the authority's words; may be empty.
    """

    kind: str
    value: str
    name: str
    since: str
    reason: str = ""


class DenyList(NamedTuple):
    """What is denied, as of one number.

    Attributes
    ----------
    number : int
        Counts the lists of an authority, from 1; 0 is the list before the first.
    entries : tuple of DeniedEntry
        All that is denied.
    signature : bytes
        Of the authority's key.

    Examples
    --------
    >>> entry = DeniedEntry("name", "south", "south", "2026-01-31", "left the fleet")
    >>> DenyList(1, (entry,)).about("south")
    'its name is on deny list 1 since 2026-01-31 (left the fleet)'
    >>> DenyList(1, (entry,)).about("north")
    ''
    """

    number: int = 0
    entries: tuple[DeniedEntry, ...] = ()
    signature: bytes = b""

    @property
    def signed(self) -> bytes:
        """What the signature covers."""
        content = [self.number, [list(entry) for entry in self.entries]]
        return json.dumps(content, separators=(",", ":")).encode()

    def sign(self, key: Any) -> DenyList:
        """The same list with the signature of an authority's private key."""
        return self._replace(signature=sign_statement(key, PURPOSE, self.signed))

    def to_json(self) -> str:
        """The file of a list: public text."""
        entries = [entry._asdict() for entry in self.entries]
        content = {"number": self.number, "entries": entries, "signature": self.signature.hex()}
        return json.dumps(content, indent=1) + "\n"

    def about(self, name: str, certificate: x509.Certificate | None = None) -> str:
        """Why a common name, or one certificate of it, is denied; empty if it is not."""
        ids = {NAME: name}
        if certificate is not None:
            ids |= {SERIAL: serial_of(certificate), KEY: key_digest(certificate)}
        for entry in self.entries:
            if ids.get(entry.kind) == entry.value:
                why = f" ({entry.reason})" if entry.reason else ""
                return f"{WHAT[entry.kind]} is on deny list {self.number} since {entry.since}{why}"
        return ""

    def singles_out(self, name: str) -> bool:
        """Whether some certificates of a name are denied, and others are not."""
        return any(entry.name == name and entry.kind != NAME for entry in self.entries)

    @classmethod
    def read(cls, path: str | Path, ca: str | Path) -> DenyList:
        """Read a list, if the authority has signed it.

        Parameters
        ----------
        path : str or Path
            The file.
        ca : str or Path
            The authority's certificate.

        Returns
        -------
        DenyList
            As the authority signed it.

        Raises
        ------
        AgentError
            If it cannot be read, is no deny list, or is not signed by this authority.
        """
        file = Path(path)
        try:
            data = _read(file)
            found = cls._parsed(data)
        except OSError as problem:
            raise AgentError(f"the deny list {file} cannot be read: {problem.strerror}") from None
        except (ValueError, TypeError, KeyError, RecursionError):
            raise AgentError(
                f"{file} is no deny list; `veilsum keys revoke` at the authority writes one"
            ) from None
        if not is_signed(Path(ca), PURPOSE, found.signed, found.signature):
            raise AgentError(
                f"the deny list {file} is not signed by the authority of {ca}: it was changed, or is "
                "another fleet's; fetch it once more from the authority"
            )
        return found

    @classmethod
    def _parsed(cls, data: bytes) -> DenyList:
        """From JSON; ValueError, TypeError, KeyError or RecursionError unless it is a list."""
        content = json.loads(data) if len(data) <= MOST_BYTES else None
        if not isinstance(content, dict) or set(content) != set(cls._fields):
            raise ValueError
        number, entries = content["number"], content["entries"]
        if type(number) is not int or number < 1 or not isinstance(entries, list):
            raise ValueError
        made = tuple(DeniedEntry(**entry) for entry in entries)
        if not all(isinstance(text, str) for entry in made for text in entry):
            raise ValueError
        if not {entry.kind for entry in made} <= set(WHAT):
            raise ValueError
        return cls(number, made, bytes.fromhex(content["signature"]))

    def write(self, path: str | Path) -> None:
        """Replace a file by this list."""
        store(Path(path), self.to_json().encode())


def content_of(file: Path) -> bytes:
    """By which a change of a list is noticed: its bytes, no more than a list can have; or none."""
    try:
        return _read(file)
    except OSError:
        return b""


def _read(file: Path) -> bytes:
    """The bytes of a file, and one more than a list can have at most; a pipe is not waited for."""
    if file.exists() and not file.is_file():
        raise OSError(errno.EINVAL, "it is no file")
    with file.open("rb") as opened:
        return opened.read(MOST_BYTES + 1)


def serial_of(certificate: x509.Certificate) -> str:
    """The serial number of a certificate, as the authority lists it."""
    return f"{certificate.serial_number:x}"


def key_digest(certificate: x509.Certificate) -> str:
    """The sha256 of the public key on a certificate."""
    encoded = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(encoded).hexdigest()
