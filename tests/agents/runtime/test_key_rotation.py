"""A site enrols, its key is exposed and replaced, and its readings are still released once each.

Two agents with real ledgers, certificates and sockets. No private key is ever carried: what goes between a
site and the authority is copied by these tests, and looked at.
"""

from __future__ import annotations

import shutil
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.agents.transport.transport_cases import free_port, wait_for
from veilsum.agents.config import Setup
from veilsum.agents.ledger import origins, read_ledger
from veilsum.agents.ledger.records import OriginHasher
from veilsum.agents.pki import (
    Authority,
    Credentials,
    KeyRequest,
    install,
    make_request,
    site_secret,
)
from veilsum.agents.pki.secret import secret_file
from veilsum.cli.agent import build
from veilsum.errors import LedgerError

SCENARIO = """\
name = "pair"
network = { graph = "links.csv", weights = "lazy-metropolis" }
family = { name = "normal", sigma = 10.0, bounds = [0.0, 100.0] }
signals = { draw = { mu = 50.0 } }
privacy = { protect = "signal", epsilon = 1.0, radius = inf }
algorithm = { name = "learn", rounds = 10 }
agents = { open_ended = true }
"""
AGENT = """\
name = "{name}"
scenario = "../scenario.toml"
listen = ["tls/127.0.0.1:{port}"]
peers = {peers}
keys = {{ folder = "keys" }}
ledger = {{ path = "{name}.ledger" }}
budget = {{ epsilon = 1.0, unit = "event" }}
readings = {{ csv = "readings.csv", column = "load", key = "hour" }}
rounds = {{ deadline = 0.5, resend = 0.1 }}
"""
SITES = ("north", "east")


class Pair:
    """Two sites and their authority, in folders of their own."""

    def __init__(self, home: Path) -> None:
        self.home, self.authority = home, Authority.create(home / "authority")
        self.rows = 0
        self.nodes: dict[str, Any] = {}
        self.threads: dict[str, threading.Thread] = {}
        self.lines: dict[str, list[dict[str, Any]]] = {name: [] for name in SITES}
        (home / "scenario.toml").write_text(SCENARIO)
        (home / "links.csv").write_text("source,target\nnorth,east\n")
        ports = dict(zip(SITES, (free_port(), free_port()), strict=True))
        peers = {"north": "{}", "east": f'{{ north = "tls/127.0.0.1:{ports["north"]}" }}'}
        for name in SITES:
            (home / name).mkdir()
            text = AGENT.format(name=name, port=ports[name], peers=peers[name])
            (home / name / "agent.toml").write_text(text)
            (home / name / "readings.csv").write_text("hour,load\n")

    def keys(self, name: str) -> Path:
        return self.home / name / "keys"

    def enrol(self, name: str, **options: Any) -> None:
        """Request, sign and install; only the request and what was signed leave their folders."""
        _, path = make_request(name, self.keys(name), **options)
        carried = self.home / "carried"
        shutil.rmtree(carried, ignore_errors=True)
        carried.mkdir()
        shutil.copy(path, carried)
        self.authority.sign(KeyRequest.read(carried / path.name), ["127.0.0.1"])
        for public in ("ca.pem", f"{name}.pem", "denied.json"):
            if (self.authority.directory / public).exists():
                shutil.copy(self.authority.directory / public, carried)
        for file in carried.iterdir():
            assert b"PRIVATE" not in file.read_bytes()
        install(name, carried, self.keys(name))
        for file in self.authority.directory.iterdir():
            assert file.name == "ca.key" or b"PRIVATE" not in file.read_bytes()

    def start(self, name: str) -> None:
        node = build(Setup.load(self.home / name / "agent.toml"), False, False, "info")
        node.observability.log.receivers.append(self.lines[name].append)
        node.start()
        self.nodes[name] = node
        self.threads[name] = threading.Thread(target=node.run)
        self.threads[name].start()

    def stop(self, name: str) -> None:
        self.nodes[name].stop()
        self.threads.pop(name).join(30)
        self.nodes.pop(name).close()

    def close(self) -> None:
        for name in list(self.nodes):
            self.stop(name)

    def read(self, count: int = 1) -> None:
        """Both sites get readings, and release each once."""
        for _ in range(count):
            self.rows += 1
            for name in SITES:
                with (self.home / name / "readings.csv").open("a") as file:
                    file.write(f"{self.rows},{40 + self.rows}\n")
        for name in SITES:
            wait_for(partial(self.released, name), f"the releases of {name}")

    def released(self, name: str) -> bool:
        return bool(self.nodes[name].agents[name].ledger.releases >= self.rows)

    def said(self, name: str, kind: str) -> bool:
        return kind in self.kinds(name)

    def kinds(self, name: str) -> set[str]:
        return {line["kind"] for line in self.lines[name]}

    def check_released_once(self) -> None:
        self.close()
        for name in SITES:
            entries = read_ledger(self.home / name / f"{name}.ledger").entries
            assert [entry.reading for entry in entries] == list(range(1, self.rows + 1))
            assert len({entry.origins for entry in entries}) == self.rows
            assert not self.kinds(name) & {"conflicting-releases", "rolled-back", "cloned"}


@pytest.fixture
def pair(tmp_path: Path) -> Any:
    made = Pair(tmp_path)
    yield made
    made.close()


def test_a_key_is_exposed_replaced_and_denied_while_agents_run(pair: Pair) -> None:
    for name in SITES:
        pair.enrol(name)
        pair.start(name)
    pair.read(3)
    secret = site_secret(Credentials(*[pair.keys("north") / "north.key"] * 3))
    before = (pair.keys("north") / "north.key").read_bytes()
    pair.enrol("north", new_key=True)
    assert (pair.keys("north") / "north.key").read_bytes() != before
    wait_for(lambda: "renewed" in pair.kinds("north"), "the new key to be in use")
    pair.authority.revoke("north", old=True, reason="exposed")
    for name in SITES:
        shutil.copy(pair.authority.directory / "denied.json", pair.keys(name))
        wait_for(partial(pair.said, name, "denied"), f"{name} to take the list")
    pair.read(2)
    pair.stop("north")
    pair.start("north")
    pair.read(2)
    assert site_secret(Credentials(*[pair.keys("north") / "north.key"] * 3)) == secret
    pair.check_released_once()


def test_a_site_whose_keys_were_issued_centrally_goes_on_with_its_own(pair: Pair) -> None:
    """Its ledger is bound to the first private key: what was derived from it is kept in a file."""
    for name in SITES:
        pair.enrol(name)
    made = pair.authority
    (made.directory / "north.pem").unlink()
    issued = made.issue("north", ("127.0.0.1",))
    shutil.rmtree(pair.keys("north"))
    pair.keys("north").mkdir(mode=0o700)
    for file in issued:
        shutil.copy(file, pair.keys("north"))
    issued.key.unlink()  # carried to the site, as before
    for name in SITES:
        pair.start(name)
    pair.read(2)
    assert not secret_file(pair.keys("north") / "north.key").exists()
    request, path = make_request("north", pair.keys("north"), new_key=True)
    made.sign(KeyRequest.read(path), force=True)
    install("north", made.directory, pair.keys("north"))
    assert secret_file(pair.keys("north") / "north.key").exists()
    wait_for(lambda: "renewed" in pair.kinds("north"), "the new key to be in use")
    pair.read(1)
    pair.stop("north")
    pair.start("north")
    pair.read(2)
    pair.check_released_once()
    assert request.name == "north"


def lost_secret(pair: Pair) -> None:
    for name in SITES:
        pair.enrol(name)
        pair.start(name)
    pair.read(2)
    pair.stop("north")
    secret_file(pair.keys("north") / "north.key").write_text("5c" * 32)


def test_another_secret_is_refused_before_anything_is_released(pair: Pair) -> None:
    lost_secret(pair)
    with pytest.raises(LedgerError, match="with the secret of its site"):
        pair.start("north")


def test_a_weakened_twin_that_takes_any_secret_releases_readings_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost_secret(pair)
    monkeypatch.setattr(
        origins,
        "origin_hasher",
        lambda _, meta, device: OriginHasher(device, meta["agent"]),
    )
    pair.start("north")
    ledger = pair.nodes["north"].agents["north"].ledger
    with (pair.home / "east" / "readings.csv").open("a") as file:
        file.write("3,43\n4,44\n")
    wait_for(lambda: ledger.releases > pair.rows, "the same rows under new hashes")


def test_a_new_key_waits_for_its_certificate(pair: Pair) -> None:
    pair.enrol("north")
    keys = pair.keys("north")
    before = (keys / "north.key").read_bytes()
    make_request("north", keys, new_key=True)
    assert (keys / "north.key").read_bytes() == before, "the agent goes on with the old one"
    assert (keys / "north.key.next").exists()
    renewed = Setup.load(_single(pair)).credentials()
    assert renewed is not None
    install("north", pair.authority.directory, keys)  # the old certificate, once more
    assert (keys / "north.key").read_bytes() == before
    pair.authority.sign(KeyRequest.read(keys / "north.request"))
    install("north", pair.authority.directory, keys)
    assert (keys / "north.key").read_bytes() != before
    assert not (keys / "north.key.next").exists()
    (entry,) = pair.authority.entries()
    assert entry.hosts == ("127.0.0.1",), "a renewal keeps the hosts"


def _single(pair: Pair) -> Path:
    return pair.home / "north" / "agent.toml"


def test_days_of_the_certificate_follow_a_renewal(pair: Pair) -> None:
    from veilsum.agents.runtime import Metrics
    from veilsum.cli.agent import RunOptions, _watch

    for name in SITES:
        pair.enrol(name)
    setup = Setup.load(_single(pair))
    node = build(setup, False, False, "info", metrics=True)
    from contextlib import ExitStack

    with ExitStack() as running:
        running.callback(node.close)
        _watch(
            node,
            setup,
            RunOptions(False, False, "info", None, "127.0.0.1", None, None, False),
            running,
        )
        node.start()
        metrics = node.observability.metrics
        assert isinstance(metrics, Metrics)

        def days() -> float:
            node.run(seconds=0.05)
            return float(metrics.certificate.labels("north")._value.get())

        wait_for(lambda: 89 < days() < 91, "the first certificate")
        pair.authority.sign(KeyRequest.read(pair.keys("north") / "north.request"), days=300)
        install("north", pair.authority.directory, pair.keys("north"))
        began = time.monotonic()
        wait_for(lambda: days() > 299, "the renewed one")
        assert time.monotonic() - began < 30, "and not with the next heartbeat"
