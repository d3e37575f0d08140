"""The accountant: never exceeds, whatever is asked; totals equal brute force, in any order."""

import json
import math
import pickle
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilsum.errors import PrivacyError, VeilsumError
from veilsum.privacy.accounting import Accountant, Budget, BudgetExceeded, ReleaseEvent, spent

UNITS = [{"unit": "event"}, {"unit": "window", "window": 3}, {"unit": "stream"}]

releases = st.lists(
    st.builds(
        ReleaseEvent,
        agent=st.sampled_from([0, 1, "meter"]),
        round=st.integers(0, 12),
        what=st.sampled_from(["signal", "estimate"]),
        epsilon=st.floats(0.01, 1.0),
    ),
    max_size=40,
)
mixed = st.lists(
    st.one_of(
        st.builds(ReleaseEvent, st.just(0), st.integers(0, 9), st.just("signal"), st.floats(0.01, 0.5)),
        st.builds(
            ReleaseEvent, st.just(0), st.integers(0, 9), st.just("signal"), st.floats(0.01, 0.5),
            st.floats(1e-9, 1e-6), st.just("approximate"),
        ),
    ),
    max_size=20,
)  # fmt: skip


def brute_force(done: list[ReleaseEvent], width: int) -> float:
    """The largest sum of one agent over any `width` rounds, by trying them all."""
    return max(
        (
            math.fsum(r.epsilon for r in done if r.agent == agent and t <= r.round < t + width)
            for agent in {r.agent for r in done}
            for t in range(-width, 13)
        ),
        default=0.0,
    )


def charge_what_fits(accountant: Accountant, asked: list[ReleaseEvent]) -> list[ReleaseEvent]:
    done = []
    for release in asked:
        refused = accountant.would_exceed(release)
        before = accountant.to_dict()
        try:
            accountant.charge(release, again=True)
        except BudgetExceeded:
            assert refused
            assert accountant.to_dict() == before
        else:
            assert not refused
            done.append(release)
    return done


@pytest.mark.thorough
@pytest.mark.parametrize("unit", UNITS, ids=lambda u: u["unit"])
@settings(deadline=None, derandomize=True, max_examples=60)
@given(asked=releases)
def test_the_budget_is_never_exceeded(unit: Any, asked: Any) -> None:
    accountant = Accountant(Budget(1.0), **unit)
    done = charge_what_fits(accountant, asked)
    width = {"event": 1, "window": 3, "stream": 100}[unit["unit"]]
    assert brute_force(done, width) <= 1 + 1e-9
    assert list(accountant.releases) == done


@settings(deadline=None, derandomize=True, max_examples=60)
@given(asked=releases, width=st.integers(1, 14))
def test_totals_equal_brute_force(asked: Any, width: Any) -> None:
    accountant = Accountant(Budget(1e6), window=width)
    for release in asked:
        accountant.charge(release, again=True)
    totals = accountant.totals()
    assert totals.event.epsilon == pytest.approx(brute_force(asked, 1))
    assert totals.window is not None
    assert totals.window.epsilon == pytest.approx(brute_force(asked, width))
    assert totals.stream.epsilon == pytest.approx(brute_force(asked, 100))
    for agent in accountant.agents:
        own = [r for r in asked if r.agent == agent]
        window = accountant.totals(agent).window
        assert window is not None
        assert window.epsilon == pytest.approx(brute_force(own, width))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(asked=releases, order=st.randoms(use_true_random=False))
def test_the_order_of_charges_does_not_matter(asked: Any, order: Any) -> None:
    first, second = (Accountant(Budget(1e6), window=4) for _ in range(2))
    for release in asked:
        first.charge(release, again=True)
    order.shuffle(asked)
    for release in asked:
        second.charge(release, again=True)
    for agent in (None, *first.agents):
        assert first.totals(agent) == second.totals(agent)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(asked=releases, unit=st.sampled_from(UNITS), at=st.integers(0, 12))
def test_what_remains_can_be_spent_and_no_more(asked: Any, unit: Any, at: Any) -> None:
    accountant = Accountant(Budget(1.0), **unit)
    charge_what_fits(accountant, asked)
    left = accountant.remaining("meter", at)
    assert accountant.remaining("meter") <= left + 1e-12
    assert accountant.would_exceed(ReleaseEvent("meter", at, "more", left + 1e-6))
    if left > 1e-9:
        accountant.charge(ReleaseEvent("meter", at, "more", left))
        assert accountant.remaining("meter", at) == pytest.approx(0, abs=1e-9)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(asked=mixed, unit=st.sampled_from(UNITS))
def test_tight_budgets_are_never_exceeded_either(asked: Any, unit: Any) -> None:
    """Against `spent` of every window, from the list of releases."""
    budget = Budget(0.8, 1e-5)
    accountant = Accountant(budget, composition="best", **unit)
    done = charge_what_fits(accountant, asked)
    width = {"event": 1, "window": 3, "stream": 100}[unit["unit"]]
    for t in range(-1, 10):
        inside = [r for r in done if t <= r.round < t + width]
        assert spent(inside, delta=1e-5).epsilon <= 0.8 * (1 + 1e-9)


def test_a_tight_budget_allows_more_releases() -> None:
    def lasts(composition: str) -> int:
        accountant = Accountant(Budget(2.0, 1e-6), composition=composition)
        for t in range(1000):
            release = ReleaseEvent("meter", t, "signal", 0.1, mechanism="laplace")
            if accountant.would_exceed(release):
                return t
            accountant.charge(release)
        return 1000

    assert lasts("basic") == 20
    assert lasts("best") == 24
    assert spent([ReleaseEvent(0, 0, "x", 0.1, mechanism="laplace")] * 24, delta=1e-6).epsilon <= 2
    assert spent([ReleaseEvent(0, 0, "x", 0.1, mechanism="laplace")] * 25, delta=1e-6).epsilon > 2


def test_refusal_names_agent_spent_asked_and_budget() -> None:
    accountant = Accountant(Budget(1.0), unit="window", window=7)
    accountant.charge(ReleaseEvent("meter-3", 1, "signal", 0.75))
    asked = ReleaseEvent("meter-3", 2, "signal", 0.5)
    with pytest.raises(BudgetExceeded, match=r"'meter-3' has spent epsilon = 0\.75") as caught:
        accountant.charge(asked)
    error = caught.value
    assert (error.agent, error.asked, error.budget) == ("meter-3", asked, Budget(1.0))
    assert error.spent.epsilon == 0.75
    assert "window of 7 rounds" in str(error)
    assert isinstance(error, PrivacyError)
    assert isinstance(error, VeilsumError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert accountant.totals().stream.count == 1
    accountant.charge(ReleaseEvent("meter-3", 8, "signal", 0.5))


def test_delta_is_a_budget_too() -> None:
    accountant = Accountant(Budget(10.0, 1e-5))
    accountant.charge(ReleaseEvent(0, 0, "signal", 0.1, 6e-6, "approximate"))
    with pytest.raises(BudgetExceeded, match="delta = 6e-06"):
        accountant.charge(ReleaseEvent(0, 1, "signal", 0.1, 6e-6, "approximate"))
    best = Accountant(Budget(10.0, 1e-5), composition="best")
    best.charge(ReleaseEvent(0, 0, "signal", 0.1, 6e-6, "approximate"))
    assert best.would_exceed(ReleaseEvent(0, 1, "signal", 0.1, 6e-6, "approximate"))


def test_the_same_release_twice_is_two_releases() -> None:
    accountant = Accountant(Budget(1.0), unit="event")
    release = ReleaseEvent(0, 5, "signal", 0.4)
    accountant.charge(release)
    with pytest.raises(PrivacyError, match="re-send the stored value"):
        accountant.charge(release)
    assert accountant.charge(release, again=True).epsilon == pytest.approx(0.8)
    with pytest.raises(BudgetExceeded):
        accountant.charge(release, again=True)


def test_decimals_add_up_as_written() -> None:
    accountant = Accountant(Budget(0.3))
    for t in range(3):
        accountant.charge(ReleaseEvent(0, t, "signal", 0.1))
    assert accountant.would_exceed(ReleaseEvent(0, 3, "signal", 1e-6))


def test_budgets_of_their_own() -> None:
    accountant = Accountant({"a": Budget(0.5), 7: Budget(2.0)})
    accountant.charge(ReleaseEvent(7, 0, "signal", 1.5))
    with pytest.raises(BudgetExceeded):
        accountant.charge(ReleaseEvent("a", 0, "signal", 1.5))
    with pytest.raises(PrivacyError, match="'b' has no budget"):
        accountant.charge(ReleaseEvent("b", 0, "signal", 0.1))
    assert accountant.remaining("a") == 0.5
    again = Accountant.from_dict(json.loads(json.dumps(accountant.to_dict())))
    assert again.to_dict() == accountant.to_dict()
    assert again.remaining(7) == 0.5


def test_agents_compose_in_parallel() -> None:
    accountant = Accountant(Budget(5.0), window=2)
    for t in range(4):
        accountant.charge(ReleaseEvent("a", t, "signal", 0.5))
        accountant.charge(ReleaseEvent("b", t, "signal", 1.0))
    totals = accountant.totals()
    assert totals.window is not None
    found = totals.event.epsilon, totals.window.epsilon, totals.stream.epsilon
    assert found == (1.0, 2.0, 4.0)
    assert accountant.totals("a").stream.epsilon == 2.0
    assert accountant.totals("nobody").stream.epsilon == 0
    wider = accountant.totals(window=3).window
    assert wider is not None
    assert wider.epsilon == 3.0
    assert Accountant(Budget(1.0)).totals().window is None


def test_tight_totals() -> None:
    accountant = Accountant(Budget(100.0), window=20)
    for t in range(100):
        accountant.charge(ReleaseEvent("a", t, "signal", 0.1, mechanism="laplace"))
    totals = accountant.totals(delta=1e-6)
    assert totals.stream.epsilon == pytest.approx(4.6927, abs=5e-5)
    one = ReleaseEvent("a", 0, "signal", 0.1, mechanism="laplace")
    assert totals.window == spent([one] * 20, delta=1e-6)
    assert totals.event.epsilon <= 0.1
    assert totals.to_dict()["stream"]["method"] == "tight"


def test_a_file_that_was_tampered_with_is_refused() -> None:
    accountant = Accountant(Budget(1.0))
    accountant.charge(ReleaseEvent(0, 0, "signal", 0.9))
    data = accountant.to_dict()
    data["releases"] *= 2
    with pytest.raises(BudgetExceeded):
        Accountant.from_dict(data)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: Accountant(Budget(1.0), unit="day"), "unit must be one of event"),
        (lambda: Accountant(Budget(1.0), unit="window"), "needs the number of rounds"),
        (lambda: Accountant(Budget(1.0), window=0), "window"),
        (lambda: Accountant(Budget(1.0), composition="rdp"), "composition"),
        (lambda: Accountant(Budget(1.0)).totals(window=0), "window"),
        (lambda: Budget(0.0), "epsilon"),
        (lambda: Budget(1.0, -0.1), "delta"),
        (lambda: ReleaseEvent(0, -1, "signal", 1.0), "round"),
        (lambda: ReleaseEvent(cast(Any, None), 1, "signal", 1.0), "agent"),
        (lambda: ReleaseEvent(True, 1, "signal", 1.0), "agent"),
        (lambda: ReleaseEvent(0, 1, "", 1.0), "what"),
    ],
)
def test_nonsense_is_refused(made: Any, says: Any) -> None:
    with pytest.raises(PrivacyError, match=says):
        made()


def test_unsigned_rounds_do_not_wrap_around() -> None:
    accountant = Accountant(Budget(1.0), unit="window", window=cast(Any, np.uint8(7)))
    accountant.charge(ReleaseEvent("m", cast(Any, np.uint32(0)), "a", 0.5))
    accountant.charge(ReleaseEvent("m", cast(Any, np.uint64(1)), "b", 0.5))
    with pytest.raises(BudgetExceeded):
        accountant.charge(ReleaseEvent("m", cast(Any, np.uint8(2)), "c", 0.5))
