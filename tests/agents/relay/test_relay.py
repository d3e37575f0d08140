"""Two sites that nobody can reach meet through a relay, over real sockets; it sees no message."""

import asyncio
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from veilsum.agents.observers.watcher import client_context
from veilsum.agents.pki import Authority, Credentials
from veilsum.agents.relay import Relay, RelayConnector, exchange, server
from veilsum.agents.relay.exchange import Request
from veilsum.agents.transport.zenoh_config import Endpoint
from veilsum.errors import AgentError

START = "from veilsum.cli import main; main()"
HERE = "127.0.0.1"
MEMBERS = {"north": "north", "east": "east"}
SCENARIO = """
name = "pair"

[network]
graph = "links.csv"
weights = "lazy-metropolis"

[family]
name = "normal"
sigma = 10.0
bounds = [0.0, 100.0]

[signals]
draw = { mu = 50.0 }

[privacy]
protect = "signal"
epsilon = 1.0
radius = inf

[algorithm]
name = "average"
rounds = 40
"""
AGENT = """
name = "{name}"
scenario = "scenario.toml"
listen = ["tls/127.0.0.1:{port}"]

[keys]
folder = "keys"

[ledger]
path = "{name}.ledger"

[budget]
epsilon = 1.0

[rounds]
linger = 5.0

[readings]
csv = "{name}.csv"
column = "load"

[relay]
address = "tls/127.0.0.1:{relay}"
peers = {peers}
"""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: Any) -> Path:
    made = Authority.create(tmp_path_factory.mktemp("keys"))
    for name in ("north", "east", "relay", "stranger"):
        made.issue(name, [HERE])
    return Path(made.issue("south", [HERE]).ca).parent


def credentials(keys: Path, name: str) -> Credentials:
    return Credentials(keys / "ca.pem", keys / f"{name}.pem", keys / f"{name}.key")


class Running:
    """A relay in a thread, and what it reported."""

    def __init__(
        self, keys: Path, members: Any = ("north", "east"), name: str = "relay", port: int = 0
    ) -> None:
        self.lines: list[tuple[str, str, str]] = []
        endpoint = Endpoint("tls", HERE, port)
        self._keys, self._members, self._name = keys, members, name
        self._ready, self._endpoint = threading.Event(), endpoint
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(20)

    async def _serve(self) -> None:
        report: Any = lambda *line: self.lines.append(line)  # noqa: E731
        made = Relay(self._endpoint, credentials(self._keys, self._name), self._members, report)
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.ensure_future(made.serve(self._ready.set))
        self.relay = made
        try:
            await self._task
        except asyncio.CancelledError:
            return

    @property
    def at(self) -> Endpoint:
        return self._endpoint._replace(port=self.relay.port)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(20)

    def until(self, kind: str) -> None:
        end = time.monotonic() + 30
        while not any(line[0] == kind for line in self.lines):
            assert time.monotonic() < end, self.lines
            time.sleep(0.02)


@pytest.fixture
def running(keys: Path) -> Iterator[Running]:
    made = Running(keys)
    yield made
    made.close()


def request(running: Running, keys: Path, name: str, line: bytes) -> ssl.SSLSocket:
    context = client_context(credentials(keys, name))
    plain = socket.create_connection((HERE, running.relay.port), 20)
    link = context.wrap_socket(plain, server_hostname=HERE)
    link.settimeout(20)
    link.sendall(line)
    return link


def read_line(link: ssl.SSLSocket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        more = link.recv(1)
        assert more, data
        data += more
    return data


def test_bytes_go_both_ways_and_an_end_ends_the_other(running: Running, keys: Path) -> None:
    waits = request(running, keys, "east", Request().line())
    calls = request(running, keys, "north", Request("east").line())
    assert read_line(calls) == read_line(waits) == b"ok\n"
    calls.sendall(b"x" * 300_000)
    found = 0
    while found < 300_000:
        found += len(waits.recv(65536))
    waits.sendall(b"back")
    assert calls.recv(4) == b"back"
    waits.close()
    with suppress(OSError):  # cut without a farewell of TLS
        assert calls.recv(1) == b""
    calls.close()
    running.until("ended")
    assert ("joined", "north", "with east") in running.lines
    assert running.relay.carried == 300_004


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"GET / HTTP/1.1\n", "not a request of a site"),
        (b"veilsum-relay 2 await\n", "another version"),
        (b"veilsum-relay 1 call\n", "neither await nor call"),
        (b"veilsum-relay 1 call a b\n", "neither await nor call"),
        (b"\xff\xfe bytes\n", "not a request"),
        (b"veilsum-relay 1 call " + b"x" * 600 + b"\n", "more than 512"),
    ],
)
def test_other_requests_are_refused(running: Running, keys: Path, line: bytes, reason: str) -> None:
    link = request(running, keys, "north", line)
    assert reason in read_line(link).decode()
    link.close()
    assert reason in running.lines[-1][2]


def test_who_is_not_there_cannot_be_called(running: Running, keys: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(server, "CALL_WAITS", 0.2)
    link = request(running, keys, "north", Request("east").line())
    assert read_line(link) == b"error east does not await anybody here\n"
    link.close()


def test_a_site_awaits_under_its_own_name_only(
    running: Running, keys: Path, monkeypatch: Any
) -> None:
    """A caller of east is never joined with north, whatever north asks."""
    monkeypatch.setattr(server, "CALL_WAITS", 0.2)
    waits = request(running, keys, "north", Request().line())
    calls = request(running, keys, "north", Request("east").line())
    assert b"does not await" in read_line(calls)
    for link in (waits, calls):
        link.close()


def test_strangers_are_refused(running: Running, keys: Path) -> None:
    link = request(running, keys, "stranger", Request().line())
    assert b"no member that may use this relay" in read_line(link)
    link.close()
    assert running.lines[-1][:2] == ("refused", "stranger")
    context = ssl.create_default_context(cafile=str(keys / "ca.pem"))
    with (
        suppress(OSError),  # an alert of TLS, or the end
        socket.create_connection((HERE, running.relay.port), 20) as plain,
        context.wrap_socket(plain, server_hostname=HERE) as without,
    ):
        without.sendall(Request().line())
        assert without.recv(1) == b"", "without a certificate there is no answer"
    assert "" not in running.relay._waiting


def test_one_name_cannot_take_all_connections(
    running: Running, keys: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(server, "MOST_OF_ONE", 2)
    held = [request(running, keys, "north", Request().line()) for _ in range(2)]
    end = time.monotonic() + 20
    while len(running.relay._waiting.get("north", ())) < 2:
        assert time.monotonic() < end
        time.sleep(0.01)
    link = request(running, keys, "north", Request().line())
    assert b"too many connections" in read_line(link)
    other = request(running, keys, "east", Request("north").line())
    assert read_line(other) == b"ok\n", "others are served"
    for each in (*held, link, other):
        each.close()


def test_waiting_connections_are_kept_alive(running: Running, keys: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(server, "PULSE", 0.05)
    link = request(running, keys, "east", Request().line())
    assert [read_line(link) for _ in range(3)] == [b"\n"] * 3
    link.close()


def test_a_link_that_died_without_a_word_is_given_up(
    running: Running, keys: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(exchange, "IDLE", 0.3)
    waits = request(running, keys, "east", Request().line())
    calls = request(running, keys, "north", Request("east").line())
    assert read_line(calls) == read_line(waits) == b"ok\n"
    running.until("ended")  # though neither end has closed
    end = time.monotonic() + 20
    while running.relay._open:
        assert time.monotonic() < end, "its place is free again"
        time.sleep(0.01)
    for link in (waits, calls):
        link.close()


def test_a_relay_with_a_members_certificate_is_not_used(keys: Path) -> None:
    running, said = Running(keys, name="south"), list[str]()
    try:
        members = MEMBERS | {"south": "south"}
        made = RelayConnector(
            running.at, credentials(keys, "north"), None, {"east": "east"}, members, said.append
        )
        made.start()
        with socket.create_connection((HERE, made.ports["east"]), 20) as link:
            link.settimeout(20)
            assert link.recv(1) == b""
        made.close()
    finally:
        running.close()
    assert "presents the certificate of the member 'south'" in said[0]


def free_port() -> int:
    with socket.socket() as held:
        held.bind((HERE, 0))
        return int(held.getsockname()[1])


class Tap:
    """A recorder before and inside the relay: every byte that it copies."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._lock = threading.Lock()

    def copy(self, usual: Any) -> Any:
        async def join(one: Any, other: Any) -> Any:
            for reader, _ in (one, other):
                read = reader.read

                async def recorded(size: int = -1, read: Any = read) -> bytes:
                    found: bytes = await read(size)
                    with self._lock:
                        self.data += found
                    return found

                reader.read = recorded
            return await usual(one, other)

        return join


def write_sites(folder: Path, keys: Path, relay: int) -> None:
    (folder / "scenario.toml").write_text(SCENARIO)
    (folder / "links.csv").write_text("source,target\nnorth,east\n")
    (folder / "keys").symlink_to(keys)
    for name, load, peers in (("north", 40.0, '["east"]'), ("east", 60.0, "[]")):
        text = AGENT.format(name=name, port=free_port(), relay=relay, peers=peers)
        (folder / f"{name}.toml").write_text(text)
        (folder / f"{name}.csv").write_text(f"load\n{load}\n")


def run_sites(folder: Path, meanwhile: Any = lambda: None) -> dict[str, Any]:
    """Both agents in processes of their own, until they have a result."""
    processes = {}
    for name in ("north", "east"):
        with (folder / f"{name}.log").open("w") as log:
            processes[name] = subprocess.Popen(
                [sys.executable, "-c", START, "agent", f"{name}.toml", "--json"],
                cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ | {},
            )  # fmt: skip
    try:
        meanwhile()
        said = {name: p.communicate(timeout=180)[0] for name, p in processes.items()}
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    logs = "".join((folder / f"{name}.log").read_text() for name in processes)
    assert all(process.returncode == 0 for process in processes.values()), logs
    return {name: json.loads(text.splitlines()[-1]) for name, text in said.items()}


def secrets_of(folder: Path) -> list[bytes]:
    """What messages of this link contain: labels, the manifest, keys of zenoh, releases."""
    from veilsum.agents.config import Setup
    from veilsum.agents.ledger import read_ledger

    manifest = Setup.load(folder / "north.toml").manifest
    sums = [read_ledger(folder / f"{n}.ledger").entries[0].sums[0] for n in ("north", "east")]
    return [
        manifest.digest, b"veilsum/pair", b"mu\x06\x02", b"mu\x05\x01",
        *(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True) for number in sums),
    ]  # fmt: skip


def test_two_agents_that_listen_nowhere_meet_and_the_relay_sees_ciphertext(
    tmp_path: Path, keys: Path, monkeypatch: Any
) -> None:
    tap = Tap()
    monkeypatch.setattr(server, "join", tap.copy(exchange.join))
    running = Running(keys)
    try:
        write_sites(tmp_path, keys, running.relay.port)
        results = run_sites(tmp_path)
    finally:
        running.close()
    estimates = [result["unprojected"][0] for result in results.values()]
    assert abs(estimates[0] - estimates[1]) < 1e-6
    assert all(result["coverage"]["contributing"] == 2 for result in results.values())
    assert ("joined", "north", "with east") in running.lines
    assert len(tap.data) > 10_000, "their link went through the relay"
    for secret in secrets_of(tmp_path):
        assert secret not in tap.data
    text = repr(running.lines)
    assert all(str(e)[:6] not in text for e in estimates)


def test_the_search_finds_messages_where_a_link_has_no_tls(keys: Path, monkeypatch: Any) -> None:
    """The weakened variant: the same relay, and a link that is plain inside."""
    from veilsum.agents.messages import Hello
    from veilsum.agents.wire import encode

    tap = Tap()
    monkeypatch.setattr(server, "join", tap.copy(exchange.join))
    running = Running(keys)
    try:
        waits = request(running, keys, "east", Request().line())
        calls = request(running, keys, "north", Request("east").line())
        assert read_line(calls) == read_line(waits) == b"ok\n"
        frame = encode(Hello("north", "east", 1, 0, 1, bytes(range(32)), ()), 5)
        calls.sendall(frame)
        found = b""
        while len(found) < len(frame):
            found += waits.recv(65536)
        for link in (waits, calls):
            link.close()
        running.until("ended")
    finally:
        running.close()
    assert bytes(range(32)) in tap.data
    assert b"mu\x05\x01" in tap.data


def test_a_relay_that_ends_and_comes_back_costs_time_and_nothing_else(
    tmp_path: Path, keys: Path
) -> None:
    first, again = Running(keys), list[Running]()
    port = first.relay.port
    write_sites(tmp_path, keys, port)
    text = (tmp_path / "scenario.toml").read_text()
    (tmp_path / "scenario.toml").write_text(text.replace("rounds = 40", "rounds = 10000"))

    def rounds() -> int:
        try:
            found = json.loads((tmp_path / "east.ledger.status.json").read_text())
        except (OSError, ValueError):
            return 0
        return int(found["round"])

    def restart() -> None:
        end = time.monotonic() + 120
        while rounds() < 5:
            assert time.monotonic() < end, "no round"
            time.sleep(0.05)
        first.close()
        again.append(Running(keys, port=port))

    try:
        results = run_sites(tmp_path, restart)
    finally:
        for each in again or [first]:
            each.close()
    assert ("joined", "north", "with east") in again[0].lines, "the link came back"
    estimates = [result["unprojected"][0] for result in results.values()]
    assert abs(estimates[0] - estimates[1]) < 1e-9
    assert all(result["coverage"]["contributing"] == 2 for result in results.values())


def test_a_relay_needs_certificates_and_a_fixed_port(tmp_path: Path, keys: Path) -> None:
    from veilsum.agents.config import Setup

    write_sites(tmp_path, keys, 7450)
    file = tmp_path / "north.toml"
    text = file.read_text()
    with pytest.raises(AgentError, match="admits sites by certificate"):
        Setup.load(file).relay(insecure=True)
    file.write_text(text.replace('peers = ["east"]', 'peers = ["west"]'))
    with pytest.raises(AgentError, match="'west' is no neighbour"):
        Setup.load(file).relay(insecure=False)
    port = text.split("listen = ")[1].splitlines()[0]
    file.write_text(text.replace(port, '["tls/127.0.0.1:0"]'))
    with pytest.raises(AgentError, match="a fixed port"):
        Setup.load(file).relay(insecure=False)


def test_the_verb_runs_until_it_is_stopped(keys: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", START, "relay", "relay", "--keys", str(keys), "--listen",
         "127.0.0.1:0", "--member", "north"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        first = json.loads(process.stderr.readline())
        assert first["kind"] == "relay"
        process.terminate()
        last = process.stderr.read()
        assert process.wait(60) == 0
        assert '"stopped"' in last
    finally:
        process.kill()
        process.communicate()
