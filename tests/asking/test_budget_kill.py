"""A budget whose processes are killed, raced or denied the disk: real processes, none of them timed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL and fork"),
]
WORKER = Path(__file__).with_name("budget_worker.py")


def worked(what: str, folder: Path, *weakened: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, WORKER, what, folder, *weakened],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    print(f"{what}: {found['places']} places")
    return found


@pytest.mark.parametrize("how", ["kill", pytest.param("half", marks=pytest.mark.slow), "full"])
def test_nothing_is_lost_or_drawn_twice_wherever_a_question_ends(how: str, tmp_path: Path) -> None:
    found = worked(how, tmp_path)
    assert found["places"] > 30
    assert not found["wrong"]


def test_a_weakened_twin_that_charges_after_the_answer_shows_two_answers(tmp_path: Path) -> None:
    assert any("two answers" in wrong for wrong in worked("kill", tmp_path, "weakened")["wrong"])


@pytest.mark.parametrize("what", ["race", "copies"])
def test_two_at_once_do_not_overspend(what: str, tmp_path: Path) -> None:
    assert not worked(what, tmp_path)["wrong"]


@pytest.mark.parametrize("what", ["race", "copies"])
def test_a_weakened_twin_without_a_transaction_overspends(what: str, tmp_path: Path) -> None:
    assert worked(what, tmp_path, "weakened")["wrong"]
