"""Members join, leave and are removed while the agents of the others run: processes, TLS, real files."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.membership.fleets import SITES, edit, made_fleet, sign_in
from veilsum.agents.ledger import read_ledger
from veilsum.agents.local_cluster.plan import free_ports

VEILSUM = [sys.executable, "-m", "veilsum.cli"]
PATIENCE = 150  # seconds
FIRST, ALL = 24, 48  # readings of each site: when it starts, and after the membership has changed
TIMES = '\n[rounds]\ndeadline = "2s"\nresend = "0.3s"\ntick = "0.05s"\nlinger = "20s"\n'
MODES: dict[str, dict[str, Any]] = {
    "stream": {},
    "asynchronous": {"agents": "asynchronous = true\n"},
    "masked": {"masked": True},
    "offline": {},
}


def rows(label: str, start: int, end: int) -> str:
    draw = random.Random(f"readings of {label}")
    values = [round(min(max(draw.gauss(50, 10), 0), 100), 6) for _ in range(ALL)]
    hours = range(start, end)
    return "".join(f"2026-02-{1 + k // 24:02}T{k % 24:02}:00,{values[k]}\n" for k in hours)


class RunningFleet:
    """The agents of a fleet, each in a process of its own."""

    def __init__(self, home: Path, mode: dict[str, Any]) -> None:
        self.home = made_fleet(home, masked=mode.get("masked", False))
        edit(home / "scenario.toml", ("[agents]\n", "[agents]\n" + mode.get("agents", "")))
        self.running: dict[str, subprocess.Popen[str]] = {}
        for label in SITES:
            self.prepare(label)

    def prepare(self, label: str) -> None:
        site = self.home / "sites" / label
        (site / "readings.csv").write_text("time,value\n" + rows(label, 0, FIRST))
        text = (site / "agent.toml").read_text()
        (site / "agent.toml").write_text(re.sub(r"\n\[observers\].*", TIMES, text, flags=re.S))

    def more_readings(self, labels: tuple[str, ...]) -> None:
        for label in labels:
            with (self.home / "sites" / label / "readings.csv").open("a") as file:
                file.write(rows(label, FIRST, ALL))

    def new_site(self, label: str, port: int, near: tuple[str, ...]) -> None:
        """Its folder, as its operator makes it from a neighbour's file and its own keys."""
        text = (self.home / "sites" / near[0] / "agent.toml").read_text()
        found = re.search(r'listen = \["(.*?)"\]', text)
        assert found
        peers = [f'{near[0]} = "{found[1]}"']
        peers += re.findall(rf'^(?:{"|".join(near[1:])}) = ".*?"', text, re.M)
        text = text.replace(near[0], label).replace(found[1], f"tls/127.0.0.1:{port}")
        text = re.sub(
            r"\[peers\].*?\n\n", "[peers]\n" + "\n".join(peers) + "\n\n", text, flags=re.S
        )
        site = self.home / "sites" / label
        (site / "state").mkdir(parents=True)
        (site / "agent.toml").write_text(text)
        (site / "readings.csv").write_text("time,value\n" + rows(label, 0, ALL))

    def start(self, label: str) -> None:
        with (self.home / f"{label}.log").open("a") as log:
            self.running[label] = subprocess.Popen(
                [*VEILSUM, "agent", f"sites/{label}/agent.toml", "--json"],
                cwd=self.home, stdout=log, stderr=log, text=True,
            )  # fmt: skip

    def veilsum(self, *words: str, code: int = 0, or_code: int = 0) -> str:
        done = subprocess.run(
            [*VEILSUM, *words], cwd=self.home, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode in (code, or_code or code), done.stdout + done.stderr + self.logs()
        if or_code:  # what it is for is in what was said
            assert (done.returncode == or_code) == ("lost: its part in query" in done.stdout)
        return done.stdout

    def status(self, label: str) -> dict[str, Any]:
        path = self.home / "sites" / label / "state" / f"{label}.ledger.status.json"
        try:
            return dict(json.loads(path.read_text()))
        except (OSError, ValueError):
            return {}

    def coverage(self, label: str) -> dict[str, Any]:
        return dict(self.status(label).get("coverage", {}))

    def wait(self, condition: Callable[[], Any], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, what + self.logs()
            time.sleep(0.1)

    def logs(self) -> str:
        return "".join(
            f"\n--- {path.stem}\n{path.read_text()[-3000:]}" for path in self.home.glob("*.log")
        )

    def said(self, label: str, text: str) -> bool:
        return text in (self.home / f"{label}.log").read_text()

    def ledger(self, label: str) -> Any:
        return read_ledger(self.home / "sites" / label / "state" / f"{label}.ledger")

    def end(self, label: str) -> int:
        return self.running[label].wait(PATIENCE)

    def close(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Callable[[str], RunningFleet]]:
    made: list[RunningFleet] = []

    def maker(mode: str) -> RunningFleet:
        made.append(RunningFleet(tmp_path, MODES[mode]))
        return made[-1]

    yield maker
    for one in made:
        one.close()


def origins(ledger: Any) -> list[str]:
    return [name for entry in ledger.entries for name in entry.origins if name]


@pytest.mark.parametrize("mode", ["stream", "asynchronous", "masked"])
def test_members_come_and_go_while_the_others_run(
    mode: str, fleet: Callable[[str], RunningFleet]
) -> None:
    run = fleet(mode)
    masked = mode == "masked"
    for label in SITES:
        run.start(label)
    run.wait(
        lambda: all(run.coverage(label).get("contributing") == 3 for label in SITES),
        "the first epoch has no estimate",
    )
    before = {label: run.ledger(label).entries for label in SITES}

    (port,) = free_ports(1)
    sign_in(run.home, "south")
    run.new_site("south", port, ("north", "east"))
    run.veilsum("members", "add", f"south=127.0.0.1:{port}", "--link", "north", "--link", "east")
    run.veilsum("members", "rollout")
    run.start("south")
    run.more_readings(SITES)
    everyone = (*SITES, "south")
    run.wait(
        lambda: all(run.coverage(label).get("contributing") == 4 for label in everyone),
        "the newcomer is not in the estimate",
    )
    assert len({run.status(label)["manifest"] for label in everyone}) == 1
    for label in SITES:
        assert run.running[label].poll() is None  # the same process
        assert run.status(label)["process"] == run.running[label].pid
        assert run.said(label, "epoch 2 is adopted (joined: south)")
        now = run.ledger(label)
        assert now.entries[: len(before[label])] == before[label]  # nothing was lost
        if not masked:  # a value of a masked sum may need a second attempt
            assert len(set(origins(now))) == len(origins(now))  # nor released again

    # A query of a masked sum may be under way, in which its part is lost.
    left = run.veilsum("members", "leave", "sites/west/agent.toml", or_code=3 if masked else 0)
    assert "west has left:" in left
    assert run.end("west") == (0 if masked else 3)  # its mass is with the others, a sum is not
    stay = ("north", "east", "south")
    if not masked:
        assert "handed over" in left
        assert "lost: nothing" in left
        found = re.search(r"(\d+) readings? of the open batch", left)
        released = sum(entry.readings for entry in run.ledger("west").entries)
        assert released + int(found[1] if found else 0) <= ALL  # none of them was released
        run.wait(
            lambda: all(run.coverage(label).get("left") == ["west"] for label in stay),
            "nobody knows that west has left",
        )
        assert all(run.coverage(label)["lost"] == [] for label in stay)

    run.veilsum("members", "remove", "west")
    run.veilsum("members", "rollout")
    run.wait(
        lambda: all(
            (run.coverage(label).get("members"), run.coverage(label).get("former")) == (3, ["west"])
            for label in stay
        ),
        "the third epoch was not adopted",
    )
    if not masked:
        run.wait(
            lambda: all(run.coverage(label)["contributing"] == 3 for label in stay),
            "mixing did not begin anew",
        )
    for label in stay:
        run.running[label].send_signal(signal.SIGTERM)
        run.end(label)
    said = (run.home / "north.log").read_text()
    assert "former members, not in it: west" in said


def test_an_edited_epoch_changes_nothing_and_is_reported(
    fleet: Callable[[str], RunningFleet],
) -> None:
    run = fleet("asynchronous")
    for label in SITES:
        run.start(label)
    run.wait(
        lambda: all(run.coverage(label).get("contributing") == 3 for label in SITES),
        "there is no estimate",
    )
    before = {label: run.status(label)["manifest"] for label in SITES}
    run.veilsum("members", "remove", "west")
    run.veilsum("members", "rollout", "--out", "signed.json")
    text = (run.home / "signed.json").read_text()
    (run.home / "epoch.json").write_text(text.replace("north,east", "north,evil"))
    run.wait(
        lambda: all(run.said(label, "is not signed by the authority") for label in SITES),
        "the edited epoch was not reported",
    )
    assert {label: run.status(label)["manifest"] for label in SITES} == before
    (run.home / "signed.json").replace(run.home / "epoch.json")
    stay = ("north", "east")
    run.wait(
        lambda: all(run.coverage(label).get("former") == ["west"] for label in stay),
        "the signed epoch was not adopted",
    )
    assert (
        run.end("west") == 3
    )  # also if the others were in epoch 2 first: who has left has no estimate
    assert run.said("west", "epoch 2 has no member west")
    assert run.said("west", '"reason": "left"')
    north = run.running["north"].pid
    os.kill(north, signal.SIGSTOP)  # it cannot answer
    try:
        run.veilsum("members", "leave", "sites/north/agent.toml", "--wait", "0.5", code=1)
    finally:
        os.kill(north, signal.SIGCONT)


def test_an_offline_estimate_goes_on_without_a_member_that_never_comes(
    fleet: Callable[[str], RunningFleet],
) -> None:
    """All members are waited for, and one is dead: the next epoch is without it."""
    run = fleet("offline")
    edit(
        run.home / "scenario.toml",
        ('name = "learn"', 'name = "average"'),
        ("batches = { growth = 2.0, longest = 24 }", ""),
        ("open_ended = true", ""),
    )
    for label in ("north", "east"):
        run.start(label)
    run.wait(
        lambda: all(run.said(label, "west (never heard)") for label in ("north", "east")),
        "nobody waits for west",
    )
    run.veilsum("members", "remove", "west")
    run.veilsum("members", "rollout")
    assert [run.end(label) for label in ("north", "east")] == [0, 0]
    for label in ("north", "east"):
        covered = run.coverage(label)
        assert (covered["contributing"], covered["members"], covered["former"]) == (2, 2, ["west"])
        assert len(run.ledger(label).entries) == 1
