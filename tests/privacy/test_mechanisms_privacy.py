"""The guarantee of every mechanism, checked on its densities: kept, tight, broken by a weakened twin.

The mechanisms are those of the registry: one that is added as a file of its own is found here unasked.
"""

import itertools
import math
from dataclasses import replace
from typing import Any

import dp_accounting
import numpy as np
import opendp.prelude as dp
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import stats

from veilsum.privacy import MECHANISMS
from veilsum.privacy import mechanisms as mech
from veilsum.privacy.mechanisms.additive import AdditiveMechanism
from veilsum.privacy.mechanisms.local import LocalMechanism

EPSILONS = [0.2, 1.0, 4.0]
EXAMPLES: Any = [made for kind in MECHANISMS.values() for made in kind.examples()]
ADDITIVE: Any = [kind for kind in MECHANISMS.values() if issubclass(kind, AdditiveMechanism)]
PURE = [kind for kind in ADDITIVE if not kind.takes_delta]
WITH_DELTA = [kind for kind in ADDITIVE if kind.takes_delta]
LOCAL: Any = [  # whose densities are worked out anew below
    mech.DuchiMechanism, mech.PiecewiseMechanism, mech.HybridMechanism
]  # fmt: skip


def by_name(mechanism: Any) -> str:
    return str(mechanism.name)


def test_all_kinds_are_here() -> None:
    assert {mech.LaplaceMechanism, mech.StaircaseMechanism, mech.DiscreteLaplaceMechanism} <= {
        *PURE
    }
    assert {kind for kind in MECHANISMS.values() if issubclass(kind, LocalMechanism)} >= {*LOCAL}
    assert {made.name for made in EXAMPLES} >= {kind.name for kind in (*ADDITIVE, *LOCAL)}


@pytest.mark.parametrize("made", EXAMPLES, ids=by_name)
def test_adjacent_inputs_cost_no_more_than_is_claimed_and_nearly_that(made: Any) -> None:
    """Of all pairs that an audit attacks; equal inputs cost nothing, and order does not matter."""
    assert made.pairs
    losses = [made.privacy_loss(x, other) for x, other in made.pairs]
    assert losses == pytest.approx([made.privacy_loss(other, x) for x, other in made.pairs])
    for x, _ in made.pairs:
        assert made.privacy_loss(x, x) == made.spent_delta(x, x) == 0
    spent = [made.spent_delta(x, other) for x, other in made.pairs]
    assert max(spent) <= made.delta * (1 + 1e-9)
    if made.delta:
        assert max(losses) == math.inf
        assert max(spent) > 0
        return
    assert 0.9 * made.epsilon <= max(losses) <= made.epsilon * (1 + 1e-9)
    weak = made.weakened(0.2)
    assert max(weak.privacy_loss(x, other) for x, other in made.pairs) > 1.1 * made.epsilon


def largest_loss(log_density: Any, moves: Any, outputs: Any) -> Any:
    """max |log p(z) - log p(z - move)| over a lattice of outputs."""
    centre = log_density(outputs)
    return max(float(np.abs(centre - log_density(outputs - move)).max()) for move in moves)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", PURE, ids=by_name)
def test_additive_noise_keeps_its_guarantee_tightly(kind: Any, epsilon: Any) -> None:
    sensitivity = 3
    made = kind(epsilon, sensitivity)
    outputs: Any = np.linspace(-20, 20, 40_001) + 1e-7
    moves: Any = np.linspace(-sensitivity, sensitivity, 61)
    if made.lattice:
        outputs, moves = np.arange(-60, 61), np.arange(-3, 4)
    found = largest_loss(made.log_density, moves, outputs)
    assert 0.99 * epsilon <= found <= epsilon + 1e-9
    assert made.privacy_loss(1.0, 1.0 - sensitivity) == pytest.approx(epsilon)
    weak = replace(made, epsilon=epsilon / 0.9)
    assert largest_loss(weak.log_density, moves, outputs) > 1.05 * epsilon


def hockey_stick(made: Any, move: float) -> float:
    """The integral of (p - e^eps p')_+ for noise that is moved, by a fine sum."""
    reach = 60 * math.sqrt(made.worst_variance)
    z: Any = np.linspace(-reach, reach, 2_000_001)
    p, q = np.exp(made.log_density(z)), np.exp(made.log_density(z - move))
    return float(np.maximum(p - math.exp(made.epsilon) * q, 0).sum() * (z[1] - z[0]))


@pytest.mark.parametrize("delta", [1e-2, 1e-4])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", WITH_DELTA, ids=by_name)
def test_additive_noise_with_a_delta_spends_no_more_of_it(
    kind: Any, epsilon: float, delta: float
) -> None:
    """Either way round, at the whole move and at parts of it; and not much less than is claimed."""
    made = kind(epsilon, 3.0, delta=delta)
    for move in (3.0, -3.0, 1.0):
        found = hockey_stick(made, move)
        assert found <= delta
        assert found == pytest.approx(made.spent_delta(0.0, move), rel=1e-3, abs=1e-12)
    weak = made.weakened(0.3)
    assert hockey_stick(weak, 3.0) > delta
    assert weak.spent_delta(0.0, 3.0) > delta


@pytest.mark.parametrize("kind", [kind for kind in PURE if not kind(1.0, 1.0).lattice], ids=by_name)
def test_noise_shrunk_by_a_tenth_breaks_the_guarantee(kind: Any) -> None:
    made = kind(1.0, 1.0)
    outputs, moves = np.linspace(-9, 9, 20_001) + 1e-7, np.linspace(-1, 1, 41)
    shrunk = largest_loss(lambda z: made.log_density(z / 0.9) - math.log(0.9), moves, outputs)
    assert shrunk > 1.05


def test_losses_of_longer_and_shorter_moves() -> None:
    """Against the lattice, for moves of a third, one and a half, and two sensitivities."""
    outputs = np.linspace(-15, 15, 60_001) + 1e-7
    for move in (0.4, 1.2, 1.8, 2.4):
        for made in (mech.LaplaceMechanism(0.7, 1.2), mech.StaircaseMechanism(0.7, 1.2)):
            found = largest_loss(made.log_density, [move], outputs)
            assert found == pytest.approx(made.privacy_loss(0.0, move), rel=1e-6)


def local_densities(mechanism: Any, t: Any) -> Any:
    """Log densities of the release of t in [-1, 1]: two atoms, then a lattice of outputs."""
    e, fraction = math.exp(mechanism.epsilon / 2), {"duchi": 0, "piecewise": 1}.get(mechanism.name)
    fraction = mechanism.piecewise_probability if fraction is None else fraction
    ends, reach = (e**2 + 1) / (e**2 - 1), (e + 1) / (e - 1)
    atoms = (1 - fraction) * np.array([1 + t / ends, 1 - t / ends]) / 2
    z = np.linspace(-reach, reach, 4001)
    left = (reach + 1) * t / 2 - (reach - 1) / 2
    near = (z >= left) & (z <= left + reach - 1)
    density = fraction * np.where(near, e / (reach - 1), 1 / (reach + 1)) / (e + 1)
    both = np.concatenate([atoms, density])
    return np.log(both[both > 0])


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", LOCAL, ids=by_name)
def test_local_mechanisms_keep_their_guarantee_tightly(kind: Any, epsilon: Any) -> None:
    made, values = kind(epsilon), np.linspace(-1, 1, 41)

    def worst(mechanism: Any) -> Any:
        distributions = [local_densities(mechanism, t) for t in values]
        return max(float(np.abs(p - q).max()) for p, q in itertools.combinations(distributions, 2))

    assert 0.99 * epsilon <= worst(made) <= epsilon + 1e-9
    assert worst(replace(made, epsilon=epsilon / 0.9)) > 1.05 * epsilon
    wide = kind(epsilon, 10.0, 30.0)
    losses = [wide.privacy_loss(a, b) for a in (10.0, 17.0, 30.0) for b in (10.0, 21.0, 30.0)]
    assert max(losses) == pytest.approx(epsilon)
    assert wide.privacy_loss(12.0, 12.0) == 0
    a, b = values[[3, 30]]
    found = np.abs(local_densities(made, a) - local_densities(made, b)).max()
    assert made.privacy_loss(a, b) == pytest.approx(float(found))


def test_large_epsilons_do_not_overflow() -> None:
    assert 0 < mech.StaircaseMechanism(700.0, 1.0).worst_variance < 1e-190


def test_two_points_keep_their_guarantee_at_large_epsilon() -> None:
    assert mech.DuchiMechanism(60.0).privacy_loss(-1.0, 1.0) == pytest.approx(60.0)


@pytest.mark.thorough
def test_discrete_laplace_is_that_of_opendp_and_of_dp_accounting() -> None:
    """OpenDP's privacy map and 20,000 of its draws (false alarm 1e-8); dp_accounting's epsilon."""
    made = mech.DiscreteLaplaceMechanism(0.8, 2)
    dp.enable_features("contrib")
    space = dp.atom_domain(T=dp.i64), dp.absolute_distance(T=dp.i64)
    oracle: Any = dp.m.make_laplace(*space, scale=made.sensitivity / made.epsilon)
    assert oracle.map(2) == pytest.approx(0.8)
    z = np.array([oracle(0) for _ in range(20_000)])
    k = np.arange(-8, 9)
    counts = np.array([(z == j).sum() for j in k])
    p = np.exp(made.log_density(k))
    counts, p = np.append(counts, z.size - counts.sum()), np.append(p, 1 - p.sum())
    assert stats.chisquare(counts, p * z.size).pvalue > 1e-8
    wrong = np.exp(mech.DiscreteLaplaceMechanism(0.8 / 0.9, 2).log_density(k))
    wrong = np.append(wrong, 1 - wrong.sum())
    assert stats.chisquare(counts, wrong * z.size).pvalue < 1e-8
    account = pld.from_discrete_laplace_mechanism(0.4, sensitivity=2)
    assert account.get_epsilon_for_delta(0) == pytest.approx(0.8, abs=1e-3)
    assert dp_accounting.LaplaceDpEvent(1.0).noise_multiplier == 1.0
