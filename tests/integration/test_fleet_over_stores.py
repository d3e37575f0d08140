"""Whole fleets of `step` over real servers: late sites, and servers that fail a seventh of all requests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from random import Random

import pytest

from tests.fleet.fleets import NOW, SmallFleet, mean
from tests.fleet.servers import Moto, RcloneS3, RcloneWebDav, between, bucket
from tests.integration.test_fleet_stores import OURS, Kind, entered
from veilsum.fleet.answers import BoardAnswer
from veilsum.fleet.membership import Witnesses
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.store import open_store

pytestmark = pytest.mark.integration
HOUR = 3600
START = NOW // HOUR * HOUR
HOURLY = mean("pool", schedule={"every": "1 h"})
AT = [float(START + HOUR * hour + 5) for hour in range(50)]
MEMBERS = Witnesses(("s0", "s1", "s2"), 2, 0)
KINDS = [(Moto, Witnesses()), (RcloneS3, MEMBERS), (RcloneWebDav, MEMBERS)]


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith(OURS) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(params=KINDS, ids=lambda one: one[0].__name__)
def served(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, int, Witnesses]]:
    """An address through a front that fails as the test says, its port, and who witnesses."""
    kind: Kind
    kind, witnesses = request.param
    (tmp_path / "server").mkdir()
    server = kind(tmp_path / "server")
    try:
        server.start()
        entered(monkeypatch, server.environment())
        yield str(server.address), server.port, witnesses
    finally:
        server.close()


def same(fleet: SmallFleet, question: FleetQuestion) -> BoardAnswer:
    """What everyone answers, to the bit."""
    found = [fleet.answer(name, question) for name in fleet.keys]
    assert found[0] is not None
    assert all(one == found[0] for one in found)
    assert len({fleet.board(name).digest for name in fleet.keys}) == 1
    return found[0]


def test_a_fleet_over_a_server_that_fails(
    served: tuple[str, int, Witnesses], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, port, witnesses = served
    random, failing = Random(5), [False]
    failed: list[int] = []

    def fault(_: BaseHTTPRequestHandler) -> int | None:
        if failing[0] and random.random() < 0.15:  # a step has several requests
            failed.append(random.choice((403, 429, 500, 503)))
            return failed[-1]
        return None

    with between(fault, port) as front:
        if address.startswith("s3"):
            entered(monkeypatch, bucket(front.server_port))
        else:
            address = address.replace(str(port), str(front.server_port))
        store = open_store(address, seconds=10.0)
        fleet = SmallFleet(
            tmp_path / "sites", 4, store=store, witnesses=witnesses,
            rows=lambda _, k: {"at": AT, "kwh": [10.0 + k] * len(AT)},
        )  # fmt: skip
        fleet.now = START + 10
        fleet.ask(HOURLY)
        fleet.step()
        failing[0] = True
        problems = 0
        for hour in range(1, 5):
            for minute in (2, 20, 40):
                fleet.now = START + hour * HOUR + 60 * minute
                names = [name for name in fleet.keys if name != "s3" or hour != 2]
                for report in fleet.step(*random.sample(names, len(names))):
                    problems += bool(report.problems)
        failing[0] = False
        for _ in range(4):
            fleet.now += 60
            fleet.step()
        found = same(fleet, HOURLY)
        store.close()
    assert failed
    assert problems > 5
    assert found.covers == "4 of 4 sites"
    assert found.latest == (START // HOUR + 3, 4)
    assert found.records == 16, "each reading once"
