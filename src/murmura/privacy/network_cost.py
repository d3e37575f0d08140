"""What a neighbour's estimate that moves costs in the messages that follow (Network DP).

Let neighbour j's estimate of round s move by at most 1 in l1 norm, and let somebody see the
messages of agent i, the estimates nu_i,u. Fix the noise of all others and one transcript of i. In
both worlds i then sends the same numbers, so only the others' estimates differ, by D_u, with
D_s = 1 at j. The difference follows the algorithm with i held fixed, and a doubly stochastic A
does not increase an l1 norm:

    n_s = 1,    n_u = (|keep_u| + |mix_u|) n_{u-1} + |recall_u| n_{u-2}    >=  ||D_u||_1

Message u of agent i moves by |mix_u| |sum_{k != i} a_ik D_k,u-1| <= |mix_u| max_k a_ik n_{u-1}, and
hides it in |noise_u| Lap(b) with b >= |mix_u/noise_u| max_k a_ik / eps: the message costs at most
eps n_{u-1}. All messages of rounds s+1 .. t together cost at most

    eps sum_{u=s+1}^{t} n_{u-1},

and so does any function of them, the single message of round t among others. For learn-network and
learn n_{u-1} = s/(u-1), for naive-network it is 1. Messages of k agents together: hold all k fixed;
each costs at most that, so k times as much. (For one agent there is another bound, for ever: what
reaches i leaves the rest, so learn-network costs at most eps s/max(max_k a_ik, Delta) in all.)

If j is off by up to 1 in every round, the same argument in the sup norm (for keep, mix >= 0 with
keep + mix <= 1) bounds each further message by eps (1 - a_ii)/max_k a_ik: up to eps times the
number of i's neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.laws.base import Law
from murmura.laws.table import Table, table

Floats = NDArray[np.float64]


class Worst(NamedTuple):
    """The dearest round for an estimate to move in, and what its later messages cost."""

    moved: int
    cost: float  # in multiples of the cost of the next message


def network_cost(law: Law, moved: int, last: int, agents: int = 1) -> float:
    """Cost of all messages of rounds moved+1 .. last of `agents` agents, per cost of the next one.

    The cost of the next message is what `promise` states: epsilon, or the part of it that a round
    has where rounds share the budget. Any subset of the messages costs at most as much, a single
    later message included.

    Parameters
    ----------
    law
        The algorithm. Its noise must cover its neighbours' weight in every round, which `promise`
        checks.
    moved
        The round s whose estimate moves.
    last
        The last round t of which a message is seen.
    agents
        How many agents' messages are seen together; the one whose estimate moves is not among them.

    Examples
    --------
    >>> from murmura.laws import LearnNetwork
    >>> network_cost(LearnNetwork(), 20, 21)
    1.0
    >>> round(network_cost(LearnNetwork(), 20, 50), 2)
    18.63
    """
    _validate.at_least(PrivacyError, 0, moved=moved)
    _validate.at_least(PrivacyError, moved + 1, last=last)
    _validate.at_least(PrivacyError, 1, agents=agents)
    steps = table(law, last)
    before, now, total = 0.0, 1.0, 0.0
    for u in range(moved + 1, last + 1):
        total += now
        kept = abs(steps.keep[u]) + abs(steps.mix[u])
        before, now = now, kept * now + abs(steps.recall[u]) * before
    return agents * float(total)


def worst_cost(law: Law, rounds: int) -> Worst:
    """max over s of the cost of all messages that one agent sends after round s, up to `rounds`.

    Backwards, cost(s) = 1 + f_{s+1} cost(s+1) with f = |keep| + |mix|. With a recall f is the
    larger of 1 and the sum of all three: then max(n_u, n_{u-1}) <= f_u max(n_{u-1}, n_{u-2}).
    """
    factors, first = _factors(table(law, rounds)).tolist(), _first(law)
    cost, found = 0.0, Worst(first, 0.0)
    for s in range(rounds - 1, first - 1, -1):
        cost = 1.0 + factors[s + 1] * cost
        found = max(found, Worst(s, cost), key=lambda one: one.cost)
    return found


def growth(steps: Table) -> float:
    """The most that the norm of a moved estimate grows by in one round."""
    return float(max(1.0, np.max(_factors(steps)[_first(steps.law) + 1 :], initial=1.0)))


def _factors(steps: Table) -> Floats:
    """f by round."""
    factors = np.abs(steps.keep) + np.abs(steps.mix)
    if steps.recall.any():
        factors = np.maximum(1.0, factors + np.abs(steps.recall))
    return np.asarray(factors)


def _first(law: Law) -> int:
    """The first round whose estimate can move: 0, or 1 where all agents start from the number 0."""
    return 0 if law.start.learn or law.start.noise else 1
