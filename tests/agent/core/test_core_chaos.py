"""Mass is conserved to the bit at every step, whatever happens, and the mean is reached."""

import pytest
from chaos_machine import Chaos, Increments, Lifeless, SavedTooLate
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

FEW = settings(
    max_examples=25,
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
    deadline=None,
    phases=[Phase.generate],  # shrinking takes long, as each example heals
)
SEEK = settings(FEW, max_examples=200)


def machine(**attributes):
    return type("Variant", (Chaos,), attributes)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["rounds", "ticks"])
def test_mass_is_conserved_at_every_step_and_the_mean_is_reached(asynchronous):
    run_state_machine_as_test(machine(asynchronous=asynchronous), settings=FEW)


@pytest.mark.slow
@pytest.mark.parametrize("asynchronous", [False, True], ids=["rounds", "ticks"])
def test_mass_is_conserved_in_many_longer_runs(asynchronous):
    longer = settings(FEW, max_examples=400, stateful_step_count=80)
    run_state_machine_as_test(machine(asynchronous=asynchronous), settings=longer)


@pytest.mark.parametrize(
    "weakened",
    [{"core": Increments}, {"core": Lifeless}, {"bag": SavedTooLate}],
    ids=["increments instead of totals", "no life in the session", "persisted after sending"],
)
def test_weakened_twins_are_caught(weakened):
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine(**weakened), settings=SEEK)
