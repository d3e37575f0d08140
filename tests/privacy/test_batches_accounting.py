"""The accountant charges a batch for the readings that a unit protects together."""

import pytest

from veilsum.algorithms import Learn
from veilsum.errors import PrivacyError
from veilsum.privacy import (
    Accountant,
    Batches,
    Budget,
    BudgetExceeded,
    PrivacyEvent,
    ReleaseEvent,
    SignalDP,
    compose,
    guarantee_of,
)


def charged(accountant: Accountant, batches: Batches, rounds: int, epsilon: float = 0.1) -> None:
    for t in range(1, rounds + 1):
        if batches.closes(t):
            accountant.charge(
                ReleaseEvent(
                    "meter", t, "batch", epsilon, mechanism="laplace", readings=batches.closes(t)
                )
            )


@pytest.mark.parametrize("batches", [Batches(2.0), Batches(2.0, 3)])
def test_totals_are_those_of_the_guarantee(batches: Batches) -> None:
    accountant = Accountant(Budget(100.0))
    charged(accountant, batches, 32)
    inside = batches.released(32)
    stated = guarantee_of(SignalDP(0.1, batches=batches), Learn())
    totals = accountant.totals(window=7)
    assert totals.window is not None
    assert totals.event.epsilon == pytest.approx(0.1)
    assert totals.window.epsilon == pytest.approx(stated.for_window(7).epsilon)
    assert totals.stream.epsilon == pytest.approx(stated.for_stream(inside).epsilon)


def test_a_delta_composes_batches_and_not_readings() -> None:
    """As many releases of one reading each would compose to less: that is refused here."""
    batches, delta = Batches(2.0, 8), 1e-6
    accountant = Accountant(Budget(100.0))
    charged(accountant, batches, 40)
    inside = batches.released(40)
    found = accountant.totals(delta=delta).stream.epsilon
    one = PrivacyEvent(0.1, mechanism="laplace")
    right = compose([one.times(m) for m in batches.lengths(inside)], delta).epsilon
    weak = compose([one] * inside, delta).epsilon
    assert found == pytest.approx(right)
    assert found > 1.1 * weak


def test_a_window_that_holds_a_part_of_a_batch_is_charged_for_that_part() -> None:
    accountant = Accountant(Budget(0.4), unit="window", window=4)
    accountant.charge(ReleaseEvent("meter", 6, "batch", 0.1, readings=6))
    assert accountant.remaining("meter", 8) == pytest.approx(0.2)  # of rounds 5 to 8 two are in it
    accountant.charge(ReleaseEvent("meter", 8, "more", 0.1, readings=2))
    with pytest.raises(BudgetExceeded):  # rounds 3 to 6 are full
        accountant.charge(ReleaseEvent("meter", 3, "again", 0.1))
    restored = Accountant.from_dict(accountant.to_dict())
    assert restored.totals() == accountant.totals()
    whole = Accountant(Budget(0.5), unit="stream")
    with pytest.raises(BudgetExceeded):
        whole.charge(ReleaseEvent("meter", 6, "batch", 0.1, readings=6))
    assert whole.totals().stream.epsilon == 0


def test_an_early_part_of_a_batch_counts_too() -> None:
    """The largest window with the new batch need not contain its last round."""
    accountant = Accountant(Budget(0.35), unit="window", window=3)
    for t in (1, 2):
        accountant.charge(ReleaseEvent("meter", t, "reading", 0.1))
    with pytest.raises(BudgetExceeded):  # rounds 1 to 3: 0.1 + 0.1 + 0.2
        accountant.charge(ReleaseEvent("meter", 9, "batch", 0.2, readings=7))


def test_two_releases_of_one_reading_are_two_events() -> None:
    accountant = Accountant(Budget(100.0, delta=0.1))
    for what in ("a", "b"):
        accountant.charge(ReleaseEvent("meter", 1, what, 0.1, 1e-9, "approximate"))
    assert accountant.totals(delta=1e-6).stream.count == 2


def test_a_batch_needs_rounds_before_it() -> None:
    with pytest.raises(PrivacyError, match="cannot end with the one of round 2"):
        ReleaseEvent("meter", 2, "batch", 0.1, readings=3)
    with pytest.raises(PrivacyError, match="readings must be a whole number"):
        ReleaseEvent("meter", 2, "batch", 0.1, readings=0)
