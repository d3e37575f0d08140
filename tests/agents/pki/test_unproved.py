"""The operator's word that a neighbour went back to a version without proofs: taken once, by who runs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from veilsum.agents.pki import Authority, KeyWatch
from veilsum.agents.pki.unproved import ask, request_path, take, wait_until_taken
from veilsum.errors import AgentError


def test_a_request_is_taken_once_with_all_that_it_names(tmp_path: Path) -> None:
    path = request_path(tmp_path / "north.ledger")
    assert take(path) is take(None) is None
    ask(path, "east")
    ask(path, "west")
    assert path.stat().st_mode & 0o077 == 0
    assert take(path) == ["east", "west"]
    assert take(path) is None
    assert wait_until_taken(path, 0.0, lambda: True)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"names": 3}', "\xff", "[" * 50_000])
def test_what_is_no_request_names_nobody_and_is_removed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "request"
    path.write_text(text, encoding="latin-1")
    assert take(path) == []
    assert not path.exists()


def test_a_request_that_nobody_takes_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "request"
    ask(path, "east")
    assert not wait_until_taken(path, 0.0, lambda: True)
    assert not wait_until_taken(path, 60.0, lambda: False)
    with pytest.raises(AgentError, match="run this as the user that the agent runs as"):
        ask(tmp_path / "nowhere" / "request", "east")


def test_a_running_watch_takes_it(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "keys")
    authority.issue("north")
    path, heard = tmp_path / "request", threading.Event()
    watch = KeyWatch(authority.credentials("north"), "north", request=path, pause=0.02)
    names: list[str] = []
    watch.unproved.append(lambda name: (names.append(name), heard.set()))  # type: ignore[arg-type, func-returns-value]
    watch.start()
    try:
        ask(path, "east")
        assert wait_until_taken(path, 20.0, lambda: True)
        assert heard.wait(20.0)
        watch.poll()
        assert names == ["east"]
    finally:
        watch.close()


def test_a_request_that_names_nobody_leaves_a_line(tmp_path: Path) -> None:
    made = Authority.create(tmp_path / "ca")
    made.issue("north")
    path = tmp_path / "request"
    watch = KeyWatch(made.credentials("north"), "north", request=path)
    lines: list[str] = []
    watch.notify = lambda _, text: lines.append(text)
    watch.poll()
    assert not lines
    path.write_text("{}")
    watch.poll()
    assert "names no neighbour and was removed" in lines[0]
