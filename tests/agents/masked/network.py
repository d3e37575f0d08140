"""Masked agents over a simulated network, with ledgers that survive, and everything that was said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.agents.masked.world import EPSILON, FragileLedger, Killed
from veilsum.agents import Manifest
from veilsum.agents.events import (
    Action,
    ConcludeQuery,
    Contribute,
    Contribution,
    Done,
    Event,
    Released,
    Send,
)
from veilsum.agents.masked.actions import SessionTimes
from veilsum.agents.masked.agent import MaskedAgent
from veilsum.agents.masked.entries import StoredSum
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.masked.records import Masked, Present, SignedRecord
from veilsum.agents.masked.remembered import sent_release
from veilsum.agents.masked.terms import MaskedTerms
from veilsum.agents.messages import RecordExchange
from veilsum.agents.protocol import Options
from veilsum.agents.wire import decode, encode
from veilsum.privacy.masked import MaskedParameters
from veilsum.scenario import Scenario
from veilsum.testing import Faults, SimulatedNetwork
from veilsum.testing.network import SimulatedAgent

TIMES = SessionTimes(view=20.0, proposal=4.0, attempt=60.0)
OPTIONS = Options(linger=4000.0)
LOSSY = Faults(drop=0.3, duplicate=0.1, reorder=0.1, delay=(0.01, 0.05))
SLOW = Faults(delay=(0.01, 0.02))


def manifest_of(graph: str, **more: Any) -> Manifest:
    """A manifest over a graph; the terms of the sum are made beside it."""
    also = (
        ", options = {mean_degree = 6.0, seed = 1, connect = true}"
        if graph.startswith("random")
        else ""
    )
    text = f'''
    network = {{graph = "{graph}"{also}, weights = "lazy-metropolis"}}
    family = {{name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}}
    signals = {{draw = {{mu = 0.5}}}}
    privacy = {{protect = "signal", epsilon = 1.0}}
    algorithm = {{name = "average", rounds = 20}}
    '''
    return Manifest.of(Scenario.parse(text).build().problem, "net", **more)


def key_of(label: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(label.rjust(32, ".").encode())


def terms_of(manifest: Manifest, colluders: int = 1, absent: int = 1, **more: Any) -> MaskedTerms:
    labels = manifest.labels
    numbers = MaskedParameters(
        len(labels), colluders, absent, EPSILON, sensitivity_steps=100, largest_steps=1000,
        **({"dimension": 2, "longest_batch": 4, "attempts": min(2, absent + 1)} | more),
    )  # fmt: skip
    members = tuple((one, key_of(one).public_key().public_bytes_raw()) for one in labels)
    return MaskedTerms(manifest.digest, bytes([2]) * 16, members, numbers)


class NotingLedger(FragileLedger):
    """Notes which noise was drawn for which session."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: tuple[int, ...] = ()
        self.noise: dict[bytes, tuple[int, ...]] = {}

    def open(self, query: int, entry: Any) -> Any:
        self.noise[entry.sid] = self.drawn
        return super().open(query, entry)


@dataclass
class Remembered:
    """What survives a restart: the ledger, the contributions, and the concluded queries.

    `before` has the values that were sent in earlier epochs.
    """

    ledger: NotingLedger = field(default_factory=NotingLedger)
    contributions: dict[int, Contribution] = field(default_factory=dict)
    concluded: dict[int, StoredSum | None] = field(default_factory=dict)
    before: list[tuple[int, ...]] = field(default_factory=list)


class MaskedNetwork(SimulatedNetwork):
    """Runs masked agents; `said` has every record that left an agent first."""

    def __init__(
        self,
        graph: str = "complete:5",
        *,
        queries: int = 1,
        faults: Faults = SLOW,
        seed: int = 0,
        options: Options = OPTIONS,
        times: SessionTimes = TIMES,
        kind: Callable[..., MaskedAgent] = MaskedAgent,
        terms: MaskedTerms | None = None,
        manifest: Manifest | None = None,
        in_common: bool = False,
        **numbers: Any,
    ) -> None:
        manifest = manifest or manifest_of(graph)
        self.terms = terms or terms_of(manifest, **numbers)
        self.queries, self.times, self.kind = queries, times, kind
        self.pool = RecordPool(self.terms.manifest, self.terms.keys) if in_common else None
        self.kept = {label: Remembered() for label in manifest.labels}
        self.drawn: defaultdict[str, int] = defaultdict(int)
        self.said: defaultdict[str, list[SignedRecord]] = defaultdict(list)
        self.conclusions: defaultdict[str, list[ConcludeQuery]] = defaultdict(list)
        self.messages, self.bytes = 0, 0
        self.ends: defaultdict[str, list[Done]] = defaultdict(list)
        super().__init__(manifest, options=options, seed=seed, faults=faults, agent=self.make)

    def make(self, manifest: Manifest, label: str, options: Options) -> MaskedAgent:
        kept = self.kept[label]
        size = self.terms.parameters.dimension

        def draw() -> tuple[int, ...]:
            count = self.drawn[label]
            self.drawn[label] += 1
            kept.ledger.drawn = tuple(count % 7 - 3 + 5 * k for k in range(size))
            return kept.ledger.drawn

        sums = [found for found in kept.concluded.values() if found is not None]
        return self.kind(
            manifest, label, self.terms, key_of(label), kept.ledger, draw, options=options,
            times=self.times, step=0.5, pool=self.pool, concluded=sums,
            last_concluded=max(kept.concluded, default=0), queries=self.queries,
        )  # fmt: skip

    def agent(self, label: str) -> MaskedAgent:
        found: MaskedAgent | None = self.agents[label].agent  # type: ignore[assignment]
        assert found is not None, f"{label} does not run"
        return found

    def statistic(self, label: str, query: int) -> tuple[int, ...]:
        number = self.terms.numbers[label]
        return tuple(10 * number + query + k for k in range(self.terms.parameters.dimension))

    def contribute(self, label: str, query: int = 1, readings: int = 1) -> None:
        """Admit a query, and give the agent its contribution, now and after every restart."""
        given = Contribution(query, self.statistic(label, query), readings)
        self.kept[label].contributions[query] = given
        self.feed(label, Contribute(given))

    def all_contribute(self, query: int = 1, without: str = "") -> None:
        for label in self.terms.labels:
            if label not in without.split():
                self.contribute(label, query)

    def _open_ledger(self, host: SimulatedAgent) -> tuple[Any, ...]:
        host.released = self.released_by(host.label)
        return super()._open_ledger(host)

    def released_by(self, label: str) -> list[Released]:
        """Every masked value that an agent's ledger has as sent."""
        kept = self.kept[label]
        queries = sorted(kept.ledger._queries)
        sent = [e for query in queries for e in kept.ledger.entries(query) if e.sent]
        values = [entry.prepared.words for entry in sent if entry.prepared is not None]
        return [sent_release(k, words) for k, words in enumerate([*kept.before, *values], 1)]

    def _enter(self, host: SimulatedAgent, event: Event) -> None:
        super()._enter(host, event)
        for query, given in sorted(self.kept[host.label].contributions.items()):
            if query not in self.kept[host.label].concluded:
                self.feed(host.label, Contribute(given))

    def feed(self, label: str, event: Event) -> None:
        """As the base class; an agent whose ledger ends its process is down."""
        try:
            super().feed(label, event)
        except Killed:
            self.crash(label)

    def perform(self, host: SimulatedAgent, action: Action) -> None:
        if isinstance(action, ConcludeQuery):
            self.conclusions[host.label].append(action)
            self.kept[host.label].concluded[action.query] = action.summed
        elif isinstance(action, Done):
            self.ends[host.label].append(action)
        elif isinstance(action, Send):
            frame = encode(action.message)
            assert decode(frame) == action.message
            self.messages, self.bytes = self.messages + 1, self.bytes + len(frame)
            if isinstance(action.message, RecordExchange):
                self._listen(host.label, action.message.chunk)
        super().perform(host, action)

    def _listen(self, label: str, chunk: bytes) -> None:
        for signed in RecordPool(bytes(32), {}).split(chunk):
            if signed.record.label == label and signed not in self.said[label]:
                self.said[label].append(signed)

    def sent(self, label: str) -> dict[bytes, set[tuple[int, ...]]]:
        """Every masked value that an agent ever sent, by session."""
        found: defaultdict[bytes, set[tuple[int, ...]]] = defaultdict(set)
        for signed in self.said[label]:
            if isinstance(signed.record, Masked):
                found[signed.record.sid].add(signed.record.words)
        return dict(found)

    def place_of(self, sid: bytes) -> tuple[int, int, int]:
        for query in range(1, max(self.queries, 1) + 3):
            for attempt in range(self.terms.parameters.attempts):
                for view in range(60):
                    if self.terms.sid(query, attempt, view) == sid:
                        return query, attempt, view
        raise AssertionError("a session of no query")

    def check(self) -> None:
        """What must hold at any time: R1, R4, and results that are sums over their stated roster."""
        for label in self.terms.labels:
            sent = self.sent(label)
            attempts = [self.place_of(sid)[:2] for sid in sent]
            assert len(set(attempts)) == len(attempts), "two sent values for one attempt"
            assert all(len(words) == 1 for words in sent.values()), "two values in one session"
            keys = [s.record.key for s in self.said[label] if isinstance(s.record, Present)]
            assert len(set(keys)) == len(keys), "a key was used twice"
            ledger = self.kept[label].ledger
            entries = [e for query in range(1, self.queries + 3) for e in ledger.entries(query)]
            charged = {entry.sid for entry in entries if entry.sent}  # later refunded or not
            assert set(sent) <= charged, "a value that was not charged"
        results: dict[tuple[int, int], StoredSum] = {}
        for found in (one.summed for all_of in self.conclusions.values() for one in all_of):
            if found is not None:
                known = results.setdefault((found.query, found.attempt), found)
                assert known == found, "two results of one attempt"
                assert len(found.members) >= self.terms.parameters.smallest_roster
                assert self.expected(found) == found.totals

    def expected(self, found: StoredSum) -> tuple[int, ...]:
        """The sum of x + eta over the roster; with what each member drew for that session."""
        sid = self.terms.sid(found.query, found.attempt, found.view)
        columns = []
        for member in found.members:
            label = self.terms.labels[member]
            values = zip(
                self.statistic(label, found.query), self.kept[label].ledger.noise[sid], strict=True
            )
            columns.append([x + eta for x, eta in values])
        return tuple(sum(column) for column in zip(*columns, strict=True))
