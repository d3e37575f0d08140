"""Every mechanism through one suite: unbiased, of the stated variance, of the stated distribution.

The mechanisms are those of the registry, by their examples, and a few with other numbers: whoever adds
one as a file of its own finds it here unasked.

Statistical assertions have a false-alarm rate below 1e-6 each: |z| <= 6 for means and variances
(2e-9), p > 1e-8 for the distribution at the claimed scale; a scale of 0.9 or 1.1 must give p <
1e-20.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from veilsum.errors import PrivacyError, SignalError
from veilsum.privacy import MECHANISMS
from veilsum.privacy import mechanisms as mech
from veilsum.privacy import sensitivity as sens
from veilsum.privacy.mechanisms.additive import AdditiveMechanism

SMOOTH = sens.smooth_log(0.2, 20.0, smoothing=0.1)
EXAMPLES: list[Any] = [made for kind in MECHANISMS.values() for made in kind.examples()]
ADDITIVE: list[Any] = [
    *(made for made in EXAMPLES if isinstance(made, AdditiveMechanism)),
    mech.LaplaceMechanism(0.7, 2.0),
    mech.StaircaseMechanism(0.3, 2.0),
    mech.StaircaseMechanism(1.0, 2.0),
    mech.StaircaseMechanism(4.0, 0.5),
    mech.DiscreteLaplaceMechanism(1.0, 1),
    mech.DiscreteLaplaceMechanism(0.8, 5),
]
LOCAL: list[Any] = [  # whose distributions are worked out anew below
    kind(epsilon, -2.0, 3.0)
    for kind in (mech.DuchiMechanism, mech.PiecewiseMechanism, mech.HybridMechanism)
    for epsilon in (0.4, 1.0, 3.0)
]
SMOOTHED: list[Any] = [
    mech.StudentTMechanism(1.0, SMOOTH, degrees=9.5),
    mech.SmoothLaplaceMechanism(1.0, SMOOTH, delta=0.01),
]
DISTRIBUTIONS = [(SMOOTHED[0], stats.t(9.5)), (SMOOTHED[1], stats.laplace())]
OTHERS = [made for made in EXAMPLES if not isinstance(made, AdditiveMechanism)]
ALL = [*ADDITIVE, *LOCAL, *SMOOTHED, *OTHERS]
N = 200_000


def name(mechanism: Any) -> str:
    return f"{mechanism.name}-{mechanism.epsilon:g}-{mechanism.worst_variance:.3g}"


def inputs(mechanism: Any) -> Any:
    if any(mechanism is one for one in SMOOTHED):
        return [0.2, 1.3, 20.0]
    if any(mechanism is one for one in LOCAL):
        return [-2.0, 0.0, 1.0, 3.0]
    return sorted({x for pair in mechanism.pairs for x in pair})


def repeated(x: Any, *shape: int) -> Any:
    """An input, a number or a vector, as often as asked."""
    return np.broadcast_to(x, (*shape, *np.shape(x)))


def test_all_kinds_are_here() -> None:
    """Of which `sample` draws: all but the identity, and noise of sums, which has its own suites."""
    assert {made.name for made in ALL} == set(MECHANISMS.names()) - {"none", "masked", "secure-sum"}
    assert {type(made) for made in LOCAL} <= {type(made) for made in EXAMPLES}


def draws(mechanism: Any, x: float, count: int, seed: int) -> list[Any]:
    """Noise of `sample`, and of `from_uniforms`, by which the simulator draws, where it is another."""
    rng, values = np.random.default_rng(seed), repeated(x, count)
    found = [mechanism.sample(values, rng) - mechanism.mean(x)]
    if mechanism.uniforms:
        uniform = rng.random((mechanism.uniforms, *values.shape))
        found.append(mechanism.from_uniforms(values, uniform) - mechanism.mean(x))
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("mechanism", ALL, ids=name)
def test_unbiased_and_of_the_stated_variance(mechanism: Any) -> None:
    for k, x in enumerate(inputs(mechanism)):
        variance = np.asarray(mechanism.variance(x))
        assert (variance <= mechanism.worst_variance * (1 + 1e-12)).all()
        for z in draws(mechanism, x, N, 31 + k):
            assert (np.abs(z.mean(axis=0)) <= 6 * np.sqrt(variance / N)).all()
            squares = (z**2).std(axis=0) / math.sqrt(N)  # 0 for two points of equal size
            off = 6 * squares + 1e-4 * variance
            assert (np.abs((z**2).mean(axis=0) - variance) <= off).all()
            heavy = mechanism.name == "student-t"  # its squares have no variance
            weak = np.abs((0.81 * z**2).mean(axis=0) - variance)  # a tenth of the noise is missing
            assert (weak > off).all() or heavy


@pytest.mark.parametrize("mechanism", ALL, ids=name)
def test_a_mechanism_without_part_of_its_noise_has_less(mechanism: Any) -> None:
    """`weakened` is what audits must find: the claim of the whole with noise that is missing."""
    weak = mechanism.weakened(0.3)
    for x in inputs(mechanism):
        assert (np.asarray(weak.variance(x)) < 0.9 * np.asarray(mechanism.variance(x))).all()
    z = [one.sample(repeated(inputs(mechanism)[0], N), np.random.default_rng(41)) for one in
         (mechanism, weak)]  # fmt: skip
    assert (z[1].var(axis=0) < 0.9 * z[0].var(axis=0)).all()


@pytest.mark.parametrize("mechanism", ALL, ids=name)
def test_sums_of_noise_lie_within_the_stated_width(mechanism: Any) -> None:
    """P(|d + (d' + d'')/2 + normal| <= x) >= 0.9 at the worst input; 6 standard deviations below it.

    The weakened twin forgets the normal number that is added, as local mechanisms once did.
    """
    n, confidence, worst = 20_000, 0.9, mechanism.worst_variance
    weights, times = np.array([1.0, 0.5]), np.array([1.0, 2.0])
    off = 6 * math.sqrt(confidence * (1 - confidence) / n)
    rng = np.random.default_rng(43)
    for normal in (0.0, worst, 100 * worst):
        x = mechanism.sum_quantile(weights, times, confidence, normal)
        for at in inputs(mechanism):
            z = mechanism.sample(repeated(at, 3, n), rng) - mechanism.mean(at)
            total = np.tensordot(weights[[0, 1, 1]], z, axes=1)
            total += rng.normal(0, math.sqrt(normal), total.shape)
            assert (np.abs(total) <= x).mean(axis=0).min() >= confidence - off
            if normal > worst:
                forgotten = mechanism.sum_quantile(weights, times, confidence)
                assert (np.abs(total) <= forgotten).mean(axis=0).max() < confidence - off


@pytest.mark.parametrize("mechanism", ALL, ids=name)
def test_the_contract(mechanism: Any) -> None:
    assert isinstance(mechanism, mech.Mechanism)
    assert MECHANISMS[mechanism.name] is type(mechanism)
    assert (mechanism.ideal_status, bool(mechanism.reason)) == ("proved", True)
    assert mechanism.status == ("none" if mechanism.name == "student-t" else "proved")
    assert mechanism.delta == (0.01 if mechanism.takes_delta else 0)
    event = mechanism.event()
    assert (event.epsilon, event.delta) == (mechanism.epsilon, mechanism.delta)
    assert mechanism.scale == pytest.approx(math.sqrt(mechanism.worst_variance / 2), rel=0.1)
    given = np.array(inputs(mechanism))
    x = given[np.resize(np.arange(len(given)), (2, 2))]
    assert (mechanism.clip(x) == x).all()
    one, again = (mechanism.sample(x, np.random.default_rng(7)) for _ in range(2))
    assert one.shape == mechanism.variance(x).shape == (2, 2, *given.shape[1:])
    assert (one == again).all()
    assert mechanism.sample(x[0, 0], np.random.default_rng(7)).shape == given.shape[1:]


def chi_square(counts: Any, probabilities: Any) -> Any:
    """p of a chi-square test, cells of fewer than 10 expected draws put together."""
    expected = probabilities * counts.sum()
    small = expected < 10
    if (counts[expected == 0] > 0).any():
        return 0.0
    seen = np.append(counts[~small], counts[small].sum())
    wanted = np.append(expected[~small], expected[small].sum())
    keep = wanted > 0
    statistic = ((seen - wanted)[keep] ** 2 / wanted[keep]).sum()
    return float(stats.chi2.sf(statistic, keep.sum() - 1))


def distribution_p(mechanism: Any, z: Any) -> Any:
    """p of the hypothesis that draws of noise follow the mechanism's stated distribution."""
    if mechanism.lattice:
        k = np.arange(-200, 201) * mechanism.lattice
        counts = np.array([(z == j).sum() for j in k])
        assert counts.sum() == z.size
        return chi_square(counts, np.exp(mechanism.log_density(k)))
    return stats.kstest(z, mechanism.cdf).pvalue


@pytest.mark.thorough
@pytest.mark.parametrize("mechanism", ADDITIVE, ids=name)
def test_additive_noise_has_the_stated_distribution_and_no_other_scale(mechanism: Any) -> None:
    z = mechanism.sample(np.zeros(N), np.random.default_rng(32))
    assert distribution_p(mechanism, z) > 1e-8
    for wrong in (0.9, 1.1):
        if mechanism.lattice:
            other = replace(mechanism, epsilon=mechanism.epsilon / wrong)
        else:
            other = replace(mechanism, sensitivity=mechanism.sensitivity * wrong)
        assert distribution_p(other, z) < 1e-20


@pytest.mark.thorough
@pytest.mark.parametrize("mechanism", ADDITIVE, ids=name)
def test_additive_distributions_are_consistent(mechanism: Any) -> None:
    """The density sums to one, has the stated variance, and is the derivative of the cdf."""
    if mechanism.name == "discrete-laplace":
        k = np.arange(-2000, 2001)
        p = np.exp(mechanism.log_density(k))
        assert p.sum() == pytest.approx(1, abs=1e-12)
        assert (k**2 * p).sum() == pytest.approx(mechanism.worst_variance, rel=1e-9)
        assert np.cumsum(p) == pytest.approx(mechanism.cdf(k), abs=1e-12)
        assert p == pytest.approx(stats.dlaplace.pmf(k, mechanism.epsilon / mechanism.sensitivity))
        assert mechanism.log_density(0.5) == -math.inf
        return
    z = np.linspace(-120, 120, 480_001) * mechanism.sensitivity
    middle, width = (z[1:] + z[:-1]) / 2, np.diff(z)
    p = np.exp(mechanism.log_density(middle))
    assert (p * width).sum() == pytest.approx(1, abs=2e-3)
    assert (middle**2 * p * width).sum() == pytest.approx(mechanism.worst_variance, rel=2e-3)
    assert mechanism.cdf(z[1:]) == pytest.approx(np.cumsum(p * width), abs=2e-3)


def local_cells(mechanism: Any, x: Any) -> Any:
    """Edges of cells around the release of x, and their exact probabilities, worked out anew."""
    e, t = math.exp(mechanism.epsilon / 2), (x - 0.5) / 2.5
    reach = (e + 1) / (e - 1)
    edges = np.linspace(-2 * reach, 2 * reach, 201)
    left = (reach + 1) * t / 2 - (reach - 1) / 2
    near = _overlap(edges, left, left + reach - 1) / (reach - 1)
    whole = _overlap(edges, -reach, reach) / (2 * reach)
    away = (2 * reach * whole - (reach - 1) * near) / (reach + 1)
    piecewise = (e * near + away) / (e + 1)
    ends = (e**2 + 1) / (e**2 - 1)
    up = (1 + t / ends) / 2
    duchi = np.zeros(edges.size - 1)
    duchi[np.searchsorted(edges, ends) - 1] += up
    duchi[np.searchsorted(edges, -ends) - 1] += 1 - up
    fraction = {"duchi": 0.0, "piecewise": 1.0}.get(
        mechanism.name, 1 - 1 / e if mechanism.epsilon > 0.61 else 0.0
    )
    return edges, fraction * piecewise + (1 - fraction) * duchi


def _overlap(edges: Any, low: Any, high: Any) -> Any:
    return np.clip(np.minimum(edges[1:], high) - np.maximum(edges[:-1], low), 0, None)


@pytest.mark.parametrize("mechanism", LOCAL, ids=name)
@pytest.mark.parametrize("x", [-2.0, 1.1])
def test_local_mechanisms_have_the_stated_distribution_and_no_other_scale(
    mechanism: Any, x: Any
) -> None:
    z = (mechanism.sample(np.full(N, x), np.random.default_rng(33)) - 0.5) / 2.5
    edges, cells = local_cells(mechanism, x)
    assert cells.sum() == pytest.approx(1)
    assert chi_square(np.histogram(z, edges)[0], np.where(cells < 1e-12, 0, cells)) > 1e-8
    for wrong in (0.9, 1.1):
        edges, cells = local_cells(replace(mechanism, epsilon=mechanism.epsilon / wrong), x)
        assert chi_square(np.histogram(z, edges)[0], np.where(cells < 1e-12, 0, cells)) < 1e-20


@pytest.mark.thorough
@pytest.mark.parametrize(("mechanism", "distribution"), DISTRIBUTIONS)
def test_smooth_noise_has_the_stated_distribution_and_no_other_scale(
    mechanism: Any, distribution: Any
) -> None:
    s = 2.7
    scale = mechanism.multiple * float(SMOOTH.at(s))
    z = (mechanism.sample(np.full(N, s), np.random.default_rng(34)) - math.log(s)) / scale
    assert stats.kstest(z, distribution.cdf).pvalue > 1e-8
    for wrong in (0.9, 1.1):
        assert stats.kstest(z / wrong, distribution.cdf).pvalue < 1e-20


def test_variances_of_the_local_mechanisms_are_those_published() -> None:
    """Wang et al. (2019), eqs. 4, 6 and 8, for [-1, 1]."""
    for epsilon in (0.3, 0.7, 2.0, 5.0):
        e = math.exp(epsilon / 2)
        duchi = ((e**2 + 1) / (e**2 - 1)) ** 2
        piecewise = 4 * e / (3 * (e - 1) ** 2)
        hybrid = (e + 3) / (3 * e * (e - 1)) + (e**2 + 1) ** 2 / (e * (e**2 - 1) ** 2)
        assert mech.DuchiMechanism(epsilon).worst_variance == pytest.approx(duchi)
        assert mech.PiecewiseMechanism(epsilon).worst_variance == pytest.approx(piecewise)
        expected = hybrid if epsilon > 0.61 else duchi
        assert mech.HybridMechanism(epsilon).worst_variance == pytest.approx(expected)


def test_the_hybrid_turns_where_the_two_are_equal_and_its_coin_is_the_best() -> None:
    star = mech.HYBRID_FROM
    assert star == pytest.approx(0.6094, abs=1e-4)
    above = mech.HybridMechanism(star * (1 + 1e-12)).worst_variance
    assert above == pytest.approx(mech.HybridMechanism(star).worst_variance, rel=1e-9)
    t = np.array([0.0, 1.0])
    for epsilon in (0.2, 0.6, 0.62, 1.0, 4.0):
        one, two = (
            mech.PiecewiseMechanism(epsilon).variance(t),
            mech.DuchiMechanism(epsilon).variance(t),
        )
        mixes = [(a * one + (1 - a) * two).max() for a in np.linspace(0, 1, 2001)]
        assert mech.HybridMechanism(epsilon).worst_variance <= min(mixes) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1.0, 3.0, 10.0, 40.0])
def test_the_width_of_the_stairs_is_optimal(epsilon: Any) -> None:
    """Against a search over widths, the published closed form, and an integral of the density."""
    made, b = mech.StaircaseMechanism(epsilon, 1.0), math.exp(-epsilon)
    widths = np.linspace(0.0005, 0.9995, 4001)
    searched = min(mech.staircase_variance(g, epsilon) for g in widths)
    assert made.worst_variance <= searched * (1 + 1e-9)
    published = (2 ** (-2 / 3) * (b * (1 + b)) ** (2 / 3) + b) / math.expm1(-epsilon) ** 2
    assert made.worst_variance == pytest.approx(published, rel=1e-9)
    assert made.worst_variance <= mech.LaplaceMechanism(epsilon, 1.0).worst_variance * (1 + 1e-9)
    if 0.5 <= epsilon <= 3:
        parts = [
            integrate.quad(lambda z: z**2 * math.exp(made.log_density(z)), a, c)[0]
            for k in range(90)
            for a, c in ((k, k + made.width), (k + made.width, k + 1))
        ]
        assert 2 * sum(parts) == pytest.approx(made.worst_variance, rel=1e-8)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mech.LaplaceMechanism(0.0, 1.0), PrivacyError, "epsilon must be"),
        (lambda: mech.StaircaseMechanism(1.0, math.inf), PrivacyError, "sensitivity must be"),
        (lambda: mech.DiscreteLaplaceMechanism(1.0, 1.5), PrivacyError, "round it up to 2"),
        (lambda: mech.DuchiMechanism(1.0, 3.0, 2.0), PrivacyError, "low < high"),
        (
            lambda: mech.DiscreteLaplaceMechanism(1.0, 1).sample(
                [1.0, 2.5], np.random.default_rng(0)
            ),
            SignalError,
            r"1 of 2 values are not whole numbers, the first at index \(1,\)",
        ),
        (
            lambda: mech.HybridMechanism(1.0).sample([0.5, math.nan], np.random.default_rng(0)),
            SignalError,
            r"1 of 2 values lie outside \[-1.0, 1.0\], the first at index \(1,\)",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(call: Any, error: Any, message: Any) -> None:
    with pytest.raises(error, match=message):
        call()
