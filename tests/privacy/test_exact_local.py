"""Exact releases of the local mechanisms and the staircase: guarantee and mean by enumeration.

On coarse grids every output's probability is a fraction, so that the guarantee and the mean are
checked without tolerance. Statistical tests read a fixed stream; on a fresh one each would raise a
false alarm with probability below 1e-7, and the weakened twin must fail it.
"""

import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from scipy import stats

from veilsum.errors import PrivacyError, SignalError
from veilsum.privacy import mechanisms as mech
from veilsum.privacy import sensitivity as sens
from veilsum.privacy.exact.coins import WeightCoin
from veilsum.privacy.mechanisms import MECHANISMS, additive
from veilsum.privacy.mechanisms.local import LocalMechanism
from veilsum.testing import PredictableEntropy

FALSE_ALARM, SURE = 1e-7, 1e-12
LOCAL: Any = [kind for kind in MECHANISMS.values() if issubclass(kind, LocalMechanism)]
EPSILONS = [0.3, 1.0, 2.5, 6.0]
BOUNDS = [(-1.0, 1.0), (0.1, 0.7), (3.0, 1000.0)]
VALUES = [0.0, 0.001, 0.37, 0.5, 0.9, 1.0]  # from low to high


def stream(seed: Any) -> Any:
    return PredictableEntropy(seed, simulation_only=True)


@pytest.fixture
def coarse(monkeypatch: Any) -> None:
    """Grids of a few dozen points."""
    for module in {kind.__module__ for kind in LOCAL}:
        for name, bits in (("GRID", 14), ("PIECE", 2)):  # GRID: two outputs, whatever the grid
            if hasattr(import_module(module), name):
                monkeypatch.setattr(f"{module}.{name}", bits)


def test_all_local_mechanisms_are_here() -> None:
    assert {mech.DuchiMechanism, mech.PiecewiseMechanism, mech.HybridMechanism} <= set(LOCAL)


def at(mechanism: Any, part: float) -> float:
    found = mechanism.low + part * (mechanism.high - mechanism.low)
    return float(min(max(found, mechanism.low), mechanism.high))


def largest_ratio(mechanism: Any) -> Any:
    """The largest ratio of an output's probabilities between any two values."""
    tables = [mechanism.pmf(at(mechanism, part)) for part in VALUES]
    assert all(sum(table.values()) == 1 for table in tables)
    assert all(table.keys() == tables[0].keys() for table in tables)
    return max(
        max(table[z] for table in tables) / min(table[z] for table in tables) for z in tables[0]
    )


def below_exp(ratio: Fraction, epsilon: float) -> bool:
    with localcontext(prec=80):
        return Decimal(ratio.numerator) <= Decimal(ratio.denominator) * Decimal(epsilon).exp()


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", LOCAL, ids=lambda kind: kind.name)
def test_every_output_keeps_epsilon_exactly_and_the_mean_is_the_value(
    kind: Any, epsilon: float, bounds: Any
) -> None:
    made = kind(epsilon, *bounds)
    ratio = largest_ratio(made)
    assert below_exp(ratio, epsilon)
    assert not below_exp(ratio, 0.7 * epsilon)  # the loss is nearly all used
    for part in VALUES:
        x, table = at(made, part), made.pmf(at(made, part))
        assert sum(z * p for z, p in table.items()) == Fraction(x)
        squares = sum((z - Fraction(x)) ** 2 * p for z, p in table.items())
        assert float(squares) == pytest.approx(float(made.release_variance(x)), rel=1e-9)
        assert all((z / Fraction(2) ** made.exponent).denominator == 1 for z in table)


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("kind", LOCAL, ids=lambda kind: kind.name)
def test_a_mechanism_of_a_larger_epsilon_is_caught(kind: Any) -> None:
    for epsilon in EPSILONS:
        assert not below_exp(largest_ratio(kind(1.2 * epsilon)), epsilon)


@pytest.mark.usefixtures("coarse")
def test_a_position_rounded_to_the_nearest_would_be_biased() -> None:
    """The weakened twin of the piecewise release: without the coin the mean is not the value."""
    made = mech.PiecewiseMechanism(1.0)
    lower, upper = made._position(Fraction(0.37))
    assert 0 < upper < 1
    (c, n), E = made.points, made.ratio
    nearest = (lower + round(upper) - Fraction(n, 2)) * Fraction(2) ** made.exponent
    assert (E - 1) * c * nearest / (c * E + n) != Fraction(0.37) - made.middle


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", LOCAL, ids=lambda kind: kind.name)
def test_the_variance_of_a_release_is_the_ideal_one(kind: Any, epsilon: float) -> None:
    made = kind(epsilon, -2.0, 3.0)
    for x in (-2.0, 0.4, 3.0):
        assert float(made.release_variance(x)) == pytest.approx(float(made.variance(x)), rel=1e-5)


@pytest.mark.thorough
@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("kind", LOCAL, ids=lambda kind: kind.name)
def test_releases_have_the_enumerated_distribution_and_no_other(kind: Any) -> None:
    made = kind(1.0, 0.1, 0.7)
    centre = mech.PiecewiseMechanism(1.0, 0.1, 0.7)  # a value half way between two positions
    x = min(
        np.linspace(0.1, 0.35, 101).tolist(),
        key=lambda value: abs(centre._position(Fraction(value))[1] - Fraction(1, 2)),
    )
    drawn = made.release(np.full(40_000, x), entropy=stream(11))

    def p_value(mechanism: Any, x: float) -> float:
        table = {float(z): float(p) for z, p in mechanism.pmf(x).items()}
        assert set(drawn.tolist()) <= table.keys()
        counts = np.array([np.sum(drawn == z) for z in table])
        expected = np.array(list(table.values())) * drawn.size
        return float(stats.chisquare(counts, expected).pvalue)

    assert p_value(made, x) > FALSE_ALARM
    assert p_value(made, x + 0.2) < SURE


@pytest.mark.parametrize("kind", LOCAL, ids=lambda kind: kind.name)
def test_a_release_far_from_the_grid_stays_a_float(kind: Any) -> None:
    for bounds in ((1e-9, 2e-9), (-1e12, 1e12), (1e6, 1e6 + 1e-3)):
        made = kind(1.0, *bounds)
        drawn = made.release(np.full(50, bounds[1]), entropy=stream(3))
        assert np.isfinite(drawn).all()
        assert made.radius * 2 >= Fraction(bounds[1]) - Fraction(bounds[0])
        assert (
            below_exp((made.radius + made.output) / (made.output - made.radius), 1.0)
            if kind is mech.DuchiMechanism
            else True
        )
    with pytest.raises(SignalError, match="outside"):
        kind(1.0).release([2.0])
    with pytest.raises(PrivacyError, match="nothing was released"):
        kind(1.0).release([math.nan])


def stairs(mechanism: Any, reach: int) -> Any:
    """P(X = k) for |k| <= reach, in floats, up to what lies beyond."""
    D, G = mechanism.steps, mechanism.upper_steps
    k = np.abs(np.arange(-reach, reach + 1))
    weight = np.exp(-mechanism.epsilon * (k // D + (k % D >= G)))
    return weight / weight.sum()


@pytest.fixture
def few_steps(monkeypatch: Any) -> None:
    """A staircase of 8 grid points to the sensitivity."""
    monkeypatch.setattr(mech.StaircaseMechanism, "exponent", -3)


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("epsilon", [0.4, 1.0, 3.0])
def test_the_discrete_staircase_keeps_epsilon_over_its_steps(epsilon: float) -> None:
    made = mech.StaircaseMechanism(epsilon, 1.0)
    assert made.steps == 9  # the sensitivity, raised by 2^-50 and rounded up
    p = np.log(stairs(made, 2000))
    for move in range(1, made.steps + 1):
        assert np.abs(p[move:] - p[:-move]).max() <= epsilon * (1 + 1e-12)
    assert np.abs(p[made.steps + 1 :] - p[: -made.steps - 1]).max() > 1.5 * epsilon
    k = np.arange(-2000, 2001)
    exact = (k**2 * np.exp(p)).sum() * made.granularity**2
    assert float(made.release_variance(0.0)) == pytest.approx(exact, rel=1e-9)


@pytest.mark.thorough
@pytest.mark.usefixtures("few_steps")
def test_staircase_releases_have_the_stated_distribution_and_no_other() -> None:
    made = mech.StaircaseMechanism(1.0, 1.0)
    drawn = made.release(np.zeros(40_000), entropy=stream(5)) / made.granularity
    reach = 60

    def p_value(mechanism: Any) -> float:
        wide = stairs(mechanism, 1000)
        inside = wide[1000 - reach : 1001 + reach]
        expected = np.append(inside, 1 - inside.sum()) * drawn.size
        counts = np.array([np.sum(drawn == k) for k in range(-reach, reach + 1)])
        return float(stats.chisquare(np.append(counts, drawn.size - counts.sum()), expected).pvalue)

    assert p_value(made) > FALSE_ALARM
    for wrong in (0.8, 1.2):
        assert p_value(replace(made, epsilon=wrong)) < SURE


def test_staircase_pays_for_rounding_and_refuses_vectors() -> None:
    made = mech.StaircaseMechanism(1.0, 1.0, input_error=0.25)
    assert made.steps * made.granularity >= 1.5
    assert float(made.release_variance(0.0)) == pytest.approx(
        made.worst_variance * 1.5**2, rel=1e-5
    )
    with pytest.raises(PrivacyError, match="for one number"):
        mech.StaircaseMechanism(1.0, 1.0, 2)


def test_the_coin_of_two_weights_is_bracketed() -> None:
    coin = WeightCoin(Fraction(3, 2), 5, 7)
    with localcontext(prec=60):
        p = Decimal(5) / (5 + 7 * Decimal("-1.5").exp())
        assert coin.floor(100) == int(p * 2**100)
    tossed = sum(coin.toss(stream(k)) for k in range(4000))
    assert abs(tossed / 4000 - float(p)) < 5.4 * math.sqrt(float(p * (1 - p)) / 4000)


SMOOTHED: Any = sens.smooth_log(0.5, 8.0, smoothing=sens.smoothing(1.0, 0.01))


def with_least(bound: Any, least: float) -> Any:
    return replace(bound, scale=replace(bound.scale, least=least))


def smooth(**options: Any) -> Any:
    return mech.SmoothLaplaceMechanism(1.0, SMOOTHED, 0.01, **options)


def test_a_smooth_release_pays_for_rounding_and_for_floats() -> None:
    """The scale covers S + one step + 2 input_error, times the factor: without the step it is less.

    The mutant `paid = 0` makes `covered` false for every signal whose scale is a whole number of
    steps; with an input error of many steps it does so for all.
    """
    for error in (0.0, 1e-7):
        made = smooth(input_error=error)
        g = Fraction(2) ** made.exponent
        assert error == 0.0 or error > 2**18 * g
        for s in (0.5, 1.7, 8.0):
            bound = Fraction(float(SMOOTHED.at(s)))
            move = bound / g + 1 + 2 * Fraction(error) / g  # how far neighbours lie, in steps
            covered = made.release_steps(s) * Fraction(made.epsilon) >= (
                Fraction(made.release_factor) * move
            )
            assert covered
            assert made.release_steps(s) < Fraction(made.release_factor) * (
                move * (1 + Fraction(1, 2**30)) + 2
            )


def test_floats_that_are_further_off_than_a_part_of_the_least_scale_are_refused() -> None:
    for error in (1e-3, math.inf):
        with pytest.raises(PrivacyError, match="nothing limits how far a computed value"):
            smooth(input_error=error)


@pytest.mark.parametrize("error", [-1e-7, math.nan])
def test_an_input_error_that_is_none_is_refused(error: float) -> None:
    """A negative one would be taken off the noise."""
    with pytest.raises(PrivacyError):
        smooth(input_error=error)


def test_the_factor_of_a_release_leaves_room_for_the_grid() -> None:
    made = smooth()
    assert made.release_factor > made.factor
    spent = mech.smooth_laplace_delta(1.0, SMOOTHED.scale.smoothing, made.release_factor)
    assert spent <= 0.01 - 2.0**-37
    tiny = mech.SmoothLaplaceMechanism(1.0, sens.smooth_log(0.5, 8.0, smoothing=0.01), 1e-12)
    with pytest.raises(PrivacyError, match=r"at least 2\^-30"):
        tiny.release([1.0])
    unknown = with_least(SMOOTHED, 0.0)
    with pytest.raises(PrivacyError, match="none is derived for this one"):
        mech.SmoothLaplaceMechanism(1.0, unknown, 0.01).release([1.0])


@pytest.mark.parametrize("bounds", [(0.5, 8.0), (1.0, 1.5), (2.0, 1e6), (0.1, 3.0)])
@pytest.mark.parametrize("radius", [0.1, 1.0, 30.0])
def test_the_least_smooth_sensitivity_is_derived_and_not_believed(bounds: Any, radius: Any) -> None:
    """Too large a number makes a grid that is too coarse for the scale of some signal."""
    bound: Any = sens.smooth_log(*bounds, smoothing=0.2, radius=radius)
    everywhere = bound.at(np.geomspace(bounds[0], bounds[1], 2001).clip(*bounds))
    assert 0 < bound.scale.least <= everywhere.min() * (1 + 1e-12)
    made = mech.SmoothLaplaceMechanism(1.0, bound, 0.01)
    assert made.exponent is not None
    assert min(made.release_steps(s) for s in bounds) >= 2**39
    for stated in (1.01 * float(everywhere.min()) + 1e-9, 1e6, math.inf):
        with pytest.raises(PrivacyError, match="is less on its domain"):
            mech.SmoothLaplaceMechanism(1.0, with_least(bound, stated), 0.01)
    with pytest.raises(TypeError, match="least"):
        mech.SmoothLaplaceMechanism(1.0, bound, 0.01, least=0.1)  # type: ignore[call-arg]


def test_smooth_releases_on_a_coarse_grid_keep_delta(monkeypatch: Any) -> None:
    """The exact delta between neighbours, by sums over the grid, at 2^-6 of the scale."""
    monkeypatch.setattr("veilsum.privacy.mechanisms.smooth_laplace.GRID", 6)
    made = smooth()
    k = np.arange(-60_000, 60_001)
    for s, other in ((0.5, 1.5), (1.0, 2.0), (7.0, 8.0), (0.6, 1.6)):
        logs = []
        for x in (s, other):
            point = math.floor(math.log(x) / 2.0**made.exponent + 0.5)
            t = float(made.release_steps(x))
            logs.append(math.log(math.tanh(1 / (2 * t))) - np.abs(k - point) / t)
        for p, q in (logs, logs[::-1]):
            delta = float(np.maximum(np.exp(p) - np.exp(1.0 + q), 0).sum())
            assert delta <= 0.01


def test_the_weakened_smooth_release_is_caught(monkeypatch: Any) -> None:
    """With 0.8 of the noise some pair spends more than delta."""
    monkeypatch.setattr("veilsum.privacy.mechanisms.smooth_laplace.GRID", 6)
    made, k, worst = smooth(), np.arange(-60_000, 60_001), 0.0
    for s in np.linspace(0.5, 7.0, 27):
        logs = []
        for x in (s, s + 1.0):
            point = math.floor(math.log(x) / 2.0**made.exponent + 0.5)
            t = 0.8 * float(made.release_steps(float(x)))
            logs.append(math.log(math.tanh(1 / (2 * t))) - np.abs(k - point) / t)
        for p, q in (logs, logs[::-1]):
            worst = max(worst, float(np.maximum(np.exp(p) - np.exp(1.0 + q), 0).sum()))
    assert worst > 0.01


def test_the_grid_of_an_additive_release_is_never_below_a_float() -> None:
    assert additive.FINEST == -1074
