"""Slots without a release: stored as runs, so that neither memory nor disk grows with them."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.protocol.cases import small
from veilsum.agents.events import Released
from veilsum.agents.protocol import Agent, memory
from veilsum.agents.protocol.gaps import Gaps
from veilsum.agents.protocol.history import ReleaseHistory
from veilsum.agents.protocol.mass import Mass
from veilsum.errors import LedgerError

SLOTS = 10_000
MOST_BYTES = (
    1_500  # of a snapshot, whatever the slots without a release; a list has 48,900 for one run
)
MOST_SPREAD = 5_000  # the same where chance decides for each of 20,000 slots: a bit each, as text


class PlainGaps(set[int]):
    """The reference: every number by itself."""

    def extend(self, first: int, last: int) -> None:
        self.update(range(first, last + 1))

    def text(self) -> list[int]:
        return sorted(self)


# A jump ahead, or a number from before: what `Mass` and `ReleaseHistory` do.
STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=60)


@given(STEPS)
def test_runs_behave_as_the_plain_set(steps: list[tuple[bool, int]]) -> None:
    gaps, plain, last = Gaps(), PlainGaps(), 0
    for ahead, size in steps:
        number = last + size + 1 if ahead else max(last - size, 1)
        for each in (gaps, plain):
            each.discard(number)
            each.extend(last + 1, number - 1)
        last = max(last, number)
        assert [k in gaps for k in range(last + 3)] == [k in plain for k in range(last + 3)]
        assert (list(gaps), len(gaps)) == (sorted(plain), len(plain))
        assert Gaps.parse(gaps.text()) == gaps == Gaps.parse(sorted(plain))
    assert gaps.runs <= len(steps) + 1


@given(STEPS)
def test_releases_enter_as_with_the_plain_set(steps: list[tuple[bool, int]]) -> None:
    """The same mass, the same heads of the history, in any order and with repetitions."""
    one, other = agent(), agent()
    other.mass.skipped = PlainGaps()  # type: ignore[assignment]
    heads = ReleaseHistory("0"), ReleaseHistory("0")
    heads[1]._gaps = PlainGaps()  # type: ignore[assignment]
    last = 0
    for ahead, size in steps:
        number = last + size + 1 if ahead else max(last - size, 1)
        last = max(last, number)
        for each, history in zip((one, other), heads, strict=True):
            each.mass.offer(Released(number, (number,), 1))
            each.mass.enter()
            history.add(Released(number, (number,), 1))
        assert facts(one.mass) == facts(other.mass)
        assert heads[0].head == heads[1].head


def agent() -> Agent:
    made = Agent(small(asynchronous=True), "0")
    made.state.incarnation = 1
    return made


def facts(mass: Mass) -> Any:
    return mass.sums, mass.weight, mass.released_sums, mass.entered, mass.pending


def released_at(numbers: list[int]) -> Agent:
    """An agent with releases of these slots."""
    made = agent()
    for number in numbers:
        made.mass.offer(Released(number, (number,), 1))
        made.mass.enter()
    return made


def spread() -> list[int]:
    chance = random.Random(1)
    return [slot for slot in range(1, 2 * SLOTS) if chance.random() < 0.5] + [2 * SLOTS]


PATTERNS = {
    "one run": ([SLOTS + 1], MOST_BYTES),
    "every other": (list(range(2, 2 * SLOTS + 1, 2)), MOST_BYTES),
    "nights": ([k for k in range(1, 3 * SLOTS) if k % 24 > 7] + [3 * SLOTS], MOST_BYTES),
    "by chance": (spread(), MOST_SPREAD),
}


@pytest.mark.parametrize(("numbers", "most"), PATTERNS.values(), ids=PATTERNS)
def test_ten_thousand_slots_without_a_release_leave_a_small_snapshot(
    numbers: list[int], most: int
) -> None:
    made = released_at(numbers)
    assert len(made.mass.skipped) >= SLOTS - 200
    written = made.to_bytes()
    assert len(written) < most
    again = agent()
    parts = again.state, again.mass, again.links
    memory.restore(again.manifest.digest, *parts, written)
    assert again.mass.skipped == made.mass.skipped
    assert again.to_bytes() == written


def test_a_list_of_every_slot_would_not_be_small() -> None:
    """The weakened variant: what was written before."""
    made = released_at([SLOTS + 1])
    made.mass.skipped = PlainGaps(made.mass.skipped)  # type: ignore[assignment]
    assert len(made.to_bytes()) > 30 * MOST_BYTES


def test_a_release_far_ahead_costs_no_memory() -> None:
    """Who joins a stream in a late round has had no slot before."""
    made, history = released_at([10**15]), ReleaseHistory("0")
    history.add(Released(10**15, (1,), 1))
    assert made.mass.skipped.runs == history._gaps.runs == 1
    assert len(made.to_bytes()) < MOST_BYTES


@pytest.mark.parametrize("written", ["!", "AAAA", [3, 2], 7, {"a": 1}])
def test_what_cannot_be_read_is_an_error_that_says_what_to_do(written: Any) -> None:
    with pytest.raises(LedgerError, match="begin a new incarnation"):
        Gaps.parse(json.loads(json.dumps(written)))
