"""The guard that every test runs under: it fails a test that leaves a thread, process or socket."""

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.leaks import Resources, nothing_left

Close = Callable[[], Any]


def a_thread() -> Close:
    ended = threading.Event()
    made = threading.Thread(target=ended.wait, name="left-behind", daemon=True)
    made.start()

    def close() -> None:
        ended.set()
        made.join()

    return close


def a_process() -> Close:
    made = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def close() -> None:
        made.communicate(b"\n")

    return close


def an_ended_process() -> Close:
    made = subprocess.Popen(["true"])
    time.sleep(0.05)
    return made.wait


def a_socket() -> Close:
    made = socket.create_server(("127.0.0.1", 0))
    return made.close


def a_loop() -> Close:
    """An event loop wakes itself over a pair of sockets."""
    made = asyncio.new_event_loop()
    return made.close


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("leak", "said"),
    [
        (a_thread, "thread left-behind"),
        (a_process, "process .*input"),
        (an_ended_process, "process .*not waited for"),
        (a_socket, "socket"),
        (a_loop, "socket"),
    ],
)
def test_what_is_left_fails_the_test(leak: Callable[[], Close], said: str) -> None:
    close: list[Close] = []
    with pytest.raises(AssertionError, match=f"leaves behind: .*{said}"), nothing_left(0.0):
        close.append(leak())
    close[0]()
    with nothing_left():
        leak()()


def test_what_ends_by_itself_is_waited_for() -> None:
    with nothing_left():
        threading.Thread(target=time.sleep, args=(0.1,)).start()


def test_every_test_runs_under_the_guard(request: pytest.FixtureRequest) -> None:
    assert "_leaves_nothing_behind" in request.fixturenames


def test_looking_is_cheap() -> None:
    """The least of a hundred, in processor time: well under a millisecond, twice a test."""
    spent = []
    for _ in range(100):
        began = time.thread_time()
        Resources.now()
        spent.append(time.thread_time() - began)
    assert min(spent) < 1e-3
