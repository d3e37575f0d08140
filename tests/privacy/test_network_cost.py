"""What a neighbour's estimate that moves costs in later messages: the bound against the exact loss.

The exact loss of a transcript is computed here from the definition: agent i's messages are held
fixed, the difference of all others runs through the algorithm, and Laplace noise of scale b turns
a move of h into h/b.
"""

import math

import numpy as np
import pytest

from murmura import laws, network
from murmura.errors import LawError, PrivacyError
from murmura.families import (
    Categorical,
    GammaKnownRate,
    LogNormal,
    MultivariateNormal,
    Normal,
    NormalBoth,
    Pareto,
    Weibull,
)
from murmura.laws import Coefficients, Law, Sensitivities
from murmura.privacy import (
    NetworkDP,
    Noise,
    Sees,
    SignalDP,
    Status,
    calibrate,
    network_cost,
    promise,
)
from murmura.privacy.network_cost import worst_cost

FAMILY = Normal(sigma=1.0, bounds=(0.0, 1e-6))  # next to no signal: the weights set the scale
GRAPHS = ("path:5", "ring:21", "florentine-families", "star:6", "complete:7")


def neighbours(mixing, i):
    row = mixing.at(1)[[i]].toarray().ravel()
    return [int(k) for k in np.flatnonzero(row) if k != i]


def exact_transcript(law, mixing, epsilon, i, j, moved, last, rounds=None):
    """Sum over rounds of |move of message u| / (|noise_u| b_u), i's transcript held fixed."""
    made = calibrate(NetworkDP(epsilon, radius=1.0), law, FAMILY, mixing, rounds or last)
    n = mixing.size
    now, before, total = np.zeros(n), np.zeros(n), 0.0
    now[j] = 1.0
    for u in range(moved + 1, last + 1):
        c = law.at(u)
        mixed = mixing.at(u) @ now
        after = c.keep * now + c.mix * mixed + c.recall * before
        if after[i] or c.noise:
            b = made.scale(np.zeros((n, 1)), epsilon, u)[i, 0]
            total += abs(after[i]) / (abs(c.noise) * b) if c.noise else math.inf
        after[i] = 0.0  # both worlds send the same
        now, before = after, now
    return total


def exact_message(law, mixing, epsilon, i, j, moved, seen):
    """The loss of the one message of round `seen`, in the tails: move over the largest noise in it.

    The message is a sum of independent Laplace variables, and the tail of a sum falls at the rate
    of its widest part.
    """
    made = calibrate(NetworkDP(epsilon, radius=1.0), law, FAMILY, mixing, seen)
    n = mixing.size
    move = np.zeros(n)
    move[j] = 1.0
    widest, parts = 0.0, []
    for u in range(moved + 1, seen + 1):
        c = law.at(u)
        step = c.keep * np.eye(n) + c.mix * mixing.at(u).toarray()
        move = step @ move
        parts = [step @ part for part in parts]
        parts.append(np.diag(c.noise * made.scale(np.zeros((n, 1)), epsilon, u)[:, 0]))
    widest = max(float(np.abs(part[i]).max()) for part in parts)
    return float(abs(move[i]) / widest)


@pytest.mark.parametrize(
    ("graph", "exactly"), [("path:5", 10.1), ("ring:21", 8.3), ("florentine-families", 11.8)]
)
def test_one_late_message_costs_more_than_epsilon(graph, exactly):
    """It used to be promised at epsilon: "whoever sees one message", "k messages cost k times"."""
    mixing, law = network.metropolis(network.load(graph)), laws.LearnNetwork()
    found = max(
        exact_message(law, mixing, 1.0, i, j, 20, 50)
        for i in range(mixing.size)
        for j in neighbours(mixing, i)
    )
    assert found == pytest.approx(exactly, abs=0.06)
    assert found <= network_cost(law, 20, 50)
    made = promise(NetworkDP(1.0), law, 50)
    assert made.adversary.sees is Sees.NEXT
    assert "the next message" in str(made)
    assert "in one round" in str(made)
    assert made.for_transcript().epsilon >= found


class Momentum(Law):
    """A custom algorithm with a term of two rounds ago, and noise that covers its neighbours."""

    name, reference, formula = "momentum", "", ""
    start = Coefficients()
    online = True

    def coefficients(self, t):
        return Coefficients(keep=0.3, mix=0.6, recall=-0.2, learn=1 / t, noise=1 / t)


class Growing(Law):
    """A custom algorithm whose weights add up to more than 1."""

    name, reference, formula = "growing", "", ""
    start = Coefficients()
    online = True

    def coefficients(self, t):  # noqa: ARG002 - the same in every round
        return Coefficients(keep=-0.4, mix=0.8, learn=1.0, noise=1.0)


HIDING = [
    laws.LearnNetwork(),
    laws.LearnDynamic(),
    laws.LearnDynamicPrinted(),
    laws.Learn(),
    laws.NaiveNetwork(),
    laws.FirstOrderOnline(eta=0.1),
    Momentum(),
    Growing(),
]


@pytest.mark.parametrize("law", HIDING, ids=lambda law: law.name)
@pytest.mark.parametrize("graph", GRAPHS)
def test_no_transcript_costs_more_than_the_bound(law, graph):
    mixing = network.lazy_metropolis(network.load(graph))
    last, epsilon = 24, 0.5
    made = promise(NetworkDP(epsilon, radius=1.0), law, last, FAMILY)
    assert made.status is Status.PROVED
    rng = np.random.default_rng(5)
    for moved in (1, 2, 7, 20):
        for _ in range(6):
            i = int(rng.integers(mixing.size))
            for j in neighbours(mixing, i)[:3]:
                loss = exact_transcript(law, mixing, epsilon, i, j, moved, last)
                bound = made.loss.epsilon * network_cost(law, moved, last)
                assert loss <= bound * (1 + 1e-12)
                assert loss <= made.for_transcript().epsilon * (1 + 1e-12)
                after = exact_transcript(law, mixing, epsilon, i, j, moved, moved + 4, last)
                assert after <= made.for_messages(4).epsilon * (1 + 1e-12)


def test_the_bound_is_reached_by_the_next_message_and_not_far_above_later_ones():
    """On two agents all that is lost by one reaches the other: the bound is tight there."""
    mixing = network.lazy_metropolis(network.load("complete:2"))
    law = laws.LearnNetwork()
    assert exact_transcript(law, mixing, 1.0, 0, 1, 9, 10) == pytest.approx(1.0)
    loss = exact_transcript(law, mixing, 1.0, 0, 1, 400, 430)
    assert 0.95 <= loss / network_cost(law, 400, 430) <= 1


@pytest.mark.parametrize("law", HIDING, ids=lambda law: law.name)
def test_the_worst_round_is_found(law):
    """Against the two nested loops that it stands for."""
    first = 0 if law.start.noise else 1  # all agents start from the number 0, which does not move
    costs = [network_cost(law, s, 60) for s in range(first, 60)]
    found = worst_cost(law, 60)
    assert found.cost >= max(costs) * (1 - 1e-12)
    if not law.at(9).recall:
        assert found == (first + int(np.argmax(costs)), pytest.approx(max(costs)))


def test_the_formula_of_the_derivation():
    """sum over u = s+1 .. t of s/(u-1), and about T/e for a whole run."""
    expected = sum(20 / (u - 1) for u in range(21, 51))
    assert network_cost(laws.LearnNetwork(), 20, 50) == pytest.approx(expected)
    assert network_cost(laws.Learn(), 20, 50, agents=3) == pytest.approx(3 * expected)
    assert worst_cost(laws.LearnNetwork(), 1000).cost == pytest.approx(1000 / math.e, rel=0.01)
    with pytest.raises(PrivacyError, match="last must be a whole number of at least 21"):
        network_cost(laws.LearnNetwork(), 20, 20)


def test_a_neighbour_off_by_one_in_every_round():
    """Each further message costs at most epsilon (1 - a_ii)/max_j a_ij, and more than epsilon."""
    mixing = network.metropolis(network.load("star:6"))
    A = mixing.at(1).toarray()
    centre = int(np.argmax((A > 0).sum(axis=1)))
    leaf = 0 if centre else 1
    worst = {}
    for law in (laws.NaiveNetwork(), laws.Learn()):
        made = calibrate(NetworkDP(1.0), law, FAMILY, mixing, 12)
        now = np.zeros(6)
        for u in range(2, 13):
            now[leaf] = 1.0  # off by one, again
            c = law.at(u)
            after = c.keep * now + c.mix * (A @ now)
            b = made.scale(np.zeros((6, 1)), 1.0, u)[centre, 0]
            worst[law.name] = max(worst.get(law.name, 0), after[centre] / (c.noise * b))
            after[centre] = 0.0
            now = after
    a = A[centre]
    bound = (1 - a[centre]) / np.delete(a, centre).max()
    assert max(worst.values()) <= bound * (1 + 1e-12)


def test_asking_in_any_order_never_lowers_the_cost():
    made = promise(NetworkDP(0.1), laws.LearnNetwork(), 50)
    whole = made.for_transcript()
    assert whole.epsilon == pytest.approx(0.1 * worst_cost(laws.LearnNetwork(), 50).cost)
    assert whole.for_messages(1).epsilon == whole.epsilon
    assert whole.for_stream(1000).epsilon == pytest.approx(100)
    assert whole.for_stream(2).epsilon == whole.epsilon
    assert made.for_stream(1000).for_transcript().epsilon == pytest.approx(100)
    assert made.for_messages(3).epsilon == pytest.approx(0.3)
    growing = promise(NetworkDP(1.0), Growing(), 9)
    assert growing.for_messages(3).epsilon == pytest.approx(1 + 1.2 + 1.44)


class Nan(laws.Learn):
    """A custom algorithm whose sensitivity is not a number from round 3 on."""

    def sensitivities(self, t):
        return Sensitivities(math.nan if t == 3 else 1.0, float(t))


class NanMix(laws.Average):
    """One whose weight is not a number."""

    def coefficients(self, t):
        return Coefficients(mix=math.nan if t == 2 else 1.0)


@pytest.mark.parametrize(("law", "what"), [(Nan(), "sensitivities.signal"), (NanMix(), "mix")])
def test_what_is_not_a_number_is_neither_promised_nor_calibrated(law, what):
    """`nan < x` is false, so it used to pass as proved."""
    mixing = network.metropolis(network.load("florentine-families"))
    for ask in (
        lambda: promise(SignalDP(1.0), law, 5),
        lambda: calibrate(SignalDP(1.0), law, Normal(sigma=1.0), mixing, 5),
    ):
        with pytest.raises(LawError, match=f"{what} (is not|in round)"):
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


@pytest.mark.parametrize(("family", "want"), UNSERVED)
def test_nothing_is_promised_where_calibration_refuses(family, want):
    """promise() used to say proved where calibrate() refuses."""
    mixing = network.metropolis(network.load("florentine-families"))
    law = laws.LearnNetwork()
    made = promise(want, law, 9, family)
    assert made.status is Status.NONE
    assert made.for_stream(5).status is Status.NONE
    with pytest.raises(PrivacyError) as refused:
        calibrate(want, law, family, mixing, 9)
    assert made.reason in str(refused.value)


@pytest.mark.parametrize(
    "family",
    [
        GammaKnownRate(rate=2.0, bounds=(0.5, 20.0)),
        Pareto(minimum=0.5),
        LogNormal(sigma=1.0, bounds=(0.5, 20.0)),
    ],
)
def test_smooth_sensitivity_serves_every_logarithm(family):
    """gamma-known-rate and pareto have the statistic log s up to a constant."""
    want = SignalDP(1.0, 0.01, sensitivity="smooth")
    assert promise(want, laws.Learn(), 5, family).status is Status.PROVED
    mixing = network.metropolis(network.load("florentine-families"))
    signals = np.full((15, 1), 3.0)
    other = LogNormal(sigma=1.0, bounds=(0.5, family.support.high))
    scales = [
        calibrate(want, laws.Learn(), one, mixing, 5).scale(signals, 1.0, 1)
        for one in (family, other)
    ]
    assert np.array_equal(*scales)


class Flat(Weibull):
    """A family whose sensitivity has been lost to cancellation."""

    def _sensitivity(self, radius):
        return type(super()._sensitivity(radius))(0.0, "lost")


def test_noise_of_scale_zero_is_refused():
    """Weibull with shape 3 on (0, 1e6) and radius 1e-11 released raw statistics as proved."""
    mixing = network.metropolis(network.load("florentine-families"))
    flat = Flat(shape=3.0, bounds=(0.0, 1e6))
    with pytest.raises(PrivacyError, match="would hide nothing"):
        calibrate(SignalDP(1.0, radius=1e-11), laws.Average(), flat, mixing, 3)
    assert promise(SignalDP(1.0, radius=1e-11), laws.Average(), 3, flat).status is Status.NONE


def test_the_unit_names_its_norm():
    """ "moves by at most 1" named no norm: 4 epsilon per coordinate for four of them."""
    vector = MultivariateNormal(sigma=np.eye(4))
    assert "l1 norm of the vector" in str(promise(SignalDP(1.0), laws.Average(), family=vector))
    category = Categorical(categories=4)
    assert "between any two categories" in str(
        promise(SignalDP(1.0), laws.Average(), family=category)
    )
    hidden = promise(NetworkDP(1.0), laws.LearnNetwork(), family=vector)
    assert "estimate that moves by at most 1 in l1 norm in one round" in str(hidden)


def test_a_reading_of_a_shared_stream_costs_its_share():
    """first-order-online printed epsilon per reading where epsilon/T holds."""
    made = promise(SignalDP(1.0), laws.FirstOrderOnline(), 50)
    assert made.epsilon == pytest.approx(1 / 50)
    assert made.for_stream(50).epsilon == pytest.approx(1.0)
    family = LogNormal(sigma=1.0, bounds=(0.5, 20.0))
    smooth = promise(SignalDP(1.0, 0.01, sensitivity="smooth"), laws.FirstOrderOnline(), 50, family)
    assert (smooth.epsilon, smooth.delta) == (pytest.approx(1 / 50), pytest.approx(0.01 / 50))
    assert smooth.for_stream(50).epsilon == pytest.approx(1.0)
    assert smooth.for_stream(50).delta == pytest.approx(0.01)


def test_runs_on_the_same_signals_add_up():
    one = promise(SignalDP(0.1), laws.Average())
    many = one.for_runs([one] * 3_999)
    assert many.epsilon == pytest.approx(400)
    assert "4000 runs on the same signals" in str(many)
    mixed = one.for_runs(
        [promise(SignalDP(1.0, 0.01, sensitivity="smooth-printed"), laws.Average())]
    )
    assert mixed.status is Status.REFUTED
    with pytest.raises(PrivacyError, match="different units"):
        one.for_runs([promise(SignalDP(0.1, radius=2.0), laws.Average())])
    daily = promise(SignalDP(0.1), laws.Learn())
    assert daily.for_runs([daily]).for_window(2).epsilon == pytest.approx(0.4)
    hidden = promise(NetworkDP(0.1), laws.LearnNetwork(), 50)
    both = hidden.for_runs([hidden])
    assert both.for_transcript().epsilon == pytest.approx(2 * hidden.for_transcript().epsilon)
    assert both.against_everyone().epsilon == pytest.approx(0.2)


class Returned(laws.GraphHomomorphic):
    """A custom algorithm that takes the noise of its messages off again."""


def test_noise_that_is_taken_off_again_hides_no_neighbour():
    """An estimate that moves stays in nu_i and shows in every message, each with fresh noise.

    With i's messages m_t = nu_{t-1} + q_t known, nu_t moves by a_ij once and by (1 - eta)^k of that
    k rounds later: k messages cost about k times one, where the rule for noise that stays in the
    estimate would charge for one.
    """
    law = laws.GraphHomomorphic(eta=0.05)
    assert promise(SignalDP(1.0), law, 40).status is Status.PROVED
    assert promise(NetworkDP(1.0), law, 40).status is Status.NONE
    assert promise(SignalDP(1.0), Returned(), 40).status is Status.NONE


def test_one_round_is_not_free():
    """With a single round no estimate moves before a message, but a reading still costs epsilon."""
    made = promise(NetworkDP(0.5), laws.LearnNetwork(), 1)
    assert made.for_transcript().epsilon == 0.5


class Rows(laws.NaiveNetwork):
    """Noise in every round, on weights whose columns may add up to more than 1."""

    kinds = frozenset({"row-stochastic", "doubly-stochastic"})


def test_weights_that_can_amplify_promise_nothing_for_neighbours():
    """A star whose leaves listen to the centre alone passes on more than it gets."""
    assert promise(NetworkDP(1.0), Rows(), 5).status is Status.NONE
    assert promise(SignalDP(1.0), Rows(), 5).status is Status.PROVED
    assert promise(NetworkDP(1.0), laws.NaiveNetwork(), 5).status is Status.PROVED


def test_readings_that_move_stay_paid_for_whatever_messages_are_asked_for():
    made = promise(NetworkDP(0.1), laws.LearnNetwork(), 50)
    assert made.for_stream(30).for_messages(5).epsilon == pytest.approx(3.0)
    assert made.for_window(30).for_messages(50).epsilon == pytest.approx(5.0)


def test_runs_are_added_only_against_the_same_adversary():
    """A transcript and a next message were added up as if both were transcripts."""
    made = promise(NetworkDP(0.5), laws.LearnNetwork(), 50)
    with pytest.raises(PrivacyError, match="different adversaries"):
        made.for_transcript().for_runs([made])
    with pytest.raises(PrivacyError, match="different adversaries"):
        made.for_messages(50).for_runs([made])
    both = made.for_transcript().for_runs([made.for_transcript()])
    assert both.epsilon == pytest.approx(2 * made.for_transcript().epsilon)


def test_a_total_has_the_weakest_noise_and_the_largest_growth():
    made = promise(SignalDP(1.0), laws.Average())
    assert made.released_exactly().for_runs([made]).noise is Noise.IDEAL
    assert str(made.released_exactly().for_runs([made])).startswith("Proved for ideal noise")
    calm = promise(NetworkDP(0.1), laws.LearnNetwork(), 9)
    wild = promise(NetworkDP(0.1), Growing(), 9)
    separately = calm.for_messages(8).epsilon + wild.for_messages(8).epsilon
    for one, other in ((calm, wild), (wild, calm)):
        assert one.for_runs([other]).for_messages(8).epsilon >= separately * (1 - 1e-12)


class Hidden(Law):
    """A custom algorithm that is no dataclass: what it does hangs on an attribute."""

    name, reference, formula = "hidden", "", ""
    start = Coefficients(learn=1.0, noise=1.0)

    def __init__(self, raw):
        object.__setattr__(self, "raw", raw)

    def coefficients(self, t):  # noqa: ARG002 - the same in every round
        return Coefficients(mix=1.0, learn=self.raw)


def test_two_algorithms_of_a_class_are_two_algorithms():
    """A cache took the raw one for the other, since `==` sees the fields of a dataclass only."""
    assert Hidden(0.0) == Hidden(0.5)
    assert promise(SignalDP(1.0), Hidden(0.0)).status is Status.PROVED
    assert promise(SignalDP(1.0), Hidden(0.5)).status is Status.NONE


class Shared(laws.Average):
    """A custom offline algorithm that divides its budget over the start and every round."""

    splits_budget = True

    def coefficients(self, t):  # noqa: ARG002 - the same in every round
        return Coefficients(mix=0.5, learn=0.5, noise=0.5)

    kinds = frozenset({"doubly-stochastic"})


def test_a_message_never_costs_less_than_the_signal_in_it():
    """`for_messages(1)` said a tenth of what `promise` says of the same message."""
    made = promise(NetworkDP(1.0), Shared(), 9)
    assert made.status is Status.PROVED
    assert made.epsilon == pytest.approx(1.0)
    assert made.for_messages(1).epsilon == pytest.approx(1.0)
    assert made.for_transcript().epsilon >= 1.0
