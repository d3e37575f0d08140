"""What every family guarantees, through one suite.

Statistical assertions use |z| < 6 on fixed seeds: P(|N(0, 1)| > 6) = 2e-9 for each comparison,
below 1e-6 for a whole run even with Bonferroni over all of them.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.families.family_cases import CASES, EXAMPLES, Case, bounded
from veilsum import families as f
from veilsum.errors import FamilyError, SignalError

each = pytest.mark.parametrize("case", CASES, ids=str)
DRAWS = 200_000


def test_every_registered_family_is_in_the_suite() -> None:
    assert {case.family.name for case in CASES} == {*f.names(), "square"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.family.name)
def test_examples_are_without_bounds_and_with_every_parameter(example: f.Example) -> None:
    family, parameters = example
    assert family.bounds is None
    assert set(parameters) == set(family.parameters)
    assert type(family) is f.FAMILIES[family.name]
    assert bounded(example).moves().finite


@each
def test_samples_lie_in_the_support_and_have_the_shape(case: Case) -> None:
    family = case.family
    s = family.sample(np.random.default_rng(1), (7, 300), **case.parameters)
    assert s.dtype == np.float64
    assert s.shape == (7, 300, *family.signal_shape)
    assert not family.support.violations(s).any()
    assert family.sample(np.random.default_rng(1), 5, **case.parameters).shape[0] == 5


@each
def test_statistic_and_columns_have_the_stated_shapes(case: Case) -> None:
    family = case.family
    s = family.sample(np.random.default_rng(2), (4, 3), **case.parameters)
    xi, columns = family.statistic(s), family.columns(s)
    assert xi.dtype == columns.dtype == np.float64
    assert columns.shape == (4, 3, family.dimension)
    assert xi.shape == (s.shape if family.dimension == 1 else columns.shape)
    assert np.array_equal(xi.ravel(), columns.ravel())
    assert not np.shares_memory(xi, s)
    assert np.array_equal(family.columns(s[1, 2]), columns[1, 2])


@each
def test_sample_mean_and_covariance_converge(case: Case) -> None:
    """z = (average - E xi)/sd/sqrt(N); the covariance by its own empirical error."""
    family = case.family
    xi = family.columns(family.sample(np.random.default_rng(3), DRAWS, **case.parameters))
    mean, covariance = family.mean(**case.parameters), family.covariance(**case.parameters)
    assert mean.shape == (family.dimension,)
    assert covariance.shape == (family.dimension, family.dimension)
    z = (xi.mean(0) - mean) / np.sqrt(np.diag(covariance) / DRAWS)
    assert np.abs(z).max() < 6
    products = (xi - mean)[:, :, None] * (xi - mean)[:, None, :]
    error = products.std(0) / np.sqrt(DRAWS)
    assert (np.abs(products.mean(0) - covariance) < 6 * error + 1e-12).all()


@pytest.mark.thorough
@each
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_parameter_inverts_mean(case: Case, data: st.DataObject) -> None:
    theta = {k: data.draw(s, label=k) for k, s in case.strategies.items()}
    back = case.family.parameter(case.family.mean(**theta))
    assert set(back) == set(case.family.parameters)
    for key, value in theta.items():
        np.testing.assert_allclose(back[key], value, rtol=1e-8, atol=1e-12)


@each
def test_parameters_vectorise_over_agents(case: Case) -> None:
    family = case.family
    one = family.mean(**case.parameters)
    many = np.broadcast_to(one, (3, 2, family.dimension))
    for key, value in family.parameter(many).items():
        single = family.parameter(one)[key]
        assert value.shape == (3, 2, *single.shape)
        np.testing.assert_allclose(value, np.broadcast_to(single, value.shape))
    stacked = {k: np.stack([np.asarray(v, dtype=float)] * 3) for k, v in case.parameters.items()}
    np.testing.assert_allclose(family.mean(**stacked), np.stack([one] * 3))
    assert family.covariance(**stacked).shape == (3, family.dimension, family.dimension)


@each
def test_interval_holds_the_value_and_broadcasts(case: Case) -> None:
    family = case.family
    mean, covariance = family.mean(**case.parameters), family.covariance(**case.parameters) / 100
    wide = family.interval(mean, covariance, confidence=0.99)
    narrow = family.interval(np.stack([mean] * 4), covariance, confidence=0.5)
    for key in family.parameters:
        np.testing.assert_allclose(narrow[key].value, np.stack([wide[key].value] * 4))
        assert (wide[key].low <= narrow[key].low[0]).all()
        assert (narrow[key].low <= narrow[key].value).all()
        assert (narrow[key].value <= narrow[key].high).all()
        assert (narrow[key].high[0] <= wide[key].high).all()


@each
def test_interval_covers(case: Case) -> None:
    """95% intervals of 2,000 averages drawn as N(E xi, C/4000) cover: |z| < 6, binomial."""
    family, rng, runs = case.family, np.random.default_rng(4), 2000
    mean, covariance = family.mean(**case.parameters), family.covariance(**case.parameters) / 4000
    root = np.linalg.svd(covariance)
    half = root.U * np.sqrt(root.S)
    estimates = mean + rng.standard_normal((runs, family.dimension)) @ half.T
    for key, interval in family.interval(estimates, covariance).items():
        truth = np.asarray(case.parameters[key])
        covered = ((interval.low <= truth) & (truth <= interval.high)).mean(axis=0)
        assert (np.abs(covered - 0.95) < 6 * np.sqrt(0.95 * 0.05 / runs)).all()


@each
def test_estimates_outside_the_domain_go_to_its_edge(case: Case) -> None:
    family = case.family
    low, high = family.mean_domain
    for edge, beyond in ((low, low - 1), (high, high + 1)):
        if np.isfinite(edge) and family.dimension == 1:
            at = family.parameter([edge])[family.parameters[0]]
            out = family.parameter([beyond])[family.parameters[0]]
            assert np.array_equal(at, out)
            assert not np.isnan(out)


@each
def test_mean_and_covariance_take_back_what_parameter_gives(case: Case) -> None:
    """However far out the noise pushed the estimate."""
    family = case.family
    for push in (-100.0, 0.0, 100.0):
        m = family.mean(**case.parameters) + push
        theta = family.parameter(m)
        again = family.mean(**theta)
        covariance = family.covariance(**theta)
        assert np.isfinite(again).all()
        assert np.isfinite(covariance).all()
        assert (np.diagonal(covariance) >= -1e-9).all()


@each
def test_refusals_name_the_thing_and_never_a_signal(case: Case) -> None:
    family = case.family
    with pytest.raises(FamilyError, match="takes the parameters"):
        family.mean(nonsense=1.0)
    with pytest.raises(FamilyError, match="radius"):
        family.moves(0)
    with pytest.raises(FamilyError, match="shape"):
        family.parameter(np.zeros((3, family.dimension + 1)))
    with pytest.raises(FamilyError, match="confidence"):
        family.interval(family.mean(**case.parameters), family.covariance(**case.parameters), 1.0)
    bad = family.sample(np.random.default_rng(5), 9, **case.parameters)
    bad[4] = np.nan
    with pytest.raises(SignalError, match=r"1 of 9|3 of 27") as caught:
        family.statistic(bad)
    assert "(4" in str(caught.value)
    assert "nan" not in str(caught.value)


@pytest.mark.thorough
@each
def test_a_million_agents_at_once(case: Case) -> None:
    mean = case.family.mean(**case.parameters)
    million = np.broadcast_to(mean, (1_000_000, case.family.dimension))
    assert next(iter(case.family.parameter(million).values())).shape[0] == 1_000_000


@pytest.mark.parametrize("case", CASES[:-1], ids=str)
def test_families_are_values(case: Case) -> None:
    family = case.family
    assert hash(family) == hash(family)
    with pytest.raises(AttributeError):
        family.bounds = (0.0, 1.0)  # type: ignore[misc]
