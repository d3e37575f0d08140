"""The key files that an agent.toml or a watch file names: where they are, and whether they can be used."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from veilsum._toml import SourceMap
from veilsum.agents.config_tables import KeysTable
from veilsum.agents.manifest import Manifest
from veilsum.agents.pki import Credentials, SigningKey
from veilsum.errors import AgentError, LedgerError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_BYTES = 32  # of a ledger's key


def path_in(folder: Path, written: str, locator: SourceMap) -> Path:
    """A path as a file has it, relative to the folder of that file.

    Parameters
    ----------
    folder : Path
        Of the file.
    written : str
        The path; ~ is a user's folder.
    locator : SourceMap
        Of the file, for errors.
    """
    try:
        return folder / Path(written).expanduser()
    except RuntimeError:
        raise AgentError(
            f"{locator.file}: a path begins with ~ and no user of this machine; write the whole path"
        ) from None


def credentials_of(
    keys: KeysTable, name: str, path: Callable[[str], Path], locator: SourceMap, requested: str
) -> Credentials:
    """The files that prove a name.

    Parameters
    ----------
    keys : KeysTable
        A folder, or each file.
    name : str
        On the certificate; files in a folder are named after it.
    path : callable
        From a path as it is written to where it is.
    locator : SourceMap
        Of the file with the table, for errors.
    requested : str
        What `veilsum keys request` is called with to make them.

    Returns
    -------
    Credentials
        All of them exist.

    Raises
    ------
    AgentError
        If one is missing.
    """
    if keys.folder is not None:
        folder = path(keys.folder)
        found = Credentials(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")
    else:
        files = (keys.ca, keys.certificate, keys.key)
        found = Credentials(*(path(file) for file in files if file is not None))
    for file in found:
        if not file.is_file():
            raise AgentError(
                f"{locator.at('keys')}: {file} is missing; `veilsum keys request {requested}` makes "
                "the keys here, and `veilsum keys install` adds what the authority signs"
            )
    return found


def pinned_signing_key(file: Path, manifest: Manifest, name: str) -> Ed25519PrivateKey:
    """The private key in a file, if it is the one whose public half is pinned.

    Parameters
    ----------
    file : Path
        With the key.
    manifest : Manifest
        Of a masked sum.
    name : str
        The member that signs with it.

    Raises
    ------
    AgentError
        If it is missing, can be read by others, or is not the pinned one.
    """
    found = SigningKey.load(file)
    pinned = manifest.signing_keys[manifest.labels.index(name)]
    if found.public != pinned:
        raise AgentError(
            f"{file} is not the key that the scenario pins for {name}: its public half begins with "
            f"{found.public[:16]}, and the pinned one with {pinned[:16]}; use the key of this site, or "
            "agree on a new pin in a new epoch"
        )
    return found.private


def make_ledger_key(file: Path, where: str) -> None:
    """Write a new key for a ledger, on disk when this returns.

    Parameters
    ----------
    file : Path
        Must not exist.
    where : str
        The place at which the ledger is named, for errors.

    Raises
    ------
    LedgerError
        If the file cannot be made.
    """
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as problem:
        raise LedgerError(
            f"{where}: the key {file} cannot be made: {problem.strerror}; make its folder first, "
            "writable for this agent"
        ) from None
    with os.fdopen(handle, "wb") as made:
        made.write(secrets.token_bytes(KEY_BYTES))
        made.flush()
        os.fsync(made.fileno())


def read_ledger_key(file: Path, ledger: Path) -> bytes:
    """The bytes of a ledger's key, if it is complete and private.

    Parameters
    ----------
    file, ledger : Path
        The key, and what it seals.

    Raises
    ------
    LedgerError
        If it is missing, has another size, or can be read by others.
    """
    if not file.exists():
        raise LedgerError(
            f"the key {file} of the ledger {ledger} is missing; restore it: without it "
            "a modification of the ledger cannot be detected"
        )
    found = file.read_bytes()
    if len(found) != KEY_BYTES:
        raise LedgerError(
            f"the key {file} has {len(found)} bytes, expected {KEY_BYTES}; restore it"
        )
    if file.stat().st_mode & 0o077:
        raise LedgerError(f"the key {file} can be read by others; run `chmod 600 {file}`")
    return found
