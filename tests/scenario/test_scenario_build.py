"""Variants, paths, seeds, and that a scenario is the library's own `sweep`."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

import veilsum
from tests.scenario.scenario_texts import BASE, edited
from veilsum import families, networks, privacy
from veilsum.errors import NetworkError, SignalError
from veilsum.scenario import Scenario, run, template
from veilsum.simulation import Record

VARIANTS = """
[[variant]]
name = "base"

[[variant]]
name = "online"
seed = 9
algorithm = { name = "learn", rounds = 8 }

[[variant]]
name = "open"
privacy.protect = "nothing"

[[variant]]
name = "other"
family = { name = "normal", sigma = 2.0, bounds = [-9.0, 9.0] }
signals.draw = { mu = 1.0 }
network.weights = "max-degree"
"""


def test_a_scenario_without_variants_is_its_own_variant() -> None:
    scenario = Scenario.parse(BASE)
    assert [spec.name for spec in scenario.variants] == ["small"]
    assert scenario.title == "small"
    assert scenario.digest == hashlib.sha256(BASE.encode()).hexdigest()


def test_variants_merge_over_the_base() -> None:
    base, online, bare, other = Scenario.parse(BASE + VARIANTS).variants
    assert (base.algorithm.name, base.algorithm.rounds, base.seed) == ("average", 5, 3)
    assert (online.algorithm.name, online.algorithm.rounds, online.seed) == ("learn", 8, 9)
    assert online.privacy == base.privacy
    assert (bare.privacy.protect, bare.privacy.epsilon) == ("nothing", ())
    assert (other.family.name, other.family.options["sigma"]) == ("normal", 2.0)
    assert (other.network.graph, other.network.weights) == ("ring:7", "max-degree")


def test_another_choice_drops_the_options_of_the_first() -> None:
    text = edited('name = "average"', 'name = "jacobi"\ndimension = 1.0')
    text = edited(
        "epsilon = 1.0", 'epsilon = 1\ndelta = 0.1\nsensitivity = "smooth-as-published"', text
    )
    text += """
[[variant]]
name = "a"
algorithm.name = "average"
privacy.sensitivity = "global"
[[variant]]
name = "b"
family.name = "poisson"
signals.draw = { rate = 2.0 }
privacy.sensitivity = "global"
network.graph = "complete:5"
"""
    a, b = Scenario.parse(text).variants
    assert (a.algorithm.options, a.algorithm.rounds, a.privacy.delta) == ({}, 5, 0.0)
    assert (b.family.options, b.signals.draw) == ({}, {"rate": 2.0})
    assert b.algorithm.options == {"dimension": 1.0}


def test_specifications_are_frozen() -> None:
    spec = Scenario.parse(BASE).variants[0]
    with pytest.raises(ValueError, match="frozen"):
        spec.seed = 4


def test_a_scenario_gives_the_numbers_of_sweep() -> None:
    found = run(Scenario.parse(BASE)).results["small"]
    expected = veilsum.sweep(
        {"mu": 3.0},
        networks.metropolis(networks.ring(7)),
        families.LogNormal(sigma=1.0, bounds=(1.0, None)),
        privacy.SignalDP(1.0),
        "average",
        5,
        replicas=2,
        rng=3,
        record=Record(1, [0, 3, 6]),
    ).result
    assert np.array_equal(found.trace.total, expected.trace.total)
    assert found.trace.private is not None
    assert expected.trace.private is not None
    assert np.array_equal(found.trace.private, expected.trace.private)


def test_seeds_reproduce_and_differ() -> None:
    scenario = Scenario.parse(BASE)
    first, second = (run(scenario).results["small"].errors for _ in range(2))
    other = run(scenario.with_(seed=4)).results["small"].errors
    assert first == second
    assert first != other


def test_with_replaces_in_every_variant_and_leaves_the_original() -> None:
    scenario = Scenario.parse(BASE + VARIANTS)
    more = scenario.with_(seed=5, replicas=7, epsilons=[0.5, 2])
    assert {(spec.seed, spec.replicas) for spec in more.variants} == {(5, 7)}
    assert [spec.privacy.epsilon for spec in more.variants] == [(0.5, 2), (0.5, 2), (), (0.5, 2)]
    assert scenario.variants[0].seed == 3
    assert scenario.variants[0].privacy.epsilon == (1.0,)
    assert more.digest == scenario.digest


def test_several_epsilons_in_the_text_make_a_sweep() -> None:
    result = run(Scenario.parse(edited("epsilon = 1.0", "epsilon = [0.5, 1, 4.0]"))).results[
        "small"
    ]
    assert result.problem.run_epsilons == (0.5, 1.0, 4.0)
    assert len(result.errors.total) == 3


def test_variants_share_what_is_the_same() -> None:
    jobs = Scenario.parse(BASE + VARIANTS).jobs()
    assert jobs[0].problem.network is jobs[1].problem.network is jobs[2].problem.network
    assert jobs[3].problem.network is not jobs[0].problem.network
    assert jobs[3].problem.network.graph is jobs[0].problem.network.graph


def test_progress_receives_the_variant_and_the_round() -> None:
    reported = []
    run(Scenario.parse(BASE), epsilons=[1.0], progress=lambda *step: reported.append(step)).results
    assert reported == [("small", t, 5) for t in range(6)]


def test_paths_are_relative_to_the_file(tmp_path: Any, monkeypatch: Any) -> None:
    folder = tmp_path / "deep" / "er"
    folder.mkdir(parents=True)
    (folder / "links.csv").write_text("source,target\na,b\nb,c\nc,a\n")
    (tmp_path / "deep" / "r.csv").write_text("agent,value\nc,3\nb,2\na,4\n")
    text = edited("ring:7", "links.csv")
    text = edited("draw = { mu = 3.0 }", 'file = "$DEEP/r.csv"\nclip = [2.5, inf]', text)
    text = edited("epsilon = 1.0", "epsilon = 1.0\nradius = 1.0", text)
    (folder / "my file.toml").write_text(edited('name = "small"\n', "", text))
    monkeypatch.setenv("DEEP", "..")
    monkeypatch.chdir(tmp_path)
    scenario = Scenario.load("deep/er/my file.toml")
    job = scenario.build()
    assert scenario.name == "my-file"
    assert job.problem.network.labels == ("a", "b", "c")
    assert job.problem.source.signals(1, 1).ravel().tolist() == [4.0, 2.5, 3.0]


def test_readings_can_be_matched_by_order(tmp_path: Any) -> None:
    rows = "".join(f"h{k},{k + 1}\n" for k in range(7))
    (tmp_path / "r.csv").write_text("household,kwh\n" + rows)
    text = edited("draw = { mu = 3.0 }", 'file = "r.csv"\nmatch = "order"')
    text = edited("epsilon = 1.0", "epsilon = 1.0\nradius = 1.0", text)
    job = Scenario.parse(text, folder=tmp_path).build()
    assert job.problem.source.signals(1, 1).ravel().tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert list(job.problem.network.labels) == list(range(7))
    (tmp_path / "r.csv").write_text("household,kwh\nh0,1\n")
    with pytest.raises(SignalError, match="1 agents and the network 7"):
        Scenario.parse(text, folder=tmp_path).build()


@pytest.mark.parametrize(
    ("asked", "kept"),
    [("1", [0]), ("2", [0, 6]), ("3", [0, 3, 6]), ("99", list(range(7))), ("[5, 2]", [5, 2])],
)
def test_recorded_agents_are_spread_evenly_or_named(asked: Any, kept: Any) -> None:
    job = Scenario.parse(edited("agents = 3", f"agents = {asked}")).build()
    assert list(job.record.agents or ()) == kept


def test_all_agents_can_be_recorded() -> None:
    assert Scenario.parse(edited("agents = 3", 'agents = "all"')).build().record.agents is None


@pytest.mark.parametrize(
    ("weights", "algorithm", "kind"),
    [
        ('weights = "row-stochastic"', "average", "row-stochastic"),
        ('weights = "column-stochastic"', "push-sum", "column-stochastic"),
        ("link_failures = 0.2", "learn-dynamic", "doubly-stochastic"),
        ("asleep = 0.2", "average", "doubly-stochastic"),
        ("", "chebyshev", "doubly-stochastic"),
    ],
)
def test_every_kind_of_network_runs(weights: Any, algorithm: Any, kind: Any) -> None:
    text = edited('name = "average"', f'name = "{algorithm}"')
    result = run(Scenario.parse(edited('weights = "metropolis"', weights, text))).results["small"]
    assert result.problem.network.kind == kind
    assert result.problem.network.dynamic == ("link" in weights or "asleep" in weights)
    assert np.isfinite(result.errors.total)


def test_the_template_runs_as_it_is() -> None:
    results = run(Scenario.parse(template()).with_(replicas=2)).results
    assert list(results) == ["jacobi", "average", "no-privacy"]


def test_run_takes_a_path(tmp_path: Any) -> None:
    (tmp_path / "s.toml").write_text(BASE)
    assert list(veilsum.run(tmp_path / "s.toml").results) == ["small"]


def test_batches_are_part_of_the_request_and_a_variant_can_leave_them_out() -> None:
    text = edited('name = "average"', 'name = "learn"')
    text = edited("epsilon = 1.0", "epsilon = 1.0\nbatches = { growth = 1.5, longest = 24 }", text)
    fresh = (
        '\n[[variant]]\nname = "batches"\n[[variant]]\nname = "fresh"\nprivacy.batches.growth = 1.0'
    )
    batches, single = (job.problem.privacy for job in Scenario.parse(text + fresh).jobs())
    assert batches == privacy.SignalDP(1.0, radius=1.0, batches=privacy.Batches(1.5, 24))
    assert single == privacy.SignalDP(1.0, radius=1.0)


def test_the_remedy_for_a_network_in_parts_is_a_sentence(tmp_path: Any) -> None:
    (tmp_path / "links.csv").write_text("source,target\na,b\nc,d\n")
    file = tmp_path / "parts.toml"
    file.write_text(edited('"ring:7"', '"links.csv"'))
    with pytest.raises(NetworkError) as raised:
        Scenario.load(file).build()
    assert "add links (connect = true in options does, for graphs that are drawn)" in str(
        raised.value
    )


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("agent,1,2\n0,1,2\n1,1,\n2,1,2\n", 'under [signals], say missing = "drop-rounds" to keep'),
        ("agent,1,2\n0,1,2\n1,1,\n2,1,2\n", "or missing = 0.0 (any public constant)"),
        (
            "agent,value\n0,1.5\n1,\n2,2.5\n",
            "under [signals], say missing = 0.0 (any public constant)",
        ),
        ("who,what\n0,1.5\n1,2.5\n2,3.5\n", "under [signals], say agent = ..."),
    ],
)
def test_advice_on_a_file_is_in_the_terms_of_a_scenario(
    tmp_path: Any, table: str, says: str
) -> None:
    (tmp_path / "mine.csv").write_text(table)
    file = tmp_path / "mine.toml"
    text = edited("seed = 3\nreplicas = 2\n", "")
    text = edited("draw = { mu = 3.0 }", 'file = "mine.csv"', text)
    file.write_text(edited('"ring:7"', '"ring:3"', text))
    with pytest.raises(SignalError) as raised:
        Scenario.load(file).build()
    assert says in str(raised.value)
    assert "frame" not in str(raised.value)
    assert "pass " not in str(raised.value)
