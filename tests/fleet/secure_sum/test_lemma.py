"""The lemma of the secure sum, by enumeration: at most one sum over one roster leaves the keepers.

Everything that c colluding keepers and everyone else see together is compared with the lemma, for every
choice of rosters by the other keepers (or a random part of the choices, where there are too many).
"""

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fleet.secure_sum.whole_view import Setting, View, add, holds, opened
from veilsum.fleet.secure_sum.numbers import SumNumbers


def rosters(at: Setting, forked: bool = False) -> list[frozenset[Any]]:
    """Honest parts of rosters: all but at most d sites, with one of the two posts of site 0 if it forked."""
    out = []
    for missing in range(at.absent + 1):
        for gone in itertools.combinations(range(at.honest), missing):
            present = [i for i in range(at.honest) if i not in gone]
            out.append(frozenset((i, 0) for i in present))
            if forked and 0 in present:
                out.append(frozenset((i, int(i == 0)) for i in present))
    return out


def view(at: Setting, answers: dict[int, frozenset[Any]], words: random.Random | None) -> View:
    """All deals, answers, and single check words (which fix the combined ones)."""
    seen = View(at)
    posts = sorted({post for roster in answers.values() for post in roster})
    challenge = {post: words.randrange(at.p) if words else 0 for post in posts}
    for post in posts:
        seen.post(post)
    for j, roster in answers.items():
        seen.answer(j, roster)
        for post in roster if words else ():
            seen.word(j, post, challenge[post])
    return seen


def choices(
    at: Setting, forked: bool, most: int, rng: random.Random
) -> Iterator[dict[int, frozenset[Any]]]:
    """Who answers what, or nothing: all choices, or so many drawn at random."""
    possible = [None, *rosters(at, forked)]
    every: Iterator[Any]
    if len(possible) ** len(at.answering) <= most:
        every = itertools.product(possible, repeat=len(at.answering))
    else:
        every = iter([tuple(rng.choice(possible) for _ in at.answering) for _ in range(most)])
    for chosen in every:
        yield {j: g for j, g in zip(at.answering, chosen, strict=True) if g is not None}


def violations(at: Setting, forked: bool = False, most: int = 400, words: bool = True) -> int:
    rng = random.Random(7)
    return sum(
        not holds(at, answers, view(at, answers, rng if words else None).leaks())
        for answers in choices(at, forked, most, rng)
    )


def threshold(honest: int, absent: int, keepers: int, colluding: int) -> int:
    """The shipped one."""
    corrupt = max(colluding, 1)
    return SumNumbers(honest + corrupt, keepers, colluding, corrupt, absent).threshold


def settings(p: int, largest: int, columns: int = 1) -> Iterator[Setting]:
    """All k, c, d, honest sites and packs that a field of p has points for."""
    for k in range(2, largest + 1):
        for c, honest, pack in itertools.product(range(k), (2, 3, 4), (1, 2)):
            if k + pack > p:
                continue
            for d in range(honest):
                t = threshold(honest, d, k, c)
                if t + pack - 1 > k:
                    continue
                first, last = tuple(range(1, c + 1)), tuple(range(k - c + 1, k + 1))
                for colluders in {first, last}:
                    yield Setting(p, honest, d, k, colluders, t, pack, columns)


@pytest.mark.parametrize(("p", "largest"), [(5, 4), (7, 5)])
def test_at_most_one_sum_leaves_the_keepers(p: int, largest: int) -> None:
    assert sum(violations(at, most=40) for at in settings(p, largest)) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("p", "largest", "columns"), [(5, 4, 1), (5, 4, 2), (7, 5, 1), (11, 7, 1)])
def test_at_most_one_sum_leaves_the_keepers_exhaustively(
    p: int, largest: int, columns: int
) -> None:
    cases = settings(p, largest, columns)
    assert sum(violations(at, most=1300 if p < 11 else 40) for at in cases) == 0


@pytest.mark.parametrize("pack", [1, 2])
def test_all_choices_of_five_keepers_of_whom_one_colludes(pack: int) -> None:
    at = Setting(7, 3, 0, 5, (5,), threshold(3, 0, 5, 1), pack)
    assert violations(at, most=10_000) == 0
    assert violations(Setting(7, 3, 1, 4, (1,), threshold(3, 1, 4, 1)), most=10_000) == 0


@pytest.mark.parametrize("pack", [1, 2])
def test_two_deals_of_one_site_change_nothing(pack: int) -> None:
    at = Setting(7, 4, 1, 5, (2,), threshold(4, 1, 5, 1), pack)
    assert violations(at, forked=True, most=250) == 0


def test_t_or_more_answers_to_one_roster_open_its_sum() -> None:
    """The checker is not blind: it sees the sum that is meant to leave, from s honest answers on."""
    at = Setting(7, 4, 1, 5, (1,), threshold(4, 1, 5, 1))
    everyone = frozenset((i, 0) for i in range(4))
    for count in range(len(at.answering) + 1):
        answers = dict.fromkeys(at.answering[:count], everyone)
        leaks = view(at, answers, random.Random(1)).leaks()
        assert opened(leaks) == ({everyone} if count >= at.s else set())


def test_one_keeper_less_in_the_threshold_opens_two_rosters() -> None:
    """Weakened twin: 2t = k + c. Half of the honest keepers answer each of two rosters."""
    at = Setting(7, 4, 1, 4, (), 2)
    assert violations(at, most=1300) > 0


def test_disjoint_rosters_and_their_union_need_the_second_half_of_the_rule() -> None:
    """Weakened twin: 4d > n - c' and t = (k + c)/2 + 1. One answer each to X, Y and X + Y leaks."""
    strong = Setting(7, 2, 1, 3, (), threshold(2, 1, 3, 0))
    assert strong.t == 3
    assert violations(strong) == 0
    weak = Setting(7, 2, 1, 3, (), 2)
    x, y = frozenset([(0, 0)]), frozenset([(1, 0)])
    leaks = view(weak, {1: x, 2: y, 3: x | y}, random.Random(1)).leaks()
    (form,) = leaks
    a, b = form["value", (0, 0), 0, 0], form["value", (1, 0), 0, 0]
    assert a == 4 * b % 7  # 4 S(X) + S(Y)
    assert violations(weak) > 0


def test_g_in_the_answers_opens_a_second_combination() -> None:
    """Weakened twin: answers add up g too; with the words that is the sum weighted by r."""
    at = Setting(7, 2, 0, 3, (1,), threshold(2, 0, 3, 1))
    posts = frozenset([(0, 0), (1, 0)])
    for with_g in (False, True):
        seen = View(at)
        for post in posts:
            seen.post(post)
        for j in at.answering:
            seen.answer(j, posts, with_g)
            seen.word(j, (0, 0), 2)
            seen.word(j, (1, 0), 3)
        assert len(seen.leaks()) == (2 if with_g else 1)


def test_two_words_of_one_deal_open_it() -> None:
    """Weakened twin: a second word with another r."""
    at = Setting(7, 2, 0, 3, (1,), threshold(2, 0, 3, 1))
    for second in (2, 3):
        seen = View(at)
        seen.post((0, 0))
        for j in at.answering:
            seen.word(j, (0, 0), 2)
            seen.word(j, (0, 0), second)
        assert len(seen.leaks()) == (second != 2)


class CopiedPads(View):
    """Weakened: the pads of a copy are those of the deal that it copies, as if the site were not in them."""

    def pad(self, post: Any, column: int, j: int) -> Any:
        return super().pad((0, 0) if post == "copy" else post, column, j)


@pytest.mark.parametrize(("kind", "broken"), [(View, False), (CopiedPads, True)])
def test_copied_key_and_cells(kind: type[View], broken: bool) -> None:
    """A corrupt site copies E and all cells of site 0; a roster names both, and the copy is summed too."""
    at = Setting(7, 2, 0, 3, (1,), threshold(2, 0, 3, 1))
    seen, first, second = kind(at), (0, 0), (1, 0)
    for post in (first, second):
        seen.post(post)
    for j in range(1, at.keepers + 1):
        pads = (1, seen.pad("copy", 0, j)), (-1, seen.pad(first, 0, j))
        copied = add((1, seen.share(first, 0, j)), *pads)
        if j in at.colluders:
            seen.seen.append(copied)
        else:
            given = (1, seen.share(first, 0, j)), (1, seen.share(second, 0, j)), (1, copied)
            seen.seen.append(add(*given))
    leaks = seen.leaks()
    assert (opened(leaks) is None) == broken
    assert len(leaks) == broken
