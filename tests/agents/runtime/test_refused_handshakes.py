"""Who was refused and why, in the log of a real `veilsum agent` that listens."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zenoh

from tests.agents.runtime.test_key_rotation import SITES, Pair
from tests.agents.transport.test_transport_intruders import session
from tests.agents.transport.transport_cases import wait_for
from veilsum.agents.transport.zenoh_log import RefusedHandshake

LINE = "2026 WARN acc-0 ThreadId(05) zenoh_link_tls::unicast: {}. Hint: increase the system open file limit."


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("peer sent no certificates", "it showed no certificate"),
        ("invalid peer certificate: UnknownIssuer", "not of this fleet's authority"),
        ("received corrupt message of type InvalidContentType", "does not speak TLS"),
        ("something new", "something new"),
    ],
)
def test_lines_of_zenoh_are_understood(said: str, expected: str) -> None:
    found = RefusedHandshake.parse(LINE.format(said))
    assert found is not None
    assert expected in found.reason
    assert RefusedHandshake.parse(said) is None


class Running:
    """`veilsum agent` of north, which listens; its log and its output."""

    def __init__(self, pair: Pair) -> None:
        self.log = pair.home / "north.log"
        with self.log.open("w") as errors, (pair.home / "north.out").open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "veilsum.cli", "agent", "agent.toml", "--json"],
                cwd=pair.home / "north", stdout=output, stderr=errors,
            )  # fmt: skip
        self.output = pair.home / "north.out"
        self.port = int(
            (pair.home / "north" / "agent.toml").read_text().split(":")[1].split('"')[0]
        )

    def refusals(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line[:1] == "{"]
        return [line for line in lines if line["kind"] == "refused"]

    def says(self, text: str) -> None:
        wait_for(lambda: any(text in line["text"] for line in self.refusals()), text)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)


def test_a_listening_agent_says_who_was_refused_and_why(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    for name in SITES:
        pair.enrol(name)
    pair.authority.issue("stranger", ("127.0.0.1",))
    yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    expired = pair.authority.issue("old", ("127.0.0.1",), not_after=yesterday)
    running = Running(pair)
    try:
        wait_for(lambda: "started" in running.log.read_text(), "the agent")
        with session(running.port, pair.authority.credentials("stranger")):
            running.says("no neighbour of north")
        assert running.refusals()[0]["peer"] == "stranger"
        with pytest.raises(zenoh.ZError):
            session(running.port, expired)
        running.says("(without a link now: east): its certificate expired at")
        with pytest.raises(zenoh.ZError):
            session(running.port, expired, mutual=False)
        running.says("it showed no certificate")
    finally:
        running.close()
    for line in running.output.read_text().splitlines():
        assert json.loads(line)["kind"], "nothing of zenoh is on standard output"


def test_each_epoch_gives_its_descriptors_back() -> None:
    """An agent enters it anew in every epoch."""
    code = (
        "import os\n"
        "from veilsum.agents.transport.zenoh_log import TransportLog\n"
        "counts = []\n"
        "for _ in range(6):\n"
        "    with TransportLog(lambda found: None):\n"
        "        print('said')\n"
        "    counts.append(len(os.listdir('/dev/fd')))\n"
        "assert counts[-1] == counts[1], counts\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "said\n" * 6), done.stderr
