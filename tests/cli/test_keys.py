"""veilsum keys, as users call it."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from veilsum.cli.keys import keys


def call(*words: Any) -> Any:
    return CliRunner().invoke(keys, list(map(str, words)))


@pytest.fixture
def home(tmp_path: Any) -> Any:
    assert call("init", tmp_path / "keys").exit_code == 0
    return tmp_path / "keys"


def test_from_nothing_to_a_list(home: Any) -> None:
    made = call("issue", "meter 1", "meter-2", "--dir", home, "--host", "localhost",
                "--host", "192.0.2.7", "--days", "30")  # fmt: skip
    assert made.exit_code == 0, made.output
    assert "meter-2" in made.output
    listed = call("list", "--dir", home)
    assert listed.exit_code == 0
    assert "192.0.2.7" in listed.output
    found = json.loads(call("list", "--dir", home, "--json").output)["certificates"]
    assert [entry["name"] for entry in found] == ["meter 1", "meter-2"]
    assert {entry["state"] for entry in found} == {"valid"}
    assert all(len(entry["fingerprint"]) == 64 for entry in found)
    assert stat.S_IMODE((home / "meter 1.key").stat().st_mode) == 0o600


def test_nothing_is_replaced_unless_forced(home: Any) -> None:
    assert call("issue", "a", "--dir", home).exit_code == 0
    before = (home / "a.key").read_bytes(), (home / "a.pem").read_bytes()
    for words in (("issue", "a", "--dir", home), ("init", home)):
        refused = call(*words)
        assert refused.exit_code == 1
        assert "--force" in refused.output
    assert before == ((home / "a.key").read_bytes(), (home / "a.pem").read_bytes())
    assert call("issue", "a", "--dir", home, "--renew").exit_code == 0
    assert (home / "a.key").read_bytes() == before[0]
    assert (home / "a.pem").read_bytes() != before[1]
    assert call("issue", "a", "--dir", home, "--force").exit_code == 0
    assert (home / "a.key").read_bytes() != before[0]


def test_mistakes_are_explained(home: Any, tmp_path: Any) -> None:
    for words, code, expected in (
        (("issue", "a", "--dir", tmp_path / "none"), 1, "veilsum keys init"),
        (("issue", "../a", "--dir", home), 2, "name on a certificate"),
        (("issue", "a", "--dir", home, "--days", "0"), 2, "days must lie in"),
        (("issue", "a", "--dir", home, "--host", "x:7447"), 2, "without a port"),
        (("list", "--dir", tmp_path), 1, "is no authority"),
    ):
        said = call(*words)
        assert said.exit_code == code, words
        assert expected in said.output
        assert "Traceback" not in said.output
    assert "no certificates yet" in call("list", "--dir", home).output


def test_help_imports_nothing_heavy() -> None:
    heavy = "{'cryptography', 'zenoh', 'numpy'}"
    code = f"import sys, veilsum.cli.keys; print({heavy} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "set()\n"


def requested(tmp_path: Any, *names: str) -> list[Any]:
    for name in names:
        assert call("request", name, "--dir", tmp_path / name).exit_code == 0
    return [tmp_path / name / f"{name}.request" for name in names]


def test_hosts_come_from_the_sites_of_a_file(home: Any, tmp_path: Any) -> None:
    file = tmp_path / "watch.toml"
    file.write_text(
        '[sites]\nnorth = "tls/north.example:7447"\neast = "tls/[2001:db8::7]:7448"\n'
        'west = "tls/10.0.0.3:7449"\n'
    )
    paths = requested(tmp_path, "north", "east", "west", "control-room")
    made = call("sign", *paths, "--dir", home, "--hosts", file)
    assert made.exit_code == 0, made.output
    found = json.loads(call("list", "--dir", home, "--json").output)["certificates"]
    assert {entry["name"]: entry["hosts"] for entry in found} == {
        "north": ["north.example"],
        "east": ["2001:db8::7"],
        "west": ["10.0.0.3"],
        "control-room": [],
    }
    alone = f"control-room: {file} has no [sites] control-room, so it can connect to others"
    assert alone in " ".join(made.output.split())
    assert made.output.count("can connect to others") == 1
    again = call("sign", *requested(tmp_path, "north"), "--dir", home)
    assert "can connect to others" not in again.output, "a renewal keeps its host"
    bare = call("sign", *requested(tmp_path, "south"), "--dir", home)
    assert "south: no --host, so it can connect to others" in bare.output


@pytest.mark.parametrize(
    "text", ["sites = 1", '[sites]\nnorth = "north.example"', "[sites]\nnorth = 1", "[", "[other]"]
)
def test_a_file_without_sites_signs_nothing(home: Any, tmp_path: Any, text: str) -> None:
    file = tmp_path / "watch.toml"
    file.write_text(text)
    refused = call("sign", *requested(tmp_path, "north"), "--dir", home, "--hosts", file)
    assert refused.exit_code == 2
    assert "no addresses of sites" in refused.output
    assert not (home / "north.pem").exists()
    both = call("sign", *requested(tmp_path, "a"), "--dir", home, "--hosts", file, "--host", "b")
    assert both.exit_code == 2


def test_a_request_says_how_to_go_on_with_the_folder_it_used(tmp_path: Any) -> None:
    folder = tmp_path / "the keys"
    said = call("request", "a", "--dir", folder).output
    assert f"veilsum keys install a --from FOLDER --dir '{folder}'" in " ".join(said.split())


def test_a_renewal_keeps_the_hosts_unless_others_are_given(home: Any) -> None:
    def hosts() -> Any:
        listed = call("list", "--dir", home, "--json").output
        return json.loads(listed)["certificates"][0]["hosts"]

    assert (
        call("issue", "a", "--dir", home, "--host", "a.example", "--host", "10.0.0.1").exit_code
        == 0
    )
    renewed = call("issue", "a", "--dir", home, "--renew")
    assert "not be connected to" not in renewed.output
    assert hosts() == ["a.example", "10.0.0.1"]
    assert call("issue", "a", "--dir", home, "--renew", "--host", "b.example").exit_code == 0
    assert hosts() == ["b.example"]


def test_an_exposed_key_is_replaced_and_denied(home: Any) -> None:
    assert call("issue", "a", "--dir", home, "--host", "a.example").exit_code == 0
    before = (home / "a.key").read_bytes()
    assert call("issue", "a", "--dir", home, "--new-key").exit_code == 1, "only with --renew"
    refused = call("revoke", "a", "--old", "--dir", home)
    assert (refused.exit_code, "one key only" in " ".join(refused.output.split())) == (1, True)
    done = call("issue", "a", "--dir", home, "--renew", "--new-key")
    assert "a.secret (private) goes with the new key" in " ".join(done.output.split())
    assert (home / "a.key").read_bytes() != before
    assert stat.S_IMODE((home / "a.secret").stat().st_mode) == 0o600
    made = call("revoke", "a", "--old", "--reason", "exposed", "--dir", home)
    assert "is deny list 1: 1 entries" in made.output
    shown = call("denied", home / "denied.json")
    assert "deny list 1, signed by the authority" in shown.output
    assert "exposed" in shown.output
    found = json.loads(call("denied", home / "denied.json", "--json").output)
    assert [entry["kind"] for entry in found["entries"]] == ["key"]


def test_a_revoked_name_is_never_signed_again(home: Any, tmp_path: Any) -> None:
    (path,) = requested(tmp_path, "north")
    assert call("sign", path, "--dir", home, "--host", "north.example").exit_code == 0
    assert call("revoke", "north", "--dir", home, "--reason", "left").exit_code == 0
    refused = call("sign", path, "--dir", home)
    assert refused.exit_code == 1
    assert "north gets no certificate: its name is on deny list 1" in " ".join(
        refused.output.split()
    )
    assert call("revoke", "room", "--observer", "--dir", home).exit_code == 0
    for words, expected in (
        (("revoke", "north", "--dir", home), "on deny list 2 already"),
        (("revoke", "../x", "--dir", home), "name on a certificate"),
        (("revoke", "nroth", "--dir", home), "never signed for nroth, and nothing was denied"),
        (("revoke", "east", "--serial", "xyz", "--dir", home), "is no serial number"),
        (("denied", tmp_path / "none.json"), "cannot be read"),
        (("denied", path, "--ca", home / "ca.pem"), "is no deny list"),
    ):
        said = call(*words)
        assert said.exit_code == 1, words
        assert expected in " ".join(said.output.split())
