"""`veilsum watch` follows epochs while it runs: real processes of agents and observer, TLS, real files."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.membership.fleets import SITES, sign_in
from tests.cli.test_members_running import VEILSUM, RunningFleet
from veilsum.agents.local_cluster.plan import free_ports
from veilsum.agents.pki import Authority, KeyRequest, install
from veilsum.agents.pki.requests import make_observer_request

NAMES = (*SITES, "south")


class WatchedProcesses(RunningFleet):
    """Agents that allow an observer, and the observer."""

    def __init__(self, home: Path) -> None:
        self.ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
        super().__init__(home, {"agents": "asynchronous = true\n"})
        keys = home / "watch" / "keys"
        keys.mkdir(parents=True)
        _, request = make_observer_request("control-room", keys)
        Authority.load(home / "authority").sign(KeyRequest.read(request))
        install("control-room", home / "authority", keys)
        text = (home / "watch.toml").read_text()
        assert '[membership]\nfile = "epoch.json"' in text  # as `veilsum init --fleet` writes it
        sites = "\n".join(f'{name} = "tls/127.0.0.1:{self.ports[name]}"' for name in NAMES)
        (home / "watch.toml").write_text(text.partition("[sites]")[0] + f"[sites]\n{sites}\n")

    def prepare(self, label: str) -> None:
        super().prepare(label)
        self._observed(label)

    def new_site(self, label: str, port: int, near: tuple[str, ...]) -> None:
        super().new_site(label, port, near)
        self._observed(label)

    def _observed(self, label: str) -> None:
        path = self.home / "sites" / label / "agent.toml"
        text = re.sub(r"\n\[observers\].*", "", path.read_text(), flags=re.S)
        listen = f'listen = "tls/127.0.0.1:{self.ports[label]}"'
        path.write_text(f'{text}\n[observers]\nallow = ["control-room"]\n{listen}\n')

    def watch(self) -> None:
        with (self.home / "watch.log").open("a") as log:
            self.running["watch"] = subprocess.Popen(
                [*VEILSUM, "watch", "watch.toml", "--json"],
                cwd=self.home, stdout=log, stderr=log, text=True,
            )  # fmt: skip

    def lines(self, kind: str) -> list[dict[str, Any]]:
        text = (self.home / "watch.log").read_text()
        found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return [line for line in found if line["kind"] == kind]

    def heard(self, label: str, epoch: int) -> bool:
        return any((s["agent"], s["epoch"]) == (label, epoch) for s in self.lines("status"))


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[WatchedProcesses]:
    made = WatchedProcesses(tmp_path)
    yield made
    made.close()


def test_a_running_watcher_follows_the_epochs_of_a_running_fleet(fleet: WatchedProcesses) -> None:
    for label in SITES:
        fleet.start(label)
    fleet.watch()
    fleet.wait(lambda: all(fleet.heard(label, 1) for label in SITES), "the first epoch")
    assert fleet.said("watch", "south: no member of demo in epoch 1; watched once it is")

    (port,) = free_ports(1)
    sign_in(fleet.home, "south")
    fleet.new_site("south", port, ("north", "east"))
    fleet.veilsum("members", "add", f"south=127.0.0.1:{port}", "--link", "north", "--link", "east")
    fleet.veilsum("members", "rollout")
    fleet.start("south")
    fleet.wait(lambda: all(fleet.heard(label, 2) for label in NAMES), "the second epoch")

    fleet.veilsum("members", "remove", "west")
    fleet.veilsum("members", "rollout", "--out", "signed.json")
    good = (fleet.home / "signed.json").read_text()
    (fleet.home / "epoch.json").write_text(good.replace("north,east", "north,evil"))
    fleet.wait(lambda: fleet.said("watch", "is not signed by the authority"), "a refusal")
    assert [line["epoch"] for line in fleet.lines("epoch")] == [2]
    (fleet.home / "signed.json").replace(fleet.home / "epoch.json")
    stay = ("north", "east", "south")
    fleet.wait(lambda: all(fleet.heard(label, 3) for label in stay), "the third epoch")
    first, second = fleet.lines("epoch")
    assert (first["epoch"], first["joined"], first["former"]) == (2, ["south"], [])
    assert (second["epoch"], second["joined"], second["former"]) == (3, [], ["west"])
    assert sorted(second["watched"]) == sorted(stay)

    fleet.running["watch"].send_signal(signal.SIGTERM)
    assert fleet.running["watch"].wait(30) in (
        0,
        3,
    )  # 3 while mixing begins anew; west is not missed
    table = subprocess.run(
        [*VEILSUM, "watch", "watch.toml", "--once"],
        cwd=fleet.home, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert table.returncode in (0, 3), table.stdout + table.stderr
    assert "west: no member since epoch 3" in table.stdout
    assert "not watched" not in table.stdout
