"""The hub: snapshot and events in order, and publishing that no reader can hold up."""

import asyncio
import json
import threading
from typing import Any

import pytest

from veilsum.live.hub import Hub, LiveEvent


def read(hub: Hub, count: int) -> list[LiveEvent]:
    async def reading() -> list[LiveEvent]:
        with hub.subscribe() as subscription:
            found = [await subscription.next(5.0) for _ in range(count)]
        return [event for event in found if event is not None]

    return asyncio.run(reading())


def test_a_new_reader_receives_the_snapshot_and_no_replay() -> None:
    hub = Hub({"name": "north"})
    for round in range(100):
        hub.publish("status", {"round": round})
    (event,) = read(hub, 1)
    assert (event.kind, event.id) == ("snapshot", 100)
    assert json.loads(event.data) == {"name": "north", "status": {"round": 99}}


def test_events_follow_the_snapshot_in_order_from_another_thread() -> None:
    hub = Hub(most_waiting=1000)

    def publishing() -> None:
        for round in range(500):
            hub.publish("status", {"round": round})

    async def reading() -> list[LiveEvent]:
        with hub.subscribe() as subscription:
            thread = threading.Thread(target=publishing)
            found = [await subscription.next(5.0)]
            thread.start()
            while found[-1] is not None and found[-1].id < 500:
                found.append(await subscription.next(5.0))
            thread.join()
        return [event for event in found if event is not None]

    found = asyncio.run(reading())
    assert [event.id for event in found] == list(range(501))
    assert found[0].kind == "snapshot"


def test_a_reader_that_is_behind_loses_the_oldest_and_then_receives_a_snapshot() -> None:
    hub = Hub(most_waiting=8)

    async def reading() -> tuple[int, int, list[Any]]:
        with hub.subscribe() as subscription:
            await subscription.next(1.0)
            for round in range(10_000):
                hub.publish("status", {"round": round})
            waiting = subscription.waiting
            found = [await subscription.next(0.01) for _ in range(2)]
            return waiting, subscription.dropped, found

    waiting, dropped, (event, after) = asyncio.run(reading())
    assert waiting == 8
    assert dropped == hub.dropped == 10_000 - 8
    assert (event.kind, event.id, json.loads(event.data)) == (
        "snapshot", 10_000, {"status": {"round": 9_999}},
    )  # fmt: skip
    assert after is None


def test_a_loop_that_never_turns_receives_one_call_however_many_events() -> None:
    """The publisher's calls into a frozen server's loop are bounded too, not the queue alone."""
    hub, calls = Hub(most_waiting=4), []

    async def entering() -> None:
        loop = asyncio.get_running_loop()
        with hub.subscribe() as subscription:
            await subscription.next(1.0)
            original = loop.call_soon_threadsafe
            loop.call_soon_threadsafe = lambda *given: calls.append(given)  # type: ignore
            for round in range(5_000):
                hub.publish("status", {"round": round})
            loop.call_soon_threadsafe = original  # type: ignore[method-assign]

    asyncio.run(entering())
    assert len(calls) == 1


def test_closing_ends_every_subscription_after_what_waits() -> None:
    hub = Hub()

    async def reading() -> list[str]:
        with hub.subscribe() as subscription:
            hub.publish("status", {})
            hub.close()
            hub.publish("status", {})
            return [event.kind async for event in subscription]

    assert asyncio.run(reading()) == ["snapshot"]
    assert hub.readers == 0


def test_what_a_page_keeps_is_its_own_choice() -> None:
    def apply(snapshot: dict[str, Any], kind: str, data: dict[str, Any]) -> None:
        snapshot[kind] = [*snapshot.get(kind, []), data][-3:]

    hub = Hub(apply=apply)
    for k in range(10):
        hub.publish("log", {"k": k})
    assert hub.snapshot == {"log": [{"k": 7}, {"k": 8}, {"k": 9}]}
    hub.snapshot["log"].clear()
    assert len(hub.snapshot["log"]) == 3, "it is a copy"


@pytest.mark.parametrize("kind", ["", "two words", "a\nevent: b", "snapshot", "beat", "end"])
def test_a_kind_is_one_word(kind: str) -> None:
    with pytest.raises(ValueError, match="one word"):
        Hub().publish(kind, {})


def test_data_is_one_line_and_json_without_nan() -> None:
    hub = Hub()
    hub.publish("log", {"text": "a\n\nevent: forged\u2028"})
    (event,) = read(hub, 1)
    assert event.encode().count(b"\n") == 4
    with pytest.raises(ValueError, match="JSON"):
        hub.publish("status", {"estimate": float("nan")})
    assert hub.last_id == 1
