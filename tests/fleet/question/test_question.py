"""What a question post says: one text, refused if it is another, settled alike everywhere."""

from __future__ import annotations

import json
import math
import re
import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fleet.question.asks import ASKS, KWH, STAGED, question
from veilsum.asking.codebook import parsed as codebook
from veilsum.errors import FleetError
from veilsum.fleet.question import FORMAT, LARGEST, FleetQuestion, Worded, asked_of
from veilsum.fleet.release_rules import RULES, check_room, noise_for
from veilsum.privacy.laws import DiscreteLaplace, Skellam, SkellamCost
from veilsum.privacy.mechanisms.gaussian import DiscreteGaussian
from veilsum.questions import QUESTIONS

ALONE = {"test": "a test needs a public number of records"}
every_kind = pytest.mark.parametrize("name", ASKS)


def changed(one: FleetQuestion, **values: Any) -> bytes:
    table = json.loads(one.canonical()) | values
    return json.dumps(table, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def test_every_registered_question_is_asked_or_refused_with_what_to_ask_instead() -> None:
    assert {*ASKS, STAGED.name} == set(QUESTIONS.names())
    with pytest.raises(FleetError, match=r"logistic is asked in 4 stages.*ask a regression"):
        question(STAGED)


@every_kind
@pytest.mark.parametrize("protocol", RULES)
def test_a_question_comes_back_from_its_bytes(name: str, protocol: str) -> None:
    one = question(ASKS[name], protocol=protocol)
    back = FleetQuestion.parsed(one.canonical())
    assert back == one
    assert hash(back) == hash(one)
    assert back.digest == one.digest
    assert len(one.digest) == 32
    assert back.settled().terms == one.settled().terms
    assert back.length == one.length == sum(one.settled().asked[0].question.dimension for _ in "1")


@every_kind
def test_all_are_asked_by_group_under_a_filter_or_say_why_not(name: str) -> None:
    given: dict[str, Any] = {
        "by": ("sector", ("a", "b")),
        "where": {"year": ["2026"]},
        "missing": "out",
    }
    if name in ALONE:
        with pytest.raises(FleetError, match=f"this cannot be asked of a fleet: {ALONE[name]}"):
            question(ASKS[name], **given)
        return
    one = question(ASKS[name], **given)
    assert FleetQuestion.parsed(one.canonical()) == one
    assert all(each.question.partial for each in one.settled().asked)
    assert "by sector" in one.title()
    assert one.title().endswith("where year 2026")


@given(
    epsilon=st.floats(1e-3, 100), nonce=st.text(max_size=20), label=st.text(max_size=20),
    sites=st.integers(1, 1000), quorum=st.none() | st.integers(1, 99),
    deadline=st.none() | st.integers(1, 1 << 39),
)  # fmt: skip
def test_any_numbers_and_texts_come_back(nonce: str, label: str, **numbers: Any) -> None:
    numbers["sites_per_person"] = numbers.pop("sites")
    one = question(nonce=nonce, label=label, **numbers)
    assert FleetQuestion.parsed(one.canonical()) == one


@given(st.binary(max_size=200))
def test_other_bytes_are_no_question(text: bytes) -> None:
    with pytest.raises(FleetError):
        FleetQuestion.parsed(text)


@given(st.data())
def test_a_changed_byte_is_refused_or_another_question(data: st.DataObject) -> None:
    one = question()
    text = bytearray(one.canonical())
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] ^= data.draw(st.integers(1, 255))
    try:
        other = FleetQuestion.parsed(bytes(text))
    except FleetError:
        return
    assert other.digest != one.digest


def test_the_nonce_makes_another_question_and_nothing_else_does_without_being_seen() -> None:
    assert question().digest == question().digest
    assert question(nonce="2").digest != question().digest


def test_a_newer_format_is_refused_by_name() -> None:
    with pytest.raises(FleetError, match=f"format 2, and this version of veilsum reads {FORMAT}"):
        FleetQuestion.parsed(changed(question(), format=2))
    for other in (0, True, "1", None):
        with pytest.raises(FleetError, match="says format 1"):
            FleetQuestion.parsed(changed(question(), format=other))


def test_unknown_and_missing_keys_are_named() -> None:
    with pytest.raises(FleetError, match="no key 'epsilom'"):
        FleetQuestion.parsed(changed(question(), epsilom=1))
    table = json.loads(question().canonical())
    del table["cap"]
    with pytest.raises(FleetError, match="key 'cap', which is missing"):
        FleetQuestion.parsed(json.dumps(table).encode())


def test_another_way_of_writing_the_same_is_refused() -> None:
    one = question()
    for text in (
        json.dumps(json.loads(one.canonical())).encode(),
        one.canonical() + b" ",
        one.canonical().replace(b'"epsilon":1.0', b'"epsilon":1'),
        one.canonical().replace(b'"epsilon":1.0', b'"epsilon":9.0,"epsilon":1.0'),
    ):
        with pytest.raises(FleetError, match="written in one way"):
            FleetQuestion.parsed(text)


def test_a_version_that_would_settle_it_differently_stops() -> None:
    other = FleetQuestion.parsed(changed(question(), settles="0" * 64))
    with pytest.raises(FleetError, match="bring both to one version"):
        other.settled()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"epsilon": 0.0}, "epsilon of a question must be a finite number above 0; found 0"),
        ({"epsilon": math.inf}, "above 0; found inf"),
        ({"epsilon": "1"}, "found '1'"),
        ({"epsilon": True}, "epsilon of a question must be a number"),
        ({"delta": 1.0}, "delta of a question"),
        ({"protocol": "poool"}, 'did you mean "pool"|pool'),
        ({"noise": "gauss"}, "laplace or gaussian or skellam noise; found 'gauss'"),
        ({"protocol": "secure-sum", "noise": "gaussian"}, "secure-sum takes laplace or skellam"),
        ({"noise": "skellam"}, "needs a delta above 0"),
        ({"protocol": "secure-sum", "deadline": None}, "state deadline"),
        ({"protocol": "secure-sum", "quorum": 3}, "quorum is of a pool"),
        ({"quorum": 0}, "quorum of a question is 1"),
        ({"sites_per_person": 0}, "sites_per_person of a question is 1"),
        ({"sites_per_person": 1.5}, "sites_per_person of a question must be a whole number"),
        ({"deadline": 5, "schedule": {"every": "1 h"}}, "not both"),
        ({"schedule": {"evry": "1 h"}}, "key evry: there is no"),
        ({"codebook": "ab"}, "64 hexadecimal digits"),
        ({"where": {"region": "north"}}, "where of a question must be a mapping"),
        ({"by": ("region",)}, "by of a question"),
        ({"label": "x" * 121}, "label of a question must be text of at most 120"),
        ({"missing": math.nan}, "cannot be asked|text, a finite number"),
        ({"cap": 3}, "cap is how many rows of an id"),
        ({"population": True, "id": "person", "cap": 3}, "independent sample"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_and_why(options: dict[str, Any], why: str) -> None:
    with pytest.raises(FleetError, match=why):
        question(**options)


@pytest.mark.parametrize("ask", [("mean", "kwh", {}), ("mean", ["kwh"], []), (3, [], {}), ("mean", [1], {}),
                                 ("mean", ["kwh"], {"--between": ["0", "40"]})])  # fmt: skip
def test_words_are_texts(ask: Any) -> None:
    with pytest.raises(FleetError, match="a name, columns and options"):
        Worded(*ask)


def test_sizes_are_bounded_and_said() -> None:
    wide = Worded("histogram", ("kwh",), {**KWH, "--bins": [["5000"]]})
    with pytest.raises(
        FleetError, match=r"secure-sum has at most 4,096 components; this one has 5,000"
    ):
        question(wide, protocol="secure-sum")
    assert question(wide).length == 5000
    many = Worded(
        "histogram",
        ("region",),
        {"--categories": [[",".join(f"category {k}" for k in range(9_000))]]},
    )
    with pytest.raises(FleetError, match=f"at most {LARGEST:,} bytes"):
        question(many)


BINS = {**KWH, "--bins": [["1000000"]]}
MANY = [f"c{k}" for k in range(900)]


@pytest.mark.parametrize("huge", [
    Worded("histogram", ("kwh",), BINS),
    Worded("cdf", ("kwh",), BINS),
    Worded("quantiles", ("kwh",), BINS),
    Worded("survival", ("kwh",), {**ASKS["survival"].options, "--bins": [["1000000"]]}),
    Worded("regression", tuple(MANY), {"--between": [[c, "0", "1"] for c in MANY]}),
    Worded("table", ("a", "b"), {"--categories": [[",".join(map(str, range(5000)))]] * 2}),
])  # fmt: skip
def test_a_question_too_large_to_settle_is_refused_before_it_is(huge: Worded) -> None:
    """An asker is not trusted with the memory of a site."""
    tracemalloc.start()
    try:
        with pytest.raises(FleetError, match=r"components|bins|1 to 30"):
            question(huge)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_groups_count_as_components() -> None:
    groups = ("g", tuple(map(str, range(3000))))
    with pytest.raises(FleetError, match="components"):
        question(Worded("histogram", ("kwh",), {**KWH, "--bins": [["1000"]]}), by=groups)


def test_the_schedule_is_a_timetable_with_all_of_it_written_out() -> None:
    one = question(schedule={"every": "1 h"}, protocol="pool", deadline=None)
    assert one.timetable is not None
    assert FleetQuestion.parsed(one.canonical()).timetable == one.timetable
    assert question(schedule={"every": "1 h", "zone": "UTC"}, protocol="pool", deadline=None) == one


def test_what_a_codebook_says_is_written_out_in_the_post() -> None:
    book = codebook(
        '[columns.kwh]\nkind = "number"\nbetween = [0, 40]\n'
        '[columns.age]\nkind = "number"\nbetween = [0, 100]\n'
        '[columns.region]\nkind = "category"\nvalues = ["north", "south"]\n'
        '[columns.group]\nkind = "category"\nvalues = ["a", "b", "c"]\n'
        '[columns.odd]\nkind = "category"\nvalues = ["a, b", "c"]\n'
    )
    for name, columns, options in (
        ("mean", ["kwh"], {}),
        ("histogram", ["kwh"], {"--bins": [["8"]]}),
        ("histogram", ["region"], {}),
        ("regression", ["kwh", "age"], {}),
        ("table", ["region", "group"], {}),
        ("heavy-hitters", ["region"], {}),
        ("survival", ["kwh"], {"--event": [["died"]]}),
        ("proportion", ["region"], {"--values": [["north"]]}),
    ):
        given: dict[str, Any] = {flag.strip("-"): words[0][0] for flag, words in options.items()}
        if "values" in given:
            given["values"] = ("north",)
        if "bins" in given:
            given["bins"] = 8
        expected = book.question(name, *columns, **given)
        found = asked_of(name, columns, options, book)
        assert found.question.terms() == expected.at_once().terms()
    with pytest.raises(Exception, match="'a, b' cannot be written"):
        asked_of("histogram", ["odd"], {}, book)


@pytest.mark.parametrize(
    ("protocol", "delta", "noise", "law"),
    [
        ("pool", 0.0, None, DiscreteLaplace),
        ("pool", 1e-6, "laplace", DiscreteLaplace),
        ("pool", 1e-6, "gaussian", DiscreteGaussian),
        ("pool", 1e-6, "skellam", Skellam),
        ("secure-sum", 0.0, None, DiscreteLaplace),
        ("secure-sum", 1e-6, "skellam", Skellam),
    ],
)
def test_one_place_decides_about_the_noise(
    protocol: str, delta: float, noise: str | None, law: type
) -> None:
    one = question(ASKS["mean"], ASKS["quantiles"], protocol=protocol, delta=delta, noise=noise)
    assert {type(each) for each in one.laws} == {law}
    assert one.event.epsilon == 1.0
    assert one.event.delta == (0.0 if law is DiscreteLaplace else 1e-6)
    if protocol == "secure-sum":
        for whole, part in zip(one.laws, noise_for(one, Fraction(1, 7)), strict=True):
            assert 7 * float(part.variance) == pytest.approx(float(whole.variance))


def test_a_secure_sum_with_a_delta_takes_the_smaller_of_the_laws_that_have_parts() -> None:
    wide = question(
        ASKS["regression"], protocol="secure-sum", delta=1e-6, by=("g", tuple("abcdefgh"))
    )
    narrow = question(ASKS["count"], protocol="secure-sum", delta=1e-6)
    assert isinstance(narrow.laws[0], DiscreteLaplace)
    assert narrow.event.delta == 0
    many = Worded(
        "regression", tuple("abcdefghij"), {"--between": [[c, "0", "1"] for c in "abcdefghij"]}
    )
    assert isinstance(question(many, protocol="secure-sum", delta=1e-6).laws[0], Skellam)
    assert wide.length > narrow.length


def test_skellam_noise_of_several_questions_costs_what_its_event_says() -> None:
    """The divergence of the blocks together, at every order, is at most that of the event."""
    one = question(
        ASKS["mean"],
        ASKS["histogram"],
        ASKS["regression"],
        delta=1e-6,
        noise="skellam",
        epsilon=0.7,
    )
    parameter = one.event.parameter
    assert isinstance(parameter, tuple)
    whole = SkellamCost(*parameter)
    assert whole.epsilon(1e-6) <= 0.7
    assert whole.epsilon(1e-6) >= 0.7 * (1 - 1e-5)  # nor is noise wasted
    blocks = []
    for asked in one.settled().asked:
        moves = asked.unit.statistic(asked.question.statistic).steps(asked.noises[0].step)
        blocks.append(SkellamCost(float(asked.noises[0].law.variance), *moves))
    for order in (2, 3, 5, 17, 64, 1000):
        assert sum(block.divergence(order) for block in blocks) <= whole.divergence(order)
    weaker = sum(
        SkellamCost(0.9 * block.variance, block.l1, block.l2).divergence(17) for block in blocks
    )
    assert weaker > whole.divergence(17), "a tenth less noise would not be noticed"


@every_kind
def test_no_sum_of_records_is_beyond_the_bound(name: str) -> None:
    from tests.fleet.question.asks import rows
    from veilsum.fleet.encoding import encode

    one = question(ASKS[name], rows_public=None)
    table = rows(60)
    found = encode(one, table)
    most = one.bound(60)
    assert all(abs(step) <= end for step, end in zip(found.steps, most, strict=True))
    single = {column: np.repeat(values[:1], 60) for column, values in table.items()}
    far = np.array(encode(one, single).steps)
    assert np.all(np.abs(far) <= most)


def test_the_field_of_a_secure_sum_has_room_or_says_how_much() -> None:
    mean = question(protocol="secure-sum")
    check_room(mean, sites=100)
    with pytest.raises(FleetError, match=r"state most_records of at most ([\d,]+)") as problem:
        check_room(mean, sites=1000)
    said = re.search(r"at most ([\d,]+)", str(problem.value))
    assert said
    fitting = int(said[1].replace(",", ""))
    check_room(question(protocol="secure-sum", most_records=fitting), sites=1000)
    with pytest.raises(FleetError):
        check_room(question(protocol="secure-sum", most_records=fitting + 2), sites=1000)
    with pytest.raises(FleetError, match="ask for more epsilon"):
        question(protocol="secure-sum", epsilon=1e-10)
