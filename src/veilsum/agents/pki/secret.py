"""The secret of a site: what its ledger and spool are bound to, whichever key its certificate has.

The ledger knows readings by keyed hashes, and an agent its own messages by keyed proofs; the spool is
encrypted. All three keys are derived from one secret of the site:

    secret = NAME.secret            32 random bytes, made with the first request of the site
           = H(private TLS key)     where there is no such file: keys that were issued centrally

Hashes cannot be computed again under another secret, because the readings are gone. So a TLS key that is
replaced must leave the secret as it is: before the first key of a site without a file is replaced, what
was derived from it is written to the file (`keep_secret`). From then on the private key can be replaced as
often as needed, and the ledger goes on: it knows the readings that were released under any key.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from veilsum.agents.pki.certificates import Credentials
from veilsum.agents.pki.files import check_private, store
from veilsum.errors import AgentError

SUFFIX = ".secret"
BYTES = 32


def secret_file(key: Path) -> Path:
    """Where the secret of a site is, beside its private key."""
    return key.with_suffix(SUFFIX) if key.suffix == ".key" else key.with_name(key.name + SUFFIX)


def site_secret(credentials: Credentials, file: Path | None = None) -> bytes:
    """The secret of a site.

    Parameters
    ----------
    credentials : Credentials
        Its certificate and key.
    file : Path, optional
        Where the secret is; beside the key by default, and derived from the key where it is not.

    Returns
    -------
    bytes
        32 of them.

    Raises
    ------
    AgentError
        If the file that was named is missing, or one that is there is damaged or not private.
    """
    path = secret_file(credentials.key) if file is None else file
    if file is None and not path.exists():
        return credentials.secret()
    try:
        found = bytes.fromhex(path.read_text("ascii").strip())
    except OSError as problem:
        raise AgentError(f"the site's secret {path} cannot be read: {problem.strerror}") from None
    except ValueError:
        found = b""
    if len(found) != BYTES:
        raise AgentError(
            f"the site's secret {path} must have {2 * BYTES} hexadecimal digits; restore it from a "
            "copy: without it the ledger cannot recognise the readings that were released"
        )
    check_private(path)
    return found


def new_secret(key: Path) -> Path:
    """Write a random secret beside a key that is yet to be used."""
    path = secret_file(key)
    _write(path, secrets.token_bytes(BYTES))
    return path


def keep_secret(key: Path) -> None:
    """Before a key is replaced: write what was derived from it, unless the site has a file."""
    path = secret_file(key)
    if not path.exists():
        _write(path, Credentials(key, key, key).secret())


def _write(path: Path, secret: bytes) -> None:
    store(path, f"{secret.hex()}\n".encode(), secret=True)
