"""`--engine mpi`, `--jobs`, `--checkpoint-every` and `--resume` of the command line."""

import json
import math
import subprocess
import sys
from typing import Any

import pytest

from tests.mpi.namespace import finish, needs_namespace, start

SCENARIO = """
name = "small"
seed = 3
replicas = 2

[network]
graph = "torus:7x9"
weights = "lazy-metropolis"

[family]
name = "normal"
sigma = 1.0

[signals]
draw = { mu = 2.0 }

[algorithm]
name = "learn"
rounds = 12

[privacy]
protect = "signal"
epsilon = [0.5, 1.0]
"""


def numbers(said: Any) -> Any:
    """Every number of a sheet of answers, by where it stands."""

    def walk(thing: Any, where: Any) -> Any:
        if isinstance(thing, dict):
            for key, value in thing.items():
                yield from walk(value, (*where, key))
        elif isinstance(thing, list):
            for k, value in enumerate(thing):
                yield from walk(value, (*where, k))
        elif isinstance(thing, float):
            yield where, thing

    return dict(walk(json.loads(said), ()))


def same(one: Any, other: Any) -> Any:
    assert one.keys() == other.keys()
    return all(math.isclose(one[k], other[k], rel_tol=1e-12, abs_tol=1e-12) for k in one)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: Any) -> Any:
    path = tmp_path_factory.mktemp("cli") / "small.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture(scope="module")
def alone(scenario: Any) -> Any:
    return numbers(here(scenario, "run"))


def words(scenario: Any, verb: Any, *more: Any) -> Any:
    out = ["--out", str(scenario.parent / verb), "--json"]
    return ["-m", "veilsum.cli", verb, str(scenario), *out, *more]


def here(scenario: Any, verb: Any, *more: Any) -> Any:
    command = [sys.executable, *words(scenario, verb, *more)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def test_several_processes_give_the_same_numbers(scenario: Any, alone: Any) -> None:
    assert same(alone, numbers(here(scenario, "run", "--jobs", "2")))


@needs_namespace
def test_ranks_give_the_same_numbers_and_go_on_from_a_checkpoint(scenario: Any, alone: Any) -> None:
    for more in (["--checkpoint-every", "5"], ["--resume"]):
        code, out, err = finish(start(2, *words(scenario, "run", "--engine", "mpi", *more)))
        assert code == 0, err
        assert same(alone, numbers(out))
    assert len(list((scenario.parent / "run.parts" / "checkpoints").rglob("manifest.json"))) == 2


@needs_namespace
def test_a_fault_is_printed_once(scenario: Any) -> None:
    code, out, err = finish(
        start(2, *words(scenario.with_name("none.toml"), "run", "--engine", "mpi"))
    )
    assert code == 2
    assert list(json.loads(out)) == ["error"]  # by rank 0 alone
    assert err.count("cannot read the scenario") == 1
