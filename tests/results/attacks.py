"""An attacker with all that a run left and showed, who knows everything but signals and entropy.

`recovered` names the attacks that got signals back. The attacker knows the network, the algorithm,
the scales of the noise as functions of a signal, the code, and what agents sent each other; it tries

    scan       a signal, a statistic, a target, an error or an estimate without noise as it stands,
               in float64, float32 or decimals
    names      a column or quantity that compares with the truth
    seed       every whole number that it finds, and the small ones, as the seed of the noise
    subtract   two runs (epsilons, replicas, variants) that share their noise
"""

from __future__ import annotations

import csv
import io
import itertools
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from veilsum.front import Answers
from veilsum.privacy import NoPrivacy, plan
from veilsum.simulation import Record, noise, simulate
from veilsum.simulation.seeds import noise_key

CLOSE = 1e-4  # a signal that is known so well, relatively, is recovered
GRID = np.exp(np.linspace(np.log(0.5), np.log(50.0), 3000))
TRUTHS = {"error", "noise", "disagreement", "target"}


@dataclass
class Loot:
    """Every file under a folder but what the victim put there, all that was shown, and all messages."""

    published: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    runs: dict[str, Any] = field(default_factory=dict)  # results by name: what agents held

    def take(self, folder: Path, but: tuple[str, ...] = ()) -> Loot:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name not in but:
                self.files[str(path)] = path.read_bytes()
        return self

    def show(self, answers: Answers) -> Loot:
        """All that a sheet shows in Python, and the estimates that its agents held."""
        frame = answers.to_frame()
        self.published += "\n".join(
            [
                str(answers),
                repr(answers),
                answers._repr_html_(),
                frame.to_string(),
                str(answers.to_dict()),
            ]
        )
        self.files["frame"] = frame.select_dtypes("number").to_numpy().tobytes()
        self.files["frame.csv"] = frame.to_csv(index=False, float_format="%.17g").encode()
        self.runs = dict(answers.results)
        return self

    @property
    def text(self) -> str:
        return "\n".join(
            [self.published, *(c.decode("utf-8", "replace") for c in self.files.values())]
        )


@dataclass(eq=False)
class Victim:
    """What the attacker must not learn, and the problem that it knows all else of."""

    problem: Any
    signals: np.ndarray  # (agents, rounds used)

    @property
    def xi(self) -> np.ndarray:
        return np.asarray(self.problem.family.columns(self.signals)[..., 0])

    @cached_property
    def bare(self) -> Any:
        return simulate(
            replace(self.problem, privacy=NoPrivacy(), epsilons=(), replicas=1), Record(every=1)
        )

    @cached_property
    def secrets(self) -> np.ndarray:
        """Signals, statistics, targets and estimates without noise."""
        trace = self.bare
        parts = (self.signals, self.xi, trace.target, trace.noiseless, trace.decentralisation)
        agents = np.sqrt(self.problem.network.size)
        per_agent = trace.decentralisation / agents
        return _telling(np.concatenate([np.ravel(part) for part in (*parts, per_agent)]))

    @lru_cache(maxsize=32)  # noqa: B019 - a victim is needed as long as its test
    def scale(self, epsilon: float, t: int) -> np.ndarray:
        """(agents, grid): b(s) of every agent in round t."""
        p = self.problem
        made = plan(p.privacy, p.family, p.algorithm, p.network, p.horizon or p.rounds)
        assert made is not None
        shape = (p.network.size, len(GRID))
        return np.broadcast_to(made.scale(np.broadcast_to(GRID, shape), epsilon, t), shape)

    def errors(self, private: np.ndarray) -> np.ndarray:
        """Norms against the target and the clean estimates, of estimates (recorded, agent); per agent."""
        trace = self.bare
        clean = trace.noiseless[-len(private) :, :, 0, 0]
        parts = [np.linalg.norm(private - trace.target[0, 0], axis=1)]
        parts += [np.linalg.norm(private - clean, axis=1)]
        norms = np.concatenate(parts)
        return _telling(np.concatenate([norms, norms / np.sqrt(private.shape[1])]))


def _telling(values: np.ndarray) -> np.ndarray:
    """Numbers that no file has by chance."""
    values = np.unique(values[np.isfinite(values)])
    return np.asarray(values[np.abs(values - np.round(values, 3)) > 1e-9])


def recovered(loot: Loot, victims: dict[str, Victim], seeds: tuple[int, ...] = ()) -> list[str]:
    """The attacks that succeed: at least half of the agents' signals, or any secret as it stands.

    A victim is a variant, whose messages are in the run of its name.
    """
    columns = _columns(loot.runs, victims)
    found = [f"names {what}" for what in named(loot)]
    for name, victim in victims.items():
        found += [f"scan {name}: {what}" for what in scan(loot, victim, columns)]
    found += [f"seed {what}" for what in regenerate(loot, columns, seeds)]
    found += [f"subtract {what}" for what in subtract(columns)]
    return found


def scan(loot: Loot, victim: Victim, columns: list[Column]) -> list[str]:
    """Secrets as they stand. One float64 or decimal is a find; float32 takes three."""
    mine = [c for c in columns if c.victim is victim]
    secrets = np.concatenate([victim.secrets, *(victim.errors(c.path) for c in mine)])
    found = []
    for name, content in [*loot.files.items(), ("stdout", loot.published.encode())]:
        narrow = 0
        for value in secrets.tolist():
            if any(struct.pack(form, value) in content for form in ("<d", ">d")):
                found.append(f"float64 in {name}")
            narrow += any(struct.pack(form, value) in content for form in ("<f", ">f"))
            if abs(value) > 1e-3 and f"{abs(value):.17f}"[:11].encode() in content:
                found.append(f"decimals in {name}")
        if narrow > 2:
            found.append(f"{narrow} float32 in {name}")
    return sorted(set(found))


@dataclass(eq=False)
class Column:
    """One run: its path (recorded, agent), and what is known of how it came about."""

    what: str
    victim: Victim
    epsilon: float
    replica: int
    path: np.ndarray
    first: np.ndarray  # the first release of each agent
    round: int

    @cached_property
    def scale(self) -> np.ndarray:
        """b(s) of every agent, for every signal of the grid."""
        return self.victim.scale(self.epsilon, self.round)

    @property
    def released(self) -> np.ndarray:
        """(first - learn xi(s)) / noise: what must be b(s) d, for every signal of the grid."""
        algorithm = self.victim.problem.algorithm.at(self.round)
        first = self.first[:, None]
        return np.asarray((first - algorithm.innovation * np.log(GRID)) / algorithm.noise)


def _columns(runs: Mapping[str, Any], victims: dict[str, Victim]) -> list[Column]:
    found = []
    for name, run in runs.items():
        victim, trace = victims[name], run.trace
        start = 0 if victim.problem.algorithm.at(0).noise else 1
        if trace.private is None or not run.problem.run_epsilons:
            continue
        at = trace.recorded_rounds.index(start)
        for e, epsilon in enumerate(run.problem.run_epsilons):
            for r in range(run.problem.replicas):
                path = trace.private[:, :, e, r, 0]
                what = f"{name} epsilon {epsilon:g} replica {r}"
                found.append(Column(what, victim, epsilon, r, path, path[at], start))
    return found


def named(loot: Loot) -> list[str]:
    """Quantities and columns of tables and pages that are errors against the truth."""
    found = []
    for name, content in loot.files.items():
        text = content.decode("utf-8", "replace")
        if name.endswith(".csv"):
            words = {w for row in csv.reader(io.StringIO(text)) for w in row}
        else:
            words = set(re.findall(r'data-head="([^"]*)"', text))
        found += [f"{word} in {name}" for word in sorted(words & TRUTHS)]
    shown = set(re.findall(r'data-head="([^"]*)"|\'quantity\': \'([^\']*)\'', loot.published))
    found += [f"{w} was shown" for w in sorted({w for pair in shown for w in pair} & TRUTHS)]
    return found


def _roots(off: np.ndarray) -> np.ndarray:
    """(agents, k): where a function on the grid crosses 0, and NaN elsewhere."""
    crossing = (off[:, :-1] * off[:, 1:]) <= 0
    with np.errstate(all="ignore"):
        fraction = off[:, :-1] / (off[:, :-1] - off[:, 1:])
    between = GRID[:-1] * (GRID[1:] / GRID[:-1]) ** np.clip(fraction, 0, 1)
    return np.where(crossing, between, np.nan)


def _hits(guess: np.ndarray, signals: np.ndarray) -> bool:
    """Whether half of the agents or more have a guess that is their signal."""
    with np.errstate(invalid="ignore"):
        close = np.abs(guess - signals[:, None]) <= CLOSE * np.abs(signals[:, None])
    return bool(close.any(axis=1).mean() >= 0.5)


def regenerate(loot: Loot, columns: list[Column], seeds: tuple[int, ...]) -> list[str]:
    """Draw the noise again from every whole number that was found."""
    numbers = {int(word) for word in re.findall(r"(?<![\w.])\d{1,39}(?![\w.])", loot.text)}
    found = []
    for column in columns[:4]:
        agents, p = np.arange(len(column.first)), column.victim.problem
        for seed in sorted(numbers | set(range(4)) | set(seeds)):
            for key in _keys(p, seed, column.epsilon):
                d = noise.laplace(key, column.round, agents, column.replica)
                roots = _roots(column.released - column.scale * d[:, None])
                if _hits(roots, column.victim.signals[:, 0]):
                    found.append(f"{seed} of {column.what}")
    return found


def _keys(problem: Any, seed: int, epsilon: float) -> list[int]:
    """What the noise may follow from: the seed alone, or with all that the run depends on."""
    keys = [int(np.random.SeedSequence([seed, 0x6E6F6973]).generate_state(1, np.uint64)[0])]
    return [*keys, noise_key(replace(problem, seed=seed, epsilons=(epsilon,)))]


def subtract(columns: list[Column]) -> list[str]:
    """(first - xi)/b is the same draw in two runs: the signal is where the two sides meet."""
    found = []
    for one, two in itertools.combinations(columns, 2):
        if np.array_equal(one.first, two.first):
            continue  # one release, twice
        gap = one.released / one.scale - two.released / two.scale
        if _hits(_roots(gap), one.victim.signals[:, 0]):
            found.append(f"{one.what} and {two.what}")
    return found
