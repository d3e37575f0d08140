"""Small cells are not shown, and counts are rounded: functions of the released answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veilsum import asking, questions
from veilsum.asking.small_cells import SmallCells, with_small_cells
from veilsum.errors import QuestionError
from veilsum.questions import Category, Decoded

REGIONS = ("north", "south", "east")
COUNTS = (("north", 400), ("south", 97), ("east", 3))


@pytest.fixture
def table() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    region = np.repeat(np.array([name for name, _ in COUNTS], dtype=object), [n for _, n in COUNTS])
    return {
        "region": region,
        "kwh": rng.beta(2, 5, len(region)) * 40,
        "old": rng.choice(["y", "n"], len(region)),
    }


@pytest.fixture
def reply_of(table: dict[str, Any], tmp_path: Path) -> Any:
    """Answers with next to no noise, so that cells are what they are."""
    options: dict[str, Any] = {
        "epsilon": 60.0,
        "limit": 1e6,
        "budget": tmp_path / "b",
        "anyway": True,
    }
    return lambda *asked, **more: asking.ask(table, *asked, **options | more)


def shown(reply: Any, k: int = 0) -> Decoded:
    found: Decoded = with_small_cells(reply, SmallCells(10, 5)).decoded[0][k]
    return found


def test_a_histogram(reply_of: Any) -> None:
    found = shown(reply_of(questions.histogram("region", categories=REGIONS)))
    assert found.labels == ("north", "south", "east")
    assert found.absent == ("", "", "fewer than 10")
    np.testing.assert_allclose(found.value[:2] * 500, [400, 95], atol=1e-9)
    assert np.isnan([found.value[2], found.low[2], found.high[2]]).all()
    assert "1 of 3, with fewer than 10 records" in found.sentence
    assert found.low[1] * 500 <= 97 <= found.high[1] * 500


def test_a_histogram_of_a_private_number_of_records(reply_of: Any) -> None:
    asked = questions.histogram("region", categories=REGIONS)
    found = shown(reply_of(asked, rows_public=False))
    np.testing.assert_allclose(found.value[:2] * 500, [400, 95], atol=2.0)
    assert np.isnan(found.value[2])


def test_two_cells_that_are_one_count(reply_of: Any) -> None:
    found = shown(
        reply_of(questions.histogram("region", categories=("north", "south")), missing="out")
    )
    assert len(found.labels) == 2
    only = questions.histogram("kwh", between=(0, 40), bins=2)
    reply = reply_of(only)
    value = np.asarray(reply.decoded[0][0].value)
    found = shown(reply)
    assert found.labels == reply.decoded[0][0].labels
    np.testing.assert_allclose(found.value[0], value[0], atol=0.01)


def test_a_table_of_two_columns(reply_of: Any) -> None:
    found = shown(reply_of(questions.table("region", "old", categories=[REGIONS, ("y", "n")])))
    hidden = [x for x, absent in zip(found.labels, found.absent, strict=True) if absent]
    assert len(hidden) == 2
    assert all("east" in label for label in hidden)
    inside = found.value[~np.isnan(found.value)] * 500
    np.testing.assert_allclose(inside / 5, np.rint(inside / 5), atol=1e-9)


def test_means_by_group(reply_of: Any) -> None:
    reply = reply_of(questions.mean("kwh", between=(0, 40)), by=Category("region", REGIONS))
    mean, count = shown(reply), shown(reply, 1)
    assert mean.absent == count.absent == ("", "", "fewer than 10")
    np.testing.assert_array_equal(mean.value[:2], reply.decoded[0][0].value[:2])  # not rounded
    np.testing.assert_allclose(count.value[:2], [400, 95])
    assert np.isnan(mean.value[2])
    assert "east" not in mean.sentence


def test_a_histogram_by_group(reply_of: Any) -> None:
    asked = questions.histogram("old", categories=("y", "n"))
    found = shown(reply_of(asked, by=Category("region", REGIONS)))
    assert [bool(absent) for absent in found.absent] == [False] * 4 + [True] * 2
    each = found.value[:4] * np.repeat([400, 97], 2)
    np.testing.assert_allclose(each / 5, np.rint(each / 5), atol=0.3)


def test_a_count(reply_of: Any) -> None:
    many = shown(reply_of(questions.count(), where={"region": "south"}))
    assert many.value == 95
    assert many.low % 5 == many.high % 5 == 0
    assert many.low <= 97 <= many.high
    few = shown(reply_of(questions.count(), where={"region": "east"}))
    assert np.isnan(few.value)
    assert "fewer than 10" in few.sentence


def test_what_has_no_cells_is_left_alone(reply_of: Any) -> None:
    reply = reply_of(
        questions.mean("kwh", between=(0, 40)), questions.quantiles("kwh", between=(0, 40), at=0.5)
    )
    after = with_small_cells(reply, SmallCells())
    for one, other in zip(reply.decoded, after.decoded, strict=True):
        assert tuple(one) == tuple(other)


def test_a_rounded_answer_shows_no_number_that_is_not_rounded(reply_of: Any) -> None:
    """Nor a sentence that has it."""
    reply = reply_of(questions.histogram("region", categories=("north", "south")), missing="out")
    before, after = reply.decoded[0][0], shown(reply)
    assert before.sentence != after.sentence
    assert "%" not in after.sentence


def test_the_release_stays_what_it_is_and_costs_nothing_more(reply_of: Any) -> None:
    reply = reply_of(questions.histogram("region", categories=REGIONS))
    after = with_small_cells(reply, SmallCells())
    assert (after.event, after.epsilon_spent) == (reply.event, reply.epsilon_spent)
    assert "rounded to multiples of 5" in after.notes[-1]
    again = reply_of(questions.histogram("region", categories=REGIONS))
    assert again.decoded[0][0].labels == REGIONS


def test_it_is_an_argument_of_ask_and_a_wrong_one_costs_nothing(
    reply_of: Any, tmp_path: Path
) -> None:
    asked = questions.histogram("region", categories=REGIONS)
    with pytest.raises(QuestionError, match="min_count"):
        reply_of(asked, min_count=-1)
    assert not (tmp_path / "b").exists()
    (found,) = reply_of(asked, min_count=10, round=5).decoded[0]
    assert found.absent == ("", "", "fewer than 10")
    np.testing.assert_allclose(found.value[:2] * 500, [400, 95], atol=1e-9)
    (rounded,) = reply_of(asked, round=5).decoded[0]
    assert rounded.absent == ()
    np.testing.assert_allclose(rounded.value * 100, np.rint(rounded.value * 100), atol=1e-9)


def test_it_is_a_function_of_noised_numbers() -> None:
    """The true count is 3; what was released is 12, and is shown."""
    counts = np.array([12.0, 8.0])
    found = Decoded("share", counts / 20, counts / 20, counts / 20, ("a", "b"), counts=counts)
    (after,) = SmallCells(10, 1).of((found,), records=20)
    assert after.value[0] == 0.6
    assert np.isnan(after.value[1])


@pytest.mark.parametrize(("least", "to", "message"), [(-1, 5, "min_count"), (10, 0, "round")])
def test_numbers_that_mean_nothing(least: int, to: int, message: str) -> None:
    with pytest.raises(QuestionError, match=message):
        SmallCells(least, to)
