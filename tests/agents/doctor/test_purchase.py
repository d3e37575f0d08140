"""What doctor says a budget buys is what the ledger admits, batch by batch."""

import math
from pathlib import Path

import pytest

from tests.agents.config.setups import write_setup
from tests.agents.doctor.broken import replace_in
from veilsum.agents.config import Setup
from veilsum.agents.doctor.outcomes import ExaminedAgent
from veilsum.agents.doctor.purchase import Purchase
from veilsum.agents.doctor.spending import accuracy
from veilsum.agents.ledger.budget import BudgetTracker
from veilsum.agents.ledger.meters import Charge
from veilsum.privacy import Batches, BudgetExceeded

NOW = 1.8e9  # seconds since 1970


def setup(folder: Path, budget: str, batches: str, rounds: int = 200, agents: str = "") -> Setup:
    write_setup(folder)
    terms = f"radius = inf\n{f'batches = {batches}' if batches else ''}"
    replace_in(folder / "scenario.toml", "radius = inf", terms)
    stream = f'name = "learn"\nrounds = {rounds}\n[agents]\n{agents}\n'
    replace_in(folder / "scenario.toml", 'name = "average"\nrounds = 60', stream)
    replace_in(folder / "agent.toml", "epsilon = 1.0", budget)
    return Setup.load(folder / "agent.toml")


def purchase(made: Setup) -> Purchase:
    cost = ExaminedAgent(made).cost
    assert cost is not None
    return Purchase(made, cost)


def admitted(made: Setup, lengths: tuple[int, ...]) -> int:
    """How many readings the ledger releases of these batches, all at one time, until it refuses."""
    tracker, last = BudgetTracker(made.ledger_identity), 0
    for length in lengths:
        charge = Charge(last + 1, last + length, length, NOW, 1.0, 0.0)
        try:
            tracker.admit(charge)
        except BudgetExceeded:
            return last
        tracker.add(charge)
        last += length
    return last


@pytest.mark.parametrize("epsilon", [1, 1.5, 3, 4, 7.9, 8, 31, 56, 100, 199, 200, 500])
@pytest.mark.parametrize("batches", ["", "{growth = 2.0, longest = 24}", "{growth = 1.25}"])
def test_a_stream_buys_what_is_admitted(tmp_path: Path, epsilon: float, batches: str) -> None:
    made = setup(tmp_path, f"epsilon = {epsilon}", batches)
    found = purchase(made)
    lengths = Batches(made.manifest.batch_growth, made.manifest.longest_batch).lengths(200)
    assert found.longest == max(lengths)
    assert found.released(200) == admitted(made, lengths)
    assert min(found.readings, 200) == admitted(made, lengths)
    assert found.affordable == math.floor(epsilon)
    assert found.pays_for_batches == (max(lengths) <= epsilon)


@pytest.mark.parametrize("epsilon", [23.9, 24, 47, 48, 100])
def test_a_day_buys_whole_batches(tmp_path: Path, epsilon: float) -> None:
    made = setup(tmp_path, f'epsilon = {epsilon}\nper = "day"', "{growth = 2.0, longest = 24}")
    assert purchase(made).readings == admitted(made, (24,) * 10)


def test_an_event_pays_for_every_batch(tmp_path: Path) -> None:
    made = setup(tmp_path, 'epsilon = 1\nunit = "event"', "{growth = 2.0, longest = 24}")
    found = purchase(made)
    assert found.pays_for_batches
    assert found.readings == math.inf
    assert found.released(200) == 200


@pytest.mark.parametrize(
    ("budget", "released", "says"),
    [
        ('epsilon = 24\nper = "day"', 200, "if all members take part"),
        ('epsilon = 6\nper = "day"', 50, "after 50 readings of each"),  # 6 of 24 an hour apart
        ("epsilon = 50", 50, "after 50 readings of each"),
        ('epsilon = 2\nunit = "window"\nwindow = 4', 100, "after 100 readings of each"),
        ('epsilon = 4\nunit = "window"\nwindow = 4', 200, "if all members take part"),
    ],
)
def test_accuracy_is_for_the_readings_that_are_bought(
    tmp_path: Path, budget: str, released: int, says: str
) -> None:
    made = setup(tmp_path, budget, "", agents='every = "1h"')
    assert purchase(made).released(200) == released
    (found,) = accuracy(ExaminedAgent(made))
    assert str(found).rstrip(")").endswith(says), found


def test_a_period_in_which_any_number_of_readings_may_come_is_a_condition(tmp_path: Path) -> None:
    (found,) = accuracy(ExaminedAgent(setup(tmp_path, 'epsilon = 3\nper = "day"', "")))
    assert str(found).endswith("if all members take part and the budget covers every reading")


def test_a_batch_that_is_too_long_ends_what_is_released(tmp_path: Path) -> None:
    made = setup(tmp_path, 'epsilon = 3\nper = "day"', "{growth = 2.0, longest = 24}")
    assert purchase(made).released(200) == 1 + 1 + 2
    assert purchase(made).readings == 0
