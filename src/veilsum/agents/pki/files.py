"""Files of keys: written whole or not at all, private from the first moment, with checked names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from veilsum.errors import AgentError

NAME = re.compile(r"[^\W_][\w .@+-]{0,63}")  # at most 64 characters in a common name
LONGEST_OBSERVER = 55  # characters: "observer:" comes before it there


def check_name(name: str) -> None:
    """Raise `AgentError` unless it can be a common name and part of a file's name."""
    if not NAME.fullmatch(name) or name.casefold() == "ca":
        raise AgentError(
            f"{name!r} cannot be the name on a certificate: expected 1 to 64 letters, digits, "
            "spaces or . _ - @ +, beginning with a letter or a digit, and not 'ca'"
        )


def check_observer_name(name: str) -> None:
    """Raise `AgentError` unless an observer can have this name."""
    check_name(name)
    if len(name) > LONGEST_OBSERVER:
        raise AgentError(
            f"{name!r} has {len(name)} characters; the name of an observer has at most "
            f"{LONGEST_OBSERVER}"
        )


def check_free(paths: Iterable[Path], force: bool, consequence: str) -> None:
    """Raise `AgentError` if a file exists and must not be replaced."""
    for path in paths:
        if path.exists() and not force:
            raise AgentError(
                f"{path} exists and is not replaced; with --force it is, and {consequence}"
            )


def store(path: Path, data: bytes, *, secret: bool = False) -> None:
    """Write a file atomically; a secret one is never readable by others, even briefly."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    mode = 0o600 if secret else 0o644
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def check_private(path: Path) -> None:
    """Raise `AgentError` if others may read a private key.

    In the folder that systemd passes to a service (LoadCredential=), the bits of the group are the
    mask of an access list with the service's user alone, and nobody else can enter the folder.
    """
    given = os.environ.get("CREDENTIALS_DIRECTORY")
    passed = bool(given) and path.absolute().parent == Path(given or "")
    if path.stat().st_mode & (0o007 if passed else 0o077):
        raise AgentError(
            f"{path} can be read by others; run `chmod 600 {path}`. If others may have read it, it "
            "must not be used any more: replace it (`veilsum keys request NAME --new-key`), and have "
            "the authority deny the old one (`veilsum keys revoke NAME --old`)"
        )
