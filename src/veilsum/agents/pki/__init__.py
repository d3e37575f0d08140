"""Keys: a small certificate authority, and the signing keys that a manifest pins.

An authority is a directory. `ca.key` signs and stays where it is; `ca.pem` goes to every device,
and so do `NAME.pem` and `NAME.key` of that device and of no other. The name on a certificate (its
common name) is what agents admit and what restricts the keys of a device, so an authority never
issues one name to two devices. Certificates of observers have a role that no member accepts.

Keys are made on the site, and the authority sees their public halves only (`make_request`,
`Authority.sign`, `install`). For tests and fleets on one machine it can make them itself
(`Authority.issue`). Members of a masked sum sign what they send with a second key, made on the site
(`SigningKey`), which the manifest pins: whoever signs certificates cannot speak for them.

A certificate ends with its validity, or when the authority denies it (`Authority.revoke`, `DenyList`).
Whether one is accepted is decided in one place (`Trust`); a running agent follows its own files and the
deny list (`KeyWatch`). What a ledger is bound to outlives all keys of its site (`site_secret`).
"""

from __future__ import annotations

from veilsum.agents.pki.authority import Authority
from veilsum.agents.pki.certificates import (
    SOON,
    Credentials,
    DirectoryEntry,
    check_credentials,
    check_request,
    describe,
    expiry,
)
from veilsum.agents.pki.denied import DeniedEntry, DenyList
from veilsum.agents.pki.requests import (
    KeyRequest,
    install,
    make_observer_request,
    make_request,
    own_signing_keys,
)
from veilsum.agents.pki.secret import site_secret
from veilsum.agents.pki.signing import SigningKey, fingerprint_of
from veilsum.agents.pki.trust import Trust
from veilsum.agents.pki.watch import KeyWatch
from veilsum.agents.roles import Role

__all__ = [
    "SOON",
    "Authority",
    "Credentials",
    "DeniedEntry",
    "DenyList",
    "DirectoryEntry",
    "KeyRequest",
    "KeyWatch",
    "Role",
    "SigningKey",
    "Trust",
    "check_credentials",
    "check_request",
    "describe",
    "expiry",
    "fingerprint_of",
    "install",
    "make_observer_request",
    "make_request",
    "own_signing_keys",
    "site_secret",
]
