"""The authority: who may read its keys, what its certificates say, and what it refuses."""

from __future__ import annotations

import datetime as dt
import os
import stat
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store

from veilsum.agents.pki import Authority, Credentials, check_credentials
from veilsum.errors import AgentError


@pytest.fixture
def authority(tmp_path: Any) -> Any:
    return Authority.create(tmp_path / "ca")


def now(**shift: Any) -> Any:
    return dt.datetime.now(dt.UTC) + dt.timedelta(**shift)


def mode(path: Any) -> Any:
    return stat.S_IMODE(path.stat().st_mode)


def certificate(path: Any) -> Any:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_private_keys_are_private_from_the_first_moment(tmp_path: Any, monkeypatch: Any) -> None:
    created = []
    plain = os.open

    def watched(path: Any, flags: Any, given: Any = 0o777, **more: Any) -> Any:
        handle = plain(path, flags, given, **more)
        created.append((str(path), stat.S_IMODE(os.fstat(handle).st_mode), flags))
        return handle

    monkeypatch.setattr(os, "open", watched)
    before = os.umask(0)
    try:
        made = Authority.create(tmp_path / "ca")
        issued = made.issue("a")
    finally:
        os.umask(before)
    secret = [entry for entry in created if ".key." in entry[0]]
    assert len(secret) == 2
    assert all(m == 0o600 and flags & os.O_EXCL for _, m, flags in secret)
    assert mode(issued.key) == mode(made.directory / "ca.key") == 0o600
    assert mode(made.directory) == 0o700
    assert sorted(p.name for p in made.directory.iterdir()) == [
        "a.key",
        "a.pem",
        "ca.key",
        "ca.pem",
        "issued.jsonl",
    ]


def test_a_certificate_says_what_it_should(authority: Any) -> None:
    made = authority.issue("meter 1", ("localhost", "127.0.0.1", "::1"), days=20)
    found = certificate(made.certificate)
    assert found.subject.rfc4514_string() == "CN=meter 1"
    usage = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usage) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert now(days=19) < found.not_valid_after_utc < now(days=21)
    (entry,) = authority.entries()
    assert (entry.name, entry.state) == ("meter 1", "valid")
    assert entry.hosts == ("localhost", "127.0.0.1", "::1")


def test_an_independent_verifier_accepts_it_and_no_other(authority: Any, tmp_path: Any) -> None:
    made = authority.issue("a", ("meter.example.org",))
    other = Authority.create(tmp_path / "other")

    def verifier(home: Any) -> Any:
        store = Store([certificate(home.directory / "ca.pem")])
        return PolicyBuilder().store(store).build_server_verifier(x509.DNSName("meter.example.org"))

    verifier(authority).verify(certificate(made.certificate), [])
    with pytest.raises(x509.verification.VerificationError):
        verifier(other).verify(certificate(made.certificate), [])


def test_states(authority: Any, tmp_path: Any) -> None:
    authority.issue("gone", not_after=now(days=-1))
    authority.issue("soon", days=3)
    authority.issue("well")
    foreign = Authority.create(tmp_path / "other").issue("foreign")
    (authority.directory / "foreign.pem").write_bytes(foreign.certificate.read_bytes())
    states = {entry.name: entry.state for entry in authority.entries()}
    assert states == {
        "foreign": "of another authority",
        "gone": "expired",
        "soon": "expires soon",
        "well": "valid",
    }
    later = {entry.name: entry.state for entry in authority.entries(now(days=365))}
    assert later["well"] == "expired"
    earlier = {entry.name: entry.state for entry in authority.entries(now(days=-30))}
    assert earlier["well"] == "not yet valid"


@pytest.mark.parametrize("name", ["", "ca", "CA", "../x", "a/b", ".hidden", "-x", "a\n", "x" * 65])
def test_names_that_cannot_be(authority: Any, name: Any) -> None:
    with pytest.raises(AgentError, match="name on a certificate"):
        authority.issue(name)


def test_rotation_keeps_or_replaces_the_key(authority: Any) -> None:
    first = authority.issue("a")
    key, old = first.key.read_bytes(), certificate(first.certificate).serial_number
    with pytest.raises(AgentError, match="exists and is not replaced"):
        authority.issue("a")
    authority.issue("a", renew=True)
    assert first.key.read_bytes() == key
    assert certificate(first.certificate).serial_number != old
    authority.issue("a", force=True)
    assert first.key.read_bytes() != key
    assert mode(first.key) == 0o600
    with pytest.raises(AgentError, match="is missing"):
        authority.issue("b", renew=True)


def test_an_authority_that_is_broken_says_so(authority: Any, tmp_path: Any) -> None:
    other = Authority.create(tmp_path / "other")
    (authority.directory / "ca.pem").write_bytes((other.directory / "ca.pem").read_bytes())
    with pytest.raises(AgentError, match="not a pair"):
        Authority.load(authority.directory)
    (authority.directory / "ca.key").write_text("no key")
    with pytest.raises(AgentError, match="cannot be read"):
        Authority.load(authority.directory)
    (authority.directory / "ca.key").unlink()
    with pytest.raises(AgentError, match="is no authority"):
        Authority.load(authority.directory)


def test_a_failed_write_leaves_nothing_behind(authority: Any, monkeypatch: Any) -> None:
    def full(_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        authority.issue("a")
    assert sorted(p.name for p in authority.directory.iterdir()) == ["ca.key", "ca.pem"]


def test_credentials_are_checked_before_use(authority: Any, tmp_path: Any) -> None:
    good = authority.issue("a")
    check_credentials(good, "a")
    with pytest.raises(AgentError, match="is for 'a', and this device is 'b'"):
        check_credentials(good, "b")
    with pytest.raises(AgentError, match=r"is expired \(valid from .* --renew"):
        check_credentials(good, "a", now(days=200))
    other = Authority.create(tmp_path / "other").issue("a")
    with pytest.raises(AgentError, match="not a pair"):
        check_credentials(Credentials(good.ca, good.certificate, other.key), "a")
    with pytest.raises(AgentError, match="of another authority"):
        check_credentials(other._replace(ca=good.ca), "a")
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    for wrong in (good._replace(ca=text), good._replace(certificate=text)):
        with pytest.raises(AgentError, match=r"text\.pem is no certificate in PEM form"):
            check_credentials(wrong, "a")
    good.key.chmod(0o640)
    with pytest.raises(AgentError, match="chmod 600"):
        check_credentials(good, "a")
    good.key.unlink()
    with pytest.raises(AgentError, match="cannot be used"):
        check_credentials(good, "a")
