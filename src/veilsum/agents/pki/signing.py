"""Signing keys: Ed25519, made on the site; the manifest pins their public halves by label.

A certificate proves a name to whoever is at the other end of a link, and its authority could issue
another one. What a member of a masked sum signs is checked against the key that all sites have
agreed on, so no authority can speak for it.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from veilsum.agents.pki.certificates import pem_of
from veilsum.agents.pki.files import check_free, check_private, store
from veilsum.errors import AgentError

SUFFIX = ".signing.key"
FILE, TABLE = "signing-keys.toml", "signing_keys"
HEAD = """\
# Public signing keys by label, as `veilsum keys sign` collects them. All sites need the same file:
# [agents] signing_keys = "signing-keys.toml" in their scenario.

"""


@dataclass(frozen=True, repr=False)
class SigningKey:
    """The private signing key of one member; its text shows the public half only.

    Attributes
    ----------
    private : Ed25519PrivateKey
        What signs.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     made = SigningKey.create(Path(folder) / "north.signing.key")
    ...     again = SigningKey.load(Path(folder) / "north.signing.key")
    ...     again.public == made.public, len(made.public)
    (True, 64)
    """

    private: Ed25519PrivateKey

    @classmethod
    def create(cls, path: str | Path, *, force: bool = False) -> SigningKey:
        """Make a key and write it to a file of mode 0600.

        Parameters
        ----------
        path : str or Path
            The file; its folder must exist.
        force : bool
            Replace a key that is there: the manifest must then pin the new one.

        Returns
        -------
        SigningKey
            The new key.

        Raises
        ------
        AgentError
            If the file exists, unless `force`.
        """
        file = Path(path)
        check_free([file], force, "the manifest must then pin the new key, in a new epoch")
        made = cls(Ed25519PrivateKey.generate())
        store(file, pem_of(made.private), secret=True)
        return made

    @classmethod
    def load(cls, path: str | Path) -> SigningKey:
        """Read a key, if it is private.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        SigningKey
            The key.

        Raises
        ------
        AgentError
            If it is missing, readable by others, or no Ed25519 key; nothing of it is quoted.
        """
        file = Path(path)
        if not file.is_file():
            raise AgentError(
                f"the signing key {file} is missing; `veilsum keys request` makes it on this site, "
                "and all sites then pin its public half in [agents] signing_keys"
            )
        check_private(file)
        try:
            found = serialization.load_pem_private_key(file.read_bytes(), password=None)
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
            found = None
        if not isinstance(found, Ed25519PrivateKey):
            raise AgentError(
                f"{file} holds no Ed25519 key; restore it from a copy, or make another with "
                "`veilsum keys request --force`, which all sites must pin"
            )
        return cls(found)

    @property
    def public(self) -> str:
        """The public half, in 64 hexadecimal digits: what a manifest pins."""
        return self.private.public_key().public_bytes_raw().hex()

    @property
    def fingerprint(self) -> str:
        """sha256 of the public half."""
        return fingerprint_of(self.public)

    def __repr__(self) -> str:
        """Without the private half."""
        return f"SigningKey(public={self.public[:16]}...)"


def fingerprint_of(public: str) -> str:
    """sha256 of a public key in hexadecimal.

    Parameters
    ----------
    public : str
        As `SigningKey.public`.
    """
    return hashlib.sha256(bytes.fromhex(public)).hexdigest()


def read_keys(path: Path) -> dict[str, str]:
    """The public keys by label, of a file such as signing-keys.toml.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    dict of str to str
        As they are written: `Manifest` judges them.

    Raises
    ------
    AgentError
        If it cannot be read or has another form; the message begins with signing_keys.
    """
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise AgentError(
            f"signing_keys: {path} cannot be read ({why}); `veilsum keys sign` writes it"
        ) from None
    table = found.get(TABLE)
    if set(found) != {TABLE} or not isinstance(table, dict):
        raise AgentError(f"signing_keys: {path} must have one table, [{TABLE}], and nothing else")
    wrong = [label for label, key in table.items() if not isinstance(key, str)]
    if wrong:
        raise AgentError(f"signing_keys: the key of {wrong[0]} in {path} must be text in quotes")
    return table


def write_keys(path: Path, keys: Mapping[str, str]) -> None:
    """Write what `read_keys` reads, by label.

    Parameters
    ----------
    path : Path
        The file, replaced as a whole.
    keys : mapping of str to str
        Public keys by label.
    """
    lines = [f'{json.dumps(label, ensure_ascii=False)} = "{keys[label]}"' for label in sorted(keys)]
    store(path, (HEAD + "\n".join([f"[{TABLE}]", *lines, ""])).encode())
