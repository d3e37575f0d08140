"""Masked agents in processes with mutual TLS that are killed, lose messages and are cut apart.

Whatever happens: one masked value for an attempt, all results equal and the sum over the stated roster,
the budget exact.
"""

import json
import os
import random
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.agents.chaos import test_chaos
from tests.agents.chaos.test_chaos import Mortal
from veilsum.agents.ledger import read_ledger, verify
from veilsum.agents.local_cluster.cluster import LaunchOptions, collect_estimates, prepare
from veilsum.agents.manifest import Manifest
from veilsum.agents.masked.terms import MaskedTerms
from veilsum.scenario import Scenario

ROOT = Path(__file__).resolve().parents[3]
WORKER = Path(__file__).with_name("masked_worker.py")
EPSILON = 0.5
SCENARIO = """
name = "masked-chaos"
seed = 8

[network]
graph = "random-geometric"
options = {{ size = {size}, radius = {radius}, seed = 1 }}
weights = "lazy-metropolis"

[family]
name = "normal"
sigma = 1.0
bounds = [0.0, 10.0]

[signals]
draw = {{ mu = 5.0 }}

[privacy]
protect = "signal"
mode = "masked"
epsilon = {epsilon}
colluders = 1
absent = {absent}

[algorithm]
name = "masked-sum"
rounds = 100
"""


class Chaos:
    """A cluster of mortal workers, what only the test knows of it, and what must hold."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, size: int, processes: int,
        radius: float = 0.7, absent: int = 1, drop: float = 0.3, die: float = 0.0,
        die_at: str = "", cut: tuple[float, float] = (0.0, 0.0),
        times: tuple[float, float, float] = (4.0, 1.0, 60.0),
    ) -> None:  # fmt: skip
        monkeypatch.setattr(test_chaos, "WORKER", WORKER)
        monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        self.home, self.notes = folder / "run", folder / "notes"
        text = SCENARIO.format(size=size, radius=radius, absent=absent, epsilon=EPSILON)
        scenario = Scenario.parse(text, folder=folder, name="masked-chaos")
        options = LaunchOptions(processes=processes, deadline=1.0, resend=0.05)
        self.plan, self.problem, _ = prepare(scenario, options, self.home)
        self.processes, self.began, self.kills = processes, time.time(), 0
        side = [assignment.device for assignment in self.plan.assignments[: processes // 2]]
        faults = {
            "drop": drop, "die": die, "die_at": die_at, "began": self.began, "cut": [*cut, side],
            "times": times, "notes": str(self.notes),
        }  # fmt: skip
        (self.home / "faults.json").write_text(json.dumps(faults))
        self.notes.mkdir()

    def run(self, kills: int = 0, seconds: float = 1.0, limit: float = 150.0) -> None:
        """Kill at random for a while, then let the network heal."""
        rng = random.Random(4)
        end = time.monotonic() + limit
        with Mortal(self.plan) as cluster:
            for _ in range(kills):
                time.sleep(rng.uniform(0.0, 2 * seconds / kills))
                cluster.kill(rng.randrange(self.processes))
                self.kills += cluster.revive()
            while not cluster.done:
                assert time.monotonic() < end, cluster.status
                cluster.read_status(0.1)
                self.kills += cluster.revive()
            cluster.stop()

    def noted(self, kind: str) -> list[Any]:
        texts = [path.read_text() for path in self.notes.glob("*.jsonl")]
        lines = [line for text in texts for line in text.splitlines()]
        return [one for one in map(json.loads, lines) if one["kind"] == kind]

    def check(self) -> Any:
        manifest = Manifest.from_json(self.plan.manifest)
        terms = MaskedTerms.of(manifest, self.problem.family)
        attempts = {
            terms.sid(1, attempt, view).hex(): attempt
            for attempt in range(terms.parameters.attempts)
            for view in range(terms.most_views)
        }
        sent: defaultdict[tuple[str, int], set[Any]] = defaultdict(set)
        for one in self.noted("sent"):
            sent[one["agent"], attempts[one["sid"]]].add((one["rho"], tuple(one["words"])))
        assert all(len(values) == 1 for values in sent.values()), "two values for one attempt"
        results = set()
        for number, label in enumerate(manifest.labels):
            path = self.home / "ledgers" / f"{number}.ledger"
            assert verify(path).ok
            contents = read_ledger(path)
            known = {entry.attempt - 1: entry.sums for entry in contents.entries}
            assert len(known) == len(contents.entries), "two values for one attempt in a ledger"
            heard = {attempt: words for (who, attempt), words in sent.items() if who == label}
            for attempt, values in heard.items():
                assert {words for _, words in values} == {known[attempt]}
            assert contents.status.spent.epsilon == EPSILON * len(contents.charged)
            assert contents.status.reserved.epsilon == 0
            assert contents.queries[-1].reason == "sum"
            results.add(contents.queries[-1].result)
        (result,) = results
        assert result is not None
        assert len(result.members) >= terms.parameters.smallest_roster
        self._check_sum(terms, result)
        held = collect_estimates(self.plan, self.problem)[:, -1, 0]
        assert len(set(held.tolist())) == 1
        return result

    def _check_sum(self, terms: MaskedTerms, result: Any) -> None:
        """The totals are those of x + eta over the roster, as its members drew for that session."""
        sid = terms.sid(1, result.attempt, result.view).hex()
        steps = {one["agent"]: one["steps"] for one in self.noted("statistic")}
        noise = {one["agent"]: one["steps"] for one in self.noted("noise") if one["sid"] == sid}
        members = [terms.labels[number] for number in result.members]
        total = np.sum([np.add(steps[one], noise[one]) for one in members], axis=0)
        assert tuple(int(t) for t in total) == result.totals


def test_a_few_masked_agents_are_killed_and_cut_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chaos = Chaos(tmp_path, monkeypatch, size=6, processes=3, cut=(1.5, 3.0), die=0.01)
    chaos.run(kills=2, seconds=3)
    assert chaos.kills >= 2
    chaos.check()


STEPS = [
    f"{call} {when}"
    for call in ("begin_query", "open", "prepare", "ready", "send", "conclude_query")
    for when in ("checked", "written", "committed")
]


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_every_worker_is_killed_once_at_a_step_of_its_ledger(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chaos = Chaos(tmp_path, monkeypatch, size=6, processes=3, drop=0.1, die_at=step)
    chaos.run()
    assert {one["step"] for one in chaos.noted("died")} == {step}
    assert chaos.kills >= 1
    chaos.check()


@pytest.mark.slow
def test_thirty_masked_agents_a_hundred_kills_loss_and_a_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chaos = Chaos(
        tmp_path, monkeypatch, size=30, processes=15, radius=0.4, absent=6, die=0.01,
        cut=(20.0, 30.0), times=(10.0, 2.0, 30.0),
    )  # fmt: skip
    chaos.run(kills=100, seconds=80, limit=600)
    assert chaos.kills >= 100
    chaos.check()
