"""Metrics, health, readiness and status over HTTP on loopback; frozen readers slow nobody."""

import io
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.agents.runtime.test_node import finish, node, problem
from tests.agents.runtime.test_status import FakeTime, status
from veilsum.agents.runtime import AgentStatus, Log, Metrics
from veilsum.agents.runtime.endpoints import FROZEN, MOST_REQUESTS, Endpoints, is_numeric
from veilsum.agents.runtime.observability import Observability
from veilsum.agents.runtime.reporter import StatusReporter
from veilsum.errors import AgentError


class Served:
    """Endpoints of a reporter that a test fills."""

    def __init__(self) -> None:
        self.clock, self.metrics = FakeTime(), Metrics()
        manifest: Any = None
        observability = Observability(Log(io.StringIO()), self.metrics)
        self.reporter = StatusReporter(manifest, {}, observability, clock=self.clock)
        self.endpoints = Endpoints(self.reporter, self.metrics)
        self.port = self.endpoints.serve(0)

    def show(self, found: AgentStatus) -> None:
        self.reporter.statuses[found.result.agent] = found

    def get(self, path: str, seconds: float = 5.0, host: str = "") -> tuple[int, str]:
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}")
        if host:
            asked.add_header("Host", host)
        try:
            with urllib.request.urlopen(asked, timeout=seconds) as page:
                return page.status, page.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()


@pytest.fixture
def served() -> Any:
    made = Served()
    yield made
    made.endpoints.close()
    made.endpoints.close()


def test_health_follows_the_loop(served: Served) -> None:
    assert served.get("/healthz") == (200, '{"ok": true, "problems": []}\n')
    served.clock.now += FROZEN + 1
    code, text = served.get("/healthz")
    assert code == 503
    assert "the loop has not turned for 16 s" in text
    served.reporter.turn()
    assert served.get("/healthz")[0] == 200


def test_readiness_needs_a_gathered_agent_with_an_open_link(served: Served) -> None:
    assert served.get("/readyz")[0] == 503
    served.show(status(state="gathering"))
    code, text = served.get("/readyz")
    assert code == 503
    assert "0 is gathering" in json.loads(text)["problems"][0]
    served.show(status(links={"1": "down", "2": "silent"}))
    assert served.get("/readyz")[0] == 503
    served.show(status())
    assert served.get("/readyz")[0] == 200
    served.clock.now += FROZEN + 1
    assert served.get("/readyz")[0] == 503


def test_metrics_and_status_are_served_and_other_pages_are_named(served: Served) -> None:
    served.metrics.round.labels("north").set(7)
    served.metrics.refused.labels("north", served.metrics.peer("north", "mallory")).inc()
    code, text = served.get("/metrics")
    assert code == 200
    assert 'veilsum_round{agent="north"} 7.0' in text
    assert 'veilsum_messages_refused_total{agent="north",peer="unknown"} 1.0' in text
    served.show(status())
    shown = json.loads(served.get("/status.json?x=1")[1])
    assert shown["agents"][0]["estimate"] == [5.0]
    code, text = served.get("/")
    assert code == 404
    assert "/readyz" in text


def test_a_web_page_whose_name_resolves_to_loopback_reads_nothing(served: Served) -> None:
    """DNS rebinding: the browser sends the page's own name, whatever address that has."""
    served.show(status())
    for host in ("evil.example", f"evil.example:{served.port}", "127.0.0.1.evil.example", "x y"):
        for path in ("/status.json", "/metrics", "/healthz"):
            code, text = served.get(path, host=host)
            assert (code, "--metrics-host" in text, "estimate" in text) == (421, True, False)
    for host in ("localhost:1", "LOCALHOST", "127.0.0.1:19464", "[::1]:9464", "10.0.0.7:9464"):
        assert served.get("/healthz", host=host)[0] == 200, "a tunnel has a port of its own"


def test_beyond_loopback_any_name_is_fine(served: Served) -> None:
    """The weakened twin, too: without the check the name of a stranger is answered."""
    server: Any = served.endpoints._server
    assert server.is_local
    server.is_local = False
    assert served.get("/healthz", host="north.example:9464")[0] == 200
    for host, local in (("0.0.0.0", False), ("::", False), ("::1", True), ("localhost", True)):
        assert is_numeric(host, loopback=True) is local


def test_a_port_that_is_taken_is_refused(served: Served) -> None:
    with pytest.raises(AgentError, match=f"cannot serve metrics on 127.0.0.1:{served.port}"):
        Endpoints(served.reporter, served.metrics).serve(served.port)


def test_frozen_readers_do_not_slow_an_agent(tmp_path: Any) -> None:
    """More of them than are served at once, which never read and never finish their request."""
    made = node(problem("average", rounds=60), tmp_path, [[1.0], [5.0], [9.0]])
    metrics = Metrics()
    made.observability.metrics = metrics
    endpoints = Endpoints(made.reporter, metrics)
    port = endpoints.serve(0)
    frozen, threads = [], threading.active_count()
    try:
        for _ in range(2 * MOST_REQUESTS):
            reader = socket.create_connection(("127.0.0.1", port))
            reader.send(b"GET /metrics HTTP/1.1\r\n")
            frozen.append(reader)
        began = time.monotonic()
        assert finish(made)
        assert time.monotonic() - began < 8.0  # less than one frozen request may take
        assert made.reporter.clock() - made.reporter.beat < FROZEN
        assert threading.active_count() - threads <= MOST_REQUESTS + 1
    finally:
        for reader in frozen:
            reader.close()
        endpoints.close()
