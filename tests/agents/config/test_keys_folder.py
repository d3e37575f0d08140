"""Keys that a service manager provides: another folder than that of the file, and its modes."""

import contextlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from veilsum.agents.config import Setup
from veilsum.agents.fleet import Fleet
from veilsum.agents.pki import Authority, install, make_request
from veilsum.agents.pki.files import check_private
from veilsum.cli.app import app
from veilsum.errors import AgentError

SITES = ("north", "east")


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A fleet whose keys are in credentials/, and not where agent.toml says."""
    Fleet("pair", SITES).write(tmp_path)
    authority = Authority.create(tmp_path / "authority")
    for label in SITES:
        made, _ = make_request(label, tmp_path / "credentials")
        authority.sign(made, ["127.0.0.1"])
        install(label, tmp_path / "authority", tmp_path / "credentials")
    return tmp_path


def test_the_folder_takes_the_place_of_the_files(
    fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = fleet / "sites" / "north" / "agent.toml"
    with pytest.raises(AgentError, match=r"north/keys/ca\.pem is missing"):
        Setup.load(file).credentials()
    with contextlib.chdir(fleet):
        found = Setup.load(file, "credentials").credentials()
    assert found is not None
    assert found.key == fleet / "credentials" / "north.key"
    words = ["agent", str(file), "--check"]
    assert CliRunner().invoke(app, words).exit_code == 1
    keys = ["--keys", str(fleet / "credentials")]
    assert CliRunner().invoke(app, [*words, *keys]).exit_code == 0
    monkeypatch.setenv("VEILSUM_KEYS", str(fleet / "credentials"))  # of a container
    assert CliRunner().invoke(app, words).exit_code == 0


@pytest.mark.thorough
def test_doctor_examines_several_and_says_if_they_disagree(
    fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VEILSUM_KEYS", str(fleet / "credentials"))
    files = [str(fleet / "sites" / label / "agent.toml") for label in SITES]
    done = CliRunner().invoke(app, ["doctor", "--offline", *files])
    assert done.exit_code == 0, done.output
    assert done.output.count("0 failures") == 2
    assert "differ" not in done.output
    other = fleet / "other.toml"
    other.write_text(
        (fleet / "scenario.toml").read_text().replace("epsilon = 1.0", "epsilon = 0.5")
    )
    text = Path(files[1]).read_text()
    Path(files[1]).write_text(text.replace("../../scenario.toml", str(other)))
    assert "The manifests differ" in CliRunner().invoke(app, ["doctor", "--offline", *files]).output
    Path(files[1]).write_text("name = 1")
    assert CliRunner().invoke(app, ["doctor", "--offline", *files]).exit_code == 1


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o440, 0o640, 0o444, 0o604])
def test_who_may_read_a_key(fleet: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    """The group's bits are an access list's in systemd's folder only, and others' are never."""
    key = fleet / "credentials" / "north.key"
    key.chmod(mode)
    for given, allowed in (
        (None, 0o700),
        (str(fleet), 0o700),
        (str(fleet / "credentials"), 0o770),
    ):
        if given is not None:
            monkeypatch.setenv("CREDENTIALS_DIRECTORY", given)
        refused = bool(mode & ~allowed)
        with pytest.raises(AgentError) if refused else contextlib.nullcontext():
            check_private(key)
