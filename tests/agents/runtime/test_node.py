"""A node over the network in memory: readings, budgets, floods and turns."""

import io
import json
import time
from typing import Any

import numpy as np
import pytest

from veilsum import algorithms, families
from veilsum.agents.events import PeerDown, ReceivedBatch
from veilsum.agents.ledger import Ledger
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import CumulativeMass
from veilsum.agents.protocol import Options
from veilsum.agents.release import ReleaseMechanism
from veilsum.agents.runtime import IterableReadings, Log, Node
from veilsum.agents.runtime.log import BURST
from veilsum.agents.runtime.node import BATCH
from veilsum.agents.transport.base import Refused, Undecoded
from veilsum.agents.transport.memory import MemoryNetwork
from veilsum.agents.transport.payloads import pack, unpack
from veilsum.agents.wire import encode
from veilsum.errors import AgentError
from veilsum.networks import lazy_metropolis, load
from veilsum.privacy import SignalDP
from veilsum.privacy.accounting import Budget
from veilsum.simulation import Problem, SyntheticSignals


def problem(algorithm: Any = "learn", privacy: Any = None, rounds: Any = 6) -> Any:
    net = lazy_metropolis(load("complete:3"))
    family = families.Normal(sigma=1.0, bounds=(0.0, 10.0))
    source = SyntheticSignals(family, {"mu": 5.0}, 3, 0)
    return Problem(
        net, algorithms.get(algorithm, net), family, source, privacy or SignalDP(1.0), rounds
    )


def node(
    made: Any, folder: Any, readings: Any, budget: Any = 100.0, log: Any = None, **terms: Any
) -> Any:
    """One node with all agents; `readings` by agent."""
    manifest = Manifest.of(made, "node", **terms)
    options = Options(deadline=0.3, resend=0.05, tick=0.01)
    out = Node(
        manifest, MemoryNetwork().transport(), options=options, log=Log(log or io.StringIO())
    )
    for k, label in enumerate(manifest.certificates):
        ledger = Ledger.open(folder / f"{label}.ledger", manifest, label, Budget(budget))
        out.add(
            label, ledger, ReleaseMechanism(manifest, made, label), IterableReadings(readings[k])
        )
    return out


def finish(made_node: Any, seconds: Any = 20) -> Any:
    try:
        made_node.start()
        made_node.run(lambda: made_node.all_done, seconds)
        return made_node.all_done
    finally:
        made_node.close()


def test_a_spent_budget_is_refused_before_drawing_and_mixing_goes_on(tmp_path: Any) -> None:
    log = io.StringIO()
    made = node(problem(), tmp_path, [[5.0] * 6] * 3, budget=2.0, log=log)
    assert finish(made)
    for site in made.agents.values():
        assert site.done.round == 6
        assert site.ledger.releases == 2
        assert site.ledger.spent.epsilon == pytest.approx(2.0)
    refused = [line for line in log.getvalue().splitlines() if '"kind": "budget"' in line]
    assert len(refused) == 3
    assert "nothing was released" in json.loads(refused[0])["text"]


def test_an_asynchronous_agent_gives_others_their_turn_between_readings(tmp_path: Any) -> None:
    made = node(problem(), tmp_path, [iter(lambda: 5.0, None)] * 3, budget=1e9, asynchronous=True)
    made.start()
    began = time.monotonic()
    made.run(seconds=1.0)
    assert time.monotonic() - began < 3.0
    made.close()


def test_a_flood_of_refusals_is_counted_and_not_written_down(tmp_path: Any) -> None:
    log = io.StringIO()
    made = node(problem(), tmp_path, [[5.0] * 6] * 3, log=log)
    for _ in range(5000):
        made.observability.refused("0", "mallory", "nonsense")
    made.close()
    assert made.observability.counts["refused"] == 5000
    assert BURST <= log.getvalue().count("mallory") < 2 * BURST


def test_a_payload_of_nonsense_is_one_refusal() -> None:
    for payload in (bytes(1 << 20), pack([b"nonsense"] * 100)):
        batches, refused = unpack("d", payload, {})
        assert not batches
        assert isinstance(refused, Refused)


def test_messages_before_a_nonsense_one_are_delivered_together_by_receiver() -> None:
    links = {("a", "x"): "d", ("b", "x"): "d", ("a", "y"): "d", ("c", "x"): "other"}
    said = [CumulativeMass(*pair, 1, 1, 5, 4, (30,), 15) for pair in links]
    frames = [encode(message) for message in said]
    good, refused = unpack("d", pack(frames[:3]), links)
    assert good == {"x": said[:2], "y": said[2:3]}
    assert refused is None
    for bad in (frames[3], b"nonsense"):
        batches, refused = unpack("d", pack([*frames[:2], bad, frames[2]]), links)
        assert batches == {"x": said[:2]}
        assert isinstance(refused, Refused)


def test_closing_goes_on_where_one_ledger_fails(tmp_path: Any) -> None:
    made = node(problem(), tmp_path, [[5.0] * 6] * 3)
    ledgers = [site.ledger for site in made.agents.values()]
    usual = ledgers[0].close

    def fail() -> None:
        usual()
        raise OSError("the disk is gone")

    ledgers[0].close = fail
    with pytest.raises(OSError, match="the disk is gone"):
        made.close()
    for k in (1, 2):
        Ledger.open(tmp_path / f"{k}.ledger", made.manifest, str(k), Budget(100.0)).close()


def test_estimates_are_near_the_mean_of_what_was_released(tmp_path: Any) -> None:
    made = node(problem("average", rounds=60), tmp_path, [[1.0], [5.0], [9.0]])
    assert finish(made)
    entries = [site.ledger for site in made.agents.values()]
    assert all(ledger.releases == 1 for ledger in entries)
    held = [site.done.estimate[0] for site in made.agents.values()]
    assert np.ptp(held) < 1e-9


def test_an_agent_is_made_of_its_own_parts(tmp_path: Any) -> None:
    made = problem()
    manifest = Manifest.of(made, "node")
    other = Manifest.of(made, "other")
    node = Node(manifest, MemoryNetwork().transport(), log=Log(io.StringIO()))
    mechanisms = [ReleaseMechanism(manifest, made, label) for label in "012"]
    source = IterableReadings([5.0])
    with Ledger.open(tmp_path / "0.ledger", manifest, "0", Budget(1.0)) as own:
        for wrong, words in (
            (
                ("1", own, mechanisms[1], source),
                "the ledger is that of agent 0, and is added for '1'",
            ),
            (("0", own, mechanisms[2], source), "the release mechanism is that of agent 2"),
            (("0", own, ReleaseMechanism(other, made, "0"), source), "for another manifest"),
            (("0", own, mechanisms[0], [0.5]), "readings must be a source"),
            (("0", "0.ledger", mechanisms[0], source), "ledger must be a Ledger"),
            (("0", own, None, source), "release_mechanism must be a ReleaseMechanism"),
        ):
            with pytest.raises(AgentError, match=words):
                node.add(*wrong)
        assert not node.agents
        node.add("0", own, mechanisms[0], source)
        with pytest.raises(AgentError, match="agent 0 was added before"):
            node.add("0", own, mechanisms[0], source)


@pytest.mark.parametrize("name", ["on_status", "on_report"])
def test_what_cannot_be_called_is_refused_at_once(name: str) -> None:
    wrong: dict[str, Any] = {name: 5}
    with pytest.raises(AgentError, match=f"{name} must be a function; found 5"):
        Node(Manifest.of(problem(), "node"), MemoryNetwork().transport(), **wrong)


def test_timers_wait_for_what_was_queued_before_them(tmp_path: Any) -> None:
    """Agents that repeated what was waiting to be read filled the queue without end."""
    made = node(problem(), tmp_path, [[5.0] * 6] * 3)
    made.start()
    made.run(seconds=0.2)  # calm: the queues are empty at the last look at the timers
    fired: list[int] = []
    made._fire_timers = lambda: fired.append(made._inbox.qsize())
    for _ in range(3 * BATCH):
        made._inbox.put(("0", Refused("1", "one of a flood")))
    made._ahead = made._inbox.qsize()
    for _ in range(10):
        made._inbox.put(("0", Refused("1", "later")))
        made._turn(0.0)
    made.close()
    assert fired, "the timers never have their turn"
    assert fired[0] < BATCH
    assert len(fired) <= 10 - 2


def test_messages_of_several_payloads_are_handled_together_and_in_order(tmp_path: Any) -> None:
    made = node(problem(), tmp_path, [[5.0] * 6] * 3)
    handled: list[Any] = []
    made._handle = lambda agent, event: handled.append((agent.label, event))
    said = [CumulativeMass("1", "0", 1, 1, k, 0, (30,), 15) for k in range(1, 5)]
    payloads = [Undecoded([("0", ReceivedBatch([message]))].copy) for message in said]
    for payload in payloads[:2]:
        made._deliver("", payload)
    made._deliver("0", PeerDown("1"))
    for payload in payloads[2:]:
        made._deliver("", payload)
    made._take_arrivals(time.monotonic())
    assert handled == [
        ("0", ReceivedBatch(said[:2])),
        ("0", PeerDown("1")),
        ("0", ReceivedBatch(said[2:])),
    ]
    made.close()
