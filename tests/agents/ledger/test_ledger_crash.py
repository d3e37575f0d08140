"""`kill -9` at every step of a charge: what was sent is what is found, for exactly one charge."""

import json
import os
import signal
from typing import Any

import pytest

from veilsum.agents.ledger import EpsilonDelta, Ledger, verify
from veilsum.privacy import Budget, PrivacyEvent

STEPS = ("checked", "drawn", "written", "committed", "sent")
BUDGET, COST = Budget(1.0), PrivacyEvent(0.25)


def fresh() -> Any:
    return (int.from_bytes(os.urandom(16)),)


class CommitsLater(Ledger):
    """A weakened twin: gives the value away, and would write it down when it is closed."""

    def _write(self, entry: Any, slot: int | None = None) -> Any:
        del slot
        self._writer.count += 1
        return entry


class Redraws(Ledger):
    """A weakened twin: knows that the reading was charged, and draws again all the same."""

    def charge(self, reading: Any, round: Any, cost: Any, draw: Any, *more: Any) -> Any:
        known = super().charge(reading, round, cost, draw, *more)
        return known._replace(sums=draw())


def die(kind: Any, path: Any, manifest: Any, step: Any, readings: Any) -> Any:
    """Charge readings in a process of its own, killed at `step` of the last; what it sent."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        _victim(kind, path, manifest, step, readings, into)
    os.close(into)
    with os.fdopen(out) as reported:
        sent = []
        for line in reported:
            word = json.loads(line)
            if word == "waiting":
                os.kill(child, signal.SIGKILL)
                break
            sent.append(tuple(word))
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
    return sent


def _victim(kind: Any, path: Any, manifest: Any, step: Any, readings: Any, into: Any) -> None:
    try:
        now: list[Any] = []
        last = readings[-1]

        def at(here: Any) -> None:
            if here == step and now == [last]:
                os.write(into, b'"waiting"\n')
                signal.pause()

        ledger = kind.open(path, manifest, "0", BUDGET, probe=at)
        for reading in readings:
            now[:] = [reading]
            released = ledger.charge(reading, reading, COST, fresh)
            os.write(into, (json.dumps(released.sums) + "\n").encode())
            at("sent")
    finally:
        os._exit(3)


def keeps_its_word(kind: Any, path: Any, manifest: Any, step: Any) -> None:
    sent = die(kind, path, manifest, step, (1, 2))
    assert len(sent) == (2 if step == "sent" else 1)
    sound = verify(path)
    assert sound.ok, sound.problems
    with kind.open(path, manifest, "0", BUDGET) as ledger:
        found = [ledger.charge(r, r, COST, fresh).sums for r in (1, 2)]
        assert found[: len(sent)] == sent
        assert ledger.spent == EpsilonDelta(0.5, 0.0)
        assert ledger.releases == 2
    assert verify(path).ok


@pytest.mark.parametrize("step", STEPS)
def test_what_was_sent_is_found_again(tmp_path: Any, manifest: Any, step: Any) -> None:
    keeps_its_word(Ledger, tmp_path / "a.ledger", manifest, step)


@pytest.mark.parametrize("kind", [CommitsLater, Redraws])
def test_the_test_sees_a_ledger_that_does_not_keep_it(
    tmp_path: Any, manifest: Any, kind: Any
) -> None:
    with pytest.raises(AssertionError):
        keeps_its_word(kind, tmp_path / "a.ledger", manifest, "sent")


def test_committed_means_committed_although_nobody_was_informed(
    tmp_path: Any, manifest: Any
) -> None:
    die(Ledger, tmp_path / "a.ledger", manifest, "committed", (1,))
    with Ledger.open(tmp_path / "a.ledger", manifest, "0", BUDGET) as ledger:
        assert ledger.releases == 1
        assert ledger.charge(1, 1, COST, pytest.fail) == ledger.find(1)


def test_not_committed_means_not_charged(tmp_path: Any, manifest: Any) -> None:
    die(Ledger, tmp_path / "a.ledger", manifest, "written", (1,))
    with Ledger.open(tmp_path / "a.ledger", manifest, "0", BUDGET) as ledger:
        assert ledger.releases == 0
        assert ledger.spent == EpsilonDelta(0.0, 0.0)


def test_many_deaths_in_a_row_cost_one_charge_each(tmp_path: Any, manifest: Any) -> None:
    sent: dict[Any, Any] = {}
    for step in (*STEPS[:3] * 2, "committed", *["sent"] * 3):
        for reading, value in enumerate(
            die(Ledger, tmp_path / "a.ledger", manifest, step, (1, 2, 3)), 1
        ):
            assert sent.setdefault(reading, value) == value
    with Ledger.open(tmp_path / "a.ledger", manifest, "0", BUDGET) as ledger:
        assert {r.reading: r.sums for r in ledger.released()} == sent
        assert ledger.spent == EpsilonDelta(0.75, 0.0)
