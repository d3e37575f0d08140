"""Faults for real transports: messages that are lost above one, and connections that are cut below it."""

import io
import json
import socket
import threading
import time
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from veilsum import algorithms, families
from veilsum.agents.ledger import Ledger, verify
from veilsum.agents.local_cluster.plan import free_ports
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import CumulativeMass, Hello
from veilsum.agents.pki import Authority
from veilsum.agents.protocol import Options
from veilsum.agents.release import ReleaseMechanism
from veilsum.agents.runtime import IterableReadings, Log, Node
from veilsum.agents.transport.zenoh import ZenohTransport
from veilsum.errors import AgentError
from veilsum.networks import Graph, lazy_metropolis
from veilsum.privacy import SignalDP
from veilsum.privacy.accounting import Budget
from veilsum.simulation import Problem, SyntheticSignals
from veilsum.testing import Faults, FaultyProxy, LossyTransport, MemoryNetwork

MEMBERS = ("a", "b", "c")
ROUNDS = 40


def pair(faults: Any, mutate: Any = None, seed: int = 1) -> Any:
    """A lossy transport, and what arrives at the other end."""
    network, heard = MemoryNetwork(), []
    ears = network.transport()
    ears.attach("b", ["a"])
    ears.open(lambda _, arrival: heard.append(getattr(arrival, "message", None)))
    lossy = LossyTransport(network.transport(), faults, seed, mutate)
    lossy.attach("a", ["b"])
    lossy.open(lambda *_: None)
    heard.clear()
    return lossy, heard


def mass(number: int) -> Any:
    return CumulativeMass("a", "b", 1, 1, number, 0, (number,), number)


def test_what_is_lost_and_what_is_not_adds_up() -> None:
    lossy, heard = pair(Faults(drop=0.3, duplicate=0.1, reorder=0.1))
    for k in range(20_000):
        lossy.send(mass(k))
    counts = lossy.counts
    assert counts["sent"] == 20_000
    assert len(heard) in (
        20_000 - counts["dropped"] + counts["duplicated"],
        20_000 - counts["dropped"] + counts["duplicated"] - 1,  # one is still held back
    )
    # 6 standard deviations of 20,000 draws: false alarms are below 1e-8
    assert abs(counts["dropped"] - 6000) < 6 * (20_000 * 0.3 * 0.7) ** 0.5
    rounds = [message.round for message in heard]
    assert rounds != sorted(rounds)


def test_the_same_seed_has_the_same_faults_and_none_changes_nothing() -> None:
    first, second = (pair(Faults(drop=0.5)) for _ in range(2))
    third, everything = pair(Faults())
    for k in range(100):
        for lossy in (first[0], second[0], third):
            lossy.send(mass(k))
    assert first[1] == second[1]
    assert len(first[1]) < 100
    assert [message.round for message in everything] == list(range(100))


def test_messages_can_be_mutated_on_the_way() -> None:
    lossy, heard = pair(Faults(), lambda message: message._replace(incarnation=7))
    lossy.send(Hello("a", "b", 1, 0, 1, bytes(32), ()))
    assert heard[0].incarnation == 7


@pytest.fixture
def line() -> Any:
    """A listener, a proxy before it, and both ends of a connection through it."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listener.settimeout(20)
        proxy = stack.enter_context(FaultyProxy(listener.getsockname()[1]))
        near = stack.enter_context(socket.create_connection(("127.0.0.1", proxy.port), 20))
        far, _ = listener.accept()
        far.settimeout(20)
        yield proxy, near, stack.enter_context(far)


def test_a_proxy_passes_everything_on_in_both_directions(line: Any) -> None:
    _, near, far = line
    sent = np.random.default_rng(1).bytes(300_000)
    writer = threading.Thread(target=lambda: (near.sendall(sent), near.shutdown(socket.SHUT_WR)))
    writer.start()
    got = b""
    while data := far.recv(65_536):
        got += data
    writer.join(20)
    assert got == sent


def test_a_delay_is_at_least_that(line: Any) -> None:
    proxy, near, far = line
    proxy.delay = 0.2
    began = time.monotonic()
    near.sendall(b"x")
    assert far.recv(1) == b"x"
    assert time.monotonic() - began >= 0.2


def test_a_partition_is_silent_and_heals(line: Any) -> None:
    proxy, near, far = line
    proxy.partition()
    near.sendall(b"x")
    far.settimeout(0.3)
    with pytest.raises(TimeoutError):
        far.recv(1)
    far.settimeout(20)
    proxy.heal()
    assert far.recv(1) == b"x"


def test_a_reset_is_one(line: Any) -> None:
    proxy, near, far = line
    near.sendall(b"x")
    assert far.recv(1) == b"x"
    assert proxy.reset() == 1
    for end in (near, far):
        with pytest.raises(ConnectionResetError):
            end.recv(1)
    assert proxy.reset() == 0


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AgentError, match=f"port {port}"):
            FaultyProxy(1, port=port)


class Fleet:
    """Three agents over mutual TLS, through proxies, with a transport that loses messages."""

    def __init__(self, folder: Any, faults: Any) -> None:
        graph = Graph(3, np.array([(0, 1), (1, 2), (0, 2)]), list(MEMBERS))
        net = lazy_metropolis(graph)
        family = families.Normal(sigma=1.0, bounds=(0.0, 10.0))
        source = SyntheticSignals(family, {"mu": 5.0}, 3, 0)
        average = algorithms.get("average", net)
        self.problem = Problem(net, average, family, source, SignalDP(1.0), ROUNDS)
        self.manifest = Manifest.of(self.problem, "faults")
        self.folder, self.faults, self.log = folder, faults, io.StringIO()
        authority = Authority.create(folder / "keys")
        ports = dict(zip(MEMBERS, free_ports(3), strict=True))
        for name in MEMBERS:
            authority.issue(name, ["127.0.0.1"], days=1)
        self.proxies = {
            (one, two): FaultyProxy(ports[two], delay=0.005)
            for k, one in enumerate(MEMBERS)
            for two in MEMBERS[:k]
        }
        self.transports: list[LossyTransport] = []
        self.nodes = {k: self._node(k, ports, authority) for k in MEMBERS}

    def _node(self, label: str, ports: Any, authority: Any) -> Any:
        reached = {two: proxy.port for (one, two), proxy in self.proxies.items() if one == label}
        inner = ZenohTransport(
            self.manifest.name,
            label,
            listen=[f"tls/127.0.0.1:{ports[label]}"],
            connect={name: f"tls/127.0.0.1:{port}" for name, port in reached.items()},
            devices=self.manifest.certificates,
            credentials=authority.credentials(label),
        )
        transport = LossyTransport(inner, self.faults, seed=ord(label))
        self.transports.append(transport)
        options = Options(deadline=1.0, resend=0.05)
        node = Node(self.manifest, transport, options=options, log=Log(self.log))
        ledger = Ledger.open(self.folder / f"{label}.ledger", self.manifest, label, Budget(1.0))
        mechanism = ReleaseMechanism(self.manifest, self.problem, label)
        node.add(label, ledger, mechanism, IterableReadings([5.0]))
        return node

    def round(self) -> int:
        return int(min(node.agents[k].protocol.round for k, node in self.nodes.items()))

    def wait(self, condition: Any, what: str) -> None:
        end = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < end, f"{what}: {self.log.getvalue()[-2000:]}"
            time.sleep(0.02)

    def close(self) -> None:
        for node in self.nodes.values():
            node.stop()
        for proxy in self.proxies.values():
            proxy.close()


def test_agents_agree_over_tls_with_30_percent_loss_delays_resets_and_a_partition(
    tmp_path: Any,
) -> None:
    fleet = Fleet(tmp_path, Faults(drop=0.3, duplicate=0.1, reorder=0.1))
    threads = [
        threading.Thread(target=lambda n=node: (n.start(), n.run(seconds=150)))
        for node in fleet.nodes.values()
    ]
    for thread in threads:
        thread.start()
    try:
        fleet.wait(lambda: fleet.round() >= 5, "the rounds do not begin")
        assert sum(proxy.reset() for proxy in fleet.proxies.values()) >= 3
        fleet.wait(lambda: fleet.round() >= 12, "no round ends after a reset")
        for one, proxy in fleet.proxies.items():
            if "c" in one:
                proxy.partition()
        time.sleep(0.5)
        reached = fleet.round()
        for proxy in fleet.proxies.values():
            proxy.heal()
        assert reached < ROUNDS
        fleet.wait(lambda: all(n.all_done for n in fleet.nodes.values()), "they do not finish")
        released = [fleet.nodes[k].agents[k].ledger.released() for k in MEMBERS]
        done = [fleet.nodes[k].agents[k].done for k in MEMBERS]
    finally:
        fleet.close()
        for thread in threads:
            thread.join(20)
        for node in fleet.nodes.values():
            node.close()
    assert [len(own) for own in released] == [1, 1, 1]
    mean = sum(own[0].sums[0] for own in released) / sum(own[0].weight for own in released)
    for one in done:
        assert one.reason == "rounds"
        assert one.estimate[0] == pytest.approx(mean, abs=1e-4)
    assert all(transport.counts["dropped"] > 20 for transport in fleet.transports)
    assert all(verify(tmp_path / f"{k}.ledger").ok for k in MEMBERS)
    lines = [json.loads(line) for line in fleet.log.getvalue().splitlines()]
    assert not [line for line in lines if "more of weight" in line["text"]]
