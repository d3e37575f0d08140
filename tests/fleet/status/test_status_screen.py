"""The screen of a fleet: nothing is cut, and five sites or five hundred are one screen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fleet.fleets import NOW, SmallFleet, mean
from tests.fleet.status.test_status import HOUR, seen_by, streaming
from tests.front.test_screen import check_widths
from veilsum.fleet.attention import attention
from veilsum.fleet.question import FleetQuestion, Worded
from veilsum.fleet.status import (
    FleetStatus,
    FoundNumber,
    MemberRelease,
    MemberView,
    OwnBudget,
    QuestionStatus,
    SlotFound,
    Trouble,
)
from veilsum.front.of_fleet import day, moment, status_lines, troubles

WIDTHS = (60, 80, 100, 120)
ROOM = 24  # lines of a terminal
words = st.text(alphabet="abcdefgh0123456789.-", min_size=1, max_size=24)
texts = st.lists(words, min_size=0, max_size=9).map(" ".join)


def view(name: str, **more: Any) -> MemberView:
    return replace(MemberView(name, ("site", "keeper"), name, age=20, seen_at=NOW - 20), **more)


def large(sites: int) -> FleetStatus:
    """The fleet of the design page: one is silent, one behind, all others are well."""
    number = (FoundNumber("mean of load", (50.8,), (48.9,), (52.7,), unit="kWh"),)
    all_slots = (FoundNumber("mean of load", (49.6,), (49.2,), (50.0,), unit="kWh"),)
    start = NOW - NOW % HOUR - HOUR
    question = QuestionStatus(
        "ab12", "mean of load", "desk", "pool", "", 0.01, 0.0, "1 h", inside=sites - 3, of=sites,
        missing=("bern", "brig", "visp"), agreed=("bern", "brig", "visp"),
        found=all_slots, latest=SlotFound(1, 1, start, start + HOUR, sites - 4, number),
    )  # fmt: skip
    behind = MemberRelease("ab12", 3, 5, start, 1, True)
    members = [view(f"site-{k}") for k in range(sites - 5)]
    members += [view("chur", silent=True, age=4800), view("sion", releases=(behind,))]
    members += [view(name) for name in question.missing]
    budget = OwnBudget("data", 0.42, 0.58, 0.42, 1.0, "year", NOW + 60 * 86_400)
    return FleetStatus(
        NOW, "north-grid", 3, 64 * "a", "basel", 64 * "b", 64 * "c", (question,), tuple(members),
        (budget,),
    )  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
def test_five_sites_or_five_hundred_are_one_screen(width: int) -> None:
    heights = set()
    for sites in (8, 50, 500):
        lines = status_lines(large(sites), width)
        check_widths("\n".join(lines), width)
        assert len(lines) <= ROOM, "\n".join(lines)
        heights.add(len(lines))
    assert max(heights) - min(heights) <= 1  # a longer number may take another line


def test_it_says_what_the_design_page_says() -> None:
    text = "\n".join(status_lines(large(50), 80))
    assert text.splitlines()[0] == "north-grid, epoch 3, as basel" + 43 * " " + "50 sites"
    for said in (
        "mean of load, every 1 h, pool, epsilon 0.01", "47 of 50 sites", "50.8 ± 1.9 kWh of 46 sites",
        "all slots  49.60 ± 0.40 kWh", "chur     silent for 1 h 20 min", "veilsum fleet remove chur",
        "sion     1 slot behind", "none silent for more than 20 s", "epsilon 0.42 of 1 per year",
        "enough until 16 March", "3 sites  agreed to mean of load, but not in yet: bern, brig, visp",
    ):  # fmt: skip
        assert said in text, f"{said!r} is not in\n{text}"
    assert "site-1" not in text


@pytest.mark.parametrize("width", WIDTHS)
def test_no_cell_is_cut(width: int) -> None:
    """Every word of the model's lines is on the screen, whatever its width."""
    status = large(50)
    shown = " ".join("\n".join(status_lines(status, width)).split())
    for one in attention(status):
        for text in (one.who, one.what, one.remedy):
            assert " ".join(text.split()) in shown


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.builds(Trouble, words, texts, texts, words), max_size=12),
    st.sampled_from(WIDTHS),
)
def test_lines_of_any_length_are_whole(found: list[Trouble], width: int) -> None:
    lines = troubles(found, width)
    check_widths("\n".join(lines), width)
    wanted = [word for one in found for word in f"{one.who} {one.what} {one.remedy}".split()]
    assert sorted(" ".join(lines).split()) == sorted(wanted)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_real_fleet_of_three_kinds_of_questions(tmp_path: Path, width: int) -> None:
    fleet = streaming(tmp_path, sites=3)
    fleet.ask(mean("secure-sum", deadline=fleet.now + HOUR))
    bins = Worded("histogram", ("kwh",), {"--between": [["0", "40"]], "--bins": [["8"]]})
    fleet.ask(FleetQuestion(asks=(bins,), epsilon=1.0, protocol="pool"))
    fleet.step()
    fleet.step()
    lines = status_lines(seen_by(fleet, "s0"), width)
    check_widths("\n".join(lines), width)
    text = "\n".join(lines)
    assert "10 to 15" in text
    assert "and 2 more components; --json has all" in " ".join(text.split())
    assert "mean of kwh, secure-sum, epsilon 1" in text


def test_nothing_yet(tmp_path: Path) -> None:
    fleet = SmallFleet(tmp_path, 2)
    fleet.joined("newcomer")
    text = " ".join("\n".join(status_lines(seen_by(fleet, "newcomer"), 80)).split())
    assert "No question has been asked." in text
    assert "send its line to the authority: newcomer" in text


@pytest.mark.parametrize(
    ("at", "zone", "said"),
    [(NOW, "UTC", "08:00"), (NOW, "Europe/Zurich", "09:00"), (NOW - 86_400, "UTC", "14 Jan 08:00"),
     (NOW - 86_400 * 30, "UTC", "16 Dec 2026 08:00")],
)  # fmt: skip
def test_times(at: int, zone: str, said: str) -> None:
    assert moment(at, NOW, zone) == said


def test_days() -> None:
    assert day(NOW + 86_400, NOW) == "16 January"
    assert day(NOW + 365 * 86_400, NOW) == "15 January 2028"
