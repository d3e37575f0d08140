"""A member with a good certificate that behaves badly: it is named, and the others finish."""

import io
import json
import random
import threading
import time
from typing import Any

import numpy as np
import pytest
import zenoh

from veilsum import algorithms, families
from veilsum.agents.ledger import Ledger
from veilsum.agents.local_cluster.plan import free_ports
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import Attendance, CumulativeMass, Hello, PeerStatus, Register
from veilsum.agents.pki import Authority
from veilsum.agents.protocol import Options
from veilsum.agents.release import ReleaseMechanism
from veilsum.agents.runtime import IterableReadings, Log, Node
from veilsum.agents.transport import zenoh_config as names
from veilsum.agents.transport.zenoh import ZenohTransport
from veilsum.agents.transport.zenoh_config import Endpoint, settings
from veilsum.agents.wire import encode
from veilsum.networks import Graph, lazy_metropolis
from veilsum.privacy import SignalDP
from veilsum.privacy.accounting import Budget
from veilsum.simulation import Problem, SyntheticSignals

HONEST = ("a", "b", "c")
ROUNDS = 80


@pytest.fixture
def problem() -> Any:
    """A triangle of honest agents, and d beside b."""
    graph = Graph(4, np.array([(0, 1), (1, 2), (0, 2), (1, 3)]), ["a", "b", "c", "d"])
    net = lazy_metropolis(graph)
    family = families.Normal(sigma=1.0, bounds=(0.0, 10.0))
    source = SyntheticSignals(family, {"mu": 5.0}, 4, 0)
    return Problem(net, algorithms.get("average", net), family, source, SignalDP(1.0), ROUNDS)


def honest(problem: Any, manifest: Any, label: Any, ports: Any, authority: Any, folder: Any) -> Any:
    """A node over mutual TLS, and what it logs."""
    earlier = HONEST[: HONEST.index(label)]
    transport = ZenohTransport(
        manifest.name,
        label,
        listen=[f"tls/127.0.0.1:{ports[label]}"],
        connect={other: f"tls/127.0.0.1:{ports[other]}" for other in earlier},
        devices=manifest.certificates,
        credentials=authority.credentials(label),
    )
    log = io.StringIO()
    node = Node(manifest, transport, options=Options(deadline=0.4, resend=0.05), log=Log(log))
    ledger = Ledger.open(folder / f"{label}.ledger", manifest, label, Budget(1.0))
    node.add(label, ledger, ReleaseMechanism(manifest, problem, label), IterableReadings([5.0]))
    return node, log


def enemy(manifest: Any, ports: Any, authority: Any) -> Any:
    """d's own session with d's own certificate, and nothing of veilsum's in between."""
    b = Endpoint.parse(f"tls/127.0.0.1:{ports['b']}", insecure=False)
    configured = settings(manifest.name, "d", [], [b], ["b"], authority.credentials("d"))
    configured |= {"access_control": {"enabled": False}}
    config = zenoh.Config()
    for key, value in configured.items():
        config.insert_json5(key, json.dumps(value))
    return zenoh.open(config)


def attacks(manifest: Any, run: Any) -> Any:
    """Payloads that no honest agent sends to this run of b, with what the log says of each."""
    good = CumulativeMass(
        "d", "b", 1, 1, 1, 0, (5 << manifest.unit,), 1 << manifest.unit, run=b"d" * 8
    )
    hello = Hello("d", "b", 1, 1, 1, manifest.digest, manifest.field_digests)
    hello = hello._replace(own=PeerStatus(1, b"d" * 8), known=PeerStatus(1, run))
    rng = random.Random(3)
    yield "random bytes", [rng.randbytes(rng.randrange(1, 200)) for _ in range(200)]
    yield "truncated", [encode(good)[:k] for k in range(1, len(encode(good)))]
    yield "oversized", [encode(good) + bytes(100_000)]
    yield "another's name", [encode(good._replace(sender="a"))]
    yield "another manifest", [encode(hello._replace(manifest=bytes(32), incarnation=1))]
    yield "hello", [encode(hello)]  # from here on there is a session
    yield "a round that is not", [encode(good._replace(round=10**9))]
    yield "more than exists", [encode(good._replace(sums=((1 << 400),)))]
    yield "weight from nowhere", [encode(good._replace(weight=1 << 200))]
    more = 2**31 << manifest.unit
    yield "more than members have", [encode(good._replace(weight=more, sums=(5 * more,)))]
    beyond = int(2 * manifest.largest)
    yield "a ratio beyond the bounds", [encode(good._replace(sums=(beyond << manifest.unit,)))]
    yield "negative weight", [encode(good._replace(weight=-1))]
    yield "two components", [encode(good._replace(sums=(1, 2)))]
    yield "another run", [encode(good._replace(run=b"e" * 8))]
    yield (
        "stale incarnation",
        [encode(good._replace(incarnation=0, round=5)), encode(hello._replace(incarnation=0))],
    )


def withdrawal(manifest: Any) -> Any:
    """d drops its own link: nobody is to wait for it."""
    register = Register(dropped=manifest.graph.all_links("d"))
    return encode(Attendance("d", "b", 1, b"d" * 8, register))


def forgery(manifest: Any) -> Any:
    """What d claims to remember of b once b has released."""
    forged = PeerStatus(9, b"x" * 8, b"p" * 8, 7, b"h" * 16, b"s" * 8)
    hello = Hello("d", "b", 1, 1, 1, manifest.digest, manifest.field_digests)
    return encode(hello._replace(own=PeerStatus(1, b"d" * 8), known=forged))


def test_a_hostile_member_is_named_and_the_others_finish(problem: Any, tmp_path: Any) -> None:
    manifest = Manifest.of(problem, "hostile", quorum=3)
    authority = Authority.create(tmp_path / "keys")
    for name in manifest.certificates:
        authority.issue(name, ["127.0.0.1"], days=1)
    ports = dict(zip(HONEST, free_ports(3), strict=True))
    nodes = {
        label: honest(problem, manifest, label, ports, authority, tmp_path) for label in HONEST
    }
    threads = [
        threading.Thread(target=lambda n=node: (n.start(), n.run(seconds=120)))
        for node, _ in nodes.values()
    ]
    for thread in threads:
        thread.start()
    log = nodes["b"][1]
    try:
        with enemy(manifest, ports, authority) as session:
            key = names.data_key(manifest.name, "d", "b", "d", "b")
            for what, payloads in attacks(manifest, nodes["b"][0].agents["b"].ledger.run):
                before = lines_naming(log, "d")
                end = time.monotonic() + 60
                while what == "hello" or lines_naming(log, "d") == before:
                    assert time.monotonic() < end, f"{what} left no line that names d"
                    for payload in payloads:  # the first may be too early for the link
                        session.put(key, payload)
                    time.sleep(0.1)
                    if what == "hello":
                        break
            end = time.monotonic() + 60
            while not all(node.all_done for node, _ in nodes.values()):
                assert time.monotonic() < end, "the honest agents do not finish"
                session.put(key, withdrawal(manifest))
                time.sleep(0.05)
            before = lines_naming(log, "d")
            while lines_naming(log, "d") == before:
                assert time.monotonic() < end, "releases that never were left no line that names d"
                session.put(key, forgery(manifest))
                time.sleep(0.05)
        released = [nodes[x][0].agents[x].ledger.released()[0] for x in HONEST]
        mean = sum(r.sums[0] for r in released) / sum(r.weight for r in released)
        for label, (node, _) in nodes.items():
            done = node.agents[label].done
            assert done.estimate[0] == pytest.approx(mean, abs=1e-4)
            assert done.coverage.contributing == HONEST
    finally:
        for node, _ in nodes.values():
            node.stop()
        for thread in threads:
            thread.join(10)
        for node, _ in nodes.values():
            node.close()


def lines_naming(log: Any, peer: Any) -> Any:
    """How many complete lines so far blame a peer."""
    said = [json.loads(line) for line in log.getvalue().splitlines() if line.endswith("}")]
    blame = ("refused", "mismatch")
    return sum(line.get("peer") == peer and line["kind"] in blame for line in said)
