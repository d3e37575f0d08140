"""Hundreds of wrong inputs: each is answered by veilsum's own error, or exit code 2, in words.

A message says what is wrong and what was expected; none shows a traceback, or takes the value of
a signal into its text.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import veilsum as vs
from veilsum.algorithms import Average, Coefficients
from veilsum.cli.app import app
from veilsum.errors import VeilsumError
from veilsum.families import Custom, Support

RING = vs.networks.metropolis(vs.networks.load("ring:5"))
NORMAL, REQUEST = vs.families.Normal(1.0), vs.privacy.SignalDP(1.0)
SIGNALS = np.arange(5.0)
NAN, INF, HUGE = math.nan, math.inf, 10**400
EXPECTED = re.compile(
    r"must|need|expect|allowed|try|found|choose|give|known|did you mean|takes|there is no|ask for|"
    r"at most|leave|remove|narrow|check the path|run them in parts|fill|"
    r"cannot|fewer|missing|are free|write|not valid|same agents|has no|do not|does not",
    re.IGNORECASE,
)


class Thing:
    """Something that nothing here takes."""


NOT_POSITIVE = [
    NAN,
    INF,
    -INF,
    0,
    -1,
    -0.5,
    "1",
    None,
    1j,
    [1.0],
    (1.0, 2.0),
    Thing(),
    True,
    {},
    HUGE,
]
NOT_COUNTS = [0, -1, 1.5, 5.0, NAN, INF, "5", None, 1j, [5], Thing(), True, {}]
NOT_ARRAYS = ["x", ["a"] * 5, [1j] * 5, [object()] * 5, Thing(), [[1], [1, 2], [3], [4], [5]],
              [NAN] * 5, [INF] * 5, [-INF] * 5, [None] * 5, np.zeros((2, 2, 2, 2)), np.zeros(4),
              np.zeros(0), np.zeros((5, 0)), np.array(["2024-01-01"] * 5, dtype="datetime64[D]"),
              b"12345", {"a": 1.0}, {}, 5.0, None, np.full(5, 1e400), (x for x in range(5)),
              [[1, NAN]] * 5, "no-such-file.csv", [1, 2, 3, 4, "five"], [1 + 0j] * 5]  # fmt: skip


def on_network(algorithm: str, network: Any) -> Any:
    return sweep(network=network, algorithm=algorithm)


def sweep(**changed: Any) -> Any:
    asked = {"signals": SIGNALS, "network": RING, "family": NORMAL, "privacy": REQUEST, "rounds": 3}
    return vs.sweep(**{**asked, **changed}).result


def custom(statistic: Any, **options: Any) -> Any:
    given = {"support": Support(low=0.0, high=10.0), "sensitivity": 1.0, **options}
    return Custom(statistic, **given)


class Odd(Average):
    """An algorithm with one coefficient of choice."""

    value: Any

    def __init__(self, value: Any) -> None:
        object.__setattr__(self, "value", value)

    def coefficients(self, t: int) -> Coefficients:  # noqa: ARG002
        return Coefficients(mixing=self.value)


def _api() -> list[tuple[str, Callable[[], Any]]]:
    cases: list[tuple[str, Callable[[], Any]]] = []

    def add(name: str, values: list[Any], call: Callable[[Any], Any]) -> None:
        for k, value in enumerate(values):
            cases.append((f"{name} {k}: {type(value).__name__}", partial(call, value)))

    p, f, n = vs.privacy, vs.families, vs.networks
    for kind in (p.SignalDP, p.NetworkDP):
        add(f"{kind.__name__} epsilon", NOT_POSITIVE, kind)
    add(
        "radius",
        [v for v in NOT_POSITIVE if v is not None and v is not INF and v != INF],
        lambda v: p.SignalDP(1.0, radius=v),
    )
    add("delta", [NAN, INF, -1, 1.0, 2, "0", None, 1j, Thing()], lambda v: p.SignalDP(1.0, v))
    add("sensitivity", ["local", "", None, 3, ["global"]], lambda v: p.SignalDP(1.0, sensitivity=v))
    add("sigma", [v for v in NOT_POSITIVE if v is not None], lambda v: f.Normal(v))
    add("log sigma", NOT_POSITIVE, lambda v: f.LogNormal1p(v))
    add("shape", NOT_POSITIVE, lambda v: f.Weibull(v))
    add("rate", NOT_POSITIVE, lambda v: f.GammaKnownRate(v))
    add("minimum", NOT_POSITIVE, lambda v: f.Pareto(v))
    add("location", [NAN, INF, "1", None, 1j, [1], Thing()], lambda v: f.Laplace(v))
    add("categories", [*NOT_COUNTS, 1], lambda v: f.Categorical(v))
    add("matrix", ["x", None, 1.0, [[1, 2]], [[1, 2], [3, 4]], [[NAN]], [[-1.0]], [[1j]], Thing(),
                   [["a"]], []], lambda v: f.MultivariateNormal(v))  # fmt: skip
    add("bounds", ["ab", "12", 5, (1,), (1, 2, 3), (2, 1), (1, 1), (NAN, 1), ("a", None), (1j, 2),
                   (INF, None), {}, Thing()], lambda v: f.Normal(1.0, bounds=v))  # fmt: skip
    add("radius of a modulus", [NAN, 0, -1, "1", None, 1j, [1], Thing(), True], NORMAL.moves)
    add("statistic", [["a"], [1j], [NAN], [INF], Thing(), None], NORMAL.statistic)
    add("family name", ["norml", "", None, 3, Thing()], lambda v: f.get(v))
    add("family option", [{"sigm": 1}, {"sigma": "x"}], lambda v: f.get("normal", **v))
    add("mean of a family", ["x", [1j], [[1, 2], [3]], np.zeros((2, 3))], NORMAL.parameter)
    add("parameter", ["x", None, 1j, NAN, INF, [1, 2], {}], lambda v: sweep(signals={"mu": v}))
    add("custom statistic", [3, None, "s"], lambda v: custom(v))
    add("custom support", [(0, 1), None, "reals"], lambda v: custom(abs, support=v))
    add("custom sensitivity", [0, -1, NAN, "1", None, 1j], lambda v: custom(abs, sensitivity=v))
    add("custom sensitivity function", [0.0, -1, NAN, 1j, "x", None],
        lambda v: custom(abs, sensitivity=lambda _: v).moves(1.0))  # fmt: skip
    add("custom values", [NAN, INF, 1j], lambda v: sweep(family=custom(lambda s: s * v)))
    add("epsilons", ["12", b"12", 1.0, None, {1: 2}, {1.0}, [NAN], [INF], [0], [-1], ["1"], [1j],
                     [[1, 2]], [True], [1, 1], Thing(), np.ones((2, 2)), [None]],
        lambda v: sweep(epsilons=v))  # fmt: skip
    add("epsilons without noise", [[1.0], (0.5, 1.0)],
        lambda v: sweep(epsilons=v, privacy=p.NoPrivacy()))  # fmt: skip
    add("strict", ["no", 1, None, 0.0, []], lambda v: sweep(strict=v))
    add("scenario text", [b"name = 1", None, 3, ["x"], {}], vs.Scenario.parse)
    add("scenario path", [{}, b"x.toml", 3, None, ["x.toml"]], vs.run)
    add("family", [None, "norml", "normal", 3, f.Bernoulli, Thing(), ["normal"], {}],
        lambda v: sweep(family=v))  # fmt: skip
    add("privacy", [None, 1.0, "signal", p.SignalDP, Thing(), {}, []], lambda v: sweep(privacy=v))
    add(
        "algorithm",
        [None, 3, "avarage", "", Average, Thing(), ["average"], {}],
        lambda v: sweep(algorithm=v),
    )
    add("coefficient", [NAN, INF, 1j, None, "1", [1.0]], lambda v: sweep(algorithm=Odd(v)))
    add("record", [5, "all", {"every": 1}, vs.Record, Thing(), []], lambda v: sweep(record=v))
    add("progress", [5, "bar", []], lambda v: sweep(progress=v))
    add("network", [None, "rong:5", "ring:x", "ring:", 5, n.load("ring:5"), np.eye(5),
                    Thing(), n.Mixing, "no-such-file.csv"], lambda v: sweep(network=v))  # fmt: skip
    add("rounds", [*NOT_COUNTS, 10**12, HUGE], lambda v: sweep(rounds=v))
    add("replicas", [*NOT_COUNTS, 2**32], lambda v: sweep(replicas=v))
    add("rng", [-1, 1.5, "x", NAN, True, Thing(), [1]], lambda v: sweep(rng=v))
    add("engine", ["gpu", None, 3, ["local"]], lambda v: sweep(engine=v))
    add("signals", NOT_ARRAYS, lambda v: sweep(signals=v))
    add("misspelt", ["replica", "epsilon", "round", "famly", "records", "dimensions", "eta"],
        lambda v: sweep(**{v: 2}))  # fmt: skip
    add("algorithm option", [{"dimension": "x"}, {"dimension": -1}, {"dimension": NAN}, {"dimention": 2}],
        lambda v: sweep(algorithm="jacobi", **v))  # fmt: skip
    add("eta", [0, -1, NAN, INF, "x"], lambda v: sweep(algorithm="first-order", eta=v))
    dynamic = n.link_failures(n.load("ring:5"), 0.2, seed=1)
    directed = n.row_stochastic(n.load("ring:5"))
    for algorithm in ("chebyshev", "jacobi"):
        add(
            f"{algorithm} on",
            [dynamic, directed],
            partial(on_network, algorithm),
        )
    add("every", [*NOT_COUNTS[:4], "x"], lambda v: vs.Record(every=v))
    add("recorded agents", [[], ["nobody"], [99]], lambda v: sweep(record=vs.Record(agents=v)))
    add("graph", [5, None, Thing(), "ring:x", "ring:2", "ring:-3", "ring:2.5", "torus:3x",
                  "torus:ax2", "hypercube:99", "complete:100000", "erdos-renyi:10,2", "", "nope",
                  "a/b.csv"], n.load)  # fmt: skip
    add("as_signals option", ["carry", NAN, INF, None, Thing()],
        lambda v: vs.signals.as_signals(SIGNALS, missing=v))  # fmt: skip
    add("clip", [(2, 1), (None, None), (NAN, 1), ("a", 2), (1, "b")],
        lambda v: vs.signals.as_signals(SIGNALS).clip(*v))  # fmt: skip
    return cases


API = _api()


@pytest.mark.parametrize("call", [call for _, call in API], ids=[name for name, _ in API])
def test_calls(call: Callable[[], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(VeilsumError) as caught:
            call()
    said = str(caught.value)
    assert len(said) > 20
    assert EXPECTED.search(said), said


BASE = {
    "network": {"graph": '"ring:7"'},
    "family": {"name": '"normal"', "sigma": "1.0"},
    "signals": {"draw": "{ mu = 1.0 }"},
    "privacy": {"protect": '"signal"', "epsilon": "1.0"},
    "algorithm": {"name": '"average"', "rounds": "5"},
}
SCENARIOS: list[tuple[str, str, str]] = [
    *(("network", "graph", v) for v in ('"rong:7"', '""', "7", '"ring:x"', '"ring:2"', "true", "[]",
                                        '"no.csv"', '"ring"', '"torus:3x"')),
    *(("network", "weights", v) for v in ('"heavy"', "1", '""', '"column-stochastic"')),
    *(("network", "link_failures", v) for v in ("0", "1", "-0.1", "nan", '"x"', "2")),
    *(("network", "directed", v) for v in ('"yes"', "1", "true")),
    *(("network", "options", v) for v in ("{ size = 5 }", "{ nope = 1 }", "3")),
    *(("family", "name", v) for v in ('"norml"', "1", '""', '"log-normal"', '"poisson"')),
    *(("family", "sigma", v) for v in ("0", "-1", "nan", "inf", '"1"', "[1.0]", "true")),
    *(("family", "bounds", v) for v in ("[1]", "[2, 1]", '"ab"', "[nan, 1]", "5", "[1, 1]")),
    *(("signals", "draw", v) for v in ("{}", "{ mu = nan }", '{ mu = "x" }', "{ nu = 1 }", "3",
                                       "{ mu = [1, 2] }", "{ mu = inf }", "{ mu = 1, sigma = 2 }")),
    *(("signals", "file", v) for v in ('"no.csv"', '""', "3")),
    *(("privacy", "protect", v) for v in ('"signals"', "1", '""', '"nothing"')),
    *(("privacy", "epsilon", v) for v in ("0", "-1", "nan", "inf", '"1"', "[]", "[1, 1]", "true",
                                          "[1, 0]", '["1"]', "1e-320")),
    *(("privacy", "delta", v) for v in ("-1", "1", "nan", '"0"', "0.5")),
    *(("privacy", "radius", v) for v in ("0", "-1", "nan", '"1"', "inf", "1e300")),
    *(("privacy", "sensitivity", v) for v in ('"local"', "1", '"smooth"')),
    *(("algorithm", "name", v) for v in ('"avarage"', "1", '""', '"push"')),
    *(("algorithm", "rounds", v) for v in ("0", "-1", "1.5", '"5"', "nan", "true", "1000000000000",
                                     "10000000000000000000000000")),
    *(("algorithm", "eta", v) for v in ("1", "nan")),
    *(("record", "every", v) for v in ("0", "-1", "1.5", '"x"')),
    *(("record", "agents", v) for v in ("0", "[]", '"some"', "[99]", '["nobody"]')),
    *(("", "seed", v) for v in ("-1", "1.5", '"x"', "9223372036854775808", "nan")),
    *(("", "replicas", v) for v in ("0", "-1", "1.5", "70000", '"x"')),
    *(("", "name", v) for v in ('""', "1", '"a/b"', '"../x"')),
    *(("", "typo", v) for v in ("1", "{}")),
    *(("typo", "key", v) for v in ("1",)),
    *(("", "variant", v) for v in ("1", "[1]", "[{}]", '[{ name = "a" }, { name = "a" }]')),
]  # fmt: skip


def text_of(section: str, key: str, value: str) -> str:
    tables = {name: dict(entries) for name, entries in BASE.items()}
    top = f"{key} = {value}\n" if not section else ""
    if section:
        tables.setdefault(section, {})[key] = value
    if key == "file":
        del tables["signals"]["draw"]
    lines = [f"[{name}]\n" + "\n".join(f"{k} = {v}" for k, v in entries.items())
             for name, entries in tables.items()]  # fmt: skip
    return top + "\n".join(lines) + "\n"


@pytest.mark.parametrize(("section", "key", "value"), SCENARIOS)
def test_scenarios(section: str, key: str, value: str, tmp_path: Path) -> None:
    """Exit code 2 (1 for a graph, weights or data that fail), one message with file and line."""
    path = tmp_path / "wrong.toml"
    path.write_text(text_of(section, key, value))
    done = CliRunner().invoke(app, ["run", str(path), "--out", str(tmp_path / "o")])
    data = (section, key) in {("network", "graph"), ("network", "weights"), ("signals", "file")}
    assert done.exit_code == 2 or (data and done.exit_code == 1), done.output
    assert isinstance(done.exception, SystemExit)
    assert re.match(r"error: .*wrong\.toml", done.stderr), done.stderr
    assert EXPECTED.search(done.stderr), done.stderr
    assert not list(tmp_path.glob("o*"))


COMMANDS = [
    *("nope", "run", "run no.toml", "run .", "sweep", "plan", "plan no.toml", "graph", "audit"),
    *(f"run s.toml {w}" for w in (
        "--jobs 0", "--jobs x", "--seed -1", "--seed 1.5", "--seed 99999999999999999999", "--out",
        "--replicas 0", "--replicas 100000", "--engine gpu", "--nope", "extra",
        "--checkpoint-every 5", "--checkpoint-every 0", "--engine mpi --jobs 2")),
    *(f"sweep s.toml --epsilon {w}" for w in (
        "0", "-1", "1:2", "abc", "1,1", "inf", "nan", "1e400", "1:2:99999999999", "1,", "1:1:3")),
    *(f"sweep s.toml {w}" for w in ("--jobs -1", "--nope", "--seed x", "--checkpoint-every 3")),
    *(f"plan s.toml {w}" for w in (
        "--error -1", "--error 0", "--error nan", "--error x", "--error inf", "--epsilon 0",
        "--epsilon -2", "--epsilon inf", "--rounds 0", "--rounds x", "--norm l3", "--variant none",
        "--deviation -1", "--deviation x", "--deviation inf", "--nope",
        "--error 0.1 --epsilon 1 --rounds 3")),
    *(f"graph {w}" for w in (
        "rong:3", "ring", "ring:x", "ring:2", "ring:-5", "ring:2.5", "torus:3x", "torus:0x5",
        "no.csv", "ring:9 --weights nope", "complete:100000", "hypercube:99", "erdos-renyi:10",
        "erdos-renyi:10,2", "watts-strogatz:5,9,0.1", "random-regular:5,3", "feeder:0", "star:1",
        "path:0", "grid:axb", "ring:99999999999999999999", "--nope", "ring:9 --directed")),
    "families --nope", "families extra", "algorithms --nope", "algorithms extra", "init s.toml",
    "init --nope", "init nowhere/x.toml", "audit no.toml", "audit s.toml --nope",
    "audit s.toml --trials 0", "audit s.toml --trials x", "audit s.toml --rounds -1",
    "reproduce --nope", "reproduce nothing", "reproduce --seed x", "agent", "agent no.toml",
    "agent --nope", "up", "up no.toml", "up s.toml --nope", "up s.toml --agents 1",
    "up s.toml --processes 0", "up s.toml --timeout -1", "keys nope", "keys issue",
    "keys init --nope", "keys issue ../a", "keys issue a --days 0", "keys issue a --days x",
    "keys issue a --host x:1", "keys list --nope", "ledger nope", "ledger show", "ledger show no",
    "ledger verify no", "ledger show no --last -1", "ledger verify --nope",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(text_of("algorithm", "rounds", "5"))
    done = CliRunner().invoke(app, command.split())
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit)
    assert "Traceback" not in done.output
    assert done.stdout == "" or command in ("keys", "ledger")
    assert len(done.stderr) > 20


def test_there_are_hundreds() -> None:
    """So that nobody thins them out unseen."""
    assert len(API) + len(SCENARIOS) + len(COMMANDS) >= 600


def test_only_files_of_veilsum_are_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page and the table of a study are made again freely; readings of that name are not touched."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(text_of("algorithm", "rounds", "5"))

    def call(*words: str) -> Any:
        return CliRunner().invoke(app, ["run", "s.toml", *words])

    assert call().exit_code == call().exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.csv", "s.html", "s.toml"]
    (tmp_path / "here.csv").write_text("kwh\n1.5\n")
    refused = call("--out", "here")
    assert refused.exit_code == 2
    assert "here.csv" in refused.stderr
    assert "--out STEM" in refused.stderr
    assert (tmp_path / "here.csv").read_text() == "kwh\n1.5\n"
    assert not (tmp_path / "here.html").exists()


def test_an_interrupted_sweep_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is finished is kept without being asked for, and gone when all is well."""
    from veilsum.simulation.mpi import sweeps

    monkeypatch.chdir(tmp_path)
    variants = "".join(f'[[variant]]\nname = "{v}"\n' for v in "abc")
    (tmp_path / "s.toml").write_text(text_of("algorithm", "rounds", "5") + variants)
    whole: Any = vars(sweeps)["simulate"]
    done: list[Any] = []

    def counted(problem: Any, record: Any) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(problem.epsilons)
        return whole(problem, record)

    words = ["sweep", "s.toml", "--epsilon", "1,2,4", "--out", "o"]
    monkeypatch.setattr(sweeps, "simulate", counted)
    assert CliRunner().invoke(app, words).exit_code == 130
    assert len(list((tmp_path / "o.parts" / "tasks").glob("*.npz"))) == 2
    asked: list[Any] = []

    def noted(problem: Any, record: Any) -> Any:
        asked.append(problem.epsilons)
        return whole(problem, record)

    monkeypatch.setattr(sweeps, "simulate", noted)
    assert CliRunner().invoke(app, [*words, "--resume"]).exit_code == 0
    assert asked == [(1.0,), (2.0,), (4.0,)]  # those of the third variant
    assert CliRunner().invoke(app, words).exit_code == 0
    assert not (tmp_path / "o.parts").exists()
