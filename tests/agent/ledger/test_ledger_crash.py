"""`kill -9` at every step of a charge: what was sent is what is found, for exactly one charge."""

import json
import os
import signal

import pytest

from murmura.agent.ledger import Ledger, Spent, verify
from murmura.privacy import Budget, Loss

STEPS = ("checked", "drawn", "written", "committed", "sent")
BUDGET, PRICE = Budget(1.0), Loss(0.25)


def fresh():
    return (int.from_bytes(os.urandom(16)),)


class CommitsLater(Ledger):
    """A weakened twin: gives the value away, and would write it down when it is closed."""

    def _write(self, entry):
        self._count, self._head = entry.seq, entry.hash


class Redraws(Ledger):
    """A weakened twin: knows that the reading was charged, and draws again all the same."""

    def charge(self, reading, round, price, draw):
        known = super().charge(reading, round, price, draw)
        return known._replace(sums=draw())


def die(kind, path, manifest, step, readings):
    """Charge readings in a process of its own, killed at `step` of the last; what it sent."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        _victim(kind, path, manifest, step, readings, into)
    os.close(into)
    with os.fdopen(out) as told:
        sent = []
        for line in told:
            word = json.loads(line)
            if word == "waiting":
                os.kill(child, signal.SIGKILL)
                break
            sent.append(tuple(word))
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
    return sent


def _victim(kind, path, manifest, step, readings, into):
    try:
        last, now = readings[-1], []

        def at(here):
            if here == step and now == [last]:
                os.write(into, b'"waiting"\n')
                signal.pause()

        ledger = kind.open(path, manifest, "0", BUDGET, probe=at)
        for reading in readings:
            now[:] = [reading]
            released = ledger.charge(reading, reading, PRICE, fresh)
            os.write(into, (json.dumps(released.sums) + "\n").encode())
            at("sent")
    finally:
        os._exit(3)


def keeps_its_word(kind, path, manifest, step):
    sent = die(kind, path, manifest, step, (1, 2))
    assert len(sent) == (2 if step == "sent" else 1)
    sound = verify(path)
    assert sound.ok, sound.problems
    with kind.open(path, manifest, "0", BUDGET) as ledger:
        found = [ledger.charge(r, r, PRICE, fresh).sums for r in (1, 2)]
        assert found[: len(sent)] == sent
        assert ledger.spent == Spent(0.5, 0.0)
        assert ledger.releases == 2
    assert verify(path).ok


@pytest.mark.parametrize("step", STEPS)
def test_what_was_sent_is_found_again(tmp_path, manifest, step):
    keeps_its_word(Ledger, tmp_path / "a.ledger", manifest, step)


@pytest.mark.parametrize("kind", [CommitsLater, Redraws])
def test_the_test_sees_a_ledger_that_does_not_keep_it(tmp_path, manifest, kind):
    with pytest.raises(AssertionError):
        keeps_its_word(kind, tmp_path / "a.ledger", manifest, "sent")


def test_committed_means_committed_although_nobody_was_told(tmp_path, manifest):
    die(Ledger, tmp_path / "a.ledger", manifest, "committed", (1,))
    with Ledger.open(tmp_path / "a.ledger", manifest, "0", BUDGET) as ledger:
        assert ledger.releases == 1
        assert ledger.charge(1, 1, PRICE, pytest.fail) == ledger.find(1)


def test_not_committed_means_not_charged(tmp_path, manifest):
    die(Ledger, tmp_path / "a.ledger", manifest, "written", (1,))
    with Ledger.open(tmp_path / "a.ledger", manifest, "0", BUDGET) as ledger:
        assert ledger.releases == 0
        assert ledger.spent == Spent(0.0, 0.0)


def test_many_deaths_in_a_row_cost_one_charge_each(tmp_path, manifest):
    sent = {}
    for step in (*STEPS[:3] * 2, "committed", *["sent"] * 3):
        for reading, value in enumerate(
            die(Ledger, tmp_path / "a.ledger", manifest, step, (1, 2, 3)), 1
        ):
            assert sent.setdefault(reading, value) == value
    with Ledger.open(tmp_path / "a.ledger", manifest, "0", BUDGET) as ledger:
        assert {r.reading: r.sums for r in ledger.released()} == sent
        assert ledger.spent == Spent(0.75, 0.0)
