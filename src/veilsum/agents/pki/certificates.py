"""Certificates of devices: how they are made, read and checked.

A member's certificate serves both ends of a link (EKU server and client). Its common name is what
agents admit. Keys are EC P-256.

An observer's certificate is for reading statuses (`agents.observers`) and nothing else. Its common name
is "observer:NAME": no member can have a colon in its name, so members, who admit by the common name,
never take it for one of them. Its EKU is client alone: it cannot listen in a site's place.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from veilsum._extras import install_command
from veilsum.agents.pki.files import check_name, check_private
from veilsum.agents.roles import Role, common_name_of, split_common_name
from veilsum.errors import AgentError, MissingExtraError

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:  # pragma: no cover - the extra is installed where this is tested
    raise MissingExtraError(
        f"certificates need the package cryptography; install it with {install_command('agents')}"
    ) from None

AUTHORITY_DAYS = 3650
DEVICE_DAYS = 90
SOON = dt.timedelta(days=14)  # a certificate this close to its end should be renewed
SKEW = dt.timedelta(minutes=5)  # clocks of devices may be this much behind
HOST = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(\.(?!-)[A-Za-z0-9-]{1,63})*")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Credentials(NamedTuple):
    """The three PEM files with which a device proves its name and checks those of others.

    Attributes
    ----------
    ca : Path
        Certificate of the authority.
    certificate : Path
        Certificate of the device.
    key : Path
        Private key of the device.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from veilsum.agents import Authority
    >>> with TemporaryDirectory() as folder:
    ...     credentials = Authority.create(folder).issue("north")
    ...     [path.name for path in credentials], len(credentials.secret())
    (['ca.pem', 'north.pem', 'north.key'], 32)
    """

    ca: Path
    certificate: Path
    key: Path

    def secret(self) -> bytes:
        """32 bytes derived from the private key, and from nothing else in the file."""
        try:
            private = serialization.load_pem_private_key(self.key.read_bytes(), password=None)
        except (OSError, ValueError) as problem:
            raise AgentError(f"the private key {self.key} cannot be read: {problem}") from None
        encoded = private.private_bytes(
            serialization.Encoding.DER,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return hashlib.sha256(b"veilsum device\n" + encoded).digest()


class DirectoryEntry(NamedTuple):
    """A certificate in an authority's directory.

    Attributes
    ----------
    name : str
        The common name.
    serial : str
        In hexadecimal.
    expires : datetime
        End of its validity.
    state : str
        "valid", "expires soon", "expired", "not yet valid", "of another authority" or, in the
        directory of its authority, "denied".
    fingerprint : str
        sha256 of the certificate.
    hosts : tuple of str
        Host names and addresses at which the device is reached.
    signing : str
        sha256 of the signing key that the authority's list has for this name; empty without one.
    role : Role
        Whether it is a member's, or an observer's.
    """

    name: str
    serial: str
    expires: dt.datetime
    state: str
    fingerprint: str
    hosts: tuple[str, ...]
    signing: str = ""
    role: Role = Role.MEMBER


def check_credentials(
    credentials: Credentials,
    name: str,
    now: dt.datetime | None = None,
    *,
    role: Role | None = Role.MEMBER,
) -> None:
    """Raise unless the three files match, bear the name, are valid and the key is private.

    Parameters
    ----------
    credentials : Credentials
        The files of a device.
    name : str
        The name that the certificate must bear.
    now : datetime, optional
        When it must be valid; the present by default.
    role : Role, optional
        What it must be for; None accepts either.

    Raises
    ------
    AgentError
        If they cannot be used, with the reason and the remedy.
    """
    renew = (
        f"renew it: `veilsum keys sign {name}.request` at the authority, `veilsum keys install` here "
        f"(`veilsum keys issue {name} --renew` where the authority made the key)"
    )
    for file in (credentials.ca, credentials.certificate):
        try:
            x509.load_pem_x509_certificate(file.read_bytes())
        except OSError as problem:
            raise AgentError(f"{file} cannot be read: {problem.strerror}") from None
        except ValueError:
            raise AgentError(
                f"{file} is no certificate in PEM form; put the one there that the authority sent, "
                f"with `veilsum keys install {name} --from FOLDER`"
            ) from None
    try:
        load_pair(credentials.key.read_bytes(), credentials.certificate.read_bytes())
        issuer = x509.load_pem_x509_certificate(credentials.ca.read_bytes())
        facts = read_certificate(credentials.certificate.read_bytes(), issuer)
    except (OSError, ValueError) as problem:
        raise AgentError(f"the certificate of {name} cannot be used: {problem}; {renew}") from None
    if facts.name != name:
        raise AgentError(
            f"{credentials.certificate} is for {facts.name!r}, and this device is {name!r}; "
            "use its own certificate"
        )
    if role is not None and facts.role is not role:
        option = " --observer" if role is Role.OBSERVER else ""
        raise AgentError(
            f"{credentials.certificate} is for a{_n(facts.role)} {facts.role}, and {name} is to be "
            f"a{_n(role)} {role}; make a request with `veilsum keys request {name}{option} --force` "
            "and have it signed"
        )
    state = _state(facts, now or dt.datetime.now(dt.UTC))
    if state not in ("valid", "expires soon"):
        when = f"{facts.not_before:%Y-%m-%d %H:%M} to {facts.not_after:%Y-%m-%d %H:%M} UTC"
        raise AgentError(f"{credentials.certificate} is {state} (valid from {when}); {renew}")
    check_private(credentials.key)


def describe(credentials: Credentials, now: dt.datetime | None = None) -> DirectoryEntry:
    """What a device's certificate says.

    Parameters
    ----------
    credentials : Credentials
        The files of a device, as `check_credentials` accepts them.
    now : datetime, optional
        When its state is determined; the present by default.

    Returns
    -------
    DirectoryEntry
        Name, validity and hosts.
    """
    issuer = x509.load_pem_x509_certificate(credentials.ca.read_bytes())
    facts = read_certificate(credentials.certificate.read_bytes(), issuer)
    return described(facts, now)


def expiry(credentials: Credentials) -> float:
    """When a certificate expires, in seconds of the epoch.

    Parameters
    ----------
    credentials : Credentials
        The files of a device, which must be readable.

    Returns
    -------
    float
        Its last moment.
    """
    certificate = x509.load_pem_x509_certificate(credentials.certificate.read_bytes())
    return certificate.not_valid_after_utc.timestamp()


def check_request(names: Iterable[str], hosts: Iterable[str], days: float) -> None:
    """Raise `AgentError` unless certificates could be issued for these names, hosts and days."""
    for name in names:
        check_name(name)
    for host in hosts:
        host_of(host)
    checked_days(days)


def _n(role: Role) -> str:
    return "n" if role is Role.OBSERVER else ""


def observer_of(der: bytes) -> str | None:
    """The name of the observer whose certificate this is; None if it is no observer's.

    Parameters
    ----------
    der : bytes
        A certificate that TLS has verified.

    Returns
    -------
    str or None
        Without the prefix that marks the role.
    """
    name, role = _identity(x509.load_der_x509_certificate(der))
    return name if role is Role.OBSERVER else None


def member_of(der: bytes) -> str | None:
    """The name of the device whose certificate this is; None if it is an observer's.

    Parameters
    ----------
    der : bytes
        A certificate that TLS has verified.

    Returns
    -------
    str or None
        The common name.
    """
    name, role = _identity(x509.load_der_x509_certificate(der))
    return name if role is Role.MEMBER else None


def common_name_on(found: Any) -> str:
    """The common name on a certificate, which marks an observer; empty without exactly one."""
    names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if len(names) == 1 else ""


def _identity(found: Any) -> tuple[str, Role]:
    """The name on a certificate without the mark of its role, and the role."""
    return split_common_name(common_name_on(found))


class CertificateFacts(NamedTuple):
    """The contents of a certificate, and whether the authority's key has signed it."""

    name: str
    serial: str
    not_before: dt.datetime
    not_after: dt.datetime
    fingerprint: str
    hosts: tuple[str, ...]
    signed: bool
    role: Role


def read_certificate(pem: bytes, issuer: Any) -> CertificateFacts:
    """Read a certificate; ValueError if there is none."""
    found = x509.load_pem_x509_certificate(pem)
    name, role = _identity(found)
    try:
        extension = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        hosts = tuple(str(host.value) for host in extension.value)
    except x509.ExtensionNotFound:
        hosts = ()
    try:
        found.verify_directly_issued_by(issuer)
        signed = True
    except (ValueError, TypeError, InvalidSignature):
        signed = False
    return CertificateFacts(
        name=name,
        serial=f"{found.serial_number:x}",
        not_before=found.not_valid_before_utc,
        not_after=found.not_valid_after_utc,
        fingerprint=found.fingerprint(hashes.SHA256()).hex(),
        hosts=hosts,
        signed=signed,
        role=role,
    )


def described(facts: CertificateFacts, now: dt.datetime | None) -> DirectoryEntry:
    """What a directory lists of a certificate."""
    state = _state(facts, now or dt.datetime.now(dt.UTC))
    return DirectoryEntry(
        facts.name, facts.serial, facts.not_after, state, facts.fingerprint, facts.hosts,
        role=facts.role,
    )  # fmt: skip


def _state(facts: CertificateFacts, now: dt.datetime) -> str:
    if not facts.signed:
        return "of another authority"
    if now < facts.not_before:
        return "not yet valid"
    if now >= facts.not_after:
        return "expired"
    return "expires soon" if now + SOON >= facts.not_after else "valid"


def load_pair(key: bytes, certificate: bytes) -> tuple[Any, Any]:
    """A key and its certificate; ValueError if they are not a pair."""
    private = serialization.load_pem_private_key(key, password=None)
    found = x509.load_pem_x509_certificate(certificate)
    if private.public_key() != found.public_key():
        raise ValueError("the key and the certificate are not a pair")
    return private, found


def device_certificate(
    signer: tuple[Any, Any],
    public: Any,
    name: str,
    hosts: Sequence[str | Address],
    end: dt.datetime,
    role: Role = Role.MEMBER,
) -> bytes:
    """A certificate for both ends of a device's links, or for an observer, which only connects."""
    signing, issuer = signer
    start = min(dt.datetime.now(dt.UTC), end - SKEW)
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if role is Role.MEMBER:
        uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
    subject = common_name(common_name_of(name, role))
    known_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())
    made = (
        builder(subject, issuer.subject, public, start, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(known_by, critical=False)
    )
    if hosts:
        general = [
            x509.DNSName(host) if isinstance(host, str) else x509.IPAddress(host) for host in hosts
        ]
        made = made.add_extension(x509.SubjectAlternativeName(general), critical=False)
    signed: bytes = made.sign(signing, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return signed


def builder(subject: Any, issuer: Any, public: Any, start: dt.datetime, end: dt.datetime) -> Any:
    """What all certificates have: names, key, serial number and validity."""
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


def common_name(name: str) -> Any:
    """A subject with this name and nothing else."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def usage(*allowed: str) -> Any:
    """What a key may be used for."""
    kinds = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
        "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{kind: kind in allowed for kind in kinds})


def pem_of(key: Any) -> bytes:
    """A private key as it is stored."""
    encoded: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return encoded


def host_of(text: str) -> str | Address:
    """A host name or an address; raises `AgentError` for anything else."""
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        pass
    if not HOST.fullmatch(text) or len(text) > 253:
        raise AgentError(
            f"{text!r} is neither a host name nor an address; expected one such as "
            "meter-3.example.org, 192.0.2.7 or localhost, without a port"
        )
    return text


def checked_days(days: float) -> float:
    """Raise `AgentError` unless a certificate may be valid that long."""
    if not 0 < days <= AUTHORITY_DAYS:
        raise AgentError(f"days must lie in (0, {AUTHORITY_DAYS}], found {days:g}")
    return days
