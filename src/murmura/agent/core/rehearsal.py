"""Many cores over a network in memory, in virtual time: the same run every time.

It is how agents are rehearsed before they meet a real network: with faults, crashes and returns.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2s
from typing import Any

from murmura.agent.core.base import Core
from murmura.agent.core.options import Options
from murmura.agent.events import (
    Action,
    Deadline,
    Done,
    Event,
    Persist,
    Reading,
    Released,
    Remember,
    Report,
    Restarted,
    Send,
    SetTimer,
    Started,
)
from murmura.agent.manifest import Manifest
from murmura.agent.messages import Standing
from murmura.agent.transport.base import Arrival, Refused
from murmura.agent.transport.memory import NONE, Faults, MemoryNetwork, MemoryTransport

Vector = tuple[int, ...]


@dataclass(eq=False)
class Player:
    """One agent: its core while it runs, and what its ledger would remember."""

    label: str
    core: Core | None = None
    transport: MemoryTransport | None = None
    life: int = 0
    secret: bytes = b""
    starts: int = 0
    memory: dict[str, Standing] = field(default_factory=dict)  # of neighbours, kept for ever
    state: bytes = b""
    released: list[Released] = field(default_factory=list)
    timers: dict[str, int] = field(default_factory=dict)
    done: Done | None = None


class Rehearsal:
    """Runs the members of a manifest; `core` may be a twin of `Core`."""

    def __init__(
        self,
        manifest: Manifest,
        *,
        options: Options | None = None,
        seed: int = 0,
        faults: Faults | None = None,
        core: type[Core] = Core,
    ) -> None:
        """Nobody has started yet."""
        self.manifest, self.options, self._make = manifest, options or Options(), core
        self.network = MemoryNetwork(seed, faults or NONE)
        self.players = {
            label: Player(label, secret=blake2s(label.encode()).digest())
            for label, _ in manifest.members
        }
        self.reports: list[tuple[str, Report]] = []
        self._inbox: deque[tuple[str, Arrival]] = deque()
        self._timers: list[tuple[float, int, str, str]] = []
        self._ticket = itertools.count()

    @property
    def cores(self) -> dict[str, Core]:
        """The cores that run."""
        return {label: p.core for label, p in self.players.items() if p.core is not None}

    @property
    def all_done(self) -> bool:
        """Whether everyone has its estimate."""
        return all(player.done is not None for player in self.players.values())

    def estimates(self) -> dict[str, tuple[float, ...]]:
        """What each running agent holds to be the answer."""
        return {label: core.estimate for label, core in self.cores.items()}

    def release(self, label: str, released: Iterable[Released]) -> None:
        """Commit releases to an agent's ledger, and tell the agent if it runs."""
        player = self.players[label]
        for one in released:
            player.released.append(one)
            if player.core is not None:
                self.feed(label, Reading(one))

    def start(self, *labels: str) -> None:
        """Begin a new life of some agents, or of all."""
        for label in labels or tuple(self.players):
            player = self.players[label]
            player.life += 1
            self._enter(player, Started(player.life, *self._ledger(player)))

    def restart(self, label: str) -> None:
        """Bring an agent back with what it persisted; a new life if that is nothing."""
        player = self.players[label]
        if player.state:
            self._enter(player, Restarted(player.life, player.state, *self._ledger(player)))
        else:
            self.start(label)

    def _ledger(self, player: Player) -> tuple[Any, ...]:
        """Open the ledger once more: releases, secret, start, run and memory."""
        player.starts += 1
        run = blake2s(f"{player.label} {next(self._ticket)}".encode(), digest_size=8).digest()
        memory = tuple(player.memory.items())
        return tuple(player.released), player.secret, player.starts, run, memory

    def crash(self, label: str, *, announced: bool = True) -> None:
        """Drop an agent's core; its neighbours are told unless it happens too fast for that."""
        player = self.players[label]
        player.core, player.timers = None, {}
        self._inbox = deque(item for item in self._inbox if item[0] != label)
        if player.transport is not None and announced:
            player.transport.close()
        player.transport = None

    def _enter(self, player: Player, event: Event) -> None:
        if player.core is not None:
            self.crash(player.label)
        if isinstance(event, Started):
            player.state = b""
        player.done = None
        player.core = self._make(self.manifest, player.label, self.options)
        player.transport = self.network.transport()
        player.transport.attach(player.label, self.manifest.shares(player.label))
        player.transport.open(lambda agent, arrival: self._inbox.append((agent, arrival)))
        self.feed(player.label, event)

    def feed(self, label: str, event: Event) -> None:
        """Feed one event and carry the actions out."""
        player = self.players[label]
        if player.core is not None:
            for action in player.core.handle(event):
                if player.core is None:  # crashed on the way
                    break
                self.perform(player, action)

    def perform(self, player: Player, action: Action) -> None:
        """Carry one action out."""
        if isinstance(action, Persist):
            player.state = action.state.to_bytes()
        elif isinstance(action, Remember):
            player.memory[action.peer] = action.standing
        elif isinstance(action, Send):
            if player.transport is not None:
                player.transport.send(action.message)
        elif isinstance(action, SetTimer):
            ticket = next(self._ticket)
            player.timers[action.timer] = ticket
            due = self.network.now + action.seconds
            heapq.heappush(self._timers, (due, ticket, player.label, action.timer))
        elif isinstance(action, Done):
            player.done = action
        elif action.kind != "round":
            self.reports.append((player.label, action))

    def step(self) -> bool:
        """Handle one arrival, or let time pass to what comes next; False if nothing does."""
        if self._inbox:
            label, arrival = self._inbox.popleft()
            if not isinstance(arrival, Refused):
                self.feed(label, arrival)
            return True
        timer = self._timers[0][0] if self._timers else None
        message = self.network.next
        if message is not None and (timer is None or message <= timer):
            self.network.advance(message)
            return True
        if timer is None:
            return False
        self.network.advance(timer)
        _, ticket, label, name = heapq.heappop(self._timers)
        player = self.players[label]
        if player.timers.get(name) == ticket:
            del player.timers[name]
            self.feed(label, Deadline(name))
        return True

    def run(self, seconds: float, *, until_done: bool = True) -> bool:
        """Run for some virtual seconds, or until everyone is done; whether everyone is."""
        end = self.network.now + seconds
        while self.network.now < end and not (until_done and self.all_done):
            if not self.step():
                break
        return self.all_done

    def in_session(self, core: Core, peer: str) -> bool:
        """Whether both ends of a link run and count in the same session."""
        other = self.cores.get(peer)
        if other is None:
            return False
        there, back = core.by_peer[peer], other.by_peer[core.label]
        return there.peer_life == other.life and back.peer_life == core.life

    def totals(self) -> Mapping[str, Vector]:
        """What is held, on its way and released, each as (sums..., weight), over running agents.

        On its way, in a session that both ends are in, is what one pushed and the other did not
        take in. The rest of a link's flow belongs to a session that one end has yet to undo.
        """
        held, coming, undone, put = ([0] * (self.manifest.dimension + 1) for _ in range(4))
        for core in self.cores.values():
            _add(held, (*core.sums, core.weight), 1)
            _add(held, (*core.aside_sums, core.aside_weight), 1)
            _add(put, (*core.put_sums, core.put_weight), 1)
            for link in core.links:
                into = coming if self.in_session(core, link.peer) else undone
                _add(into, (*link.out_sums, link.out_weight), 1)
                _add(into, (*link.in_sums, link.in_weight), -1)
        return {
            "held": tuple(held), "coming": tuple(coming), "undone": tuple(undone),
            "released": tuple(put),
        }  # fmt: skip


def _add(total: list[int], values: Vector, sign: int) -> None:
    for k, value in enumerate(values):
        total[k] += sign * value
