"""Secure sums on a board: consents, Keys, Query, Deals, Roster, Answers, with transport and ledger.

    CPU seconds     a whole sum of n sites in one process: site.db of each, one store in memory
    bytes           posts as they stand in the store, and all of them together, beside SECURE_SUM.md section 5

`python -m benchmarks.fleet_sums --sites 200 --keepers 50 --profile` prints one fleet, and where time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.clock import row
from veilsum.fleet.answers import questions_on
from veilsum.fleet.database import SiteFile
from veilsum.fleet.membership import ASKER, KEEPER, SITE, Member, Membership, Witnesses
from veilsum.fleet.post import HEADER, SALT, Kind, public, short
from veilsum.fleet.protocol import protocol_of
from veilsum.fleet.question import FleetQuestion, Worded
from veilsum.fleet.secure_sum.numbers import SumNumbers, suggested
from veilsum.fleet.site import Site
from veilsum.fleet.sources import DataSource
from veilsum.fleet.step import step
from veilsum.fleet.store import MemoryStore
from veilsum.fleet.sum_posts import MARK

NOW = 1_800_000_000
ROUNDS = 6  # at most, of steps of everyone
SITE_TOML = """name = "{name}"
{data}[budget]
epsilon = 100.0
[[fleet]]
address = "memory"
authority = "{authority}"
[policy]
kinds = ["mean"]
columns = ["kwh"]
max_epsilon = 1000.0
per = "year"
"""
FLEETS = (
    (5, 5, 0.15),
    (50, 50, 1.0),
    (200, 200, 12.0),
    (1000, 100, 30.0),
)  # sites, keepers, most CPU seconds
PAGE = {  # sites: kB of a post, kB of the board, as section 5 says
    5: (0.23, 3), 20: (0.33, 15), 50: (0.52, 47), 500: (3.4, 1_900), 4941: (1.15, 5_800),
}  # fmt: skip
KEEPERS = {5: 5, 20: 20, 50: 50, 500: 500, 4941: 200}


@dataclass(frozen=True)
class Rows(DataSource):
    """Rows in memory."""

    name = "bench rows"
    kwh: tuple[float, ...]

    def table(self) -> Any:
        return {"kwh": np.array(self.kwh)}

    def readings(self, start: int, end: int, now: int | None = None) -> None:
        del start, end, now

    def columns(self) -> list[str]:
        return ["kwh"]


class Fleet:
    """Sites in a folder, each open from the first step to the last."""

    def __init__(self, folder: Path, sites: int, keepers: int, stack: ExitStack) -> None:
        self.store = MemoryStore("memory")
        authority = Ed25519PrivateKey.generate()
        self.authority = public(authority).hex()
        names = ["desk", *(f"s{k}" for k in range(sites))]
        keys = {name: self._joined(folder / name, name) for name in names}
        members = [Member("desk", keys["desk"].hex(), (ASKER,))]
        members += [
            Member(name, keys[name].hex(), (SITE, KEEPER) if k < keepers else (SITE,))
            for k, name in enumerate(names[1:])
        ]
        usual = suggested(sites)
        colluding = min(usual.colluding, keepers // 2) if keepers < sites else usual.colluding
        membership = Membership(
            "bench",
            self.authority,
            1,
            tuple(members),
            Witnesses(),
            ("memory",),
            {"colluding": colluding},
        ).signed(authority)
        post = membership.post
        assert post is not None
        self.store.put(f"post/{short(post.header.key)}/{post.header.topic.name}", post.data)
        self.sites = {
            name: stack.enter_context(
                Site(
                    folder / name, durable=False, stores=lambda _: self.store,
                    source=None if name == "desk" else Rows((10.0 + len(name), 11.0, 12.0)),
                )
            )
            for name in names
        }  # fmt: skip

    def _joined(self, place: Path, name: str) -> bytes:
        place.mkdir(parents=True)
        data = "" if name == "desk" else '[data]\npath = "rows.csv"\n'
        (place / "site.toml").write_text(
            SITE_TOML.format(name=name, data=data, authority=self.authority)
        )
        with SiteFile(place / "site.db", new=True, durable=False) as file:
            return public(file.key)

    def step(self, name: str) -> None:
        for report in step(self.sites[name], NOW):
            assert not report.problems, report.problems

    def ask(self, question: FleetQuestion) -> None:
        seat = self.sites["desk"].seat()
        seat.read()
        seat.publish(Kind.QUESTION, question.digest, question.canonical(), NOW)
        seat.write(NOW)

    def answer(self, question: FleetQuestion) -> Any:
        board = self.sites["desk"].seat().board
        (posted,) = [one for one in questions_on(board) if one.terms == question.digest]
        return protocol_of(question.protocol).answer(board, posted)


@dataclass(frozen=True)
class Timed:
    """CPU seconds by rounds of steps, the slowest step, bytes of posts by kind, and of all objects."""

    rounds: tuple[float, ...]
    slowest: float
    posts: Mapping[str, float]
    board: int

    @property
    def whole(self) -> float:
        return sum(self.rounds)


def asked() -> FleetQuestion:
    mean = Worded("mean", ("kwh",), {"--between": [["0", "40"]]})
    return FleetQuestion(
        asks=(mean,), epsilon=1.0, protocol="secure-sum", deadline=NOW + 86_400, most_records=1000
    )


def timed(sites: int, keepers: int) -> Timed:
    rounds: list[float] = []
    question, slowest = asked(), 0.0
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        fleet = Fleet(Path(folder), sites, keepers, stack)
        fleet.ask(question)
        for _ in range(ROUNDS):
            start = time.process_time()
            for name in fleet.sites:
                before = time.process_time()
                fleet.step(name)
                slowest = max(slowest, time.process_time() - before)
                found = fleet.answer(question) if name == "desk" and len(rounds) > 2 else None
                if found is not None:
                    break
            rounds.append(time.process_time() - start)
            if found is not None:
                break
        else:
            raise AssertionError("no sum")
        assert len(found.sites) == sites
        return Timed(tuple(rounds), slowest, *_sizes(fleet.store.objects))


def _sizes(objects: Mapping[str, bytes]) -> tuple[dict[str, float], int]:
    sizes: dict[str, list[int]] = {}
    for name, data in objects.items():
        if name.startswith("post/"):
            sizes.setdefault(name.split("/")[2].partition("-")[0], []).append(len(data))
    sums = ("key", "query", "deal", "roster", "answer")
    board = sum(sum(sizes[kind]) for kind in sums)
    return {kind: statistics.mean(found) for kind, found in sizes.items()}, board


def deal_bytes(sites: int) -> int:
    """Of a Deal as it stands in a store: length, header, salt, mark of q, body."""
    numbers = suggested(sites) if sites != 4941 else SumNumbers(4941, 200, 83, 988, 494)
    return 4 + HEADER + SALT + MARK + 32 + 16 * (numbers.keepers - numbers.threshold + 1)


def measure() -> Iterator[dict[str, object]]:
    for sites, keepers, most in FLEETS:
        run = timed(sites, keepers)
        parts = ", ".join(f"{seconds:.2f}" for seconds in run.rounds)
        sizes = ", ".join(f"{kind} {size:,.0f}" for kind, size in run.posts.items())
        yield row(
            f"secure sum on a board, {sites:,} sites, {keepers} keepers, CPU seconds", run.whole,
            f"<= {most:g}", run.whole <= most,
            f"rounds {parts}; slowest step {1000 * run.slowest:.0f} ms; bytes: {sizes}; board "
            f"{run.board / 1000:,.0f} kB",
        )  # fmt: skip
    for sites, (page, _) in PAGE.items():
        size = deal_bytes(sites)
        yield row(
            f"Deal of {sites:,} sites in a store, bytes", size, f"<= {1000 * page * 1.25:.0f}",
            size <= 1000 * page * 1.25, f"the page says {page} kB, with a header of 170 bytes",
        )  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--sites", type=int, default=50)
    options.add_argument("--keepers", type=int, default=50)
    options.add_argument("--profile", action="store_true")
    chosen = options.parse_args()
    with cProfile.Profile() as profile:
        if not chosen.profile:
            profile.disable()
        run = timed(chosen.sites, chosen.keepers)
    print(f"{run.whole:.2f} CPU seconds, rounds {run.rounds}, slowest step {run.slowest:.3f}")
    print({kind: round(size) for kind, size in run.posts.items()}, f"board {run.board:,} bytes")
    if chosen.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(35)


if __name__ == "__main__":
    main()
