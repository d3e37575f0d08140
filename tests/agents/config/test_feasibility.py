"""`veilsum plan --agents`: every recommendation can be run by agents, and the rest is named."""

import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from veilsum import theory
from veilsum.agents.feasibility import refusal
from veilsum.agents.release import ReleaseMechanism
from veilsum.agents.scenario_terms import manifest_of
from veilsum.cli.app import app
from veilsum.errors import AgentError, AlgorithmError, VeilsumError
from veilsum.scenario import Scenario

TEXT = """
[network]
graph = "ring:7"
weights = "lazy-metropolis"
[family]
name = "normal"
sigma = 1.0
bounds = [0.0, 1.0]
[signals]
draw = {{ mu = 0.5 }}
[privacy]
protect = "{protect}"
epsilon = 1.0
mechanism = "{mechanism}"
[algorithm]
name = "{algorithm}"
rounds = 12
[agents]
{mode}
"""
MECHANISMS = ("laplace", "staircase", "duchi", "piecewise", "hybrid", "best")
CASES = [
    *(("signal", mechanism, name, "") for mechanism in MECHANISMS for name in ("jacobi", "learn")),
    ("signal", "laplace", "learn", "asynchronous = true\nopen_ended = true"),
    ("signal", "laplace", "average", "tolerance = 0.01"),
]


def scenario(protect: str, mechanism: str, algorithm: str, mode: str) -> Scenario:
    text = TEXT.format(protect=protect, mechanism=mechanism, algorithm=algorithm, mode=mode)
    return Scenario.parse(text)


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case).replace("\n", " "))
@pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")
def test_every_recommendation_makes_a_manifest_and_a_release_mechanism(
    case: tuple[str, str, str, str],
) -> None:
    loaded = scenario(*case)
    (spec,) = loaded.variants
    able = partial(refusal, spec=spec)
    found = theory.plan(loaded.build().problem, deviation=0.3, refusal=able)
    manifest = manifest_of(found.problem, spec, "planned")
    for label, _ in manifest.members:
        ReleaseMechanism(manifest, found.problem, label)
    listed = {candidate.algorithm for candidate in found.candidates}
    assert not listed & {left.algorithm for left in found.left_out}


def test_without_the_restriction_a_plan_names_what_agents_cannot_run() -> None:
    loaded = scenario("signal", "laplace", "jacobi", "")
    found = theory.plan(loaded.build().problem, deviation=0.3)
    assert found.best.algorithm in ("jacobi", "chebyshev")
    with pytest.raises(AlgorithmError, match="does not conserve mass"):
        manifest_of(found.problem, loaded.variants[0], "planned")


def test_what_is_refused_at_the_recommended_epsilon_is_left_out() -> None:
    loaded = scenario("signal", "laplace", "average", "")

    def picky(problem: object) -> str:
        own = problem.run_epsilons[0]  # type: ignore[attr-defined]
        weights = problem.network.scheme  # type: ignore[attr-defined]
        return "too little" if own != 1.0 and weights != "lazy-metropolis" else ""

    found = theory.plan(loaded.build().problem, error=0.3, deviation=0.3, refusal=picky)
    assert found.best.weights == "lazy-metropolis"
    assert {left.reason for left in found.left_out} == {"too little"}


REFUSED = [
    (
        '"normal"',
        '"log-normal"',
        'sensitivity = "smooth"\ndelta = 0.01',
        "reads the scale of the noise",
    ),
    ('"signal"', '"network"', 'mechanism = "laplace"', "Refuted"),
]


@pytest.mark.parametrize(("old", "new", "privacy", "reason"), REFUSED)
@pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")
def test_a_request_that_no_agent_may_follow_is_an_error_with_the_reason(
    old: str, new: str, privacy: str, reason: str
) -> None:
    text = TEXT.format(protect="signal", mechanism="laplace", algorithm="average", mode="")
    text = text.replace(old, new).replace('mechanism = "laplace"', privacy)
    loaded = Scenario.parse(text.replace("bounds = [0.0, 1.0]", "bounds = [1.0, 2.0]"))
    spec, problem = loaded.variants[0], loaded.build().problem
    with pytest.raises(VeilsumError, match=reason):
        theory.plan(problem, deviation=0.3, refusal=partial(refusal, spec=spec))
    with pytest.raises(AgentError, match=reason):
        ReleaseMechanism(manifest_of(problem, spec, "refused"), problem, "0")


def test_the_command_says_what_was_left_out_and_that_a_budget_buys_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "s.toml"
    text = TEXT.format(protect="signal", mechanism="laplace", algorithm="average", mode="")
    path.write_text(text)
    words = ["plan", str(path), "--agents"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "Left out, because agents cannot run it: jacobi on" in said
    assert "Use average on" in said
    assert "Warning: the 95% interval of an estimate, about +- 1.05, covers all of [0, 1]" in said
    plain = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert {left["algorithm"] for left in plain["plan"]["left_out"]} == {"jacobi", "chebyshev"}
    assert plain["plan"]["warning"].startswith("the 95% interval")
    path.write_text(text.replace("epsilon = 1.0", "epsilon = 20.0"))
    useful = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert useful["plan"]["warning"] == ""
    assert useful["plan"]["half_width"] < 0.1
