"""The tutorial of three suppliers on loopback: its files and commands as they are published."""

import json
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from veilsum.agents.ledger import read_ledger
from veilsum.agents.local_cluster.plan import free_ports
from veilsum.agents.results import half_width
from veilsum.agents.scenario_terms import problem_and_manifest
from veilsum.scenario import Scenario
from veilsum.theory import precision

PAGE = (Path(__file__).resolve().parents[2] / "docs/tutorials/three-suppliers.md").read_text()
SITES = ("north", "east", "west")
HOURS = 168
RELEASED = (
    152  # readings in the batches that are closed after 168 rounds: 1, 1, 2, ..., 16, 24, ...
)
VEILSUM = [sys.executable, "-m", "veilsum.cli"]
PATIENCE = 120  # seconds


def first(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.S | re.M)
    assert found, pattern
    return found[1]


def file_of(name: str) -> str:
    return first(rf"^`{re.escape(name)}`:\n\n```\w+\n(.*?)^```", PAGE)


def commands(starting: str) -> list[list[str]]:
    found = re.findall(rf"^(veilsum {starting}.*)$", PAGE, re.M)
    assert found
    return [line.split()[1:] for line in found]


def veilsum(*words: str, cwd: Path, code: int = 0) -> str:
    done = subprocess.run(
        [*VEILSUM, *words], cwd=cwd, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def loads(site: str) -> list[float]:
    draw = random.Random(f"loads of {site}")
    return [round(min(max(draw.gauss(50, 10), 0), 100), 7) for _ in range(HOURS)]


def rows(site: str, start: int, end: int) -> str:
    return "".join(
        f"2026-11-{2 + k // 24:02}T{k % 24:02}:00,{load}\n"
        for k, load in list(enumerate(loads(site)))[start:end]
    )


class Machines:
    """Three folders, each with its files and its own certificate, and nothing else."""

    def __init__(self, home: Path, terms: str = "", hours: int = HOURS) -> None:
        self.home, self.running = home, dict[str, subprocess.Popen[str]]()
        keys = home / "authority"
        keys.mkdir()
        self._enrol(keys)
        ports = dict(zip(SITES, free_ports(3), strict=True))
        for site in SITES:
            folder = home / site
            (folder / "links.csv").write_text(file_of("links.csv"))
            (folder / "scenario.toml").write_text(file_of("scenario.toml") + terms)
            (folder / "readings.csv").write_text("hour,load\n" + rows(site, 0, hours))
            peers = "\n".join(f'{p} = "tls/127.0.0.1:{ports[p]}"' for p in SITES if p != site)
            text = file_of("agent.toml").replace("north", site)
            text = text.replace("0.0.0.0:7447", f"127.0.0.1:{ports[site]}")
            text = re.sub(r"^\[peers\]\n.*?\n\n", f"[peers]\n{peers}\n\n", text, flags=re.M | re.S)
            (folder / "agent.toml").write_text(text)

    def _enrol(self, authority: Path) -> None:
        """As the page says: keys are made on the sites, and only public files are carried."""
        (made,), (request,), (installed,) = (
            commands(f"keys {verb}") for verb in ("init", "request", "install")
        )
        veilsum(*made, cwd=authority)
        for site in SITES:
            (self.home / site / "inbox").mkdir(parents=True)
            veilsum(*(word.replace("north", site) for word in request), cwd=self.home / site)
            shutil.copy2(self.home / site / "keys" / f"{site}.request", authority)
        for words in commands("keys sign"):
            here = (w if not w.endswith(".example") else "127.0.0.1" for w in words)
            veilsum(*here, cwd=authority)
        listed = veilsum("keys", "list", "--dir", "keys", cwd=authority)
        assert all(site in listed for site in SITES)
        for site in SITES:
            for name in ("ca.pem", f"{site}.pem"):
                shutil.copy2(authority / "keys" / name, self.home / site / "inbox")
            veilsum(*(word.replace("north", site) for word in installed), cwd=self.home / site)
        assert not list((authority / "keys").glob("[!c]*.key")), "no key of a site is there"

    def start(self, site: str, *options: str) -> subprocess.Popen[str]:
        log = (self.home / f"{site}.log").open("a")
        with log:
            self.running[site] = subprocess.Popen(
                [*VEILSUM, "agent", "agent.toml", *options],
                cwd=self.home / site, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        return self.running[site]

    def log(self, site: str) -> str:
        path = self.home / f"{site}.log"
        return path.read_text() if path.exists() else ""

    def status(self, site: str) -> dict[str, Any]:
        path = self.home / site / f"{site}.ledger.status.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def end(self, site: str) -> tuple[str, int]:
        process = self.running[site]
        out, _ = process.communicate(timeout=PATIENCE)
        return out, process.returncode

    def kill(self, site: str) -> None:
        self.running[site].send_signal(signal.SIGKILL)
        self.running[site].wait(PATIENCE)
        stdout = self.running[site].stdout
        assert stdout is not None
        stdout.close()

    def close(self) -> None:
        for process in self.running.values():
            process.kill()
            process.communicate()


def wait(until: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not until():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def together(of_site: Callable[[str], Any]) -> list[Any]:
    """What a function returns for each site, all at once."""
    with ThreadPoolExecutor(len(SITES)) as pool:
        return list(pool.map(of_site, SITES))


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Callable[..., Machines]]:
    made: list[Machines] = []

    def maker(terms: str = "", hours: int = HOURS) -> Machines:
        made.append(Machines(tmp_path, terms, hours))
        return made[-1]

    yield maker
    for one in made:
        one.close()


def leaks(folder: Path, *said: str, secrets: tuple[float, ...] = ()) -> list[str]:
    """Where a reading can be read, in files or in what was said: text or the bits of a float."""
    found = []
    for load in secrets or tuple(load for site in SITES for load in loads(site)):
        marks = str(load).encode(), struct.pack("<d", load), struct.pack(">d", load)
        for path in (p for p in folder.rglob("*") if p.is_file() and p.name != "readings.csv"):
            found += [path.name for mark in marks if mark in path.read_bytes()]
        found += [text for text in said if marks[0].decode() in text]
    return found


def test_the_search_for_leaks_finds_one(tmp_path: Path) -> None:
    load = loads("east")[1]
    assert not leaks(tmp_path, "nothing")
    (tmp_path / "state").write_bytes(b"x" + struct.pack("<d", load))
    assert leaks(tmp_path) == ["state"]
    assert leaks(tmp_path, f"load {load}", secrets=(load,)) == ["state", f"load {load}"]


def sentence(out: str) -> tuple[float, float, str]:
    """Estimate, half width and coverage of the line with the result."""
    found = re.search(
        r"^\w+: ([\d.]+) \+- ([\d.]+) \(95% of the mean of (?:these readings|the readings present)\) "
        r"after 168 rounds, (.*?), epsilon",
        out,
    )
    assert found, out
    return float(found[1]), float(found[2]), found[3]


def test_the_numbers_of_the_page_are_those_of_the_plan(tmp_path: Path) -> None:
    """And of the agents: two functions state one interval."""
    (tmp_path / "links.csv").write_text(file_of("links.csv"))
    week = file_of("scenario.toml")
    once = week.replace("batches", "# batches").replace('"learn"', '"average"')
    for text, stated in ((week, "about 3.5 on either"), (once, "would give 160 on either")):
        (tmp_path / "scenario.toml").write_text(text)
        problem, manifest = problem_and_manifest(Scenario.load(tmp_path / "scenario.toml"))
        planned = precision(problem)
        assert planned is not None
        assert f"{float(f'{planned.half_width:.2g}'):g}" == first(r"([\d.]+) on", stated).rstrip(
            "."
        )
        assert stated in PAGE.replace("\n", " ")
        if text is week:
            (made,) = half_width(manifest, problem.family)
            assert planned.half_width == pytest.approx(made, rel=0.06)


def test_one_starts_late_and_one_dies_and_comes_back(
    machines: Callable[..., Machines], tmp_path: Path
) -> None:
    sites = machines()
    together(lambda site: veilsum("doctor", "agent.toml", cwd=tmp_path / site))
    checked = together(lambda s: veilsum("agent", "agent.toml", "--check", cwd=tmp_path / s))
    assert len({first(r"manifest (\w{64})", text) for text in checked}) == 1
    port = free_ports(1)[0]
    sites.start("north", "--metrics", str(port))
    sites.start("east")
    wait(lambda: sites.status("north").get("state") == "gathering", "north gathers")
    wait(lambda: "west" in sites.log("north"), "north's log says who is missing")
    wait(lambda: sites.status("north")["coverage"]["present"] == 2, "two are there")
    shown = veilsum("status", "agent.toml", cwd=tmp_path / "north", code=3)
    assert "gathering" in shown
    assert "west" in shown
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
        assert 'veilsum_epsilon_spent{agent="north"} 0.0' in page.read().decode()
    sites.kill("east")  # dies, and comes back
    sites.start("east")
    sites.start("west")
    ends = {site: sites.end(site) for site in SITES}
    assert {code for _, code in ends.values()} == {0}
    results = {site: sentence(out) for site, (out, _) in ends.items()}
    assert {covered for _, _, covered in results.values()} == {
        f"{3 * RELEASED} readings of 3 of 3 members"
    }
    truth = sum(sum(loads(site)[:RELEASED]) for site in SITES) / (3 * RELEASED)
    for estimate, width, _ in results.values():
        assert 3.0 < width < 4.0
        assert abs(estimate - truth) < 5 * width  # beyond it once in 10^10
    estimates = [estimate for estimate, _, _ in results.values()]
    assert max(estimates) - min(estimates) < 0.01

    def inspect(site: str) -> None:
        made = read_ledger(tmp_path / site / f"{site}.ledger").entries
        assert sum(entry.readings for entry in made) == RELEASED
        assert {entry.epsilon for entry in made} == {1.0}
        log = sites.log(site)
        assert not leaks(tmp_path / site, log, ends[site][0], secrets=tuple(loads(site)))
        key = ("--key", f"{site}.ledger.key")
        for words in commands("ledger"):
            said = [word.replace("north", site) for word in words]
            options = key if "verify" in said else ()
            assert site in veilsum(*said, *options, cwd=tmp_path / site)

    together(inspect)
    again = sites.start("north")  # all the others have gone
    again.send_signal(signal.SIGTERM)
    out, _ = sites.end("north")
    assert not out or sentence(out)[0] == pytest.approx(results["north"][0])


def test_one_does_not_come_back(machines: Callable[..., Machines], tmp_path: Path) -> None:
    """North and west go on from their releases without east, which learns that it is left out."""
    terms = first(r"^```toml\n(\[agents\]\nquorum = 2 .*?)^```", PAGE)
    terms = terms.replace('lost_after = "1h"', 'lost_after = "3s"')
    sites = machines("\n" + terms, hours=100)
    for site in SITES:
        sites.start(site)
    wait(lambda: all(sites.status(s).get("round", 0) >= 90 for s in SITES), "rounds began")
    sites.kill("east")
    for site in ("north", "west"):
        with (tmp_path / site / "readings.csv").open("a") as file:
            file.write(rows(site, 100, HOURS))
    wait(lambda: '"kind": "done"' in sites.log("north") and '"kind": "done"' in sites.log("west"),
         "the two end")  # fmt: skip
    sites.start("east")
    out, code = sites.end("east")
    assert code == 3, out + sites.log("east")
    results = {site: sites.end(site) for site in ("north", "west")}
    for out, code in results.values():
        assert code == 0, out
        estimate, width, covered = sentence(out)
        assert covered == f"{2 * RELEASED} readings of 2 of 3 members, 1 missing: east"
        truth = sum(sum(loads(site)[:RELEASED]) for site in ("north", "west")) / (2 * RELEASED)
        assert abs(estimate - truth) < 5 * width
    for site in ("north", "west"):  # nothing was released again
        made = read_ledger(tmp_path / site / f"{site}.ledger").entries
        assert sum(entry.readings for entry in made) == RELEASED
