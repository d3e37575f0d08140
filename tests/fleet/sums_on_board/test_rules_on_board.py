"""Rules K1 to K9 on a board, through the real step: each with the twin that lacks it.

An attack succeeds here if what left honest members opens one site's value, or a second sum.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.secure_sum.small_fleet import interpolated
from tests.fleet.sums_on_board.around import (
    DAY,
    DEADLINE,
    Liar,
    SumFleet,
    answers_left,
    asked,
    lying_query,
    lying_roster,
    opened_sums,
    twin,
)
from veilsum.fleet import sums
from veilsum.fleet.membership import KEEPER, SITE, Member, following
from veilsum.fleet.post import Kind, Topic
from veilsum.fleet.release import Releases
from veilsum.fleet.secure_sum.close import refundable
from veilsum.fleet.secure_sum.deal import public_key, shares
from veilsum.fleet.secure_sum.numbers import SumNumbers
from veilsum.fleet.secure_sum.query import Keeper, SumQuery
from veilsum.fleet.step import SeatStep
from veilsum.fleet.sum_posts import PostedQuery, dealt, keys_of
from veilsum.fleet.sums import proposed

Patch = pytest.MonkeyPatch
FORGED = b"a key of the asker itself".ljust(32, b"!")


def nothing(*_: Any) -> None:
    """In place of a check."""


class OftenReleases(Releases):
    """Without K3 and K4: what was released before is released again."""

    again: tuple[Kind, ...] = ()

    def covered(self, topic: Topic) -> int:
        return 0 if topic.kind in self.again else super().covered(topic)


def often(patch: Patch, *kinds: Kind) -> None:
    patch.setattr(SeatStep.made, "again", kinds, raising=False)


def fleet_of(path: Path, patch: Patch, sites: int = 5, **more: Any) -> SumFleet:
    return SumFleet(path, sites, patch, releases=OftenReleases, **more)


# ---- K1: all that privacy rests on is what the authority signed


def few_keepers(query: SumQuery) -> SumQuery:
    """c shrinks with k: two keepers, of whom none is said to collude."""
    numbers = replace(query.numbers, keepers=2, colluding=0, corrupt=0)
    return replace(query, keepers=query.keepers[:2], numbers=numbers)


def no_noise(query: SumQuery) -> SumQuery:
    """More honest sites than there are: less noise of each."""
    return replace(query, numbers=replace(query.numbers, corrupt=query.numbers.colluding, absent=0))


def own_key(query: SumQuery) -> SumQuery:
    """The asker's own key, in the name of keepers."""
    keys = [public_key(FORGED[:31] + bytes([j])) for j in range(len(query.keepers))]
    keepers = tuple(
        Keeper(one.label, key, one.post) for one, key in zip(query.keepers, keys, strict=True)
    )
    return replace(query, keepers=keepers)


LIES = {
    "few keepers": few_keepers,
    "less noise": no_noise,
    "keys of the asker": own_key,
    "another epoch": lambda q: replace(q, epoch=7),
    "another membership": lambda q: replace(q, membership=bytes(32)),
    "another fleet": lambda q: replace(q, fleet=bytes(32)),
    "another question": lambda q: replace(q, terms=bytes(32)),
    "another deadline": lambda q: replace(q, deadline=q.deadline + 9 * DAY),
    "another bound": lambda q: replace(q, bound=q.bound * 2),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("weakened", [False, True], ids=["shipped", "twin"])
def test_k1_a_query_that_the_authority_did_not_sign_gets_nothing(
    lie: str, weakened: bool, tmp_path: Path, monkeypatch: Patch
) -> None:
    fleet = fleet_of(tmp_path, monkeypatch)
    signed = {"colluding": 1, "corrupt": 2, "absent": 1}
    fleet.admit(following(fleet.membership, fleet.membership.members, sums=signed))
    question = asked()
    fleet.ask(question)
    fleet.rounds(1)
    query = lying_query(fleet, question, LIES[lie])
    if weakened:
        twin(monkeypatch, check=nothing)
    said = fleet.rounds(2, *fleet.names)
    fooled = weakened and lie != "another epoch"  # of which a site asks twice
    assert bool(fleet.left(Kind.DEAL)) is fooled
    quiet = weakened or lie == "another epoch"  # which passes
    assert any(line.startswith("takes no part") for line in said) is not quiet
    assert {fleet.spent(name) for name in fleet.names} == {1.0 if fooled else 0.0}
    if weakened and lie == "keys of the asker":
        (post,) = fleet.left(Kind.DEAL, "s0")
        deal = ("s0", dealt(query, post.body) or b"")
        read = {
            j: shares(query, keeper.label, FORGED[:31] + bytes([j - 1]), [deal])[0, :-1]
            for j, keeper in enumerate(query.keepers, 1)
        }
        assert interpolated(query, read, query.numbers.needed) == fleet.dealt["s0"]


@pytest.mark.parametrize("weakened", [False, True], ids=["shipped", "twin"])
def test_k1_an_older_epoch_is_neither_dealt_to_nor_kept(
    weakened: bool, tmp_path: Path, monkeypatch: Patch
) -> None:
    fleet = fleet_of(tmp_path, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(1)
    fleet.rounds(1, "desk", "s0", "s1", "s2", "s3")
    fleet.admit(following(fleet.membership, fleet.membership.members))
    if weakened:
        twin(monkeypatch, check=nothing)
    fleet.now = DEADLINE + 1
    fleet.rounds(1, "desk")
    fleet.rounds(2, *fleet.names)
    assert (
        bool(fleet.left(Kind.ANSWER, "s4")) is weakened
    )  # it had not found the query in its epoch
    assert not fleet.left(Kind.DEAL, "s4")
    assert fleet.left(Kind.ANSWER, "s0")  # it had


def test_k1_a_keeper_makes_a_key_in_the_newest_epoch_alone(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    fleet = fleet_of(tmp_path, monkeypatch, 6)
    members = [
        Member(m.name, m.key, (SITE,) if m.name == "s5" else m.roles)
        for m in fleet.membership.members
    ]
    question = asked()
    fleet.ask(question)
    fleet.admit(following(fleet.membership, members))
    fleet.rounds(2)
    assert not fleet.left(Kind.KEY, "s5")
    board, posted = fleet.on("desk", question)
    assert sorted(keys_of(board, posted)) == fleet.names[:5]
    assert all(KEEPER in m.roles for m in members if m.name in keys_of(board, posted))


# ---- K3: one Deal a question


@pytest.mark.parametrize("weakened", [False, True], ids=["shipped", "twin"])
def test_k3_one_deal_a_question_whatever_queries_there_are(
    weakened: bool, tmp_path: Path, monkeypatch: Patch
) -> None:
    """An equivocated Query, and an epoch in which it is right: another q, and the same name."""
    fleet = fleet_of(tmp_path, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(2)
    assert len(fleet.left(Kind.DEAL)) == 5
    fleet.admit(following(fleet.membership, fleet.membership.members))
    fleet.rounds(1, *fleet.names)
    epoch, digest = fleet.membership.number, fleet.membership.digest
    query = fleet.query(question, "s0").query
    if weakened:
        often(monkeypatch, Kind.DEAL)
    second = replace(query, epoch=epoch, membership=digest)
    Liar(fleet, "desk").says(Kind.QUERY, question.digest, PostedQuery(second).body, 2)
    fleet.rounds(2, *fleet.names)
    for name in fleet.names:
        bodies = {post.body for post in fleet.left(Kind.DEAL, name)}
        assert (len(bodies) > 1) is weakened
        assert fleet.spent(name) == len(bodies)
    assert bool(fleet.checker.faults["twice"]) is weakened


def test_k3_a_new_key_does_not_deal_again(tmp_path: Path, monkeypatch: Patch) -> None:
    """The ledger is lost after the Deal left, and before; the new key takes over what was spent."""
    fleet = fleet_of(tmp_path, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(1)
    fleet.rounds(1, "desk", "s0")
    fleet.rekey("s0")
    fleet.rounds(2, "s0")
    second = lying_query_of_newest_epoch(fleet, question)
    fleet.rounds(3, *fleet.names)
    assert ("s0", fleet.keys["s0"]) in second.sites
    assert len(fleet.left(Kind.DEAL, "s0")) == 1
    assert fleet.spent("s0") == 1.0
    assert not fleet.left(Kind.ANSWER, "s0")  # a lost key is silent
    fleet.clean()


def lying_query_of_newest_epoch(fleet: SumFleet, question: Any) -> SumQuery:
    fleet.rounds(1, "s1")
    board, posted = fleet.on("s1", question)
    query = proposed(board, posted, fleet.keys["desk"], fleet.names)
    Liar(fleet, "desk").says(Kind.QUERY, question.digest, PostedQuery(query).body, 2)
    return query


def test_k3_one_question_on_two_boards_is_two_queries(tmp_path: Path, monkeypatch: Patch) -> None:
    """A Deal of one board is none on the other (T: q without the fleet, in the pure package)."""
    north = fleet_of(tmp_path / "a", monkeypatch)
    question = asked()
    north.ask(question)
    north.rounds(2)
    query = north.query(question).query
    other = replace(query, fleet=bytes(32))
    for post in north.left(Kind.DEAL):
        assert dealt(query, post.body) is not None
        assert dealt(other, post.body) is None


# ---- K4: one Answer a question


@pytest.mark.parametrize("weakened", [False, True], ids=["shipped", "twin"])
def test_k4_rosters_that_differ_in_one_site(
    weakened: bool, tmp_path: Path, monkeypatch: Patch
) -> None:
    fleet = fleet_of(tmp_path, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(2)
    if weakened:  # robbed of its memory, and of erasing
        often(monkeypatch, Kind.ANSWER)
        monkeypatch.setattr(sums, "erase", nothing)
    lying_roster(fleet, question, fleet.names)
    fleet.rounds(1, *fleet.names)
    lying_roster(fleet, question, fleet.names[1:], 2)
    fleet.rounds(2, *fleet.names)
    query = fleet.query(question, "s0").query
    opened = list(opened_sums(query, answers_left(fleet)).values())
    assert len(opened) == (2 if weakened else 1)
    if weakened:
        assert [max(opened)[0] - min(opened)[0]] == fleet.dealt["s0"]
    else:
        fleet.clean()
        assert len(fleet.left(Kind.ANSWER)) == 5


@pytest.mark.parametrize("split", [1, 2, 3, 4])
def test_k4_two_rosters_at_once_open_one_or_none(
    split: int, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Some keepers are shown one roster, the others another one; one keeper colludes, and answers both."""
    fleet = fleet_of(tmp_path / "fleet", monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(2)
    saved = fleet.keep()
    lying_roster(fleet, question, fleet.names)
    fleet.rounds(1, *fleet.names)
    both = answers_left(fleet)
    first = [item for item in both if item[0] in fleet.names[:split]]
    colluder = [item for item in both if item[0] == "s4"]
    saved.restore()
    fleet.again()
    lying_roster(fleet, question, fleet.names[1:])
    fleet.rounds(1, *fleet.names)
    second = [item for item in answers_left(fleet) if item[0] not in fleet.names[:split]]
    query = fleet.query(question, "s0").query
    assert len(opened_sums(query, [*first, *colluder, *second])) <= 1


@pytest.mark.parametrize("lie", ["too few", "an unknown deal", "no roster", "of another"])
def test_k4_bad_rosters_get_no_answer(lie: str, tmp_path: Path, monkeypatch: Patch) -> None:
    fleet = fleet_of(tmp_path, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(2)
    if lie == "of another":  # signed by a member who did not ask
        roster = lying_roster(fleet, question, fleet.names)
        del fleet.objects[fleet.object("desk", Kind.ROSTER, question.digest)]
        Liar(fleet, "s1").says(Kind.ROSTER, question.digest, roster.body)
    elif lie == "no roster":
        Liar(fleet, "desk").says(Kind.ROSTER, question.digest, b"\x01nothing")
    else:
        roster = lying_roster(fleet, question, fleet.names[: 3 if lie == "too few" else 5])
        if lie == "an unknown deal":
            deals = [(site, bytes(32) if site == "s2" else hash) for site, hash in roster.deals]
            made = replace(roster, deals=tuple(deals))
            Liar(fleet, "desk").says(Kind.ROSTER, question.digest, made.body)
    names = [name for name in fleet.names if (name, lie) != ("s1", "of another")]
    said = fleet.rounds(2, *names)
    assert not fleet.left(Kind.ANSWER)
    assert len(fleet.key_files()) == 5  # the query is still open
    shown = fleet.stage(question, "s0")
    words = {
        "too few": "names 3 of 5 sites", "an unknown deal": "names a deal of 's2' that is not here",
        "no roster": "waits for the asker's roster", "of another": "waits for the asker's roster",
    }  # fmt: skip
    assert words[lie] in shown
    if lie in ("too few", "an unknown deal"):
        assert any("does not answer" in line for line in said)


# ---- K5, K6: what is replayed


def test_a_deal_of_another_query_or_site_is_none(tmp_path: Path, monkeypatch: Patch) -> None:
    fleet = fleet_of(tmp_path, monkeypatch)
    one, two = asked(), asked(nonce="two")
    for question in (one, two):
        fleet.ask(question)
    fleet.rounds(1)
    fleet.rounds(1, "desk", "s0", "s1", "s2", "s3")
    body = fleet.left(Kind.DEAL, "s0")[0].body
    liar = Liar(fleet, "s4")
    for question in (
        one,
        two,
    ):  # a copy of another site's Deal, of the right and of the wrong query
        liar.says(Kind.DEAL, question.digest, body, first=1, last=1)
    fleet.now = DEADLINE + 1
    fleet.rounds(1, "desk")
    fleet.rounds(1, *fleet.names[:4])
    fleet.rounds(1, "desk")
    rosters = [len(fleet.read(q).sites) for q in (one, two) if fleet.read(q)]  # type: ignore[union-attr]
    assert rosters.count(4) >= 1  # where the copy is to another query it is not named
    for question in (one, two):
        answer = fleet.read(question)
        if answer is not None and len(answer.sites) == 4:
            assert answer.steps == fleet.exact(question, "s0", "s1", "s2", "s3")


# ---- K7: the key


@pytest.mark.parametrize("weakened", [False, True], ids=["shipped", "twin"])
def test_k7_no_key_after_the_answer(weakened: bool, tmp_path: Path, monkeypatch: Patch) -> None:
    fleet = fleet_of(tmp_path, monkeypatch)
    if weakened:
        monkeypatch.setattr(sums, "erase", nothing)
    question = asked()
    fleet.ask(question)
    fleet.rounds(2)
    files = fleet.key_files()
    assert len(files) == 5
    assert {(fleet.folder / one).stat().st_mode & 0o777 for one in files} == {0o600}
    fleet.rounds(1)
    assert len(fleet.key_files()) == (5 if weakened else 0)


@pytest.mark.parametrize("gone", ["over", "no asker", "asleep"])
def test_k7_no_key_of_a_question_that_is_over(
    gone: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    fleet = fleet_of(tmp_path, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(2)
    assert len(fleet.key_files()) == 5
    if gone == "no asker":
        members = [
            Member(m.name, m.key, m.roles if m.name != "desk" else ())
            for m in fleet.membership.members
        ]
        fleet.admit(following(fleet.membership, members))
    fleet.now = DEADLINE + (8 * DAY if gone == "over" else 60 * DAY if gone == "asleep" else 0)
    fleet.rounds(1, *fleet.names)
    assert fleet.key_files() == []


def test_k7_a_key_in_a_folder_whose_ledger_is_lost_is_not_used(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    """site.db is lost between the Answer and the erasing: the key that is left must not answer again."""
    fleet = fleet_of(tmp_path, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(2)
    (file,) = (fleet.folder / "s0").glob("keeper-*")
    kept = file.read_bytes()
    lying_roster(fleet, question, fleet.names)
    fleet.rekey("s0")
    file.write_bytes(kept)
    fleet.rounds(2, *fleet.names)
    assert not fleet.left(Kind.ANSWER, "s0")
    assert len(fleet.left(Kind.ANSWER)) == 4
    assert fleet.read(question, "s1") is not None


@pytest.mark.parametrize("moment", range(6))
def test_k7_a_restored_keeper_with_its_key_answers_once(
    moment: int, tmp_path: Path, monkeypatch: Patch
) -> None:
    """A hypervisor goes back to an image, key and all, after the Answer left: the claim refuses another."""
    fleet = fleet_of(tmp_path, monkeypatch)
    question = asked()
    fleet.ask(question)
    image = tmp_path / "image"
    for at in range(6):
        if at == moment:
            shutil.copytree(fleet.folder / "s0", image)
        fleet.rounds(1) if at != 2 else fleet.rounds(1, *fleet.names)
        if at == 1:
            lying_roster(fleet, question, fleet.names)
    shutil.rmtree(fleet.folder / "s0")
    shutil.copytree(image, fleet.folder / "s0")
    lying_roster(fleet, question, fleet.names[1:], 2)
    fleet.rounds(3, *fleet.names)
    fleet.clean()
    assert len({post.body for post in fleet.left(Kind.ANSWER, "s0")}) <= 1
    query = fleet.query(question, "s1").query
    assert len(opened_sums(query, answers_left(fleet))) == 1


# ---- K8: words


def test_k8_words_are_kept_and_posted_only_if_answers_do_not_fit(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    fleet = fleet_of(tmp_path, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(6)
    fleet.now = DEADLINE + DAY
    fleet.rounds(2)
    assert fleet.read(question) is not None
    assert not fleet.left(Kind.WORDS)
    with fleet.open("s0") as site:
        rows = site.file.rows("select mark, length(data) from words")
    assert len(rows) == 6  # one a Deal, and all of them as they would be posted


# ---- K9: Close and refund


def closed_fleet(path: Path, patch: Patch, closing: int, sites: int = 8) -> tuple[SumFleet, Any]:
    """All dealt, the asker never names a roster; so many keepers close."""
    fleet = fleet_of(path, patch, sites)
    question = asked()
    fleet.ask(question)
    fleet.rounds(1)
    fleet.rounds(1, "desk", *fleet.names)
    fleet.now = DEADLINE + 8 * DAY
    fleet.rounds(1, *fleet.names[:closing])
    fleet.rounds(1, *fleet.names[:1])
    return fleet, question


def test_k9_as_many_closes_as_it_takes(tmp_path: Path, monkeypatch: Patch) -> None:
    """k - t + c + 1, and not one less."""
    numbers = SumNumbers(8, 8, 1, 1, 1)
    needed = 8 - numbers.threshold + 1 + 1
    assert needed == 5
    fleet, question = closed_fleet(tmp_path, monkeypatch, needed - 1)
    assert len(fleet.left(Kind.ANSWER)) == needed - 1
    assert fleet.spent("s0") == 1.0  # one Close too few
    fleet.rounds(1, fleet.names[needed - 1])
    fleet.rounds(2, "s0", "s1")
    assert (fleet.spent("s0"), fleet.spent("s1")) == (0.0, 0.0)
    assert "closed it" in fleet.stage(question, "s0")
    with fleet.open("s0") as site:
        assert site.ledger.verify() == 2
    fleet.rounds(3)
    assert {fleet.spent(name) for name in fleet.names} == {0.0}
    fleet.clean()


@pytest.mark.parametrize("weakened", [False, True], ids=["shipped", "twin"])
def test_k9_a_refund_for_one_close_too_few_can_still_be_opened(
    weakened: bool, tmp_path: Path, monkeypatch: Patch
) -> None:
    """One keeper of those that closed lies, and the others answer: t shares, and the sum is open."""
    if weakened:
        monkeypatch.setattr(
            sums,
            "refundable",
            lambda query, closed: refundable(query, [*closed, query.keepers[-1].label]),
        )
    fleet, question = closed_fleet(tmp_path, monkeypatch, 4)
    fleet.rounds(1, *fleet.names[:4])
    assert fleet.spent("s0") == (0.0 if weakened else 1.0)
    liar = "s0"  # closed, and colludes: it kept its key
    fleet.now = DEADLINE + 1
    lying_roster(fleet, question, fleet.names)
    said = [n for n in fleet.names if n not in fleet.names[:4]]
    fleet.rounds(1, *said)
    answers = answers_left(fleet)
    assert len(answers) == 4
    assert len(answers) + len([liar]) == fleet.query(question, "s7").query.numbers.threshold


def test_k9_who_closed_never_answers(tmp_path: Path, monkeypatch: Patch) -> None:
    """Nor does one that is restored from before, key and all, with a clock that went back."""
    fleet = fleet_of(tmp_path, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(2)
    image = tmp_path / "image"
    shutil.copytree(fleet.folder / "s0", image)
    fleet.now = DEADLINE + 8 * DAY
    fleet.rounds(1, *fleet.names)
    fleet.now = DEADLINE + 1
    shutil.rmtree(fleet.folder / "s0")
    shutil.copytree(image, fleet.folder / "s0")
    lying_roster(fleet, question, fleet.names)
    fleet.rounds(2, *fleet.names)
    assert not answers_left(fleet)
    fleet.clean()


def test_k9_who_answered_does_not_close(tmp_path: Path, monkeypatch: Patch) -> None:
    fleet = fleet_of(tmp_path, monkeypatch)
    question = asked()
    fleet.ask(question)
    fleet.rounds(4)
    fleet.now = DEADLINE + 8 * DAY
    fleet.rounds(2)
    assert all(post.body for post in fleet.left(Kind.ANSWER))
    assert {fleet.spent(name) for name in fleet.names} == {1.0}
