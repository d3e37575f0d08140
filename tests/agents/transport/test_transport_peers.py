"""Peers that die, freeze and come back, in processes of their own."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.agents.transport.transport_cases import Devices, has, totals, wait_for
from veilsum.agents.transport.zenoh_config import LEASE
from veilsum.errors import AgentError

CHILD = Path(__file__).with_name("transport_child.py")
PAIR, LINK = {"p": ["a"], "q": ["b"]}, [("a", "b")]


@contextmanager
def child(devices: Any, authority: Any) -> Any:
    directory = str(authority.directory) if devices.kind == "zenoh-mtls" else "-"
    words = [str(devices.ports["q"]), str(devices.ports["p"]), directory]
    process = subprocess.Popen(
        [sys.executable, str(CHILD), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)


@pytest.fixture(params=["zenoh", "zenoh-mtls"])
def device(request: Any, authority: Any) -> Any:
    with Devices(request.param, PAIR, LINK, authority) as devices:
        devices.start("p")
        yield devices


def up(devices: Any) -> Any:
    return devices.ears_of("a").is_up("a", "b")


def test_a_killed_peer_is_missed_at_once_and_its_next_incarnation_is_announced(
    device: Any, authority: Any
) -> None:
    device.send(totals("a", "b", 3))  # before anybody is there to hear it
    with child(device, authority) as process:
        wait_for(lambda: up(device), "b")
        assert process.stdout.readline() == "3\n"
        device.send(totals("a", "b", 4))
        assert process.stdout.readline() == "4\n"
        os.kill(process.pid, signal.SIGKILL)
        assert wait_for(lambda: not up(device), "b to be missed") < 0.5
    with child(device, authority) as process:
        wait_for(lambda: up(device), "b to return")
        assert process.stdout.readline() == "4\n"


def frozen(
    device: Any, process: Any, pause: Any, seconds: Any, components: Any = 1, most: Any = 10**9
) -> Any:
    """Freeze the peer and go on sending: (seconds until it was missed, slowest send, sends)."""
    os.kill(process.pid, signal.SIGSTOP)
    began, slowest, now = time.monotonic(), 0.0, 0
    while up(device) and time.monotonic() - began < seconds and now < most:
        now += 1
        message = totals("a", "b", now)._replace(sums=(1 << 500,) * components)
        before = time.monotonic()
        device.send(message)
        slowest = max(slowest, time.monotonic() - before)
        time.sleep(pause)
    return time.monotonic() - began, slowest, now


def thawed(device: Any, process: Any) -> None:
    """Let it go on: the link is there, or comes back, and what is said again is heard."""
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")))
    reader.start()
    os.kill(process.pid, signal.SIGCONT)

    def reported() -> Any:
        device.send(totals("a", "b", 10**9))
        time.sleep(0.05)
        return "1000000000\n" in lines

    wait_for(reported, "the peer to hear again")
    assert up(device)
    process.kill()
    reader.join(10)


def test_a_frozen_peer_is_missed_within_the_lease(device: Any, authority: Any) -> None:
    with child(device, authority) as process:
        wait_for(lambda: up(device), "b")
        took, slowest, _ = frozen(device, process, pause=0.002, seconds=6)
        assert took < LEASE / 1000 + 1
        assert slowest < LEASE / 2000
        thawed(device, process)


def test_a_flood_to_a_frozen_peer_holds_nobody_up(device: Any, authority: Any) -> None:
    with child(device, authority) as process:
        wait_for(lambda: up(device), "b")
        enough = int(12e6 / (900 * 64)) + 1  # more than the queue and the sockets take
        _, slowest, sends = frozen(device, process, 0.002, 6, components=900, most=enough)
        assert sends == enough or not up(device)  # a busy machine misses the peer before
        assert slowest < LEASE / 2000  # to wait for the peer would take the lease
        thawed(device, process)


def test_both_ends_may_connect(authority: Any) -> None:
    """Each knows where the other listens, and they start and return in any order."""
    with Devices("zenoh-mtls", PAIR, LINK, authority) as devices:
        devices.everybody_connects = True
        devices.start()
        devices.wait_until_linked()
        for _ in range(3):
            devices.transports["q"].close()
            wait_for(lambda: not devices.ears_of("a").is_up("a", "b"), "a to miss b")
            devices.ears["q"].heard.clear()
            devices.send(totals("a", "b", 9))
            devices.start("q")
            devices.wait_until_linked()
            wait_for(lambda: totals("a", "b", 9) in devices.ears_of("b").messages("b"), "the last")
        time.sleep(0.5)
        assert devices.ears_of("a").is_up("a", "b")


def test_a_port_in_use_is_said(authority: Any) -> None:
    with (
        socket.socket() as held,
        Devices("zenoh-mtls", PAIR, LINK, authority) as devices,
    ):
        held.bind(("127.0.0.1", 0))
        held.listen()
        devices.ports["p"] = held.getsockname()[1]
        with pytest.raises(AgentError, match=r"cannot listen on tls/127.0.0.1"):
            devices.start("p")


def test_restarts_in_any_order_lose_no_last_message(authority: Any) -> None:
    """Listeners and connectors come and go; each receives again what was last sent to it."""
    hosts = {"p": ["a", "x"], "q": ["b", "y"], "r": ["c"]}
    links = [("a", "b"), ("b", "c"), ("a", "c"), ("x", "y"), ("x", "c"), ("a", "x")]
    draw = random.Random(3)
    with Devices("zenoh-mtls", hosts, links, authority) as devices:
        devices.start()
        devices.wait_until_linked()
        for now in range(1, 13):
            gone = draw.choice("pqr")
            said = [totals(*pair, now) for link in links for pair in (link, link[::-1])]
            said = [m for m in said if devices.device_of(m.sender) != gone]
            for message in said:
                devices.send(message)
            devices.transports[gone].close()
            devices.ears[gone].heard.clear()
            devices.start(gone)
            devices.wait_until_linked()
            for message in (m for m in said if m.receiver in hosts[gone]):
                ears = devices.ears[gone]
                wait_for(partial(has, ears, message), "the last message")


def test_a_weakened_twin_that_keeps_nothing_leaves_a_late_neighbour_in_the_dark(
    authority: Any,
) -> None:
    class Forgetful(dict[Any, Any]):
        def __setitem__(self, key: Any, value: Any) -> None:
            pass

    with Devices("zenoh-mtls", PAIR, LINK, authority) as devices:
        devices.start("p")
        transport: Any = devices.transports["p"]
        transport._last = Forgetful()
        devices.send(totals("a", "b"))
        devices.start("q")
        devices.wait_until_linked()
        time.sleep(0.5)
        assert devices.ears_of("b").messages("b") == []
