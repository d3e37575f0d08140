"""What a neighbour's estimate that moves costs in later messages: the bound against the exact loss.

The exact loss of a transcript is computed here from the definition: agent i's messages are held
fixed, the difference of all others runs through the algorithm, and Laplace noise of scale b turns
a move of h into h/b.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from veilsum import algorithms, networks
from veilsum.algorithms import Algorithm, Coefficients, Sensitivities
from veilsum.algorithms.table import coefficient_table
from veilsum.errors import AlgorithmError, PrivacyError
from veilsum.families import (
    Categorical,
    GammaKnownRate,
    LogNormal,
    MultivariateNormal,
    Normal,
    NormalBoth,
    Pareto,
    Weibull,
)
from veilsum.privacy import (
    NetworkDP,
    Noise,
    Sees,
    SignalDP,
    Statistic,
    Status,
    guarantee_of,
    network_cost,
    plan,
)
from veilsum.privacy.proofs import worst_cost

FAMILY = Normal(sigma=1.0, bounds=(0.0, 1e-6))  # next to no signal: the weights set the scale
GRAPHS = ("path:5", "ring:21", "florentine-families", "star:6", "complete:7")


def neighbours(mixing: Any, i: Any) -> Any:
    row = mixing.at(1)[[i]].toarray().ravel()
    return [int(k) for k in np.flatnonzero(row) if k != i]


def exact_transcript(
    algorithm: Any,
    mixing: Any,
    epsilon: Any,
    i: Any,
    j: Any,
    moved: Any,
    last: Any,
    rounds: Any = None,
) -> Any:
    """Sum over rounds of |move of message u| / (|noise_u| b_u), i's transcript held fixed."""
    made = plan(NetworkDP(epsilon, radius=1.0), FAMILY, algorithm, mixing, rounds or last)
    assert made is not None
    n = mixing.size
    now, before, total = np.zeros(n), np.zeros(n), 0.0
    now[j] = 1.0
    for u in range(moved + 1, last + 1):
        c = algorithm.at(u)
        mixed = mixing.at(u) @ now
        after = c.own * now + c.mixing * mixed + c.momentum * before
        if after[i] or c.noise:
            b = made.scale(np.zeros((n, 1)), epsilon, u)[i, 0]
            total += abs(after[i]) / (abs(c.noise) * b) if c.noise else math.inf
        after[i] = 0.0  # both worlds send the same
        now, before = after, now
    return total


def exact_message(
    algorithm: Any, mixing: Any, epsilon: Any, i: Any, j: Any, moved: Any, seen: Any
) -> Any:
    """The loss of the one message of round `seen`, in the tails: move over the largest noise in it.

    The message is a sum of independent Laplace variables, and the tail of a sum falls at the rate
    of its widest part.
    """
    made = plan(NetworkDP(epsilon, radius=1.0), FAMILY, algorithm, mixing, seen)
    assert made is not None
    n = mixing.size
    move = np.zeros(n)
    move[j] = 1.0
    parts: list[Any] = []
    for u in range(moved + 1, seen + 1):
        c = algorithm.at(u)
        step = c.own * np.eye(n) + c.mixing * mixing.at(u).toarray()
        move = step @ move
        parts = [step @ part for part in parts]
        parts.append(np.diag(c.noise * made.scale(np.zeros((n, 1)), epsilon, u)[:, 0]))
    widest = max(float(np.abs(part[i]).max()) for part in parts)
    return float(abs(move[i]) / widest)


@pytest.mark.parametrize(
    ("graph", "exactly"), [("path:5", 10.1), ("ring:21", 8.3), ("florentine-families", 11.8)]
)
def test_one_late_message_costs_more_than_epsilon(graph: Any, exactly: Any) -> None:
    """It used to be guaranteed at epsilon: "whoever sees one message", "k messages cost k times"."""
    mixing, algorithm = networks.metropolis(networks.load(graph)), algorithms.LearnNetwork()
    found = max(
        exact_message(algorithm, mixing, 1.0, i, j, 20, 50)
        for i in range(mixing.size)
        for j in neighbours(mixing, i)
    )
    assert found == pytest.approx(exactly, abs=0.06)
    assert found <= network_cost(algorithm, 20, 50)
    made = guarantee_of(NetworkDP(1.0), algorithm, 50)
    assert made.adversary.sees is Sees.NEXT
    assert "the next message" in str(made)
    assert "in one round" in str(made)
    assert made.for_transcript().epsilon >= found


class Momentum(Algorithm):
    """A custom algorithm with a term of two rounds ago, and noise that covers its neighbours."""

    name, reference, formula = "momentum", "", ""
    start = Coefficients()
    online = True

    def coefficients(self, t: Any) -> Any:
        return Coefficients(own=0.3, mixing=0.6, momentum=-0.2, innovation=1 / t, noise=1 / t)


class Growing(Algorithm):
    """A custom algorithm whose weights add up to more than 1."""

    name, reference, formula = "growing", "", ""
    start = Coefficients()
    online = True

    def coefficients(self, t: Any) -> Any:  # noqa: ARG002
        return Coefficients(own=-0.4, mixing=0.8, innovation=1.0, noise=1.0)


HIDING = [
    algorithms.LearnNetwork(),
    algorithms.LearnDynamic(),
    algorithms.LearnDynamicAsPublished(),
    algorithms.Learn(),
    algorithms.NaiveNetwork(),
    algorithms.FirstOrderOnline(eta=0.1),
    Momentum(),
    Growing(),
]


@pytest.mark.thorough
@pytest.mark.parametrize("algorithm", HIDING, ids=lambda algorithm: algorithm.name)
@pytest.mark.parametrize("graph", GRAPHS)
def test_no_transcript_costs_more_than_the_bound(algorithm: Any, graph: Any) -> None:
    mixing = networks.lazy_metropolis(networks.load(graph))
    last, epsilon = 24, 0.5
    made = guarantee_of(NetworkDP(epsilon, radius=1.0), algorithm, last, FAMILY)
    assert made.status is Status.PROVED
    rng = np.random.default_rng(5)
    for moved in (1, 2, 7, 20):
        for _ in range(6):
            i = int(rng.integers(mixing.size))
            for j in neighbours(mixing, i)[:3]:
                loss = exact_transcript(algorithm, mixing, epsilon, i, j, moved, last)
                assert made.event is not None
                bound = made.event.epsilon * network_cost(algorithm, moved, last)
                assert loss <= bound * (1 + 1e-12)
                assert loss <= made.for_transcript().epsilon * (1 + 1e-12)
                after = exact_transcript(algorithm, mixing, epsilon, i, j, moved, moved + 4, last)
                assert after <= made.for_messages(4).epsilon * (1 + 1e-12)


def test_the_bound_is_reached_by_the_next_message_and_not_far_above_later_ones() -> None:
    """On two agents all that is lost by one reaches the other: the bound is tight there."""
    mixing = networks.lazy_metropolis(networks.load("complete:2"))
    algorithm = algorithms.LearnNetwork()
    assert exact_transcript(algorithm, mixing, 1.0, 0, 1, 9, 10) == pytest.approx(1.0)
    loss = exact_transcript(algorithm, mixing, 1.0, 0, 1, 400, 430)
    assert 0.95 <= loss / network_cost(algorithm, 400, 430) <= 1


@pytest.mark.parametrize("algorithm", HIDING, ids=lambda algorithm: algorithm.name)
def test_the_worst_round_is_found(algorithm: Any) -> None:
    """Against the two nested loops that it stands for."""
    first = (
        0 if algorithm.start.noise else 1
    )  # all agents start from the number 0, which does not move
    costs = [network_cost(algorithm, s, 60) for s in range(first, 60)]
    found = worst_cost(coefficient_table(algorithm, 60))
    assert found.cost >= max(costs) * (1 - 1e-12)
    if not algorithm.at(9).momentum:
        assert found.moved == first + int(np.argmax(costs))
        assert found.cost == pytest.approx(max(costs))


def test_the_formula_of_the_derivation() -> None:
    """sum over u = s+1 .. t of s/(u-1), and about T/e for a whole run."""
    expected = sum(20 / (u - 1) for u in range(21, 51))
    assert network_cost(algorithms.LearnNetwork(), 20, 50) == pytest.approx(expected)
    assert network_cost(algorithms.Learn(), 20, 50, agents=3) == pytest.approx(3 * expected)
    assert worst_cost(coefficient_table(algorithms.LearnNetwork(), 1000)).cost == pytest.approx(
        1000 / math.e, rel=0.01
    )
    with pytest.raises(PrivacyError, match="last must be a whole number of at least 21"):
        network_cost(algorithms.LearnNetwork(), 20, 20)


def test_a_neighbour_off_by_one_in_every_round() -> None:
    """Each further message costs at most epsilon (1 - a_ii)/max_j a_ij, and more than epsilon."""
    mixing = networks.metropolis(networks.load("star:6"))
    A = mixing.at(1).toarray()
    centre = int(np.argmax((A > 0).sum(axis=1)))
    leaf = 0 if centre else 1
    worst: dict[str, float] = {}
    for algorithm in (algorithms.NaiveNetwork(), algorithms.Learn()):
        made = plan(NetworkDP(1.0), FAMILY, algorithm, mixing, 12)
        assert made is not None
        now = np.zeros(6)
        for u in range(2, 13):
            now[leaf] = 1.0  # off by one, again
            c = algorithm.at(u)
            after = c.own * now + c.mixing * (A @ now)
            b = made.scale(np.zeros((6, 1)), 1.0, u)[centre, 0]
            worst[algorithm.name] = max(worst.get(algorithm.name, 0), after[centre] / (c.noise * b))
            after[centre] = 0.0
            now = after
    a = A[centre]
    bound = (1 - a[centre]) / np.delete(a, centre).max()
    assert max(worst.values()) <= bound * (1 + 1e-12)


def test_asking_in_any_order_never_lowers_the_cost() -> None:
    made = guarantee_of(NetworkDP(0.1), algorithms.LearnNetwork(), 50)
    whole = made.for_transcript()
    assert whole.epsilon == pytest.approx(
        0.1 * worst_cost(coefficient_table(algorithms.LearnNetwork(), 50)).cost
    )
    assert whole.for_messages(1).epsilon == whole.epsilon
    assert whole.for_stream(1000).epsilon == pytest.approx(100)
    assert whole.for_stream(2).epsilon == whole.epsilon
    assert made.for_stream(1000).for_transcript().epsilon == pytest.approx(100)
    assert made.for_messages(3).epsilon == pytest.approx(0.3)
    growing = guarantee_of(NetworkDP(1.0), Growing(), 9)
    assert growing.for_messages(3).epsilon == pytest.approx(1 + 1.2 + 1.44)


class Nan(algorithms.Learn):
    """A custom algorithm whose sensitivity is not a number from round 3 on."""

    def sensitivities(self, t: Any) -> Any:
        return Sensitivities(math.nan if t == 3 else 1.0, float(t))


class NanMix(algorithms.Average):
    """One whose weight is not a number."""

    def coefficients(self, t: Any) -> Any:
        return Coefficients(mixing=math.nan if t == 2 else 1.0)


@pytest.mark.parametrize(
    ("algorithm", "what"), [(Nan(), "sensitivities.signal"), (NanMix(), "mixing")]
)
def test_what_is_not_a_number_is_neither_guaranteed_nor_calibrated(
    algorithm: Any, what: Any
) -> None:
    """`nan < x` is false, so it used to pass as proved."""
    mixing = networks.metropolis(networks.load("florentine-families"))
    for ask in (
        lambda: guarantee_of(SignalDP(1.0, radius=1.0), algorithm, 5),
        lambda: plan(SignalDP(1.0, radius=1.0), Normal(sigma=1.0), algorithm, mixing, 5),
    ):
        with pytest.raises(AlgorithmError, match=f"{what} (is not|in round)"):
            ask()


UNSERVED = [
    (NormalBoth(), SignalDP(1.0)),
    (LogNormal(sigma=1.0), SignalDP(1.0)),
    (LogNormal(sigma=1.0), SignalDP(1.0, 0.01, sensitivity="smooth")),
    (GammaKnownRate(rate=1.0), SignalDP(1.0, 0.01, sensitivity="smooth")),
    (Normal(sigma=1.0), SignalDP(1.0, 0.01, sensitivity="smooth")),
    (Normal(sigma=1.0), SignalDP(1.0, radius=math.inf)),
    (Normal(sigma=1.0), NetworkDP(1.0, radius=math.inf)),
]


@pytest.mark.parametrize(("family", "privacy"), UNSERVED)
def test_nothing_is_guaranteed_where_calibration_refuses(family: Any, privacy: Any) -> None:
    """guarantee_of() used to say proved where plan() refuses."""
    mixing = networks.metropolis(networks.load("florentine-families"))
    algorithm = algorithms.LearnNetwork()
    made = guarantee_of(privacy, algorithm, 9, family)
    assert made.status is Status.NONE
    assert made.for_stream(5).status is Status.NONE
    with pytest.raises(PrivacyError) as refused:
        plan(privacy, family, algorithm, mixing, 9)
    assert made.reason in str(refused.value)


@pytest.mark.parametrize(
    "family",
    [
        GammaKnownRate(rate=2.0, bounds=(0.5, 20.0)),
        Pareto(minimum=0.5),
        LogNormal(sigma=1.0, bounds=(0.5, 20.0)),
    ],
)
def test_smooth_sensitivity_serves_every_logarithm(family: Any) -> None:
    """gamma-known-rate and pareto have the statistic log s up to a constant."""
    privacy = SignalDP(1.0, 0.01, sensitivity="smooth", radius=1.0)
    assert guarantee_of(privacy, algorithms.Learn(), 5, family).status is Status.PROVED
    mixing = networks.metropolis(networks.load("florentine-families"))
    signals = np.full((15, 1), 3.0)
    other = LogNormal(sigma=1.0, bounds=(0.5, family.support.high))
    first, second = (plan(privacy, one, algorithms.Learn(), mixing, 5) for one in (family, other))
    assert first is not None
    assert second is not None
    assert np.array_equal(first.scale(signals, 1.0, 1), second.scale(signals, 1.0, 1))


class Flat(Weibull):
    """A family whose sensitivity has been lost to cancellation."""

    def _moves(self, radius: float) -> Statistic:
        return replace(super()._moves(radius), l1=0.0, reason="lost")


def test_noise_of_scale_zero_is_refused() -> None:
    """Weibull with shape 3 on (0, 1e6) and radius 1e-11 released raw statistics as proved."""
    mixing = networks.metropolis(networks.load("florentine-families"))
    flat = Flat(shape=3.0, bounds=(0.0, 1e6))
    with pytest.raises(PrivacyError, match="would hide nothing"):
        plan(SignalDP(1.0, radius=1e-11), flat, algorithms.Average(), mixing, 3)
    assert (
        guarantee_of(SignalDP(1.0, radius=1e-11), algorithms.Average(), 3, flat).status
        is Status.NONE
    )


def test_the_unit_names_its_norm() -> None:
    """ "moves by at most 1" named no norm: 4 epsilon per coordinate for four of them."""
    vector = MultivariateNormal(sigma=np.eye(4))
    assert "l1 norm of the vector" in str(
        guarantee_of(SignalDP(1.0, radius=1.0), algorithms.Average(), family=vector)
    )
    category = Categorical(categories=4)
    assert "between any two categories" in str(
        guarantee_of(SignalDP(1.0, radius=1.0), algorithms.Average(), family=category)
    )
    hidden = guarantee_of(NetworkDP(1.0, radius=1.0), algorithms.LearnNetwork(), family=vector)
    assert "estimate that moves by at most 1 in l1 norm in one round" in str(hidden)


def test_a_reading_of_a_shared_stream_costs_its_fraction() -> None:
    """first-order-online published epsilon per reading where epsilon/T holds."""
    made = guarantee_of(SignalDP(1.0), algorithms.FirstOrderOnline(), 50)
    assert made.epsilon == pytest.approx(1 / 50)
    assert made.for_stream(50).epsilon == pytest.approx(1.0)
    family = LogNormal(sigma=1.0, bounds=(0.5, 20.0))
    smooth = guarantee_of(
        SignalDP(1.0, 0.01, sensitivity="smooth"), algorithms.FirstOrderOnline(), 50, family
    )
    assert smooth.epsilon == pytest.approx(1 / 50)
    assert smooth.delta == pytest.approx(0.01 / 50)
    assert smooth.for_stream(50).epsilon == pytest.approx(1.0)
    assert smooth.for_stream(50).delta == pytest.approx(0.01)


def test_runs_on_the_same_signals_add_up() -> None:
    one = guarantee_of(SignalDP(0.1), algorithms.Average())
    many = one.for_runs([one] * 3_999)
    assert many.epsilon == pytest.approx(400)
    assert "4000 runs on the same signals" in str(many)
    mixed = one.for_runs(
        [guarantee_of(SignalDP(1.0, 0.01, sensitivity="smooth-as-published"), algorithms.Average())]
    )
    assert mixed.status is Status.REFUTED
    with pytest.raises(PrivacyError, match="different units"):
        one.for_runs([guarantee_of(SignalDP(0.1, radius=2.0), algorithms.Average())])
    daily = guarantee_of(SignalDP(0.1), algorithms.Learn())
    assert daily.for_runs([daily]).for_window(2).epsilon == pytest.approx(0.4)
    hidden = guarantee_of(NetworkDP(0.1), algorithms.LearnNetwork(), 50)
    both = hidden.for_runs([hidden])
    assert both.for_transcript().epsilon == pytest.approx(2 * hidden.for_transcript().epsilon)
    assert both.against_everyone().epsilon == pytest.approx(0.2)


class Returned(algorithms.GraphHomomorphic):
    """A custom algorithm that takes the noise of its messages off again."""


def test_noise_that_is_taken_off_again_hides_no_neighbour() -> None:
    """An estimate that moves stays in nu_i and shows in every message, each with fresh noise.

    With i's messages m_t = nu_{t-1} + q_t known, nu_t moves by a_ij once and by (1 - eta)^k of that
    k rounds later: k messages cost about k times one, where the rule for noise that stays in the
    estimate would charge for one.
    """
    algorithm = algorithms.GraphHomomorphic(eta=0.05)
    assert guarantee_of(SignalDP(1.0), algorithm, 40).status is Status.PROVED
    assert guarantee_of(NetworkDP(1.0), algorithm, 40).status is Status.NONE
    assert guarantee_of(SignalDP(1.0), Returned(), 40).status is Status.NONE


def test_one_round_is_not_free() -> None:
    """With a single round no estimate moves before a message, but a reading still costs epsilon."""
    made = guarantee_of(NetworkDP(0.5), algorithms.LearnNetwork(), 1)
    assert made.for_transcript().epsilon == 0.5


class Rows(algorithms.NaiveNetwork):
    """Noise in every round, on weights whose columns may add up to more than 1."""

    kinds = frozenset({"row-stochastic", "doubly-stochastic"})


def test_weights_that_can_amplify_guarantee_nothing_for_neighbours() -> None:
    """A star whose leaves listen to the centre alone passes on more than it gets."""
    assert guarantee_of(NetworkDP(1.0), Rows(), 5).status is Status.NONE
    assert guarantee_of(SignalDP(1.0), Rows(), 5).status is Status.PROVED
    assert guarantee_of(NetworkDP(1.0), algorithms.NaiveNetwork(), 5).status is Status.PROVED


def test_readings_that_move_stay_paid_for_whatever_messages_are_asked_for() -> None:
    made = guarantee_of(NetworkDP(0.1), algorithms.LearnNetwork(), 50)
    assert made.for_stream(30).for_messages(5).epsilon == pytest.approx(3.0)
    assert made.for_window(30).for_messages(50).epsilon == pytest.approx(5.0)


def test_runs_are_added_only_against_the_same_adversary() -> None:
    """A transcript and a next message were added up as if both were transcripts."""
    made = guarantee_of(NetworkDP(0.5), algorithms.LearnNetwork(), 50)
    with pytest.raises(PrivacyError, match="different adversaries"):
        made.for_transcript().for_runs([made])
    with pytest.raises(PrivacyError, match="different adversaries"):
        made.for_messages(50).for_runs([made])
    both = made.for_transcript().for_runs([made.for_transcript()])
    assert both.epsilon == pytest.approx(2 * made.for_transcript().epsilon)


def test_a_total_has_the_weakest_noise_and_the_largest_growth() -> None:
    made = guarantee_of(SignalDP(1.0), algorithms.Average())
    assert made.released_exactly().for_runs([made]).noise is Noise.IDEAL
    assert str(made.released_exactly().for_runs([made])).startswith("Proved for ideal noise")
    calm = guarantee_of(NetworkDP(0.1), algorithms.LearnNetwork(), 9)
    wild = guarantee_of(NetworkDP(0.1), Growing(), 9)
    separately = calm.for_messages(8).epsilon + wild.for_messages(8).epsilon
    for one, other in ((calm, wild), (wild, calm)):
        assert one.for_runs([other]).for_messages(8).epsilon >= separately * (1 - 1e-12)


class Hidden(Algorithm):
    """A custom algorithm that is no dataclass: what it does hangs on an attribute."""

    name, reference, formula = "hidden", "", ""
    start = Coefficients(innovation=1.0, noise=1.0)
    raw: float

    def __init__(self, raw: Any) -> None:
        object.__setattr__(self, "raw", raw)

    def coefficients(self, t: Any) -> Any:  # noqa: ARG002
        return Coefficients(mixing=1.0, innovation=self.raw)


def test_two_algorithms_of_a_class_are_two_algorithms() -> None:
    """A cache took the raw one for the other, since `==` sees the fields of a dataclass only."""
    assert Hidden(0.0) == Hidden(0.5)
    assert guarantee_of(SignalDP(1.0), Hidden(0.0)).status is Status.PROVED
    assert guarantee_of(SignalDP(1.0), Hidden(0.5)).status is Status.NONE


class Shared(algorithms.Average):
    """A custom offline algorithm that divides its budget over the start and every round."""

    splits_budget = True

    def coefficients(self, t: Any) -> Any:  # noqa: ARG002
        return Coefficients(mixing=0.5, innovation=0.5, noise=0.5)

    kinds = frozenset({"doubly-stochastic"})


def test_a_message_never_costs_less_than_the_signal_in_it() -> None:
    """`for_messages(1)` said a tenth of what `guarantee_of` says of the same message."""
    made = guarantee_of(NetworkDP(1.0), Shared(), 9)
    assert made.status is Status.PROVED
    assert made.epsilon == pytest.approx(1.0)
    assert made.for_messages(1).epsilon == pytest.approx(1.0)
    assert made.for_transcript().epsilon >= 1.0
