"""The one price: group privacy, releases of several runs, Skellam sessions, and what is printed.

Each bound is compared with an exact loss, computed here from the probabilities themselves.
"""

import itertools
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.attacks.test_attack_composition import spent_delta
from veilsum import algorithms
from veilsum._numbers import upward
from veilsum.errors import PrivacyError
from veilsum.privacy import (
    MECHANISMS,
    Accountant,
    Batches,
    Budget,
    BudgetExceeded,
    EventKind,
    Guarantee,
    NetworkDP,
    PrivacyEvent,
    Release,
    ReleaseEvent,
    SignalDP,
    Status,
    compose,
    guarantee_of,
    spent,
)
from veilsum.privacy.accounting import EVENT_KINDS
from veilsum.privacy.accounting.accountant import EventHistory
from veilsum.privacy.accounting.events import LARGEST_DELTA
from veilsum.privacy.guarantee import RunReleases
from veilsum.privacy.laws.skellam import SkellamCost, skellam_variance

EXAMPLES = {  # an event of every kind; the suite below refuses a kind without one
    "pure": PrivacyEvent(0.3),
    "approximate": PrivacyEvent(0.3, 1e-6, "approximate"),
    "laplace": PrivacyEvent(0.3, mechanism="laplace"),
    "discrete-laplace": PrivacyEvent(0.3, mechanism="discrete-laplace", parameter=7),
    "skellam": SkellamCost(400.0, 20.0, 6.0).event(1e-6),
}
for charged in (made.event() for kind in MECHANISMS.values() for made in kind.examples()):
    EXAMPLES.setdefault(charged.mechanism, charged)


def stated_for(event: PrivacyEvent, batches: Batches | None) -> Guarantee:
    request = SignalDP(event.epsilon, radius=1.0, batches=batches)
    return guarantee_of(request, algorithms.Learn(), 1000)


@pytest.mark.parametrize("name", EVENT_KINDS.names())
def test_every_kind_answers_for_groups_orders_and_losses(name: str) -> None:
    event = EXAMPLES[name]
    kind = event.kind
    assert (kind.name, type(kind)) == (name, EVENT_KINDS[name])
    assert PrivacyEvent(**{**vars(event)}) == event
    three = event.times(3)
    assert three.times(2).epsilon == pytest.approx(event.times(6).epsilon, rel=1e-9)
    assert event.times(1) is event
    assert three.epsilon >= event.epsilon
    assert three.delta >= event.delta
    divergences = [kind.renyi(event, order) for order in (2, 3, 10, 100)]
    assert all(d > 0 for d in divergences)
    assert divergences == sorted(divergences)  # it grows with its order
    assert kind.renyi(three, 5) >= kind.renyi(event, 5)
    if event.delta == 0:
        assert max(divergences) <= event.epsilon
    for method in ("optimal", "advanced", "renyi", "tight"):
        allowed = max(1e-4, 4 * event.delta)
        assert math.isfinite(compose([event] * 3, allowed, method=method).epsilon)
    with pytest.raises(PrivacyError, match="at least 1"):
        event.times(0)


def test_an_unknown_kind_is_refused_and_a_name_is_taken_once() -> None:
    known = EVENT_KINDS["laplace"]
    with pytest.raises(PrivacyError, match="'laplace' belongs to another kind of privacy event"):

        class Another(EventKind):
            name = "laplace"

    assert EVENT_KINDS["laplace"] is known
    with pytest.raises(PrivacyError, match="known: approximate, discrete-laplace"):
        PrivacyEvent(1.0, mechanism="cauchy")


def test_a_kind_has_one_spelling_by_which_its_events_are_known() -> None:
    """Guarantees compare `mechanism` with the name: another spelling would be another kind to them."""
    usual = PrivacyEvent(0.5, mechanism="laplace")
    try:
        other = PrivacyEvent(0.5, mechanism="La Place")
    except PrivacyError:
        return
    assert other == usual


def randomised_response(event: PrivacyEvent) -> tuple[Any, Any]:
    """P and Q of the worst (epsilon, delta)-DP release: reveals with probability delta."""
    e, d = math.exp(event.epsilon), event.delta
    p = np.array([d, (1 - d) * e / (1 + e), (1 - d) / (1 + e), 0.0])
    return p, p[::-1]


def delta_at(p: Any, q: Any, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("m", [2, 3, 12])
def test_group_privacy_with_a_delta_holds_and_a_multiple_of_delta_does_not(m: int) -> None:
    """Attained in `test_whole_value`; m delta, as was charged before, is less."""
    one = PrivacyEvent(1.0, 2e-7, "approximate")
    group = one.times(m)
    assert group.epsilon == pytest.approx(m)
    expected = 2e-7 * sum(math.exp(k) for k in range(m))
    assert group.delta == pytest.approx(expected)
    assert group.delta > m * one.delta
    assert PrivacyEvent(1.0, 0.5, "approximate").times(9).delta < 1


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.floats(1e-3, 900.0), st.floats(1e-12, 0.1), st.integers(2, 40))
def test_the_delta_of_a_group_is_never_stated_too_small(eps: float, delta: float, m: int) -> None:
    """Against the sum in 60 digits, also where it exceeds every float."""
    with mpmath.workdps(60):
        exact = mpmath.mpf(delta) * sum(mpmath.exp(k * mpmath.mpf(eps)) for k in range(m))
        stated = PrivacyEvent(eps, delta, "approximate").times(m).delta
        assert stated >= min(exact, mpmath.mpf(LARGEST_DELTA))
        assert stated <= exact * (1 + mpmath.mpf(1e-11))


def test_the_accountant_charges_a_batch_with_delta_as_a_group() -> None:
    """As was: 12 x 2e-7 = 2.4e-6, where 12 readings of the batch really cost 1.9e-2."""
    batch = ReleaseEvent("meter", 12, "batch", 1.0, 2e-7, "approximate", readings=12)
    accountant = Accountant(Budget(100.0, delta=1e-5))
    with pytest.raises(BudgetExceeded):
        accountant.charge(batch)
    wide = Accountant(Budget(100.0, delta=0.1), window=3)
    wide.charge(batch)
    totals = wide.totals()
    assert totals.stream.delta == pytest.approx(batch.event.times(12).delta)
    assert totals.stream.delta > 1e-2
    assert totals.window is not None
    assert totals.window.delta == pytest.approx(batch.event.times(3).delta)
    assert totals.event.delta == pytest.approx(2e-7)


def test_runs_with_and_without_batches_compose_with_their_batches() -> None:
    """As was: 0.779, "proved", of releases that really cost at least 1.1806."""
    runs = [stated_for(PrivacyEvent(0.01), None), stated_for(PrivacyEvent(0.009), Batches(2.0))]
    delta = 1e-6
    together = runs[0].for_runs(runs[1:]).for_stream(100, delta)
    assert together.status is Status.PROVED
    exact = [0.01] * 100 + [0.009 * m for m in Batches(2.0).lengths(100)]
    assert spent_delta(exact, together.epsilon) <= delta
    assert together.epsilon >= 1.1806
    assert together.epsilon <= 1.9 * (1 + 1e-9)
    weak = replace(  # every reading released by itself
        together, runs=tuple(replace(run, batches=None) for run in together.runs)
    ).for_stream(100, delta)
    assert spent_delta(exact, weak.epsilon) > delta
    assert Guarantee.from_dict(together.to_dict()) == together


@settings(deadline=None, derandomize=True, max_examples=25)
@given(
    epsilons=st.lists(st.sampled_from([0.05, 0.1, 0.2]), min_size=1, max_size=3),
    schedules=st.lists(
        st.sampled_from([None, Batches(2.0), Batches(2.0, 3), Batches(1.5, 4)]),
        min_size=3,
        max_size=3,
    ),
    w=st.integers(1, 12),
    delta=st.sampled_from([None, 1e-3]),
)
def test_a_guarantee_is_the_price_of_its_releases(
    epsilons: list[float], schedules: list[Batches | None], w: int, delta: float | None
) -> None:
    """Windows and streams of several runs cost at least `spent` of the releases, and streams just that."""
    made = [stated_for(PrivacyEvent(e), b) for e, b in zip(epsilons, schedules, strict=False)]
    total = made[0].for_runs(made[1:])
    releases = []
    for run in total.runs:
        first = 1
        for length in (run.batches or Batches(1.0)).lengths(60):
            releases.append(Release(run.event, first, first + length - 1))
            first += length
    whole = spent(releases, range(1, w + 1), delta)
    assert total.for_stream(w, delta).epsilon == pytest.approx(whole.epsilon, rel=1e-9)
    windows = [spent(releases, range(k, k + w), delta).epsilon for k in range(1, 40)]
    assert total.for_window(w, delta).epsilon >= max(windows) * (1 - 1e-9)
    if delta is None:
        assert total.for_window(w).epsilon == pytest.approx(max(windows))


releases = st.lists(
    st.builds(
        lambda last, length, event: ReleaseEvent(
            "a", last, "x", event.epsilon, event.delta, event.mechanism, event.parameter,
            readings=min(length, last),
        ),
        st.integers(1, 12),
        st.integers(1, 5),
        st.sampled_from(list(EXAMPLES.values())),
    ),
    max_size=12,
)  # fmt: skip


@settings(deadline=None, derandomize=True, max_examples=60)
@given(made=releases, width=st.integers(1, 14), delta=st.sampled_from([None, 1e-3]))
def test_the_accountant_is_a_cache_of_the_price(made: Any, width: int, delta: Any) -> None:
    history = EventHistory()
    for release in made:
        history.add(release)
    windows = [spent(made, range(k, k + width), delta) for k in range(-width, 14)]
    found = history.largest(width, delta)
    assert found.epsilon == pytest.approx(max(one.epsilon for one in windows))
    if delta is None:
        assert found.delta == pytest.approx(max(one.delta for one in windows))
    assert history.largest(None, delta).epsilon == pytest.approx(spent(made, None, delta).epsilon)
    for release in made:
        history.remove(release)
    assert history.largest(None) == EventHistory().largest(None)


def test_skellam_sessions_compose_by_their_divergences() -> None:
    """As was: (2, 2e-6) for two sessions of (1, 1e-6)."""
    l1, l2 = 6400.0, 800.0
    variance = float(skellam_variance(1.0, 1e-6, l1, l2))
    one = SkellamCost(variance, l1, l2).event(1e-6, 1.0)
    assert spent([Release(one)] * 2).epsilon == 2.0
    two = spent([Release(one)] * 2, delta=2e-6)
    assert two.method == "renyi"
    assert two.epsilon == pytest.approx(SkellamCost(variance, l1, l2).epsilon(2e-6, 2))
    assert two.epsilon < 1.41
    with pytest.raises(PrivacyError, match="costs epsilon = 1"):  # half the stated cost
        SkellamCost(variance, l1, l2).event(1e-6, 0.5)
    group = one.times(3)
    assert group.parameter == (variance, 3 * l1, 3 * l2)
    assert group.epsilon > 2.5


@pytest.mark.parametrize("k", [1, 10, 100])
@pytest.mark.parametrize("epsilon", [0.01, 0.3])
def test_divergences_bound_the_exact_loss(k: int, epsilon: float) -> None:
    """Randomised response is what "pure" stands for: its composition is known exactly."""
    found = compose([PrivacyEvent(epsilon)] * k, 1e-6, method="renyi").epsilon
    assert spent_delta([epsilon] * k, found) <= 1e-6
    laplace = compose([PrivacyEvent(epsilon, mechanism="laplace")] * k, 1e-6, method="renyi")
    tight = compose([PrivacyEvent(epsilon, mechanism="laplace")] * k, 1e-6, method="tight")
    assert tight.epsilon <= laplace.epsilon * (1 + 1e-3) <= found * (1 + 2e-3)


@pytest.mark.parametrize("order", [2, 3, 7, 40])
def test_divergences_are_those_of_the_distributions(order: int) -> None:
    event = PrivacyEvent(0.7)
    p, q = (side[1:3] for side in randomised_response(event))
    exact = math.log(float(np.sum(p**order * q ** (1 - order)))) / (order - 1)
    assert event.kind.renyi(event, order) == pytest.approx(exact, rel=1e-9)
    assert event.kind.renyi(event, order) >= exact
    laplace = PrivacyEvent(0.7, mechanism="laplace")
    x = np.linspace(-80, 80, 1_600_001)
    p_, q_ = (np.exp(-np.abs(x - shift)) / 2 for shift in (0.0, 0.7))
    integral = float(np.sum(np.exp(order * np.log(p_) + (1 - order) * np.log(q_))) * (x[1] - x[0]))
    assert laplace.kind.renyi(laplace, order) == pytest.approx(
        math.log(integral) / (order - 1), rel=1e-5
    )


def test_deltas_outside_a_divergence_compose_apart() -> None:
    events = [PrivacyEvent(0.1, 1e-7, "approximate")] * 5
    found = compose(events, 1e-6, method="renyi").epsilon
    p, q = randomised_response(events[0])
    joint = [
        (math.prod(pair[0] for pair in pairs), math.prod(pair[1] for pair in pairs))
        for pairs in itertools.product(list(zip(p, q, strict=True)), repeat=5)
    ]
    both = np.array(joint)
    assert delta_at(both[:, 0], both[:, 1], found) <= 1e-6
    with pytest.raises(PrivacyError, match="do not compose to delta"):
        compose(events, 4e-7, method="renyi")


@settings(deadline=None, derandomize=True, max_examples=400)
@given(epsilon=st.floats(1e-6, 1e6), digits=st.sampled_from([3, 4, 6]))
def test_printed_epsilons_are_never_less_than_what_holds(epsilon: float, digits: int) -> None:
    shown = float(upward(epsilon, digits).replace(",", ""))
    assert shown >= epsilon * (1 - 2e-12)
    assert shown <= epsilon * (1 + 10 ** (1 - digits))


def test_sentences_round_up() -> None:
    rng = np.random.default_rng(5)
    for epsilon in rng.uniform(0.01, 12, 400):
        sentence = str(guarantee_of(SignalDP(float(epsilon), radius=1.0), algorithms.Average()))
        said = float(sentence.split("epsilon = ")[1].split(" ")[0])
        assert said >= epsilon * (1 - 2e-12)


def test_a_run_without_known_releases_makes_the_total_unknown() -> None:
    known = stated_for(PrivacyEvent(0.1), None)
    unknown = replace(known, runs=())
    assert known.for_runs([unknown]).runs == ()
    assert known.for_runs([known]).runs == known.runs * 2
    assert Counter(run.times for run in known.runs) == {1: 1}
    twice = RunReleases(PrivacyEvent(0.1), times=2)
    assert spent(twice.moved(1, 3)).epsilon == pytest.approx(0.6)


@pytest.mark.parametrize(("composition", "admitted"), [("basic", 20), ("best", 24)])
def test_only_an_accountant_that_composes_spends_its_delta(composition: str, admitted: int) -> None:
    """In what is admitted and in what is stated as spent and left alike."""
    accountant = Accountant(Budget(2.0, 1e-6), composition=composition)
    made = [ReleaseEvent("a", t, "x", 0.1, mechanism="laplace") for t in range(1, 31)]
    fits = 0
    while not accountant.would_exceed(made[fits]):
        accountant.charge(made[fits])
        fits += 1
    assert fits == admitted
    price = spent(made[:fits], None, None if composition == "basic" else 1e-6)
    assert accountant.remaining("a") == pytest.approx(max(0.0, 2.0 - price.epsilon), abs=1e-9)
    pure = Accountant(Budget(2.0), composition=composition)
    for release in made[:20]:
        pure.charge(release)
    assert pure.would_exceed(made[20])


def test_moved_estimates_grow_in_every_run_at_its_own_rate() -> None:
    """Messages after a moved estimate: each run's own growth counts, in either order."""
    growing = guarantee_of(NetworkDP(0.1, radius=1.0), algorithms.LearnNetwork(), 20)
    grows = replace(growing, runs=(replace(growing.runs[0], growth=2.0),))
    steady = replace(growing, runs=(replace(growing.runs[0], growth=1.0),))
    for total in (grows.for_runs([steady]), steady.for_runs([grows])):
        assert total.for_messages(3).epsilon == pytest.approx(0.1 * (1 + 2 + 4) + 0.3)


@pytest.mark.parametrize("event", EXAMPLES.values(), ids=EXAMPLES)
@pytest.mark.parametrize("batches", [Batches(2.0), Batches(2.0, 3), Batches(1.5, 4)])
def test_no_window_costs_more_than_is_said_of_any(event: PrivacyEvent, batches: Batches) -> None:
    """Also of Skellam noise, whose delta is larger in more batches and whose epsilon in fewer."""
    run = RunReleases(event, batches)
    for w in (1, 2, 5, 9):
        most = run.moved_anywhere(w)
        for first in range(1, 40):
            window = spent(run.moved(first, w))
            assert window.epsilon <= most.epsilon * (1 + 1e-12)
            assert window.delta <= most.delta * (1 + 1e-12)
