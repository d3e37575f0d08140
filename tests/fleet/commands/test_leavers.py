"""Members that leave, and a board that is not where it was: answers stay, nothing is written elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.fleet.fleets import NOW, SmallFleet, mean
from veilsum.fleet.membership import following
from veilsum.fleet.status_of import look


def remove(fleet: SmallFleet, *names: str) -> None:
    members = [
        replace(one, roles=()) if one.name in names else one for one in fleet.membership.members
    ]
    fleet.admit(following(fleet.membership, members))


def test_a_finished_sum_stays_when_a_site_and_the_asker_leave(tmp_path: Path) -> None:
    fleet = SmallFleet(tmp_path, 3)
    question = mean("secure-sum", deadline=NOW + 3600)
    fleet.ask(question)
    for _ in range(4):
        fleet.step()
    before = fleet.answer("s0", question)
    assert before is not None
    remove(fleet, "s2", "desk")
    fleet.step()
    after = fleet.answer("s0", question)
    assert after is not None
    assert (after.steps, after.records) == (before.steps, before.records)
    with fleet.open("s0") as site:
        (found,) = look(site, site.seat(), fleet.now).questions
    assert not found.problem
    assert found.found


def test_nobody_agrees_to_a_question_of_an_asker_that_left(tmp_path: Path) -> None:
    fleet = SmallFleet(tmp_path, 3)
    question = mean("pool")
    fleet.ask(question)
    remove(fleet, "desk")
    fleet.step()
    fleet.step()
    assert fleet.answer("s0", question) is None


def test_an_empty_folder_in_place_of_the_board_is_no_board(tmp_path: Path) -> None:
    fleet = SmallFleet(tmp_path, 2)
    fleet.ask(mean("pool"))
    fleet.step()
    held = fleet.store.snapshot()  # type: ignore[attr-defined]
    fleet.store.restore({})  # type: ignore[attr-defined]
    (report,) = fleet.step("s0")
    assert any("shows no membership" in problem for problem in report.problems)
    assert not fleet.store.snapshot()  # type: ignore[attr-defined]
    fleet.store.restore(held)  # type: ignore[attr-defined]
    (report,) = fleet.step("s0")
    assert not report.problems
