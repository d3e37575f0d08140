"""An attacker with every byte that a run left, who knows everything but signals and entropy.

`recovered` names the attacks that got signals back. The attacker knows the network, the algorithm,
the scales of the noise as functions of a signal, and the code; it tries

    scan       a signal, a statistic, a target, an error or an estimate without noise as it stands,
               in float64, float32 or decimals
    seed       every whole number in the files, and the small ones, as the seed of the noise
    subtract   two estimates (epsilons, replicas, variants, runs) that share their noise
    solve      targets, errors and estimates without noise by linear least squares
"""

from __future__ import annotations

import io
import itertools
import json
import re
import struct
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import veilsum as vs
from veilsum.families import Normal
from veilsum.privacy import NoPrivacy, calibrate
from veilsum.simulation import Record, noise, simulate

CLOSE = 1e-4  # a signal that is known so well, relatively, is recovered
GRID = np.exp(np.linspace(np.log(0.5), np.log(50.0), 3000))
TEXTS = {".json", ".txt", ".toml", ".csv", ".jsonl"}


@dataclass
class Loot:
    """Every file under a folder but what the victim put there, and all that was published."""

    published: str = ""
    files: dict[str, bytes] = field(default_factory=dict)

    def take(self, folder: Path, but: tuple[str, ...] = ()) -> Loot:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name not in but:
                self.files[str(path)] = path.read_bytes()
        return self

    @property
    def datasets(self) -> dict[str, xr.Dataset]:
        found = {}
        for name, content in self.files.items():
            if name.endswith(".nc"):
                with xr.open_dataset(io.BytesIO(content), engine="scipy") as data:
                    found[name] = data.load()
        return found

    @property
    def text(self) -> str:
        words = [self.published]
        words += [c.decode("utf-8", "replace") for n, c in self.files.items() if _is_text(n)]
        words += [json.dumps(d.attrs, default=str) for d in self.datasets.values()]
        return "\n".join(words)


def _is_text(name: str) -> bool:
    return Path(name).suffix in TEXTS


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
        return _telling(np.concatenate([np.ravel(part) for part in parts]))

    @lru_cache(maxsize=32)  # noqa: B019 - a victim is needed as long as its test
    def scale(self, epsilon: float, t: int) -> np.ndarray:
        """(agents, grid): b(s) of every agent in round t."""
        p = self.problem
        made = calibrate(p.privacy, p.algorithm, p.family, p.network, p.horizon or p.rounds)
        assert made is not None
        shape = (p.network.size, len(GRID))
        return np.broadcast_to(made.scale(np.broadcast_to(GRID, shape), epsilon, t), shape)

    def errors(self, private: np.ndarray) -> np.ndarray:
        """Norms against the target and the clean estimates, of estimates (recorded, agent)."""
        trace = self.bare
        clean = trace.noiseless[-len(private) :, :, 0, 0]
        parts = [np.linalg.norm(private - trace.target[0, 0], axis=1)]
        parts += [np.linalg.norm(private - clean, axis=1)]
        return _telling(np.concatenate(parts))


def _telling(values: np.ndarray) -> np.ndarray:
    """Numbers that no file has by chance."""
    values = np.unique(values[np.isfinite(values)])
    return np.asarray(values[np.abs(values - np.round(values, 3)) > 1e-9])


def recovered(loot: Loot, victims: dict[str, Victim], seeds: tuple[int, ...] = ()) -> list[str]:
    """The attacks that succeed: at least half of the agents' signals, or any secret as it stands.

    A victim is a variant, whose estimates are in the file that its name stands in.
    """
    columns = _columns(loot, victims)
    found = []
    for name, victim in victims.items():
        found += [f"scan {name}: {what}" for what in scan(loot, victim, columns)]
        found += [f"solve {name}: {what}" for what in solve(loot, victim)]
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


def _columns(loot: Loot, victims: dict[str, Victim]) -> list[Column]:
    found = []
    for file, data in loot.datasets.items():
        if "private" not in data or "epsilon" not in data.private.dims:
            continue
        name = next((n for n in victims if Path(file).stem.endswith(f"-{n}")), None)
        victim = victims[name] if name else next(iter(victims.values()))
        start = 0 if victim.problem.algorithm.at(0).noise else 1
        if start not in data.recorded.values:
            continue
        held = data.private.transpose("epsilon", "replica", "recorded", "agent", ...)
        at = list(data.recorded.values).index(start)
        for e, epsilon in enumerate(data.epsilon.values.tolist()):
            for r in range(data.sizes["replica"]):
                path = held.values[e, r]
                what = f"{Path(file).name} epsilon {epsilon:g} replica {r}"
                found.append(Column(what, victim, epsilon, r, path, path[at], start))
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
    try:
        from veilsum.simulation.seeds import noise_key
    except ImportError:  # an older veilsum under attack
        return keys
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


def solve(loot: Loot, victim: Victim) -> list[str]:
    """xi from clean estimates, or from norms: for offline algorithms clean_t = M_t xi.

    With the target m, CoD_t and CoP_t of an estimate nu_t, CoP^2 = |nu|^2 - 2 nu.M xi + |M xi|^2
    and |M xi|^2 = CoD^2 + 2 m sum(M xi) - n m^2: linear in xi.
    """
    if victim.problem.algorithm.online:
        return [f"{v} in {f}" for f, d in loot.datasets.items() for v in TRUTHS & set(d.variables)]
    maps, found = _maps(victim.problem), []
    for file, data in loot.datasets.items():
        rows, values = [], []
        if "clean" in data:
            clean = data.clean.transpose("recorded", "agent", ...).values
            for k, t in enumerate(data.recorded.values):
                rows.append(maps[t])
                values.append(clean[k].reshape(len(maps[t])))
        elif {"target", "cost_of_privacy", "cost_of_decentralisation", "private"} <= set(data):
            for row, value in _norms(data, maps):
                rows.append(row[None])
                values.append([value])
        if rows:
            xi = np.linalg.lstsq(np.concatenate(rows), np.concatenate(values), rcond=None)[0]
            if _hits(np.exp(xi)[:, None], victim.signals[:, 0]):
                found.append(f"least squares on {file}")
    return found


TRUTHS = {"target", "clean", "total_error", "cost_of_privacy", "cost_of_decentralisation"}


def _norms(data: xr.Dataset, maps: np.ndarray) -> Any:
    m, n = data.target.item(), maps.shape[1]
    held = data.private.transpose("recorded", "agent", "epsilon", "replica", ...)
    for k, t in enumerate(data.recorded.values.tolist()):
        apart = data.cost_of_decentralisation.sel(round=t).item() ** 2
        for e, r in np.ndindex(data.sizes["epsilon"], data.sizes["replica"]):
            nu = held.values[k, :, e, r].reshape(n)
            cost = data.cost_of_privacy.sel(round=t).isel(epsilon=e, replica=r).item() ** 2
            yield 2 * (nu - m) @ maps[t], nu @ nu + apart - n * m**2 - cost


def _maps(problem: Any) -> np.ndarray:
    """(round, agent, agent): clean_t = M_t xi, found by running the algorithm on unit vectors."""
    columns = []
    for unit in np.eye(problem.network.size):
        run = vs.estimate(
            unit, problem.network, Normal(sigma=1.0), NoPrivacy(), problem.algorithm, problem.rounds,
            record=Record(every=1),
        ).result  # fmt: skip
        assert run.trace.noiseless is not None
        columns.append(run.trace.noiseless[:, :, 0, 0])
    return np.stack(columns, axis=-1)
