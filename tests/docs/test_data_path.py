"""ARCHITECTURE.md lists the functions that data passes through: real runs follow the lists."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from typer.testing import CliRunner

import veilsum
from tests.fleet.fleets import SmallFleet, mean
from veilsum.cli.app import app
from veilsum.fleet.step import step

PAGE = (Path(__file__).resolve().parents[2] / "ARCHITECTURE.md").read_text(encoding="utf-8")
SCENARIO = """\
name = "path"
seed = 1
[network]
graph = "ring:5"
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
rounds = 4
"""


def listed(command: str) -> list[str]:
    """The functions below a command in the page."""
    blocks = re.findall(r"^```steps\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (block,) = [block for block in blocks if block.startswith(f"{command}:")]
    return [line.split()[0] for line in block.splitlines()[1:]]


def code_of(name: str) -> CodeType:
    """The code of a function, method or property below veilsum."""
    module = f"veilsum.{name}"
    rest: list[str] = []
    while True:
        try:
            found: Any = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            rest.insert(0, last)
    for part in rest:
        found = vars(found)[part] if isinstance(found, type) else getattr(found, part)
    if isinstance(found, cached_property):
        found = found.func
    found = getattr(found, "__func__", found)
    assert isinstance(found.__code__, CodeType), name
    return found.__code__


@contextmanager
def traced(names: list[str]) -> Iterator[list[str]]:
    """Which of these functions are called in this thread, in order."""
    codes = {code_of(name): name for name in names}
    assert len(codes) == len(names)
    calls: list[str] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in codes:
            calls.append(codes[frame.f_code])

    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def command(tmp_path: Path, *words: str) -> list[str]:
    (tmp_path / "s.toml").write_text(SCENARIO)
    return [words[0], str(tmp_path / "s.toml"), "--out", str(tmp_path / "out"), *words[1:]]


def test_veilsum_run_follows_the_page(tmp_path: Path) -> None:
    words = command(tmp_path, "run", "--seed", "2")
    with traced(listed("veilsum run")) as calls:
        done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert calls == listed("veilsum run")


def test_veilsum_ask_follows_the_page(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("kwh\n" + "1\n2\n" * 50)
    with traced(listed("veilsum ask")) as calls:
        done = CliRunner().invoke(app, f"ask mean kwh {table} --between 0 9 --eps 1".split())
    assert done.exit_code == 0, done.output
    assert calls == listed("veilsum ask")


def test_estimate_follows_the_page() -> None:
    with traced(listed("veilsum.estimate")) as calls:
        answers = veilsum.estimate(
            [1.0, 2.0, 3.0, 4.0, 5.0], "ring:5", veilsum.families.Normal(sigma=1.0),
            veilsum.privacy.SignalDP(epsilon=1.0, radius=1.0), rounds=4,
        )  # fmt: skip
        assert str(answers)
        assert answers.guarantee.epsilon == 1.0
    assert calls == listed("veilsum.estimate")


def test_veilsum_up_follows_the_page(tmp_path: Path) -> None:
    words = command(tmp_path, "up", "--insecure", "--processes", "1")
    with traced(listed("veilsum up")) as calls:
        done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert calls == listed("veilsum up")


def test_a_step_of_a_fleet_follows_the_page(tmp_path: Path) -> None:
    fleet = SmallFleet(tmp_path, 2)
    fleet.ask(mean("pool"))
    with traced(listed("veilsum fleet step")) as calls, fleet.open("s0") as site:
        (report,) = step(site, fleet.now)
    assert not report.problems
    assert list(dict.fromkeys(calls)) == listed(
        "veilsum fleet step"
    )  # some are done again at the end


def test_a_step_that_happens_twice_is_noticed() -> None:
    with traced(["scenario.Scenario.parse"]) as calls:
        for _ in range(2):
            veilsum.Scenario.parse(SCENARIO)
    assert calls == ["scenario.Scenario.parse"] * 2


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(AttributeError), traced(["api.nothing"]):
        pass
