"""Every step of `veilsum run` happens once per variant."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from veilsum.cli.app import app

FOUR = """\
name = "four"
seed = 3
replicas = 2
[network]
graph = "ring:7"
[family]
name = "normal"
sigma = 1.0
[signals]
draw = { mu = 3.0 }
[privacy]
protect = "signal"
epsilon = 1.0
[algorithm]
name = "average"
rounds = 5
[[variant]]
name = "signal"
[[variant]]
name = "sweep"
privacy.epsilon = [0.5, 1.0, 2.0]
[[variant]]
name = "online"
algorithm.name = "learn"
[[variant]]
name = "open"
privacy.protect = "nothing"
"""

NETWORK = 3  # which argument of `plan` it is


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each step was called, counted wherever the name is bound."""
    from veilsum.privacy import planning, proofs
    from veilsum.scenario.schema import Spec
    from veilsum.simulation.problem import Problem

    importlib.import_module("veilsum.scenario.execute")  # loads every module that binds a name
    calls: Counter[str] = Counter()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **options: Any) -> Any:
            calls[name] += name != "plan" or len(args) > NETWORK  # else of one release by itself
            return function(*args, **options)

        return wrapper

    for function in (planning.plan, proofs.guarantee_of):
        name = function.__name__
        wrapper = counted(name, function)
        for module in [m for n, m in sys.modules.items() if n.startswith("veilsum")]:
            # Network DP derives the guarantee of signals by a call of its own: not counted.
            if module is not proofs and module.__dict__.get(name) is function:
                monkeypatch.setattr(module, name, wrapper)
    validate = Spec.model_validate
    monkeypatch.setattr(Spec, "model_validate", counted("validate", validate))
    monkeypatch.setattr(Problem, "__post_init__", counted("problem", Problem.__post_init__))
    return calls


@pytest.mark.parametrize("words", [(), ("--json",), ("--seed", "4", "--replicas", "3")])
def test_every_step_happens_once_per_variant(
    counts: Counter[str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "four.toml").write_text(FOUR)
    command = ["run", str(tmp_path / "four.toml"), "--out", str(tmp_path / "out"), *words]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert counts["validate"] == 4
    assert counts["problem"] == 4
    assert counts["plan"] == 4
    assert counts["guarantee_of"] == 6  # three epsilons of the sweep, one request of each other


def test_the_count_fails_if_a_step_is_repeated(counts: Counter[str], tmp_path: Path) -> None:
    """A run that builds its scenario a second time is noticed."""
    from veilsum.scenario import Scenario, run

    (tmp_path / "four.toml").write_text(FOUR)
    scenario = Scenario.load(tmp_path / "four.toml")
    scenario.jobs()
    run(scenario)
    assert counts["validate"] == 4
    assert counts["problem"] == counts["plan"] == 8
