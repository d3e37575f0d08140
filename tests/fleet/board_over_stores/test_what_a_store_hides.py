"""A store that withholds, goes back or splits the view is named; an honest one that is late is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.fleet.board_over_stores.late import LateObjects, LateView
from tests.fleet.fleets import NOW, SmallFleet, mean
from veilsum.fleet.membership import following
from veilsum.fleet.post import Kind, Topic, short
from veilsum.fleet.seat import sample_of
from veilsum.fleet.store import MemoryStore
from veilsum.fleet.withheld import LATE

HOUR = 3600
START = NOW // HOUR * HOUR
TABLE = mean("pool")
HOURLY = mean("pool", schedule={"every": "1 h"})
AT = [START + HOUR * hour + 5 for hour in range(1200)]


def rows(_: str, k: int) -> dict[str, list[float]]:
    return {"at": list(map(float, AT)), "kwh": [10.0 + k] * len(AT)}


class Views:
    """One store, of which each member has a view with faults of its own."""

    def __init__(self, folder: Path, sites: int = 6) -> None:
        self.objects: dict[str, bytes] = {}
        self.stores: dict[str, MemoryStore] = {}
        self.fleet = SmallFleet(
            folder, sites, store=self.view("authority"), stores=lambda name, _: self.view(name)
        )

    def view(self, name: str) -> MemoryStore:
        return self.stores.setdefault(name, MemoryStore("memory", self.objects))

    def hide(self, name: str, hidden: Callable[[str], bool]) -> None:
        self.view(name).withheld = hidden

    def about(self, name: str) -> str:
        return f"post/{short(self.fleet.keys[name])}/{Topic(Kind.POOL, TABLE.digest).name}"

    def said(self, name: str) -> list[str]:
        (report,) = self.fleet.step(name)
        return report.traffic.withheld + report.traffic.rolled_back

    def others(self, *but: str) -> list[str]:
        return [name for name in self.fleet.keys if name not in but]


def test_a_post_that_is_withheld_is_named_in_two_steps(tmp_path: Path) -> None:
    views = Views(tmp_path)
    views.fleet.ask(TABLE)
    views.hide("s0", lambda name: name == views.about("s1"))
    views.fleet.step(*views.others("s0"))
    views.fleet.step(*views.others("s0"))
    assert views.said("s0") == [], "it may be on its way"
    views.fleet.now += LATE
    said = views.said("s0")
    assert said
    assert all("holds number 1 of s1 (pool-" in text and "not shown here" in text for text in said)
    (report,) = views.fleet.step("s0")
    assert set(said) <= set(report.problems)
    views.hide("s0", lambda _: False)
    assert views.said("s0") == []
    assert views.said("s0") == []


def test_a_question_that_is_withheld_is_named(tmp_path: Path) -> None:
    views = Views(tmp_path)
    hidden = short(TABLE.digest)
    views.hide("s0", lambda name: hidden in name)
    views.fleet.ask(TABLE)
    for _ in range(2):
        views.fleet.step(*views.others("s0"))
    assert views.said("s0") == []
    views.fleet.now += LATE
    views.fleet.step(*views.others("s0"))
    (first, *_) = views.said("s0")
    assert "whose question is not shown here" in first


def test_a_question_that_was_over_is_not_missed(tmp_path: Path) -> None:
    """A list of a member that has not stepped since names it still."""
    views = Views(tmp_path)
    question = mean("pool", deadline=NOW + HOUR)
    views.fleet.ask(question)
    for _ in range(2):
        views.fleet.step()
    views.fleet.now += 40 * 86_400
    views.fleet.step(*views.others("s5"))
    views.fleet.rekey("s0")
    for _ in range(4):
        views.fleet.now += HOUR
        assert views.said("s0") == []


@pytest.mark.parametrize("later", [0, 1])
def test_a_store_that_goes_back_is_named_at_once(tmp_path: Path, later: int) -> None:
    views = Views(tmp_path)
    views.fleet.ask(TABLE)
    views.fleet.step()
    views.fleet.step()
    kept = dict(views.objects)
    for _ in range(1 + later):
        views.fleet.now += HOUR
        views.fleet.step()
    views.objects.clear()
    views.objects.update(kept)
    assert any("shows an older list of" in text for text in views.said("s0"))


def test_a_number_that_goes_back_is_named_at_once(tmp_path: Path) -> None:
    store = MemoryStore("memory")
    fleet = SmallFleet(tmp_path, 3, store=store, rows=rows)
    fleet.now = START + 10
    fleet.ask(HOURLY)
    fleet.step()
    kept: list[dict[str, bytes]] = []
    for hour in (1, 2):
        fleet.now = START + hour * HOUR + 120
        fleet.step()
        kept.append(store.snapshot())
    fleet.step()
    name = fleet.object("s1", Kind.POOL, HOURLY.digest)
    store.objects[name] = kept[0][name]
    (report,) = fleet.step("s0")
    (said,) = report.traffic.rolled_back
    assert "shows number 1 of s1" in said
    assert "and 2 was there before" in said
    (report,) = fleet.step("s1")
    assert store.objects[name] != kept[0][name], "its maker writes it again"


def test_an_object_that_vanishes_is_named_in_two_steps(tmp_path: Path) -> None:
    views = Views(tmp_path)
    views.fleet.ask(TABLE)
    for _ in range(3):
        views.fleet.step()
    views.hide("s0", lambda name: name == views.about("s1"))
    assert views.said("s0") == []
    views.fleet.now += LATE
    (said,) = views.said("s0")
    assert "no longer shows pool-" in said
    assert "of s1, which was there before" in said


def test_an_older_membership_is_named(tmp_path: Path) -> None:
    views = Views(tmp_path)
    kept = dict(views.objects)
    views.fleet.step()
    views.fleet.admit(following(views.fleet.membership, views.fleet.membership.members))
    views.fleet.step()
    views.objects.update(kept)
    (said,) = views.said("s0")
    assert "shows membership 1, and 2 was there before" in said


def test_a_split_view_is_named_on_both_sides(tmp_path: Path) -> None:
    """Each half is shown the posts of its own; the lists of the other half give it away."""
    views = Views(tmp_path)
    halves = ({"s0", "s1", "s2"}, {"s3", "s4", "s5"})
    views.fleet.ask(TABLE)
    for half, other in (halves, halves[::-1]):
        hidden = {views.about(name) for name in other}
        for name in half:
            views.hide(name, lambda found, hidden=hidden: found in hidden)  # type: ignore[misc]
    for _ in range(2):
        views.fleet.step()
    views.fleet.now += LATE
    named = {name for name in views.others("desk") if views.said(name)}
    assert named == halves[0] | halves[1]


def test_a_view_that_stands_still_is_as_old_as_its_lists(tmp_path: Path) -> None:
    """A half that is shown nothing of the other cannot know why: the other half is silent to it."""
    views = Views(tmp_path)
    views.fleet.ask(TABLE)
    views.fleet.step()
    kept = dict(views.objects)
    store = views.view("s0")
    store.objects = dict(kept)
    views.fleet.now += 5 * HOUR
    views.fleet.step(*views.others("s0"))
    assert views.said("s0") == []
    with views.fleet.open("s0") as site:
        seen = site.seat().seen
        ages = {views.fleet.now - seen[views.fleet.keys[name]].at for name in ("s3", "s4", "s5")}
    assert ages == {5 * HOUR}


def test_how_many_lists_a_step_reads() -> None:
    """At 500 members two, so that half of them are enough to find a post in 4/3 steps on average."""
    assert [sample_of(count) for count in (3, 50, 125, 200, 500, 5000)] == [8, 8, 8, 5, 2, 2]


# ---- honest stores


def honest(folder: Path, hours: int, seed: int) -> int:
    """Hours in which everything arrives up to `LATE` - 1 seconds late; how many steps there were."""
    random, now = Random(seed), [START + 10]
    objects = LateObjects(lambda: now[0], LATE - 1)
    fleet = SmallFleet(
        folder, 4, rows=rows, store=LateView(objects, "authority"),
        stores=lambda name, _: LateView(objects, name),
    )  # fmt: skip
    now[0] += LATE
    fleet.now = now[0]
    fleet.ask(HOURLY)
    steps = 0
    for _ in range(hours):
        for name in random.sample(list(fleet.keys), len(fleet.keys)):
            now[0] += random.randrange(20, 2 * LATE)
            fleet.now = now[0]
            if random.random() < 0.9:
                steps += 1
                for report in fleet.step(name):
                    said = report.traffic.withheld + report.traffic.rolled_back
                    assert said == [], (seed, steps, said)
    found = fleet.answer("s0", HOURLY)
    assert found is not None
    assert len(found.sites) >= 2
    return steps


@pytest.mark.parametrize("seed", range(10))
def test_an_honest_store_that_is_late_is_not_named(tmp_path: Path, seed: int) -> None:
    assert honest(tmp_path, 12, seed) > 40


@pytest.mark.slow
def test_1000_honest_runs(tmp_path: Path) -> None:
    for seed in range(1000):
        honest(tmp_path / str(seed), 6, seed)
