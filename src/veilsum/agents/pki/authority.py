"""A certificate authority in a directory: one key that signs, and a certificate for every device."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from veilsum.agents.pki.certificates import (
    AUTHORITY_DAYS,
    DEVICE_DAYS,
    Credentials,
    DirectoryEntry,
    builder,
    checked_days,
    common_name,
    common_name_on,
    described,
    device_certificate,
    host_of,
    load_pair,
    pem_of,
    read_certificate,
    usage,
)
from veilsum.agents.pki.denied import FILE as DENIED
from veilsum.agents.pki.denied import (
    DeniedEntry,
    DenyList,
)
from veilsum.agents.pki.files import check_free, check_name, check_observer_name, store
from veilsum.agents.pki.issued import issued, record, to_deny
from veilsum.agents.pki.requests import KeyRequest
from veilsum.agents.pki.secret import keep_secret
from veilsum.agents.pki.signing import FILE, fingerprint_of, read_keys, write_keys
from veilsum.agents.pki.statements import sign_statement
from veilsum.agents.roles import Role, common_name_of
from veilsum.errors import AgentError


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
        cls, directory: str | Path, name: str = "veilsum authority", *, force: bool = False
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
        check_free(paths, force, "every certificate it has signed becomes worthless")
        key = ec.generate_private_key(ec.SECP256R1())
        subject, now = common_name(name), dt.datetime.now(dt.UTC)
        certificate = (
            builder(subject, subject, key.public_key(), now, now + dt.timedelta(AUTHORITY_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage("key_cert_sign", "crl_sign"), critical=True)
            .sign(key, hashes.SHA256())
        )
        store(paths[0], pem_of(key), secret=True)
        store(paths[1], certificate.public_bytes(serialization.Encoding.PEM))
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
                    f"{home} is no authority: {path.name} is missing; {cls._remedy(home, path)}"
                )
        authority = cls(home)
        _ = authority._signer  # an unreadable key raises now
        return authority

    @staticmethod
    def _remedy(home: Path, missing: Path) -> str:
        """A new authority is for a new fleet: no site would believe what another one signs."""
        if any((home / name).exists() for name in ("ca.pem", "ca.key")):
            return (
                f"put {missing.name} back from its copy, or name the folder that has it with --dir"
            )
        return (
            "name the folder that has the fleet's authority with --dir; for a new fleet make one with "
            f"`veilsum keys init {home}`"
        )

    @cached_property
    def _signer(self) -> tuple[Any, Any]:
        try:
            return load_pair(
                (self.directory / "ca.key").read_bytes(), (self.directory / "ca.pem").read_bytes()
            )
        except ValueError as problem:
            raise AgentError(
                f"the authority in {self.directory} cannot be read ({problem}); restore ca.key "
                "and ca.pem from a copy, or replace it with `veilsum keys init --force`"
            ) from None

    def issue(
        self,
        name: str,
        hosts: Iterable[str] = (),
        days: float = DEVICE_DAYS,
        *,
        not_after: dt.datetime | None = None,
        renew: bool = False,
        new_key: bool = False,
        force: bool = False,
        role: Role = Role.MEMBER,
    ) -> Credentials:
        """Make a key (mode 0600) here, and a certificate for it: for tests, and one machine.

        A private key that is made here has to be carried to its site. Sites of a fleet make their
        own, and have it signed (`make_request`, `sign`).

        Parameters
        ----------
        name : str
            Common name of the device.
        hosts : iterable of str
            Host names and addresses at which it is reached; neighbours check that the one they
            connect to is among them. Without any, a renewal keeps those of before, and a new device
            can only connect to others.
        days : float
            How long the certificate is valid.
        not_after : datetime, optional
            End of validity, in place of `days`.
        renew : bool
            Replace the certificate and keep the key.
        new_key : bool
            With `renew`: replace the key too, as after it was exposed; the device's ledger goes on,
            with the file NAME.secret.
        force : bool
            Replace both, as for another device.
        role : Role
            A member's, or an observer's, which is reached by nobody and has no hosts.

        Returns
        -------
        Credentials
            The device's three files.

        Raises
        ------
        AgentError
            If an argument is invalid, files exist and neither `renew` nor `force` is set, the
            name has another role, or it or the key is denied.
        """
        check_name(name)
        paths = self.directory / f"{name}.key", self.directory / f"{name}.pem"
        kept = self._entry(paths[1], None).hosts if renew and paths[1].exists() else ()
        found = [host_of(host) for host in tuple(hosts) or kept]
        self._check_role(name, role, found)
        end = not_after or dt.datetime.now(dt.UTC) + dt.timedelta(days=checked_days(days))
        check_free(paths, force or renew, f"{name} must then be given the new files")
        key = self._key_for(name, renew, new_key)
        made = self._certify(key.public_key(), name, found, end, role)
        if new_key and renew and role is Role.MEMBER:
            keep_secret(paths[0])
        if new_key or not renew:
            store(paths[0], pem_of(key), secret=True)
        self._put(paths[1], made)
        return self.credentials(name)

    def _key_for(self, name: str, renew: bool, new_key: bool) -> Any:
        """The device's key, or a new one."""
        if new_key and not renew:
            raise AgentError("a new key in place of the old one is a renewal; say --renew too")
        if not renew:
            return ec.generate_private_key(ec.SECP256R1())
        old = self.credentials(name).key.read_bytes()  # raises if there is nothing to renew
        if new_key:
            return ec.generate_private_key(ec.SECP256R1())
        return serialization.load_pem_private_key(old, password=None)

    def _certify(
        self, public: Any, name: str, hosts: Sequence[Any], end: dt.datetime, role: Role
    ) -> bytes:
        """A certificate, unless its name or key is denied."""
        made = device_certificate(self._signer, public, name, hosts, end, role)
        certificate = x509.load_pem_x509_certificate(made)
        denied = self.deny_list().about(common_name_of(name, role), certificate)
        if denied:
            raise AgentError(
                f"{name} gets no certificate: {denied}; a member that comes back has a new name, and "
                f"a key that was replaced is made by `veilsum keys request {name} --new-key`"
            )
        return made

    def _put(self, path: Path, made: bytes) -> None:
        """Store a certificate, and record it and the one it replaces among all that were signed."""
        replaced = path.read_bytes() if path.exists() else None
        store(path, made)
        record(self.directory, [made] if replaced is None else [replaced, made])

    def issued(self) -> list[dict[str, str]]:
        """Every certificate that was signed: common name, serial number, key and end."""
        return issued(self.directory)

    def deny_list(self) -> DenyList:
        """The newest deny list; an empty one with number 0 if nothing was ever denied."""
        path = self.directory / DENIED
        return DenyList.read(path, self.directory / "ca.pem") if path.exists() else DenyList()

    def revoke(
        self,
        name: str,
        *,
        old: bool = False,
        serial: str = "",
        reason: str = "",
        role: Role | None = None,
    ) -> DenyList:
        """Deny a name for good, or some of its certificates, and sign the next deny list.

        Parameters
        ----------
        name : str
            Of a member, or of an observer.
        old : bool
            Deny the keys that it had before the present one: it goes on with that.
        serial : str
            Deny the certificate with this number, in hexadecimal.
        reason : str
            Why; it is on the list, which is public.
        role : Role, optional
            Of a name without a certificate here; a member's by default.

        Returns
        -------
        DenyList
            The new list, which is in `denied.json` for all sites.

        Raises
        ------
        AgentError
            If the name or the number cannot be one, or nothing is known that could be denied.
        """
        check_name(name)
        path = self.directory / f"{name}.pem"
        present = x509.load_pem_x509_certificate(path.read_bytes()) if path.exists() else None
        found = common_name_of(name, role or Role.MEMBER)
        if present is not None:
            found = common_name_on(present)
        now = f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
        rows = self.issued()
        had = {row["key"] for row in rows if row["name"] == found}
        others = [row["name"] for row in rows if row["serial"] == serial.lower()]
        if others and found not in others:
            raise AgentError(f"certificate {serial} is of {others[0]}, and not of {name}")
        asked = to_deny(name, found, present, had, old=old, serial=serial)
        before = self.deny_list()
        known = {entry[:2] for entry in before.entries}
        new = [
            DeniedEntry(kind, value, found, now, reason)
            for kind, value in asked
            if (kind, value) not in known
        ]
        if not new:
            raise AgentError(f"{name}: all of this is on deny list {before.number} already")
        made = DenyList(before.number + 1, (*before.entries, *new)).sign(self._signer[0])
        made.write(self.directory / DENIED)
        return made

    def sign(
        self,
        request: KeyRequest,
        hosts: Iterable[str] = (),
        days: float = DEVICE_DAYS,
        *,
        force: bool = False,
    ) -> Path:
        """Issue a certificate for a site's own key, and put its signing key on the list.

        An observer has no signing key: nothing is put on the list.

        Parameters
        ----------
        request : KeyRequest
            As `KeyRequest.read` has checked it.
        hosts : iterable of str
            As for `issue`; those of the certificate that it replaces by default.
        days : float
            How long the certificate is valid.
        force : bool
            Replace the certificate of another key, or the signing key that is on the list.

        Returns
        -------
        Path
            The certificate.

        Raises
        ------
        AgentError
            If the label has another signing key, another label has this one, or the name belongs
            to another device or has another role.
        """
        known = self.signing_keys()
        if request.role is Role.MEMBER:
            self._check_pin(known, request, force)
        path = self.directory / f"{request.name}.pem"
        old = self._replaced(path, known, request, force)
        found = [host_of(host) for host in hosts or (old.hosts if old else ())]
        self._check_role(request.name, request.role, found)
        end = dt.datetime.now(dt.UTC) + dt.timedelta(days=checked_days(days))
        made = self._certify(request.public_key, request.name, found, end, request.role)
        if request.role is Role.MEMBER:
            write_keys(self.directory / FILE, known | {request.label: request.signing_key})
        self._put(path, made)
        return path

    def state(self, purpose: str, data: bytes) -> bytes:
        """Sign a statement with the authority's key.

        Parameters
        ----------
        purpose : str
            What kind of statement it is, such as "epoch".
        data : bytes
            What is stated.

        Returns
        -------
        bytes
            The signature, which `is_signed` checks against ca.pem.
        """
        return sign_statement(self._signer[0], purpose, data)

    def _check_role(self, name: str, role: Role, hosts: Sequence[object]) -> None:
        """One name has one role for good, and an observer is not connected to."""
        path = self.directory / f"{name}.pem"
        if path.exists() and (found := self._entry(path, None).role) is not role:
            raise AgentError(
                f"{name} is the name of {'a member' if found is Role.MEMBER else 'an observer'}, and "
                "one name has one role; choose another name"
            )
        if role is Role.OBSERVER:
            check_observer_name(name)
            if hosts:
                raise AgentError(f"{name} is an observer, which only connects; leave --host out")

    def signing_keys(self) -> dict[str, str]:
        """The public signing keys that the authority has collected, by label."""
        path = self.directory / FILE
        return read_keys(path) if path.exists() else {}

    def _check_pin(self, known: dict[str, str], request: KeyRequest, force: bool) -> None:
        label, key = request.label, request.signing_key
        if known.get(label, key) != key and not force:
            raise AgentError(
                f"{label} has another signing key on the list, {fingerprint_of(known[label])[:16]}; "
                f"this request has {fingerprint_of(key)[:16]}. Whoever has that key signs for "
                f"{label}: ask its site, and if the key is to be replaced, say --force and begin a "
                "new epoch"
            )
        others = [other for other, pinned in known.items() if pinned == key and other != label]
        if others:
            raise AgentError(
                f"{others[0]} has the same signing key; {label} must make one of its own with "
                "`veilsum keys request --force`"
            )

    def _replaced(
        self, path: Path, known: dict[str, str], request: KeyRequest, force: bool
    ) -> DirectoryEntry | None:
        """The certificate that a request replaces: of the same device, as one of its keys shows."""
        name = request.name
        if path.with_suffix(".key").exists():
            raise AgentError(
                f"{path.with_suffix('.key')} is a private key that was issued here; a site that "
                f"makes its own has another name, or remove {name}.key and {name}.pem here first"
            )
        if not path.exists():
            return None
        found = x509.load_pem_x509_certificate(path.read_bytes())
        same_key = found.public_key() == request.public_key
        same_signer = request.label == name and known.get(name) == request.signing_key
        if not (same_key or same_signer or force):
            raise AgentError(
                f"{name} has a certificate for another key, and nothing in this request shows that "
                "it comes from the same device; ask its site, and if the device was replaced, say "
                "--force"
            )
        return self._entry(path, None)

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
                    f"{path} is missing: it was never made here (`veilsum keys issue {name} --dir "
                    f"{self.directory}`), or the site makes its own and `keys sign` renews it"
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
            facts = read_certificate(path.read_bytes(), self._signer[1])
        except ValueError as problem:
            raise AgentError(f"{path} holds no certificate ({problem}); remove it") from None
        entry, pinned = described(facts, now), self.signing_keys().get(facts.name)
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        if self.deny_list().about(common_name_on(certificate), certificate):
            entry = entry._replace(state="denied")
        return entry._replace(signing="" if pinned is None else fingerprint_of(pinned))
