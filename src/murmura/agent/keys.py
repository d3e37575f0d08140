"""A small certificate authority: one key that signs, and a certificate for every device.

An authority is a directory. `ca.key` signs and stays where it is; `ca.pem` goes to every device,
and so do `NAME.pem` and `NAME.key` of that device and of no other. The name on a certificate (its
common name) is what agents admit and what fences a device's keys, so an authority never gives one
name to two devices. A certificate serves both ends of a link (EKU server and client).

There is no list of revoked certificates: one that is lost is good until it expires, or until its
name is taken out of the manifest. So lifetimes are short, and `issue(..., renew=True)` is cheap.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from murmura.agent import _x509
from murmura.errors import AgentError

AUTHORITY_DAYS = 3650
DEVICE_DAYS = 90
SOON = dt.timedelta(days=14)  # a certificate this close to its end should be rotated
NAME = re.compile(r"[^\W_][\w .@+-]{0,63}")  # at most 64 characters in a common name
HOST = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(\.(?!-)[A-Za-z0-9-]{1,63})*")


class Credentials(NamedTuple):
    """What a device needs to prove its name, and to check those of others: three PEM files."""

    ca: Path
    certificate: Path
    key: Path

    def secret(self) -> bytes:
        """32 bytes that follow from the private key, and from nothing else of the file."""
        try:
            return _x509.secret_of(self.key.read_bytes())
        except (OSError, ValueError) as problem:
            raise AgentError(f"the private key {self.key} cannot be read: {problem}") from None


class Entry(NamedTuple):
    """One certificate of an authority as it stands today."""

    name: str
    serial: str
    expires: dt.datetime
    state: str  # "valid", "expires soon", "expired", "not yet valid", "of another authority"
    fingerprint: str  # sha256 of the certificate
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class Authority:
    """The directory of an authority whose key is there; see `create` and `load`."""

    directory: Path

    @classmethod
    def create(
        cls, directory: str | Path, name: str = "murmura authority", *, force: bool = False
    ) -> Authority:
        """Make a directory (mode 0700) with a new key and its self-signed certificate.

        With `force` an authority that is there is replaced: all it has signed becomes worthless.
        """
        home = Path(directory)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        paths = home / "ca.key", home / "ca.pem"
        _check_free(paths, force, "every certificate it has signed becomes worthless")
        key, certificate = _x509.authority(name, AUTHORITY_DAYS)
        _store(paths[0], key, secret=True)
        _store(paths[1], certificate)
        return cls(home)

    @classmethod
    def load(cls, directory: str | Path) -> Authority:
        """Take an authority that was made before."""
        home = Path(directory)
        for path in (home / "ca.key", home / "ca.pem"):
            if not path.is_file():
                raise AgentError(
                    f"{home} is no authority: {path.name} is missing; make one with "
                    f"`murmura keys init {home}`"
                )
        authority = cls(home)
        _ = authority._signer  # a key that cannot be read is told now
        return authority

    @cached_property
    def _signer(self) -> tuple[Any, Any]:
        try:
            return _x509.load_signer(
                (self.directory / "ca.key").read_bytes(), (self.directory / "ca.pem").read_bytes()
            )
        except ValueError as problem:
            raise AgentError(
                f"the authority in {self.directory} cannot be read ({problem}); restore ca.key "
                "and ca.pem from your copy, or begin anew with `murmura keys init --force`"
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
        """Make a key (mode 0600) and a certificate for a device that is reached at `hosts`.

        Neighbours check that the address they connect to is among the hosts. Without any, the
        device can connect to others; they cannot connect to it. `not_after` replaces `days`.
        With `renew` the certificate is replaced and the key kept, so that what the device has
        signed with it stays good; with `force` both are replaced.
        """
        _check_name(name)
        found = [_host(host) for host in hosts]
        end = not_after or dt.datetime.now(dt.UTC) + dt.timedelta(days=_positive(days))
        paths = self.directory / f"{name}.key", self.directory / f"{name}.pem"
        _check_free(paths, force or renew, f"{name} must then be given the new files")
        old = self.credentials(name).key.read_bytes() if renew else None
        key, certificate = _x509.device(self._signer, name, found, end, old)
        if old is None:
            _store(paths[0], key, secret=True)
        _store(paths[1], certificate)
        return self.credentials(name)

    def credentials(self, name: str) -> Credentials:
        """The three files of a device that has a certificate here."""
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

    def entries(self, now: dt.datetime | None = None) -> list[Entry]:
        """Every certificate in the directory but the authority's own, by name."""
        files = sorted(self.directory.glob("*.pem"))
        return [self._entry(path, now) for path in files if path.name != "ca.pem"]

    def _entry(self, path: Path, now: dt.datetime | None) -> Entry:
        try:
            facts = _x509.facts(path.read_bytes(), self._signer[1])
        except ValueError as problem:
            raise AgentError(f"{path} holds no certificate ({problem}); remove it") from None
        state = _state(facts, now or dt.datetime.now(dt.UTC))
        return Entry(
            facts.name, facts.serial, facts.not_after, state, facts.fingerprint, facts.hosts
        )


def check(credentials: Credentials, name: str, now: dt.datetime | None = None) -> None:
    """Raise unless the three files belong together, bear the name, are in date and kept private."""
    renew = f"renew it with `murmura keys issue {name} --renew`"
    try:
        _x509.load_signer(credentials.key.read_bytes(), credentials.certificate.read_bytes())
        issuer = _x509.load_certificate(credentials.ca.read_bytes())
        facts = _x509.facts(credentials.certificate.read_bytes(), issuer)
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
        raise AgentError(f"{credentials.certificate} is {state} (good from {when}); {renew}")
    if credentials.key.stat().st_mode & 0o077:
        raise AgentError(
            f"{credentials.key} can be read by others; run `chmod 600 {credentials.key}`. If "
            "others may have read it, it must not be used any more: issue a key under a new name, "
            "take the old name out of the manifest, and begin a new epoch (renewing keeps the key)"
        )


def _state(facts: _x509.Facts, now: dt.datetime) -> str:
    if not facts.signed:
        return "of another authority"
    if now < facts.not_before:
        return "not yet valid"
    if now >= facts.not_after:
        return "expired"
    return "expires soon" if now + SOON >= facts.not_after else "valid"


def check_request(names: Iterable[str], hosts: Iterable[str], days: float) -> None:
    """Raise unless certificates could be issued for these names, hosts and days."""
    for name in names:
        _check_name(name)
    for host in hosts:
        _host(host)
    _positive(days)


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name) or name.casefold() == "ca":
        raise AgentError(
            f"{name!r} cannot be the name on a certificate: expected 1 to 64 letters, digits, "
            "spaces or . _ - @ +, beginning with a letter or a digit, and not 'ca'"
        )


def _host(text: str) -> str | _x509.Address:
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


def _positive(days: float) -> float:
    if not 0 < days <= AUTHORITY_DAYS:
        raise AgentError(f"days must lie in (0, {AUTHORITY_DAYS}], found {days:g}")
    return days


def _check_free(paths: Iterable[Path], force: bool, price: str) -> None:
    for path in paths:
        if path.exists() and not force:
            raise AgentError(f"{path} exists and is not replaced; with --force it is, and {price}")


def _store(path: Path, data: bytes, *, secret: bool = False) -> None:
    """Write a file whole or not at all; a secret one is never readable by others, even briefly."""
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
