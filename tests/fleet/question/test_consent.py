"""Who says yes: what a site checks, what its policy approves, and a preview without a row in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from tests.fleet.question.asks import ASKS, question, rows
from veilsum.asking.codebook import parsed as codebook
from veilsum.errors import FleetError
from veilsum.fleet.consent import (
    Approved,
    Declined,
    NeedsPerson,
    Policy,
    Preview,
    SiteFacts,
    columns_of,
    decide,
    preview,
)
from veilsum.fleet.encoding import encode
from veilsum.fleet.promise import guarantee_of
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.secure_sum.numbers import suggested
from veilsum.privacy.exact.entropy import Entropy

BOOK = codebook('[columns.kwh]\nkind = "number"\nbetween = [0, 40]')
FACTS = SiteFacts(
    ("kwh", "age", "region", "salary"), 3.0, 0.0, asker="ada", spent=lambda _: 0.0, records=500
)
POLICY = Policy(
    ("mean", "count", "histogram"), ("kwh", "region"), 1.0, "month", 100, askers=("ada",)
)


class Counted(Entropy):
    """The same bytes for the same question."""

    def __init__(self) -> None:
        self.at = 0

    def read(self, count: int) -> bytes:
        self.at += 1
        return bytes((k * 37 + self.at * 101) % 256 for k in range(count))


@pytest.mark.parametrize(
    ("asked", "facts", "why"),
    [
        (lambda: question(), {"columns": ("kWh", "salary")}, "this site has no column 'kwh'"),
        (lambda: question(where={"east": ["1"]}), {}, "this site has no column 'east'"),
        (lambda: question(by=("east", ("1", "2"))), {}, "this site has no column 'east'"),
        (lambda: question(id="person"), {}, "this site has no column 'person'"),
        (
            lambda: question(epsilon=3.1),
            {},
            "this site's budget has less left than the question costs",
        ),
        (lambda: question(delta=1e-6, noise="gaussian"), {}, "budget has less left"),
        (
            lambda: question(protocol="secure-sum"),
            {"protocols": ("pool",)},
            "take part in a secure-sum",
        ),
        (lambda: question(codebook="0" * 64), {}, "this site has no codebook"),
        (lambda: question(codebook="0" * 64), {"codebook": BOOK}, "says another thing"),
    ],
)
def test_what_a_site_cannot_answer_it_refuses_in_a_sentence(
    asked: Callable[[], FleetQuestion], facts: dict[str, Any], why: str
) -> None:
    """The sentence may be posted: no other column, no number of rows, nothing that others asked."""
    found = decide(asked(), replace(FACTS, **facts), POLICY)
    assert isinstance(found, Declined)
    assert why in found.reason
    assert "salary" not in found.reason
    assert "500" not in found.reason


def test_a_question_that_settles_differently_here_is_refused() -> None:
    other = FleetQuestion.parsed(question().canonical())
    object.__setattr__(other, "settles", "1" * 64)
    assert isinstance(decide(other, FACTS, POLICY), Declined)


def test_a_codebook_that_says_the_same_is_no_reason_to_refuse() -> None:
    again = codebook('# other words\n[columns.kwh]\nbetween = [0.0, 40.0]\nkind = "number"\n')
    asked = question(codebook=BOOK.digest(["kwh"]))
    assert decide(asked, replace(FACTS, codebook=again), POLICY) == Approved()


@pytest.mark.parametrize(
    ("asked", "facts", "why"),
    [
        (lambda: question(), {}, ""),
        (lambda: question(ASKS["mean"], ASKS["count"]), {}, ""),
        (lambda: question(by=("region", ("north",))), {}, ""),
        (lambda: question(protocol="secure-sum"), {}, ""),
        (lambda: question(ASKS["variance"]), {}, "does not approve a variance"),
        (lambda: question(ASKS["mean"], ASKS["sum"]), {}, "does not approve a sum"),
        (lambda: question(clipped=True), {}, "does not approve a clipped"),
        (lambda: question(where={"age": ["3"]}), {}, "does not approve column age"),
        (lambda: question(by=("age", ("3", "4"))), {}, "does not approve column age"),
        (lambda: question(id="salary"), {}, "does not approve column salary"),
        (lambda: question(epsilon=1.01), {}, "epsilon 1.01 is more than the 1 per month"),
        (lambda: question(epsilon=0.5), {"spent": lambda _: 0.5}, ""),
        (lambda: question(epsilon=0.5), {"spent": lambda _: 0.6}, "epsilon 0.5 after 0.6 is more"),
        (lambda: question(delta=1e-6, noise="gaussian"), {"delta_left": 1e-3}, "approves no delta"),
        (lambda: question(), {"records": 99}, "fewer than 100 records"),
        (lambda: question(), {"asker": "eve"}, "does not approve questions of eve"),
    ],
)
def test_a_policy_approves_what_it_says_and_leaves_the_rest_to_a_person(
    asked: Callable[[], FleetQuestion], facts: dict[str, Any], why: str
) -> None:
    found = decide(asked(), replace(FACTS, **facts), POLICY)
    assert isinstance(found, NeedsPerson if why else Approved)
    assert why in found.reason


@pytest.mark.parametrize(
    "rule", ["kinds", "columns", "protocols", "askers", "max_epsilon", "min_records"]
)
def test_each_rule_of_a_policy_alone_keeps_a_question_from_being_approved(rule: str) -> None:
    """All of it must hold: a policy that is narrower in one key does not approve."""
    narrow: dict[str, Any] = {
        "kinds": ("count",), "columns": ("region",), "protocols": ("secure-sum",), "askers": ("bob",),
        "max_epsilon": 0.9, "min_records": 501,
    }  # fmt: skip
    assert decide(question(), FACTS, POLICY) == Approved()
    assert isinstance(
        decide(question(), FACTS, replace(POLICY, **{rule: narrow[rule]})), NeedsPerson
    )


def test_without_a_policy_a_person_decides() -> None:
    assert isinstance(decide(question(), FACTS), NeedsPerson)


def test_a_question_that_repeats_is_not_approved_per_question() -> None:
    repeated = question(schedule={"every": "1 h"}, epsilon=0.01)
    assert isinstance(decide(repeated, FACTS, replace(POLICY, per="question")), NeedsPerson)
    assert decide(repeated, FACTS, POLICY) == Approved()


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"kinds": ("men",)}, 'did you mean "mean"'),
        ({"protocols": ("pol",)}, 'did you mean "pool"'),
        ({"per": "hour"}, "question, day, month, year"),
        ({"max_epsilon": 0.0}, "above 0"),
        ({"min_records": 0}, "at least 1"),
    ],
)
def test_a_policy_that_is_none_is_refused(values: dict[str, Any], why: str) -> None:
    with pytest.raises(FleetError, match=why):
        replace(POLICY, **values)


def shown(asked: FleetQuestion) -> Preview:
    numbers = suggested(50)
    return preview(
        asked, promise=guarantee_of(asked, numbers), sites=50, draws=Fraction(50, numbers.honest),
        share=Fraction(1, numbers.honest), left=(3.0, 0.0), entropy=Counted(),
    )  # fmt: skip


@pytest.mark.parametrize("name", [one for one in ASKS if one != "distinct"])
def test_a_preview_has_no_number_of_the_rows(name: str) -> None:
    """Two tables, the same entropy: the same words to the byte, before and after each is encoded."""
    asked, said = question(ASKS[name], protocol="secure-sum"), []
    for seed, count in ((1, 80), (2, 300)):
        encode(asked, rows(count, seed))
        said.append("\n".join(shown(FleetQuestion.parsed(asked.canonical())).sentences()))
    assert said[0] == said[1]


def test_a_preview_says_what_it_costs_leaves_and_is_worth() -> None:
    found = shown(question(ASKS["mean"], ASKS["histogram"], protocol="secure-sum"))
    said = " ".join(found.sentences())
    assert found.epsilon_after == 2.0
    assert "It costs epsilon 1 of this site's budget; 2 is left then." in said
    assert "It reads kwh." in said
    assert (
        "With 50 sites and 50,000 records together, noise would move the mean of kwh by ±" in said
    )
    assert "What would leave is 9 numbers." in said
    assert "never from your rows" in said
    assert "up to 10 keepers" in said
    assert len(found.example) == 8


def test_the_example_is_drawn_anew_each_time_and_is_the_noise_of_this_site() -> None:
    asked = question(protocol="pool", epsilon=0.1)
    pool = [
        preview(
            asked, promise=guarantee_of(asked), sites=3, draws=3, share=1, left=(1.0, 0.0)
        ).example
        for _ in range(3)
    ]
    assert len(set(pool)) == 3  # equal by chance: below 1e-9
    tail = asked.laws[0].tail(1e-9)
    assert all(abs(each[0]) <= tail for each in pool)


def test_the_columns_are_those_that_are_read_filtered_and_grouped() -> None:
    asked = question(where={"age": ["3"]}, by=("region", ("north",)), id="person")
    assert set(columns_of(asked)) == {"kwh", "age", "region", "person"}
