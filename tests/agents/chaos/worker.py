"""A worker of a cluster with a bad network and a habit of dying: worker.py PLAN NUMBER

faults.json in the plan's folder says how bad: `drop` is the probability that a message is lost,
`cut` = [from, to, devices] is a partition in seconds since `began` between those devices and the
others, `die` the probability of killing itself right after a charge has been committed and before
anything could be sent.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from veilsum.agents.ledger import Ledger
from veilsum.agents.local_cluster import worker
from veilsum.agents.local_cluster.plan import DeploymentPlan


class Lossy:
    """A transport that loses what the faults say; everything else passes."""

    def __init__(self, inner: Any, faults: Any, devices: Any, rng: Any) -> None:
        self.inner, self.faults, self.devices, self.rng = inner, faults, devices, rng

    def __getattr__(self, name: Any) -> Any:
        return getattr(self.inner, name)

    def send(self, message: Any) -> None:
        if self.rng.random() < self.faults["drop"] or self._cut(message):
            return
        self.inner.send(message)

    def _cut(self, message: Any) -> Any:
        begin, end, side = self.faults["cut"]
        here = self.devices[message.sender] in side
        there = self.devices[message.receiver] in side
        return here != there and begin <= time.time() - self.faults["began"] < end


def main() -> None:
    plan, number = DeploymentPlan.load(sys.argv[1]), int(sys.argv[2])
    faults = json.loads((Path(plan.folder) / "faults.json").read_text())
    rng = random.Random(f"{number} {os.getpid()}")
    patched: Any = worker
    ledger: Any = Ledger
    usual, opened = worker.transport_of, ledger.open.__func__

    def transport_of(plan: Any, assignment: Any) -> Any:
        devices = {agent: s.device for s in plan.assignments for agent in s.agents}
        return Lossy(usual(plan, assignment), faults, devices, rng)

    def probe(moment: Any) -> None:
        if moment == "committed" and rng.random() < faults["die"]:
            (Path(plan.folder) / f"died-{number}-{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    patched.transport_of = transport_of
    ledger.open = classmethod(lambda cls, *a, **k: opened(cls, *a, **k, probe=probe))
    worker.Worker(plan, number).run()


if __name__ == "__main__":
    main()
