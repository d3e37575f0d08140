"""A budget that rounds share must last for all rounds that are run."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from attack_count import TRIED
from real_scales import REPLICAS, Fixed, inside, real_scales

from murmura import network
from murmura.engine import Problem
from murmura.errors import MurmuraError
from murmura.families import LogNormal1p
from murmura.laws import Coefficients, FirstOrder
from murmura.privacy import SignalDP, promise

FAMILY, NET = LogNormal1p(1.0), network.lazy_metropolis(network.load("ring:5"))


@dataclass(frozen=True)
class Covered(FirstOrder):
    """The first-order method with noise at the start as well: its promise is proved."""

    name: ClassVar[str] = "covered"
    start: ClassVar[Coefficients] = Coefficients(learn=1.0, noise=1.0)


def loss(rounds, horizon):
    law, source = Covered(eta=0.3), Fixed(inside(FAMILY, NET.size))
    todo = Problem(NET, law, FAMILY, source, SignalDP(1.0), rounds, (), REPLICAS, horizon=horizon)
    learn = np.array([abs(law.at(t).learn) for t in range(rounds + 1)])[None, :, None]
    return float((learn * np.log(2) / real_scales(todo).min(axis=-1)).sum(axis=1).max())


@pytest.mark.parametrize("rounds", [1, 4, 12])
def test_a_shared_budget_lasts(rounds):
    assert promise(SignalDP(1.0), Covered(eta=0.3), rounds, FAMILY).status == "proved"
    assert loss(rounds, None) == pytest.approx(1.0)
    assert loss(rounds, 20) < 1.0
    TRIED["shared budgets"] += 2


def test_a_horizon_shorter_than_the_run_is_refused():
    """12 rounds on a budget divided by 3 spent 4.3 epsilons, while the promise said 1."""
    TRIED["shared budgets"] += 1
    with pytest.raises(MurmuraError, match="horizon must be at least rounds"):
        loss(12, 2)
