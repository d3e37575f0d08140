"""Who is named when a sum fails: pairs always, one of the two only where c liars cannot have made it up."""

import math
import random
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tests.fleet.secure_sum.small_fleet import SmallFleet, secret
from veilsum.fleet.secure_sum import blame as blame_module
from veilsum.fleet.secure_sum.answer import CheckWords, combined
from veilsum.fleet.secure_sum.blame import Accused, blame
from veilsum.fleet.secure_sum.field import Elements, P, decode, lagrange, product, to_bytes
from veilsum.fleet.secure_sum.numbers import SumNumbers, suggested
from veilsum.fleet.secure_sum.query import SumQuery
from veilsum.fleet.secure_sum.total import total


def accused(fleet: SmallFleet, **changed: dict[str, bytes]) -> Accused:
    answers = {**fleet.answers, **changed.get("answers", {})}
    words = {**fleet.words, **changed.get("words", {})}
    return blame(fleet.query, fleet.roster, answers, words)


def spoilt(body: bytes, at: int = 32, by: int = 1) -> bytes:
    value = (int.from_bytes(body[at : at + 8], "little") + by) % P
    return body[:at] + value.to_bytes(8, "little") + body[at + 8 :]


def lying_words(fleet: SmallFleet, liars: Iterable[str], site: str) -> dict[str, bytes]:
    at = 32 + 8 * [s for s, _ in fleet.roster.deals].index(site)
    return {k: spoilt(fleet.words[k], at, 7 + i) for i, k in enumerate(liars)}


def consistent(fleet: SmallFleet, words: dict[str, bytes]) -> dict[str, bytes]:
    """The answers that liars would have posted with these words."""
    out = {}
    for keeper, body in words.items():
        read = CheckWords.read(body)
        assert read is not None
        word = combined(fleet.roster, np.array(read.words, np.uint64))
        out[keeper] = fleet.answers[keeper][:-8] + to_bytes(word)
    return out


def test_nobody_is_named_where_all_is_well() -> None:
    for n in (5, 20):
        assert accused(SmallFleet(n)) == Accused((), (), (), ())


def test_a_wrong_cell_accuses_a_pair_and_convicts_nobody() -> None:
    """s3 spoils the cell of one honest keeper, which is then at odds with the sum."""
    fleet = SmallFleet(20)
    query = fleet.query
    victim = 18
    cell = 32 + (victim - query.numbers.threshold) * 8 * query.columns
    fleet.deals["s3"] = spoilt(fleet.deals["s3"], cell)
    found = total(query, fleet.answers)
    assert found is not None
    assert found.values == fleet.sum()
    assert found.at_odds == found.words_at_odds == ("s17",)
    assert accused(fleet) == Accused((("s3", "s17"),), (), (), ())


def test_a_rubbish_deal_leaves_no_sum_and_its_site_is_named() -> None:
    fleet = SmallFleet(20)
    rng = random.Random(5)
    body = fleet.deals["s3"]
    for at in range(32, len(body), 8):
        body = spoilt(body, at, rng.randrange(1, P))
    fleet.deals["s3"] = body
    assert total(fleet.query, fleet.answers) is None
    assert accused(fleet) == Accused((), ("s3",), ("s3",), ())


def liars_of(fleet: SmallFleet, count: int) -> list[str]:
    return sorted(fleet.keepers, key=lambda k: secret("liar", k))[:count]


def other_polynomial(fleet: SmallFleet, liars: list[str], site: str) -> dict[str, bytes]:
    """Words that lie on a polynomial with t - 1 honest ones: their best lie."""
    at = 32 + 8 * fleet.query.index[site]
    honest = [j for k, j in fleet.query.point.items() if k not in liars]
    zeros = honest[: fleet.numbers.needed - 1]
    shift = {k: math.prod(fleet.query.point[k] - x for x in zeros) % P for k in liars}
    return {k: spoilt(fleet.words[k], at, shift[k]) for k in liars}


@pytest.mark.parametrize("lie", [lying_words, other_polynomial])
@pytest.mark.parametrize("numbers", [5, 12, 20, 50, SumNumbers(20, 20, 8, 8, 2)])
def test_c_lying_keepers_cannot_convict_an_honest_site(numbers: Any, lie: Any) -> None:
    fleet = SmallFleet(numbers)
    for count in range(1, fleet.numbers.colluding + 1):
        words = lie(fleet, liars_of(fleet, count), "s3")
        found = accused(fleet, words=words, answers=consistent(fleet, words))
        assert found.sites == ()
        assert found.keepers == ()
        assert set(found.pairs) <= {("s3", k) for k in words}
        assert set(found.unclear) <= {"s3"}


def test_without_the_margin_c_liars_convict_an_honest_site(monkeypatch: Any) -> None:
    """Weakened twin: a site is named wherever decoding fails."""
    fleet = SmallFleet(20)
    words = lying_words(fleet, liars_of(fleet, 4), "s3")
    answers = consistent(fleet, words)
    assert accused(fleet, words=words, answers=answers).sites == ()

    def weak(query: SumQuery, points: tuple[int, ...], given: Elements) -> bool:
        return decode(points, given, query.numbers.needed) is None

    monkeypatch.setattr(blame_module, "alone", weak)
    assert accused(fleet, words=words, answers=answers).sites == ("s3",)


def test_a_wrong_answer_names_its_keeper_when_all_words_are_on() -> None:
    fleet = SmallFleet(20, 3)
    lie = {"s7": spoilt(fleet.answers["s7"])}
    assert accused(fleet, answers=lie).keepers == ("s7",)


def test_a_wrong_answer_names_nobody_when_a_word_is_off() -> None:
    fleet = SmallFleet(20)
    words = lying_words(fleet, ["s9"], "s3")
    answers = {**consistent(fleet, words), "s7": spoilt(fleet.answers["s7"])}
    found = accused(fleet, answers=answers, words=words)
    assert (found.pairs, found.keepers) == ((("s3", "s9"),), ())


def test_a_wrong_answer_names_nobody_when_liars_could_have_made_the_rest() -> None:
    """Nine answers of ten agree, three of which may be lies: with six others they would not fix t = 8."""
    fleet = SmallFleet(SumNumbers(12, 12, 3, 3, 1))
    shown = {**fleet.answers, "s5": spoilt(fleet.answers["s5"])}
    found = blame(fleet.query, fleet.roster, shown, fleet.words)
    assert found.keepers == ("s5",)
    few = {k: shown[k] for k in fleet.keepers[:10]}
    assert blame(fleet.query, fleet.roster, few, fleet.words).keepers == ()


def test_words_that_contradict_the_own_answer_name_the_keeper() -> None:
    fleet = SmallFleet(20)
    words = lying_words(fleet, ["s9"], "s3")
    found = accused(fleet, words=words)
    assert (found.pairs, found.keepers) == ((("s3", "s9"),), ("s9",))


def test_words_of_others_and_of_other_rosters_are_ignored() -> None:
    fleet = SmallFleet(5)
    other = CheckWords(bytes(32), (1, 2, 3, 4, 5)).body
    short = CheckWords(fleet.roster.digest, (1, 2)).body
    words = {"s1": other, "s2": short, "s3": b"", "x": fleet.words["s1"]}
    assert blame(fleet.query, fleet.roster, {}, words) == Accused((), (), (), ())
    assert blame(fleet.query, fleet.roster, {}, {}) == Accused((), (), (), ())


def test_a_site_is_named_exactly_if_every_polynomial_misses_more_than_c() -> None:
    """Against all choices of points, for each side of the bound of decoding."""
    rng = random.Random(9)
    for numbers in (suggested(8), suggested(10), SumNumbers(11, 11, 1, 1, 1)):
        fleet, n = SmallFleet(numbers), numbers.keepers
        query, points = fleet.query, tuple(range(1, n + 1))
        needed, c = query.numbers.needed, query.numbers.colluding
        for wrong in range(c + 3):
            values = np.array([secret_words(fleet, k) for k in fleet.keepers], np.uint64)
            for i in rng.sample(range(n), wrong):
                values[i] = rng.randrange(P)
            most = 0
            for base in combinations(range(n), needed):
                nodes = tuple(points[i] for i in base)
                rest = [i for i in range(n) if i not in base]
                there = product(
                    lagrange(nodes, tuple(points[i] for i in rest)),
                    values[list(base)].reshape(-1, 1),
                )
                most = max(most, needed + int((there[:, 0] == values[rest]).sum()))
            assert blame_module.alone(query, points, values) == (n - most > c)


def secret_words(fleet: SmallFleet, keeper: str) -> int:
    return fleet.answered[keeper][1].words[1]
