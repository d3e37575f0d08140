"""Files of measured signals that several ranks wrote, under the attacks of tests/results."""

from typing import Any

import pytest

from tests.mpi.namespace import finish, needs_namespace, start
from tests.results.test_release_attacks import SEED, attack, plant

pytestmark = needs_namespace


def job(verb: Any, scenario: Any, *more: Any) -> Any:
    words = ["-m", "veilsum.cli", verb, str(scenario), "--engine", "mpi", *more]
    return finish(start(2, *words))


@pytest.mark.parametrize(
    ("algorithm", "kind", "verb"),
    [
        ("average", "global", "run"),
        ("average", "smooth", "run"),
        ("learn", "global", "run"),
        ("learn", "smooth", "sweep"),
        ("average", "global", "sweep"),
        ("average", "nothing", "run"),
    ],
)
def test_ranks_leave_nothing_that_tells_of_a_signal(
    algorithm: Any, kind: Any, verb: Any, tmp_path: Any
) -> None:
    scenario = plant(tmp_path, algorithm, kind)
    code, out, err = job(verb, scenario, "--out", str(tmp_path / "out"))
    assert code == 0, err
    assert attack(tmp_path, scenario, out + err) == []


def test_ranks_draw_the_noise_of_one_machine_from_a_given_seed(tmp_path: Any) -> None:
    """Entropy differs from rank to rank, and all take rank 0's; a given seed is everyone's."""
    from tests.results.test_release_attacks import call

    scenario = plant(tmp_path, "average", "global", seed=SEED)
    call("run", scenario, "--out", tmp_path / "one")
    code, _, err = job("run", scenario, "--out", str(tmp_path / "two"))
    assert code == 0, err
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "two.csv").read_text()


def test_no_checkpoint_is_kept_of_measured_signals(tmp_path: Any) -> None:
    """It would hold the estimates without noise and the state of every agent."""
    scenario = plant(tmp_path, "average", "global")
    out = tmp_path / "out"
    code, _, err = job("run", scenario, "--out", str(out), "--checkpoint-every", "2")
    assert code == 1
    assert "written to no file" in err
    assert not list(tmp_path.glob("out*"))
