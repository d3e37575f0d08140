"""A small certificate authority: one key that signs, and a certificate for every device.

An authority is a directory. `ca.key` signs and stays where it is; `ca.pem` goes to every device,
and so do `NAME.pem` and `NAME.key` of that device and of no other. The name on a certificate (its
common name) is what agents admit and what restricts the keys of a device, so an authority never
issues one name to two devices. A certificate serves both ends of a link (EKU server and client).
Keys are EC P-256.

There is no revocation list: a lost certificate is valid until it expires, or until its name is
removed from the manifest. So validity is short, and `issue(..., renew=True)` is cheap.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from murmura.errors import AgentError, MissingExtraError

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

AUTHORITY_DAYS = 3650
DEVICE_DAYS = 90
SOON = dt.timedelta(days=14)  # a certificate this close to its end should be renewed
SKEW = dt.timedelta(minutes=5)  # clocks of devices may be this much behind
NAME = re.compile(r"[^\W_][\w .@+-]{0,63}")  # at most 64 characters in a common name
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
        return hashlib.sha256(b"murmura device\n" + encoded).digest()


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
        "valid", "expires soon", "expired", "not yet valid" or "of another authority".
    fingerprint : str
        sha256 of the certificate.
    hosts : tuple of str
        Host names and addresses at which the device is reached.
    """

    name: str
    serial: str
    expires: dt.datetime
    state: str
    fingerprint: str
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class Authority:
    """A certificate authority in a directory; made by `create` or `load`.

    Attributes
    ----------
    directory : Path
        Holds `ca.key`, `ca.pem` and the files of every device.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     authority = Authority.create(folder)
    ...     _ = authority.issue("north", ["north.example"], days=30)
    ...     [(entry.name, entry.state, entry.hosts) for entry in authority.entries()]
    [('north', 'valid', ('north.example',))]
    """

    directory: Path

    @classmethod
    def create(
        cls, directory: str | Path, name: str = "murmura authority", *, force: bool = False
    ) -> Authority:
        """Create a directory (mode 0700) with a new key and its self-signed certificate.

        Parameters
        ----------
        directory : str or Path
            Created if it does not exist.
        name : str
            Common name of the authority.
        force : bool
            Replace an existing authority: every certificate it has signed becomes worthless.

        Returns
        -------
        Authority
            The new authority.

        Raises
        ------
        AgentError
            If there is one already, unless `force`.
        """
        home = Path(directory)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        paths = home / "ca.key", home / "ca.pem"
        _check_free(paths, force, "every certificate it has signed becomes worthless")
        key = ec.generate_private_key(ec.SECP256R1())
        subject, now = _common_name(name), dt.datetime.now(dt.UTC)
        certificate = (
            _builder(subject, subject, key.public_key(), now, now + dt.timedelta(AUTHORITY_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
            .sign(key, hashes.SHA256())
        )
        _store(paths[0], _pem(key), secret=True)
        _store(paths[1], certificate.public_bytes(serialization.Encoding.PEM))
        return cls(home)

    @classmethod
    def load(cls, directory: str | Path) -> Authority:
        """Load an existing authority.

        Parameters
        ----------
        directory : str or Path
            As `create` made it.

        Returns
        -------
        Authority
            The authority.

        Raises
        ------
        AgentError
            If a file is missing or cannot be read.
        """
        home = Path(directory)
        for path in (home / "ca.key", home / "ca.pem"):
            if not path.is_file():
                raise AgentError(
                    f"{home} is no authority: {path.name} is missing; make one with "
                    f"`murmura keys init {home}`"
                )
        authority = cls(home)
        _ = authority._signer  # an unreadable key raises now
        return authority

    @cached_property
    def _signer(self) -> tuple[Any, Any]:
        try:
            return _load_pair(
                (self.directory / "ca.key").read_bytes(), (self.directory / "ca.pem").read_bytes()
            )
        except ValueError as problem:
            raise AgentError(
                f"the authority in {self.directory} cannot be read ({problem}); restore ca.key "
                "and ca.pem from a copy, or replace it with `murmura keys init --force`"
            ) from None

    def issue(
        self,
        name: str,
        hosts: Iterable[str] = (),
        days: float = DEVICE_DAYS,
        *,
        not_after: dt.datetime | None = None,
        renew: bool = False,
        force: bool = False,
    ) -> Credentials:
        """Issue a key (mode 0600) and a certificate for a device.

        Parameters
        ----------
        name : str
            Common name of the device.
        hosts : iterable of str
            Host names and addresses at which it is reached; neighbours check that the one they
            connect to is among them. Without any, the device can only connect to others.
        days : float
            How long the certificate is valid.
        not_after : datetime, optional
            End of validity, in place of `days`.
        renew : bool
            Replace the certificate and keep the key.
        force : bool
            Replace both.

        Returns
        -------
        Credentials
            The device's three files.

        Raises
        ------
        AgentError
            If an argument is invalid, or files exist and neither `renew` nor `force` is set.
        """
        _check_name(name)
        found = [_host(host) for host in hosts]
        end = not_after or dt.datetime.now(dt.UTC) + dt.timedelta(days=_checked_days(days))
        paths = self.directory / f"{name}.key", self.directory / f"{name}.pem"
        _check_free(paths, force or renew, f"{name} must then be given the new files")
        if renew:
            old = self.credentials(name).key.read_bytes()
            key: Any = serialization.load_pem_private_key(old, password=None)
        else:
            key = ec.generate_private_key(ec.SECP256R1())
        certificate = _device_certificate(self._signer, key, name, found, end)
        if not renew:
            _store(paths[0], _pem(key), secret=True)
        _store(paths[1], certificate)
        return self.credentials(name)

    def credentials(self, name: str) -> Credentials:
        """The three files of a device that has a certificate here.

        Parameters
        ----------
        name : str
            Common name of the device.

        Returns
        -------
        Credentials
            Paths of the files.

        Raises
        ------
        AgentError
            If a file is missing.
        """
        made = Credentials(
            self.directory / "ca.pem",
            self.directory / f"{name}.pem",
            self.directory / f"{name}.key",
        )
        for path in made:
            if not path.is_file():
                raise AgentError(
                    f"{path} is missing; make it with `murmura keys issue {name} "
                    f"--dir {self.directory}`"
                )
        return made

    def entries(self, now: dt.datetime | None = None) -> list[DirectoryEntry]:
        """Every certificate in the directory except the authority's own, by name.

        Parameters
        ----------
        now : datetime, optional
            When their state is determined; the present by default.

        Returns
        -------
        list of DirectoryEntry
            In the order of the files' names.

        Raises
        ------
        AgentError
            If a file holds no certificate.
        """
        files = sorted(self.directory.glob("*.pem"))
        return [self._entry(path, now) for path in files if path.name != "ca.pem"]

    def _entry(self, path: Path, now: dt.datetime | None) -> DirectoryEntry:
        try:
            facts = _read_certificate(path.read_bytes(), self._signer[1])
        except ValueError as problem:
            raise AgentError(f"{path} holds no certificate ({problem}); remove it") from None
        return _described(facts, now)


def check_credentials(credentials: Credentials, name: str, now: dt.datetime | None = None) -> None:
    """Raise unless the three files match, bear the name, are valid and the key is private.

    Parameters
    ----------
    credentials : Credentials
        The files of a device.
    name : str
        The name that the certificate must bear.
    now : datetime, optional
        When it must be valid; the present by default.

    Raises
    ------
    AgentError
        If they cannot be used, with the reason and the remedy.
    """
    renew = f"renew it with `murmura keys issue {name} --renew`"
    try:
        _load_pair(credentials.key.read_bytes(), credentials.certificate.read_bytes())
        issuer = x509.load_pem_x509_certificate(credentials.ca.read_bytes())
        facts = _read_certificate(credentials.certificate.read_bytes(), issuer)
    except (OSError, ValueError) as problem:
        raise AgentError(f"the certificate of {name} cannot be used: {problem}; {renew}") from None
    if facts.name != name:
        raise AgentError(
            f"{credentials.certificate} is for {facts.name!r}, and this device is {name!r}; "
            "use its own certificate"
        )
    state = _state(facts, now or dt.datetime.now(dt.UTC))
    if state not in ("valid", "expires soon"):
        when = f"{facts.not_before:%Y-%m-%d %H:%M} to {facts.not_after:%Y-%m-%d %H:%M} UTC"
        raise AgentError(f"{credentials.certificate} is {state} (valid from {when}); {renew}")
    if credentials.key.stat().st_mode & 0o077:
        raise AgentError(
            f"{credentials.key} can be read by others; run `chmod 600 {credentials.key}`. If "
            "others may have read it, it must not be used any more: issue a key under a new name, "
            "remove the old name from the manifest, and start a new epoch (renewing keeps the key)"
        )


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
    facts = _read_certificate(credentials.certificate.read_bytes(), issuer)
    return _described(facts, now)


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
        _check_name(name)
    for host in hosts:
        _host(host)
    _checked_days(days)


class _CertificateFacts(NamedTuple):
    """The contents of a certificate, and whether the authority's key has signed it."""

    name: str
    serial: str
    not_before: dt.datetime
    not_after: dt.datetime
    fingerprint: str
    hosts: tuple[str, ...]
    signed: bool


def _read_certificate(pem: bytes, issuer: Any) -> _CertificateFacts:
    """Read a certificate; ValueError if there is none."""
    found = x509.load_pem_x509_certificate(pem)
    names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
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
    return _CertificateFacts(
        name=str(names[0].value) if names else "",
        serial=f"{found.serial_number:x}",
        not_before=found.not_valid_before_utc,
        not_after=found.not_valid_after_utc,
        fingerprint=found.fingerprint(hashes.SHA256()).hex(),
        hosts=hosts,
        signed=signed,
    )


def _described(facts: _CertificateFacts, now: dt.datetime | None) -> DirectoryEntry:
    state = _state(facts, now or dt.datetime.now(dt.UTC))
    return DirectoryEntry(
        facts.name, facts.serial, facts.not_after, state, facts.fingerprint, facts.hosts
    )


def _state(facts: _CertificateFacts, now: dt.datetime) -> str:
    if not facts.signed:
        return "of another authority"
    if now < facts.not_before:
        return "not yet valid"
    if now >= facts.not_after:
        return "expired"
    return "expires soon" if now + SOON >= facts.not_after else "valid"


def _load_pair(key: bytes, certificate: bytes) -> tuple[Any, Any]:
    """A key and its certificate; ValueError if they are not a pair."""
    private = serialization.load_pem_private_key(key, password=None)
    found = x509.load_pem_x509_certificate(certificate)
    if private.public_key() != found.public_key():
        raise ValueError("the key and the certificate are not a pair")
    return private, found


def _device_certificate(
    signer: tuple[Any, Any],
    key: Any,
    name: str,
    hosts: Sequence[str | Address],
    end: dt.datetime,
) -> bytes:
    """A certificate for both ends of a device's links."""
    signing, issuer = signer
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
        general = [
            x509.DNSName(host) if isinstance(host, str) else x509.IPAddress(host) for host in hosts
        ]
        made = made.add_extension(x509.SubjectAlternativeName(general), critical=False)
    signed: bytes = made.sign(signing, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return signed


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


def _pem(key: Any) -> bytes:
    encoded: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return encoded


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name) or name.casefold() == "ca":
        raise AgentError(
            f"{name!r} cannot be the name on a certificate: expected 1 to 64 letters, digits, "
            "spaces or . _ - @ +, beginning with a letter or a digit, and not 'ca'"
        )


def _host(text: str) -> str | Address:
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


def _checked_days(days: float) -> float:
    if not 0 < days <= AUTHORITY_DAYS:
        raise AgentError(f"days must lie in (0, {AUTHORITY_DAYS}], found {days:g}")
    return days


def _check_free(paths: Iterable[Path], force: bool, consequence: str) -> None:
    for path in paths:
        if path.exists() and not force:
            raise AgentError(
                f"{path} exists and is not replaced; with --force it is, and {consequence}"
            )


def _store(path: Path, data: bytes, *, secret: bool = False) -> None:
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
