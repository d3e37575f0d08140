"""What the simulator says of the releases that agents wrote into their ledgers."""

from pathlib import Path

import numpy as np

from murmura.agent.ledger import look
from murmura.agent.manifest import Manifest
from murmura.engine import Observed, Problem, Record, simulate
from murmura.families import Normal
from murmura.privacy import NoPrivacy
from murmura.signals import as_signals


def releases(plan, problem):
    """(agents, readings) of what was released, from the ledgers."""
    unit = Manifest.from_json(plan.manifest).unit
    rows = []
    for i in range(problem.network.size):
        entries = look(Path(plan.folder) / "ledgers" / f"{i}.ledger").entries
        rows.append([entry.sums[0] / 2**unit for entry in entries])
    return np.array(rows)


def simulated(problem, released):
    """(agents, rounds + 1): the law on the releases as they are, without any further noise."""
    source = Observed(as_signals(released, labels=problem.network.labels))
    clean = Problem(
        problem.network, problem.law, Normal(sigma=1.0), source, NoPrivacy(), problem.rounds
    )
    return simulate(clean, Record(every=1)).clean[:, :, 0, 0].T
