"""A worker of masked agents with a bad network and a habit of dying: masked_worker.py PLAN NUMBER

faults.json in the plan's folder says how bad, as for `worker.py`; `die` is the probability of killing
itself at a step of a session's ledger, and `die_at` a step (such as "send committed") at which every
worker dies the first time. `times` are the seconds of views, proposals and attempts. What only the
test may know is written to the folder `notes`: secrets, and every masked value that leaves.
"""

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

from tests.agents.chaos.worker import Lossy
from veilsum.agents.ledger import Ledger
from veilsum.agents.ledger.sessions import DiskSessionLedger
from veilsum.agents.local_cluster import worker
from veilsum.agents.local_cluster.plan import DeploymentPlan
from veilsum.agents.masked.actions import SessionTimes
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.masked.records import Masked
from veilsum.agents.messages import RecordExchange
from veilsum.agents.release.contribution import ContributionMechanism
from veilsum.agents.release.reserve import NoiseReserve

RECORDS = RecordPool(bytes(32), {})


class Notes:
    """Lines of JSON outside of the plan's folder, one file for each process."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.file = (folder / f"{os.getpid()}.jsonl").open("a", encoding="utf-8")
        self.seen: set[str] = set()

    def add(self, **what: Any) -> None:
        line = json.dumps(what)
        if line not in self.seen:
            self.seen.add(line)
            self.file.write(line + "\n")
            self.file.flush()


class Watched(Lossy):
    """Notes every masked value of its own agents before it can be lost."""

    notes: Notes

    def send(self, message: Any) -> None:
        if isinstance(message, RecordExchange) and message.chunk:
            for signed in RECORDS.split(message.chunk):
                record = signed.record
                if isinstance(record, Masked) and record.label == message.sender:
                    self.notes.add(
                        kind="sent", agent=record.label, sid=record.sid.hex(),
                        rho=record.rho.hex(), words=record.words,
                    )  # fmt: skip
        super().send(message)


def watch(notes: Notes) -> None:
    """Note noise, statistics and sessions as they come about."""
    made, drawn = ContributionMechanism.__init__, NoiseReserve.draw
    given, opened = ContributionMechanism.contribution, DiskSessionLedger.open
    owners: dict[int, str] = {}
    last: dict[str, Any] = {}

    def init(self: Any, manifest: Any, problem: Any, label: str, **more: Any) -> None:
        made(self, manifest, problem, label, **more)
        owners[id(self.noise)] = label

    def draw(self: Any) -> Any:
        found = drawn(self)
        last[owners[id(self)]] = found
        return found

    def contribution(self: Any, query: int, signals: Any) -> Any:
        found = given(self, query, signals)
        notes.add(kind="statistic", agent=self.label, query=query, steps=found.statistic)
        return found

    def open_view(self: Any, query: int, entry: Any) -> None:
        label = self._writer.agent
        opened(self, query, entry)  # if it dies here, nothing of the view was said
        notes.add(kind="noise", agent=label, sid=entry.sid.hex(), steps=last[label])

    patched: Any = ContributionMechanism
    patched.__init__, patched.contribution = init, contribution
    patched = NoiseReserve
    patched.draw = draw
    patched = DiskSessionLedger
    patched.open = open_view


def main() -> None:
    plan, number = DeploymentPlan.load(sys.argv[1]), int(sys.argv[2])
    folder = Path(plan.folder)
    faults = json.loads((folder / "faults.json").read_text())
    notes = Watched.notes = Notes(Path(faults["notes"]))
    rng = random.Random(f"{number} {os.getpid()}")
    patched: Any = worker
    ledger: Any = Ledger
    times: Any = SessionTimes
    usual, opened = worker.transport_of, ledger.open.__func__

    def transport_of(plan: Any, assignment: Any) -> Any:
        devices = {agent: s.device for s in plan.assignments for agent in s.agents}
        return Watched(usual(plan, assignment), faults, devices, rng)

    def probe(moment: str) -> None:
        if " " not in moment:
            return
        once = Path(faults["notes"]) / f"died-{number}"
        chosen = moment == faults["die_at"] and not once.exists()
        if chosen or rng.random() < faults["die"]:
            once.touch()
            notes.add(kind="died", step=moment)
            os.kill(os.getpid(), signal.SIGKILL)

    patched.transport_of = transport_of
    ledger.open = classmethod(lambda cls, *a, **k: opened(cls, *a, **k, probe=probe))
    times.of = classmethod(lambda cls, *_: cls(*faults["times"]))
    watch(notes)
    worker.Worker(plan, number).run()


if __name__ == "__main__":
    main()
