"""ask --fleet, inbox, approve, step, run, ledger, up: a question from its words to its sheet."""

from __future__ import annotations

import itertools
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.commands.folders import MEAN, SITES, WRONG, Folders, squeezed
from veilsum.errors import StoreBusyError
from veilsum.fleet import asking
from veilsum.fleet.database import SiteFile
from veilsum.fleet.joining import FleetAuthority
from veilsum.fleet.running import DONE, LATER, PERSON, STOPPED, one_step, run
from veilsum.fleet.site import Site
from veilsum.fleet.store import FolderStore

NOW = 1_800_000_000


@pytest.fixture
def stepping(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whoever waits for an answer lets these sites step meanwhile."""
    names = list(SITES)
    looks = itertools.count()

    def sleep(_: float) -> None:
        assert next(looks) < 60, "no answer"
        for name in names:
            found = one_step(folders.place(name), int(time.time()))
            assert found.code == DONE, found
        if not names:
            raise KeyboardInterrupt

    monkeypatch.setattr("veilsum.cli.fleet_ask.pause", sleep)
    return names


def test_one_line_asks_three_sites_and_prints_a_sheet(
    folders: Folders, stepping: list[str]
) -> None:
    del stepping
    folders.begin()
    said = squeezed(folders.veilsum("desk", f"ask {MEAN}"))
    assert "Asking 3 sites of board: mean of kwh, by secure-sum. It costs each epsilon 1" in said
    assert "Mean of kwh, 3 of 3 sites of board" in said
    assert "no more than 1 of the keepers and 1 of the sites pool" in said
    assert "Spent 1 epsilon of the own budget of each of 3 sites" in said
    found = json.loads(folders.veilsum("desk", f"ask {MEAN} --json -o load"))
    assert found["sites"] == list(SITES)
    assert 10 < found["answers"][0]["value"] < 14
    assert found["files"] == ["load.html", "load.csv"]
    for name in SITES:
        assert "2 of 3 epsilon is left" in folders.fleet(name, "ledger show")
        assert "mean of kwh (desk): epsilon 1, 1 release" in folders.fleet(name, "ledger report")
        assert "1 charge stands as it was" in folders.fleet(name, "ledger verify")
    lines = json.loads(folders.fleet("north", "ledger report --json"))["lines"]
    assert {line["epsilon"] for line in lines} == {1.0}


def test_the_same_line_again_costs_nothing_and_fresh_costs_again(
    folders: Folders, stepping: list[str]
) -> None:
    folders.begin("north", "east")
    stepping.remove("west")
    pool = f"{MEAN} --json"
    first = json.loads(folders.veilsum("desk", f"ask {pool}"))
    assert first["protocol"] == "pool"
    before = folders.stored()
    again = json.loads(folders.veilsum("desk", f"ask {pool}"))
    assert again["answers"][0]["value"] == first["answers"][0]["value"]
    assert folders.stored() == before
    fresh = json.loads(folders.veilsum("desk", f"ask {pool} --fresh"))
    assert fresh["question"] != first["question"]
    assert "1 of 3 epsilon is left" in folders.fleet("north", "ledger show")
    third = json.loads(folders.veilsum("desk", f"ask {pool}"))
    assert third["question"] == fresh["question"]


def test_ctrl_c_leaves_the_question_and_the_same_line_goes_on(
    folders: Folders, stepping: list[str]
) -> None:
    folders.begin()
    stepping.clear()
    said = squeezed(folders.veilsum("desk", f"ask {MEAN}", 130))
    assert "The same line again waits for it and costs nothing" in said
    stepping.extend(SITES)
    said = squeezed(folders.veilsum("desk", f"ask {MEAN}"))
    assert "Asking 3 sites" not in said
    assert "3 of 3 sites" in said


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("mean kwh --between 0 40 --fleet ../board", "--eps is missing"),
        ("mean kwh --between 0 40 --eps 1 --fleet ../elsewhere", "no fleet at ../elsewhere"),
        ("mean kwh --between 0 40 --eps 1 --limit 3 --fleet ../board", "--limit is of a table"),
        ("mean kwh --eps 1 --fleet ../board", "between"),
        ("maen kwh --eps 1 --fleet ../board", "mean"),
        (f"{MEAN} --protocol rounds", "protocol"),
        (f"{MEAN} --quorum 2", "quorum is of a pool"),
        (f"{MEAN} --deadline soon", "--deadline"),
        (f"{MEAN} --every 1h --deadline 2h", "--deadline is of a question that is asked once"),
        (f"{MEAN} --every 1h --protocol secure-sum", "a secure sum is asked once"),
        (f"{MEAN} --most-records 1000000000000", "60 bits"),
        ("count --by region --eps 1 --fleet ../board", "takes the groups"),
    ],
)
def test_a_mistake_posts_nothing(folders: Folders, words: str, expected: str) -> None:
    folders.begin()
    before = folders.stored()
    assert expected in squeezed(folders.veilsum("desk", f"ask {words}", WRONG))
    assert folders.stored() == before


def test_who_may_not_ask_learns_who_may(folders: Folders) -> None:
    folders.begin()
    folders.step("north")
    said = squeezed(folders.veilsum("north", f"ask {MEAN}", 1))
    assert "north may not ask board" in said
    assert "site.toml" in squeezed(folders.veilsum("nobody", f"ask {MEAN}", WRONG))


def test_a_fleet_without_sites_is_not_asked(folders: Folders) -> None:
    folders.fleet("desk", "init ../board --mounted")
    assert "has no site yet" in squeezed(folders.veilsum("desk", f"ask {MEAN}", 1))


def posted(folders: Folders, words: str = MEAN) -> None:
    """Post a question, and do not wait."""
    with pytest.MonkeyPatch.context() as patch:

        def leave(_: float) -> None:
            raise KeyboardInterrupt

        patch.setattr("veilsum.cli.fleet_ask.pause", leave)
        folders.veilsum("desk", f"ask {words}", 130)


def ledger(folders: Folders, name: str) -> list[Any]:
    with SiteFile(folders.place(name) / "site.db") as file:
        return file.rows("select * from charges")


def test_a_question_that_nobody_approved_changes_nothing(folders: Folders) -> None:
    folders.begin(joined="")
    posted(folders, f"{MEAN} --protocol pool")
    before = folders.stored()
    for _ in range(3):
        for name in SITES:
            assert one_step(folders.place(name), NOW - 90_000_000).code == DONE
            folders.fleet(name, "inbox")
            folders.fleet(name, "inbox --json")
    assert folders.stored() == before
    assert not any(ledger(folders, name) for name in SITES)


def test_the_inbox_shows_what_is_asked_and_a_person_says_yes_or_no(folders: Folders) -> None:
    folders.begin(joined="")
    posted(folders, f"{MEAN} --protocol pool")
    said = squeezed(folders.step("north"))
    assert "desk asks mean of kwh for epsilon 1: this site has no [policy]" in said
    assert folders.step("north") == ""  # said once a day
    said = squeezed(folders.fleet("north", "inbox"))
    for part in (
        "desk asks mean of kwh (pool, epsilon 1)", "It costs epsilon 1 of this site's budget; 2 is left",
        "noise would move", "as if this site had no rows",
    ):  # fmt: skip
        assert part in said
    (found,) = json.loads(folders.fleet("north", "inbox --json"))["questions"]
    mark = found["question"][:8]
    assert found["epsilon_after"] == 2.0
    assert "no open question begins with 0000" in folders.fleet("north", "approve 0000", 1)
    assert "--post-reason is of a no" in folders.fleet(
        "north", f"approve {mark} --post-reason x", 2
    )
    folders.fleet("north", f"approve {mark}")
    assert "released mean of kwh" in folders.step("north")
    assert "Nothing waits" in folders.fleet("north", "inbox")
    assert "[yes by person]" in squeezed(folders.fleet("north", "inbox --all"))
    assert "has answered already" in squeezed(folders.fleet("north", f"approve {mark} --no", 1))
    folders.step("east", "west")
    folders.fleet("east", f"approve {mark} --no")
    with_reason = folders.place("west")
    with Site(with_reason) as site:
        from veilsum.fleet import inbox

        inbox.refuse(site, inbox.found(site, mark, 0), "ask our board first", 0)
    folders.step("east", "west")
    said = squeezed(folders.veilsum("desk", f"ask {MEAN} --protocol pool"))
    assert "1 of 3 sites" in said
    assert "east said no." in said
    assert "west said no: ask our board first." in said


def test_a_secure_sum_that_too_few_agree_to_ends_with_their_reasons(folders: Folders) -> None:
    folders.begin(joined="")
    posted(folders)
    folders.step("north")
    (found,) = json.loads(folders.fleet("north", "inbox --json"))["questions"]
    folders.fleet("north", f"approve {found['question'][:8]} --no --post-reason never")
    folders.step("north")
    said = squeezed(folders.veilsum("desk", f"ask {MEAN}", 1))
    assert "too few sites agree. north: never" in said


def test_a_site_whose_column_is_missing_says_so(folders: Folders, stepping: list[str]) -> None:
    del stepping
    folders.begin()
    said = squeezed(
        folders.veilsum("desk", "ask mean kw --between 0 40 --eps 1 --fleet ../board", 1)
    )
    assert "this site has no column 'kw'" in said


def test_a_quorum_is_enough_and_a_question_that_repeats_does_not_wait(
    folders: Folders, stepping: list[str]
) -> None:
    folders.begin()
    stepping.remove("west")
    said = squeezed(folders.veilsum("desk", f"ask {MEAN} --protocol pool --quorum 2"))
    assert "2 of 3 sites" in said
    assert "Not in it: west." in said
    said = squeezed(folders.veilsum("desk", f"ask {MEAN} --every 1h"))
    assert "sites answer each slot when it is over" in said


def test_a_step_says_what_is_new_and_its_code_what_to_do(folders: Folders) -> None:
    folders.begin("north", "east")
    place = folders.place("north")
    assert one_step(place, NOW).lines == []
    with Site(place), pytest.MonkeyPatch.context() as patch:
        patch.setattr("veilsum.fleet.database.WAIT", 0.05)
        assert one_step(place, NOW).code == LATER
    folders.board.rename(folders.root / "away")
    outcomes = [one_step(place, NOW + at) for at in (0, 60, 3700, 3800, 3700 + 86_400)]
    assert [one.code for one in outcomes] == [LATER] * 5
    assert [bool(one.lines) for one in outcomes] == [False, False, True, False, True]
    (folders.root / "away").rename(folders.board)
    (place / "site.toml").write_text("name = 3\n")
    broken = one_step(place, NOW)
    assert broken.code == PERSON
    assert "line 1" in broken.lines[0]
    assert "site.toml" in squeezed(folders.fleet("north", "step", 1))


def test_a_site_that_is_not_admitted_waits(folders: Folders) -> None:
    folders.fleet("desk", "init ../board --mounted")
    folders.join("north")
    found = one_step(folders.place("north"), NOW)
    assert (found.code, len(found.lines)) == (DONE, 1)
    assert "has not admitted this site yet" in found.lines[0]


def test_the_log_has_each_line_with_its_time(folders: Folders, stepping: list[str]) -> None:
    folders.begin("north", "east")
    stepping.remove("west")
    toml = folders.place("north") / "site.toml"
    toml.write_text(toml.read_text() + '\n[site]\nlog = "site.log"\n')
    folders.veilsum("desk", f"ask {MEAN}")
    log = (folders.place("north") / "site.log").read_text()
    assert "Z approved mean of kwh of desk\n" in log


class Flaky(FolderStore):
    """Fails while `fails` is set."""

    fails = True

    def names(self, prefix: str) -> dict[str, str]:
        if type(self).fails:
            raise StoreBusyError("the store is away")
        return super().names(prefix)

    def version(self, name: str) -> str | None:
        if type(self).fails:
            raise StoreBusyError("the store is away")
        return super().version(name)


def test_run_waits_longer_while_a_store_is_away_and_ends_when_it_should(folders: Folders) -> None:
    folders.begin("north", "east")
    waits: list[float] = []

    def opening(folder: Path) -> Site:
        return Site(folder, stores=Flaky)

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        Flaky.fails = len(waits) < 6
        return len(waits) == 9

    said: list[str] = []
    code = run(
        folders.place("north"), every=10.0, say=said.append, clock=lambda: NOW, wait=wait,
        opening=opening,
    )  # fmt: skip
    Flaky.fails = True
    assert code == DONE
    assert waits[4] > 100 > 12 >= waits[8]
    assert said == []


def test_run_ends_where_the_site_has_stopped(folders: Folders) -> None:
    folders.begin("north", "east")
    with Site(folders.place("north")) as site, site.file.transaction():
        site.file.set("stopped", b"number 2 was claimed by another copy of this site")
    said: list[str] = []
    code = run(
        folders.place("north"), every=1.0, say=said.append, clock=lambda: NOW, wait=lambda _: False
    )
    assert code == STOPPED
    assert "has stopped for good" in said[0]
    assert "for good" in folders.step("north", code=3)


def test_up_tries_a_whole_fleet(folders: Folders) -> None:
    before = threading.active_count()
    found = json.loads(folders.fleet("any", "up --sites 3 --json"))
    assert found["sites"] == ["site1", "site2", "site3"]
    assert threading.active_count() == before
    said = squeezed(folders.fleet("any", "up count --sites 2 --keep here"))
    assert "2 of 2 sites" in said
    assert (folders.place("any") / "here" / "desk" / "site.toml").exists()


def test_an_epoch_between_question_and_answer_is_said(
    folders: Folders, stepping: list[str]
) -> None:
    """A site that joins later is not in a sum that was begun, and is in a pool."""
    folders.begin("north", "east")
    stepping.clear()
    posted(folders, f"{MEAN} --protocol pool")
    folders.join("west")
    folders.fleet("desk", "admit west")
    stepping.extend(SITES)
    assert "3 of 3 sites" in squeezed(folders.veilsum("desk", f"ask {MEAN} --protocol pool"))
    with FleetAuthority(folders.place("desk")).seated() as seat:
        assert asking.usual_protocol(seat.membership) == "secure-sum"
