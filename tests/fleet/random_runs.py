"""Random runs of small fleets in virtual time, with every fault: `python -m tests.fleet.random_runs`.

    a run      sites, witnesses, questions, a budget, and events, all drawn from its seed
    an event   a step, or a fault: a crash at a moment, a copy, an older state, a lost disk, a lie, ...
    the end    faults are over, sites that have not stopped step a few times, and all of it is checked

What a fleet does not promise is not done to it: a store that is the only witness forgets no claim while an
older state of a ledger is about, and of the members who witness no more than k forget.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.fleet.fleets import mean
from tests.fleet.safety.twins import TWINS, Twin
from tests.fleet.safety.watching import HOURLY, WatchedFleet
from veilsum.errors import StoppedError, StoreBusyError
from veilsum.fleet.answers import questions_on
from veilsum.fleet.board import Board
from veilsum.fleet.membership import Witnesses, following
from veilsum.fleet.pool import pooled
from veilsum.fleet.post import Header, Kind, Post, Topic, pack, sealed, short
from veilsum.fleet.release import Releases
from veilsum.fleet.release_rules import POOL
from veilsum.fleet.site import Site
from veilsum.fleet.step import SeatReport, step
from veilsum.fleet.store import StoreFaults

EVENTS = 32
HOUR = 3600
MAJORITIES = (None, None, None, (2, 2, 0), (2, 3, 0), (3, 4, 1))
ROOMS = (1.0, 2.0, 3.5, 100.0)  # budgets of a reading


class LastingFleet(WatchedFleet):
    """Sites stay open from step to step, as `fleet run` does, until something ends them."""

    def __init__(self, *given: Any, **more: Any) -> None:
        self.lasting: dict[str, Site] = {}
        super().__init__(*given, **more)

    def go(self, *names: str, hours: int = 0) -> list[SeatReport]:
        self.now += hours * HOUR
        found = []
        for name in names or tuple(self.keys):
            if name not in self.lasting:
                self.lasting[name] = super().open(name)
            site = self.view(name).site = self.lasting[name]
            try:
                found += step(site, self.now)
            except StoppedError:
                self.end(name)
        return found

    def open(self, name: str, folder: Path | None = None) -> Site:
        self.end(name)
        return super().open(name, folder)

    def end(self, *names: str) -> None:
        """Close these, or all."""
        for name in names or tuple(self.lasting):
            if name in self.lasting:
                self.lasting.pop(name).close()


class RandomRun:
    """One run.

    Parameters
    ----------
    seed : int
        Of all that is drawn.
    folder : Path
        New.
    patch : MonkeyPatch
        Undone by the caller.
    releases : type of Releases
        The shipped ones, or a twin.
    """

    def __init__(
        self,
        seed: int,
        folder: Path,
        patch: pytest.MonkeyPatch,
        releases: type[Releases] = Releases,
    ) -> None:
        self.random = Random(seed)
        lots = Random(seed)  # one run is the same run again
        patch.setattr("veilsum.fleet.seat._RANDOM", lots)
        patch.setattr("os.urandom", lots.randbytes)
        self.happened: Counter[str] = Counter()
        self.stores_wrong: Counter[str] = Counter()
        majority = self.random.choice(MAJORITIES)
        sites = self.random.randint(2, 4)
        witnesses = None
        self.at_risk = []
        if majority is not None:
            needed, count, silent = majority
            sites = count + 1
            witnesses = Witnesses(tuple(f"s{k + 1}" for k in range(count)), needed, silent)
            self.at_risk = [f"s{k}" for k in range(1 + silent)]
        self.members = majority is not None
        self.liar = ""
        if majority is None and sites > 2 and self.random.random() < 0.2:
            self.liar = f"s{sites - 1}"
            self.at_risk = [f"s{k}" for k in range(sites - 1)]
        self.ahead = False  # whether a clock went so far that questions seemed over
        self.fleet = LastingFleet(
            folder, sites, patch, releases, witnesses=witnesses, epsilon=self.random.choice(ROOMS)
        )
        self.sites = [name for name in self.fleet.keys if name != "desk"]
        self.at_risk = self.at_risk or self.sites
        self.folders = list(self.sites)  # of sites and copies, that may step
        self.whose = {name: name for name in self.sites}
        self.offset: Counter[str] = Counter()
        self.backups: list[str] = []
        self.old: list[dict[str, bytes]] = []
        # a store that is the only witness, or older states of ledgers: not both
        self.store_forgets = self.members or self.random.random() < 0.2
        self._ask()
        self._faults(self.random.choice((0.0, 0.02, 0.1)))

    def _ask(self) -> None:
        fleet = self.fleet
        fleet.ask(mean("pool", schedule=HOURLY))
        if self.random.random() < 0.5:
            fleet.ask(mean("pool"))
        if self.random.random() < 0.25:
            fleet.ask(mean("pool", nonce="again"))
        if self.random.random() < 0.15 and len(self.sites) >= 3:
            fleet.ask(mean("secure-sum", deadline=fleet.now + 30 * HOUR))

    def _faults(self, chance: float) -> None:
        """Of each site's way to the store."""
        for name in (*self.fleet.keys, *self.fleet.copies):
            view = self.fleet.view(name)
            view.random = Random(self.random.random())
            view.faults = StoreFaults(
                before=chance, after=chance, half=chance / 4, late=chance / 4, again=chance / 4,
                stale=chance if self.members else 0.0,
            )  # fmt: skip

    # ---- all of it

    def run(self) -> RandomRun:
        """Events, and the end."""
        for _ in range(3):
            self.everyone()
        for _ in range(EVENTS):
            if self.random.random() < 0.1:
                self.fleet.end(self.some())
            if self.random.random() < 0.5:
                self.fleet.now += HOUR
            event = self.random.choices(CHOICES, WEIGHTS)[0]
            event(self)
        self.end()
        for view in self.fleet.views.values():
            self.stores_wrong.update(view.happened)
        return self

    def everyone(self) -> None:
        """A step of each."""
        self.fleet.now += HOUR
        for name in ("desk", *self.folders):
            self.step(name)

    def step(self, name: str) -> None:
        """One step, by the clock of its site."""
        self.at(name, partial(self.fleet.go, name))

    def at(self, name: str, do: Callable[[], object]) -> None:
        """By the clock of a site."""
        now = self.fleet.now
        self.fleet.now = now + self.offset[name]
        do()
        self.fleet.now = now

    def some(self) -> str:
        """A folder that may step."""
        return self.random.choice(self.folders)

    def one_at_risk(self) -> str | None:
        """A folder whose ledger may go wrong."""
        found = [name for name in self.folders if self.whose[name] in self.at_risk]
        return self.random.choice(found) if found and not self.forgetful else None

    @property
    def forgetful(self) -> bool:
        """Whether the store may forget, so that ledgers may not."""
        return self.store_forgets and not self.members

    # ---- events

    def steps(self) -> None:
        """Some steps."""
        for _ in range(self.random.randint(1, 3)):
            self.step(self.random.choice(("desk", self.some(), self.some())))

    def crash(self) -> None:
        """At a moment of a step."""
        name, moment = self.some(), self.random.randint(0, 60)
        came = []
        self.at(name, lambda: came.append(self.fleet.interrupted(name, moment)))
        self.happened["crash"] += bool(came and came[0])

    def backup(self) -> None:
        """A copy that nobody starts yet."""
        name = self.one_at_risk()
        if name is not None and len(self.backups) < 3:
            self.backups.append(self._copy(name))
            self.happened["backup"] += 1

    def _copy(self, name: str) -> str:
        to = f"{self.whose[name]}-{len(self.whose)}"
        other = self.random.choice((None, self.random.randint(8, 99)))
        self.fleet.copy(name, to, other)
        self.fleet.view(to).faults = self.fleet.view(name).faults
        self.fleet.view(to).random = Random(self.random.random())
        self.whose[to] = self.whose[name]
        return to

    def rolled_back(self) -> None:
        """A backup takes the place of its site."""
        if self.backups and not self.forgetful:
            name = self.backups.pop(self.random.randrange(len(self.backups)))
            self.folders = [one for one in self.folders if self.whose[one] != self.whose[name]]
            self.folders.append(name)
            self.happened["rolled back"] += 1

    def both_run(self) -> None:
        """A backup is started beside its site."""
        if self.backups and not self.forgetful:
            self.folders.append(self.backups.pop())
            self.happened["copy started"] += 1

    def asleep(self) -> None:
        """One sleeps at a moment of its step, while the others go on."""
        name, moment = self.some(), self.random.randint(0, 40)
        others = [one for one in self.folders if one != name]

        def meanwhile() -> None:
            self.happened["asleep"] += 1
            offset = self.fleet.now
            for _ in range(self.random.randint(1, 4)):
                self.fleet.now += HOUR
                for one in others:
                    if self.whose[one] == self.whose[name] or self.random.random() < 0.5:
                        self.fleet.go(one)
            self.fleet.now = offset

        self.at(name, lambda: self.fleet.interrupted(name, moment, meanwhile))

    def cloned_asleep(self) -> None:
        """A copy is made within a step, runs on at once, and the original wakes up later."""
        name = self.one_at_risk()
        if name is None or len(self.whose) > 12:
            return
        made: list[str] = []

        def meanwhile() -> None:
            made.append(self._copy(name))
            offset = self.fleet.now
            for _ in range(self.random.randint(1, 4)):
                self.fleet.now += HOUR
                self.fleet.go(made[0])
            self.fleet.now = offset

        moment = self.random.randint(0, 40)
        self.at(name, lambda: self.fleet.interrupted(name, moment, meanwhile))
        self.folders += made
        self.happened["cloned within a step"] += len(made)

    def rekeyed(self) -> None:
        """A disk is lost, or was stolen and wakes up later; a new key is admitted."""
        name = self.one_at_risk()
        if name is None or self.fleet.born > 12:
            return
        site = self.whose[name]
        if self.random.random() < 0.5:
            old = self._copy(name)
            self.happened["old key kept"] += 1
        else:
            old = ""
        self.folders = [one for one in self.folders if self.whose[one] != site]
        (self.fleet.folder / site).mkdir(exist_ok=True)
        self.fleet.copies.pop(site, None)
        if self.random.random() < 0.5:
            self.fleet.sources[site] = self.fleet.sources[self._copy(name)]
        self.fleet.end()
        self.fleet.rekey(site)
        self.folders += [site] + [old] * bool(old)
        self.whose[site] = site
        self.happened["re-keyed"] += 1

    def removed_or_admitted(self) -> None:
        """A member loses its roles, or has them again."""
        fleet = self.fleet
        witnesses = fleet.membership.witnesses.members
        names = [name for name in self.sites if name not in witnesses]
        if not names:
            return
        name = self.random.choice(names)
        members = [
            replace(one, roles=() if one.roles else ("site", "keeper")) if one.name == name else one
            for one in fleet.membership.members
        ]
        fleet.admit(following(fleet.membership, members))
        self.happened["removed or admitted"] += 1

    def cut_off(self) -> None:
        """A site does not reach the store for a while, or does again."""
        view = self.fleet.view(self.some())
        view.fails = StoreBusyError if view.fails is None else None
        self.happened["cut off"] += view.fails is not None

    def withheld(self) -> None:
        """The store hides a member's posts from a site, or shows them again."""
        name = self.some()
        view = self.fleet.view(name)
        hidden = self.random.choice(list(self.fleet.keys))
        if hidden == self.whose[name] and not self.members:
            return
        prefix = f"post/{short(self.fleet.keys[hidden])}"
        view.withheld = self.random.choice(
            (lambda _name: False, lambda one: one.startswith(prefix))
        )
        self.happened["withheld"] += 1

    def clock(self) -> None:
        """A clock jumps."""
        name = self.some()
        self.offset[name] = self.random.choice((0, 0, HOUR, -HOUR, 30 * HOUR, -30 * HOUR, 10**7))
        self.ahead |= self.offset[name] == 10**7
        self.happened["clock jumps"] += 1

    def disk_full(self) -> None:
        """A commit fails, and the process goes on."""
        name, moment = self.some(), self.random.randint(0, 40)

        def fails() -> None:
            if self.fleet.moments.names[-1] == "commit":
                self.happened["disk full"] += 1
                raise sqlite3.OperationalError("database or disk is full")

        self.at(name, lambda: self.fleet.interrupted(name, moment, fails))

    def all_back(self) -> None:
        """All disks and the store go back by a step, which is done again: the same bits (rule 5).

        Not where a secure sum is asked, which draws from the system.
        """
        fleet, name = self.fleet, self.some()
        view = fleet.view(name)
        if view.fails is not None or any(one.deadline is not None for one in fleet.asked):
            return
        faults, view.faults = view.faults, StoreFaults()
        view.settle()
        fleet.end()
        before, place = dict(fleet.objects), fleet.folder.with_name("before")
        shutil.copytree(fleet.folder, place)
        self.step(name)
        fleet.end()
        shutil.rmtree(fleet.folder)
        place.rename(fleet.folder)
        fleet.objects.clear()
        fleet.objects.update(before)
        self.step(name)
        view.faults = faults
        self.happened["everything went back"] += 1

    def remember_store(self) -> None:
        """What the store may go back to."""
        self.old.append(dict(self.fleet.objects))

    def store_back(self) -> None:
        """The store goes back: all of it, or the posts and lists alone where it is the only witness."""
        if not self.old:
            return
        state = self.random.choice(self.old)
        objects = self.fleet.objects
        if self.store_forgets:
            objects.clear()
        objects.update({n: d for n, d in state.items() if self.store_forgets or self._may_go(n)})
        self.happened["store went back"] += 1

    def _may_go(self, name: str) -> bool:
        return name.startswith(("post/", "seen/")) and "/membership-" not in name

    def lie(self) -> None:
        """A member posts what no honest site can have; somebody else, what nobody signed."""
        objects = self.fleet.objects
        mine = [one for one in objects if one.startswith("post/") and "/membership-" not in one]
        one, other = self.random.choice(mine), self.random.choice(mine)
        if self.liar and self.random.random() < 0.5:
            self._absurd()
            self.happened["absurd register"] += 1
        elif self.random.random() < 0.5:
            data = bytearray(objects[one])
            data[self.random.randrange(len(data))] ^= 1 + self.random.randrange(255)
            objects[one] = bytes(data)
            self.happened["forged"] += 1
        else:
            objects[one] = objects[other]
            self.happened["under another name"] += 1

    def _absurd(self) -> None:
        with self.fleet.open(self.liar) as site:
            terms = self.fleet.asked[0].digest
            body = json.dumps([[10**12], [], 50]).encode()
            header = Header(
                Kind.POOL, terms, site.public, self.random.randint(1, 9), 1, 2**31, 1, 50,
                digest=sealed(bytes(16), body),
            )  # fmt: skip
            post = Post(header.signed(site.file.key), bytes(16), body)
            name = f"post/{short(site.public)}/{Topic(Kind.POOL, terms).name}"
            self.fleet.objects[name] = pack((post.data,))
        self.fleet.checker.sites.pop(self.fleet.keys[self.liar], None)

    # ---- the end

    def end(self) -> None:
        """Faults are over: copies are equal, and every answer is the function of its set."""
        fleet = self.fleet
        for view in fleet.views.values():
            view.settle()
            view.faults, view.fails, view.withheld = StoreFaults(), None, lambda _: False
        self.offset.clear()
        fleet.now += 40 * HOUR
        for again in range(12):
            if again in (4, 8) and self.equal():
                break
            membership = fleet.membership.post
            assert membership is not None
            fleet.objects[f"post/{short(membership.header.key)}/{membership.header.topic.name}"] = (
                membership.data
            )
            for name in ("desk", *self.folders):
                fleet.go(name)
        self.check()

    def check(self) -> None:
        """Ledgers, answers, equal copies."""
        boards, live = [], []
        for name in self.folders:
            with self.fleet.open(name) as site:
                site.ledger.verify()
                present = site.public == self.fleet.keys[self.whose[name]]
                if present and site.file.get("stopped") is None:
                    live.append(site.public)
                    boards.append(site.seat().board)
        self.happened["stopped or replaced"] += len(self.folders) - len(live)
        for board in boards:
            self.check_answers(board)
        if not self.equal():
            self.fleet.checker.fault("converged", "copies differ when faults are over")

    def equal(self) -> bool:
        """Whether live sites hold the same of sites that were never restored, copied or lying."""
        boards, keys = [], set()
        for name in self.folders:
            with self.fleet.open(name) as site:
                if site.file.get("stopped") is None and name == self.whose[name]:
                    boards.append(site.seat().board)
                    keys |= {site.public} - {self.fleet.keys.get(self.liar)}
        forks = {place for board in boards for place in board.forks}
        return len({self.set_of(board, keys, forks) for board in boards}) <= 1

    def set_of(self, board: Board, keys: set[bytes], forks: set[tuple[Topic, bytes]]) -> object:
        """What a board holds of live sites without another copy."""
        once = {q.digest for q in self.fleet.asked if q.deadline is not None}
        return tuple(
            (topic.name, key, board.register(topic, key).data)
            for topic in sorted(board.registers, key=lambda topic: topic.name)
            for key in sorted(keys)
            if (topic, key) not in forks and not (self.ahead and topic.terms in once)
            if board.register(topic, key).data  # a topic of replaced keys alone is on some boards
        )

    def check_answers(self, board: Board) -> None:
        """Each pool is the sum of the registers of the sites that it names, added up here."""
        members = {} if board.membership is None else board.membership.keys
        for posted in questions_on(board):
            found = pooled(board, posted.question)
            if found is None or posted.question.protocol != POOL:
                continue
            again = [
                json.loads(post.body)[0]
                for key, post in board.opened(Kind.POOL, posted.terms).items()
                if members[key].name in found.sites
            ]
            if tuple(map(sum, zip(*again, strict=True))) != found.steps:
                self.fleet.checker.fault("answer", "an answer is not the sum of its registers")


RATES: dict[Callable[[RandomRun], None], float] = {
    RandomRun.steps: 40, RandomRun.everyone: 8, RandomRun.crash: 8, RandomRun.backup: 4,
    RandomRun.rolled_back: 2, RandomRun.both_run: 2, RandomRun.asleep: 6, RandomRun.cloned_asleep: 2,
    RandomRun.rekeyed: 1.5, RandomRun.removed_or_admitted: 1, RandomRun.cut_off: 3, RandomRun.withheld: 3,
    RandomRun.disk_full: 3, RandomRun.all_back: 1.5, RandomRun.clock: 3, RandomRun.remember_store: 3,
    RandomRun.store_back: 2, RandomRun.lie: 3,
}  # fmt: skip
CHOICES, WEIGHTS = list(RATES), list(RATES.values())


def one_run(seed: int, folder: Path, twin: Twin | None = None) -> RandomRun:
    """A run in an empty folder, of the shipped classes or of a twin."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        releases = Releases if twin is None else twin.put_on(patch)
        made = RandomRun(seed, folder / "fleet", patch, releases)
        try:
            return made.run()
        finally:
            made.fleet.end()


def runs(first: int, count: int, folder: Path) -> tuple[Counter[str], list[str]]:
    """How often each fault occurred, and what was violated."""
    happened: Counter[str] = Counter()
    violated: list[str] = []
    for seed in range(first, first + count):
        found = one_run(seed, folder)
        happened.update(found.happened)
        happened.update({f"store: {k}": n for k, n in found.stores_wrong.items()})
        happened["releases"] += len(found.fleet.checker.numbers)
        if (seed - first + 1) % 500 == 0:
            print(f"  {seed - first + 1:,} runs, {len(violated)} violations", flush=True)
        happened["member witnesses"] += found.members
        if found.fleet.checker.faults:
            violated.append(f"seed {seed}: {found.fleet.checker.trace[0]}")
    return happened, violated


def caught(twin: Twin, most: int, folder: Path) -> int | None:
    """After how many runs a twin is found; None if it is not."""
    for seed in range(most):
        if one_run(seed, folder, twin).fleet.checker.faults:
            return seed + 1
    return None


def main(arguments: list[str]) -> int:
    """Print what happened."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--twins", type=int, default=0, help="at most so many runs of each twin")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        start = time.monotonic()
        happened, violated = runs(given.first, given.runs, Path(name) / "run")
        print(f"{given.runs} runs in {time.monotonic() - start:.0f} s")
        for what, count in sorted(happened.items()):
            print(f"  {count:9,} {what}")
        print("violations:", *(violated or ["none"]), sep="\n  ")
        for twin in {t.name: t for t in TWINS}.values() if given.twins else ():
            print(f"  {twin.name:30} caught by run {caught(twin, given.twins, Path(name) / 'run')}")
    return bool(violated)


__all__ = ["RandomRun", "caught", "one_run", "runs"]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
