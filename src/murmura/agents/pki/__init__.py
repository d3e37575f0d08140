"""Keys: a small certificate authority, and the signing keys that a manifest pins.

An authority is a directory. `ca.key` signs and stays where it is; `ca.pem` goes to every device,
and so do `NAME.pem` and `NAME.key` of that device and of no other. The name on a certificate (its
common name) is what agents admit and what restricts the keys of a device, so an authority never
issues one name to two devices. Certificates of observers have a role that no member accepts.

There is no revocation list: a lost certificate is valid until it expires, or until its name is
removed from the manifest. So validity is short, and `issue(..., renew=True)` is cheap.

Keys can be made by the authority (`Authority.issue`), or on the site, of which the authority then
sees the public halves only (`make_request`, `Authority.sign`, `install`). Members of a masked sum sign
what they send with a second key, made on the site (`SigningKey`), which the manifest pins: whoever
signs certificates cannot speak for them.
"""

from __future__ import annotations

from murmura.agents.pki.authority import Authority
from murmura.agents.pki.certificates import (
    SOON,
    Credentials,
    DirectoryEntry,
    check_credentials,
    check_request,
    describe,
    expiry,
)
from murmura.agents.pki.requests import (
    KeyRequest,
    install,
    make_observer_request,
    make_request,
    own_signing_keys,
)
from murmura.agents.pki.signing import SigningKey, fingerprint_of
from murmura.agents.roles import Role

__all__ = [
    "SOON",
    "Authority",
    "Credentials",
    "DirectoryEntry",
    "KeyRequest",
    "Role",
    "SigningKey",
    "check_credentials",
    "check_request",
    "describe",
    "expiry",
    "fingerprint_of",
    "install",
    "make_observer_request",
    "make_request",
    "own_signing_keys",
]
