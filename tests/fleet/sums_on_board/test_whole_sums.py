"""Sums of all kinds through the real step: exact without noise, and with the noise that the page says."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fleet.fleets import KEEPER, SITE, Rows, SmallFleet
from tests.fleet.sums_on_board.around import DAY, DEADLINE, SumFleet, asked, lying_roster
from veilsum.fleet.encoding import decode
from veilsum.fleet.membership import ASKER, Member, Witnesses, following
from veilsum.fleet.post import Kind
from veilsum.fleet.question import FleetQuestion, Worded
from veilsum.fleet.release_rules import SECURE_SUM, noise_for
from veilsum.fleet.secure_sum.numbers import SumNumbers
from veilsum.fleet.store import FolderStore
from veilsum.fleet.sum_posts import numbers_of
from veilsum.privacy.exact.entropy import SYSTEM


def worded(*asks: Worded, **more: Any) -> FleetQuestion:
    given: dict[str, Any] = {"epsilon": 1.0, "protocol": SECURE_SUM, "deadline": DEADLINE}
    return FleetQuestion(asks=asks, **{**given, **more})


KWH = Worded("mean", ("kwh",), {"--between": [["0", "40"]]})
BINS = Worded("histogram", ("kwh",), {"--between": [["0", "40"]], "--bins": [["1024"]]})
DAYS = Worded(
    "survival", ("kwh",), {"--between": [["0", "40"]], "--bins": [["8"]], "--event": [["event"]],
                           "--events": [["1"]], "--censored": [["0"]]},
)  # fmt: skip
QUESTIONS = {
    "a mean": worded(KWH),
    "two questions": worded(KWH, Worded("count", ())),
    "delta: Skellam": worded(KWH, delta=1e-6, noise="skellam"),
    "persons at three sites": worded(KWH, sites_per_person=3),
    "groups": worded(KWH, by=("arm", ("new", "old"))),
}


def patients(name: str, k: int) -> dict[str, Any]:
    """Rows of a site."""
    del name
    n = 40 + k
    return {
        "kwh": [float((7 * k + 3 * i) % 40) for i in range(n)],
        "days": [float((11 * i + k) % 360) for i in range(n)],
        "event": [(i + k) % 2 for i in range(n)],
        "arm": ["new" if i % 3 else "old" for i in range(n)],
    }


def patient_fleet(tmp_path: Path, sites: int, patch: pytest.MonkeyPatch, **more: Any) -> SumFleet:
    fleet = SumFleet(tmp_path, sites, patch, **more)
    for k, name in enumerate(fleet.names):
        fleet.sources[name] = type(fleet.sources[name])(patients(name, k))
    return fleet


@pytest.mark.parametrize("what", QUESTIONS)
def test_a_sum_is_that_of_one_table(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = QUESTIONS[what]
    fleet = patient_fleet(tmp_path, 5, monkeypatch)
    fleet.ask(question)
    fleet.approve(question)
    fleet.rounds()
    for name in fleet.keys:
        answer = fleet.read(question, name)
        assert answer is not None
        assert answer.steps == fleet.exact(question)
        assert answer.records == (210 if question.records_public else 0)
        assert answer.draws == Fraction(5, 3)
        assert (answer.covers, answer.at_odds) == ("5 of 5 sites", ())
        assert fleet.stage(question, name) == ""
    assert fleet.key_files() == []
    assert {fleet.spent(name) for name in fleet.names} == {question.event.epsilon}
    fleet.clean()


def test_a_histogram_of_1024_bins_is_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = worded(BINS)
    assert question.length >= 1024
    fleet = patient_fleet(tmp_path, 20, monkeypatch)
    fleet.ask(question)
    fleet.rounds()
    answer = fleet.read(question)
    assert answer is not None
    assert answer.numbers is not None
    assert answer.numbers.pack == 3
    assert answer.steps == fleet.exact(question)
    (size,) = {post.size for post in fleet.left(Kind.DEAL)}
    assert size < 23_000 * question.length / 1024


def test_survival_by_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    question = worded(DAYS, by=("arm", ("new", "old")))
    fleet = patient_fleet(tmp_path, 5, monkeypatch)
    fleet.ask(question)
    fleet.rounds()
    answer = fleet.read(question)
    assert answer is not None
    assert answer.steps == fleet.exact(question)
    shown = decode(question, answer.steps, answer.records, answer.draws)
    assert shown


def test_a_folder_and_witnesses(tmp_path: Path) -> None:
    """Members as witnesses: an Answer, too, waits until they hold its header."""
    place = FolderStore(tmp_path / "board", create=True)
    fleet = SmallFleet(
        tmp_path / "sites", 5, store=place, witnesses=Witnesses(("s0", "s1", "s2", "s3"), 3, 1)
    )
    question = asked()
    fleet.ask(question)
    for _ in range(9):
        fleet.step()
    answer = fleet.answer("s4", question)
    assert answer is not None
    assert answer.covers == "5 of 5 sites"


# ---- who takes part


def test_who_says_no_is_not_asked_to_deal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = SumFleet(tmp_path, 6, monkeypatch)
    fleet.sources["s1"] = Rows({"other": [1.0]})
    question = asked()
    fleet.ask(question)
    fleet.rounds()
    answer = fleet.read(question)
    assert answer is not None
    assert answer.missing == ("s1",)
    assert answer.steps == fleet.exact(question, *[n for n in fleet.names if n != "s1"])
    assert answer.numbers is not None
    assert (answer.numbers.sites, answer.numbers.absent, answer.numbers.honest) == (5, 0, 4)
    assert fleet.left(Kind.DEAL, "s1") == fleet.left(Kind.KEY, "s1") == []
    assert fleet.spent("s1") == 0


def test_only_sites_deal_and_only_keepers_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = SumFleet(tmp_path, 7, monkeypatch)
    roles = {"s5": (KEEPER,), "s6": (SITE,), "desk": (ASKER,)}
    members = [Member(m.name, m.key, roles.get(m.name, m.roles)) for m in fleet.membership.members]
    fleet.admit(following(fleet.membership, members))
    question = asked()
    fleet.ask(question)
    fleet.rounds()
    answer = fleet.read(question)
    assert answer is not None
    assert "s5" not in answer.sites
    assert "s6" in answer.sites
    query = fleet.query(question).query
    assert [keeper.label for keeper in query.keepers] == ["s0", "s1", "s2", "s3", "s4", "s5"]
    assert fleet.left(Kind.DEAL, "s5") == fleet.left(Kind.ANSWER, "s6") == []


def test_a_late_site_is_not_in_and_pays_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = SumFleet(tmp_path, 5, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(1)
    others = ["desk", "s0", "s1", "s2", "s3"]
    fleet.rounds(2, *others)
    assert fleet.stage(question) == "waits for s4"
    assert fleet.read(question) is None
    fleet.now = DEADLINE + 1
    fleet.rounds(1)  # the roster is named before s4 comes, and after the deadline nobody deals
    fleet.rounds(2)
    answer = fleet.read(question, "s4")
    assert answer is not None
    assert answer.missing == ("s4",)
    assert answer.steps == fleet.exact(question, "s0", "s1", "s2", "s3")
    assert fleet.spent("s4") == 0
    assert fleet.left(Kind.ANSWER, "s4")  # keeps all the same


def test_a_roster_ends_the_dealing_before_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = SumFleet(tmp_path, 5, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(1)
    fleet.rounds(1, "desk", "s0", "s1", "s2", "s3")
    lying_roster(fleet, question, ["s0", "s1", "s2", "s3"], by="s0")
    fleet.rounds(2, *fleet.names)
    assert fleet.spent("s4") == 0
    assert fleet.read(question, "s4") is not None


def test_too_few_at_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = SumFleet(tmp_path, 5, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(1)
    fleet.rounds(2, "desk", "s0", "s1", "s2")
    fleet.now = DEADLINE + 1
    fleet.rounds(3)
    assert fleet.read(question) is None
    assert fleet.stage(question) == (
        "3 of at least 4 sites were in at its deadline: there is no sum; ask again"
    )


def test_a_deadline_that_passes_before_all_have_agreed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = SumFleet(tmp_path, 5, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(2, "desk", "s0")
    fleet.now = DEADLINE + 1
    fleet.rounds(2)
    assert fleet.left(Kind.QUERY) == []
    assert "its deadline was over before it could be asked" in fleet.stage(question)
    fleet.now = DEADLINE + 40 * DAY
    fleet.rounds(1)
    assert fleet.key_files() == []


def test_two_questions_at_once_and_one_on_two_boards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = SumFleet(tmp_path, 5, monkeypatch)
    one, two = asked(), asked(nonce="again")
    fleet.ask(one)
    fleet.ask(two)
    fleet.rounds(1)
    assert len(fleet.key_files()) == 10
    fleet.rounds(3)
    assert fleet.read(one) is not None
    assert fleet.read(two) is not None
    assert fleet.spent("s0") == 2.0
    assert fleet.key_files() == []
    fleet.clean()


# ---- numbers


def test_numbers_are_those_that_the_authority_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = SumFleet(tmp_path, 8, monkeypatch)
    signed = {"colluding": 2, "corrupt": 3, "absent": 1, "wrong": 1}
    fleet.admit(following(fleet.membership, fleet.membership.members, sums=signed))
    assert numbers_of(fleet.membership) == SumNumbers(8, 8, 2, 3, 1, 1)
    assert numbers_of(fleet.membership, 7) == SumNumbers(7, 8, 2, 3, 0, 1)
    question = asked()
    fleet.ask(question)
    fleet.rounds()
    answer = fleet.read(question)
    assert answer is not None
    assert answer.numbers == SumNumbers(8, 8, 2, 3, 1, 1)
    assert answer.draws == 2


def test_keepers_of_a_large_fleet_are_named_by_the_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever could choose 200 keepers of 4,941 would choose those 988 that collude."""
    fleet = SumFleet(tmp_path, 3, monkeypatch)

    def membership(keepers: int, **sums: int) -> Any:
        members = [
            Member(f"a{k}", f"{k:020x}{0:044x}", (SITE, KEEPER) if k < keepers else (SITE,))
            for k in range(4941)
        ]
        first = fleet.membership.members
        gone = [Member(m.name, m.key, ()) for m in first]
        return following(fleet.membership, [*gone, *members], sums=sums)

    for wrong in (membership(4941), membership(200), membership(501, colluding=83)):
        with pytest.raises(
            Exception, match="take the role from the others, and sign colluding = 83"
        ):
            numbers_of(wrong)
    found = numbers_of(membership(200, colluding=83))
    assert (found.keepers, found.colluding, found.threshold, found.corrupt) == (200, 83, 142, 988)


# ---- noise


LAWS = {"laplace": asked(), "skellam": asked(delta=1e-6, noise="skellam")}


@pytest.mark.parametrize(
    ("law", "n", "inside"), [("laplace", 5, 5), ("laplace", 20, 18), ("skellam", 5, 4)]
)
def test_the_error_is_that_of_as_many_shares(law: str, n: int, inside: int) -> None:
    """The variance of |F| shares is |F|/h of the law's.

    That of N draws has a standard deviation of s = sqrt((kurtosis - 1)/N), the kurtosis being at most
    3 + 3 h/|F|. Within 8 s by the normal law a false alarm is below 1e-14; the tail e^-sqrt(2 y) of a square
    leaves it below 1e-6 at N = 2,000, as one draw of 300 variances has a chance of e^-24.
    """
    question, count = LAWS[law], 2_000
    h = SumNumbers(n, n, max(1, n // 5), max(1, n // 5), max(1, n // 10)).honest
    (share,) = noise_for(question, Fraction(1, h))
    draws = np.array(share.draw(inside * count, SYSTEM), float).reshape(count, inside).sum(axis=1)
    expected = float(question.laws[0].variance) * inside / h
    kurtosis = 3 + 3 * h / inside
    assert abs(float(np.mean(draws**2)) / expected - 1) < 8 * np.sqrt((kurtosis - 1) / count)


def test_a_site_draws_one_share_and_an_answer_says_how_many_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With noise: what was dealt adds up to the answer exactly."""
    fleet = SumFleet(tmp_path, 5, monkeypatch, noise=True)
    question = asked()
    fleet.ask(question)
    fleet.rounds()
    answer = fleet.read(question)
    assert answer is not None
    assert answer.steps == tuple(map(sum, zip(*fleet.dealt.values(), strict=True)))
    assert answer.steps != fleet.exact(question)
    shown = decode(question, answer.steps, answer.records, answer.draws)
    assert shown[0][0].low < shown[0][0].value < shown[0][0].high
