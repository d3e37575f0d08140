"""Everything that an observer received in a run has none of the readings, statistics, noise or keys in it.

Agents of one process run to their end and publish to an observer over TLS; whatever became secret on the
way is noted and searched for in the frames as they came: as bytes, in hexadecimal and in decimals. Values
have more than 30 bits, so that a find by chance is below 1e-6.
"""

from __future__ import annotations

import io
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.agents.observers.observing import connect, wait_for
from tests.agents.runtime.test_masked_secrets import READINGS, SCENARIO, Secrets
from veilsum.agents.local_cluster.cluster import LaunchOptions, prepare
from veilsum.agents.local_cluster.worker import Worker
from veilsum.agents.observers import StatusPublisher
from veilsum.agents.pki import Authority, Role
from veilsum.agents.release.mechanism import ReleaseMechanism
from veilsum.agents.runtime import reporter, status
from veilsum.agents.runtime.log import Log
from veilsum.agents.transport.zenoh_config import Endpoint
from veilsum.scenario import Scenario

LOCAL = (
    SCENARIO.replace('mode = "masked"\n', "")
    .replace("colluders = 1\nabsent = 1\nattempts = 2\n", "")
    .replace("masked-sum", "average")
    .replace("rounds = 100", "rounds = 12")
)
NOTHING = LOCAL[: LOCAL.index("[privacy]")] + '[privacy]\nprotect = "nothing"\n'


class LocalSecrets(Secrets):
    """The same where noise is added by each agent: statistic, noise, and the reading itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        drawn = ReleaseMechanism.draw

        def draw(mechanism: Any, reading: int, signal: Any, *rest: Any, **more: Any) -> Any:
            found = drawn(mechanism, reading, signal, *rest, **more)
            scale = 2**mechanism.manifest.unit
            (exact,) = mechanism._in_units(mechanism._statistic(mechanism.check(reading, signal)))
            statistic, noise = int(exact * scale), found[0] - int(exact * scale)
            self.statistics.append(statistic)
            self.noise.append(noise)
            self.floats += [float(x) for x in (exact, Fraction(noise, scale)) if x]
            return found

        self.floats: list[float] = []
        monkeypatch.setattr(ReleaseMechanism, "draw", draw)

    def numbers(self) -> list[int]:
        """What was released, a statistic with its noise, is public here."""
        return [n for n in (*self.statistics, *self.noise) if abs(n) >= 2**30]

    def patterns(self) -> Iterator[tuple[str, bytes]]:
        yield from super().patterns()
        for value in self.floats:
            yield "a number in decimals", repr(value).encode()


class Recorder:
    """An observer that keeps every byte, in a thread."""

    def __init__(self, link: ssl.SSLSocket) -> None:
        self.link, self.received = link, b""
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        with suppress(OSError):
            while data := self.link.recv(65536):
                self.received += data


def observed(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, **more: Any) -> bytes:
    """All that an observer received of six agents of this process, from their start to their end."""
    monkeypatch.setattr(reporter, "LEAST_INTERVAL", 0.0)
    rows = [f"{i},{t},{reading + t!r}" for t in range(14) for i, reading in enumerate(READINGS)]
    (folder / "meters.csv").write_text("\n".join(["agent,time,value", *rows]))
    scenario = Scenario.parse(text, folder=folder, name="secrets")
    options = LaunchOptions(processes=1, log_level="debug", research="nothing" in text, **more)
    plan, _, _ = prepare(scenario, options, folder / "home")
    plan.save()
    authority = Authority.create(folder / "fleet")
    authority.issue("site", ["127.0.0.1"])
    observer = authority.issue("control-room", role=Role.OBSERVER)
    credentials = authority.credentials("site")
    publisher = StatusPublisher(
        "site", Endpoint("tls", "127.0.0.1", 0), credentials, "site", ["control-room"]
    )
    log = io.StringIO()
    with connect(publisher.start(Log(log)), observer) as link:
        recorder = Recorder(link)
        wait_for(lambda: "reads statuses" in log.getvalue(), "the observer")
        worker = Worker(plan, 0)
        worker.node.reporter.receivers.append(publisher)
        worker.node.start()
        assert worker.node.run(until=lambda: worker.node.all_done, seconds=60)
        worker.node.close()
        worker.node.observability.log._stream.close()
        publisher.close()
        recorder.thread.join(10)
    assert '"state": "done"' in recorder.received.decode("utf-8", "replace")
    return recorder.received


def test_an_observer_of_a_masked_sum_receives_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = Secrets(monkeypatch)
    received = observed(tmp_path, SCENARIO, monkeypatch)
    assert len(secrets.numbers()) > 40
    assert secrets.found_in({"frames": received}) == set()


def test_an_observer_of_local_noise_receives_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = LocalSecrets(monkeypatch)
    received = observed(tmp_path, LOCAL, monkeypatch)
    assert len(secrets.numbers()) >= 12
    assert len(secrets.floats) == 12
    assert secrets.found_in({"frames": received}) == set()
    assert b'"withheld": []' in received  # estimates are sent, and contain none


@pytest.mark.parametrize("weakened", ["a reading", "a number"])
def test_a_variant_that_sends_a_secret_is_found(
    weakened: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets, whole = LocalSecrets(monkeypatch), status.AgentStatus.public

    def public(self: Any) -> dict[str, Any]:
        return whole(self) | {
            "last": READINGS[0] if weakened == "a reading" else secrets.noise[-1:]
        }

    monkeypatch.setattr(status.AgentStatus, "public", public)
    received = observed(tmp_path, LOCAL, monkeypatch)
    assert any(one.startswith(weakened) for one in secrets.found_in({"frames": received}))


def test_without_a_guarantee_an_observer_receives_no_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = LocalSecrets(monkeypatch)
    received = observed(tmp_path, NOTHING, monkeypatch)
    assert secrets.found_in({"frames": received}) == set()
    assert _estimates(received) == set()


def _estimates(received: bytes) -> set[float]:
    """All estimates in the frames."""
    from veilsum.agents.wire import decode_status

    found, at = set(), 0
    while at + 4 <= len(received):
        size = int.from_bytes(received[at : at + 4], "big")
        found |= set(json.loads(decode_status(received[at + 4 : at + 4 + size]).text)["estimate"])
        at += 4 + size
    assert at == len(received)
    return found
