"""Servers for the tests of this folder."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.readings.released import entries
from tests.integration.servers import Mosquitto, Postgres
from veilsum.agents.ledger import ReadingOrigin
from veilsum.agents.ledger.records import OriginHasher
from veilsum.agents.readings.polled import QueuedReadings

AGENT = Path(__file__).with_name("agent_process.py")
STAGES = ("checked", "drawn", "written", "committed")


@pytest.fixture(autouse=True)
def _closes_its_sources(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sources read in threads of their own; what a test opens is closed with it."""
    made: list[QueuedReadings] = []
    begin = QueuedReadings.__init__

    def recorded(source: QueuedReadings, *arguments: Any, **options: Any) -> None:
        begin(source, *arguments, **options)
        made.append(source)

    monkeypatch.setattr(QueuedReadings, "__init__", recorded)
    yield
    for source in made:
        source.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    folder = tmp_path / "broker"
    folder.mkdir()
    made = Mosquitto(folder)
    made.start()
    yield made
    made.close()


@pytest.fixture
def database() -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="veilsum-"))  # readable by the user postgres
    made = None
    try:
        made = Postgres(folder)
        made.start()
        yield made
    finally:
        if made is not None:
            made.close()
        shutil.rmtree(folder)


class Agents:
    """Runs the process with the agents, and reads what is in the ledger of the first."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.output = folder, ""

    def start(
        self, source: Any, count: int, stage: str = "never", times: int = 1
    ) -> "subprocess.Popen[str]":
        described = self.folder / "source.json"
        described.write_text(json.dumps(source))
        command = [sys.executable, str(AGENT), str(self.folder), str(described), str(count), stage]
        return subprocess.Popen(
            [*command, str(times)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def wait_for(self, count: int, seconds: float = 60.0) -> None:
        """Until so many readings were released."""
        progress, end = self.folder / "progress", time.monotonic() + seconds
        while not progress.exists() or int(progress.read_text() or 0) < count:
            assert time.monotonic() < end, "too few readings were released"
            time.sleep(0.05)

    def finish(self, process: "subprocess.Popen[str]") -> int:
        try:
            self.output += process.communicate(timeout=90)[0]
        finally:
            process.kill()
        return process.returncode

    def run(self, source: Any, count: int, stage: str = "never", times: int = 1) -> int:
        return self.finish(self.start(source, count, stage, times))

    def killed_at_every_stage(self, source: Any, count: int) -> None:
        """Killed between receipt and commit again and again, and then run to the end."""
        for times, stage in enumerate(STAGES, 2):
            assert self.run(source, count, stage, times) == -signal.SIGKILL, self.output
        assert self.run(source, count) == 0, self.output

    def released(self) -> list[str]:
        return [name for entry in entries(self.folder) for name in entry.origins]

    @staticmethod
    def origins(keys: list[str]) -> set[str]:
        """What the ledger must hold for these keys."""
        hasher = OriginHasher(b"d" * 32, "0")
        return {hasher.hash(ReadingOrigin(key, keyed=True), 0) for key in keys}

    @property
    def log(self) -> str:
        file = self.folder / "agents.log"
        return self.output + (file.read_text() if file.exists() else "")


@pytest.fixture
def agents(tmp_path: Path) -> Agents:
    folder = tmp_path / "agents"
    folder.mkdir()
    return Agents(folder)
