"""All processes of a fleet are killed at random moments: one charge for a reading, one result.

1,000 such kills take about an hour (`make test-slow`). VEILSUM_KILL_ALLS names a folder in which the
progress is kept: with it a run that was interrupted, or had no more time (VEILSUM_KILL_ALLS_SECONDS,
by default 5,400), goes on where it was. VEILSUM_KILL_ALLS_COUNT is the number of kills.
"""

import json
import os
import random
import shutil
import time
from pathlib import Path

import pytest

from tests.agents.chaos.kill_all import DoomedFleet, Nursery, doom

COUNT, SECONDS = 1000, 5400.0
LONGEST = 1.5  # seconds until a kill: a fleet that nobody kills is done after about one
EACH = 5  # kills of one fleet at most


def test_a_fleet_is_killed_twice_and_finishes_with_one_charge_each(tmp_path: Path) -> None:
    with Nursery() as nursery:
        fleet = DoomedFleet(tmp_path / "fleet", nursery)
        _, some = doom(fleet, random.Random(3), kills=2, longest=LONGEST)
    assert some == 2


def test_a_ledger_that_does_not_survive_a_kill_is_caught(tmp_path: Path) -> None:
    """The weakened variant: what was released is forgotten, and would be drawn anew."""
    with Nursery() as nursery:
        fleet = DoomedFleet(tmp_path / "fleet", nursery)
        fleet.start_all()
        fleet.finish()
        fleet.check_result()
        for path in (tmp_path / "fleet" / "ledgers").glob("0.ledger*"):
            path.unlink()
        with pytest.raises(AssertionError, match="the release of 0 is gone"):
            fleet.check()


@pytest.mark.slow
def test_a_thousand_kills_of_all_processes(tmp_path: Path) -> None:
    home = Path(os.environ.get("VEILSUM_KILL_ALLS", tmp_path))
    count = int(os.environ.get("VEILSUM_KILL_ALLS_COUNT", COUNT))
    end = time.monotonic() + float(os.environ.get("VEILSUM_KILL_ALLS_SECONDS", SECONDS))
    progress = home / "progress.json"
    found = {"kills": 0, "of all": 0, "fleets": 0}
    if progress.exists():
        found = json.loads(progress.read_text())
    with Nursery() as nursery:
        while found["kills"] < count:
            assert time.monotonic() < end, (
                f"{found['kills']} of {count} kills were made in the time there is; run it again "
                f"with VEILSUM_KILL_ALLS={home}"
            )
            folder, rng = home / f"fleet-{found['fleets']}", random.Random(found["fleets"])
            shutil.rmtree(folder, ignore_errors=True)  # of a run that was interrupted
            all_of, some = doom(DoomedFleet(folder, nursery), rng, rng.randint(1, EACH), LONGEST)
            found["kills"] += some
            found["of all"] += all_of
            found["fleets"] += 1
            progress.write_text(json.dumps(found))
            shutil.rmtree(folder)
    print(
        f"{found['kills']} kills of all processes ({found['of all']} met all), {found['fleets']} fleets"
    )
