"""Fleets on a folder: a step, an answer, memory, files; beside what the package before had.

A step is that of one site and slot: it reads what all others have posted since, releases its own slot with
every promise of durability (fsync), and writes. Other sites are their posts, signed with their keys. The
control does the bare work of it: list and read the same objects, check as many signatures, write as many
files and sync them.

`python -m benchmarks.fleet` prints all of it and writes benchmarks/fleet.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.clock import row
from veilsum.fleet.answers import BoardAnswer, questions_on
from veilsum.fleet.consent import ConsentPost
from veilsum.fleet.database import SiteFile
from veilsum.fleet.membership import ASKER, SITE, Member, Membership, Witnesses
from veilsum.fleet.pool import PoolRegister
from veilsum.fleet.post import SALT, Header, Kind, Post, Topic, pack, public, sealed, short
from veilsum.fleet.protocol import protocol_of
from veilsum.fleet.question import FleetQuestion, Worded
from veilsum.fleet.seen import PREFIX, Seen, seen_name
from veilsum.fleet.site import Site
from veilsum.fleet.step import step
from veilsum.fleet.store import open_store

HERE = Path(__file__).parent
HOUR, START = 3600, 1_800_000_000 // 3600 * 3600
MEAN = Worded("mean", ("kwh",), {"--between": [["0", "40"]]})
HOURLY = FleetQuestion(asks=(MEAN,), epsilon=1.0, protocol="pool", schedule={"every": "1 h"})
TABLE = FleetQuestion(asks=(MEAN,), epsilon=1.0, protocol="pool")
SLOTS, REAL = 4, 5
TOML = """name = "{name}"
[data]
path = "rows.csv"
time = "at"
[budget]
epsilon = 100.0
per = "reading"
[[fleet]]
address = "{board}"
authority = "{authority}"
[policy]
kinds = ["mean"]
columns = ["kwh", "at"]
max_epsilon = 1000.0
per = "year"
"""
PEAK = """
import sys
def peak():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["VmHWM"].split()[0]) / 1000
from pathlib import Path
from veilsum.fleet.site import Site
from veilsum.fleet.step import step
"""
STEP = """
with Site(Path(sys.argv[1])) as site:
    step(site, int(sys.argv[2]))
"""


class BenchFleet:
    """A folder with a board, some real sites, and the posts of others."""

    def __init__(self, folder: Path, sites: int, real: int) -> None:
        self.folder, self.store = folder, open_store(str(folder / "board"), create=True)
        self.authority = Ed25519PrivateKey.generate()
        self.real = [f"s{k}" for k in range(real)]
        self.others = {f"s{k}": Ed25519PrivateKey.generate() for k in range(real, sites)}
        keys = {name: self.joined(name) for name in ("desk", *self.real)}
        self.desk = keys["desk"]
        members = [Member("desk", keys.pop("desk").hex(), (ASKER,))]
        members += [Member(name, key.hex(), (SITE,)) for name, key in keys.items()]
        members += [Member(k, public(key).hex(), (SITE,)) for k, key in self.others.items()]
        made = Membership(
            "bench", public(self.authority).hex(), 1, tuple(members), Witnesses(),
            (str(folder / "board"),), {},
        ).signed(self.authority)  # fmt: skip
        assert made.post is not None
        topic = made.post.header.topic.name
        self.store.put(f"post/{short(public(self.authority))}/{topic}", made.post.data)
        self.keys = [member.public for member in members[1:]]

    def joined(self, name: str) -> bytes:
        place = self.folder / name
        place.mkdir()
        authority = public(self.authority).hex()
        (place / "site.toml").write_text(
            TOML.format(name=name, board=self.folder / "board", authority=authority)
        )
        rows = "".join(f"{START + HOUR * hour + 5},{10 + hour % 7}\n" for hour in range(40))
        (place / "rows.csv").write_text(f"at,kwh\n{rows}")
        with SiteFile(place / "site.db", new=True) as file:
            return public(file.key)

    def ask(self, question: FleetQuestion, now: int) -> None:
        with Site(self.folder / "desk") as site:
            seat = site.seat()
            seat.read()
            seat.publish(Kind.QUESTION, question.digest, question.canonical(), now)
            seat.write(now)

    def post_others(self, slot: int, now: int) -> None:
        """What all other sites have on the board after so many slots."""
        topic = Topic(Kind.POOL, HOURLY.digest)
        held = {key[:PREFIX]: (slot - 1, b"") for key in self.keys}  # as of their last step
        entries = {topic: held} if slot > 1 else {}
        first = START // HOUR + slot - 1
        for key in self.others.values():
            place = f"post/{short(public(key))}"
            if slot:
                body = PoolRegister((slot * 10**9,), (10**9,), 1).data
                self._put(f"{place}/{topic.name}", key, body, Kind.POOL, slot, first)
            else:
                name = Topic(Kind.CONSENT, HOURLY.digest).name
                self._put(f"{place}/{name}", key, ConsentPost(True, "").data, Kind.CONSENT, 1, 0)
            seen = Seen(public(key), slot + 1, now, bytes(32), entries).signed(key)
            self.store.put(seen_name(short(public(key))), seen.data)

    def _put(
        self, name: str, key: Ed25519PrivateKey, body: bytes, kind: Kind, number: int, slot: int
    ) -> None:
        draws = number if slot else 0
        header = Header(
            kind, HOURLY.digest, public(key), number, slot, slot, draws, draws,
            digest=sealed(bytes(SALT), body),
        )  # fmt: skip
        post = Post(header.signed(key), bytes(SALT), body)
        self.store.put(name, pack((post.data,)))

    def step(self, name: str, now: int) -> tuple[float, int]:
        """Seconds of a step, and its bytes."""
        begun = time.perf_counter()
        with Site(self.folder / name) as site:
            (report,) = step(site, now)
        if report.problems:
            raise AssertionError(report.problems)
        return time.perf_counter() - begun, report.traffic.bytes

    def cpu(self, name: str, now: int) -> float:
        """Processor seconds of a step."""
        begun = time.process_time()
        self.step(name, now)
        return time.process_time() - begun

    def answer(self, name: str, question: FleetQuestion) -> BoardAnswer | None:
        with Site(self.folder / name) as site:
            board = site.seat().board
            for posted in questions_on(board):
                if posted.terms == question.digest:
                    return protocol_of(question.protocol).answer(board, posted)
        return None

    def bare(self) -> float:
        """Seconds of the work that no step can do without."""
        begun = time.perf_counter()
        for _ in range(3):  # posts, lists, evidence
            self.store.names("post")
        names = [name for name in self.store.names("post") if "/pool-" in name]
        for data in self.store.get_many(names).values():
            assert data is not None
            Post.parse(data[4:]).header.check()
        for place in ("one", "two", "three", "four"):
            self.store.put(f"bare/{place}", bytes(500))
        return time.perf_counter() - begun


@dataclass(frozen=True)
class Slot:
    """Of the steps of a slot: the quickest in ms, of which processor, its bare work, and kB."""

    ms: float
    cpu: float
    bare: float
    size: float


def slot_of(sites: int) -> Slot:
    """Steps that read what all others have posted since the slot before."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = BenchFleet(Path(folder), sites, REAL)
        fleet.ask(HOURLY, START + 10)
        fleet.post_others(0, START + 10)
        found: list[tuple[float, int]] = []
        bare, cpu = [], []
        for slot in range(SLOTS + 1):
            now = START + slot * HOUR + 120
            if slot:
                fleet.post_others(slot, now)
            steps = [fleet.step(name, now) for name in fleet.real[1:]]
            cpu.append(fleet.cpu(fleet.real[0], now))
            if slot > 1:  # everything before was read once
                found += steps
                bare.append(fleet.bare())
        answer = fleet.answer("s0", HOURLY)
        assert answer is not None
        assert len(answer.sites) == sites, answer.left_out
    quickest = min(one for one, _ in found)
    size = median(size for _, size in found) / 1e3
    return Slot(1e3 * quickest, 1e3 * min(cpu[2:]), 1e3 * min(bare), size)


def answered_in(sites: int) -> tuple[float, float, int]:
    """Seconds from the question to the answer of all sites at all of them, of the last round; rounds."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = BenchFleet(Path(folder), sites, sites)
        begun = time.perf_counter()
        fleet.ask(TABLE, START)
        rounds, last = 0, 0.0
        while True:
            rounds += 1
            turn = time.perf_counter()
            for name in (*fleet.real, "desk"):
                fleet.step(name, START + rounds)
            last = time.perf_counter() - turn
            answers = [fleet.answer(name, TABLE) for name in (fleet.real[0], "desk")]
            if all(one is not None and not one.missing for one in answers):
                return time.perf_counter() - begun, last, rounds


def memory() -> tuple[float, float]:
    """Peak MB of the process of a site of 50, and of one that only loads the same modules."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = BenchFleet(Path(folder), 50, 1)
        fleet.ask(HOURLY, START + 10)
        fleet.post_others(0, START + 10)
        fleet.step("s0", START + 10)
        fleet.post_others(1, START + HOUR + 120)
        place = [str(fleet.folder / "s0"), str(START + HOUR + 120)]
        codes = (PEAK + STEP + "print(peak())", PEAK + "print(peak())")
        found = [
            subprocess.run(
                [sys.executable, "-c", code, *place], check=True, capture_output=True, text=True
            ).stdout
            for code in codes
        ]
    return float(found[0]), float(found[1])


def left_behind() -> tuple[int, int, float]:
    """Files of a site beside its data, objects of it on the board, kB of both, after some slots."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = BenchFleet(Path(folder), 3, 3)
        fleet.ask(HOURLY, START + 10)
        for slot in range(20):
            for name in fleet.real:
                fleet.step(name, START + slot * HOUR + 120)
        own = [path for path in (fleet.folder / "s0").iterdir() if path.name != "rows.csv"]
        with Site(fleet.folder / "s0") as site:
            mark = short(site.public)
        board = [path for path in (fleet.folder / "board").rglob("*") if path.is_file()]
        theirs = [path for path in board if mark in str(path)]
        size = sum(path.stat().st_size for path in (*own, *theirs)) / 1e3
    return len(own), len(theirs), size


def synced() -> float:
    """Milliseconds of the disk to sync a small file."""
    with tempfile.NamedTemporaryFile() as file:
        times = []
        for _ in range(20):
            file.write(bytes(4096))
            file.flush()
            begun = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - begun)
    return 1e3 * median(times)


def measure() -> Iterator[dict[str, object]]:
    why = f"the disk ({synced():.1f} ms to sync a file), and what else the machine does"
    for sites, most, room in ((50, 50, 40), (500, 150, 250)):
        slot = slot_of(sites)
        said = f"{slot.cpu:.0f} ms of processor; {slot.ms / slot.bare:.1f} times its bare work"
        yield row(f"fleet of {sites}: a step, ms", slot.ms, f"< {most}", slot.ms < most, said, why)
        title = f"fleet of {sites}: kB a site and slot"
        said = "objects read and written, names and versions of listings"
        yield row(title, slot.size, f"< {room}", slot.size < room, said)
    for sites, limit in ((3, 2), (50, 20), (200, 120)):
        seconds, last, rounds = answered_in(sites)
        said = f"{rounds} rounds of all, one site after the other; the last one {last:.2f} s"
        title = f"fleet of {sites}: from a question to its answer everywhere, s"
        yield row(title, seconds, f"< {limit}", seconds < limit, said, why)
    peak, bare = memory()
    said = f"{bare:.0f} MB are Python and its modules"
    yield row("fleet of 50: peak memory of a site's process, MB", peak, "< 120", peak < 120, said)
    own, theirs, size = left_behind()
    said = f"site.toml, site.db; {theirs} objects on the board; {size:.0f} kB after 19 slots"
    yield row("fleet: files of a site", own, "2", own == 2, said)


def before() -> list[dict[str, object]]:
    """What was recorded of the package before, and where that compares."""
    base = json.loads((HERE / "fleet-baseline.json").read_text())
    agents = {one["what"]: one["measured"] for one in base["agents"]}
    year, sockets = base["soak"]["year"], base["soak"]["sockets"]
    masked = "50 agents, 4 processes, mutual TLS: a masked sum"
    return [
        {"what": "time to an answer, s", "before": agents[f"{masked}, s"],
         "with": "fleet of 50: from a question to its answer everywhere, s",
         "like": "no: 4 processes that were up and connected by TLS, without the 1.3 s of their start; here "
         "every step opens a process's file and ends, and nobody needs to be up at the same time"},
        {"what": "bytes of an answer and site",
         "before": agents[f"{masked}: bytes sent per agent and session"],
         "with": "fleet of 50: kB a site and slot",
         "like": "no: a masked sum of one session, sent alone; here what is read and written is counted"},
        {"what": "memory of a site's process, MB", "before": sockets["largest memory of a process, MB"],
         "with": "fleet of 50: peak memory of a site's process, MB",
         "like": "nearly: a process of one agent with TLS for 260 s; here one step"},
        {"what": "kB left behind a site and slot", "before": 1e3 * year["ledgers, MB"] / 50 / 8760,
         "with": "fleet: files of a site",
         "like": "no: ledgers of a year; a register and a ledger's row are all that a slot adds here"},
        {"what": "commands for three sites", "before": None, "with": "init, 3 join, admit, 3 run, ask: 9",
         "like": "not recorded: a certificate authority, requests and a study file were needed first"},
    ]  # fmt: skip


def main() -> None:
    rows = list(measure())
    for one in rows:
        met = "met" if one["met"] else "MISSED"
        print(f"{one['what']}: {one['measured']:.4g}, target {one['target']}: {met}")
        print(f"    {one['detail']}; {one.get('why', '')}".rstrip("; "))
    base: dict[str, Any] = json.loads((HERE / "fleet-baseline.json").read_text())
    print(f"\nrecorded {base['date']} at {base['commit'][:7]}, on {base['machine']}:")
    for one in before():
        print(f"{one['what']}: {one['before']} -> {one['with']}; like for like: {one['like']}")
    report = {
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "rows": rows,
        "before": before(),
    }
    (HERE / "fleet.json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
