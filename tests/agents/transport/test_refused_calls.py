"""A device that is refused calls again after growing pauses, and one that knows it is denied calls nobody.

Real listeners refuse, and a proxy between them counts connections. Without the pauses a device makes
dozens of them in a second, for ever: the weakened variants do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.transport.transport_cases import Ears, free_port, wait_for
from veilsum.agents.pki import Authority, Credentials, KeyWatch
from veilsum.agents.transport import refusals
from veilsum.agents.transport import zenoh as transport
from veilsum.agents.transport.refusals import ENOUGH, FIRST_PAUSE, LONGEST_PAUSE, RefusedCalls
from veilsum.agents.transport.zenoh import ZenohTransport
from veilsum.testing import FaultyProxy

HERE = ("localhost", "127.0.0.1")
DEVICES = {"a": "p", "b": "q"}
SECONDS, MOST = 6.0, 40  # connections of a refused device in that time; about 10 are expected


class Clock:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def refuse(calls: RefusedCalls, count: int = ENOUGH, seconds: float = 0.0) -> float:
    pause = 0.0
    for k in range(count):
        calls.made("p", str(k))
        clock: Any = calls._clock
        clock.now += seconds
        pause = calls.ended("p", str(k))
    return pause


def test_pauses_double_up_to_five_minutes() -> None:
    clock = Clock()
    calls, found = RefusedCalls(clock), []
    for _ in range(9):
        assert refuse(calls, ENOUGH - 1) == 0.0
        assert calls.paused() == set()
        pause = refuse(calls, 1)
        assert calls.paused() == {"p"}
        assert calls.next_end() == pytest.approx(pause)
        assert refuse(calls) == 0.0  # of links that end while the session is replaced
        found.append(pause)
        clock.now += pause
    assert found == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0]
    assert (found[0], found[-1]) == (FIRST_PAUSE, LONGEST_PAUSE)


def test_a_link_that_lasts_or_another_certificate_begins_anew() -> None:
    clock = Clock()
    calls = RefusedCalls(clock)
    assert refuse(calls) == FIRST_PAUSE
    clock.now += FIRST_PAUSE
    assert refuse(calls, 1, seconds=refusals.SHORT) == 0.0  # it lasted, and ended
    assert refuse(calls) == FIRST_PAUSE
    clock.now += FIRST_PAUSE
    calls.made("p", "lasts")
    clock.now += refusals.SHORT
    calls.settle()
    assert refuse(calls) == FIRST_PAUSE
    assert calls.refused("p") == 0.0  # a pause has begun
    calls.clear()
    assert calls.paused() == set()
    assert calls.refused("p") == FIRST_PAUSE
    assert calls.ended("nobody", "knows it") == 0.0


def test_a_link_that_this_device_ended_itself_proves_nothing() -> None:
    clock = Clock()
    calls = RefusedCalls(clock)
    calls.made("p", "x")
    calls.hang_up()
    clock.now += refusals.SHORT
    refuse(calls)
    calls.settle()
    assert calls.paused() == {"p"}


class Refusing:
    """p listens; q calls it through a proxy that counts, and is refused."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, Authority.create(folder / "ca")
        for name in ("p", "q"):
            self.home.issue(name, HERE)
        self.port, self.ears = free_port(), {name: Ears() for name in ("p", "q")}
        self.proxy = FaultyProxy(self.port)
        self.running: dict[str, ZenohTransport] = {}

    def start(self, name: str, credentials: Credentials, denied: Any = ()) -> ZenohTransport:
        """With a deny list, or without knowing any."""
        ends: Any = {"listen": [f"tls/127.0.0.1:{self.port}"]}
        if name == "q":
            ends = {"connect": {"p": f"tls/127.0.0.1:{self.proxy.port}"}}
        made = ZenohTransport(
            "test", name, devices=DEVICES, credentials=credentials,
            watch=KeyWatch(credentials, name, denied=denied, pause=0.1), **ends,
        )  # fmt: skip
        own, other = ("a", "b") if name == "p" else ("b", "a")
        made.attach(own, [other])
        made.open(self.ears[name])
        self.running[name] = made
        return made

    @property
    def denied(self) -> Path:
        return self.home.directory / "denied.json"

    def linked(self) -> None:
        wait_for(lambda: self.ears["q"].is_up("b", "a"), "a link")

    def close(self) -> None:
        for each in self.running.values():
            each.close()
        self.proxy.close()


@pytest.fixture
def refusing(tmp_path: Path) -> Iterator[Refusing]:
    made = Refusing(tmp_path)
    yield made
    made.close()


def copied(folder: Path, found: Credentials) -> Credentials:
    folder.mkdir(exist_ok=True)
    for file in found:
        copy = folder / file.name
        copy.write_bytes(file.read_bytes())
        copy.chmod(0o600)
    return Credentials(*(folder / file.name for file in found))


@pytest.mark.parametrize("weakened", [False, True])
def test_a_denied_device_that_does_not_know_it_calls_less_and_less_often(
    refusing: Refusing, weakened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if weakened:
        monkeypatch.setattr(RefusedCalls, "paused", lambda _: set())
    refusing.start("p", refusing.home.credentials("p"), refusing.denied)
    refusing.start("q", refusing.home.credentials("q"))
    refusing.linked()
    refusing.home.revoke("q", reason="left")
    wait_for(
        lambda: any("is refused" in r.reason for r in refusing.ears["p"].refused()), "a refusal"
    )
    before = refusing.proxy.connections
    if weakened:
        wait_for(lambda: refusing.proxy.connections > before + MOST, "a storm")
        return
    time.sleep(SECONDS)
    assert refusing.proxy.connections - before <= MOST
    said = [r.reason for r in refusing.ears["q"].refused()]
    assert any("p ends every link at once" in text for text in said), said


def test_a_device_that_is_not_accepted_by_tls_calls_less_and_less_often(
    refusing: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the right authority, and a certificate of another."""
    monkeypatch.setattr(transport, "FIRST_PROBE", 0.5)
    foreign = Authority.create(refusing.folder / "foreign")
    foreign.issue("q", HERE)
    found = foreign.credentials("q")
    monkeypatch.setattr(
        transport, "check_credentials", lambda *_: None
    )  # which would refuse to start
    refusing.start("p", refusing.home.credentials("p"))
    wrong = Credentials(refusing.home.credentials("q").ca, found.certificate, found.key)
    made = refusing.start("q", wrong)
    wait_for(lambda: not made._calling, "a pause")
    before = refusing.proxy.connections
    time.sleep(FIRST_PAUSE / 2)
    assert refusing.proxy.connections - before <= 2  # what was under way


def test_a_device_that_knows_it_is_denied_calls_nobody_until_it_has_another_certificate(
    refusing: Refusing,
) -> None:
    home = refusing.home
    old = copied(refusing.folder / "site", home.credentials("q"))
    refusing.start("p", home.credentials("p"), refusing.denied)
    made = refusing.start("q", old, refusing.denied)
    refusing.linked()
    home.issue("q", renew=True, new_key=True)
    home.revoke("q", old=True, reason="exposed")
    wait_for(lambda: not made._calling, "q to call nobody")
    wait_for(lambda: not refusing.ears["q"].is_up("b", "a"), "its link to end")
    before = refusing.proxy.connections
    time.sleep(2.0)
    assert refusing.proxy.connections - before <= 2  # what was under way
    copied(refusing.folder / "site", home.credentials("q"))  # `veilsum keys install`
    refusing.linked()


def test_a_neighbour_that_starts_again_is_called_at_once(refusing: Refusing) -> None:
    """It does not refuse anybody, and no pause begins."""
    refusing.start("p", refusing.home.credentials("p"))
    made = refusing.start("q", refusing.home.credentials("q"))
    refusing.linked()
    for _ in range(ENOUGH + 1):
        time.sleep(1.2 * refusals.SHORT)
        refusing.running["p"].close()
        wait_for(lambda: not refusing.ears["q"].is_up("b", "a"), "its end")
        refusing.start("p", refusing.home.credentials("p"))
        took = wait_for(lambda: refusing.ears["q"].is_up("b", "a"), "a link")
        assert took < FIRST_PAUSE
    assert made._refusals._pause == {}


@pytest.mark.parametrize("weakened", [False, True])
def test_links_that_others_make_and_end_in_the_name_of_a_neighbour_pause_no_calls(
    refusing: Refusing, weakened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause replaces the session: a thief of p's certificate would end the links of all others."""
    if weakened:
        monkeypatch.setattr(ZenohTransport, "_came_in", lambda *_: False)
    home, port, ears = refusing.home, free_port(), Ears()
    called = ZenohTransport(
        "test", "q", devices=DEVICES, credentials=home.credentials("q"),
        listen=[f"tls/127.0.0.1:{port}"], connect={"p": f"tls/127.0.0.1:{refusing.proxy.port}"},
        watch=KeyWatch(home.credentials("q"), "q", pause=0.1),
    )  # fmt: skip
    called.attach("b", ["a"])
    called.open(ears)
    refusing.running["q"] = called
    for _ in range(ENOUGH + 1):
        thief = ZenohTransport(
            "test", "p", devices=DEVICES, credentials=home.credentials("p"),
            connect={"q": f"tls/127.0.0.1:{port}"},
            watch=KeyWatch(home.credentials("p"), "p", pause=0.1),
        )  # fmt: skip
        thief.attach("a", ["b"])
        thief.open(Ears())
        wait_for(lambda: any(k.auth_identifier == "p" for k in called._guard.links()), "a link")
        thief.close()
    said = [found.reason for found in ears.refused()]
    assert any("p ends every link at once" in text for text in said) == weakened, said
    assert (called._refusals._pause != {}) == weakened
