"""Logs are JSON lines; metrics are served on loopback."""

import io
import json
import urllib.request

import pytest

from murmura.agents.runtime.observability import Log, Metrics
from murmura.errors import AgentError


def test_a_line_is_a_json_object_without_empty_fields() -> None:
    stream = io.StringIO()
    log = Log(stream, "info")
    log.write("peer", "north", "south is up", peer="south", round=None)
    log.write("round", "north", "too quiet")
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info", "kind": "peer", "agent": "north", "peer": "south", "text": "south is up",
    }  # fmt: skip


def test_what_peers_do_wrong_is_a_warning() -> None:
    stream = io.StringIO()
    log = Log(stream, "warning")
    log.write("refused", "north", "not a member", peer="mallory")
    log.write("peer", "north", "south is up")
    assert json.loads(stream.getvalue())["peer"] == "mallory"


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(AgentError, match="one of debug, info, warning, error; found 'loud'"):
        Log(level="loud")


def test_metrics_are_served_on_loopback() -> None:
    metrics = Metrics()
    metrics.round.labels("north").set(7)
    metrics.refused.labels("north", "mallory").inc()
    port = metrics.serve(0)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
        text = page.read().decode()
    assert 'murmura_round{agent="north"} 7.0' in text
    assert 'murmura_messages_refused_total{agent="north",peer="mallory"} 1.0' in text
    with pytest.raises(AgentError, match=f"cannot serve metrics on 127.0.0.1:{port}"):
        Metrics().serve(port)
    metrics.close()
    metrics.close()
