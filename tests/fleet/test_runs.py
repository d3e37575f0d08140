"""Runs of whole fleets: random faults in virtual time, processes that are killed, a week of the year."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fleet.random_runs import caught, runs
from tests.fleet.safety.twins import TWINS, Twin
from tests.fleet.soak import NEVER, year
from veilsum.fleet.database import SiteBusyError, SiteFile

ROOT = Path(__file__).resolve().parents[2]
FREQUENT = ("OpenedFirst", "OwnKeyAlone", "nothing_carried")


def test_no_random_run_violates_anything(tmp_path: Path) -> None:
    happened, violated = runs(0, 60, tmp_path / "run")
    assert not violated
    assert min(happened[what] for what in ("crash", "rolled back", "copy started", "re-keyed")) > 2


@pytest.mark.slow
def test_ten_thousand_random_runs_violate_nothing(tmp_path: Path) -> None:
    happened, violated = runs(0, 10_000, tmp_path / "run")
    print(sorted(happened.items()))
    assert not violated


@pytest.mark.parametrize("name", FREQUENT)
def test_the_first_random_runs_find_twins_that_lack_a_whole_rule(name: str, tmp_path: Path) -> None:
    twin = next(twin for twin in TWINS if twin.name == name)
    assert caught(twin, 150, tmp_path / "run")


# Those that 250 runs find. The others need an event that runs hardly have, such as other witnesses in the
# middle of a release, or sixty days: `test_one_release.py` has a scenario that catches each of them.
FOUND = {
    "ChargedAfterwards", "FreshNoise", "NextNumber", "NoSecondReading", "OpenedFirst", "OwnKeyAlone",
    "board_ahead_of_the_disk", "key_outside_the_ledger", "nothing_carried", "register_alone",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "twin",
    [t for t in {t.name: t for t in TWINS}.values() if t.name in FOUND],
    ids=lambda t: t.name,
)
def test_random_runs_find_twins(twin: Twin, tmp_path: Path) -> None:
    assert caught(twin, 400, tmp_path / "run")


def killed(rounds: int) -> dict[str, object]:
    """In a process of its own, which has one thread before it forks."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.fleet.kills", "--rounds", str(rounds)],
        capture_output=True, text=True, cwd=ROOT, timeout=1800, env={**os.environ, **threads},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2000:]
    found: dict[str, object] = json.loads(ended.stdout)
    return found


def check_killed(found: dict[str, object]) -> None:
    assert found["faults"] == {}
    assert found["slots not released"] == 0
    assert found["answers of keepers"] == 3
    assert found["keys of keepers left"] == 0
    outcomes = found["outcomes"]
    assert isinstance(outcomes, dict)
    assert set(outcomes) <= {"step", "busy"}


def test_killing_all_processes_loses_and_repeats_nothing() -> None:
    check_killed(killed(20))


@pytest.mark.slow
def test_killing_all_processes_three_hundred_times() -> None:
    check_killed(killed(300))


def test_the_second_of_two_steps_that_overlap_finds_the_site_busy(tmp_path: Path) -> None:
    path = tmp_path / "site.db"
    with SiteFile(path, new=True):
        code = (
            "import sys; from pathlib import Path\n"
            "from veilsum.fleet.database import SiteBusyError, SiteFile\n"
            "try: SiteFile(Path(sys.argv[1]), wait=0.1)\n"
            "except SiteBusyError: sys.exit(75)"
        )
        assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 75
        with pytest.raises(SiteBusyError), held(path):
            pass
    with held(path):
        pass


@contextmanager
def held(path: Path) -> Iterator[None]:
    """The file, held alone."""
    with SiteFile(path, wait=0.1):
        yield


def test_a_week_with_the_faults_of_a_year() -> None:
    found = year(4, 60, often=60.0)
    assert not any(found[what] for what in NEVER)
    assert found["different answers"] == 1
    assert found["different boards"] == 1
    assert found["faults"]["kill"] > 30
