"""Some minutes of real processes over sockets with mutual TLS: kills, short certificates, other members.

Each site is a `veilsum agent` with an agent.toml, a ledger, certificates and a CSV file that a meter
appends to, one row for each slot of two seconds. Processes are killed and stopped at random, files
rotated, certificates that are valid for 40 seconds renewed while agents run, and one key replaced. One
member joins, one is revoked and removed, and one leaves: each time the authority signs a new epoch,
which the others adopt while they run, or when they are started again. Whatever happens, every row is
released once or passed over, as the ledger states, no 30 seconds cost more than the budget, and nobody
keeps a link to the member that was revoked.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.soak.meter import Meter
from tests.soak.sampling import PAGE
from veilsum.agents.config import Setup
from veilsum.agents.ledger import ReadingOrigin, read_ledger, verify
from veilsum.agents.ledger.clock import MACHINE
from veilsum.agents.ledger.records import OriginHasher
from veilsum.agents.ledger.store import Store
from veilsum.agents.local_cluster.plan import free_ports
from veilsum.agents.pki import Authority
from veilsum.agents.pki.denied import FILE as DENIED

STATUS = "agent.ledger.status.json"
EVERY, PERIOD = 2.0, 30.0  # seconds of a slot, and of the budget
EPSILON, BUDGET = 0.5, 6.0  # of a reading, and for a period: 12 of 15 readings are released
SITES = 5  # in a ring, at the beginning
JOINS, LEAVES = "site-5", "site-1"  # neighbours of the first and the third
VALID, RENEW = 40.0, 11.0  # seconds of a certificate, and between two renewals
TERMS = ("scenario.toml", "links.csv")
PATIENCE = 60.0  # seconds until the first readings are released, the last are, or a link is closed
SCENARIO = f"""
name = "soak"
network = {{graph = "links.csv", weights = "lazy-metropolis"}}
family = {{name = "normal", sigma = 1.0, bounds = [0.0, 100.0]}}
signals = {{draw = {{mu = 50.0}}}}
privacy = {{protect = "signal", epsilon = {EPSILON}, radius = 1.0}}
algorithm = {{name = "learn", rounds = 1}}

[agents]
asynchronous = true
open_ended = true
every = {EVERY}
grace = {EVERY}
"""
AGENT = """
name = "{name}"
scenario = "scenario.toml"
membership = {{ file = "epoch.json" }}
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
        self.name, self.port, self.authority = name, port, authority
        self.home, self.folder = home, home / "sites" / name
        self.meter = Meter(self.folder, "keyed", MACHINE)
        self.written = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.counts: Counter[str] = Counter()
        self.memory, self.files = 0, 0
        self.revoked = self.left = False

    @property
    def present(self) -> bool:
        """Whether it is a member that runs, but for its restarts."""
        return not (self.revoked or self.left)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def configure(self, others: list[SocketSite]) -> None:
        """Write its files; the terms are those of the fleet now, and a copy of its own."""
        for name in TERMS:
            shutil.copyfile(self.home / name, self.folder / name)
        peers = "\n".join(f'{o.name} = "tls/{o.address}"' for o in others)
        text = AGENT.format(
            name=self.name, port=self.port, budget=BUDGET, period=PERIOD, peers=peers
        )
        (self.folder / "agent.toml").write_text(text)
        (self.folder / "keys").mkdir(mode=0o700)
        self.renew(renew=False)

    def renew(self, *, renew: bool = True, new_key: bool = False) -> None:
        """Have the authority issue a certificate that is valid for seconds, and install it."""
        end = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=VALID)
        made = self.authority.issue(
            self.name, ["127.0.0.1"], not_after=end, renew=renew, new_key=new_key
        )
        secret = made.key.with_suffix(".secret")
        files = [*([secret] if secret.exists() else []), made.ca, made.key, made.certificate]
        self.install(self.folder / "keys", *files)
        self.counts["certificates"] += 1

    @staticmethod
    def install(folder: Path, *files: Path) -> None:
        """Replace files in a folder, each as a whole."""
        for path in files:
            new = folder / f".{path.name}.new"
            new.write_bytes(path.read_bytes())
            new.chmod(0o600)
            new.replace(folder / path.name)

    def status(self) -> dict[str, Any]:
        """The status file; empty if there is none."""
        try:
            found: dict[str, Any] = json.loads((self.folder / STATUS).read_text())
        except (OSError, ValueError):
            return {}
        return found

    def links(self) -> dict[str, str]:
        """The state of the links, as the status file has it."""
        return dict(self.status().get("links", {}))

    def start(self) -> None:
        assert self.process is None
        with (self.folder / "log.jsonl").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "veilsum.cli", "agent", "agent.toml"], cwd=self.folder,
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


class SocketSoak:
    """All sites, and what happens to them.

    Parameters
    ----------
    home : Path
        A new folder.
    seed : int
        Decides who is killed, and when.
    """

    def __init__(self, home: Path, seed: int = 16) -> None:
        self.home, self.rng, self.sites = home, random.Random(seed), prepare(home)
        self.epoch = 1
        self.wrong: list[str] = []
        self._down: dict[str, float] = {}
        self._due: dict[str, float] = {}

    def run(self, seconds: float) -> None:
        """Let the sites run, and then come to rest."""
        with ExitStack() as ending:
            for site in self.sites:
                site.start()
            ending.callback(self._end)
            self._work(PATIENCE, lambda: all(map(_known, self.sites)), faults=False)
            self._work(0.3 * seconds)
            self._join()
            self._work(0.3 * seconds)
            self.sites[0].renew(new_key=True)
            self._revoke(self.sites[SITES - 1])
            self._work(0.2 * seconds)
            self._leave(next(site for site in self.sites if site.name == LEAVES))
            self._work(0.2 * seconds)
            self._rest()
            for site in self.sites:
                site.end(signal.SIGTERM)
        for site in self.sites:
            self.wrong += violations(site)

    def _end(self) -> None:
        for site in self.sites:
            site.end(signal.SIGKILL)

    def _work(
        self, seconds: float, done: Callable[[], bool] = lambda: False, faults: bool = True
    ) -> None:
        """Write rows, renew certificates, and kill and start processes."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end and not done():
            present = [site for site in self.sites if site.present]
            if self._is_due("row", EVERY, EVERY):
                for site in present:
                    site.write()
            if self._is_due("certificates", RENEW, RENEW):
                for site in present:
                    site.renew()
            if faults and self._is_due("rotation", 15.0, 20.0):
                how = self.rng.choice(("rename", "copytruncate"))
                self.rng.choice(present).meter.rotate(how)
            if faults and self._is_due("fault", 4.0, 12.0):
                site = self.rng.choice(present)
                if site.process is not None:
                    site.end(self.rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
                    self._down[site.name] = now + self.rng.uniform(0.0, 3.0)
            self._look_after(present, now)
            time.sleep(0.05)

    def _is_due(self, what: str, least: float, most: float) -> bool:
        now = time.monotonic()
        due = self._due.setdefault(what, now + least)
        if now < due:
            return False
        self._due[what] = max(due, now - least) + self.rng.uniform(least, most)
        return True

    def _look_after(self, sites: list[SocketSite], now: float) -> None:
        for site in sites:
            if site.process is None and now >= self._down.get(site.name, 0.0):
                site.start()
            elif not site.look():
                self.wrong.append(f"{site.name} ended by itself; look into {site.folder}")
                site.end(signal.SIGKILL)

    def _revoke(self, site: SocketSite) -> None:
        """Deny a member; its neighbours must close their links to it while all run."""
        site.revoked = True
        site.authority.revoke(site.name, reason="soak")
        near = [other for other in self.sites if site.name in other.links() and other is not site]
        for other in self.sites:
            if other is not site:
                other.install(other.folder / "keys", site.authority.directory / DENIED)

        def closed() -> bool:
            return all(other.links().get(site.name) != "open" for other in near)

        self._work(PATIENCE, closed, faults=False)
        if not (near and closed()):
            self.wrong.append(f"a neighbour of {site.name} keeps its link {PATIENCE:g} s later")
        site.end(signal.SIGTERM)
        self._roll_out("remove", site.name)

    def _join(self) -> None:
        """A new site: its neighbours learn of it by an epoch, and nobody is restarted for it."""
        (port,) = free_ports(1)
        near = [self.sites[0], self.sites[2]]
        site = SocketSite(JOINS, self.home, port, near[0].authority)
        links = [word for other in near for word in ("--link", other.name)]
        self._roll_out("add", f"{JOINS}={site.address}", *links)
        site.configure(near)
        self.sites.append(site)
        site.start()

        def linked() -> bool:
            return all(other.links().get(JOINS) == "open" for other in near)

        self._work(PATIENCE, linked, faults=False)
        if not linked():
            self.wrong.append(f"a neighbour of {JOINS} has no link {PATIENCE:g} s after it joined")

    def _leave(self, site: SocketSite) -> None:
        """A member leaves, and its mass is handed over; the next epoch is without it."""

        def running() -> bool:
            same = site.process is not None and site.status().get("process") == site.process.pid
            return same and set(site.links().values()) == {"open"}

        self._work(PATIENCE, running, faults=False)
        said = veilsum("members", "leave", str(site.folder / "agent.toml"))
        assert site.process is not None
        site.process.wait(PATIENCE)
        site.process, site.left = None, True
        if "lost: nothing" not in said:
            self.wrong.append(f"{site.name} left: {said}")
        self._roll_out("remove", site.name)

    def _roll_out(self, verb: str, *words: str) -> None:
        """Sign the next epoch and give it to all: each adopts it, running or at its next start."""
        scenario = ("--scenario", str(self.home / "scenario.toml"))
        veilsum("members", verb, *words, *scenario)
        veilsum("members", "rollout", *scenario)
        self.epoch += 1
        present = [site for site in self.sites if site.present]
        for site in present:
            site.install(site.folder, self.home / "epoch.json")

        def adopted() -> bool:
            return {site.status().get("epoch") for site in present} == {self.epoch}

        self._work(PATIENCE, adopted)
        if not adopted():
            self.wrong.append(f"epoch {self.epoch} is not in force {PATIENCE:g} s later")

    def _rest(self) -> None:
        """No new rows: those that wait are taken."""
        sites = [site for site in self.sites if site.present]
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and any(len(_known(s)) < s.written for s in sites):
            self._look_after(sites, time.monotonic())
            if self._is_due("certificates", RENEW, RENEW):
                for site in sites:
                    site.renew()
            time.sleep(0.5)


def run(home: Path, seconds: float) -> tuple[dict[str, Any], list[str]]:
    """Let the sites run; figures and violations."""
    began = time.monotonic()
    soak = SocketSoak(home)
    soak.run(seconds)
    return figures(soak, time.monotonic() - began), soak.wrong


def veilsum(*words: str) -> str:
    """Run a command as an operator does; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "veilsum.cli", *words],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(f"veilsum {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def prepare(home: Path) -> list[SocketSite]:
    """The files of all sites."""
    home.mkdir(parents=True, exist_ok=True)
    authority = Authority.create(home / "authority")
    (home / "scenario.toml").write_text(SCENARIO)
    pairs = [f"site-{k},site-{(k + 1) % SITES}" for k in range(SITES)]
    (home / "links.csv").write_text("\n".join(["source,target", *pairs, ""]))
    sites = [
        SocketSite(f"site-{k}", home, port, authority) for k, port in enumerate(free_ports(SITES))
    ]
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
    except sqlite3.Error:  # it is being made
        return set()
    finally:
        store.close()


def violations(site: SocketSite) -> list[str]:
    """What the ledger of a site lacks, has twice, or should not have."""
    path = site.folder / "agent.ledger"
    found = [f"{site.name}: {problem}" for problem in verify(path).problems]
    secret = Setup.load(site.folder / "agent.toml").device_secret()
    assert secret is not None
    hasher, known, contents = OriginHasher(secret, site.name), _known(site), read_ledger(path)
    numbers = range(1, site.written + 1)
    missing = [n for n in numbers if hasher.hash(ReadingOrigin(str(n), True), n) not in known]
    while not site.present and missing and missing[-1] == numbers[-1]:
        numbers, missing = numbers[:-1], missing[:-1]  # still at its source: it takes no more
    found += [f"row {number} of {site.name} was lost" for number in missing]
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


def _lines(site: SocketSite, kind: str, text: str = "") -> int:
    """How many lines of the log are of a kind, and have a text."""
    lines = (site.folder / "log.jsonl").read_text().splitlines()
    return sum(f'"kind": "{kind}"' in line and text in line for line in lines)


def figures(soak: SocketSoak, seconds: float) -> dict[str, Any]:
    """The numbers of a run."""
    sites = soak.sites
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
        "certificates, valid for 40 s": counts["certificates"],
        "renewals taken while running": sum(_lines(site, "renewed") for site in sites),
        "members revoked": sum(site.revoked for site in sites),
        "members that joined": len(sites) - SITES,
        "members that left": sum(site.left for site in sites),
        "epochs": soak.epoch,
        "epochs adopted while running": sum(_lines(site, "epoch", "is adopted") for site in sites),
        "rotations": sum(sum(site.meter.rotations.values()) for site in sites),
        "largest memory of a process, MB": round(max(site.memory for site in sites) / 1e6, 1),
        "open files of a process, most": max(site.files for site in sites),
        "logs, MB": round(
            sum((site.folder / "log.jsonl").stat().st_size for site in sites) / 1e6, 2
        ),
    }
