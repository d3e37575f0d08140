"""Smooth sensitivity against a brute-force search of its definition, and as a smooth bound."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import maximum_filter

from veilsum.errors import PrivacyError, SignalError
from veilsum.families import Support
from veilsum.privacy import sensitivity as sens


def brute_force(xi: Any, s: Any, low: Any, high: Any, radius: Any, gamma: Any) -> Any:
    """max of e^{-gamma |s-y|/radius} |xi(z) - xi(y)| over |z - y| <= radius: lattice, then zoom."""

    def value(y: Any, z: Any) -> Any:
        y = np.clip(y, low, high)
        z = np.clip(np.clip(z, y - radius, y + radius), low, high)
        return np.exp(-gamma * np.abs(s - y) / radius) * np.abs(xi(z) - xi(y))

    ys = np.unique(np.concatenate([np.linspace(low, high, 600), [s]]))
    zs = np.linspace(low, high, 300)
    first = value(ys[:, None], zs)
    row, column = np.nonzero((first == maximum_filter(first, 3)) & (first > 0.9 * first.max()))
    y, z = ys[row], zs[column]
    wide, far, unit = (high - low) / 200, (high - low) / 100, np.linspace(-1, 1, 9)
    dy, dz = (grid.ravel() for grid in np.meshgrid(unit, unit))
    for _ in range(100):
        near_y, near_z = y[:, None] + wide * dy, z[:, None] + far * dz
        k, row = value(near_y, near_z).argmax(axis=1), np.arange(y.size)
        y, z = near_y[row, k], near_z[row, k]
        wide, far = 0.8 * wide, 0.8 * far
    return float(value(y, z).max())


@pytest.mark.thorough
def test_log_is_exact_on_random_domains() -> None:
    """200 domains, from narrower than one move to many moves wide, weak and strong smoothing."""
    rng = np.random.default_rng(20)
    for _ in range(200):
        low, radius = 10 ** rng.uniform(-3, 1), 10 ** rng.uniform(-1.5, 1)
        high = low + radius * 10 ** rng.uniform(-0.7, 1.5)
        gamma = 10 ** rng.uniform(-2, 1.2)
        s = low + (high - low) * rng.choice([0.0, rng.uniform(), rng.uniform() ** 4, 1.0])
        found = sens.smooth_log(low, high, smoothing=gamma, radius=radius).at(s)
        assert found == pytest.approx(
            brute_force(np.log, s, low, high, radius, gamma), rel=1e-9, abs=1e-12
        )


@pytest.mark.parametrize(
    ("low", "high", "radius", "gamma", "s"),
    [
        (1.0, 100.0, 10.0, 0.677, 6.0),  # at low e^{W(radius/(gamma low))} = 7.39
        (0.5, 1.0, 1.0, 3.26, 0.65),  # at high e^{W_0(-radius/(gamma high))} = 0.6
    ],
)
def test_the_maximum_may_sit_inside(low: Any, high: Any, radius: Any, gamma: Any, s: Any) -> None:
    """Where neither the signal itself nor an end or a kink of the domain gives the maximum."""
    found = sens.smooth_log(low, high, smoothing=gamma, radius=radius).at(s)
    assert found == pytest.approx(brute_force(np.log, s, low, high, radius, gamma), rel=1e-9)
    y = np.unique(np.clip([low, high, low + radius, high - radius, s], low, high))
    down, up = np.log(y / np.maximum(low, y - radius)), np.log(np.minimum(high, y + radius) / y)
    assert found > 1.005 * (np.maximum(down, up) * np.exp(-gamma * np.abs(s - y) / radius)).max()


def test_log_without_a_ceiling() -> None:
    bound = sens.smooth_log(0.5, smoothing=0.1, radius=2.0)
    wide = sens.smooth_log(0.5, 1e4, smoothing=0.1, radius=2.0)
    s = np.geomspace(0.5, 5000, 50)
    assert bound.at(s) == pytest.approx(wide.at(s), rel=1e-12)
    assert bound.l1 == pytest.approx(math.log(5))
    assert bound.at(0.5) == pytest.approx(math.log(5))
    assert bound.at(1e6) == pytest.approx(2e-6, rel=1e-5)


def statistic(rng: Any) -> Any:
    """Waves on a curve: several turning points, of which some lie beyond one move."""
    a, b, c = rng.uniform(0.2, 2, 2), rng.uniform(0.3, 4, 2), rng.uniform(0, 7, 2)
    d = rng.uniform(-0.3, 0.3)
    return lambda x: a[0] * np.sin(b[0] * x + c[0]) + a[1] * np.cos(b[1] * x + c[1]) + d * x**2


@pytest.mark.thorough
def test_a_search_finds_the_smooth_sensitivity_of_random_statistics() -> None:
    rng = np.random.default_rng(21)
    for _ in range(60):
        xi, low = statistic(rng), rng.uniform(-3, 3)
        high = low + rng.uniform(1, 8)
        radius, gamma = 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-2, 1)
        bound = sens.smooth(
            xi, Support(low, high), smoothing=gamma, radius=radius, resolution=1 << 11
        )
        assert bound.status == "estimated"
        s = rng.uniform(low, high)
        assert bound.at(s) == pytest.approx(
            brute_force(xi, s, low, high, radius, gamma), rel=1e-9, abs=1e-12
        )


def test_the_search_agrees_with_the_closed_form_of_log() -> None:
    for low, high, radius, gamma in [(0.1, 9.0, 1.0, 0.1), (0.01, 3.0, 1.0, 0.4), (4, 10, 8, 9.0)]:
        closed = sens.smooth_log(low, high, smoothing=gamma, radius=radius)
        found = sens.smooth(np.log, Support(low, high), smoothing=gamma, radius=radius)
        s = np.linspace(low, high, 333)
        assert found.at(s) == pytest.approx(closed.at(s), rel=1e-9)


@pytest.mark.thorough
def test_a_lipschitz_constant_makes_it_an_upper_bound() -> None:
    rng = np.random.default_rng(22)
    for _ in range(30):
        xi, low, radius, gamma = statistic(rng), -2.0, rng.uniform(0.1, 3), rng.uniform(0.05, 3)
        high = 4.0
        x = np.linspace(low, high, 100_001)
        steepest = 1.01 * np.abs(np.diff(xi(x))).max() / (x[1] - x[0])
        options: Any = {"smoothing": gamma, "radius": radius}
        upper = sens.smooth(xi, Support(low, high), lipschitz=steepest, **options)
        found = sens.smooth(xi, Support(low, high), **options)
        s = rng.uniform(low, high, 200)
        assert upper.status == "claimed"
        assert (upper.at(s) >= found.at(s) * (1 - 1e-12)).all()
        cell = (high - low) / (1 << 14)
        loose = (found.l1 + 2 * steepest * cell) * math.exp(gamma * cell / radius)
        assert found.l1 <= upper.l1 <= loose
        assert (upper.at(s) <= upper.l1 * (1 + 1e-12)).all()


def test_whole_numbers_are_exact() -> None:
    """The definition, by a loop over all pairs."""
    rng = np.random.default_rng(23)
    table = rng.normal(size=30).cumsum()
    radius, gamma = 3, 0.4
    local = [max(abs(table[k] - table[j]) for k in range(30) if abs(k - j) <= 3) for j in range(30)]
    wanted = [
        max(math.exp(-gamma * abs(s - y) / 3) * local[y] for y in range(30)) for s in range(30)
    ]
    bound = sens.smooth(
        lambda s: table[s.astype(int) - 5],
        Support(5, 34, integer=True),
        smoothing=gamma,
        radius=radius + 0.9,
    )
    assert bound.status == "proved"
    assert bound.scale is not None
    assert bound.scale.radius == 3
    assert bound.at(np.arange(5, 35)) == pytest.approx(np.array(wanted), rel=1e-12)


@given(st.data())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_it_is_a_smooth_upper_bound(data: Any) -> None:
    """S >= |xi(s) - xi(s')| and S(s) <= e^gamma S(s') for adjacent s, s', whatever the radius."""
    low = data.draw(st.floats(1e-3, 10))
    radius = data.draw(st.floats(1e-2, 20))
    high = low + radius * data.draw(st.floats(0.1, 50))
    gamma = data.draw(st.floats(0.01, 5))
    bound = sens.smooth_log(low, high, smoothing=gamma, radius=radius)
    s = data.draw(st.floats(low, high))
    other = min(max(s + radius * data.draw(st.floats(-1, 1)), low), high)
    one, two = bound.at(s), bound.at(other)
    assert abs(math.log(s / other)) <= min(one, two) * (1 + 1e-9)
    assert abs(math.log(one / two)) <= gamma * abs(s - other) / radius + 1e-9
    assert max(one, two) <= bound.l1 * (1 + 1e-12)


def test_distance_must_be_counted_in_moves() -> None:
    """e^{-gamma |s-y|} with radius 2 is no smooth bound: it can fall by e^{2 gamma} in one move."""
    low, radius, gamma = 0.001, 2.0, 0.5
    wrong = sens.envelope(
        np.array([3.0, 5.0]), np.array([low + radius]), np.array([math.log1p(radius / low)]), gamma
    )
    assert math.log(wrong[0] / wrong[1]) > 1.9 * gamma
    right = sens.smooth_log(low, smoothing=gamma, radius=radius).at([3.0, 5.0])
    assert math.log(right[0] / right[1]) <= gamma + 1e-12


def test_the_published_formula_is_refuted_and_not_smooth() -> None:
    bound = sens.as_published(1.0, 0.01, radius=2.0)
    gamma = sens.smoothing(1.0, 0.01)
    assert gamma == pytest.approx(1 / (2 * math.log(200)))
    assert bound.at([0.5, 4.0]) == pytest.approx(2.0 / (math.e * gamma * np.array([0.5, 4.0])))
    assert (bound.status, bound.finite) == ("refuted", False)
    assert "erratum 2" in bound.reason
    one, two = bound.at([2.1, 0.1])
    assert two / one > 10 * math.exp(gamma)


def test_bounds_travel_between_processes() -> None:
    for bound in (sens.smooth_log(0.1, 5, smoothing=0.2), sens.as_published(1.0, 0.1)):
        assert pickle.loads(pickle.dumps(bound)).at(2.0) == bound.at(2.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sens.smooth_log(0.0, 1.0, smoothing=0.1), "low must be a finite number above 0"),
        (lambda: sens.smooth_log(1.0, 2.0, smoothing=0.0), "smoothing must be"),
        (lambda: sens.smooth_log(1.0, 2.0, smoothing=0.1, radius=-1), "radius must be"),
        (lambda: sens.smooth(np.sin, Support(0.0), smoothing=0.1), "needs a bounded domain"),
        (lambda: sens.smooth(np.log, Support(0, 1), smoothing=0.1), "1 not finite"),
        (lambda: sens.smooth(np.sum, Support(0, 1), smoothing=0.1), "as many finite"),
        (
            lambda: sens.smooth(np.sin, Support(0, 9, integer=True), smoothing=0.1, radius=0.5),
            "the guarantee would be empty",
        ),
        (lambda: sens.smooth(np.sin, Support(0, 1e9, integer=True), smoothing=1), "too many"),
        (
            lambda: sens.smooth(np.exp, Support(0, 1), smoothing=0.1, lipschitz=2.5),
            "lipschitz = 2.5 is too small",
        ),
        (lambda: sens.smoothing(1.0, 0.0), "delta must be"),
        (lambda: sens.smoothing(1.0, 1.0), "delta must be"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_what_makes_no_sense_is_refused(call: Any, message: Any) -> None:
    with pytest.raises(PrivacyError, match=message):
        call()


def test_a_signal_outside_the_domain_is_named_by_its_index() -> None:
    with pytest.raises(
        SignalError, match=r"1 of 3 signals .* \(1 <= s <= 2\).* index \(2,\)"
    ) as hit:
        sens.smooth_log(1.0, 2.0, smoothing=0.1).at([1.0, 2.0, 2.718])
    assert "2.718" not in str(hit.value)
