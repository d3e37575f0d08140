"""Deals, rosters, answers and totals of honest parties: exact sums, exact sizes, exact parsers."""

import random
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fleet.secure_sum.small_fleet import BOUND, SmallFleet, secret
from veilsum.errors import FleetError
from veilsum.fleet.secure_sum import deal as deals_module
from veilsum.fleet.secure_sum.answer import CheckWords, KeeperAnswer, answer
from veilsum.fleet.secure_sum.deal import deal, public_key, valid_deal
from veilsum.fleet.secure_sum.field import P
from veilsum.fleet.secure_sum.numbers import SumNumbers, suggested
from veilsum.fleet.secure_sum.query import Keeper, SumQuery, good_key, key_body, read_key
from veilsum.fleet.secure_sum.roster import CarriedDeal, SumRoster, propose
from veilsum.fleet.secure_sum.total import total

HEADER = 170


@pytest.mark.parametrize(
    ("n", "length"), [(3, 1), (4, 2), (5, 1), (5, 1024), (20, 7), (50, 1), (50, 1024)]
)
def test_the_sum_is_exact(n: int, length: int) -> None:
    fleet = SmallFleet(n, length)
    found = total(fleet.query, fleet.answers)
    assert found is not None
    assert found.values == fleet.sum()
    assert found.roster == fleet.roster.digest
    assert found.agreeing == tuple(fleet.keepers)
    assert (found.at_odds, found.words_at_odds) == ((), ())


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_sum_is_exact_for_all_numbers(data: st.DataObject) -> None:
    n = data.draw(st.integers(3, 9))
    keepers = data.draw(st.integers(2, n))
    colluding = data.draw(st.integers(0, keepers - 1))
    corrupt = data.draw(st.integers(colluding, n - 1))
    absent = data.draw(st.integers(0, n - 1 - corrupt))
    plain = SumNumbers(n, keepers, colluding, corrupt, absent)
    pack = data.draw(st.integers(1, plain.absent_keepers + 1))
    fleet = SmallFleet(plain.listed(keepers, pack), data.draw(st.integers(1, 6)))
    present = data.draw(
        st.lists(st.sampled_from(fleet.sites), min_size=n - absent, max_size=n, unique=True)
    )
    roster = fleet.roster_of(present)
    answering = data.draw(st.permutations(fleet.keepers))[: fleet.numbers.needed]
    answers = {keeper: fleet.answer(keeper, roster)[0] for keeper in answering}
    found = total(fleet.query, answers)
    assert found is not None
    assert found.values == fleet.sum(present)
    answers.popitem()
    assert total(fleet.query, answers) is None


@pytest.mark.parametrize(
    ("n", "length", "kilobytes"),
    [(5, 1, 0.23), (20, 1, 0.33), (50, 1, 0.52), (5, 1024, 17), (20, 1024, 22.2), (50, 1024, 19)],
)
def test_posts_are_as_long_as_the_page_says(n: int, length: int, kilobytes: float) -> None:
    fleet = SmallFleet(n, length)
    body = deal(fleet.query, "s0", fleet.vectors["s0"], fleet.seed("s0"))
    assert len(body) + HEADER <= 1000 * kilobytes + 10


@pytest.mark.parametrize(("n", "length"), [(500, 3_402), (4941, 1_160)])
def test_posts_of_large_fleets_are_short(n: int, length: int) -> None:
    numbers = suggested(n)
    cells = 2 * (numbers.keepers - numbers.threshold + 1)
    assert 32 + 8 * cells + HEADER <= length


def test_negative_sums_and_sums_at_the_bound() -> None:
    for sign in (1, -1):
        fleet = SmallFleet(5, 2)
        fleet.vectors = {site: [sign * (BOUND // 5), sign * 7] for site in fleet.sites}
        found = total(fleet.query, fleet.answers)
        assert found is not None
        assert found.values == (sign * (BOUND // 5) * 5, sign * 35)


def test_a_sum_beyond_the_bound_is_refused_and_not_shown() -> None:
    """A value that wraps around the field cannot pass for a plausible sum either."""
    for absurd in (BOUND + 1, P // 2, -(BOUND * 5), P // 2 - 12):
        fleet = SmallFleet(5, 2)
        fleet.vectors = {site: [1, 2] for site in fleet.sites}
        fleet.vectors["s3"] = [1, absurd]
        with pytest.raises(FleetError, match=r"component 1 of the sum.*in groups") as raised:
            total(fleet.query, fleet.answers)
        assert str(abs(absurd) + 8)[:6] not in str(raised.value)


def test_vectors_of_numpy_and_of_python_are_the_same() -> None:
    fleet = SmallFleet(5, 3)
    values = [5, -6, 1 << 61]
    plain = deal(fleet.query, "s1", values, bytes(32))
    assert plain == deal(fleet.query, "s1", np.array(values), bytes(32))
    assert plain != deal(fleet.query, "s1", values, bytes(31) + b"1")
    assert plain != deal(fleet.query, "s2", values, bytes(32))


def test_what_cannot_be_dealt_is_refused() -> None:
    query = SmallFleet(5, 3).query
    for site, vector, seed in (("x", [1] * 3, 32), ("s1", [1] * 4, 32), ("s1", [1] * 3, 31)):
        with pytest.raises(FleetError):
            deal(query, site, vector, bytes(seed))
    with pytest.raises(FleetError, match="no keeper"):
        answer(query, "x", bytes(32), SumRoster(query, ()), [])


# ---- what is valid


def spelled(number: int) -> bytes:
    return number.to_bytes(32, "little")


CURVE = 2**255 - 19
EIGHT = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
LOW_ORDER = [0, 1, CURVE - 1, CURVE, CURVE + 1, *EIGHT]
SPELLINGS = [spelled(number + high) for number in LOW_ORDER for high in (0, 1 << 255)]


def test_keys_of_low_order_are_no_keys() -> None:
    own = deals_module._private(secret("any"))
    for key in SPELLINGS:
        assert not good_key(key)
        with pytest.raises(ValueError, match="shared key"):
            own.exchange(deals_module._public(key))
        with pytest.raises(FleetError, match="low order"):
            read_key(key_body("q", key))
    for other in (b"", bytes(31), spelled(CURVE + 5), spelled(9 + (1 << 255))):
        assert not good_key(other)
    assert good_key(spelled(9))
    assert good_key(public_key(secret("any")))
    fleet = SmallFleet(5)
    keepers = (replace(fleet.query.keepers[0], key=SPELLINGS[2]), *fleet.query.keepers[1:])
    with pytest.raises(FleetError, match="low order"):
        replace(fleet.query, keepers=keepers)


def test_only_well_formed_deals_are_valid() -> None:
    fleet = SmallFleet(5, 2)
    query, body = fleet.query, fleet.deals["s1"]
    assert valid_deal(query, "s1", body)
    assert not valid_deal(query, "stranger", body)
    for wrong in (b"", body[:-1], body + b"0", body[:-8], body + bytes(8), body[:32]):
        assert not valid_deal(query, "s1", wrong)
    for at in range(32, len(body), 8):
        for word in (P, P + 1, (1 << 64) - 1):
            assert not valid_deal(query, "s1", body[:at] + struct.pack("<Q", word) + body[at + 8 :])
    for key in SPELLINGS:
        assert not valid_deal(query, "s1", key + body[32:])


# ---- formats


def test_a_query_is_read_as_it_was_written() -> None:
    query = SmallFleet(20, 7).query
    assert SumQuery.read(query.body, query.sites) == query


def test_no_other_bytes_are_a_query() -> None:
    query = SmallFleet(5, 2).query
    for end in range(len(query.body)):
        with pytest.raises(FleetError):
            SumQuery.read(query.body[:end], query.sites)
    with pytest.raises(FleetError, match="1 bytes too many"):
        SumQuery.read(query.body + b"0", query.sites)
    with pytest.raises(FleetError, match="format 2"):
        SumQuery.read(b"\x02" + query.body[1:], query.sites)
    with pytest.raises(FleetError, match="lists 4 sites"):
        SumQuery.read(query.body, query.sites[:4])


def test_flipped_bytes_of_a_query_are_another_query_or_none() -> None:
    query = SmallFleet(5, 2).query
    rng = random.Random(2)
    for at in range(len(query.body)):
        changed = bytearray(query.body)
        changed[at] ^= 1 << rng.randrange(8)
        try:
            other = SumQuery.read(bytes(changed), query.sites)
        except FleetError:
            continue
        assert other.body == bytes(changed)
        assert other.digest != query.digest


@pytest.mark.parametrize(
    "changed",
    [
        {"terms": bytes(31)},
        {"name": ""},
        {"name": "x" * 256},
        {"length": 0},
        {"bound": 0},
        {"bound": P // 2},
        {"epoch": -1},
        {"deadline": -1},
        {"sites": (("s0", bytes(32)),) * 5},
        {"sites": tuple((f"s{i}", bytes(32)) for i in range(5))},
        {"sites": tuple((f"s{i}" * 200, bytes([i]) * 32) for i in range(5))},
        {"keepers": ()},
        {"keepers": (Keeper("a", public_key(bytes(32)), bytes(32)),) * 5},
        {"keepers": tuple(Keeper(k, public_key(bytes(32)), bytes(32)) for k in "abcde")},
    ],
)
def test_queries_that_cannot_be_are_refused(changed: dict[str, object]) -> None:
    with pytest.raises(FleetError):
        replace(SmallFleet(5, 2).query, **changed)  # type: ignore[arg-type]


def test_keys_are_read_as_they_were_written() -> None:
    key = public_key(secret("k"))
    assert read_key(key_body("mean kWh", key)) == ("mean kWh", key)
    body = key_body("q", key)
    for wrong in (b"", body[:-1], body + b"0", b"\x02\xff\xff" + key):
        with pytest.raises(FleetError):
            read_key(wrong)


def test_a_roster_is_read_as_it_was_written() -> None:
    fleet = SmallFleet(20)
    carried = [CarriedDeal("s3", b"header", fleet.deals["s3"]), CarriedDeal("s4", b"", b"")]
    roster = propose(fleet.query, list(fleet.deals.items())[:-1], carried)
    again = SumRoster.read(fleet.query, roster.body)
    assert again == roster
    assert again.carried == tuple(carried)
    assert again.digest == fleet.roster_of(fleet.sites[:-1]).digest  # not of what is carried


def test_no_other_bytes_are_a_roster() -> None:
    fleet = SmallFleet(5)
    carried = [CarriedDeal("s3", b"header", fleet.deals["s3"])]
    body = propose(fleet.query, fleet.deals.items(), carried).body
    for wrong in (*(body[:end] for end in range(len(body))), body + b"0"):
        with pytest.raises(FleetError):
            SumRoster.read(fleet.query, wrong)
    with pytest.raises(FleetError, match="not in its epoch"):
        SumRoster.read(fleet.query, body[:1] + b"\x3f" + body[2:])
    with pytest.raises(FleetError, match="format 2"):
        SumRoster.read(fleet.query, b"\x02" + body[1:])
    count = body.index(struct.pack(">I", 1) + struct.pack(">I", 3))
    strange = body[: count + 4] + struct.pack(">I", 9) + body[count + 8 :]
    with pytest.raises(FleetError):
        SumRoster.read(fleet.query, strange)


def test_answers_and_words_are_read_or_ignored() -> None:
    fleet = SmallFleet(5, 2)
    body, words = fleet.answered["s2"]
    assert CheckWords.read(words.body) == words
    read = KeeperAnswer.read(fleet.query, body)
    assert read is not None
    assert read.roster == fleet.roster.digest
    for wrong in (b"", body[:-1], body + b"0", body + bytes(8), body[:-8] + b"\xff" * 8):
        assert KeeperAnswer.read(fleet.query, wrong) is None
        spoilt = {**fleet.answers, "s2": wrong, "stranger": body}
        found = total(fleet.query, spoilt)
        assert found is not None
        assert "s2" not in found.agreeing
    assert CheckWords.read(b"") is None
    assert CheckWords.read(words.body + b"0") is None
