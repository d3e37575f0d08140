"""Checkpoints, and how a job ends when a rank dies."""

import json
import os
import signal
import time
from typing import Any

import pytest

from tests.mpi import cases
from tests.mpi.agree import assert_same
from tests.mpi.namespace import finish, needs_namespace, run, start
from veilsum.simulation import Record, simulate

JOB = str(cases.HERE / "job.py")
PATIENCE = 30.0
pytestmark = needs_namespace


NAMES = ("chebyshev", "push-sum", "learn", "together", "together-momentum")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: Any) -> Any:
    place = tmp_path_factory.mktemp("kept")
    run(2, JOB, "checkpoints", str(place), *NAMES, "+", "foreign", str(place))
    return place


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_gives_the_same_bits(name: Any, kept: Any) -> None:
    assert (kept / f"{name}.txt").read_text() == "round-00000006 round-00000009"
    assert_same(simulate(cases.case(name), Record(every=5)), kept / f"{name}.npz")


def test_checkpoints_that_do_not_fit_are_refused(kept: Any) -> None:
    found = json.loads((kept / "said.json").read_text())
    other, measured, torn = found["said"]
    assert "belongs to another problem" in other
    assert "measured" in measured
    assert "part-00001.npz is damaged" in torn
    assert found["begun"][0] == 6  # without its manifest the newest does not count


def wait_for(path: Any, job: Any) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and job.poll() is None:
        if path.exists():
            return
        time.sleep(0.02)
    code, out, err = finish(job, 1)
    pytest.fail(f"{path} never came: the job ended with {code}\n{out}\n{err}")


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_ends_the_job_and_the_checkpoint_is_good(victim: Any, tmp_path: Any) -> None:
    job = start(2, JOB, "endless", str(tmp_path))
    wait_for(tmp_path / "checkpoints" / "round-00000008" / "manifest.json", job)
    pids = json.loads((tmp_path / "pids.json").read_text())
    os.kill(pids[victim], signal.SIGKILL)
    began = time.monotonic()
    code, _, err = finish(job)
    assert time.monotonic() - began < 5
    assert code != 0
    assert "a rank of 2 died, or was killed, before the run was finished" in err
    assert "run the same command with --resume" in err
    assert err.count("error:") == 1
    ranks = 2 if victim else 3  # another number of ranks may go on
    found = json.loads(run(ranks, JOB, "resumed", str(tmp_path)))
    assert found["first"] > 8
    assert found["exact"] or ranks == 3
    assert_same(simulate(cases.case("long")), tmp_path / "resumed.npz")


def test_an_error_on_one_rank_ends_all_of_them() -> None:
    code, _, err = finish(start(2, JOB, "fail", "alone"))
    assert code != 0
    assert "error: rank 1 of 2: only the second rank found a fault" in err
    assert "no checkpoints were asked for" in err


def test_a_fault_in_the_middle_of_a_run_leaves_nobody_waiting() -> None:
    code, _, err = finish(start(2, JOB, "broken"))
    assert code != 0
    assert "ZeroDivisionError: a fault of the caller" in err


def test_an_error_of_all_ranks_is_raised_by_all() -> None:
    code, _, err = finish(start(2, JOB, "fail", "together"))
    assert code != 0
    assert err.count("VeilsumError: the second rank found a fault") == 1  # rank 0 prints for all
    assert "died" not in err
