"""The page of a site: what it keeps, what it leaves out, whom it serves, and that it slows nobody."""

import asyncio
import base64
import http.client
import io
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agents.runtime.test_node import finish, node, problem
from tests.agents.runtime.test_status import status
from veilsum.agents.pki import Authority, Credentials, KeyWatch, Role
from veilsum.agents.release.mechanism import ReleaseMechanism
from veilsum.agents.runtime import Log, Metrics, Node
from veilsum.agents.runtime.metrics import LINK_STATES, STAGES, STATES
from veilsum.live import security
from veilsum.live import site as module
from veilsum.live.hub import Hub
from veilsum.live.security import PageAddress, PageTls
from veilsum.live.server import EventStream
from veilsum.live.site import MOST_LINES, MOST_POINTS, SitePage, apply, thinned, without_folders

LOCAL = PageAddress("127.0.0.1", 0)
PATIENCE = 60.0  # seconds
READINGS = [[1.2345671828459], [5.7654321989745], [8.1928374650192]]


class ServedSite:
    """The page of agent 0 of a node, and everything that it sent."""

    def __init__(self, made: Node, tls: PageTls | None = None) -> None:
        metrics = made.observability.metrics = made.observability.metrics or Metrics()
        folder = made.agents["0"].ledger.path.parent
        self.page = SitePage("0", made.manifest, LOCAL, tls, folder=folder)
        self.port = int(self.page.start().rstrip("/").rpartition(":")[2])
        self.page.attach(made.reporter, metrics, made.observability.log, "0")

    def get(self, path: str, context: ssl.SSLContext | None = None) -> tuple[int, bytes]:
        connection: http.client.HTTPConnection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=10
        )
        if context is not None:
            connection = http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=10, context=context
            )
        try:
            connection.request("GET", path, headers={"connection": "close"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def everything(self) -> dict[str, bytes]:
        """All paths, and the stream of events, once the hub is closed."""
        paths = ["/", "/status.json", "/healthz", "/readyz", "/metrics"]
        sent = {path: self.get(path)[1] for path in paths}
        stream = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        stream.request("GET", "/events", headers={"connection": "close"})
        answer = stream.getresponse()
        self.page.hub.close()
        sent["/events"] = answer.read()
        answer.close()
        return sent


def test_the_history_is_bounded_and_survives_a_reload() -> None:
    snapshot: dict[str, Any] = {"status": None, "history": [], "log": []}
    for k in range(5 * MOST_POINTS):
        data = {"time": k}
        apply(snapshot, "status", {"status": data, "point": data})
        apply(snapshot, "line", {"text": str(k)})
    times = [point["time"] for point in snapshot["history"]]
    assert MOST_POINTS // 2 <= len(times) <= MOST_POINTS
    assert (times[0], times[-1]) == (0, 5 * MOST_POINTS - 1)
    assert times == sorted(set(times))
    assert len(snapshot["log"]) == MOST_LINES
    assert snapshot["log"][0]["text"] == str(5 * MOST_POINTS - 1), "the newest first"
    assert thinned(list(range(7))) == [0, 2, 4, 6]


def secrets(made: Node, noise: list[float]) -> dict[str, bytes]:
    """What no answer may have, by what it is: numbers, keys, and folders.

    Numbers to 13 digits: in 100,000 characters, one is found by chance less often than 1e-7.
    """
    found = {f"reading {x}": repr(x)[:14].encode() for (x,) in READINGS}
    found |= {f"noise {x}": repr(abs(x))[:14].encode() for x in noise}
    for label, agent in made.agents.items():
        secret = agent.ledger.secret
        found |= {f"key of {label}": secret.hex().encode()}
        found |= {f"key of {label} in base64": base64.b64encode(secret)[:20]}
        found |= {f"folder of {label}": str(agent.ledger.path.parent).encode()}
    return found


def test_nothing_that_is_sent_has_a_reading_noise_a_key_or_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, noise = drawn_node(tmp_path, monkeypatch)
    served = ServedSite(made)
    made.observability.log.write("source", "0", f"cannot read {tmp_path}/readings.csv yet")
    assert finish(made)
    sent = served.everything()
    served.page.close()
    assert len(noise) == 3
    assert b"cannot read readings.csv yet" in sent["/events"]
    assert b"snapshot" in sent["/events"]
    assert json.loads(sent["/status.json"])["agents"][0]["state"] == "done"
    wrong = [
        (what, path)
        for what, secret in secrets(made, noise).items()
        for path, content in sent.items()
        if secret in content
    ]
    assert not wrong
    for name in ("process", "machine", "unprojected"):
        assert f'"{name}"'.encode() not in sent["/events"]


def test_the_search_finds_what_a_careless_page_would_send(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weakened variant: a line of the log with a reading, the noise, a key and its folder."""
    made, noise = drawn_node(tmp_path, monkeypatch)
    monkeypatch.setattr(module, "without_folders", lambda text, _: text)
    served = ServedSite(made)
    assert finish(made)
    secret = made.agents["0"].ledger.secret.hex()
    text = f"{READINGS[0][0]} and {noise[0]!r} and {secret} in {tmp_path}"
    served.page.line({"level": "info", "kind": "source", "agent": "0", "text": text})
    sent = served.everything()
    served.page.close()
    found = {what for what, secret in secrets(made, noise).items() if secret in sent["/events"]}
    assert {what.split()[0] for what in found} == {"reading", "noise", "key", "folder"}


def drawn_node(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Node, list[float]]:
    """Three agents with readings, and the noise that they draw, as it comes about."""
    noise: list[float] = []
    draw = ReleaseMechanism.draw

    def noted(mechanism: Any, reading: int, signal: Any, *rest: Any, **more: Any) -> Any:
        found = draw(mechanism, reading, signal, *rest, **more)
        noise.append(found[0] / 2**mechanism.manifest.unit - signal)
        return found

    monkeypatch.setattr(ReleaseMechanism, "draw", noted)
    return node(problem("average", rounds=8), folder, READINGS), noise


def test_a_frozen_reader_does_not_slow_an_agent(tmp_path: Path) -> None:
    """It asks for the events and never reads, while an agent works and thousands are published."""
    made = node(problem("average", rounds=8), tmp_path, [[1.0], [5.0], [9.0]])
    served = ServedSite(made)
    hub = served.page.hub
    frozen = socket.socket()
    frozen.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    frozen.connect(("127.0.0.1", served.port))
    frozen.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n\r\n".encode())
    while hub.readers == 0:
        time.sleep(0.01)
    threads = threading.active_count()
    assert finish(made)
    found = status()
    for _ in range(3000):
        served.page.status(found)
    (subscription,) = hub._subscriptions
    assert subscription.waiting <= hub.most_waiting
    assert hub.dropped > 2000
    assert hub.last_id > 3000
    assert len(hub.snapshot["history"]) <= MOST_POINTS
    assert threading.active_count() <= threads, "a reader costs no thread"
    assert served.page.status in made.reporter.receivers, "the page never failed"
    assert served.page.server._thread is not None
    served.page.close()
    assert not served.page.server._thread.is_alive(), "an open stream does not hold the end up"
    frozen.close()


def test_a_page_that_fails_does_not_stop_its_agent(tmp_path: Path) -> None:
    made = node(problem("average", rounds=8), tmp_path, [[1.0], [5.0], [9.0]])
    served = ServedSite(made)
    served.page.server.close()
    assert finish(made), "a page that is gone"

    def fail(*_: Any) -> None:
        raise RuntimeError("no page")

    (tmp_path / "2").mkdir()
    broken = node(problem("average", rounds=8), tmp_path / "2", [[1.0], [5.0], [9.0]])
    broken.reporter.receivers.append(fail)
    broken.observability.log.receivers.append(fail)
    assert finish(broken), "a page that raises"
    assert not broken.observability.log.receivers


def test_a_log_passes_its_lines_on_and_drops_a_receiver_that_fails() -> None:
    stream, seen = io.StringIO(), list[dict[str, Any]]()
    log = Log(stream)
    log.receivers.append(seen.append)
    log.receivers.insert(0, lambda line: line["nothing"])
    for _ in range(1000):
        log.write("peer", "north", "south is up", peer="south")
    written = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert seen == written, "the same lines, as bounded as the log"
    assert log.receivers == [seen.append]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("cannot read /var/lib/veilsum/x.csv: no such file", "cannot read x.csv: no such file"),
        ("see '/etc/a b/c'", "see 'a b/c'"),
        ("http://127.0.0.1:8080/ and tls/127.0.0.1:7447", "http://127.0.0.1:8080/ and tls/127.0.0.1:7447"),
        ("19/20 members, 3 / 4", "19/20 members, 3 / 4"),
    ],
)  # fmt: skip
def test_folders_are_left_out_of_lines(text: str, left: str) -> None:
    assert without_folders(text) == left


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority.create(tmp_path_factory.mktemp("authority"))
    made.issue("0", ["127.0.0.1"])
    for name in ("1", "stranger"):
        made.issue(name)
    for name in ("control-room", "guest"):
        made.issue(name, role=Role.OBSERVER)
    return made


@pytest.fixture
def beyond(tmp_path: Path, authority: Authority) -> Iterator[ServedSite]:
    """The page as it is served beyond loopback: with mutual TLS."""
    made = node(problem("average", rounds=8), tmp_path, READINGS)
    home = authority.directory
    own = Credentials(home / "ca.pem", home / "0.pem", home / "0.key")
    served = ServedSite(made, PageTls.of(own, {"0", "1", "2", "observer:control-room"}))
    made.observability.log.write("reading", "0", "reading 3 was refused")
    assert finish(made)
    yield served
    served.page.close()


def shows(directory: Path, name: str, ca: Path | None = None) -> ssl.SSLContext:
    """A browser that shows the certificate of a name; none without one."""
    context = ssl.create_default_context(cafile=str(ca or directory / "ca.pem"))
    if name:
        context.load_cert_chain(directory / f"{name}.pem", directory / f"{name}.key")
    return context


def test_beyond_loopback_members_and_allowed_observers_read_what_is_public(
    beyond: ServedSite, authority: Authority
) -> None:
    for name in ("1", "control-room"):
        context = shows(authority.directory, name)
        code, content = beyond.get("/", context)
        assert code == 200
        assert b"The log is shown on the site's own machine only." in content
        assert b"lines of the log" not in content, "none of them is there"
        code, content = beyond.get("/status.json", context)
        assert code == 200
        (found,) = [a for a in json.loads(content)["agents"] if a["agent"] == "0"]
        assert found["readings"] == {"released": 1}
        assert "withheld" in found
        assert "process" not in found
        assert beyond.get("/metrics", context)[0] == 404
    snapshot = beyond.page.hub.snapshot
    assert snapshot["log"] == [], "what the log says of readings stays here"
    assert snapshot["status"]["readings"] == {"released": 1}


def test_beyond_loopback_nobody_else_reads(
    beyond: ServedSite, authority: Authority, tmp_path: Path
) -> None:
    for name in (
        "stranger",
        "guest",
    ):  # certificates of the authority: not in the fleet, not allowed
        for path in ("/", "/events", "/status.json", "/static/base.css"):
            assert beyond.get(path, shows(authority.directory, name))[0] == 403
    foreign = Authority.create(tmp_path / "foreign")
    foreign.issue("1")
    for context in (
        shows(authority.directory, ""),
        shows(foreign.directory, "1", authority.directory / "ca.pem"),
    ):
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            beyond.get("/", context)
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        beyond.get("/")  # without TLS


def test_a_certificate_that_expires_ends_its_connections(
    beyond: ServedSite, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS looks at it in the handshake alone: requests after that, and an open stream, would go on."""
    context = shows(authority.directory, "control-room")
    connection = http.client.HTTPSConnection(
        "127.0.0.1", beyond.port, context=context, timeout=PATIENCE
    )
    connection.request("GET", "/status.json")
    first = connection.getresponse()
    assert (first.status, bool(first.read())) == (200, True)
    later = time.time() + 366 * 86400.0
    monkeypatch.setattr(security, "time", SimpleNamespace(time=lambda: later))
    connection.request("GET", "/status.json")  # over the same connection
    second = connection.getresponse()
    assert (second.status, second.read()) == (403, b"your certificate has expired: renew it\n")
    connection.close()


def test_a_denied_reader_is_refused_and_its_stream_ends(
    tmp_path: Path, authority: Authority
) -> None:
    """Also the reader of a connection that is open; with the list, and not without it."""
    own = authority.credentials("0")
    home = Authority.create(tmp_path / "own")
    for file in ("ca.key", "ca.pem"):
        (home.directory / file).write_bytes((authority.directory / file).read_bytes())
    watch = KeyWatch(own, "0", denied=home.directory / "denied.json")
    made = node(problem("average", rounds=8), tmp_path, READINGS)
    served = ServedSite(made, PageTls.of(own, {"0", "1", "observer:control-room"}, watch))
    assert finish(made)
    context = shows(authority.directory, "control-room")
    connection = http.client.HTTPSConnection(
        "127.0.0.1", served.port, context=context, timeout=PATIENCE
    )
    try:
        connection.request("GET", "/events")
        stream = connection.getresponse()
        assert stream.status == 200
        assert served.get("/", context)[0] == 200
        Authority(home.directory).revoke("control-room", role=Role.OBSERVER)
        watch.poll()
        code, content = served.get("/", context)
        assert (code, b"on deny list 1" in content) == (403, True)
        while stream.readline():
            pass  # the stream ends
        assert served.get("/", shows(authority.directory, "1"))[0] == 200
    finally:
        connection.close()
        served.page.close()


@pytest.mark.parametrize("expires", [True, False])
def test_an_open_stream_ends_with_the_certificate_of_its_reader(expires: bool) -> None:
    """Without the time of expiry it lasts until the hub closes."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def read() -> bool:
        hub, left = Hub({"name": "north"}), asyncio.Event()

        async def receive() -> Any:
            await left.wait()

        state = {security.EXPIRES: time.time() + 0.2} if expires else {}
        scope = {"type": "http", "method": "GET", "state": state}
        stream = asyncio.ensure_future(EventStream(hub, dict)(scope, receive, send))
        ended, _ = await asyncio.wait({stream}, timeout=PATIENCE if expires else 0.4)
        hub.close()
        await stream
        return bool(ended)

    assert asyncio.run(read()) is expires
    assert expires or b"snapshot" in b"".join(message.get("body", b"") for message in sent)


def test_the_check_of_names_is_what_refuses_a_stranger(
    tmp_path: Path, authority: Authority
) -> None:
    """The weakened variant: whoever the authority signed for may read."""
    made = node(problem("average", rounds=8), tmp_path, READINGS)
    home = authority.directory
    own = Credentials(home / "ca.pem", home / "0.pem", home / "0.key")
    served = ServedSite(made, PageTls.of(own, {"0", "stranger"}))
    made.close()
    assert served.get("/", shows(home, "stranger"))[0] == 200
    served.page.close()


def test_the_words_of_the_pages_are_those_of_agents() -> None:
    """A state, a stage or a link's state that a page does not know would be shown without its meaning."""
    folder = files("veilsum.live") / "static"
    text = {name: (folder / name).read_text("utf-8") for name in ("site.js", "fleet_data.js")}

    def keys(file: str, name: str) -> set[str]:
        (found,) = re.findall(rf"const {name} = (\{{.*?\}}|\[.*?\]);", text[file], re.DOTALL)
        if found[0] == "[":
            return set(re.findall(r'"(\w+)"', found))
        return set(re.findall(r"(\w+):", re.sub(r'"[^"]*"', "", found)))

    assert keys("site.js", "LINKS") == set(LINK_STATES) - {"other"}
    assert keys("site.js", "STATES") == set(STATES)
    assert keys("fleet_data.js", "STATES") == {*STATES, "silent", "unheard"}
    for file in text:
        assert keys(file, "STAGES") == set(STAGES), file
    style = (folder / "fleet.css").read_text("utf-8")
    assert {f".stage-{each}" for each in STAGES} <= set(re.findall(r"\.stage-\w+", style))
