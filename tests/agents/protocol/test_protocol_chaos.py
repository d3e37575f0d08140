"""Mass is conserved to the bit at every step, whatever happens, and the mean is reached."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.agents.protocol.chaos_machine import (
    Chaos,
    Increments,
    OneIncarnation,
    SavedTooLate,
    Trusting,
    Views,
)

FEW = settings(
    max_examples=25,
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
    deadline=None,
    phases=[Phase.generate],  # shrinking takes long, as each example heals
)
SEEK = settings(FEW, max_examples=1000)  # ends with the first that is caught


def machine(**attributes: Any) -> Any:
    return type("Variant", (Chaos,), attributes)


@pytest.mark.thorough
@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
def test_mass_is_conserved_at_every_step_and_the_mean_is_reached(asynchronous: Any) -> None:
    run_state_machine_as_test(machine(asynchronous=asynchronous), settings=FEW)


@pytest.mark.slow
@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
def test_mass_is_conserved_in_many_longer_runs(asynchronous: Any) -> None:
    longer = settings(FEW, max_examples=400, stateful_step_count=80)
    run_state_machine_as_test(machine(asynchronous=asynchronous), settings=longer)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "weakened",
    [{"agent": Increments}, {"agent": OneIncarnation}, {"bag": SavedTooLate}],
    ids=[
        "increments instead of cumulative mass",
        "no incarnation in the session",
        "persisted after sending",
    ],
)
def test_weakened_variants_are_caught(weakened: Any) -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine(**weakened), settings=SEEK)


@pytest.mark.thorough
@pytest.mark.parametrize("clip", [0.0, 1.0], ids=["plain", "clipped"])
def test_every_run_to_a_last_round_ends_in_the_mean_of_a_stated_set_or_nothing(clip: Any) -> None:
    few = settings(FEW, max_examples=15, stateful_step_count=15)
    kind: Any = type("Variant", (Views,), {"clip": clip})
    run_state_machine_as_test(kind, settings=few)


@pytest.mark.slow
@pytest.mark.parametrize("clip", [0.0, 1.0], ids=["plain", "clipped"])
@pytest.mark.parametrize("quorum", [2, 3, 4])
def test_many_longer_runs_to_a_last_round(quorum: Any, clip: Any) -> None:
    many = settings(FEW, max_examples=150, stateful_step_count=30)
    kind: Any = type("Variant", (Views,), {"quorum": quorum, "clip": clip})
    run_state_machine_as_test(kind, settings=many)


@pytest.mark.slow
def test_weakened_views_are_caught() -> None:
    kind: Any = type("Variant", (Views,), {"agent": Trusting})
    with pytest.raises(AssertionError):
        run_state_machine_as_test(kind, settings=settings(SEEK, stateful_step_count=30))
