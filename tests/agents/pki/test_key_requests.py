"""Keys made on the site: the authority sees public halves only, and signs for nobody else."""

from __future__ import annotations

import datetime as dt
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from veilsum.agents.pki import (
    Authority,
    Credentials,
    KeyRequest,
    Role,
    SigningKey,
    check_credentials,
    install,
    make_observer_request,
    make_request,
)
from veilsum.agents.pki.certificates import pem_of
from veilsum.agents.pki.signing import read_keys
from veilsum.cli.app import app
from veilsum.errors import AgentError


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "authority")


def asked(site: Path, name: str = "north", **more: Any) -> KeyRequest:
    return KeyRequest.read(make_request(name, site, **more)[1])


def listed(authority: Authority) -> dict[str, str]:
    return read_keys(authority.directory / "signing-keys.toml")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def sent(authority: Authority, name: str, to: Path) -> Path:
    """A folder with what the authority sends."""
    to.mkdir(exist_ok=True)
    for file in ("ca.pem", f"{name}.pem", "signing-keys.toml"):
        (to / file).write_bytes((authority.directory / file).read_bytes())
    return to


def test_the_whole_way(authority: Authority, tmp_path: Path) -> None:
    site = tmp_path / "site"
    made = authority.sign(asked(site), ["north.example"], days=30)
    assert listed(authority) == {"north": SigningKey.load(site / "north.signing.key").public}
    credentials = install("north", sent(authority, "north", tmp_path / "sent"), site)
    check_credentials(credentials, "north")
    assert mode(site) == 0o700
    assert mode(site / "north.key") == mode(site / "north.signing.key") == 0o600
    (entry,) = authority.entries()
    assert (entry.name, entry.hosts, entry.state) == ("north", ("north.example",), "valid")
    assert entry.signing == SigningKey.load(site / "north.signing.key").fingerprint
    assert made == authority.directory / "north.pem"


def observer(site: Path, name: str = "control-room", **more: Any) -> KeyRequest:
    return KeyRequest.read(make_observer_request(name, site, **more)[1])


def test_the_whole_way_of_an_observer(authority: Authority, tmp_path: Path) -> None:
    site = tmp_path / "desk"
    authority.sign(asked(tmp_path / "north"), ["north.example"])
    path = authority.sign(observer(site), days=30)
    assert "control-room" not in listed(authority), "an observer signs nothing"
    credentials = install("control-room", sent(authority, "control-room", tmp_path / "sent"), site)
    check_credentials(credentials, "control-room", role=Role.OBSERVER)
    with pytest.raises(AgentError, match=r"is for an observer.* is to be a member"):
        check_credentials(credentials, "control-room")
    member = Credentials(authority.directory / "ca.pem", authority.directory / "north.pem",
                         tmp_path / "north" / "north.key")  # fmt: skip
    with pytest.raises(AgentError, match=r"is for a member.* is to be an observer"):
        check_credentials(member, "north", role=Role.OBSERVER)
    found = x509.load_pem_x509_certificate(path.read_bytes())
    assert found.subject.rfc4514_string() == "CN=observer:control-room"
    uses = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(uses) == [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH], "it cannot listen as a site"
    roles = {entry.name: entry.role for entry in authority.entries()}
    assert roles == {"north": Role.MEMBER, "control-room": Role.OBSERVER}
    assert sorted(file.name for file in site.glob("*.signing.key")) == []
    authority.sign(observer(site))  # renewed


def test_a_name_has_one_role(authority: Authority, tmp_path: Path) -> None:
    authority.sign(asked(tmp_path / "north"), ["north.example"])
    with pytest.raises(AgentError, match="nothing in this request shows"):
        authority.sign(observer(tmp_path / "desk", "north"))
    with pytest.raises(AgentError, match="north is the name of a member"):
        authority.sign(observer(tmp_path / "desk", "north"), force=True)
    authority.sign(observer(tmp_path / "desk"))
    with pytest.raises(AgentError, match="control-room is the name of an observer"):
        authority.issue("control-room", force=True)
    with pytest.raises(AgentError, match="only connects; leave --host out"):
        authority.issue("second", ["127.0.0.1"], role=Role.OBSERVER)
    with pytest.raises(AgentError, match="at most 55"):
        make_observer_request("x" * 56, tmp_path / "desk")


def test_a_request_cannot_change_its_role(tmp_path: Path) -> None:
    """The proofs cover it: who asked to observe is not made a member, nor the other way."""
    for made, role in (
        (observer(tmp_path / "desk"), "member"),
        (asked(tmp_path / "n"), "observer"),
    ):
        file = tmp_path / "changed.request"
        file.write_text(made.to_json().replace(f'"role": "{made.role}"', f'"role": "{role}"'))
        with pytest.raises(AgentError, match=r"was changed|is no request|cannot be the name"):
            KeyRequest.read(file)
    whole = asked(tmp_path / "n")
    bare = whole._replace(role=Role.OBSERVER, label="", signing_key="", signing_proof=b"")
    file.write_text(bare.to_json())
    with pytest.raises(AgentError, match="was changed"):
        KeyRequest.read(file)


def test_no_name_of_a_member_has_the_mark_of_an_observer(authority: Authority) -> None:
    with pytest.raises(AgentError, match="cannot be the name on a certificate"):
        authority.issue("observer:control-room")


def test_the_commands_of_an_observer(authority: Authority, tmp_path: Path) -> None:
    home, desk = str(authority.directory), str(tmp_path / "desk")

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, ["keys", *words])
        assert done.exit_code == 0, done.output
        return done.output

    assert "Signing key" not in run("request", "control-room", "--observer", "--dir", desk)
    said = run("sign", f"{desk}/control-room.request", "--dir", home)
    assert "of an observer; sites allow it with [observers] allow" in said
    assert "signing key" not in said
    assert "fit" in run("install", "control-room", "--from", home, "--dir", desk)
    run("issue", "second", "--observer", "--dir", home)
    run("issue", "north", "--host", "127.0.0.1", "--dir", home)
    listing = json.loads(run("list", "--dir", home, "--json"))
    roles = {entry["name"]: entry["role"] for entry in listing["certificates"]}
    assert roles == {"control-room": "observer", "second": "observer", "north": "member"}
    assert "observer" in run("list", "--dir", home)
    wrong = ["keys", "request", "x", "--observer", "--label", "y", "--dir", desk]
    assert CliRunner().invoke(app, wrong).exit_code == 2


def test_the_authority_never_has_a_private_half_of_a_site(
    authority: Authority, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    authority.sign(asked(site))
    secret = []
    for name in ("north.key", "north.signing.key"):
        key: Any = serialization.load_pem_private_key((site / name).read_bytes(), None)
        secret.append((site / name).read_bytes().splitlines()[1])
        secret.append(
            key.private_bytes_raw()
            if isinstance(key, Ed25519PrivateKey)
            else key.private_numbers().private_value.to_bytes(32, "big")
        )
    secret.append((site / "north.secret").read_bytes().strip())
    files = [*authority.directory.iterdir(), site / "north.request"]
    assert {file.name for file in files} == {
        "ca.key", "ca.pem", "issued.jsonl", "north.pem", "north.request", "signing-keys.toml",
    }  # fmt: skip
    for file in files:
        data = file.read_bytes()
        assert file.name == "ca.key" or b"PRIVATE" not in data
        for part in secret:
            assert part not in data
            assert part.hex().encode() not in data


def changed(site: Path, **values: str) -> Path:
    path = make_request("north", site)[1]
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    return path


def test_a_request_that_was_changed_is_refused(authority: Authority, tmp_path: Path) -> None:
    site, other = tmp_path / "site", tmp_path / "other"
    theirs = make_request("north", other)[0]
    own = json.loads(make_request("north", site)[1].read_text())
    changes = [
        {"name": "south"},
        {"label": "south"},
        {"signing_key": theirs.signing_key},
        {"signing_key": theirs.signing_key, "signing_proof": theirs.signing_proof.hex()},
        {"certificate_key": theirs.certificate_key.hex()},
        {
            "certificate_key": theirs.certificate_key.hex(),
            "certificate_proof": theirs.certificate_proof.hex(),
        },
        {"signing_proof": "00" * 64},
        {"certificate_proof": own["signing_proof"]},
    ]
    for change in changes:
        with pytest.raises(AgentError, match="the proofs do not fit"):
            KeyRequest.read(changed(site, **change))
    assert KeyRequest.read(changed(site)).name == "north"
    assert not (authority.directory / "signing-keys.toml").exists()


def test_a_stolen_tls_key_cannot_be_joined_to_another_signing_key(tmp_path: Path) -> None:
    """The weakened variant, whose proof of the TLS key leaves the signing key out, accepts it."""
    site, mallory = tmp_path / "site", SigningKey(Ed25519PrivateKey.generate())
    path = make_request("north", site)[1]
    honest = KeyRequest.read(path)
    forged = honest._replace(signing_key=mallory.public)
    forged = forged._replace(signing_proof=mallory.private.sign(forged.signed))
    path.write_text(forged.to_json())
    with pytest.raises(AgentError, match="the proofs do not fit"):
        KeyRequest.read(path)

    class Weakened(KeyRequest):
        def _check_proofs(self) -> None:
            replaced = KeyRequest(*self)._replace(signing_key=honest.signing_key)
            covered = replaced.signed  # whatever signing key stands there
            self.public_key.verify(self.certificate_proof, covered, ec.ECDSA(hashes.SHA256()))

    assert Weakened.read(path).signing_key == mallory.public


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "no json", '{"name": 1}', "x" * 20_000, '{"name": "\\u0000"}']
)
def test_anything_else_is_no_request(tmp_path: Path, text: str) -> None:
    path = tmp_path / "north.request"
    path.write_text(text)
    with pytest.raises(AgentError, match="is no request of a site"):
        KeyRequest.read(path)
    with pytest.raises(AgentError, match="cannot be read"):
        KeyRequest.read(tmp_path / "nowhere.request")


def test_keys_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = make_request("north", tmp_path)[1]
    key = ec.generate_private_key(ec.SECP384R1())
    (tmp_path / "north.key").write_bytes(pem_of(key))
    with pytest.raises(AgentError, match="holds no EC P-256 key"):
        make_request("north", tmp_path)
    other = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    values = json.loads(path.read_text())
    whole = KeyRequest.read(path)._replace(certificate_key=other)  # and proofs that are right
    signing = SigningKey.load(tmp_path / "north.signing.key").private
    whole = whole._replace(
        certificate_proof=key.sign(whole.signed, ec.ECDSA(hashes.SHA256())),
        signing_proof=signing.sign(whole.signed),
    )
    path.write_text(whole.to_json())
    with pytest.raises(AgentError, match="the proofs do not fit"):
        KeyRequest.read(path)
    path.write_text(json.dumps(values | {"signing_key": values["signing_key"].upper()}))
    with pytest.raises(AgentError, match="is no request"):
        KeyRequest.read(path)


@pytest.mark.parametrize("name", ["ca", "../x", "a/b", "", "x" * 65])
def test_names_that_cannot_be_files_or_certificates_are_refused(tmp_path: Path, name: str) -> None:
    cases: list[dict[str, Any]] = [{"name": name}, {"name": "north", "label": name}]
    for arguments in cases:
        with pytest.raises(AgentError, match="cannot be the name"):
            make_request(directory=tmp_path / "site", **arguments)
    assert not (tmp_path / "site").exists()


def test_a_second_signing_key_for_a_label_is_refused(authority: Authority, tmp_path: Path) -> None:
    authority.sign(asked(tmp_path / "site"))
    before = listed(authority)
    impostor = asked(tmp_path / "impostor")
    with pytest.raises(AgentError, match="north has another signing key on the list"):
        authority.sign(impostor)
    under_another_name = asked(tmp_path / "second", "elsewhere", label="north")
    with pytest.raises(AgentError, match="north has another signing key on the list"):
        authority.sign(under_another_name)
    assert listed(authority) == before
    authority.sign(impostor, force=True)
    assert listed(authority) == {"north": impostor.signing_key}


def test_one_signing_key_for_two_labels_is_refused(authority: Authority, tmp_path: Path) -> None:
    site = tmp_path / "site"
    authority.sign(asked(site))
    (site / "south.signing.key").write_bytes((site / "north.signing.key").read_bytes())
    (site / "south.signing.key").chmod(0o600)
    again = asked(site, "south")
    for force in (False, True):
        with pytest.raises(AgentError, match="north has the same signing key"):
            authority.sign(again, force=force)


def test_the_name_of_another_device_is_refused(authority: Authority, tmp_path: Path) -> None:
    """A member that is on the list cannot have a certificate under another member's name."""
    victim, mallory = tmp_path / "victim", tmp_path / "mallory"
    authority.sign(asked(victim, "gw-1", label="north"))
    authority.sign(asked(mallory, "gw-2", label="south"))
    old = (authority.directory / "gw-1.pem").read_bytes()
    with pytest.raises(AgentError, match="gw-1 has a certificate for another key"):
        authority.sign(asked(mallory, "gw-1", label="south"))
    assert (authority.directory / "gw-1.pem").read_bytes() == old
    authority.issue("west")
    with pytest.raises(AgentError, match="is a private key that was issued here"):
        authority.sign(asked(tmp_path / "west", "west"))


def test_signing_again_renews_and_keeps_the_hosts(authority: Authority, tmp_path: Path) -> None:
    site = tmp_path / "site"
    authority.sign(asked(site), ["north.example", "192.0.2.7"], days=1)
    first = x509.load_pem_x509_certificate((authority.directory / "north.pem").read_bytes())
    authority.sign(asked(site), days=60)
    (entry,) = authority.entries()
    assert entry.hosts == ("north.example", "192.0.2.7")
    assert entry.expires > dt.datetime.now(dt.UTC) + dt.timedelta(days=59)
    assert entry.serial != f"{first.serial_number:x}"
    (site / "north.key").unlink()  # a new TLS key, vouched for by the same signing key
    authority.sign(asked(site))
    (entry,) = authority.entries()
    assert entry.hosts == ("north.example", "192.0.2.7")
    authority.sign(asked(site), ["other.example"])
    assert authority.entries()[0].hosts == ("other.example",)
    install("north", sent(authority, "north", tmp_path / "sent"), site)


def test_a_request_again_keeps_the_keys_and_force_makes_new_ones(tmp_path: Path) -> None:
    first = asked(tmp_path)
    again = asked(tmp_path)
    assert (again.certificate_key, again.signing_key) == (first.certificate_key, first.signing_key)
    assert again.fingerprint == first.fingerprint
    new = asked(tmp_path, force=True)
    assert new.signing_key != first.signing_key
    assert new.certificate_key != first.certificate_key
    assert mode(tmp_path / "north.signing.key") == mode(tmp_path / "north.key") == 0o600
    for name in ("north.key", "north.signing.key"):
        (tmp_path / name).chmod(0o644)
        with pytest.raises(AgentError, match="can be read by others"):
            make_request("north", tmp_path)
        (tmp_path / name).chmod(0o600)


def test_what_came_is_checked_before_it_is_installed(authority: Authority, tmp_path: Path) -> None:
    site, mail = tmp_path / "site", tmp_path / "sent"
    with pytest.raises(AgentError, match=r"north.key is missing"):
        install("north", mail, site)
    authority.sign(asked(site))
    authority.sign(asked(tmp_path / "other", "east"))
    with pytest.raises(AgentError, match=r"ca.pem is missing"):
        install("north", mail, site)
    sent(authority, "north", mail)
    (mail / "north.pem").write_bytes((authority.directory / "east.pem").read_bytes())
    with pytest.raises(AgentError, match="not a pair"):
        install("north", mail, site)
    foreign = Authority.create(tmp_path / "foreign")
    sent(authority, "north", mail)
    (mail / "ca.pem").write_bytes((foreign.directory / "ca.pem").read_bytes())
    with pytest.raises(AgentError, match="of another authority"):
        install("north", mail, site)
    keys = mail / "signing-keys.toml"
    sent(authority, "north", mail)
    keys.write_text(keys.read_text().replace(listed(authority)["north"], "ab" * 32))
    with pytest.raises(AgentError, match="pins another signing key for north"):
        install("north", mail, site)
    assert not (site / "ca.pem").exists()
    assert not (site / "north.pem").exists()
    install("north", sent(authority, "north", mail), site)


def test_an_expired_certificate_and_another_authority_are_not_installed(
    authority: Authority, tmp_path: Path
) -> None:
    site, mail = tmp_path / "site", tmp_path / "sent"
    authority.sign(asked(site), days=1e-9)
    with pytest.raises(AgentError, match="is expired"):
        install("north", sent(authority, "north", mail), site)
    authority.sign(asked(site))
    install("north", sent(authority, "north", mail), site)
    foreign = Authority.create(tmp_path / "foreign")
    foreign.sign(asked(site))
    with pytest.raises(AgentError, match="is another authority than"):
        install("north", sent(foreign, "north", mail), site)
    install("north", sent(foreign, "north", mail), site, force=True)
    assert (site / "ca.pem").read_bytes() == (foreign.directory / "ca.pem").read_bytes()


def test_the_commands(tmp_path: Path) -> None:
    def run(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["keys", *words])
        assert done.exit_code == code, done.output
        return done.output

    home, site = str(tmp_path / "authority"), str(tmp_path / "site")
    run("init", home)
    said = run("request", "north", "--dir", site)
    made = KeyRequest.read(f"{site}/north.request")
    assert made.fingerprint in said
    shown = SigningKey.load(f"{site}/north.signing.key").fingerprint[:16]  # as in `keys list`
    assert f"Signing key of north: {shown}" in said
    words = ("sign", f"{site}/north.request", "--dir", home, "--host", "north.example")
    other = make_request("north", tmp_path / "other")[0].fingerprint
    assert "nothing was signed" in run(*words, "--fingerprint", other, code=1)
    assert not Path(home, "north.pem").exists()
    assert run(*words, "--fingerprint", made.fingerprint.upper().replace(" ", ""))
    two = ("sign", f"{site}/north.request", f"{tmp_path}/other/north.request", "--dir", home)
    run(*two, "--fingerprint", other, code=2)
    said = run(*words)
    assert made.fingerprint in said
    assert f"signing key of north {shown} in" in said
    assert "lists 1 signing key so far. When the last site of a masked sum has signed" in said
    said = run("install", "north", "--from", home, "--dir", site)
    assert f"Signing key of north: {shown}" in said
    table = run("list", "--dir", home)
    assert shown in table
    found = json.loads(run("list", "--dir", home, "--json"))
    assert found["signing_keys"] == {"north": made.signing_key}
    assert (
        found["certificates"][0]["signing"]
        == SigningKey.load(f"{site}/north.signing.key").fingerprint
    )
    run("request", "north", "--dir", f"{site}-2")
    assert "north has another signing key on the list" in run(
        "sign", f"{site}-2/north.request", "--dir", home, code=1
    )
    run("sign", f"{site}/north.request", "--dir", home, "--days", "-1", code=2)
