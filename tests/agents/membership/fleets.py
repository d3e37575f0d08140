"""A fleet in a folder, with its authority and the keys of every site: real files, no processes."""

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from veilsum.agents.config import Setup
from veilsum.agents.fleet import Fleet
from veilsum.agents.local_cluster.plan import free_ports
from veilsum.agents.pki import Authority, KeyRequest, install, make_request
from veilsum.cli.app import app

SITES = ("north", "east", "west")
OBSERVERS = 1000  # above a site's own port


def sign_in(home: Path, label: str, signs: bool = True) -> None:
    """Make the keys of a site there, and have the authority sign them."""
    folder = home / "sites" / label / "keys"
    folder.mkdir(parents=True, exist_ok=True)
    _, path = make_request(label, folder)
    if signs:
        Authority.load(home / "authority").sign(KeyRequest.read(path), ["127.0.0.1"])
        install(label, home / "authority", folder)


def made_fleet(home: Path, sites: tuple[str, ...] = SITES, **terms: Any) -> Path:
    """Everything that `veilsum init --fleet` and the ten commands make."""
    ports = free_ports(len(sites))
    while any(port + OBSERVERS in ports for port in ports):  # where a site serves its observers
        ports = free_ports(len(sites))
    named = tuple(f"{label}=127.0.0.1:{port}" for label, port in zip(sites, ports, strict=True))
    Fleet("demo", named, **terms).write(home)
    Authority.create(home / "authority")
    for label in sites:
        sign_in(home, label)
    return home


def edit(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text()
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after)
    path.write_text(text)


def members(home: Path, *words: str, code: int = 0) -> str:
    """`veilsum members`, in this process."""
    verb, *rest = words
    done = CliRunner().invoke(
        app, ["members", verb, *rest, "--scenario", str(home / "scenario.toml")]
    )
    assert done.exit_code == code, done.output
    return done.output


def setup_of(home: Path, label: str) -> Setup:
    return Setup.load(home / "sites" / label / "agent.toml")
