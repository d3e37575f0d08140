"""Unary encoding and subset selection: guarantee and mean by enumeration, variances by formula, draws.

Every set's probability is a fraction, so that the guarantee is checked without tolerance. Statistical
tests have fixed seeds; on fresh ones each would raise a false alarm with probability below 1e-7.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import veilsum as vs
from veilsum import algorithms, families
from veilsum.errors import PrivacyError, SignalError
from veilsum.privacy import MECHANISMS, Batches, SignalDP, Statistic, guarantee_of, plan
from veilsum.privacy.mechanisms import SubsetMechanism, UnaryMechanism, best
from veilsum.privacy.mechanisms.category import CategoryMechanism
from veilsum.testing import PredictableEntropy

FALSE_ALARM, SURE = 1e-7, 1e-12
KINDS: Any = [kind for kind in MECHANISMS.values() if issubclass(kind, CategoryMechanism)]
EPSILONS = [1e-9, 0.3, 1.0, 2.5, 6.0, 60.0]
CATEGORIES = [2, 3, 5, 8]
AGENTS = 969


def test_both_are_here() -> None:
    assert {UnaryMechanism, SubsetMechanism} <= set(KINDS)


def below_exp(ratio: Fraction, epsilon: float) -> bool:
    with localcontext(prec=120):
        return Decimal(ratio.numerator) <= Decimal(ratio.denominator) * Decimal(epsilon).exp()


def largest_ratio(made: Any) -> Fraction:
    """Of any set's probabilities between any two categories."""
    tables = [made.pmf(c) for c in range(made.categories)]
    assert all(sum(table.values()) == 1 for table in tables)
    assert all(table.keys() == tables[0].keys() for table in tables)
    sets = zip(*(table.values() for table in tables), strict=True)
    return Fraction(max(max(each) / min(each) for each in sets))


@pytest.mark.parametrize("k", CATEGORIES)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_set_keeps_epsilon_exactly_and_the_mean_is_the_category(
    kind: Any, epsilon: float, k: int
) -> None:
    made = kind(epsilon, k)
    ratio = largest_ratio(made)
    assert below_exp(ratio, epsilon)
    assert not below_exp(ratio, epsilon * (1 - 1e-9))  # all of it is used
    assert not below_exp(largest_ratio(kind(1.01 * epsilon, k)), epsilon)  # the weakened twin
    (p, q), (low, high), step = made.exact_chances, made.values, Fraction(2) ** made.exponent
    table = made.pmf(1)
    for j in range(k):
        inside = sum(chance for S, chance in table.items() if j in S)
        assert inside == (p if j == 1 else q)
        assert abs(inside * high + (1 - inside) * low - (j == 1)) <= step / 2
        square = (inside * (high - int(j == 1)) ** 2) + (1 - inside) * (low - int(j == 1)) ** 2
        stated = float(made.variance(float(j == 1)))
        assert float(square) == pytest.approx(stated, rel=1e-6, abs=1e-22)
    assert (low / step).denominator == (high / step).denominator == 1


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("exact", [True, False], ids=["released", "sampled"])
def test_sets_have_the_enumerated_distribution_and_no_other(kind: Any, exact: bool) -> None:
    made, k, runs = kind(1.0, 5), 5, 25_000
    if kind is SubsetMechanism:  # of two and more categories
        made, k = kind(0.4, 6), 6
        assert made.size == 2
    x = np.broadcast_to(np.eye(k)[2], (runs, k))
    entropy = PredictableEntropy(8, simulation_only=True)
    z = made.release(x, entropy=entropy) if exact else made.sample(x, np.random.default_rng(5))
    seen = Counter(tuple(np.flatnonzero(row).tolist()) for row in z > z.mean(axis=None))

    def p_value(of: Any) -> float:
        table = of.pmf(2)
        assert set(seen) <= set(table)
        counts = np.array([seen[S] for S in table], dtype=float)
        wanted = runs * np.array([float(chance) for chance in table.values()])
        return float(stats.chisquare(counts, wanted).pvalue)

    assert p_value(made) > FALSE_ALARM
    assert p_value(replace(made, epsilon=1.4 * made.epsilon)) < SURE


def deviation(variance: float) -> float:
    """Of a share of 969 people, of which nobody is in the bin."""
    return math.sqrt(variance / AGENTS)


@pytest.mark.parametrize(("k", "wanted"), [(5, 0.0447), (10, 0.0540), (20, 0.0577), (100, 0.0609)])
def test_a_bin_of_969_people_at_epsilon_1(k: int, wanted: float) -> None:
    """What the best mechanism says, what the formula says, and what is drawn: 300 replicas of 969.

    Of people spread evenly over k bins, 1/k have the variance of their own category.
    """
    family = families.Categorical(k)
    made = best(family.moves(math.inf), 1.0).mechanism
    assert made.name == "subset"
    assert plan(SignalDP(1.0, mechanism="best"), family).name == "subset"
    empty, own = (float(v) for v in made.variance([0.0, 1.0]))
    assert deviation(empty) == pytest.approx(wanted, rel=0.03)
    replicas = 300
    x = np.eye(k)[np.arange(AGENTS) % (k - 1)]  # nobody in the last
    rng = np.random.default_rng(k)
    drawn = np.array([made.sample(x, rng).mean(axis=0) for _ in range(replicas)])
    off = (drawn - x.mean(axis=0)) ** 2
    stated = (empty + x.mean(axis=0) * (own - empty)) / AGENTS
    assert (np.abs(off.mean(axis=0) - stated) <= 7 * stated * math.sqrt(2 / replicas)).all()
    laplace = MECHANISMS["laplace"].fit(family.moves(math.inf), 1.0)
    assert deviation(laplace.worst_variance) == pytest.approx(0.0909, rel=1e-3)
    assert made.worst_variance < 0.6 * laplace.worst_variance


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0])
def test_no_other_of_the_published_ones_has_less_variance(epsilon: float) -> None:
    """k-ary randomised response, which wins over unary encoding for k <= 3 e^eps + 2, is of size 1."""
    e = math.exp(epsilon)
    unary = 4 * e / (e - 1) ** 2
    for k in (*range(2, 40), 100, 1000):
        subset, made = SubsetMechanism(epsilon, k), UnaryMechanism(epsilon, k)
        response = (k - 2 + e) / (e - 1) ** 2
        assert (response <= unary) == (k <= 3 * e + 2)
        least = float(subset.variance(0.0))
        total = least * (k - 1) + float(subset.variance(1.0))
        assert total <= (unary * k + 1) * (1 + 1e-9)
        assert total <= response * k + 1e-9 + (k - 2) / (e - 1)
        assert made.variance([0.0, 1.0]) == pytest.approx([unary, unary + 1])
        if subset.size == 1:
            assert least == pytest.approx(response)
        sizes = [subset._total_variance(w) for w in range(1, k)]
        assert subset._total_variance(subset.size) == pytest.approx(min(sizes))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_is_not_one_of_k_is_refused(kind: Any) -> None:
    one = families.Categorical(4).moves(math.inf)
    assert one.one_of_k
    assert not kind.misfit(one, 1.0)
    others = [
        replace(one, mass=None), replace(one, mass=2.0), replace(one, step=None), one.total(9),
        one.at_least(0.5), replace(one, high=2.0), Statistic(1.0, low=0.0, high=1.0, step=1.0),
        Statistic(1.0, low=0.0, high=1.0, step=1.0, mass=1.0),
        families.Normal(1.0, bounds=(0.0, 1.0)).moves(math.inf),
    ]  # fmt: skip
    for statistic in others:
        assert "one of k categories" in kind.misfit(statistic, 1.0)
    assert "delta" in kind.misfit(one, 1.0, 1e-6)
    assert "epsilon" in kind.misfit(one, 900.0)
    made, good = kind(1.0, 3), [1.0, 0.0, 0.0]
    for wrong in ([1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.5, 0.5, 0.0], [2.0, -1.0, 0.0]):
        for draw in (made.release, lambda x: made.sample(x, np.random.default_rng(1))):
            with pytest.raises(SignalError, match=r"1 of 2 vectors .* at index \(1,\)"):
                draw(np.array([good, wrong]))
    with pytest.raises(SignalError, match="3 components"):
        made.release([1.0, 0.0])
    with pytest.raises(PrivacyError, match="at least 2"):
        kind(1.0, 1)


class Doubled(families.Categorical):
    """A user's subclass that counts everyone twice."""

    def _xi(self, s: Any) -> Any:
        return 2 * super()._xi(s)


def test_a_subclass_does_not_inherit_that_its_statistic_is_one_of_k() -> None:
    assert not Doubled(3).moves(math.inf).one_of_k
    with pytest.raises(PrivacyError, match="one of k categories"):
        plan(SignalDP(1.0, mechanism="subset"), Doubled(3))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_sums_of_a_batch_are_refused(kind: Any) -> None:
    with pytest.raises(PrivacyError, match="batch"):
        SignalDP(1.0, mechanism=kind.name, batches=Batches(2.0))


@pytest.mark.parametrize("algorithm", ["average", "learn"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_simulation_draws_vectors_and_its_replicas_are_independent(
    kind: Any, algorithm: str
) -> None:
    """41 agents, 300 replicas of 4 categories, two epsilons: the covariance of the mean's components.

    Of one draw it is that of the enumerated sets; a simulator that mixed up replicas and components,
    or drew these one by one, would have another. 7 standard errors: false alarm below 1e-11 each.
    """
    n, k, runs = 41, 4, 300
    family, ring = families.Categorical(k), vs.networks.metropolis(f"ring:{n}")
    signals = vs.signals.as_signals(np.full((n, 1), 2.0), labels=ring.labels)
    source = vs.simulation.RecordedSignals(signals)
    problem = vs.simulation.Problem(
        ring, algorithms.get(algorithm, ring), family, source, SignalDP(0.5, mechanism=kind.name),
        rounds=1, epsilons=(0.5, 2.0), replicas=runs, seed=4,
    )  # fmt: skip
    means = vs.simulation.simulate(problem).mean
    for row, epsilon in zip(means, (0.5, 2.0), strict=True):
        made = kind(epsilon, k)
        low, high = (float(value) for value in made.values)
        stated = np.zeros((k, k))
        for S, chance in made.pmf(2).items():
            z = np.where(np.isin(np.arange(k), S), high, low) - np.eye(k)[2]
            stated += float(chance) * np.outer(z, z) / n
        off = row - np.eye(k)[2]
        size = np.sqrt(np.outer(np.diag(stated), np.diag(stated)))
        assert (np.abs(off.mean(axis=0)) <= 7 * np.sqrt(np.diag(stated) / runs)).all()
        assert (np.abs(off.T @ off / runs - stated) <= 7 * size * math.sqrt(2 / runs)).all()
    assert guarantee_of(problem.privacy, problem.algorithm, family=family).status == "proved"
    assert len({tuple(each) for each in means[0].round(12).tolist()}) > runs / 4


def test_a_pair_of_categories_costs_epsilon_and_no_more() -> None:
    for made, (a, b) in itertools.product(
        (UnaryMechanism(0.7, 5), SubsetMechanism(0.7, 5)), itertools.permutations(np.eye(5), 2)
    ):
        assert made.loss_between(a, b) == made.privacy_loss(a, b) == 0.7
        assert made.loss_between(a, a) == 0.0
