"""What a masked sum's files may tell: the sum with its noise, and nothing from which more follows.

Noise comes from the operating system, so these tests draw new numbers every time. A secret that stands
in a file to 9 digits is a find (by chance below 1e-9 for each file); two runs share noise if its
signs agree in far more or fewer than half of 200 replicas (by chance below 1e-6 for each pair).
"""

import struct
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.results.attacks import Loot, named
from tests.results.test_release_attacks import AGENTS, SEED, SIGNALS, call
from veilsum import families
from veilsum.scenario import Scenario, run

pytestmark = pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")

REPLICAS, LEAST, MOST = 200, 62, 138  # P[Bin(200, 1/2) outside] = 4e-8
SCENARIO = """
name = "planted"
{seed}replicas = {replicas}
[network]
graph = "ring:7"
[family]
name = "log-normal"
sigma = 0.6
bounds = [0.5, 50.0]
[signals]
file = "meters.csv"
[privacy]
protect = "signal"
mode = "masked"
colluders = 1
absent = 1
epsilon = [0.5, 1.0]
[algorithm]
name = "masked-sum"
rounds = 15
[record]
every = 1
agents = "all"
[[variant]]
name = "first"
[[variant]]
name = "second"
privacy.radius = 2.0
"""


def plant(folder: Path, replicas: int = 2, seed: int | None = None) -> Path:
    rows = [f"{i},0,{float(value)!r}" for i, value in enumerate(SIGNALS[:, 0])]
    (folder / "meters.csv").write_text("\n".join(["agent,time,value", *rows]))
    given = "" if seed is None else f"seed = {seed}\n"
    path = folder / "planted.toml"
    path.write_text(SCENARIO.format(seed=given, replicas=replicas))
    return path


def truth() -> np.ndarray:
    statistics = families.LogNormal(sigma=0.6).columns(SIGNALS[:, :1])
    return np.asarray(statistics).reshape(AGENTS)


def steps_of(scenario: Path) -> list[float]:
    """The grid of each variant."""
    made: list[Any] = [job.problem.plan.mechanism(1.0, 1) for job in Scenario.load(scenario).jobs()]
    return [one.step for one in made]


def secrets(scenario: Path) -> list[float]:
    """Signals, statistics, means of all and of all but one, exact and on the grid, and sums in steps."""
    xi = truth()
    found = [*SIGNALS[:, 0], *xi, xi.mean(), xi.sum()]
    found += [(xi.sum() - one) / (AGENTS - 1) for one in xi]
    for step in steps_of(scenario):
        whole = np.floor(xi / step + 0.5)
        found += [*(whole * step), whole.sum() * step / AGENTS]
        found += [(whole.sum() - one) * step / (AGENTS - 1) for one in whole]
    return [float(value) for value in found]


def scanned(loot: Loot, scenario: Path) -> list[str]:
    """Secrets that stand in a file, as float64 or in decimals."""
    found = []
    for name, content in [*loot.files.items(), ("stdout", loot.published.encode())]:
        for value in secrets(scenario):
            if any(struct.pack(form, value) in content for form in ("<d", ">d")):
                found.append(f"float64 in {name}")
            if abs(value) > 1e-3 and f"{abs(value):.17f}"[:11].encode() in content:
                found.append(f"decimals in {name}")
    return sorted(set(found))


def noises(runs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """(replicas,) for each run and epsilon: what the result is off by, which a test knows."""
    found = {}
    for name, result in runs.items():
        held = result.trace.final[..., 0]  # (agent, epsilon, replica)
        assert np.ptp(held, axis=0).max() == 0, "one result at all agents"
        for e, epsilon in enumerate(result.problem.run_epsilons):
            found[f"{name} {epsilon:g}"] = held[0, e] - truth().mean()
    return found


def shared(runs: Mapping[str, Any]) -> list[str]:
    """Pairs of runs whose noise goes together: subtracting them gives the sum away."""
    found = []
    for (one, first), (other, second) in combinations(noises(runs).items(), 2):
        agree = int((np.sign(first) == np.sign(second)).sum())
        if not LEAST <= agree <= MOST:
            found.append(f"{one} and {other}: {agree} of {REPLICAS}")
    return found


@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_a_masked_run_leaves_nothing_but_the_noised_sum(verb: str, tmp_path: Path) -> None:
    scenario = plant(tmp_path)
    published = call(verb, scenario, "--out", tmp_path / "out")
    published += call(verb, scenario, "--out", tmp_path / "json", "--json")
    answers = run(scenario, (0.25, 0.5) if verb == "sweep" else None, out=tmp_path / "python")
    loot = Loot(published).take(tmp_path, but=("meters.csv", "planted.toml")).show(answers)
    assert len(loot.files) == 8
    assert scanned(loot, scenario) == []


def test_the_truth_is_secret_and_does_tell(tmp_path: Path) -> None:
    """The scan finds what is planted in a table; secret files have the errors, others have not."""
    scenario = plant(tmp_path)
    call("run", scenario, "--out", tmp_path / "out", "--truth")
    files = Loot().take(tmp_path, but=("meters.csv", "planted.toml")).files
    secret = {name: content for name, content in files.items() if ".secret." in name}
    others = {name: content for name, content in files.items() if name not in secret}
    assert len(secret) == len(others) == 2
    assert named(Loot("", secret))
    assert named(Loot("", others)) == []
    assert scanned(Loot("", others), scenario) == []
    leaky = {name: content + repr(truth().mean()).encode() for name, content in others.items()}
    assert len(scanned(Loot("", leaky), scenario)) == 2, "the weakened variant"


@pytest.mark.parametrize("seed", [None, SEED])
def test_epsilons_variants_and_runs_do_not_share_the_noise_of_a_sum(
    seed: int | None, tmp_path: Path
) -> None:
    runs = run(plant(tmp_path, REPLICAS, seed)).results
    assert len(noises(runs)) == 4
    assert shared(runs) == []


def test_noise_that_follows_from_the_seed_alone_would_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weakened twin: one key for all epsilons and variants."""
    from veilsum.simulation import backend, seeds

    monkeypatch.setattr(backend, "noise_key", lambda problem, **_: seeds.noise_seed(problem.seed))
    found = shared(run(plant(tmp_path, REPLICAS, SEED)).results)
    assert any("0.5" in one and one.count("first") == 2 for one in found), "across epsilons"
    assert any("first" in one and "second" in one for one in found), "across variants"
