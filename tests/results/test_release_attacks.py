"""Nothing secret leaves in a file or on a screen: planted signals, and an attacker with all that was left.

Noise comes from the operating system, so these tests draw new numbers every time. An attack counts
if half of the seven agents' signals are known to 1e-4 (by chance: below 1e-9 for each attempt), or
if a secret stands in a file to 9 digits (below 1e-9 for each file).
"""

import csv
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
from veilsum.front import Answers
from veilsum.front.of_runs import of_runs
from veilsum.privacy import SignalDP, plan
from veilsum.scenario import Scenario, run
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
    n for n, a in algorithms.ALGORITHMS.items() if not a.summed
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


def attack(
    folder: Path,
    scenario: Path,
    published: str,
    seeds: tuple[int, ...] = (),
    answers: Answers | None = None,
) -> list[str]:
    """What files, texts and, of a run in Python, all that it shows and all messages tell."""
    loot = Loot(published).take(folder, but=("meters.csv", "planted.toml"))
    assert {Path(name).suffix for name in loot.files} == {".csv", ".html"}
    if answers is not None:
        loot.show(answers)
    return recovered(loot, victims(scenario), seeds)


def in_python(folder: Path, scenario: Path, epsilons: Any = None, **more: Any) -> Answers:
    """The same in Python, with its files."""
    loaded = Scenario.load(scenario).with_(**more) if more else Scenario.load(scenario)
    return run(loaded, epsilons, out=folder / "python")


def held(answers: Answers) -> np.ndarray:
    """What agents of the first variant held."""
    found = answers.results["first"].trace.private
    assert found is not None
    return found


RUNS = [  # noise that messages carry refuses scales that follow the signal
    (algorithm, kind)
    for algorithm in ALGORITHMS
    for kind in KINDS
    if not (algorithms.ALGORITHMS[algorithm].perturbs_messages and kind.startswith("smooth"))
]


@pytest.mark.parametrize(("algorithm", "kind"), RUNS)
def test_run_leaves_nothing_that_tells_of_a_signal(
    algorithm: Any, kind: Any, tmp_path: Any
) -> None:
    """Used to: the seed gave back smooth noise, and two epsilons or variants every signal."""
    scenario = plant(tmp_path, algorithm, kind)
    published = call("run", scenario, "--out", tmp_path / "out")
    published += call("run", scenario, "--out", tmp_path / "again", "--json")
    answers = in_python(tmp_path, scenario)
    assert attack(tmp_path, scenario, published, answers=answers) == []


SWEEPS = [(algorithm, "global") for algorithm in ALGORITHMS]
SWEEPS += [(algorithm, "smooth") for algorithm in ("average", "jacobi", "learn", "learn-network")]


@pytest.mark.parametrize("protect", ["signal", "network"])
@pytest.mark.parametrize(("algorithm", "kind"), SWEEPS)
def test_sweep_leaves_nothing_that_tells_of_a_signal(
    algorithm: Any, kind: Any, protect: Any, tmp_path: Any
) -> None:
    scenario = plant(tmp_path, algorithm, kind, protect)
    words = ("--epsilon", "0.25,0.5,2", "--replicas", 3)
    published = call("sweep", scenario, "--out", tmp_path / "out", *words)
    answers = in_python(tmp_path, scenario, (0.25, 0.5, 2.0), replicas=3)
    assert attack(tmp_path, scenario, published, answers=answers) == []


@pytest.mark.parametrize("verb", ["run", "sweep"])
@pytest.mark.parametrize("kind", ["global", "smooth", "nothing"])
@pytest.mark.parametrize("algorithm", ["average", "learn"])
def test_a_given_seed_is_in_no_file_and_on_no_screen(
    algorithm: Any, kind: Any, verb: Any, tmp_path: Any
) -> None:
    """Neither the seed, nor a digest of a text that it is in, nor that text."""
    scenario = plant(tmp_path, algorithm, kind, seed=SEED)
    published = call(verb, scenario, "--out", tmp_path / "out")
    published += call(verb, scenario, "--out", tmp_path / "json", "--json")
    assert "A seed was given" in published
    answers = in_python(tmp_path, scenario)
    loot = Loot(published).take(tmp_path, but=("meters.csv", "planted.toml")).show(answers)
    assert str(SEED) not in loot.text
    assert Scenario.load(scenario).digest not in loot.text, "seeds can be tried on it"
    assert "[[variant]]" not in loot.text
    assert recovered(loot, victims(scenario)) == []
    without = plant(tmp_path, algorithm, kind)
    call(verb, without, "--out", tmp_path / "out")
    page = (tmp_path / "out.html").read_text()
    assert Scenario.load(without).digest in page, "the weakened variant: a text without a seed"
    assert "[[variant]]" in page


def test_whoever_learns_the_seed_draws_the_noise_again(tmp_path: Any) -> None:
    """The attack works: it is given the seed. That is what the note of a given seed says."""
    for kind in ("global", "smooth"):
        (tmp_path / kind).mkdir()
        scenario = plant(tmp_path / kind, "average", kind, seed=SEED)
        answers = in_python(tmp_path / kind, scenario)
        found = attack(tmp_path / kind, scenario, "", (SEED,), answers)
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
    found = attack(tmp_path, scenario, "", answers=in_python(tmp_path, scenario))
    pairs = [what for what in found if what.startswith("subtract")]
    assert any("0.5" in what and "epsilon 1 " in what for what in pairs), "across epsilons"
    assert any("first" in what and "second" in what for what in pairs), "across variants"


def test_another_reading_under_the_same_seed_has_other_noise(tmp_path: Any) -> None:
    """Estimates of two days with one seed used to differ by the changed signal, and nowhere else."""
    firsts = []
    for day in (0, 1):
        folder = tmp_path / str(day)
        folder.mkdir()
        scenario = plant(folder, "average", "global", seed=SEED)
        if day:
            text = (folder / "meters.csv").read_text()
            (folder / "meters.csv").write_text(text.replace(f"0,0,{SIGNALS[0, 0]}", "0,0,4.5"))
        firsts.append(held(in_python(folder, scenario))[0])
    assert (np.abs(firsts[0] - firsts[1]) > 1e-9).all()


def test_the_same_run_with_the_same_seed_is_the_same_release(tmp_path: Any) -> None:
    scenario = plant(tmp_path, "average", "global", seed=SEED)
    a, b, c = (held(in_python(tmp_path, scenario, e)) for e in (None, None, (1.0, 4.0)))
    assert np.array_equal(a, b)
    assert np.array_equal(a[:, :, 1], c[:, :, 0]), "epsilon 1"
    for name in ("out", "again"):
        call("run", scenario, "--out", tmp_path / name)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()
    other = held(in_python(tmp_path, plant(tmp_path, "average", "global")))
    assert not np.isin(a, other).any(), "without a seed nobody draws it again"


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
    family: Any = None, algorithm: Any = None, net: Any = None, planned: Any = None
) -> Any:
    """What the agents hold in round 0 under one seed: xi + b d."""
    net = net or networks.metropolis(networks.ring(AGENTS))
    source = RecordedSignals(as_signals(SIGNALS, labels=net.labels))
    algorithm, family = algorithm or algorithms.get("average", net), family or custom(identity, 1.0)
    problem = Problem(net, algorithm, family, source, SignalDP(1.0), ROUNDS, seed=7)
    made = planned and planned(problem)
    trace = simulate(problem, Record(every=1), plan=made)
    assert trace.private is not None
    return trace.private[0].reshape(AGENTS)


def tripled(problem: Any) -> Any:
    made = plan(problem.privacy, problem.family, problem.algorithm, problem.network, ROUNDS)
    return replace(made, statistic=replace(made.statistic, l1=3 * made.sensitivity, l2=None))


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
    "plan": ({}, {"planned": tripled}, lambda a, b: (3 * a - b) / 2),
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


@pytest.mark.parametrize("how", ["command", "python"])
def test_the_truth_is_in_secret_files_of_its_own(how: Any, tmp_path: Any) -> None:
    """And it does tell: the same attacks succeed on those files."""
    scenario = plant(tmp_path, "average", "global")
    out = tmp_path / "out" / "planted"
    if how == "command":
        published = call("run", scenario, "--out", out, "--truth")
        assert "SECRET" in published
        assert "disagreement" not in call("run", scenario, "--out", out, "--truth", "--json")
    else:
        run(scenario, out=out, truth=True)
    files = Loot().take(tmp_path / "out").files
    secret = {name: content for name, content in files.items() if ".secret." in name}
    assert {Path(name).name for name in files} == {
        f"planted{more}.{kind}" for more in ("", ".secret") for kind in ("html", "csv")
    }
    assert {stat.S_IMODE(Path(name).stat().st_mode) for name in secret} == {0o600}
    assert all(b"SECRET" in content for name, content in secret.items() if name.endswith(".html"))
    others = {name: content for name, content in files.items() if name not in secret}
    assert recovered(Loot("", others), victims(scenario)) == []
    found = recovered(Loot("", secret), victims(scenario))
    assert any(what.startswith("names") for what in found)
    assert any(what.startswith("scan") for what in found)
    again = call("run", scenario, "--out", out)
    assert again.count("is of an earlier run, and secret") == len(secret)


class Forbidden:
    """Raises wherever it is used."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the truth was read: {name}")

    __getitem__ = __len__ = __iter__ = __array__ = __float__ = __getattr__


COMPARED = ("total", "privacy", "decentralisation", "target", "noiseless")


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("algorithm", ["average", "learn", "learn-network"])
def test_nothing_that_is_shown_even_reads_the_truth(
    algorithm: Any, kind: Any, tmp_path: Any
) -> None:
    """Errors, targets and estimates without noise raise when they are read; a secret sheet does."""
    protect = "network" if algorithm == "learn-network" and kind == "global" else "signal"
    results = run(plant(tmp_path, algorithm, kind, protect)).results
    hidden: Any = dict.fromkeys(COMPARED, Forbidden())
    blind = {name: replace(r, trace=replace(r.trace, **hidden)) for name, r in results.items()}
    answers = of_runs(blind)
    Loot().show(answers)
    answers.save(tmp_path / "out")
    if answers.best.low is not None:
        answers.plot()
    with pytest.raises(AssertionError, match="the truth was read"):
        Loot().show(of_runs(blind, truth=True))


@pytest.mark.parametrize("kind", ["smooth", "smooth-as-published"])
def test_no_interval_is_as_wide_as_the_signals_are_large(kind: Any, tmp_path: Any) -> None:
    """Of smooth noise the scale is read off the signals: what shows it is nowhere."""
    scenario = plant(tmp_path, "average", kind)
    answers = run(scenario)
    assert all(result.interval_is_private for result in answers.results.values())
    frame = answers.to_frame()
    assert not frame["of"].str.contains("these readings").any()
    widths = set()
    for result in answers.results.values():
        for epsilon in result.problem.run_epsilons:
            found = result.intervals(epsilon, of="readings")
            widths |= {float(i.high - i.low) for i in found.values()}
    shown = (frame.high - frame.low).dropna()
    assert widths
    assert not np.isclose(shown.to_numpy()[:, None], list(widths), rtol=1e-9).any()
    wide = run(plant(tmp_path, "average", "global")).to_frame()
    assert wide["of"].str.contains("these readings").any(), "the weakened variant"


def test_no_estimates_of_all_rounds_are_shown(tmp_path: Any) -> None:
    """Of Network DP they are what neighbours see, of any other the messages: a sheet has the last."""
    for protect, algorithm in (("network", "learn-network"), ("signal", "learn")):
        answers = run(plant(tmp_path, algorithm, "global", protect))
        loot = Loot().show(answers)
        assert answers.to_frame()["round"].isna().all()
        for result in answers.results.values():
            assert result.trace.private is not None
            for value in set(result.trace.private.ravel().tolist()) - {0.0}:
                assert repr(value) not in loot.text
        assert repr(float(answers.value)) in loot.text, "the weakened variant: what may be shown"


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
    assert not list(tmp_path.glob("out*"))


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
    published = call("up", scenario, "--out", out, "--timeout", 120, "--json", *words)
    files = {str(path): path.read_bytes() for path in tmp_path.glob("out.*")}
    assert len(files) == 2
    assert recovered(Loot(published, files), victims(scenario)) == []
    (said,) = json.loads(published[published.index("{") :])["answers"]
    assert said["guarantee"]["epsilon"] == said["epsilon"]
    (row,) = list(csv.DictReader(files[str(tmp_path / "out.csv")].decode().splitlines()))[:1]
    assert float(row["epsilon"]) == pytest.approx(said["epsilon"])


def test_up_tells_the_truth_in_secret_files_alone(tmp_path: Any) -> None:
    plant(tmp_path, "average", "global")
    scenario = tmp_path / "planted.toml"
    scenario.write_text(UP.format(algorithm="average", protect="signal", weights="metropolis"))
    out, words = tmp_path / "out", ("--processes", 1, "--insecure", "--deadline", 30, "--truth")
    call("up", scenario, "--out", out, "--timeout", 120, *words)
    files = {str(p): p.read_bytes() for p in tmp_path.glob("out.secret.*")}
    assert any(w.startswith("names") for w in recovered(Loot("", files), victims(scenario)))
    others = {str(p): p.read_bytes() for p in tmp_path.glob("out.[ch]*")}
    assert len(others) == 2
    assert recovered(Loot("", others), victims(scenario)) == []
