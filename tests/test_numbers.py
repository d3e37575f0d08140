"""Numbers for people are rounded up."""

import math

import pytest

from veilsum._numbers import rounded_up, upward


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (3e5, "300,000"), (1.23451, "1.235"), (12.0, "12"), (1e4 + 0.2, "10,001"),
        (0.69314718, "0.6932"), (1.0, "1"),
    ],
)  # fmt: skip
def test_what_is_printed_is_no_less_than_the_value(value: float, said: str) -> None:
    assert upward(value) == said
    assert float(said.replace(",", "")) >= value


def test_digits_are_as_many_as_asked() -> None:
    assert upward(1.234e-7, 3) == "1.24e-07"


def test_rounding_of_a_sum_is_not_rounded_up() -> None:
    assert upward(0.1 + 0.2) == "0.3"
    assert rounded_up(0.1 + 0.2) == 0.3


def test_nothing_and_no_limit_are_themselves() -> None:
    assert (upward(0.0), upward(math.inf)) == ("0", "inf")
