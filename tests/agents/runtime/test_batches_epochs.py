"""Epochs that change while a batch is open: each reading is released once, and charged once."""

from typing import Any

import pytest

from tests.agents.runtime.test_batches_run import (
    DEVICE,
    ROUNDS,
    Run,
    entries,
    in_batches,
    powers,
    which,
)
from veilsum.agents.readings import SourceState
from veilsum.agents.runtime import IterableReadings


def ones() -> Any:
    """Readings of the others, who have none left one day and wait."""
    made = IterableReadings([1.0] * ROUNDS)
    usual = made.next

    def wait() -> Any:
        found = usual()
        return SourceState.WAITING if found is SourceState.END else found

    made.next = wait  # type: ignore[method-assign]
    return made


@pytest.mark.parametrize("device", [DEVICE, None], ids=["spool", "memory"])
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_each_reading_is_released_once_over_many_epochs(
    tmp_path: Any, asynchronous: bool, keyed: bool, device: Any
) -> None:
    """An epoch after each reading but one: with the batch in the spool, half of it, or none."""
    source = powers(tmp_path, keyed)
    terms = {"asynchronous": asynchronous, "rounds": 0}
    made = in_batches(2.0, 3)
    for epoch, place in enumerate((1, 3, 5, 6, 8, 9, 10, 12), 1):
        run = Run(
            tmp_path, [source, ones(), ones()], made, device=device,
            terms={**terms, "epoch": epoch},
        )  # fmt: skip
        agent = run.node.agents["0"]
        run.finish(lambda agent=agent, place=place: agent.position >= place)
        assert agent.counts.passed_over == 0
    found = which(tmp_path, run.manifest.unit)
    waiting = sum(1 << (record.position - 1) for record in agent.spool.records)
    assert sum(found) + waiting == (1 << ROUNDS) - 1, [bin(each) for each in found]
    assert sum(each.bit_count() for each in found) + waiting.bit_count() == ROUNDS
    assert sum(entry.epsilon for entry in entries(tmp_path)) == len(found)
    assert max(each.bit_count() for each in found) <= 3
