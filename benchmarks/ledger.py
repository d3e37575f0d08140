"""Opening a ledger with 10^5 releases, against reading and hashing the same rows: `make bench-agents`."""

import hashlib
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.clock import race, row
from veilsum.agents.ledger import Ledger, records
from veilsum.agents.ledger.opening import write_meta
from veilsum.agents.ledger.records import LedgerEntry
from veilsum.agents.manifest import Manifest
from veilsum.privacy import Budget
from veilsum.scenario import Scenario

SCENARIO = """
name = "stream"
network = { graph = "ring:4", weights = "lazy-metropolis" }
family = { name = "normal", sigma = 1.0, bounds = [0.0, 1.0] }
signals = { draw = { mu = 0.5 } }
privacy = { protect = "signal", epsilon = 0.1 }
algorithm = { name = "learn", rounds = 50 }
"""
RELEASES = 100_000
SECONDS, RATIO = 1.0, 2.5


def filled(path: Path, manifest: Manifest, releases: int = RELEASES) -> None:
    """A ledger with so many releases, written in one transaction."""
    ledger = Ledger.open(path, manifest, "0", Budget(1e6))
    writer, time = ledger._writer, ledger.now
    store, meta, head = writer.store, writer.meta, writer.head
    store.begin()
    for seq in range(1, releases + 1):
        origin = hashlib.sha256(str(seq).encode()).hexdigest()[:32]
        made = (seq, seq, 0, seq, 1, seq, time, 0.1, 0.0, (seq << 64,), 1 << 64, (origin,))
        entry = LedgerEntry(*made, head, "")
        head = records.entry_hash(head, entry.row)
        store.append(entry._replace(hash=head))
    write_meta(store, meta, None, count=releases, head=head, time=time)
    store.commit()
    ledger.close()
    path.with_name(path.name + ".lock").unlink()


def plain_scan(path: Path) -> str:
    """What cannot be avoided: every row read once and hashed into a chain."""
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    head = ""
    for found in db.execute("SELECT * FROM releases ORDER BY seq"):
        head = hashlib.sha256(f"{head}{found}".encode()).hexdigest()
    db.close()
    return head


def opening() -> dict[str, object]:
    """Seconds to open, with everything verified, and the ratio to a plain scan in the same run."""
    manifest = Manifest.of(Scenario.parse(SCENARIO, name="stream").build().problem, "stream")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.ledger"
        filled(path, manifest)
        found = race(
            {
                "open": lambda: Ledger.open(path, manifest, "0", Budget(1e6)).close(),
                "scan": lambda: plain_scan(path),
            },
            times=3,
        )
    seconds, ratio = found["open"], found["open"] / found["scan"]
    return row(
        f"open a ledger with {RELEASES:,} releases: times a plain scan with sha256",
        ratio,
        f"<= {RATIO:g}",
        ratio <= RATIO,
        f"{seconds:.2f} s against {found['scan']:.2f} s; below {SECONDS:g} s is the aim",
    )


if __name__ == "__main__":
    print(opening())
