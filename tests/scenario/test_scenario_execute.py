"""How a study is run: processes, resuming, strictness, and where a result comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilsum
from tests.front.studies import SEVERAL, study
from veilsum.errors import CommandError, PrivacyError, VeilsumError
from veilsum.results import Result, describe
from veilsum.scenario import ExecutionOptions, Scenario, run


def test_several_processes_give_the_results_of_one(tmp_path: Path) -> None:
    file = study(tmp_path, SEVERAL)
    alone = run(file).results
    pooled = run(file, options=ExecutionOptions(jobs=2), out=tmp_path / "out").results
    for name, result in alone.items():
        assert np.array_equal(result.trace.total, pooled[name].trace.total)
    assert sorted(path.name for path in tmp_path.glob("out*")) == ["out.csv", "out.html"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"engine": "gpu"}, "engine must be one of local, mpi"),
        ({"jobs": 0}, "jobs must be a whole number of at least 1"),
        ({"engine": "mpi", "jobs": 2}, "is for one machine"),
        ({"checkpoint_every": 5}, "needs engine mpi"),
        ({"engine": "mpi", "checkpoint_every": 0}, "checkpoint_every must be"),
    ],
)
def test_execution_options_that_contradict_one_another(options: dict[str, Any], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        ExecutionOptions(**options)


def test_a_run_resumes_only_where_something_was_stored(tmp_path: Path) -> None:
    scenario = Scenario.parse(SEVERAL)
    with pytest.raises(CommandError, match="stores nothing"):
        run(scenario, options=ExecutionOptions(resume=True), out=tmp_path)
    with pytest.raises(CommandError, match="folder of the interrupted run"):
        run(scenario, options=ExecutionOptions(jobs=2, resume=True))


def test_strict_refuses_before_anything_runs() -> None:
    published = 'privacy.delta = 0.01\nprivacy.sensitivity = "smooth-as-published"'
    text = SEVERAL.replace('privacy.protect = "nothing"', published)
    text = text.replace('name = "normal"', 'name = "log-normal"\nbounds = [1.0, inf]')
    seen: list[str] = []
    with pytest.raises(PrivacyError, match="proved guarantees only"):
        run(Scenario.parse(text), progress=lambda name, *_: seen.append(name), strict=True)
    assert seen == []


def one() -> Result:
    return run(Scenario.parse(SEVERAL)).results["private"]


def test_a_result_knows_where_it_comes_from() -> None:
    result = one()
    assert result.provenance is not None
    assert (result.provenance.name, result.provenance.title) == ("small", "A small ring")
    assert result.provenance.seed == 3
    assert result.seconds is not None
    assert result.seconds >= 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"level": 95}, "no option 'level'.* try confidence=0.95"),
        ({"confidence": 95}, "confidence must lie strictly between 0 and 1; found 95; try 0.95"),
        ({"confidence": 95, "of": "readings"}, "confidence must lie strictly between 0 and 1"),
        ({"of": "agents"}, "of must be one of readings, population"),
    ],
)
def test_wrong_options_of_intervals_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(VeilsumError, match=words):
        one().intervals(**options)


def test_warnings_and_notes_are_computed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a large network they take seconds; the screen, the page and JSON have them."""
    counted: list[str] = []
    for name in ("warnings_of", "notes_of"):
        made = getattr(describe, name)

        def counting(*given: Any, name: str = name, made: Any = made) -> list[str]:
            counted.append(name)
            return list(made(*given))

        monkeypatch.setattr(describe, name, counting)
    family = veilsum.families.Normal(sigma=1.0, bounds=(0.0, 4.0))
    request = veilsum.privacy.SignalDP(1.0)
    answers = veilsum.sweep({"mu": 2.0}, "ring:9", family, request, "average", 5, rng=1)
    answers.save(tmp_path / "a")
    assert str(answers)
    assert answers.to_dict()["warnings"]
    assert sorted(counted) == ["notes_of", "warnings_of"]
