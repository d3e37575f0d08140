"""Every mistake is a ScenarioError that names file, line, field, what is there and what may be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scenario_texts import BASE, edited, line_of
from veilsum.errors import NetworkError, ScenarioError, SignalError
from veilsum.scenario import Scenario

# (what stands in the base, what takes its place, the line is that of, parts of the message)
MISTAKES = [
    ('name = "average"', 'name = "avarage"', 'name = "avarage"',
     ['algorithm.name: found "avarage"; allowed: average, chebyshev', 'did you mean "average"?']),
    ("[privacy]", "[privcy]", "[privcy]", ["privcy: there is no such key", '"privacy"?']),
    ("epsilon = 1.0", "epsilom = 1.0", "epsilom", ["privacy.epsilom", 'mean "epsilon"?']),
    ("epsilon = 1.0", "epsilon = -1.0", "epsilon =", ["privacy.epsilon: found -1.0", "above 0"]),
    ("epsilon = 1.0", "epsilon = [1.0, 1.0]", "epsilon =", ["a list of different ones"]),
    ("epsilon = 1.0", "epsilon = []", "epsilon =", ["privacy.epsilon: found []"]),
    ("epsilon = 1.0", "epsilon = nan", "epsilon =", ["privacy.epsilon: found nan"]),
    ("epsilon = 1.0", 'epsilon = "1"', "epsilon =", ['found "1"; allowed: a number above 0']),
    ("epsilon = 1.0\n", "", "[privacy]", ["privacy: ", "epsilon", "missing"]),
    ("epsilon = 1.0", "epsilon = 1.0\ndelta = 0.01", "delta =",
     ["privacy.delta: ", "leave delta out"]),
    ("epsilon = 1.0", 'epsilon = 1.0\nsensitivity = "smooth-as-published"', "sensitivity =",
     ["needs a delta above 0"]),
    ("epsilon = 1.0", 'epsilon = 1.0\nsensitivity = "globl"', "sensitivity =",
     ['privacy.sensitivity: found "globl"; allowed: global, smooth, smooth-as-published', '"global"?']),
    ("epsilon = 1.0", "epsilon = 1.0\nradius = 0", "radius =", ["privacy.radius: found 0"]),
    ("epsilon = 1.0", "epsilon = 1.0\nradius = nan", "radius =", ["a number above 0"]),
    ("epsilon = 1.0", "epsilon = 1.0\nbatches = { growth = 2.0 }", "batches =",
     ["privacy.batches: algorithm average uses one signal", "use an online algorithm such as learn"]),
    ("epsilon = 1.0", "epsilon = 1.0\nbatches = { growth = 0.5 }", "batches =",
     ["privacy.batches.growth: found 0.5; allowed: a number of at least 1"]),
    ("epsilon = 1.0", "epsilon = 1.0\nbatches = { growth = 1.001 }", "batches =",
     ["privacy.batches.growth: allowed: growth = 1 (no batches), or of at least 1.01"]),
    ("epsilon = 1.0", "epsilon = 1.0\nbatches = { grwth = 2.0 }", "batches =",
     ["privacy.batches.grwth: there is no such key; allowed: growth, longest", '"growth"?']),
    ("epsilon = 1.0", "epsilon = 1.0\nbatches.longest = 2.5", "batches.longest",
     ["privacy.batches.longest: found 2.5; allowed: a whole number"]),
    ("epsilon = 1.0", "epsilon = 1.0\nbatches = 2.0", "batches =",
     ["privacy.batches: found 2.0; allowed: a section"]),
    ("epsilon = 1.0", 'epsilon = 1.0\nmechanism = "hybrid"\nbatches = {}', "mechanism =",
     ["privacy.mechanism: mechanism hybrid is for one number", "laplace, staircase"]),
    ('protect = "signal"\nepsilon = 1.0', 'protect = "network"\nepsilon = 1.0\nbatches = {}',
     "batches =", ["privacy.batches: batches leave rounds without noise", "protect the signal"]),
    ('protect = "signal"', 'protect = "nothing"', "protect =", ["without epsilon"]),
    ('protect = "signal"', 'protect = "signals"', "protect =", ["signal, network, nothing"]),
    ("rounds = 5", "rounds = 0", "rounds =", ["algorithm.rounds: found 0; allowed: a number of at"]),
    ("rounds = 5", "rounds = 5.5", "rounds =", ["algorithm.rounds: found 5.5; allowed: a whole number"]),
    ("rounds = 5", "rounds = true", "rounds =", ["algorithm.rounds: found true"]),
    ("rounds = 5\n", "", "[algorithm]", ["algorithm.rounds: missing"]),
    ("rounds = 5", "rounds = 5\neta = 0.1", "eta =", ["algorithm.eta: there is no such key", "rounds"]),
    ("rounds = 5", "round = 5", "[algorithm]", ["algorithm.rounds: missing"]),
    ('name = "average"', 'name = "first-order"\neta = -1.0', "eta =",
     ["algorithm.eta: eta must be a finite number above 0"]),
    ('name = "average"', 'name = "jacobi"\ndimension = "2"', "dimension =",
     ['algorithm.dimension: found "2"; allowed: a number']),
    ('name = "log-normal"', 'name = "lognormals"', 'name = "lognormals"',
     ["family.name: ", 'did you mean "log-normal"?']),
    ("sigma = 1.0", "sigm = 1.0", "sigm =", ["family.sigm: there is no such key", '"sigma"?']),
    ("sigma = 1.0\n", "", "[family]", ["family: ", "to draw signals, log-normal needs sigma"]),
    ("sigma = 1.0", "sigma = -1.0", "sigma =", ["family.sigma: "]),
    ("sigma = 1.0", 'sigma = "one"', "sigma =", ['found "one"; allowed: a number']),
    ("bounds = [1.0, inf]", "bounds = [2.0, 1.0]", "bounds =", ["family.bounds: "]),
    ("bounds = [1.0, inf]", "bounds = [1.0]", "bounds =", ["family.bounds: "]),
    ("draw = { mu = 3.0 }", "draw = { mean = 3.0 }", "draw =",
     ["signals.draw.mean: there is no such key; allowed: mu"]),
    ("draw = { mu = 3.0 }", "draw = {}", "draw =", ["signals.draw: missing mu"]),
    ("draw = { mu = 3.0 }", 'draw = { mu = "x" }', "draw =", ['signals.draw.mu: found "x"']),
    ("draw = { mu = 3.0 }", "draw = { mu = 1e300 }", "draw =", ["no finite signals"]),
    ("draw = { mu = 3.0 }", "draw = 3.0", "draw =", ["signals.draw: found 3.0; allowed: a table"]),
    ("draw = { mu = 3.0 }\n", "", "[signals]", ["signals: ", "one of draw"]),
    ("draw = { mu = 3.0 }", 'draw = { mu = 3.0 }\nfile = "x.csv"', "[signals]", ["one of draw"]),
    ("draw = { mu = 3.0 }", 'draw = { mu = 3.0 }\nmissing = 0', "missing =", ["missing only with"]),
    ("draw = { mu = 3.0 }", 'file = "x.csv"\nclip = [1]', "clip =", ["[low, high]"]),
    ("draw = { mu = 3.0 }", 'file = "x.csv"\nmissing = "drop"', "missing =", ["drop-rounds"]),
    ('graph = "ring:7"', 'graph = "rng:7"', "graph =",
     ['network.graph: found "rng"; allowed: ', 'did you mean "ring"?']),
    ('graph = "ring:7"', "graph = 7", "graph =", ["network.graph: found 7; allowed: text"]),
    ('graph = "ring:7"', 'graph = "ring"\noptions = { sise = 7 }', "options =",
     ["network.options.sise: there is no such key; allowed: size", '"size"?']),
    ('graph = "ring:7"', 'graph = "ring"\noptions.size = "7"', "options.size",
     ['network.options.size: found "7"']),
    ('graph = "ring:7"\n', "", "[network]", ["network.graph: missing; add graph"]),
    ('weights = "metropolis"', 'weights = "metropolys"', "weights =", ['mean "metropolis"?']),
    ('weights = "metropolis"', "link_failures = 1.5", "link_failures =", ["a number below 1"]),
    ('weights = "metropolis"', "link_failures = 0.1\nasleep = 0.1", "link_failures =", ["not both"]),
    ('weights = "metropolis"', 'weights = "metropolis"\nasleep = 0.1', "[network]",
     ["lazy-metropolis"]),
    ('weights = "metropolis"', 'weights = "metropolis"\ndirected = true', "[network]",
     ["column-stochastic"]),
    ("seed = 3", "seed = -3", "seed =", ["seed: found -3; allowed: a number of at least 0"]),
    ("replicas = 2", "replicas = 0", "replicas =", ["replicas: found 0"]),
    ("replicas = 2", "replica = 2", "replica =", ['did you mean "replicas"?']),
    ('name = "small"', 'name = "a/b"', "name =", ['name: found "a/b"', "file names"]),
    ("every = 1", "every = 0", "every =", ["record.every: found 0"]),
    ("agents = 3", "agents = -3", "agents =", ['record.agents: found -3; allowed: "all"']),
    ("agents = 3", "agents = true", "agents =", ["record.agents: found true"]),
    ("[record]\nevery = 1\nagents = 3\n", "record = 4\n", "record = 4", ["algorithm.record"]),
    ("[algorithm]", "algorithm = 3\n[lawn]", "algorithm = 3", ["algorithm"]),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "at", "parts"), MISTAKES)
def test_a_mistake_is_named_with_its_line(
    old: Any, new: Any, at: Any, parts: Any, tmp_path: Any
) -> None:
    text = edited(old, new)
    (tmp_path / "x.csv").write_text("agent,value\n0,1\n")
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(text, "us.toml", folder=tmp_path)
    message = str(caught.value)
    assert f"us.toml, line {line_of(at, text)}: " in message
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("text", "line"),
    [("a = ", 1), ("a = 1\nb = [1,\n", 3), ("a = 1\na = 2", 2), ("[x]\ny = 1\n[x]\n", 3)],
)
def test_wrong_syntax_gives_the_line(text: Any, line: Any) -> None:
    with pytest.raises(ScenarioError, match=rf"^t\.toml, line {line}: not valid TOML: "):
        Scenario.parse(text, "t.toml")


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(ScenarioError, match="nested too deeply"):
        Scenario.parse("a = " + "[" * 5000 + "]" * 5000)


def test_an_empty_text_names_every_missing_section() -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse("", "t.toml")
    for section in ("network", "family", "signals", "privacy", "algorithm"):
        assert f"{section}: missing; add a section [{section}]" in str(caught.value)


def test_several_mistakes_are_reported_together_in_order() -> None:
    text = edited("seed = 3", "sead = 3", edited("rounds = 5", "rounds = 0"))
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(text, "t.toml")
    first, second = str(caught.value).split("\n")
    assert "line 2: sead" in first
    assert "algorithm.rounds" in second


def test_a_file_that_is_not_there_or_not_text(tmp_path: Any) -> None:
    with pytest.raises(ScenarioError, match=r"cannot read the scenario .*none\.toml"):
        Scenario.load(tmp_path / "none.toml")
    with pytest.raises(ScenarioError, match="cannot read"):
        Scenario.load(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(ScenarioError, match="not UTF-8"):
        Scenario.load(tmp_path / "latin.toml")


# What only shows when the parts are put together.
MISFITS = [
    ("bounds = [1.0, inf]\n", "", "[privacy]", ScenarioError, "infinite global sensitivity"),
    ('name = "average"', 'name = "push-sum"', None, None, ""),
    ('weights = "metropolis"', 'weights = "row-stochastic"', None, None, ""),
    ('name = "average"', 'name = "learn"', None, None, ""),
    ('weights = "metropolis"', 'weights = "column-stochastic"', "[algorithm]", ScenarioError, "push-sum"),
    ('graph = "ring:7"', 'graph = "ring:2"', "graph =", ScenarioError, "at least 3"),
    ('graph = "ring:7"', 'graph = "ring"', "graph =", ScenarioError, "size"),
    ('graph = "ring:7"', 'graph = "ring:8"', "weights =", NetworkError,
     'weights = "lazy-metropolis"'),
    ("agents = 3", "agents = [99]", "agents =", ScenarioError, "99"),
    ('graph = "ring:7"', 'graph = "links.csv"', "graph =", ScenarioError, "there is no file links"),
    ("draw = { mu = 3.0 }", 'file = "no/where"', "file =", ScenarioError, "there is no file no/"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "at", "kind", "part"), MISFITS)
def test_parts_that_do_not_fit_are_named_with_their_line(
    old: Any, new: Any, at: Any, kind: Any, part: Any
) -> None:
    text = edited(old, new)
    scenario = Scenario.parse(text, "us.toml")
    if kind is None:
        scenario.build()
        return
    with pytest.raises(kind) as caught:
        scenario.build()
    assert f"us.toml, line {line_of(at, text)}: " in str(caught.value)
    assert part in str(caught.value)


def test_readings_that_fail_keep_their_error_and_get_the_line(tmp_path: Any) -> None:
    (tmp_path / "r.csv").write_text("agent,value\n" + "".join(f"{k},0.5\n" for k in range(7)))
    text = edited("draw = { mu = 3.0 }", 'file = "r.csv"')
    text = edited("epsilon = 1.0", "epsilon = 1.0\nradius = 1.0", text)
    scenario = Scenario.parse(text, "us.toml", folder=tmp_path)
    line = line_of("[signals]", text)
    with pytest.raises(SignalError, match=f"us.toml, line {line}: signals: .* outside the support"):
        scenario.build()


def test_a_graph_file_that_fails_keeps_its_error(tmp_path: Any) -> None:
    (tmp_path / "g.csv").write_text("source,target\n0,0\n")
    scenario = Scenario.parse(edited("ring:7", "g.csv"), "us.toml", folder=tmp_path)
    with pytest.raises(NetworkError, match=r"us\.toml, line 6: network\.graph: .*self-loop"):
        scenario.build()


def test_mistakes_in_variants_name_the_variant() -> None:
    text = BASE + '\n[[variant]]\nname = "a"\n\n[[variant]]\nname = "b"\nalgorithm.name = "lern"\n'
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(text, "us.toml")
    at = line_of('algorithm.name = "lern"', text)
    assert f'us.toml, line {at}: variant "b": algorithm.name: found "lern"' in str(caught.value)


def test_a_mistake_in_the_base_is_reported_once_for_all_variants() -> None:
    base = edited("epsilon = 1.0", "epsilon = 0")
    text = base + '\n[[variant]]\nname = "a"\n[[variant]]\nname = "b"\n'
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(text, "us.toml")
    assert str(caught.value).count("\n") == 0
    assert f"line {line_of('epsilon = 0', text)}: privacy.epsilon" in str(caught.value)


@pytest.mark.parametrize(
    ("more", "part"),
    [
        ("[[variant]]\nseed = 1\n", "variant.0.name: missing"),
        ('[[variant]]\nname = "a"\n[[variant]]\nname = "a"\n', 'variant.1.name: found "a" twice'),
        ("[variant]\nname = 'a'\n", r"sections \[\[variant\]\]"),
        ('[[variant]]\nname = "a b"\n', "file names"),
        ('[[variant]]\nname = "a"\nalgorithms.name = "learn"\n', 'mean "algorithm"?'),
        ('[[variant]]\nname = "a"\nalgorithm = 3\n', "algorithm: found 3|algorithm: allowed"),
    ],
)
def test_variants_need_names_and_known_keys(more: Any, part: Any) -> None:
    with pytest.raises(ScenarioError, match=part.replace("?", r"\?")) as caught:
        Scenario.parse(BASE + more, "us.toml")
    line = int(str(caught.value).split("line ")[1].split(":")[0])
    assert line > BASE.count("\n")


def test_arguments_are_checked_too() -> None:
    scenario = Scenario.parse(BASE)
    with pytest.raises(ScenarioError, match="seed: found -1"):
        scenario.with_(seed=-1)
    with pytest.raises(ScenarioError, match=r"privacy\.epsilon"):
        scenario.with_(epsilons=[0.0])
    with pytest.raises(ScenarioError, match="there is no variant 'x'"):
        scenario.build("x")


def test_network_dp_with_a_tolerance_is_refused_with_its_line() -> None:
    """It used to pass, and `veilsum up` said Proved while ranges went round without noise."""
    text = edited('protect = "signal"', 'protect = "network"')
    text += "\n[agents]\ntolerance = 0.001\n"
    with pytest.raises(ScenarioError, match=r"agents\.tolerance: found 0\.001") as caught:
        Scenario.parse(text, "s.toml")
    assert f"line {line_of('tolerance =', text)}:" in str(caught.value)
    assert "leave tolerance out" in str(caught.value)
    Scenario.parse(text.replace("0.001", "0.0"), "s.toml")
