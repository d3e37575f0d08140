"""What of a status is public: named fields only, whole seconds, and of a bounded size."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.agents.observers.observing import status
from veilsum.agents.coverage import Coverage
from veilsum.agents.messages import StatusMessage
from veilsum.agents.observers import checked_status
from veilsum.agents.runtime.status import MOST_COMPONENTS, MOST_LISTED, PUBLIC, AgentStatus
from veilsum.agents.wire import MOST_BYTES, encode_status
from veilsum.errors import AgentError


def test_only_named_fields_are_public() -> None:
    found = status().public()
    assert set(found) == {*PUBLIC, "withheld", "left_out"}
    assert not {"process", "machine", "unprojected", "file"} & set(found)
    assert found["readings"] == {
        "released": 3
    }  # whether a reading can be used depends on what it is
    assert (found["time"], found["last_reading"], found["certificate_days"]) == (
        1_800_000_003,
        1_800_000_000,
        41,
    )
    assert found["estimate"] == [48.5]
    assert found["withheld"] == []


def test_a_new_fact_of_a_status_is_not_public_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = AgentStatus.to_json
    monkeypatch.setattr(AgentStatus, "to_json", lambda self: whole(self) | {"log": "a line"})
    assert "log" not in status().public()


def test_without_a_guarantee_for_it_there_is_no_estimate() -> None:
    found = status(covered=False).public()
    assert (found["estimate"], found["half_width"], found["sampling"]) == ([], [], None)
    assert found["withheld"] == ["estimate", "half_width", "sampling"]
    assert "48.5" not in json.dumps(found)


def _long() -> AgentStatus:
    """The longest: 5,000 members with long names, all of them missing, and 1,000 components."""
    labels = tuple(f"{k:04}{'ä' * 98}" for k in range(5000))
    made = status()
    many = tuple(-1.2345678901234567e-300 * (k + 1) for k in range(1000))
    result = replace(
        made.result,
        coverage=Coverage(labels, (), (0,) * 5000),
        estimate=many,
        unprojected=many,
        half_width=many,
        sampling=many,
        guarantee="g" * 10_000,
        agent=labels[0],
    )
    links = {label: "open" if k % 2 else "connecting" for k, label in enumerate(labels)}
    return replace(made, result=result, links=links)


def test_long_lists_are_cut_and_say_so() -> None:
    long = _long()
    found = long.public()
    assert found["left_out"] == {
        "links": 4950, "missing": 4950, "absent": 4950, "estimate": 1000 - MOST_COMPONENTS,
        "half_width": 1000 - MOST_COMPONENTS, "sampling": 1000 - MOST_COMPONENTS,
    }  # fmt: skip
    assert len(found["links"]) == MOST_LISTED
    assert set(found["links"].values()) == {"connecting"}  # those that need a look come first
    text = json.dumps(found, ensure_ascii=False)
    size = len(encode_status(StatusMessage(long.result.agent, "x" * 200, 1, text)))
    assert size < MOST_BYTES
    checked = checked_status(text)
    assert checked["left_out"] == found["left_out"]
    whole = long.to_json()
    with pytest.raises(AgentError, match="at most 65,536"):  # uncut it would not be sent at all
        encode_status(StatusMessage("a", "b", 1, json.dumps(whole, ensure_ascii=False)))


def test_what_is_public_is_what_an_observer_accepts() -> None:
    for covered in (True, False):
        public = json.loads(json.dumps(status(covered=covered).public()))
        assert checked_status(json.dumps(public)) == public


CHANGES: dict[str, dict[str, Any]] = {
    "round": {"round": -1},
    "a flag": {"complete": "yes"},
    "no list": {"estimate": 48.5},
    "text in it": {"estimate": ["48.5"]},
    "too many": {"links": {str(k): "open" for k in range(101)}},
    "long text": {"state": "x" * 301},
    "control characters": {"version": "0.1\x1b]0;owned\x07"},
    "right to left": {"state": "\u202egninnur"},
    "a table": {"budget": {"epsilon": {}}},
    "no interval": {"half_width": []},
    "huge": {"round": 2**63},
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_is_no_status_is_not_accepted(case: str) -> None:
    changed = status().public() | CHANGES[case]
    with pytest.raises(AgentError, match="its status cannot be used") as refused:
        checked_status(json.dumps(changed))
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_a_missing_field_is_named_and_a_later_one_is_dropped() -> None:
    public = status().public()
    with pytest.raises(AgentError, match="field 'budget'"):
        checked_status(json.dumps({k: v for k, v in public.items() if k != "budget"}))
    assert "shiny" not in checked_status(json.dumps(public | {"shiny": 1}))
