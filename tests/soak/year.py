"""A year of hourly readings in virtual time: agents, their ledgers and files are real, time is not.

Every site has a node, a ledger and a CSV file of its own; they communicate over a network in memory
that loses, repeats, delays and reorders messages. Nothing waits: when nobody has anything to do, time
goes on to the next timer, message, row or fault. The same seed gives the same faults.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx

from tests.soak.sampling import Samples
from tests.soak.site import DAY, HOUR, MINUTE, STEPS, Killed, SoakSite
from veilsum import algorithms, families
from veilsum.agents.manifest import Manifest
from veilsum.agents.transport.memory import Faults, MemoryNetwork
from veilsum.errors import LedgerError, VeilsumError
from veilsum.networks import lazy_metropolis
from veilsum.privacy import SignalDP
from veilsum.simulation import Problem, SyntheticSignals
from veilsum.testing import VirtualTime

START = 1_798_761_600.0  # 2027-01-01T00:00:00Z
EPSILON, BUDGET = 0.5, 10.0  # of a reading, and for any day: 20 of 24 readings are released
FAULTS = Faults(drop=0.02, duplicate=0.01, reorder=0.01, delay=(0.0, 2.0))
DEGREE = 4
NUDGE = 1e-6  # seconds beyond a timer, so that rounding does not leave it in the future


@dataclass(frozen=True)
class SoakSize:
    """How long and how bad.

    Attributes
    ----------
    agents, hours, seed : int
        Members at the beginning, hours of readings, and what decides when a fault comes.
    restarts, kills, charge_kills, reboots, clock_steps, partitions : int
        How often each fault comes, over all sites.
    rotate_hours : int
        Between two rotations of a site's file.
    rest_hours : int
        At the end, without new readings: what waits is released, and estimates converge.
    """

    agents: int = 50
    hours: int = 8760
    seed: int = 16
    restarts: int = 250
    kills: int = 250
    charge_kills: int = 400
    reboots: int = 40
    clock_steps: int = 60
    partitions: int = 12
    rotate_hours: int = 168
    rest_hours: int = 600


WEEK = SoakSize(8, 168, 16, 6, 6, 8, 2, 3, 1, 30, 200)
DAYS = SoakSize(6, 72, 16, 3, 3, 4, 1, 2, 1, 14, 100)  # enough for a weakened variant to show


def terms(members: list[str], epoch: int, seed: int) -> tuple[Problem, Manifest]:
    """The problem and the manifest of some members."""
    degree = min(DEGREE, len(members) - 1)
    size = len(members) + (len(members) * degree) % 2
    drawn = nx.random_regular_graph(degree, size, seed=seed + epoch)
    kept = drawn.subgraph(range(len(members))).copy()
    network = lazy_metropolis(nx.relabel_nodes(kept, dict(enumerate(members))))
    family = families.Normal(sigma=1.0, bounds=(0.0, 100.0))
    source = SyntheticSignals(family, {"mu": 50.0}, network.size, 0)
    algorithm = algorithms.get("learn", network)
    problem = Problem(network, algorithm, family, source, SignalDP(EPSILON, radius=1.0), rounds=1)
    manifest = Manifest.of(
        problem, "soak", epoch=epoch, asynchronous=True, rounds=0, every=HOUR, grace=30 * MINUTE,
    )  # fmt: skip
    return problem, manifest


class Year:
    """All sites, and what happens to them when.

    Parameters
    ----------
    size : SoakSize
        How long and how bad.
    home : Path
        An empty folder, best in memory.
    """

    def __init__(self, size: SoakSize, home: Path) -> None:
        self.size, self.home, self.rng = size, home, random.Random(size.seed)
        self.time, self.span = VirtualTime(), size.hours * HOUR
        self.network = MemoryNetwork(size.seed, FAULTS)
        names = [f"site-{k:02d}" for k in range(size.agents + 2)]
        self.joins, self.newcomer, self.leaver = names[-2], names[-1], names[1]
        self.members = names[:-1]  # the last but one is listed, and comes later
        self.problem, self.manifest = terms(self.members, 1, size.seed)
        self.sites = {name: self._site(name, k) for k, name in enumerate(names)}
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.samples = Samples(home, size.hours)
        self.steps = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._timers: list[tuple[float, str]] = []
        self._due: dict[str, float | None] = {}
        self._ready: dict[str, None] = {}  # in order: the same seed gives the same year
        self._ticket = itertools.count()
        self._rows: dict[str, int] = dict.fromkeys(names, 0)  # outdated plans of a meter differ

    def _site(self, name: str, number: int) -> SoakSite:
        most = 2 * self.size.hours + 100
        return SoakSite(
            name, number, self.home, self.time, START, EPSILON, BUDGET, most, self.size.seed
        )

    def run(self) -> None:
        """Let the year pass, and then the time in which everything comes to rest."""
        for name in self.members:
            if name != self.joins:
                self._begin(name)
        self._plan_faults()
        self._plan_members()
        end = self.span + self.size.rest_hours * HOUR
        for day in range(int(end // DAY) + 1):
            self.at(day * DAY, self._sample)
        self.pass_until(self.span)
        self._rest()
        self.pass_until(end)

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Have something happen at a time."""
        heapq.heappush(self._events, (when, next(self._ticket), what))

    def pass_until(self, end: float) -> None:
        """Let time pass, from one thing that happens to the next."""
        while True:
            while self._ready:
                self._step(self.sites[next(iter(self._ready))])
            heads = [queue[0][0] for queue in (self._events, self._timers) if queue]
            if self.network.next is not None:
                heads.append(self.network.next)
            due = min([*heads, end])
            self.time.advance(due + NUDGE)
            self.network.advance(self.time.now)
            while self._events and self._events[0][0] <= self.time.now:
                heapq.heappop(self._events)[2]()
            while self._timers and self._timers[0][0] <= self.time.now:
                when, name = heapq.heappop(self._timers)
                if self._due.get(name) == when:
                    self._wake(name)
            if due >= end:
                return

    def _step(self, site: SoakSite) -> None:
        self.steps += 1
        del self._ready[site.label]
        due: float | None = None
        try:
            due = site.step()
        except Killed:
            site.kill()
            self._start_later(site)
        except VeilsumError as problem:
            self._failed(site, problem)
        self._due[site.label] = due = None if due is None else max(due, self.time.now)
        if due is not None:
            heapq.heappush(self._timers, (due, site.label))

    def _wake(self, name: str) -> None:
        self._ready[name] = None

    def _failed(self, site: SoakSite, problem: VeilsumError) -> None:
        """An agent ended with an error: only a full disk is a reason."""
        if site.full and isinstance(problem, LedgerError):
            self.counts["disk full"] += 1
        else:
            self.violations.append(f"{site.label}: {problem}")
        if site.node is not None:
            site.fail()
        self._start_later(site)

    def _begin(self, name: str) -> None:
        """A member begins: its meter and its agent."""
        self.sites[name].metering = True
        self._plan_row(self.sites[name])
        self._start(self.sites[name])

    def _start(self, site: SoakSite) -> None:
        if site.node is not None or site.left:
            return
        try:
            site.start(self.manifest, self.problem, self.network, partial(self._wake, site.label))
        except VeilsumError as problem:
            self._failed(site, problem)
        self._wake(site.label)

    def _start_later(self, site: SoakSite, longest: float = 3 * HOUR) -> None:
        pause = 30 * MINUTE if site.full else self.rng.uniform(10.0, longest)
        self.at(self.time.now + pause, lambda: self._start(site))

    def _plan_row(self, site: SoakSite) -> None:
        """Plan the meter's next row; an earlier plan of a clock that was set since is void."""
        self._rows[site.label] += 1
        plan, when = self._rows[site.label], site.next_row()
        if not site.metering:
            return

        def write() -> None:
            if plan == self._rows[site.label]:
                site.write()
                self._plan_row(site)

        if when < self.span:
            self.at(when, write)

    def _stop_meter(self, site: SoakSite) -> None:
        site.metering = False
        self._plan_row(site)

    def _plan_faults(self) -> None:
        size = self.size
        plans: list[tuple[int, Callable[[SoakSite], None]]] = [
            (size.restarts, self._restart), (size.kills, self._kill), (size.reboots, self._reboot),
            (size.charge_kills, self._kill_in_charge), (size.clock_steps, self._set_clock),
        ]  # fmt: skip
        for count, what in plans:
            for _ in range(count):
                name = self.rng.choice(self.members)
                self.at(self._sometime(), partial(what, self.sites[name]))
        for _ in range(size.partitions):
            self.at(self._sometime(), self._partition)
        for site in self.sites.values():
            for k, hour in enumerate(range(size.rotate_hours, size.hours, size.rotate_hours)):
                when = (hour + self.rng.random()) * HOUR
                self.at(when, partial(self._rotate, site, ("rename", "copytruncate")[k % 2]))
        unlucky = self.sites[self.members[2]]
        self.at(0.45 * self.span, lambda: self._fill_disk(unlucky))

    def _plan_members(self) -> None:
        leaver = self.sites[self.leaver]
        self.at(0.2 * self.span, lambda: self._begin(self.joins))
        self.at(0.35 * self.span - 3 * HOUR, lambda: self._stop_meter(leaver))
        self.at(0.35 * self.span, self._leave)
        self.at(0.6 * self.span, self._new_epoch)

    def _sometime(self) -> float:
        return self.rng.uniform(0.02, 0.92) * self.span

    def _sample(self) -> None:
        self.samples.take(
            self.time.now / HOUR, sum(s.counts["charges"] for s in self.sites.values())
        )

    def _restart(self, site: SoakSite) -> None:
        if site.node is not None:
            site.stop()
            self._start_later(site)

    def _kill(self, site: SoakSite) -> None:
        if site.node is not None:
            site.kill()
            self._start_later(site)

    def _kill_in_charge(self, site: SoakSite) -> None:
        site.dying = self.rng.choice(STEPS)

    def _reboot(self, site: SoakSite) -> None:
        """Boot the machine, not with a clock that is ahead: that refills a budget, as stated."""
        if site.node is not None and site.clock.ahead <= 0:
            site.kill()
            site.clock.reboot()
            site.counts["reboots"] += 1
            self._start_later(site)

    def _set_clock(self, site: SoakSite) -> None:
        """Set the clock by up to three hours, and right again after some days."""
        if site.clock.ahead:
            return
        by = self.rng.choice((-1, 1)) * self.rng.uniform(20.0, 3 * HOUR)
        self._step_clock(site, by)
        back = min(self.time.now + self.rng.uniform(DAY, 4 * DAY), 0.95 * self.span)
        self.at(back, lambda: self._step_clock(site, -by))

    def _step_clock(self, site: SoakSite, by: float) -> None:
        site.clock.set(by)
        site.counts["clock steps"] += 1
        if abs(site.clock.ahead) < 1e-6:  # set right
            site.clock.ahead = 0.0
        self._plan_row(site)

    def _partition(self) -> None:
        names = list(self.manifest.labels)
        self.rng.shuffle(names)
        half = len(names) // 2
        self.network.partition(names[:half], names[half:])
        self.counts["partitions"] += 1
        self.at(self.time.now + self.rng.uniform(HOUR, 12 * HOUR), self._heal)

    def _heal(self, faults: Faults = FAULTS) -> None:
        self.network.heal()
        self.network.faults = faults

    def _rotate(self, site: SoakSite, how: str) -> None:
        if site.record.written:
            site.meter.rotate(how)

    def _fill_disk(self, site: SoakSite) -> None:
        site.fill_disk()
        self.at(self.time.now + 9 * HOUR, lambda: self._free_disk(site))

    def _free_disk(self, site: SoakSite) -> None:
        site.full = False
        self._restart(site)

    def _leave(self) -> None:
        site = self.sites[self.leaver]
        if site.node is None:
            self.at(self.time.now + HOUR, self._leave)
            return
        site.leave()
        self._wake(site.label)

    def _new_epoch(self) -> None:
        """A new epoch without who left and with a newcomer: each site restarts within an hour."""
        self.members = [name for name in self.sites if name != self.leaver]
        self.problem, self.manifest = terms(self.members, 2, self.size.seed)
        for name in self.members:
            if name != self.newcomer:
                site = self.sites[name]
                self.at(self.time.now + self.rng.uniform(0.0, HOUR), partial(self._restart, site))
        self.at(self.time.now + HOUR, lambda: self._begin(self.newcomer))

    def _rest(self) -> None:
        """The readings have ended: the network is good again, and everybody runs."""
        self._heal(Faults())
        for name in self.members:
            site = self.sites[name]
            site.dying = ""
            self._start(site)

    def close(self) -> None:
        """Stop all agents."""
        for site in self.sites.values():
            site.stop()


def estimates(year: Year) -> dict[str, Any]:
    """The estimate of each agent that runs."""
    return {
        name: site.node.agents[name].protocol.estimate
        for name, site in year.sites.items()
        if site.node is not None
    }
