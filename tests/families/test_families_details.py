"""Supports, bounds, messages, the registry, roots and the custom family."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from veilsum import families as f
from veilsum._statistic import Status
from veilsum.errors import FamilyError, SignalError
from veilsum.families.positive import inverse_digamma
from veilsum.families.scalar import excess, inverse_excess


@pytest.mark.parametrize(
    ("support", "words"),
    [
        (f.Support(), "any real s"),
        (f.Support(low=0, open_low=True), "s > 0"),
        (f.Support(low=0.1), "s >= 0.1"),
        (f.Support(high=5, open_high=True), "s < 5"),
        (f.Support(low=0, high=5, open_low=True), "0 < s <= 5"),
        (f.Support(low=0, integer=True), "whole numbers 0, 1, 2, ..."),
        (f.Support(low=0, high=1, integer=True), "whole numbers 0 or 1"),
        (f.Support(low=2, high=1000317, integer=True), "whole numbers 2 to 1000317"),
        (f.Support(high=3, integer=True), "whole numbers up to 3"),
        (f.Support(integer=True), "whole numbers"),
    ],
)
def test_supports_describe_themselves(support: f.Support, words: str) -> None:
    assert support.describe() == words


def test_violations() -> None:
    s = np.array([-1.0, 0.0, 0.5, 1.0, 2.0, np.nan, np.inf, -np.inf])
    closed = f.Support(low=0, high=1).violations(s)
    assert closed.tolist() == [True, False, False, False, True, True, True, True]
    opened = f.Support(low=0, high=1, open_low=True, open_high=True).violations(s)
    assert opened.tolist() == [True, True, False, True, True, True, True, True]
    whole = f.Support(low=0, integer=True).violations(s)
    assert whole.tolist() == [True, False, True, False, False, True, True, True]
    assert f.Support().violations(s).sum() == 3


def test_bounds_narrow_the_support() -> None:
    assert f.LogNormal(1.0, bounds=(0.1, None)).support == f.Support(low=0.1)
    assert f.LogNormal(1.0, bounds=(-1, 4)).support == f.Support(low=0.0, high=4, open_low=True)
    assert f.LogNormal(1.0, bounds=(0, None)).support.open_low
    assert f.Poisson(bounds=(0.5, 10.2)).support == f.Support(low=1.0, high=10.0, integer=True)
    assert f.Normal(1.0, bounds=[0, math.inf]).support == f.Support(low=0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("family", "bounds", "message"),
    [
        (f.Normal, (1.0, 1.0), "low < high"),
        (f.Normal, (2.0, None, 3.0), "a pair"),
        (f.Normal, ("a", None), "a pair"),
        (f.Normal, (math.nan, None), "low < high"),
        (f.LogNormal, (-3.0, 0.0), r"the support \(s > 0\)"),
        (f.LogNormal1p, (-3.0, -1.0), r"found bounds=\(-3, -1\)"),
    ],
)
def test_bounds_that_make_no_sense(family: type, bounds: object, message: str) -> None:
    with pytest.raises(FamilyError, match=message):
        family(1.0, bounds=bounds)


def test_counts_need_two_values_between_bounds() -> None:
    with pytest.raises(FamilyError, match="two values"):
        f.Bernoulli(bounds=(0, 0.5))
    with pytest.raises(FamilyError, match="no bounds"):
        f.Categorical(3, bounds=(0, 1))


def test_clip_to_the_support() -> None:
    s = np.array([-1.0, 0.05, 7.0, np.nan])
    clipped = f.LogNormal(1.0, bounds=(0.1, 5.0)).support.clip(s)
    np.testing.assert_array_equal(clipped, [0.1, 0.1, 5.0, np.nan])
    with pytest.raises(FamilyError, match="give the family bounds"):
        f.LogNormal(1.0).support.clip(s)


@pytest.mark.parametrize(
    "build",
    [
        lambda: f.Normal(0.0),
        lambda: f.LogNormal(math.inf),
        lambda: f.GammaKnownShape(-1.0),
        lambda: f.GammaKnownRate(0.0),
        lambda: f.Pareto(0.0),
        lambda: f.Weibull(math.nan),
        lambda: f.Laplace(math.inf),
        lambda: f.Categorical(1),
        lambda: f.MultivariateNormal([[1.0, 2.0], [2.0, 1.0]]),
        lambda: f.MultivariateNormal([[1.0, 0.5], [0.0, 1.0]]),
        lambda: f.MultivariateNormal([1.0, 2.0]),
        lambda: f.Support(low=1, high=0),
    ],
)
def test_families_are_valid_once_constructed(build: object) -> None:
    with pytest.raises(FamilyError):
        build()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: f.Poisson().mean(rate=-1.0), "poisson needs rate >= 0; found rate=-1"),
        (lambda: f.Bernoulli().mean(p=1.2), "0 <= p <= 1"),
        (lambda: f.Normal(1.0).mean(mu=math.inf), "any real mu"),
        (lambda: f.Exponential().mean(rate=0.0), "rate > 0"),
        (
            lambda: f.LogNormal1p(1.0).sample(np.random.default_rng(0), 3, mu=-math.inf),
            "any real mu",
        ),
        (lambda: f.Categorical(3).mean(p=[0.5, 0.6, 0.1]), "add up to 1"),
        (lambda: f.NormalBoth().mean(mu=0.0, sigma=-1.0), "sigma >= 0"),
        (lambda: f.MultivariateNormal(np.eye(2)).mean(mu=[1.0]), "2 finite numbers"),
        (lambda: f.Normal(1.0).interval(0.0, -1.0), "negative variance"),
        (lambda: f.NormalBoth().interval([0.0, 1.0], [1.0, 1.0]), "covariance must have shape"),
        (lambda: f.Normal(1.0).parameter(np.zeros(3)), r"use mean\[..., None\]"),
    ],
)
def test_messages(call: object, message: str) -> None:
    with pytest.raises(FamilyError, match=message):
        call()  # type: ignore[operator]


def test_an_overflow_is_an_infinite_sensitivity() -> None:
    assert f.Weibull(3.0, bounds=(0, 1e200)).moves().l1 == math.inf


def test_zeros_under_a_logarithm_have_a_remedy() -> None:
    with pytest.raises(SignalError, match=r"use LogNormal1p .* bounds=\(floor, None\)"):
        f.LogNormal(1.0).statistic([1.0, 0.0])
    with pytest.raises(SignalError, match=r"signals.clip\(0.1, None\)"):
        f.LogNormal(1.0, bounds=(0.1, None)).statistic([1.0, 0.0])
    with pytest.raises(SignalError, match=r"shape \(..., 2\)"):
        f.MultivariateNormal(np.eye(2)).statistic([1.0, 0.0, 3.0])


def test_edges_of_the_mean() -> None:
    assert f.Bernoulli().parameter([-0.02])["p"] == 0
    assert f.Exponential().parameter([-0.1])["rate"] == math.inf
    assert f.LogNormal1p(1.0).parameter([-0.1])["mu"] == -math.inf
    assert f.Geometric().parameter([0.4])["p"] == 1
    assert f.NormalBoth().parameter([2.0, 1.0])["sigma"] == 0
    p = f.Categorical(3).parameter([1.2, 0.1, -0.3])["p"]
    np.testing.assert_allclose(p, [1.0, 0.0, 0.0])


@settings(deadline=None, derandomize=True)
@given(st.lists(st.floats(-3, 3), min_size=2, max_size=6))
def test_categorical_projects_onto_the_simplex(m: list[float]) -> None:
    """The projection is optimal: (m - p) . (q - p) <= 0 for every corner q."""
    p = f.Categorical(len(m)).parameter(m)["p"]
    assert p.sum() == pytest.approx(1)
    assert (p >= 0).all()
    assert all((np.array(m) - p) @ (q - p) <= 1e-12 for q in np.eye(len(m)))


@pytest.mark.parametrize("mu", [-30.0, -8.1, -7.9, -3.0, 0.0, 2.0, 40.0])
def test_truncated_normal_against_scipy(mu: float) -> None:
    family, distribution = f.LogNormal1p(1.3), stats.truncnorm(-mu / 1.3, np.inf, loc=mu, scale=1.3)
    np.testing.assert_allclose(family.mean(mu=mu), [distribution.mean()], rtol=1e-9)
    np.testing.assert_allclose(family.covariance(mu=mu), [[distribution.var()]], rtol=1e-6)


def test_truncated_samples_follow_the_truncated_distribution() -> None:
    """Kolmogorov-Smirnov on a fixed seed; alarm at p < 1e-6. Far tails do not underflow."""
    s = f.LogNormal1p(1.3).sample(np.random.default_rng(0), 20_000, mu=-4.0)
    distribution = stats.truncnorm(4.0 / 1.3, np.inf, loc=-4.0, scale=1.3)
    assert stats.kstest(np.log1p(s), distribution.cdf).pvalue > 1e-6
    far = f.LogNormal1p(1.0).sample(np.random.default_rng(0), 1000, mu=-100.0)
    assert np.isfinite(far).all()
    assert 0 < np.log1p(far).mean() < 0.02


@settings(deadline=None, derandomize=True)
@given(st.floats(-300, 300))
def test_excess_and_its_inverse(a: float) -> None:
    x = np.array([a])
    g, slope = excess(x)
    np.testing.assert_allclose(inverse_excess(g), x, rtol=1e-11, atol=1e-11)
    assert 0 < slope[0] <= 1


def test_excess_is_continuous_where_the_tail_takes_over() -> None:
    below, above = (np.array(excess(np.array([8.0 + e]))) for e in (0.0, 1e-12))
    np.testing.assert_allclose(below, above, rtol=1e-11)


@settings(deadline=None, derandomize=True)
@given(st.floats(-50, 600))
def test_inverse_digamma(y: float) -> None:
    x = inverse_digamma(np.array([y]))
    np.testing.assert_allclose(special.digamma(x), [y], rtol=1e-11, atol=1e-11)


def test_delta_interval_of_sigma() -> None:
    family = f.NormalBoth()
    mean, covariance = family.mean(mu=3.0, sigma=2.0), family.covariance(mu=3.0, sigma=2.0) / 1e6
    sigma = family.interval(mean, covariance)["sigma"]
    assert (sigma.high - sigma.low) / 2 == pytest.approx(1.959964 * 2 / math.sqrt(2e6), rel=1e-3)
    flat = family.interval([1.0, 0.5], np.eye(2))["sigma"]
    assert flat.value == flat.low == 0
    assert flat.high > 0


def test_custom_vector_family_by_the_delta_method_agrees_with_the_closed_form() -> None:
    known = f.NormalBoth(bounds=(-30.0, 50.0))
    custom = f.Custom(
        lambda s: np.stack([s - 10, (s - 10) ** 2 / 80], axis=-1),
        known.support,
        lambda r: known.moves(r).l1,
        dimension=2,
        parameters=("mu", "sigma"),
        parameter=known.parameter,
    )
    mean, covariance = known.mean(mu=3.0, sigma=2.0), known.covariance(mu=3.0, sigma=2.0) / 1e6
    for key, theirs in known.interval(mean, covariance).items():
        ours = custom.interval(mean, covariance)[key]
        np.testing.assert_allclose([ours.low, ours.high], [theirs.low, theirs.high], rtol=1e-6)


def test_custom_says_what_it_lacks() -> None:
    family = f.Custom(np.sin, f.Support(), 1.0, name="sine", bounds=(0, 1))
    moved = family.moves(0.5)
    assert (moved.l1, moved.reason) == (0.5, "stated by the author of sine, and not checked")
    assert family.parameter([0.3])["mean"] == family.mean(mean=0.3)[0] == 0.3
    assert repr(family) == "Custom(name='sine', support='0 <= s <= 1')"
    with pytest.raises(FamilyError, match="sine has no sampler: pass Custom"):
        family.sample(np.random.default_rng(0), 3, mean=0.1)
    with pytest.raises(FamilyError, match="need parameter="):
        f.Custom(np.sin, f.Support(), 1.0, parameters=("b",))
    with pytest.raises(FamilyError, match="must map shape"):
        f.Custom(np.sum, f.Support(), 1.0).statistic([1.0, 2.0])


def test_registry() -> None:
    assert f.get("log-normal", sigma=2.0, bounds=(0.1, None)) == f.LogNormal(
        2.0, bounds=(0.1, None)
    )
    assert f.get("LogNormal1p", sigma=1.0) == f.get("log_normal_1p", sigma=1.0)
    with pytest.raises(
        FamilyError, match=r"no family is called 'lognormall'; did you mean log-normal\?"
    ):
        f.get("lognormall")
    with pytest.raises(FamilyError, match="no family is called 'zzz'; known: bernoulli, "):
        f.get("zzz")
    with pytest.raises(FamilyError, match="takes the options sigma, bounds; it needs sigma"):
        f.get("log-normal-1p")
    with pytest.raises(FamilyError, match="it has no mu"):
        f.get("poisson", mu=1)


def test_describe_has_a_row_for_every_name() -> None:
    rows = f.describe()
    assert [row.name for row in rows] == list(f.names())
    assert all(row.statistic and row.parameters and row.support and row.sensitivity for row in rows)


@pytest.mark.thorough
def test_public_names_resolve_lazily() -> None:
    assert all(getattr(f, name) is not None for name in f.__all__)
    assert set(dir(f)) == set(f.__all__) > {cls.__name__ for cls in f.FAMILIES.values()}
    with pytest.raises(AttributeError):
        f.Nonsense  # noqa: B018
    code = "import sys, veilsum.families as f; f.Normal(1.0); print('scipy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_capabilities_are_attributes_and_agree_with_the_formulas() -> None:
    for cls in f.FAMILIES.values():
        family = cls.examples()[0].family
        assert family.statistic_is_exact == (family.formula in ("s", "s, a vector", "one-hot(s)"))
        assert family.statistic_is_log == (family.formula in ("log s", "log(s/minimum)"))
        assert family.moves(math.inf).status is Status.PROVED


def test_a_subclass_of_a_proved_family_is_not_proved_and_has_no_known_distribution() -> None:
    class Doubled(f.Normal):
        def _xi(self, s: Any) -> Any:
            return 2 * s

    family = Doubled(sigma=1.0, bounds=(0.0, 1.0))
    assert f.Normal(sigma=1.0).marginals(mu=0.0) is not None
    assert family.moves(math.inf).status is not Status.PROVED
    assert family.marginals(mu=0.0) is None


def test_looking_up_one_family_builds_no_other(monkeypatch: Any) -> None:
    built: list[str] = []
    check = f.ExponentialFamily.__post_init__

    def counted(self: Any) -> None:
        built.append(type(self).__name__)
        check(self)

    monkeypatch.setattr(f.ExponentialFamily, "__post_init__", counted)
    assert f.options("weibull") == {"shape": True, "bounds": False}
    f.get("weibull", shape=2.0)
    assert built == ["Weibull"]
