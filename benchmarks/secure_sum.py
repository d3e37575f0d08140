"""The secure sum by itself, without a board: deals, one roster, answers, total, in CPU seconds.

`python -m benchmarks.secure_sum --sites 5000` prints one fleet of that size, by its steps. A deal costs one
X25519 exchange a keeper, an answer one a site; all else is small.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.clock import row
from veilsum.fleet.secure_sum.answer import answer
from veilsum.fleet.secure_sum.deal import deal, public_key
from veilsum.fleet.secure_sum.field import P
from veilsum.fleet.secure_sum.numbers import SumNumbers, suggested
from veilsum.fleet.secure_sum.query import Keeper, SumQuery
from veilsum.fleet.secure_sum.roster import propose
from veilsum.fleet.secure_sum.total import total

HEADER = 170  # bytes of a post beside its body
FLEETS = (  # what, numbers, length, most CPU seconds
    ("secure sum of 50 sites", suggested(50), 1, 0.3),
    ("secure sum of 50 sites, vector of 1,024", suggested(50, 1024), 1024, 0.4),
    ("secure sum of 1,000 sites, 100 keepers", SumNumbers(1000, 100, 52, 200, 100), 1, 8.0),
)
SIZES = ((5, 234), (20, 330), (50, 522), (500, 3_402), (4941, 1_146))
LARGE = 5_000
LIARS, FOUND_IN = 29, 0.03


@dataclass(frozen=True)
class Timed:
    """One sum: CPU seconds of its steps, bytes of a deal's post, and what is needed for a total."""

    seconds: dict[str, float]
    post: int
    query: SumQuery
    answers: dict[str, bytes]

    @property
    def whole(self) -> float:
        return sum(self.seconds.values())


def asked(numbers: SumNumbers, length: int) -> tuple[SumQuery, dict[str, bytes]]:
    secrets = {f"s{i}": os.urandom(32) for i in range(numbers.keepers)}
    keepers = tuple(Keeper(label, public_key(own), bytes(32)) for label, own in secrets.items())
    sites = tuple((f"s{i}", i.to_bytes(32, "big")) for i in range(numbers.sites))
    texts = (bytes(32),) * 3
    query = SumQuery(
        "bench", *texts, 1, sites, keepers, bytes(32), 0, numbers, length, 1 << 50
    )  # fmt: skip
    return query, secrets


def timed(numbers: SumNumbers, length: int) -> Timed:
    query, secrets = asked(numbers, length)
    seconds: dict[str, float] = {}

    def clock(what: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        out = work()
        seconds[what] = time.process_time() - start
        return out

    vector = list(range(length))
    deals = clock(
        "deals",
        lambda: [(label, deal(query, label, vector, os.urandom(32))) for label, _ in query.sites],
    )
    roster = clock("roster", lambda: propose(query, deals))
    answers = clock(
        "answers",
        lambda: {k: answer(query, k, own, roster, deals)[0] for k, own in secrets.items()},
    )
    found = clock("total", lambda: total(query, answers))
    if found is None or found.values != tuple(numbers.sites * x for x in vector):
        raise AssertionError("a wrong sum")
    return Timed(seconds, HEADER + len(deals[0][1]), query, answers)


def liars_found() -> float:
    """CPU seconds of a total with 29 wrong answers of 200."""
    numbers = SumNumbers(300, 200, 83, 84, 30)
    run = timed(numbers, 1)
    lying = dict(run.answers)
    for label in list(lying)[:: 200 // LIARS][:LIARS]:
        body = lying[label]
        value = (int.from_bytes(body[32:40], "little") + 1) % P
        lying[label] = body[:32] + value.to_bytes(8, "little") + body[40:]
    start = time.process_time()
    found = total(run.query, lying)
    seconds = time.process_time() - start
    if found is None or len(found.at_odds) != LIARS:
        raise AssertionError("liars were not found")
    return seconds


def post(sites: int) -> int:
    """Bytes of a deal's post; the body is one key and two elements for each cell."""
    numbers = suggested(sites)
    query, _ = asked(SumNumbers(3, 3, 1, 1, 0), 1)
    if len(deal(query, "s0", [1], bytes(32))) != 32 + 16 * (3 - query.numbers.threshold + 1):
        raise AssertionError("posts have another shape")
    return HEADER + 32 + 16 * (numbers.keepers - numbers.threshold + 1)


def measure() -> Iterator[dict[str, object]]:
    for what, numbers, length, most in FLEETS:
        run = timed(numbers, length)
        parts = ", ".join(f"{step} {spent:.2f}" for step, spent in run.seconds.items())
        title = f"{what}, CPU seconds"
        yield row(title, run.whole, f"<= {most:g}", run.whole <= most, f"{parts}; {run.post} bytes")
    seconds = liars_found()
    title = f"{LIARS} wrong answers of 200 found, CPU seconds"
    yield row(title, seconds, f"<= {FOUND_IN}", seconds <= FOUND_IN, "decoding, all verified")
    for sites, most in SIZES:
        size = post(sites)
        title = f"post of a secure sum of {sites:,} sites, bytes"
        yield row(title, size, f"<= {most}", size <= most, f"{HEADER} of them header")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--sites", type=int, default=LARGE)
    options.add_argument("--length", type=int, default=1)
    chosen = options.parse_args()
    run = timed(suggested(chosen.sites, chosen.length), chosen.length)
    print(f"{chosen.sites} sites, {run.query.numbers}: {run.whole:.1f} CPU seconds")
    print(
        *(f"{step} {spent:.2f}" for step, spent in run.seconds.items()), f"{run.post} bytes a post"
    )


if __name__ == "__main__":
    main()
