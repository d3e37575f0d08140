"""A reading is acknowledged after it is committed, passed over or found unusable; never before."""

from pathlib import Path
from typing import Any

from tests.agents.readings.released import entries, run_agents
from veilsum.agents.ledger import ReadingOrigin
from veilsum.agents.readings import Readings, SourceState, Value
from veilsum.errors import SignalError


class Recorded(Readings):
    """Keyed readings from a list; None is one that cannot be used."""

    keyed, naming = True, "key of the test"

    def __init__(self, given: list[Any], events: list[Any]) -> None:
        self.given, self.events, self.last = list(given), events, ""

    def skip(self, count: int, check: Any = None) -> None:
        pass

    def next(self) -> Value | SourceState:
        if not self.given:
            return SourceState.WAITING
        key, value = self.given.pop(0)
        self.last, self.origin = key, ReadingOrigin(key, keyed=True)
        self.events.append(("next", key))
        if value is None:
            raise SignalError("the second is unusable")
        return float(value)

    def acknowledge(self) -> None:
        self.events.append(("acknowledge", self.last))

    def close(self) -> None:
        pass


GIVEN = [("a", 1), ("b", None), ("a", 1), ("c", 3)]


def test_acknowledged_after_the_commit_and_not_before(tmp_path: Path) -> None:
    events: list[Any] = []
    source = Recorded(GIVEN, events)
    run_agents(
        tmp_path, source, lambda n: n >= 2 and len(events) >= 10, probe=lambda e: events.append(e)
    )
    relevant = [event for event in events if event == "committed" or isinstance(event, tuple)]
    assert relevant == [
        ("next", "a"),
        "committed",
        ("acknowledge", "a"),
        ("next", "b"),
        ("acknowledge", "b"),  # unusable: it would come for ever
        ("next", "a"),
        ("acknowledge", "a"),  # recognised
        ("next", "c"),
        "committed",
        ("acknowledge", "c"),
    ]
    assert len(entries(tmp_path)) == 2


def test_a_reading_that_no_budget_is_left_for_stays_at_its_source(tmp_path: Path) -> None:
    events: list[Any] = []
    source = Recorded([("a", 1), ("b", 2), ("c", 3)], events)
    run_agents(tmp_path, source, lambda _: ("next", "b") in events, budget=1.5)
    assert ("acknowledge", "a") in events
    assert ("acknowledge", "b") not in events
    assert len(entries(tmp_path)) == 1
