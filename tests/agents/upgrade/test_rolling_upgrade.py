"""A fleet that is upgraded site by site: real processes, mutual TLS, and both versions installed.

The old version is the wheel of `baseline/`; what is not in it (numpy, zenoh, cryptography) is the same
for both.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from murmura.agents.config import Setup
from murmura.agents.ledger import read_ledger, verify
from murmura.agents.pki import Authority
from tests.agents.upgrade.fleet import NAMES, START, Fleet, installed

ROUNDS = 100_000  # more than there is time for: the test ends the run


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Callable[..., Fleet]]:
    made: list[Fleet] = []

    def make(*arguments: Any, **more: Any) -> Fleet:
        made.append(Fleet(tmp_path, *arguments, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_the_wheel_is_what_runs() -> None:
    target = installed()
    asked = "import murmura, murmura.agents.wire as w; print(murmura.__file__, w.VERSION)"
    said = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True, timeout=60,
        env=os.environ | {"PYTHONPATH": str(target)},
    ).stdout.split()  # fmt: skip
    assert Path(said[0]).is_relative_to(target)
    assert said[1] == "5"


def ledger(fleet: Fleet, name: str) -> Any:
    return read_ledger(fleet.folder / name / f"{name}.ledger")


def check_ledgers(fleet: Fleet, releases: int) -> None:
    """Every ledger is whole, migrated once, and released each reading once."""
    for name in NAMES:
        path = fleet.folder / name / f"{name}.ledger"
        found = verify(path, Setup.load(fleet.folder / name / "agent.toml").ledger_key())
        assert found.ok, found.problems
        contents = ledger(fleet, name)
        assert contents.meta["format"] == "7"
        assert [c.now for c in contents.changes if c.kind == "migrated"] == ["format 7"]
        assert path.with_name(f"{name}.ledger.format-6").exists()
        assert len(contents.entries) == releases
        assert contents.status.spent.epsilon == releases
        origins = [name for entry in contents.entries for name in entry.origins]
        assert len(set(origins)) == releases, "no reading twice"


def test_gossip_goes_on_while_sites_are_upgraded_one_by_one(fleet: Any) -> None:
    made = fleet(f'name = "average"\nrounds = {ROUNDS}')
    for k, name in enumerate(NAMES):
        made.add_reading(name, 1, 20.0 + 15 * k)
        made.start(name, old=True)
    made.until(lambda: all(made.round(name) > 20 for name in NAMES), "the baseline does not run")
    before = {name: ledger(made, name) for name in NAMES}
    for name in NAMES:
        made.stop(name, kill=name == "south")  # one of them without a chance to say so
        made.start(name)
        made.wait_for_progress(name)
    unit = Setup.load(made.folder / "north" / "agent.toml").manifest.unit
    mean = sum(before[name].entries[0].sums[0] for name in NAMES) / 2**unit / 4

    def agree(name: str) -> bool:
        found = made.status(name)
        return bool(found.get("unprojected")) and abs(found["unprojected"][0] - mean) < 1e-9

    def covers_all(name: str) -> bool:
        return bool(made.status(name)["coverage"]["contributing"] == 4)

    made.until(
        lambda: all(agree(name) and covers_all(name) for name in NAMES),
        "not the mean of what all have released",
    )
    for name in NAMES:
        made.stop(name)
    check_ledgers(made, releases=1)
    for name in NAMES:
        after = ledger(made, name)
        assert [e.hash for e in after.entries] == [e.hash for e in before[name].entries]
        assert after.incarnation == before[name].incarnation, "mixing went on where it was"
        log = made.log(name)
        assert '"migrated"' in log
        for kind in ("mismatch", "conflicting-releases", "rolled-back"):
            assert kind not in log
        new = log.split("--- new")[1]
        assert "of the wire" not in new, "everything that a new agent received was understood"


def test_masked_sums_go_on_while_sites_are_upgraded_one_by_one(fleet: Any) -> None:
    """Each sum needs all four; between two sums one site is upgraded, and one within a session."""
    made = fleet('name = "masked-learn"\nrounds = 4', masked=True)
    for name in NAMES:
        made.start(name, old=True)
    for hour, name in enumerate(NAMES, 1):
        held = NAMES[hour % 4]  # its reading comes last
        for site in NAMES:
            if site != held:
                made.add_reading(site, hour, 10.0 * hour)
        made.until(
            lambda name=name, hour=hour: (
                (made.status(name).get("session") or {}).get("query") == hour
            ),
            f"query {hour} does not open",
        )
        made.stop(name, kill=name == "east")
        made.start(name)
        made.add_reading(held, hour, 10.0 * hour)
        made.until(
            lambda hour=hour: all(len(ledger(made, site).entries) >= hour for site in NAMES),
            f"no sum of query {hour}",
        )
    results = made.finish()
    check_ledgers(made, releases=4)
    estimates = {json.dumps(result["unprojected"]) for result in results.values()}
    assert len(estimates) == 1, "one sum for all"
    for name in NAMES:
        rows = ledger(made, name).queries
        assert [row.query for row in rows] == [1, 2, 3, 4]
        assert all(row.summed for row in rows)
        assert "mismatch" not in made.log(name)


def test_the_version_before_refuses_a_migrated_ledger(fleet: Any) -> None:
    made = fleet(f'name = "average"\nrounds = {ROUNDS}')
    made.add_reading("north", 1, 50.0)
    for old in (True, False):
        made.start("north", old=old)
        made.until(lambda: made.status("north"), "it does not start")
        made.stop("north")
    site = made.folder / "north"
    refused = subprocess.run(
        [sys.executable, "-c", START, "agent", "agent.toml"], cwd=site, capture_output=True,
        text=True, timeout=60, env=os.environ | {"PYTHONPATH": str(made.old)},
    )  # fmt: skip
    assert refused.returncode != 0
    assert "has format 7 and this version of murmura reads format 6 only" in refused.stderr
    assert "nothing was released" in refused.stderr


def test_a_version_that_writes_only_its_own_is_not_understood(fleet: Any) -> None:
    """The weakened variant: without an agreement the baseline refuses what it receives."""
    made = fleet(f'name = "average"\nrounds = {ROUNDS}')
    patched = (
        "from murmura.agents import wire\n"
        "from murmura.agents.transport import negotiation\n"
        "negotiation.LinkVersions.encode = lambda self, message: wire.encode(message)\n"
    )
    for name in NAMES:
        made.add_reading(name, 1, 50.0)
    made.start("north", old=True)
    made.start("east", before=patched)
    made.until(
        lambda: "version 6 of the wire, expected 5" in made.log("north"), "nothing was refused"
    )
    assert made.status("north").get("links", {}).get("east") != "open"


def command(fleet: Fleet, site: str, *words: str, old: bool = False) -> Any:
    """Run `murmura` in the folder of a site, in either version."""
    more = {"PYTHONPATH": str(fleet.old)} if old else {}
    return subprocess.run(
        [sys.executable, "-c", START, *words], cwd=fleet.folder / site, capture_output=True,
        text=True, timeout=60, env=os.environ | more,
    )  # fmt: skip


def roll_back(fleet: Fleet, name: str) -> None:
    """As docs/agents.md says: the version before restores its copy of the ledger."""
    fleet.stop(name)
    site = fleet.folder / name
    (site / f"{name}.ledger").rename(site / "migrated.ledger")
    restored = command(
        fleet, name, "ledger", "restore", f"{name}.ledger.format-6", f"{name}.ledger", old=True
    )
    assert restored.returncode == 0, restored.stderr
    (site / f"{name}.ledger.lock").rename(site / "migrated.ledger.lock")
    fleet.start(name, old=True)


def test_a_site_that_is_rolled_back_is_heard_again_once_its_neighbours_say_so(fleet: Any) -> None:
    made = fleet(f'name = "average"\nrounds = {ROUNDS}')
    for k, name in enumerate(NAMES):
        made.add_reading(name, 1, 20.0 + 15 * k)
        made.start(name, old=name == "north")
    made.until(lambda: all(made.round(name) > 20 for name in NAMES), "they do not run")
    made.stop("north")
    made.start("north")
    made.wait_for_progress("north")
    roll_back(made, "north")
    near = ("east", "west")
    made.until(
        lambda: all("`murmura keys unproved north` on this site" in made.log(n) for n in near),
        "the refusal does not name its remedy",
    )
    assert all(made.status(name)["links"]["north"] != "open" for name in near)
    stranger = command(made, "east", "keys", "unproved", "west")
    assert "west is no neighbour of east; its neighbours are north, south" in stranger.stderr
    for name in near:
        said = command(made, name, "keys", "unproved", "north")
        assert said.returncode == 0, said.stderr
        assert "until north proves one again" in said.stdout
    made.wait_for_progress("north")
    made.until(
        lambda: all(made.status(name).get("links", {}).get("north") == "open" for name in near),
        "no link with the version before",
    )
    assert all('"unproved"' in made.log(name) for name in near)
    denied = Authority.load(made.folder / "keys")
    denied.issue("north", ["127.0.0.1"], renew=True, new_key=True)
    denied.revoke("north", old=True, reason="exposed")
    refused = command(made, "east", "keys", "unproved", "north")
    assert refused.returncode != 0
    assert "nothing was changed: deny list 1 has it" in refused.stderr
