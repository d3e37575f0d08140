"""An epoch is adopted if the authority signed it, and in no other case."""

import json
from pathlib import Path
from typing import Any

import pytest

from veilsum.agents.membership import signed_epoch
from veilsum.agents.membership.adoption import latest
from veilsum.agents.membership.signed_epoch import SignedEpoch
from veilsum.agents.pki import Authority
from veilsum.agents.pki.statements import is_signed, sign_statement
from veilsum.errors import AgentError

FILES = {"scenario.toml": 'name = "demo"\n', "links.csv": "source,target\na,b\n"}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "authority")


def made(authority: Authority, epoch: int = 2, network: str = "demo") -> SignedEpoch:
    return SignedEpoch(network, epoch, "scenario.toml", FILES, {"a": "tls/a:1"}).sign(authority)


def test_what_was_signed_is_read_back(tmp_path: Path, authority: Authority) -> None:
    one, path = made(authority), tmp_path / "epoch.json"
    one.write(path)
    found = SignedEpoch.read(path, tmp_path / "authority" / "ca.pem")
    assert found == one
    with found.unpacked() as scenario:
        folder = scenario.parent
        assert (scenario.read_text(), (folder / "links.csv").read_text()) == tuple(FILES.values())
    assert not folder.exists()


CHANGES: dict[str, Any] = {
    "epoch": lambda data: data | {"epoch": 3},
    "network": lambda data: data | {"network": "other"},
    "a file": lambda data: data | {"files": data["files"] | {"links.csv": "a,c\n"}},
    "an address": lambda data: data | {"addresses": {"a": "tls/evil:1"}},
    "the signature": lambda data: data | {"signature": data["signature"][:-2] + "00"},
    "no signature": lambda data: data | {"signature": ""},
}


@pytest.mark.parametrize("what", CHANGES)
def test_an_edited_epoch_is_refused(tmp_path: Path, authority: Authority, what: str) -> None:
    path, ca = tmp_path / "epoch.json", tmp_path / "authority" / "ca.pem"
    made(authority).write(path)
    path.write_text(json.dumps(CHANGES[what](json.loads(path.read_text()))))
    with pytest.raises(AgentError, match="is not signed by the authority"):
        SignedEpoch.read(path, ca)
    network = "other" if what == "network" else "demo"
    found, (problem,) = latest(network, ca, path)
    assert found is None
    assert "somebody edited it" in problem


def test_without_the_check_it_would_be_adopted(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weakened variant: what the tests above are about."""
    monkeypatch.setattr(signed_epoch, "is_signed", lambda *_: True)
    path = tmp_path / "epoch.json"
    made(authority).write(path)
    path.write_text(json.dumps(CHANGES["a file"](json.loads(path.read_text()))))
    found, problems = latest("demo", tmp_path / "authority" / "ca.pem", path)
    assert found is not None
    assert not problems


def test_another_authority_signs_for_nobody_here(tmp_path: Path, authority: Authority) -> None:
    other = Authority.create(tmp_path / "other")
    made(other).write(tmp_path / "epoch.json")
    with pytest.raises(AgentError, match="of another fleet"):
        SignedEpoch.read(tmp_path / "epoch.json", authority.directory / "ca.pem")


def test_the_latest_counts_and_another_network_does_not(
    tmp_path: Path, authority: Authority
) -> None:
    ca = authority.directory / "ca.pem"
    files = [tmp_path / f"{k}.json" for k in range(3)]
    for path, one in zip(files, (made(authority, 3), made(authority, 2)), strict=False):
        one.write(path)
    made(authority, 9, "elsewhere").write(files[2])
    for order in (files, files[::-1]):
        found, (problem,) = latest("demo", ca, *order, tmp_path / "missing.json")
        assert found is not None
        assert found.epoch == 3
        assert "of the network elsewhere" in problem


@pytest.mark.parametrize("name", ["../links.csv", "/etc/passwd", "a/../../b", "", "a\\b"])
def test_no_file_of_an_epoch_lies_elsewhere(name: str) -> None:
    with pytest.raises(AgentError, match="outside the scenario's folder"):
        SignedEpoch("demo", 2, "scenario.toml", FILES | {name: ""}, {})


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"kind": 1}', "[" * 100_000, json.dumps({"kind": "veilsum epoch"})],
)
def test_what_is_no_epoch_is_said_so(tmp_path: Path, authority: Authority, text: str) -> None:
    (tmp_path / "epoch.json").write_text(text)
    with pytest.raises(AgentError, match="cannot be read as an epoch"):
        SignedEpoch.read(tmp_path / "epoch.json", authority.directory / "ca.pem")


def test_a_statement_is_for_one_purpose_and_is_no_certificate(authority: Authority) -> None:
    ca = authority.directory / "ca.pem"
    signature = authority.state("epoch", b"data")
    assert is_signed(ca, "epoch", b"data", signature)
    assert not is_signed(ca, "deny list", b"data", signature)
    assert not is_signed(ca, "epoch", b"other", signature)
    from cryptography import x509

    authority.issue("north")
    found = x509.load_pem_x509_certificate((authority.directory / "north.pem").read_bytes())
    assert found.tbs_certificate_bytes[:1] == b"\x30"  # and a statement begins with "m"
    assert not is_signed(ca, "epoch", found.tbs_certificate_bytes, found.signature)
    assert sign_statement(authority._signer[0], "epoch", b"data") != signature  # randomised
