"""Agents of a masked sum in nodes of this process, over the network in memory."""

import io
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from veilsum.agents.ledger import Ledger
from veilsum.agents.manifest import Manifest
from veilsum.agents.masked.actions import SessionTimes
from veilsum.agents.protocol import Options
from veilsum.agents.release import ContributionMechanism
from veilsum.agents.runtime import IterableReadings, Log, Node
from veilsum.agents.runtime.spool import open_spool
from veilsum.agents.transport.memory import MemoryNetwork
from veilsum.privacy.accounting import Budget
from veilsum.scenario import Scenario

SUM = 'name = "masked-sum", rounds = 20'
SCENARIO = """
network = {{graph = "complete:{size}"}}
family = {{name = "normal", sigma = 1.0, bounds = [0.0, 10.0]}}
signals = {{draw = {{mu = 5.0}}}}
privacy = {{protect = "signal", mode = "masked", epsilon = 1.0, radius = 1.0, colluders = 1{privacy}}}
algorithm = {{{algorithm}}}
"""
OPTIONS = Options(deadline=0.3, resend=0.05, tick=0.005)


def terms(size: int = 4, privacy: str = "", algorithm: str = SUM, **more: Any) -> Any:
    """Manifest, problem and signing keys."""
    text = SCENARIO.format(size=size, privacy=privacy, algorithm=algorithm)
    problem = Scenario.parse(text).build().problem
    keys = {str(k): Ed25519PrivateKey.from_private_bytes(bytes([k + 1]) * 32) for k in range(size)}
    pins = {label: key.public_key().public_bytes_raw().hex() for label, key in keys.items()}
    return Manifest.of(problem, "masked", nonce="5e" * 16, signing_keys=pins, **more), problem, keys


BUDGET = Budget(100.0)


class Sites:
    """Nodes with one agent each; `turn` lets all of them work for a moment."""

    def __init__(self, folder: Any, made: Any, readings: Any, **more: Any) -> None:
        self.folder, (self.manifest, self.problem, self.keys) = folder, made
        self.network, self.log = MemoryNetwork(), io.StringIO()
        self.readings, self.more = readings, more
        self.noise: dict[str, list[Any]] = {}
        self.nodes: dict[str, Any] = {}

    def start(self, label: str, **more: Any) -> Any:
        """Start the agent of a site; again after `stop`."""
        return self.start_together([label], **more)

    def start_together(self, labels: Any, local: bool = False, **more: Any) -> Any:
        """Start agents in one node, which delivers between them itself if `local`."""
        more = self.more | more
        metrics = more.get("metrics")
        log = Log(self.log, level="debug")
        transport = self.network.transport()
        transport.only_remote = local
        node = Node(self.manifest, transport, options=OPTIONS, log=log, metrics=metrics)
        assert node._masked is not None
        node._masked.times = SessionTimes(self.manifest.gathering + 1, self.manifest.gathering, 60)
        assert node._noise is not None
        node._noise.pause = more.get("pause", 0.01)
        if "clocks" in more:
            node._scheduler.clocks = more["clocks"].clocks
            node._scheduler.poll = 0.002
        for label in labels:
            self._add(node, label, more)
            self.nodes[label] = node
        node.start()
        return node

    def _add(self, node: Any, label: str, more: Any) -> None:
        device = more.get("device")
        ledger = Ledger.open(
            self.folder / f"{label}.ledger", self.manifest, label,
            Budget(more.get("budget", 100.0)), device=device,
        )  # fmt: skip
        mechanism = ContributionMechanism(self.manifest, self.problem, label)
        source = more.get("source") or IterableReadings(self.readings[label])
        if "noise" in more:
            mechanism.noise = more["noise"]
        self._record_noise(label, mechanism)
        spool = open_spool(ledger, device, mechanism)
        node.add(label, ledger, mechanism, source, spool, signing_key=self.keys[label])

    def _record_noise(self, label: str, mechanism: Any) -> None:
        usual, given = mechanism.noise.draw, self.noise.setdefault(label, [])

        def draw() -> Any:
            given.append(usual())
            return given[-1]

        mechanism.noise.draw = draw

    def start_all(self, **more: Any) -> "Sites":
        for label in self.readings:
            self.start(label, **more)
        return self

    def stop(self, label: str) -> None:
        self.nodes.pop(label).close()

    def turn(self) -> None:
        for node in set(self.nodes.values()):
            node.run(seconds=0.002)

    def until(self, condition: Any, turns: int = 3000) -> "Sites":
        for _ in range(turns):
            if condition():
                return self
            self.turn()
        raise AssertionError(self.log.getvalue()[-3000:])

    @property
    def done(self) -> bool:
        return all(node.all_done for node in self.nodes.values())

    def finish(self) -> "Sites":
        try:
            return self.until(lambda: self.done)
        finally:
            for node in self.nodes.values():
                node.close()

    def agent(self, label: str) -> Any:
        return self.nodes[label].agents[label]

    def result(self, label: str) -> Any:
        return self.nodes[label].reporter.result(self.agent(label))

    def said(self, kind: str, label: str) -> list[str]:
        lines = map(json.loads, self.log.getvalue().splitlines())
        return [x["text"] for x in lines if x["kind"] == kind and x["agent"] == label]


def on_grid(mechanism: Any, values: Any) -> int:
    """The sum of readings in grid steps, counted apart from the mechanism."""
    from fractions import Fraction

    step = Fraction(mechanism.step)
    clipped = (min(max(Fraction(x), Fraction(0)), Fraction(10)) for x in values)
    return int(sum((x / step + Fraction(1, 2)) // 1 for x in clipped))
