"""What the simulator says of the releases that agents wrote into their ledgers."""

from pathlib import Path
from typing import Any

import numpy as np

from veilsum.agents.ledger import read_ledger
from veilsum.agents.manifest import Manifest
from veilsum.families import Normal
from veilsum.privacy import NoPrivacy
from veilsum.signals import as_signals
from veilsum.simulation import Problem, Record, RecordedSignals, simulate


def releases(plan: Any, problem: Any) -> Any:
    """(agents, readings) of what was released, from the ledgers."""
    unit = Manifest.from_json(plan.manifest).unit
    rows = []
    for i in range(problem.network.size):
        entries = read_ledger(Path(plan.folder) / "ledgers" / f"{i}.ledger").entries
        rows.append([entry.sums[0] / 2**unit for entry in entries])
    return np.array(rows)


def simulated(problem: Any, released: Any) -> Any:
    """(agents, rounds + 1): the algorithm on the releases as they are, without any further noise."""
    source = RecordedSignals(as_signals(released, labels=problem.network.labels))
    noiseless = Problem(
        problem.network, problem.algorithm, Normal(sigma=1.0), source, NoPrivacy(), problem.rounds
    )
    found = simulate(noiseless, Record(every=1)).noiseless
    assert found is not None
    return found[:, :, 0, 0].T
