"""A budget that rounds share must last for all rounds that are run."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.attacks.attack_count import TRIED
from tests.attacks.real_scales import REPLICAS, Fixed, inside, real_scales
from veilsum import networks
from veilsum.algorithms import Coefficients, FirstOrder
from veilsum.errors import VeilsumError
from veilsum.families import LogNormal1p
from veilsum.privacy import SignalDP, guarantee_of
from veilsum.simulation import Problem

FAMILY, NET = LogNormal1p(1.0), networks.lazy_metropolis(networks.load("ring:5"))


@dataclass(frozen=True)
class Covered(FirstOrder):
    """The first-order method with noise at the start as well: its guarantee is proved."""

    name: ClassVar[str] = "covered"
    start: ClassVar[Coefficients] = Coefficients(innovation=1.0, noise=1.0)


def loss(rounds: Any, horizon: Any) -> Any:
    algorithm, source = Covered(eta=0.3), Fixed(inside(FAMILY, NET.size))
    todo = Problem(
        NET, algorithm, FAMILY, source, SignalDP(1.0), rounds, (), REPLICAS, horizon=horizon
    )
    learn = np.array([abs(algorithm.at(t).innovation) for t in range(rounds + 1)])[None, :, None]
    return float((learn * np.log(2) / real_scales(todo).min(axis=-1)).sum(axis=1).max())


@pytest.mark.parametrize("rounds", [1, 4, 12])
def test_a_shared_budget_lasts(rounds: Any) -> None:
    assert (
        guarantee_of(SignalDP(1.0, radius=1.0), Covered(eta=0.3), rounds, FAMILY).status == "proved"
    )
    assert loss(rounds, None) == pytest.approx(1.0)
    assert loss(rounds, 20) < 1.0
    TRIED["shared budgets"] += 2


def test_a_horizon_shorter_than_the_run_is_refused() -> None:
    """12 rounds on a budget divided by 3 spent 4.3 epsilons, while the guarantee said 1."""
    TRIED["shared budgets"] += 1
    with pytest.raises(VeilsumError, match="horizon must be at least rounds"):
        loss(12, 2)
