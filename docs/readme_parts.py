"""A generated part of README.md: the error of a mean in four ways.

Errors are those of noise, in units of what a trusted server with the same epsilon adds. Rounds and bytes
are of the network in `STUDY`; the two servers are not ours, and their row follows from their code.
"""

from __future__ import annotations

from functools import cache
from math import sqrt
from typing import Any

TWO_DRAWS = "https://github.com/divviup/janus/pull/3302"  # each server adds all of the noise
STUDY = """
name = "four-ways"
seed = 1
network = { graph = "random-geometric", options = { size = 969, radius = 0.1, seed = 0 } }
family = { name = "normal", sigma = 0.1, bounds = [0.0, 1.0] }
signals = { draw = { mu = 0.5 } }
privacy = { protect = "signal", epsilon = 1.0 }
[algorithm]
name = "jacobi"
rounds = 100
[[variant]]
name = "local"
[[variant]]
name = "masked"
privacy.mode = "masked"
privacy.colluders = 190
privacy.absent = 96
algorithm.name = "masked-sum"
"""


@cache
def problems() -> dict[str, Any]:
    """Local noise and a masked sum on the same network."""
    from veilsum.scenario import Scenario

    return {job.name: job.problem for job in Scenario.parse(STUDY).jobs()}


def over_central(problem: Any) -> float:
    """The noise in one agent's estimate over that of a server: root mean squares.

    A server adds one Laplace draw of scale Delta/eps to the sum, which is sqrt(2) Delta/(n eps) in the
    mean; Delta is the width of the bounds, 1.
    """
    from veilsum import theory

    n, privacy = problem.network.size, problem.privacy
    agent = float(theory.expected(problem).privacy[-1, 0]) / sqrt(n)
    return float(agent / (sqrt(2) / (n * privacy.epsilon)))


def cost(problem: Any) -> str:
    """What an agent sends, in how many rounds."""
    from veilsum.theory.planning import sent_bytes

    session = problem.algorithm.session
    rounds = problem.rounds if session is None else session.session_rounds
    return f"{sent_bytes(problem, problem.rounds) / 1e6:.2g} MB, {rounds} rounds"


def four_ways() -> str:
    """Four rows: error, what it rests on, what it costs."""
    from docs.generate import table

    local, masked = problems()["local"], problems()["masked"]
    n, asked = masked.network.size, masked.privacy
    rows = [
        ["a trusted server", "1", "the server, which sees everything", "one value"],
        ["**masked sum**, here", f"{over_central(masked):.3g}",
         f"that at most {asked.colluders} members collude and {asked.absent} are absent; "
         "cryptography", cost(masked)],
        [f"two servers ([Prio3 in Janus]({TWO_DRAWS}))", f"{sqrt(2):.3g}",
         "that one of the two is honest; cryptography", "one upload, not measured"],
        ["noise of each agent's own, here", f"{over_central(local):.2g}", "nobody", cost(local)],
    ]  # fmt: skip
    return table([f"mean of {n:,} values, epsilon 1", "error", "trusts", "an agent sends"], rows)


PARTS = (four_ways,)
