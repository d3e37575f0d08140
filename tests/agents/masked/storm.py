"""Everything that can go wrong between masked agents, decided by a seed: `storm.py FIRST LAST`.

Members die before and after any write of their ledgers, restart, come late, stay away, are cut apart and
lose messages; then the network heals. From then on every agent that runs must end, all with the
same sums to the bit. No process, clock or hypothesis is involved: some ten seeds a second.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from tests.agents.masked.network import SLOW, MaskedNetwork, NotingLedger
from tests.agents.masked.world import EPSILON, Killed
from veilsum.agents.events import Action, ConcludeQuery, Event
from veilsum.agents.masked.agent import MaskedAgent
from veilsum.agents.masked.entries import Stage
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.masked.records import SignedRecord
from veilsum.agents.protocol import Options
from veilsum.testing import Faults
from veilsum.testing.network import SimulatedAgent, SimulatedNetwork

SIZES = (4, 0, 1), (4, 1, 0), (5, 1, 1), (5, 0, 1), (6, 2, 1), (6, 0, 2), (7, 1, 2), (7, 3, 1)
SECONDS = 0.05, 0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 25.0, 70.0
STAYING = Options(linger=1e6)  # nobody leaves before the last has ended
PATIENT = Options(linger=4000.0)
# Whoever is done may leave just before a member comes back whose value completes a sum: nobody can
# know that. So nobody leaves before what the last one brought back has spread.
SPREADING = 300.0
HEALED = 20_000.0  # virtual seconds after which every agent must have ended
LINGERING = 1000.0  # and those after which all must have the same sums
FINDER = RecordPool(bytes(32), {})


class StormyLedger(NotingLedger):
    """The fuse may be for a certain write only."""

    write = ""

    def _write(self, name: str, *arguments: Any) -> Any:
        if self.write in ("", name):
            self.write = ""
            return super()._write(name, *arguments)
        fuse, self.fuse = self.fuse, None
        try:
            return super()._write(name, *arguments)
        finally:
            self.fuse = fuse


class StormyNetwork(MaskedNetwork):
    """A conclusion may be the last thing before an agent dies; nothing is encoded on the way.

    If `leaving`, an agent that need not stay any longer leaves, as its process would.
    """

    leaving = False

    def feed(self, label: str, event: Event) -> None:
        super().feed(label, event)
        agent = self.agents[label].agent
        if self.leaving and agent is not None and agent.settled:
            self.crash(label)

    def perform(self, host: SimulatedAgent, action: Action) -> None:
        ledger = self.kept[host.label].ledger
        if isinstance(action, ConcludeQuery) and isinstance(ledger, StormyLedger) and ledger.write:
            self.conclusions[host.label].append(action)
            self.kept[host.label].concluded[action.query] = action.summed
        elif isinstance(action, ConcludeQuery):
            when, ledger.fuse = ledger.fuse, None
            if when == "before":
                raise Killed
            self.conclusions[host.label].append(action)
            self.kept[host.label].concluded[action.query] = action.summed
            if when == "after":
                raise Killed
        elif getattr(getattr(action, "message", None), "chunk", b""):
            self._listen(host.label, action.message.chunk)  # type: ignore[union-attr]
        SimulatedNetwork.perform(self, host, action)

    def _listen(self, label: str, chunk: bytes) -> None:
        pool = self.agent(label).queries.pool
        for signed in pool.split(chunk):
            if signed.record.label == label:
                self.noted.setdefault(label, {})[signed.record] = signed
        self.said[label] = list(self.noted.get(label, {}).values())

    @property
    def noted(self) -> dict[str, dict[Any, SignedRecord]]:
        found: dict[str, dict[Any, SignedRecord]] = self.__dict__.setdefault("_noted", {})
        return found


class Storm:
    """One seed's faults, and what must hold after them.

    Parameters
    ----------
    seed : int
        Decides everything.
    kind : type
        Of the agents.
    """

    def __init__(self, seed: int, kind: Any = MaskedAgent) -> None:
        self.rng = rng = random.Random(seed)
        n, colluders, absent = rng.choice(SIZES)
        graph = rng.choice(["ring", "complete", "star", "path"])
        self.queries = rng.choice([1, 1, 2, 3])
        self.log: list[tuple[Any, ...]] = []
        self.leaves = rng.random() < 0.4
        self.run = StormyNetwork(
            f"{graph}:{n}", queries=self.queries, faults=SLOW, seed=seed, kind=kind,
            options=PATIENT if self.leaves else STAYING,
            in_common=rng.random() < 0.6, colluders=colluders, absent=absent, dimension=1,
        )  # fmt: skip
        for kept in self.run.kept.values():
            kept.ledger = StormyLedger()
        self.labels = self.run.terms.labels
        self.note("begin", graph, n, colluders, absent, self.queries, self.leaves)
        self.calm = rng.choice([0.3, 1.0, 3.0])  # how much time passes between two faults

    def note(self, *what: Any) -> None:
        self.log.append((round(self.run.network.now, 2), *what))

    def contribute(self, label: str, query: int) -> None:
        if query not in self.run.kept[label].contributions:
            self.note("contribute", label, query)
            self.run.contribute(label, query)

    def contribute_all(self) -> None:
        for query in range(1, self.queries + 1):
            for label in self.labels:
                if query not in self.run.kept[label].concluded:
                    self.contribute(label, query)

    def step(self) -> None:
        """One thing goes wrong, or not."""
        rng, run = self.rng, self.run
        label = rng.choice(self.labels)
        what = rng.choice(
            ["fuse"] * 5 + ["crash"] * 2 + ["restart"] * 4 + ["contribute"] * 2 + ["everybody"]
            + ["split", "heal", "heal", "lossy", "quiet"]
        )  # fmt: skip
        if what == "fuse":
            self.light_fuse(label)
        elif what == "crash":
            self.note(what, label)
            run.crash(label, announced=rng.random() < 0.7)
        elif what == "restart":
            self.restart(label)
        elif what == "contribute":
            self.contribute(label, rng.randint(1, self.queries))
        elif what == "everybody":
            for one in self.labels:
                kept = run.kept[one]
                self.contribute(one, min(self.queries, 1 + max(kept.concluded, default=0)))
        elif what == "split":
            left = set(rng.sample(self.labels, rng.randint(1, len(self.labels) - 1)))
            self.note(what, *sorted(left))
            run.network.partition(left, set(self.labels) - left)
        elif what == "heal":
            faults = run.network.faults
            run.network.heal()
            run.network.faults = faults
            self.note(what)
        else:
            drop = rng.choice([0.1, 0.3, 0.6]) if what == "lossy" else 0.0
            run.network.faults = Faults(drop=drop, duplicate=0.1, reorder=0.1, delay=(0.01, 0.05))
            self.note(what, drop)
        run.run(rng.choice(SECONDS) * self.calm, until_done=False)

    def light_fuse(self, label: str) -> None:
        ledger: Any = self.run.kept[label].ledger
        ledger.fuse = self.rng.choice(["before", "after"])
        ledger.write = self.rng.choice(["", "", "prepare", "ready", "send", "send", "withdraw"])
        self.note("fuse", label, ledger.fuse, ledger.write)

    def restart(self, label: str) -> None:
        if self.run.agents[label].agent is None:
            self.note("restart", label)
            self.run.restart(label)

    def rage(self) -> None:
        rng, run = self.rng, self.run
        for label in self.labels:
            if rng.random() < 0.25:
                self.light_fuse(label)
        late = rng.sample(self.labels, rng.choice([0, 0, 1, 2]))
        run.start(*(label for label in self.labels if label not in late))
        for label in self.labels:
            if rng.random() < 0.8:
                self.contribute(label, 1)
        for _ in range(rng.randint(3, 40)):
            self.step()
        run.check()

    def heal(self) -> None:
        """All is well again, but that up to d members may never come back."""
        run, rng = self.run, self.rng
        run.network.heal()
        run.network.faults = SLOW
        for kept in run.kept.values():
            kept.ledger.fuse = None
        self.note("healed")
        order = list(self.labels)
        rng.shuffle(order)
        for label in order:
            self.restart(label)
            run.run(rng.choice([0.0, 0.0, 1.0]), until_done=False)
        self.contribute_all()
        if self.leaves:
            run.run(SPREADING, until_done=False)
            run.leaving = True

    def verdict(self) -> str:
        """What went wrong; empty if nothing did."""
        run = self.run
        if not run.run(HEALED):
            return f"waiting: {[one for one in self.labels if run.agents[one].done is None]}"
        run.run(LINGERING, until_done=False)
        run.check()
        for query in range(1, self.queries + 1):
            found = {kept.concluded.get(query) for kept in run.kept.values()}
            if len(found) > 1:
                return "different sums"
        if len(set(run.estimates().values())) > 1:
            return "different estimates"
        for label in self.labels:
            ledger = run.kept[label].ledger
            entries = [e for query in range(1, self.queries + 1) for e in ledger.entries(query)]
            charged = sum(entry.stage is Stage.SENT for entry in entries)
            if ledger.charged != Fraction(EPSILON) * charged:
                return f"budget of {label}"
            done = run.agents[label].outcome
            if done.reason in ("rolled-back", "cloned"):
                return f"{label} stopped: {done.reason}"
        return ""

    def state(self) -> Iterable[str]:
        """What every agent has come to."""
        for label in self.labels:
            agent, kept = self.run.agents[label].agent, self.run.kept[label]
            yield f"{label} {self.run.agents[label].done}, runs: {agent is not None}"
            for query in range(1, self.queries + 1):
                found = kept.concluded.get(query)
                followed = agent.queries.followed(query) if agent else None  # type: ignore[attr-defined]
                held = len(followed.records) if followed else 0
                place = found and (found.attempt, found.view)
                last = [f"{e.attempt}.{e.view} {e.stage.value}" for e in kept.ledger.entries(query)]
                kind = type(followed).__name__, getattr(followed, "_running", "")
                yield f"    query {query}: sum {place}, {held} records, {kind} {last}"


def storm(seed: int, kind: Any = MaskedAgent) -> str:
    """What went wrong with a seed; empty if nothing did."""
    made = Storm(seed, kind)
    made.rage()
    made.heal()
    return made.verdict()


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        try:
            outcome = storm(number)
        except Exception as error:
            outcome = repr(error)
        if outcome:
            print(number, outcome, flush=True)
