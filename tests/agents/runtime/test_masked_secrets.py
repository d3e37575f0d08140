"""After a masked sum nothing that was written has an ephemeral key, a pair's secret, v, eta or x in it.

Agents of one process run to the end with mutual TLS and a talkative log; everything that became secret
on the way is noted, and searched for in every file, in standard output and in standard error: as bytes,
in hexadecimal, base64 and decimals. Statistics and noise have more than 30 bits, so that a find by
chance is below 1e-6.
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from veilsum.agents.local_cluster.cluster import LaunchOptions, prepare
from veilsum.agents.local_cluster.worker import Worker
from veilsum.agents.masked import masks
from veilsum.agents.masked.masks import EphemeralKey
from veilsum.agents.release.contribution import ContributionMechanism
from veilsum.agents.release.reserve import NoiseReserve
from veilsum.scenario import Scenario

READINGS = [1.0e9 + 123_456.789 * (i + 1) for i in range(6)]
SCENARIO = """
name = "secrets"
network = { graph = "ring:6", weights = "lazy-metropolis" }
family = { name = "normal", sigma = 1.0, bounds = [0.0, 2e9] }
signals = { file = "meters.csv" }
algorithm = { name = "masked-sum", rounds = 100 }
[privacy]
protect = "signal"
mode = "masked"
epsilon = 2e-7
radius = 1.0
colluders = 1
absent = 1
attempts = 2
"""


class Secrets:
    """Everything that must not be written, as it comes about."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: list[bytes] = []
        self.statistics: list[int] = []
        self.noise: list[int] = []
        made, stream = EphemeralKey.__init__, masks.stream
        given, drawn = ContributionMechanism.contribution, NoiseReserve.draw

        def init(key: Any) -> None:
            made(key)
            self.keys.append(key._private.private_bytes_raw())

        def derive(secret: bytes, info: bytes, components: int) -> Any:
            used = HKDF(algorithm=SHA256(), length=32, salt=masks.DOMAIN, info=info)
            self.keys += [secret, used.derive(secret)]
            return stream(secret, info, components)

        def contribution(mechanism: Any, *arguments: Any) -> Any:
            found = given(mechanism, *arguments)
            self.statistics += found.statistic
            return found

        def draw(reserve: Any) -> Any:
            found = drawn(reserve)
            self.noise += found
            return found

        monkeypatch.setattr(EphemeralKey, "__init__", init)
        monkeypatch.setattr(masks, "stream", derive)
        monkeypatch.setattr(ContributionMechanism, "contribution", contribution)
        monkeypatch.setattr(NoiseReserve, "draw", draw)

    def numbers(self) -> list[int]:
        """x, eta, and v of every statistic with every noise: one of them is each agent's."""
        sums = [x + eta for x in self.statistics for eta in self.noise]
        return [n for n in (*self.statistics, *self.noise, *sums) if abs(n) >= 2**30]

    def patterns(self) -> Iterator[tuple[str, bytes]]:
        for key in self.keys:
            yield "a key", key
            yield "a key in hexadecimal", key.hex().encode()
            yield "a key in base64", base64.b64encode(key)[:40]
            yield "a key in base64", base64.urlsafe_b64encode(key)[:40]
        for number in self.numbers():
            word = number % 2**64
            yield "a number", word.to_bytes(8, "little")
            yield "a number", word.to_bytes(8, "big")
            yield "a number in decimals", str(abs(number)).encode()
            yield "a number in hexadecimal", f"{word:016x}".encode()
            yield "a number as a float", np.float64(number).tobytes()
        for reading in READINGS:
            yield "a reading", repr(reading).encode()
            yield "a reading", np.float64(reading).tobytes()
            yield "a reading", np.float64(reading).byteswap().tobytes()

    def found_in(self, contents: dict[str, bytes]) -> set[str]:
        return {
            f"{what} in {Path(name).name}"
            for what, pattern in self.patterns()
            for name, content in contents.items()
            if pattern in content
        }


def run(folder: Path) -> dict[str, bytes]:
    """A session of six agents in this process; every file while they are open, and after."""
    rows = [f"{i},0,{reading!r}" for i, reading in enumerate(READINGS)]
    (folder / "meters.csv").write_text("\n".join(["agent,time,value", *rows]))
    scenario = Scenario.parse(SCENARIO, folder=folder, name="secrets")
    options = LaunchOptions(processes=1, log_level="debug")
    plan, _, _ = prepare(scenario, options, folder / "home")
    plan.save()
    worker = Worker(plan, 0)
    worker.node.start()
    worker.node.run(until=lambda: worker.node.all_done)
    written = {
        f"{path} open": path.read_bytes() for path in (folder / "home").rglob("*") if path.is_file()
    }
    worker._print_status(force=True)
    worker._write()
    worker.node.close()
    worker.node.observability.log._stream.close()
    assert {hosted.done.reason for hosted in worker.node.agents.values() if hosted.done} == {"sum"}
    written |= {
        str(path): path.read_bytes() for path in (folder / "home").rglob("*") if path.is_file()
    }
    names = " ".join(written)
    assert "-wal" in names
    assert ".ledger" in names
    return written


def test_a_masked_sum_writes_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    secrets = Secrets(monkeypatch)
    written = run(tmp_path)
    said = capfd.readouterr()
    written |= {"stdout": said.out.encode(), "stderr": said.err.encode()}
    assert (
        len(secrets.keys) >= 6 + 2 * 15
    )  # a key each, and a secret and a stream's key for each pair
    assert len(secrets.statistics) == len(READINGS)
    assert len(secrets.numbers()) > 40
    assert secrets.found_in(written) == set()


@pytest.mark.parametrize("weakened", ["no masks", "a key in the log"])
def test_a_variant_that_writes_a_secret_is_found(
    weakened: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = Secrets(monkeypatch)
    if weakened == "no masks":
        monkeypatch.setattr(masks, "pad", lambda *_, **__: np.zeros(1, dtype=np.uint64))  # z is v
    written = run(tmp_path)
    if weakened == "a key in the log":
        written["log"] = f'{{"key": "{secrets.keys[0].hex()}"}}'.encode()
    found = secrets.found_in(written)
    assert found
    expected = "a number in" if weakened == "no masks" else "a key in hexadecimal"
    assert any(one.startswith(expected) for one in found)


def test_what_holds_a_secret_shows_nothing_of_it() -> None:
    from veilsum.agents.events import Contribute, Contribution

    given = Contribution(3, (123_456_789,), 2)
    for shown in (repr(given), str(given), repr(Contribute(given)), f"{given}"):
        assert "123456789" not in shown.replace("_", "").replace(",", "")
    key = EphemeralKey()
    assert key._private is not None
    raw = key._private.private_bytes_raw()
    assert raw.hex() not in repr(key)
    assert "depth" in repr(NoiseReserve(lambda: (987_654_321,)))
    assert "987654321" not in repr(NoiseReserve(lambda: (987_654_321,)))
