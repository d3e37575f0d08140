"""Some minutes of real processes over sockets with mutual TLS: `kill -9`, restarts and rotated files.

Each site is a `murmura agent` with an agent.toml, a ledger, certificates and a CSV file that a meter
appends to, one row for each slot of two seconds. Whatever happens, every row is released once or
passed over, as the ledger states, and no 30 seconds cost more than the budget.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter, deque
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from murmura.agents.config import Setup
from murmura.agents.ledger import ReadingOrigin, read_ledger, verify
from murmura.agents.ledger.clock import MACHINE
from murmura.agents.ledger.records import OriginHasher
from murmura.agents.ledger.store import Store
from murmura.agents.pki import Authority
from tests.soak.meter import Meter
from tests.soak.sampling import PAGE

EVERY, PERIOD = 2.0, 30.0  # seconds of a slot, and of the budget
EPSILON, BUDGET = 0.5, 6.0  # of a reading, and for a period: 12 of 15 readings are released
SITES = 4
LAST = 20.0  # seconds without new rows, in which those that wait are taken
SCENARIO = f"""
name = "soak"
network = {{graph = "links.csv", weights = "lazy-metropolis"}}
family = {{name = "normal", sigma = 1.0, bounds = [0.0, 100.0]}}
signals = {{draw = {{mu = 50.0}}}}
privacy = {{protect = "signal", epsilon = {EPSILON}}}
algorithm = {{name = "learn", rounds = 1}}
agents = {{asynchronous = true, open_ended = true, every = {EVERY}, grace = {EVERY}}}
"""
AGENT = """
name = "{name}"
scenario = "../scenario.toml"
listen = ["tls/127.0.0.1:{port}"]
keys = {{ folder = "keys" }}
ledger = {{ path = "agent.ledger" }}
budget = {{ epsilon = {budget}, per = {period} }}
readings = {{ csv = "readings.csv", column = "kwh", key = "n" }}
rounds = {{ tick = 0.2, linger = 5.0 }}

[peers]
{peers}
"""


class SocketSite:
    """One site: its files, its meter, and its process."""

    def __init__(self, name: str, home: Path, port: int, authority: Authority) -> None:
        self.name, self.folder, self.port, self.authority = name, home / name, port, authority
        self.meter = Meter(self.folder, "keyed", MACHINE)
        self.written = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.counts: Counter[str] = Counter()
        self.memory, self.files = 0, 0

    def configure(self, others: list[SocketSite]) -> None:
        peers = "\n".join(f'{o.name} = "tls/127.0.0.1:{o.port}"' for o in others)
        text = AGENT.format(
            name=self.name, port=self.port, budget=BUDGET, period=PERIOD, peers=peers
        )
        (self.folder / "agent.toml").write_text(text)
        made = self.authority.issue(self.name, ["127.0.0.1"], days=1)
        keys = self.folder / "keys"
        keys.mkdir(mode=0o700)
        for path in made:
            (keys / path.name).write_bytes(path.read_bytes())
            (keys / path.name).chmod(0o600)

    def start(self) -> None:
        assert self.process is None
        with (self.folder / "log.jsonl").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "murmura.cli", "agent", "agent.toml"], cwd=self.folder,
                stdout=subprocess.DEVNULL, stderr=log,
                env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )  # fmt: skip
        self.counts["starts"] += 1

    def end(self, number: int) -> None:
        """Send a signal, by the process's id, and wait for its end."""
        if self.process is not None:
            self.process.send_signal(number)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                self.counts["hung"] += 1
            self.process = None
            self.counts["kills" if number == signal.SIGKILL else "stops"] += 1

    def write(self) -> None:
        self.written += 1
        self.meter.write(self.written)

    def look(self) -> bool:
        """Note what the process takes; False if it has ended by itself."""
        if self.process is None:
            return True
        if self.process.poll() is not None:
            return False
        home = Path(f"/proc/{self.process.pid}")
        self.memory = max(self.memory, int((home / "statm").read_text().split()[1]) * PAGE)
        self.files = max(self.files, len(os.listdir(home / "fd")))
        return True


def run(home: Path, seconds: float, seed: int = 16) -> tuple[dict[str, Any], list[str]]:
    """Let the sites run; figures and violations."""
    rng = random.Random(seed)
    sites = prepare(home)
    wrong: list[str] = []
    began = time.monotonic()
    with ExitStack() as ending:
        for site in sites:
            site.start()
            ending.callback(site.end, signal.SIGKILL)
        down: dict[str, float] = {}
        next_row, next_fault, next_turn = began, began + 8.0, began + 11.0
        while (now := time.monotonic()) < began + seconds:
            if now >= next_row:
                next_row += EVERY
                for site in sites:
                    site.write()
            if now >= next_turn:
                next_turn += 17.0
                rng.choice(sites).meter.rotate(rng.choice(("rename", "copytruncate")))
            if now >= next_fault:
                next_fault += rng.uniform(2.0, 8.0)
                site = rng.choice(sites)
                if site.process is not None:
                    site.end(rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
                    down[site.name] = now + rng.uniform(0.0, 3.0)
            for site in sites:
                if site.process is None and now >= down.get(site.name, 0.0):
                    site.start()
                elif not site.look():
                    wrong.append(f"{site.name} ended by itself; look into {site.folder}")
                    site.end(signal.SIGKILL)
            time.sleep(0.05)
        _rest(sites)
        for site in sites:
            site.end(signal.SIGTERM)
    for site in sites:
        wrong += violations(site)
    return figures(sites, time.monotonic() - began), wrong


def _rest(sites: list[SocketSite]) -> None:
    """No new rows: those that wait are taken."""
    for site in sites:
        if site.process is None:
            site.start()
    end = time.monotonic() + 3 * LAST
    while time.monotonic() < end and any(len(_known(site)) < site.written for site in sites):
        for site in sites:
            site.look()
        time.sleep(0.5)


def prepare(home: Path) -> list[SocketSite]:
    """The files of all sites."""
    home.mkdir(parents=True, exist_ok=True)
    authority = Authority.create(home / "authority")
    with ExitStack() as held:  # all at once, so that all differ
        found = [held.enter_context(socket.socket()) for _ in range(SITES)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in found]
    sites = [SocketSite(f"site-{k}", home, ports[k], authority) for k in range(SITES)]
    (home / "scenario.toml").write_text(SCENARIO)
    pairs = [f"site-{k},site-{(k + 1) % SITES}" for k in range(SITES)]
    (home / "links.csv").write_text("\n".join(["source,target", *pairs, ""]))
    for k, site in enumerate(sites):
        site.configure([sites[(k + 1) % SITES], sites[(k - 1) % SITES]])
    return sites


def _known(site: SocketSite) -> set[str]:
    """The readings that the ledger has released or passed over, by their origins."""
    if not (site.folder / "agent.ledger").exists():
        return set()
    store = Store(site.folder / "agent.ledger", read_only=True)
    try:
        return {name for name, _ in store.origins()} | {name for _, name in store.passed()}
    finally:
        store.close()


def violations(site: SocketSite) -> list[str]:
    """What the ledger of a site lacks, has twice, or should not have."""
    path = site.folder / "agent.ledger"
    found = [f"{site.name}: {problem}" for problem in verify(path).problems]
    secret = Setup.load(site.folder / "agent.toml").device_secret()
    assert secret is not None
    hasher, known, contents = OriginHasher(secret, site.name), _known(site), read_ledger(path)
    found += [
        f"row {number} of {site.name} was lost"
        for number in range(1, site.written + 1)
        if hasher.hash(ReadingOrigin(str(number), True), number) not in known
    ]
    origins = Counter(name for entry in contents.entries for name in entry.origins)
    found += [f"{site.name} has released a row {n} times" for n in origins.values() if n > 1]
    recent: deque[float] = deque()
    for entry in contents.entries:
        recent.append(entry.time)
        while recent[0] <= entry.time - PERIOD:
            recent.popleft()
        if len(recent) * EPSILON > BUDGET:
            found.append(f"{site.name} spent more than {BUDGET} within {PERIOD} s")
    return found


def figures(sites: list[SocketSite], seconds: float) -> dict[str, Any]:
    """The numbers of a run."""
    counts = sum((site.counts for site in sites), Counter[str]())
    released = [len(read_ledger(site.folder / "agent.ledger").entries) for site in sites]
    passed = [len(_known(site)) - made for site, made in zip(sites, released, strict=True)]
    return {
        "processes": len(sites),
        "seconds": round(seconds, 1),
        "rows written": sum(site.written for site in sites),
        "rows released": sum(released),
        "rows passed over": sum(passed),
        "kills": counts["kills"],
        "stops": counts["stops"],
        "starts": counts["starts"],
        "rotations": sum(sum(site.meter.rotations.values()) for site in sites),
        "largest memory of a process, MB": round(max(site.memory for site in sites) / 1e6, 1),
        "open files of a process, most": max(site.files for site in sites),
        "logs, MB": round(
            sum((site.folder / "log.jsonl").stat().st_size for site in sites) / 1e6, 2
        ),
    }
