"""One release, never two: a fleet whose every write is watched, and which can be stopped anywhere.

    moment    a commit of a site, or a call to a store; each has a time before and a time after its effect
    checker   is shown everything that ever left, and every draw

What the checker holds a fleet to:

    twice      no (site, question, slot) is opened with two draws; a repeated release is the same bits
    charged    what left is in the ledger that made it
    kept       no header leaves that its ledger does not remember
    budget     no reading costs more than its site's budget, over all questions and keys
    shared     two draws for different content share nothing
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.fleets import Rows, SmallFleet
from veilsum.errors import FleetError, StoppedError
from veilsum.fleet import site as site_module
from veilsum.fleet.answers import Posted
from veilsum.fleet.budget_units import FOREVER
from veilsum.fleet.config import read_site_config
from veilsum.fleet.database import SiteFile
from veilsum.fleet.post import HEADER, Header, Kind, Post, public, unpack
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.release import Draft, Releases
from veilsum.fleet.site import Site
from veilsum.fleet.step import SeatReport, SeatStep, step
from veilsum.fleet.store import MemoryStore

HOUR = 3600
HOURLY = {"every": "1 h", "tolerance": 0}
PRIVATE = (Kind.POOL, Kind.DEAL)  # posts that are drawn from readings


class Crash(BaseException):
    """The process is gone: nothing of it runs any more."""


@dataclass
class Moments:
    """Counts the moments of a run; at one of them something happens."""

    at: int = -1
    then: Callable[[], object] | None = None
    count: int = 0
    dead: bool = False
    quiet: bool = True
    names: list[str] = field(default_factory=list)

    def pass_by(self, name: str) -> None:
        """One more."""
        if self.quiet:
            return
        if self.dead:
            raise Crash
        self.count += 1
        self.names.append(name)
        if self.count - 1 != self.at:
            return
        if self.then is None:
            self.dead = True
            raise Crash
        self.quiet = True
        self.then()
        self.quiet = False


class Checker:
    """Sees what left and what was drawn; `faults` says what should not have been."""

    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        self.trace: list[str] = []
        self.sites: dict[bytes, str] = {}  # every key that a site ever had
        self.questions: dict[bytes, FleetQuestion] = {}
        self.budget = 0.0
        self.opened: dict[
            tuple[str, Kind, bytes], dict[int, bytes]
        ] = {}  # slot -> hash of the post
        self.numbers: dict[tuple[bytes, Kind, bytes, int], bytes] = {}
        self.known: set[int] = set()
        self.drawn: dict[bytes, tuple[bytes, bytes]] = {}
        self.spent: dict[str, dict[int, float]] = {}  # by the first second of a slot; -1: all time

    def left(self, data: bytes, site: Site | None) -> None:
        """An object was written."""
        with suppress(FleetError):
            for part in unpack(data):
                if hash(part) not in self.known:
                    self.known.add(hash(part))
                    self._kept(Header.parse(part), site)
                    if len(part) > HEADER:
                        self._left(Post.parse(part), site)

    def _kept(self, header: Header, site: Site | None) -> None:
        if site is None or header.key != site.public or header.key not in self.sites:
            return
        if not header.kind.claimed:
            return
        rows = site.file.rows(
            "select max(number) from released where kind = ? and terms = ?",
            header.kind.code, header.terms,
        )  # fmt: skip
        if (rows[0][0] or 0) < header.number:
            self.fault("kept", f"the ledger does not know number {header.number}, which left")

    def _left(self, post: Post, site: Site | None) -> None:
        header = post.header
        name = self.sites.get(header.key)
        if name is None or not header.kind.claimed:
            return
        mark = hashlib.sha256(post.data).digest()
        held = self.opened.setdefault((name, header.kind, header.terms), {})
        number = (header.key, header.kind, header.terms, header.number)
        slots = range(header.first, header.last + 1)
        if self.numbers.setdefault(number, mark) != mark or any(
            held.setdefault(slot, mark) != mark for slot in slots
        ):
            self.fault("twice", f"{name} opened {header.topic.name} {header.number} twice")
            return
        if header.kind in PRIVATE:
            self._charged(name, post, site)

    def _charged(self, name: str, post: Post, site: Site | None) -> None:
        question = self.questions[post.header.terms]
        start, end = 0, FOREVER
        if question.timetable is not None:
            start = question.timetable.bounds(post.header.first)[0]
            end = question.timetable.bounds(post.header.last)[1]
        if site is not None:
            rows = site.file.rows(
                "select 1 from charges where kind = 'charge' and what = ? and first >= ? and until <= ?",
                post.header.terms.hex(), start, end,
            )  # fmt: skip
            if not rows:
                self.fault("charged", f"{name}: number {post.header.number} is not charged")
        spent = self.spent.setdefault(name, {-1: 0.0})
        moments = [-1]
        if question.timetable is not None:
            slots = range(post.header.first, post.header.last + 1)
            moments = [question.timetable.bounds(slot)[0] for slot in slots]
        for moment in moments:
            spent[moment] = spent.get(moment, 0.0) + question.event.epsilon
        touched = spent if question.timetable is None else moments
        dearest = max((spent[one] for one in touched if one >= 0), default=0.0)
        if spent[-1] + dearest > self.budget * (1 + 1e-9):
            self.fault("budget", f"{name}: {spent[-1] + dearest} of {self.budget}")

    def draws(self, draft: Draft, post: Post) -> None:
        """A release was drawn, whether it leaves or not."""
        if draft.fresh:
            return
        content = draft.topic.terms + draft.content + repr((draft.first, draft.last)).encode()
        known = self.drawn.setdefault(post.salt, (content, post.header.key))
        if known[0] != content and known[1] == post.header.key:
            self.fault("shared", f"{post.header.topic.name}: two contents share their noise")

    def fault(self, rule: str, said: str) -> None:
        """Keep it."""
        self.faults[rule] += 1
        self.trace.append(said)


class WatchedStore(MemoryStore):
    """A view of shared objects; each call is a moment, each write is shown to the checker."""

    moments: Moments
    checker: Checker
    site: Site | None = None

    def names(self, prefix: str) -> dict[str, str]:
        self.moments.pass_by(f"names {prefix}")
        return super().names(prefix)

    def get(self, name: str) -> bytes | None:
        self.moments.pass_by(f"get {name}")
        return super().get(name)

    def put(self, name: str, data: bytes, new: bool = False) -> bool:
        self.moments.pass_by(f"put {name}")
        self.checker.left(data, self.site)
        done = super().put(name, data, new)
        self.moments.pass_by(f"did put {name}")
        return done

    def remove(self, name: str) -> None:
        self.moments.pass_by(f"remove {name}")
        super().remove(name)
        self.moments.pass_by(f"did remove {name}")


def watched(releases: type[Releases], checker: Checker) -> type[Releases]:
    """The same, with every draw shown to the checker."""

    class WatchedReleases(releases):  # type: ignore[valid-type,misc]
        def draw(self, draft: Draft) -> Post:
            post: Post = super().draw(draft)
            checker.draws(draft, post)
            return post

    return WatchedReleases


class WatchedFleet(SmallFleet):
    """A small fleet with a checker; hourly readings, that another state of a site may see differently."""

    def __init__(
        self,
        folder: Path,
        sites: int,
        patch: pytest.MonkeyPatch,
        releases: type[Releases] = Releases,
        **more: Any,
    ) -> None:
        self.checker, self.moments = Checker(), Moments()
        self.objects: dict[str, bytes] = {}
        self.views: dict[str, WatchedStore] = {}
        self.copies: dict[str, Path] = {}
        self.asked: list[FleetQuestion] = []
        self.born = 0
        self._watch(patch, releases)
        epsilon = more.pop("epsilon", 3.0)
        self.checker.budget = epsilon
        super().__init__(
            folder, sites, epsilon=epsilon, store=self.view("authority"),
            stores=lambda name, _: self.view(name), rows=lambda _, k: readings(k), **more,
        )  # fmt: skip
        self.learn()

    def _watch(self, patch: pytest.MonkeyPatch, releases: type[Releases]) -> None:
        patch.setattr(SeatStep, "made", watched(releases, self.checker))
        shipped, moments = SiteFile.transaction, self.moments

        @contextmanager
        def transaction(file: SiteFile) -> Iterator[None]:
            with shipped(file):
                yield
                moments.pass_by("commit")
            moments.pass_by("did commit")

        patch.setattr(SiteFile, "transaction", transaction)
        patch.setattr(site_module, "read_site_config", cache(read_site_config))

    def view(self, name: str) -> WatchedStore:
        """The store as one folder sees it."""
        if name not in self.views:
            self.views[name] = WatchedStore(objects=self.objects)
            self.views[name].checker, self.views[name].moments = self.checker, self.moments
        return self.views[name]

    def joined(self, name: str, data: bool = True) -> bytes:
        """With a key and a seed that are the same in every run."""
        super().joined(name, data)
        self.born += 1
        with SiteFile(self.folder / name / "site.db", durable=False) as file, file.transaction():
            file.set("key", hashlib.sha256(f"key {name} {self.born}".encode()).digest())
            file.set("seed", hashlib.sha256(f"seed {name} {self.born}".encode()).digest())
        with SiteFile(self.folder / name / "site.db", durable=False) as file:
            return public(file.key)

    def learn(self) -> None:
        """Tell the checker whose keys there are."""
        for name, key in self.keys.items():
            self.checker.sites[key] = name

    def rekey(self, name: str) -> None:
        super().rekey(name)
        self.learn()

    def ask(self, question: FleetQuestion) -> Posted:
        self.checker.questions[question.digest] = question
        self.asked.append(question)
        return super().ask(question)

    # ---- copies

    def folder_of(self, name: str) -> Path:
        """Of a site or of a copy of one."""
        return self.copies.get(name, self.folder / name)

    def copy(self, name: str, to: str, other: int | None = None) -> str:
        """A copy of a site's folder, which sees other readings if so."""
        place = self.folder / to
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.folder_of(name), place)
        self.copies[to] = place
        self.sources[to] = self.sources[name] if other is None else Rows(readings(other))
        return to

    def open(self, name: str, folder: Path | None = None) -> Site:
        site = super().open(name, folder or self.folder_of(name))
        self.view(name).site = site
        return site

    # ---- steps

    def go(self, *names: str, hours: int = 0) -> list[SeatReport]:
        """Steps of these in turn; a site that stopped is passed over."""
        found = []
        self.now += hours * HOUR
        for name in names or tuple(self.keys):
            with suppress(StoppedError), self.open(name) as site:
                found += step(site, self.now)
        return found

    def interrupted(self, name: str, at: int, then: Callable[[], object] | None = None) -> bool:
        """A step that is ended at a moment, or during which something else happens; whether it came to it."""
        moments = self.moments
        moments.at, moments.then, moments.count, moments.dead = at, then, 0, False
        moments.names.clear()
        with suppress(Crash, StoppedError), self.open(name) as site:
            moments.quiet = False
            try:
                step(site, self.now)
            finally:
                moments.quiet = True
        return moments.count > at

    # ---- all of it, to come back to

    def keep(self) -> SavedFleet:
        """The state of all disks and of the store."""
        place = self.folder.parent / f"{self.folder.name}-kept"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.folder, place)
        return SavedFleet(self, place, dict(self.objects), self.now, dict(self.sources))

    def clean(self) -> None:
        """Raise for what the checker found."""
        assert not self.checker.faults, self.checker.trace[:4]


@dataclass
class SavedFleet:
    """A state of a fleet."""

    fleet: WatchedFleet
    place: Path
    objects: dict[str, bytes]
    now: int
    sources: dict[str, Rows]

    def moved(self, name: str) -> SavedFleet:
        """To where the next one does not replace it."""
        return replace(self, place=Path(self.place.rename(self.place.parent / name)))

    def restore(self) -> None:
        """Everything as it was, also what the checker knows: another run begins here."""
        fleet = self.fleet
        shutil.rmtree(fleet.folder)
        shutil.copytree(self.place, fleet.folder)
        fleet.objects.clear()
        fleet.objects.update(self.objects)
        fleet.now, fleet.sources = self.now, dict(self.sources)
        checker = fleet.checker
        for one in (checker.opened, checker.numbers, checker.known, checker.drawn, checker.spent):
            one.clear()
        for name, data in self.objects.items():
            if name.startswith("post/"):
                checker.left(data, None)


def readings(k: int) -> dict[str, list[float]]:
    """One an hour, from the time of the tests on; each k has its own."""
    from tests.fleet.fleets import NOW

    at = [NOW + hour * HOUR + 60 for hour in range(-2, 40)]
    return {"kwh": [10.0 + k + hour % 7 for hour in range(len(at))], "at": list(map(float, at))}
