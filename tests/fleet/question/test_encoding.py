"""Rows split over sites in any way add up to one table's vector; the sum is read as one table's would be."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fleet.question.asks import ASKS, KWH, cut, question, rows
from veilsum.asking.codebook import parsed as codebook
from veilsum.asking.engine import _reply
from veilsum.asking.settling import settle
from veilsum.asking.tables import open_table
from veilsum.errors import FleetError, QuestionError
from veilsum.fleet.encoding import EncodedSite, decode, encode, far_limit, reply
from veilsum.fleet.promise import guarantee_of
from veilsum.fleet.question import FleetQuestion, Worded
from veilsum.fleet.release_rules import noise_for
from veilsum.privacy.exact.entropy import SYSTEM
from veilsum.questions import Decoded

LOCAL = [name for name in ASKS if name != "distinct"]
every_kind = pytest.mark.parametrize("name", LOCAL)
TABLE = rows(200)


def same(a: list[tuple[Decoded, ...]], b: Any) -> None:
    assert len(a) == len(b)
    for first, second in zip(a, b, strict=True):
        for x, y in zip(first, second, strict=True):
            assert (x.quantity, x.labels, x.sentence) == (y.quantity, y.labels, y.sentence)
            for field in ("value", "low", "high"):
                np.testing.assert_array_equal(getattr(x, field), getattr(y, field))


def noised(one: FleetQuestion, steps: list[int], draws: int, seed: int = 1) -> list[int]:
    rng = np.random.default_rng(seed)
    found, place = list(steps), 0
    for law, length in zip(one.laws, one.lengths, strict=True):
        for k in range(place, place + length):
            found[k] += int(law.sample(draws, rng).sum())
        place += length
    return found


@every_kind
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_sites_add_up_to_one_table_to_the_last_step(name: str, data: st.DataObject) -> None:
    one = question(ASKS[name])
    ends = sorted(data.draw(st.lists(st.integers(1, 199), max_size=5, unique=True)))
    whole = encode(one, TABLE)
    parts = [encode(one, part) for part in cut(TABLE, ends)]
    assert [sum(steps) for steps in zip(*(p.steps for p in parts), strict=True)] == whole.steps
    assert sum(part.records for part in parts) == whole.records


def test_several_questions_are_one_vector_with_one_price() -> None:
    one = question(*(ASKS[name] for name in ("mean", "histogram", "quantiles")), epsilon=2.0)
    parts = [
        encode(question(ASKS[name], epsilon=2.0), TABLE).steps for name in ("mean", "histogram")
    ]
    found = encode(one, TABLE).steps
    assert len(found) == one.length
    assert one.event.epsilon == 2.0
    assert found[1:9] == parts[1]  # counts have a grid of their own, whatever else is asked


@pytest.mark.parametrize("name", ["mean", "distinct", "histogram"])
def test_ids_are_those_of_one_site(name: str) -> None:
    """An id of two sites is a record at each: the sum is that of tables with ids of their own."""
    one = question(ASKS[name], id="person")
    parts = cut(TABLE, [70])
    apart = {c: np.concatenate([p[c] for p in parts]) for c in TABLE}
    apart["person"] = np.array(
        [f"{k}-{person}" for k, part in enumerate(parts) for person in part["person"]], dtype=object
    )
    both = [encode(one, part) for part in parts]
    assert [a + b for a, b in zip(both[0].steps, both[1].steps, strict=True)] == encode(
        one, apart
    ).steps


@every_kind
def test_the_sum_is_decoded_as_one_tables_vector_is(name: str) -> None:
    one = question(ASKS[name])
    steps = noised(one, encode(one, TABLE).steps, 1)
    settled = settle([ask.question for ask in one.asks], epsilon=1.0)
    records = 200 if settled.rows_public else 0
    kept = {"vectors": [[steps]], "records": records}
    expected = _reply(open_table(TABLE), settled, kept, 1.0, 1.0, "", False, ())
    same(decode(one, steps, records, draws=1), expected.decoded)


@every_kind
def test_a_reply_serves_screens_pages_and_tables(name: str) -> None:
    from veilsum.front.of_ask import answer_lines, of_ask

    one = question(ASKS[name], sites_per_person=2)
    steps = noised(one, encode(one, TABLE).steps, 3)
    found = reply(
        one, steps, 200 if one.records_public else 0, 3, who="the tables of 3 of 3 sites",
        promise=guarantee_of(one), notes=("All sites are in.",),
    )  # fmt: skip
    same(list(found.decoded), decode(one, steps, 200 if one.records_public else 0, 3))
    sheet = of_ask(found)
    assert sheet.promises[0].startswith("Proved")
    assert answer_lines(sheet, 100)
    assert "3 of 3 sites" in sheet.title
    assert "All sites are in." in sheet.warnings
    assert any("at up to 2 sites" in text for text in sheet.warnings)
    assert sheet.rows[0].epsilon == 2.0  # of one person
    assert sheet.to_dict()["answers"]


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "skellam"])
@pytest.mark.parametrize("sites", [3, 50])
def test_intervals_cover_at_any_number_of_sites(noise: str, sites: int) -> None:
    """False alarms: the count of 400 coverages of 0.95 is 5 sd below with probability below 1e-6."""
    one = question(
        ASKS["mean"], ASKS["histogram"], delta=0.0 if noise == "laplace" else 1e-6, noise=noise
    )
    truth = encode(one, TABLE).steps
    exact = decode(one, truth, 200, 1)
    inside = {"mean": 0, "histogram": 0}
    for seed in range(400):
        for asked, found, known in zip(
            inside, decode(one, noised(one, truth, sites, seed), 200, sites), exact, strict=True
        ):
            low, true, high = (
                np.ravel(x)[0] for x in (found[0].low, known[0].value, found[0].high)
            )
            inside[asked] += bool(low <= true <= high)
    least = 400 * 0.95 - 5 * math.sqrt(400 * 0.95 * 0.05)
    assert min(inside.values()) >= least, inside
    assert inside["mean"] < 400, "an interval that always covers is too wide"


@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.parametrize("noise", ["gaussian", "skellam"])
def test_every_answer_has_an_interval_under_every_noise(name: str, noise: str) -> None:
    """Simulated intervals as well, on the finest grid."""
    one = question(ASKS[name], delta=1e-6, noise=noise, epsilon=3.0)
    table = rows(2000)
    found = decode(one, noised(one, encode(one, table).steps, 3), 2000 * one.records_public, 3)
    value, low, high = (
        np.ravel(np.asarray(x)) for x in (found[0][0].value, found[0][0].low, found[0][0].high)
    )
    assert np.all((low <= value + 1e-9) & (value <= high + 1e-9))


def test_a_share_of_a_secure_sum_is_so_much_less_noise() -> None:
    """|F| shares of 1/h make |F|/h draws: the interval is sqrt(|F|/h) times a trusted server's."""
    one = question(ASKS["mean"], protocol="secure-sum")
    steps = encode(one, TABLE).steps
    server, fleet = (decode(one, steps, 200, draws)[0][0] for draws in (1, Fraction(50, 35)))
    ratio = (fleet.high - fleet.low) / (server.high - server.low)
    assert 1.1 < ratio < 1.25
    part = noise_for(one, Fraction(1, 35))[0]
    assert float(part.variance) * 35 == pytest.approx(float(one.laws[0].variance))


@every_kind
def test_an_honest_register_is_within_the_far_limit(name: str) -> None:
    one = question(ASKS[name], most_records=1000)
    found = encode(one, TABLE)
    steps = found.steps
    for law, length, start in zip(
        one.laws, one.lengths, np.cumsum([0, *one.lengths]).tolist(), strict=False
    ):
        for k, x in enumerate(law.draw(length, SYSTEM).tolist()):
            steps[start + k] += x
    ends = far_limit(one, found.records, 1)
    assert all(abs(step) <= end for step, end in zip(steps, ends, strict=True))


def test_what_a_site_adds_up_has_no_text() -> None:
    assert str(EncodedSite([1, 2], 3)) == "EncodedSite(...)"


@pytest.mark.parametrize(
    ("data", "options", "why"),
    [
        ({"kWh": [1.0]}, {}, "no column 'kwh'"),
        ({"kwh": [1.0] * 11}, {"most_records": 10}, "more than the 10 records"),
        ({"kwh": np.array([])}, {}, "has no records"),
        ({"kwh": np.array(["1", "x"], dtype=object)}, {}, "row 2"),
        ({"kwh": np.array([1.0, np.nan])}, {}, "row 2"),
    ],
)
def test_a_table_that_cannot_answer_says_why(data: Any, options: dict[str, Any], why: str) -> None:
    with pytest.raises((FleetError, QuestionError), match=why) as problem:
        encode(question(**options), data)
    assert "'x'" not in str(problem.value)


def test_a_private_number_of_records_stays_at_the_site() -> None:
    one = question(ASKS["mean"], rows_public=False)
    found = encode(one, TABLE)
    assert found.records == 0
    answer, *details = decode(one, found.steps, 0, 3)[0]
    assert abs(float(answer.value) - float(np.clip(TABLE["kwh"], 0, 40).mean())) < 0.01
    assert [one.quantity for one in details] == ["records"]
    assert encode(one, {"kwh": np.array([])}).records == 0  # nor is it refused: that would tell


def test_a_sites_own_marks_and_codes_are_read() -> None:
    book = codebook('[columns.kwh]\nkind = "number"\nbetween = [0, 40]\nmissing = [-9]')
    plain = encode(question(missing="out"), {"kwh": np.array([10.5, 20.0, np.nan])})
    comma = {"kwh": np.array(["10,5", "20", "-9"], dtype=object)}
    assert encode(question(missing="out"), comma, decimal=",", codebook=book).steps == plain.steps


def test_a_select_that_leaves_rows_out_makes_their_number_private() -> None:
    table = open_table({"kwh": [1.0, 2.0]})
    table.filtered = True
    with pytest.raises(FleetError, match="rows_public = false"):
        encode(question(), table)
    assert encode(question(rows_public=False), table).records == 0


def test_another_length_is_refused() -> None:
    with pytest.raises(FleetError, match="has 1 components; found 2"):
        decode(question(), [1, 2], 5, 3)


def test_units_of_the_codebook_are_in_the_reply() -> None:
    book = codebook('[columns.kwh]\nkind = "number"\nunit = "kWh"\nbetween = [0, 40]')
    one = question(Worded("mean", ("kwh",), KWH))
    found = reply(
        one,
        encode(one, TABLE).steps,
        200,
        1,
        who="one site",
        promise=guarantee_of(one),
        codebook=book,
    )
    assert found.decoded[0][0].unit == "kWh"
    assert replace(found, promise=None).promise is None
