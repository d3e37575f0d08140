"""What Network DP claims of an estimate that moves, for as long as its consequences are seen.

The promise decides; an audit compares with it. This is the one place where audits ask.
"""

from __future__ import annotations

from murmura.laws.base import Law


def claimed_cost(law: Law, moved: int, last: int, agents: int = 1) -> float:
    """Epsilons that all messages of some agents up to round `last` cost at most, together.

    An estimate of round s that moves by 1 (l1) moves the others' estimates of round u by at most
    n_u, while what the observed agents send is held as it was seen: n_s = 1 and

        n_u = (|keep_u| + |mix_u|) n_{u-1} + |recall_u| n_{u-2},

    for A is doubly stochastic. Noise of scale b_i >= |mix_u/noise_u| max_j a_ij/eps makes message
    u of an agent cost at most eps n_{u-1} given those before it, hence all of them

        cost(s, t) = agents * sum_{u=s+1..t} n_{u-1}.
    """
    before, now, total = 0.0, 1.0, 0.0
    for u in range(moved + 1, last + 1):
        total += now
        step = law.at(u)
        before, now = now, (abs(step.keep) + abs(step.mix)) * now + abs(step.recall) * before
    return agents * total
