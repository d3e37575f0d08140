"""What `keys` asks of the library cryptography: EC P-256 keys and X.509 certificates as PEM."""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
from collections.abc import Sequence
from typing import Any, NamedTuple

from murmura.errors import MissingExtraError

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:  # pragma: no cover - the extra is installed where this is tested
    raise MissingExtraError(
        "certificates need the package cryptography; install it with pip install 'murmura[agents]'"
    ) from None

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
SKEW = dt.timedelta(minutes=5)  # clocks of devices may be this much behind


class Facts(NamedTuple):
    """What a certificate says, and whether the authority's key has signed it."""

    name: str
    serial: str
    not_before: dt.datetime
    not_after: dt.datetime
    fingerprint: str
    hosts: tuple[str, ...]
    signed: bool


def authority(name: str, days: int) -> tuple[bytes, bytes]:
    """A new key and its self-signed certificate, which may sign devices and nothing below them."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject, now = _common_name(name), dt.datetime.now(dt.UTC)
    made = (
        _builder(subject, subject, key.public_key(), now, now + dt.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _pem(key), made.public_bytes(serialization.Encoding.PEM)


def device(
    signer: tuple[Any, Any],
    name: str,
    hosts: Sequence[str | Address],
    end: dt.datetime,
    old: bytes | None = None,
) -> tuple[bytes, bytes]:
    """A certificate for both ends of a device's links, and its key: the old one, or a new one."""
    signing, issuer = signer
    key: Any = (
        serialization.load_pem_private_key(old, password=None)
        if old
        else ec.generate_private_key(ec.SECP256R1())
    )
    start = min(dt.datetime.now(dt.UTC), end - SKEW)
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    known_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())
    made = (
        _builder(_common_name(name), issuer.subject, key.public_key(), start, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(known_by, critical=False)
    )
    if hosts:
        made = made.add_extension(x509.SubjectAlternativeName(list(map(_general, hosts))), False)
    signed = made.sign(signing, hashes.SHA256())
    return _pem(key), signed.public_bytes(serialization.Encoding.PEM)


def load_signer(key: bytes, certificate: bytes) -> tuple[Any, Any]:
    """An authority's key and certificate; ValueError if they are not a pair."""
    signing = serialization.load_pem_private_key(key, password=None)
    found = x509.load_pem_x509_certificate(certificate)
    if signing.public_key() != found.public_key():
        raise ValueError("the key and the certificate are not a pair")
    return signing, found


def secret_of(key: bytes) -> bytes:
    """sha256 of the private key itself, whatever the file around it; ValueError if none."""
    found = serialization.load_pem_private_key(key, password=None)
    encoded = found.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return hashlib.sha256(b"murmura device\n" + encoded).digest()


def load_certificate(pem: bytes) -> Any:
    """A certificate; ValueError if there is none."""
    return x509.load_pem_x509_certificate(pem)


def facts(pem: bytes, issuer: Any) -> Facts:
    """Read a certificate; ValueError if there is none."""
    found = x509.load_pem_x509_certificate(pem)
    return Facts(
        name=_name_of(found),
        serial=f"{found.serial_number:x}",
        not_before=found.not_valid_before_utc,
        not_after=found.not_valid_after_utc,
        fingerprint=found.fingerprint(hashes.SHA256()).hex(),
        hosts=_hosts_of(found),
        signed=_signed_by(found, issuer),
    )


def _builder(subject: Any, issuer: Any, public: Any, start: dt.datetime, end: dt.datetime) -> Any:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _common_name(name: str) -> Any:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*allowed: str) -> Any:
    kinds = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
        "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{kind: kind in allowed for kind in kinds})


def _general(host: str | Address) -> Any:
    return x509.DNSName(host) if isinstance(host, str) else x509.IPAddress(host)


def _pem(key: Any) -> bytes:
    encoded: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return encoded


def _name_of(certificate: Any) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def _hosts_of(certificate: Any) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in names.value)


def _signed_by(certificate: Any, issuer: Any) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
