"""Which certificates an authority has signed, in a file that only grows; and what to deny of them.

The directory of an authority has the present certificate of each name only. To deny the key that a site
had before, the authority must know it: every certificate is recorded when it is signed, and the one that
it replaces, if an earlier version did not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from cryptography import x509

from veilsum.agents.pki.certificates import common_name_on
from veilsum.agents.pki.denied import KEY, NAME, SERIAL, key_digest, serial_of
from veilsum.errors import AgentError

FILE = "issued.jsonl"  # a line for each certificate that was ever signed


def issued(directory: Path) -> list[dict[str, str]]:
    """Every certificate that was signed: common name, serial number, key and end."""
    path = directory / FILE
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def record(directory: Path, pems: Iterable[bytes]) -> None:
    """Append certificates that are not recorded yet."""
    known = {row["serial"] for row in issued(directory)}
    found = [x509.load_pem_x509_certificate(pem) for pem in pems]
    rows = [
        {
            "name": common_name_on(each),
            "serial": serial_of(each),
            "key": key_digest(each),
            "expires": each.not_valid_after_utc.isoformat(),
        }
        for each in found
        if serial_of(each) not in known
    ]
    with (directory / FILE).open("a", encoding="utf-8") as file:
        file.write("".join(f"{json.dumps(row)}\n" for row in rows))
        file.flush()
        os.fsync(file.fileno())


def to_deny(
    name: str,
    common_name: str,
    present: x509.Certificate | None,
    keys: Collection[str],
    *,
    old: bool,
    serial: str,
) -> list[tuple[str, str]]:
    """What of a name is to be denied: kinds and values of a deny list.

    Parameters
    ----------
    name, common_name : str
        As it is typed, and as it is on certificates.
    present : Certificate or None
        Its present certificate.
    keys : collection of str
        Digests of all keys that it has had.
    old : bool
        Deny all of them but the present one.
    serial : str
        Deny one certificate, by its number.
    """
    if old and serial:
        raise AgentError("the old keys of a name, or one certificate; not both")
    if serial:
        try:
            return [(SERIAL, f"{int(serial, 16):x}")]
        except ValueError:
            raise AgentError(
                f"{serial!r} is no serial number; `veilsum keys list` shows them in hexadecimal"
            ) from None
    if not old:
        return [(NAME, common_name)]
    former = set(keys) - {None if present is None else key_digest(present)}
    if present is None or not former:
        raise AgentError(
            f"{name} has had one key only, as far as is known here: sign a request with its new key "
            f"first (`veilsum keys request {name} --new-key` on the site), or deny one certificate "
            "with --serial"
        )
    return [(KEY, key) for key in sorted(former)]
