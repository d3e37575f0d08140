"""Nothing secret leaves in a file: planted signals, and an attacker with all that was left.

Noise comes from the operating system, so these tests draw new numbers every time. An attack counts
if half of the seven agents' signals are known to 1e-4 (by chance: below 1e-9 for each attempt), or
if a secret stands in a file to 9 digits (below 1e-9 for each file).
"""

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.results.attacks import Loot, Victim, recovered
from veilsum import algorithms, families, networks
from veilsum.algorithms.base import Algorithm, Coefficients, Sensitivities
from veilsum.cli.app import app
from veilsum.privacy import SignalDP, calibrate
from veilsum.scenario import Scenario
from veilsum.signals import as_signals
from veilsum.simulation import Problem, Record, RecordedSignals, simulate

pytestmark = [
    pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore::veilsum.errors.DivergenceWarning"),
]

AGENTS, ROUNDS = 7, 9
SIGNALS = np.exp(np.random.default_rng(20).normal(1.0, 0.6, (AGENTS, ROUNDS))) + 0.5
SEED = 6_172_839_405_162_738
SCENARIO = """
name = "planted"
replicas = 2
[network]
graph = "ring:7"
{network}
[family]
name = "log-normal"
sigma = 0.6
bounds = [0.5, 50.0]
[signals]
file = "meters.csv"
[privacy]
protect = "{protect}"
{privacy}
[algorithm]
name = "{algorithm}"
rounds = {rounds}
[record]
every = 1
agents = "all"
[[variant]]
name = "first"
[[variant]]
name = "second"
{second}
"""
KINDS = {
    "global": 'epsilon = [0.5, 1.0]\nradius = 1.0\nsensitivity = "global"',
    "smooth": 'epsilon = [0.5, 1.0]\ndelta = 0.01\nsensitivity = "smooth"',
    "smooth-as-published": 'epsilon = [0.5, 1.0]\ndelta = 0.01\nsensitivity = "smooth-as-published"',
    "nothing": "",
}
NETWORKS = {"push-sum": 'weights = "column-stochastic"', "learn-dynamic": "link_failures = 0.3"}
ALGORITHMS = sorted(
    n for n, a in algorithms.ALGORITHMS.items() if not a.masked
)  # whose noise is local


def plant(
    folder: Path, algorithm: str, kind: str, protect: str = "signal", seed: int | None = None
) -> Any:
    rows = [f"{i},{t},{float(SIGNALS[i, t])!r}" for i, t in np.ndindex(SIGNALS.shape)]
    (folder / "meters.csv").write_text("\n".join(["agent,time,value", *rows]))
    second = "" if kind == "nothing" else "privacy.radius = 2.0"
    protect = "nothing" if kind == "nothing" else protect
    text = SCENARIO.format(
        network=NETWORKS.get(algorithm, 'weights = "metropolis"'), protect=protect, algorithm=algorithm,
        privacy=KINDS[kind], rounds=ROUNDS, second=second,
    )  # fmt: skip
    text = text if seed is None else f"seed = {seed}\n{text}"
    (folder / "planted.toml").write_text(text)
    return folder / "planted.toml"


def call(*words: object) -> Any:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def victims(scenario: Path) -> dict[str, Victim]:
    found = {}
    for job in Scenario.load(scenario).jobs():
        used = ROUNDS if job.problem.algorithm.online else 1
        found[job.name] = Victim(job.problem, SIGNALS[:, :used])
    return found


def attack(folder: Path, scenario: Path, published: str, seeds: tuple[int, ...] = ()) -> list[str]:
    loot = Loot(published).take(folder, but=("meters.csv", "planted.toml"))
    assert loot.files
    return recovered(loot, victims(scenario), seeds)


RUNS = [  # graph-homomorphic refuses scales that follow the signal
    (algorithm, kind)
    for algorithm in ALGORITHMS
    for kind in KINDS
    if algorithm != "graph-homomorphic" or not kind.startswith("smooth")
]


@pytest.mark.parametrize(("algorithm", "kind"), RUNS)
def test_run_leaves_nothing_that_tells_of_a_signal(
    algorithm: Any, kind: Any, tmp_path: Any
) -> None:
    """Used to: the seed gave back smooth noise, and two epsilons or variants every signal."""
    scenario = plant(tmp_path, algorithm, kind)
    published = call("run", scenario, "--out", tmp_path / "out", "--no-figures")
    published += call("run", scenario, "--out", tmp_path / "again", "--no-figures", "--json")
    assert attack(tmp_path, scenario, published) == []


SWEEPS = [(algorithm, "global") for algorithm in ALGORITHMS]
SWEEPS += [(algorithm, "smooth") for algorithm in ("average", "jacobi", "learn", "learn-network")]


@pytest.mark.parametrize("protect", ["signal", "network"])
@pytest.mark.parametrize(("algorithm", "kind"), SWEEPS)
def test_sweep_leaves_nothing_that_tells_of_a_signal(
    algorithm: Any, kind: Any, protect: Any, tmp_path: Any
) -> None:
    scenario = plant(tmp_path, algorithm, kind, protect)
    words = ("--epsilon", "0.25,0.5,2", "--replicas", 3)
    published = call("sweep", scenario, "--out", tmp_path / "out", "--no-figures", *words)
    published += call("run", scenario, "--out", tmp_path / "run", "--no-figures")
    assert attack(tmp_path, scenario, published) == []


@pytest.mark.parametrize("verb", ["run", "sweep"])
@pytest.mark.parametrize("kind", ["global", "smooth", "nothing"])
@pytest.mark.parametrize("algorithm", ["average", "learn"])
def test_figures_and_a_given_seed_tell_nothing_either(
    algorithm: Any, kind: Any, verb: Any, tmp_path: Any
) -> None:
    """The seed used to stand in summary.json, in results.nc and in no note."""
    scenario = plant(tmp_path, algorithm, kind, seed=SEED)
    published = call(verb, scenario, "--out", tmp_path / "out")
    published += call(verb, scenario, "--out", tmp_path / "json", "--json", "--no-figures")
    assert "A seed was given" in published
    loot = Loot(published).take(tmp_path, but=("meters.csv", "planted.toml"))
    everything = b"".join([published.encode(), *loot.files.values()])
    assert str(SEED).encode() not in everything
    assert b"scenario_sha256" not in everything, "a seed can be found by trying them on the hash"
    assert any(name.endswith(".png") for name in loot.files) == (kind != "nothing")
    assert recovered(loot, victims(scenario)) == []


def test_whoever_learns_the_seed_draws_the_noise_again(tmp_path: Any) -> None:
    """The attack works: it is given the seed. That is what the note of a given seed says."""
    for kind in ("global", "smooth"):
        (tmp_path / kind).mkdir()
        scenario = plant(tmp_path / kind, "average", kind, seed=SEED)
        published = call("run", scenario, "--out", tmp_path / kind / "out", "--no-figures")
        found = attack(tmp_path / kind, scenario, published, seeds=(SEED,))
        assert found
        assert all(what.startswith(f"seed {SEED}") for what in found)


@pytest.mark.parametrize("kind", ["global", "smooth"])
def test_noise_that_follows_from_the_seed_alone_gives_the_signals_away(
    kind: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    """The weakened twin: all epsilons and variants with the streams of one seed, as it was."""
    from veilsum.simulation import backend, seeds

    monkeypatch.setattr(backend, "noise_key", lambda problem, **_: seeds.noise_seed(problem.seed))
    scenario = plant(tmp_path, "average", kind, seed=SEED)
    published = call("run", scenario, "--out", tmp_path / "out", "--no-figures")
    found = attack(tmp_path, scenario, published)
    pairs = [what for what in found if what.startswith("subtract")]
    assert any("0.5" in what and "epsilon 1 " in what for what in pairs), "across epsilons"
    assert any("first" in what and "second" in what for what in pairs), "across variants"


def test_another_reading_under_the_same_seed_has_other_noise(tmp_path: Any) -> None:
    """Files of two days with one seed used to differ by the changed signal, and nowhere else."""
    firsts = []
    for day in (0, 1):
        folder = tmp_path / str(day)
        folder.mkdir()
        scenario = plant(folder, "average", "global", seed=SEED)
        if day:
            text = (folder / "meters.csv").read_text()
            (folder / "meters.csv").write_text(text.replace(f"0,0,{SIGNALS[0, 0]}", "0,0,4.5"))
        call("run", scenario, "--out", folder / "out", "--no-figures")
        data = Loot().take(folder).datasets[str(folder / "out" / "results-first.nc")]
        firsts.append(data.private.sel(recorded=0).values)
    assert (np.abs(firsts[0] - firsts[1]) > 1e-9).all()


def test_the_same_run_with_the_same_seed_is_the_same_release(tmp_path: Any) -> None:
    scenario = plant(tmp_path, "average", "global", seed=SEED)
    for name, verb in (("a", "run"), ("b", "run"), ("c", "sweep")):
        more = ("--epsilon", "1,4") if verb == "sweep" else ()
        call(verb, scenario, "--out", tmp_path / name, "--no-figures", *more)
    data = Loot().take(tmp_path).datasets
    a, b, c = (data[str(tmp_path / name / "results-first.nc")].private for name in "abc")
    assert np.array_equal(a, b)
    assert np.array_equal(a.sel(epsilon=1.0), c.sel(epsilon=1.0))
    scenario = plant(tmp_path, "average", "global")
    call("run", scenario, "--out", tmp_path / "d", "--no-figures")
    d = Loot().take(tmp_path).datasets[str(tmp_path / "d" / "results-first.nc")].private
    assert not np.isin(a.values, d.values).any(), "without a seed nobody draws it again"


SUPPORT = families.Support(0.0, 100.0)


class Cautious(Algorithm):
    """Averaging with more noise than it needs: an attribute of its own says how much."""

    name, start = "cautious", Coefficients(innovation=1.0, noise=1.0)
    caution: Any

    def __init__(self, caution: Any) -> None:
        object.__setattr__(self, "caution", caution)

    def coefficients(self, t: Any) -> Any:  # noqa: ARG002 - the same in every round
        return Coefficients(mixing=1.0)

    def sensitivities(self, t: Any) -> Any:
        usual = super().sensitivities(t)
        return Sensitivities(self.caution * usual.signal, self.caution * usual.network)


def custom(statistic: Any, sensitivity: Any) -> Any:
    return families.Custom(statistic, SUPPORT, sensitivity)


def steep(slope: Any) -> Any:
    return lambda radius: slope * radius


def identity(s: Any) -> Any:
    return s


def first_estimates(
    family: Any = None, algorithm: Any = None, net: Any = None, calibration: Any = None
) -> Any:
    """What the agents hold in round 0 under one seed: xi + b d."""
    net = net or networks.metropolis(networks.ring(AGENTS))
    source = RecordedSignals(as_signals(SIGNALS, labels=net.labels))
    algorithm, family = algorithm or algorithms.get("average", net), family or custom(identity, 1.0)
    problem = Problem(net, algorithm, family, source, SignalDP(1.0), ROUNDS, seed=7)
    made = calibration and calibration(problem)
    trace = simulate(problem, Record(every=1), calibration=made)
    assert trace.private is not None
    return trace.private[0].reshape(AGENTS)


def tripled(problem: Any) -> Any:
    made = calibrate(problem.privacy, problem.algorithm, problem.family, problem.network, ROUNDS)
    assert made is not None
    return replace(made, sensitivity=3 * made.sensitivity)


PAIRS: dict[str, Any] = {  # two runs, and what an attacker makes of their estimates if they share the draws
    "sensitivity": (
        {"family": custom(identity, 1.0)}, {"family": custom(identity, 3.0)},
        lambda a, b: (3 * a - b) / 2,
    ),
    "function for a sensitivity": (
        {"family": custom(identity, steep(1.0))}, {"family": custom(identity, steep(3.0))},
        lambda a, b: (3 * a - b) / 2,
    ),
    "lambda for a statistic": (
        {"family": custom(lambda s: s, 1.0)}, {"family": custom(lambda s: 2 * s, 1.0)},
        lambda a, b: b - a,
    ),
    "algorithm": ({"algorithm": Cautious(1.0)}, {"algorithm": Cautious(3.0)}, lambda a, b: (3 * a - b) / 2),
    "calibration": ({}, {"calibration": tripled}, lambda a, b: (3 * a - b) / 2),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_custom_families_and_algorithms_do_not_share_noise(name: Any, monkeypatch: Any) -> None:
    """Used to: their contents were not in the key, and two runs gave every signal by subtraction.

    The weakened twin has a key that follows from the seed alone, and is broken.
    """
    first, second, attack = PAIRS[name]
    found = attack(first_estimates(**first), first_estimates(**second))
    assert (np.abs(found / SIGNALS[:, 0] - 1) > 1e-4).sum() > AGENTS / 2
    assert np.array_equal(first_estimates(**second), first_estimates(**second))
    from veilsum.simulation import backend

    monkeypatch.setattr(backend, "noise_key", lambda *_, **__: 7)
    found = attack(first_estimates(**first), first_estimates(**second))
    assert np.allclose(found, SIGNALS[:, 0], rtol=1e-9)


def test_what_cannot_be_read_has_fresh_noise_under_any_seed() -> None:
    """Used to: a statistic that holds a generator had the noise of every other one."""
    rest = iter(range(3))
    family = custom(lambda s: s + 0 * (rest is None), 1.0)
    first, again = first_estimates(family), first_estimates(family)
    assert (np.abs(first - again) > 1e-9).all()


LATER: dict[str, Any] = {
    "callable": lambda k: networks.from_callable(
        lambda t: networks.ring(AGENTS) if t < 3 + k else networks.complete(AGENTS), size=AGENTS
    ),
    "sequence": lambda k: networks.sequence(
        [networks.ring(AGENTS), networks.complete(AGENTS) if k else networks.ring(AGENTS)]
    ),
    "link failures": lambda k: networks.link_failures(networks.ring(AGENTS), 1e-9, seed=k),
    "asleep": lambda k: networks.asleep(networks.ring(AGENTS), 1e-9, seed=k),
}


@pytest.mark.parametrize("name", LATER)
def test_networks_that_differ_in_later_rounds_do_not_share_noise(name: Any) -> None:
    """Used to: only the weights of round 1 were in the key."""
    first, again, other = (first_estimates(net=LATER[name](k)) for k in (0, 0, 1))
    assert np.array_equal(first, again)
    assert (np.abs(first - other) > 1e-9).all()


@pytest.mark.parametrize("how", ["flag", "scenario"])
def test_an_evaluation_lies_in_secret_files_of_its_own(how: Any, tmp_path: Any) -> None:
    """And it does tell: the same attacks succeed on those files."""
    scenario = plant(tmp_path, "average", "global")
    if how == "scenario":
        text = scenario.read_text().replace("[record]", "[record]\nevaluate = true")
        scenario.write_text(text)
    out = tmp_path / "out"
    published = call("run", scenario, "--out", out, *(["--evaluate"] if how == "flag" else []))
    assert "SECRET" in published
    secret = sorted(path for path in out.rglob("*") if ".secret." in path.name)
    assert {path.name for path in secret} == {
        "evaluation.secret.json", "evaluation-first.secret.nc", "evaluation-second.secret.nc",
        "compare.secret.png", "compare.secret.svg", "network.secret.png", "network.secret.svg",
    }  # fmt: skip
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}
    assert next(iter(json.loads((out / "evaluation.secret.json").read_text()))) == "secret"
    reported = Loot().take(out)
    open_ones = {
        name: content for name, content in reported.files.items() if ".secret." not in name
    }
    assert recovered(Loot("", open_ones), victims(scenario)) == []
    assert b"exact" not in b"".join(path.read_bytes() for path in secret if path.suffix != ".png")
    found = recovered(Loot("", {str(p): p.read_bytes() for p in secret}), victims(scenario))
    assert any(what.startswith("solve") for what in found)
    assert any(what.startswith("scan") for what in found)
    again = call("run", scenario, "--out", out, "--no-figures", "--force") if how == "flag" else ""
    assert how == "scenario" or again.count("is of an earlier run, and secret") == len(secret)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("run", "--jobs", "2"), "not copied to other processes"),
        (("sweep", "--jobs", "2"), "not copied to other processes"),
        (("sweep", "--resume"), "written to no file"),
    ],
)
def test_pools_and_folders_of_tasks_refuse_measured_signals(
    words: Any, why: Any, tmp_path: Any
) -> None:
    scenario = plant(tmp_path, "average", "global")
    verb, *more = words
    command = [verb, str(scenario), "--out", str(tmp_path / "out"), *more]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 1
    assert why in done.output
    assert not list((tmp_path / "out").rglob("*"))


UP = """
name = "planted"
[network]
graph = "ring:7"
weights = "{weights}"
[family]
name = "log-normal"
sigma = 0.6
bounds = [0.5, 50.0]
[signals]
file = "meters.csv"
[privacy]
protect = "{protect}"
epsilon = 0.1
[algorithm]
name = "{algorithm}"
rounds = 9
"""


@pytest.mark.parametrize(
    ("algorithm", "protect"),
    [
        ("average", "signal"),
        ("push-sum", "signal"),
        ("push-sum-learn", "signal"),
        ("learn", "signal"),
        ("learn-network", "signal"),
    ],
)
def test_up_leaves_nothing_that_tells_of_a_signal(
    algorithm: Any, protect: Any, tmp_path: Any
) -> None:
    """Targets and errors used to stand beside exact noise: least squares gave back every signal.

    The table's epsilon was 0.1 beside `proved`, and the sentence's twelve times as much.
    """
    plant(tmp_path, algorithm, "global")
    scenario = tmp_path / "planted.toml"
    weights = "column-stochastic" if algorithm.startswith("push-sum") else "metropolis"
    scenario.write_text(UP.format(algorithm=algorithm, protect=protect, weights=weights))
    out, words = tmp_path / "out", ("--processes", 2, "--insecure", "--deadline", 30)
    published = call("up", scenario, "--out", out, "--timeout", 120, *words)
    assert attack(tmp_path, scenario, published) == []
    said = json.loads((out / "summary.json").read_text())["variants"]["planted"]
    guaranteed = said["guarantee"]["epsilon"]
    assert said["results"][0]["guarantee"]["epsilon"] == guaranteed
    row = next(line.split() for line in published.splitlines() if line.startswith("planted  "))
    assert float(row[4]) == pytest.approx(guaranteed, rel=1e-3)
    assert f"epsilon = {guaranteed:.4g}" in published


def test_up_with_an_evaluation_gives_every_signal_back_from_the_secret_files(tmp_path: Any) -> None:
    plant(tmp_path, "average", "global")
    scenario = tmp_path / "planted.toml"
    scenario.write_text(UP.format(algorithm="average", protect="signal", weights="metropolis"))
    out, words = tmp_path / "out", ("--processes", 1, "--insecure", "--deadline", 30, "--evaluate")
    call("up", scenario, "--out", out, "--timeout", 120, "--no-figures", *words)
    files = {str(p): p.read_bytes() for p in out.rglob("*.secret.*")}
    assert b"exact" not in b"".join(files.values())
    assert any(w.startswith("solve") for w in recovered(Loot("", files), victims(scenario)))
