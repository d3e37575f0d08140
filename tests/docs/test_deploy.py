"""The three machines of docs/agents.md, on loopback: its files and commands as they are published."""

import re
import shutil
import struct
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from murmura.agents.ledger import read_ledger
from murmura.agents.local_cluster.plan import free_ports

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "agents.md").read_text()
SITES = {"north": ["east"], "east": ["north", "west"], "west": ["east"]}
LOADS = (40.3729517, 41.9183745, 42.7719283)
MURMURA = [sys.executable, "-m", "murmura.cli"]


def first(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.S | re.M)
    assert found, pattern
    return found[1]


def file_of(name: Any) -> Any:
    return first(rf"^`{re.escape(name)}`:\n\n```\w+\n(.*?)^```", PAGE)


def commands(starting: Any) -> Any:
    found = re.findall(rf"^(murmura {starting}.*)$", PAGE, re.M)
    assert found
    return [line.split()[1:] for line in found]


def murmura(*words: Any, cwd: Any) -> Any:
    done = subprocess.run([*MURMURA, *words], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def machines(tmp_path: Any) -> Any:
    """Three folders, each with its files and its own certificate, and nothing else."""
    home = tmp_path / "home"
    home.mkdir()
    for words in commands("keys"):
        murmura(*(w.replace(".example", "") if "--host" in words else w for w in words), cwd=home)
    listed = murmura("keys", "list", "--dir", "keys", cwd=home)
    assert all(site in listed for site in SITES)
    ports = dict(zip(SITES, free_ports(3), strict=True))
    murmura("keys", "issue", *SITES, "--dir", "keys", "--host", "127.0.0.1", "--force", cwd=home)
    for k, (site, around) in enumerate(SITES.items()):
        folder = tmp_path / site
        (folder / "keys").mkdir(parents=True)
        for name in ("ca.pem", f"{site}.pem", f"{site}.key"):
            shutil.copy2(home / "keys" / name, folder / "keys" / name)
        for name in ("scenario.toml", "links.csv"):
            (folder / name).write_text(file_of(name))
        (folder / "readings.csv").write_text(f"hour,load\n1,{LOADS[k]}\n")
        peers = "\n".join(f'{p} = "tls/127.0.0.1:{ports[p]}"' for p in around)
        text = file_of("agent.toml").replace("north", site)
        text = text.replace("0.0.0.0:7447", f"127.0.0.1:{ports[site]}")
        text = re.sub(r'^east = "tls/east.*$', peers, text, flags=re.M)
        (folder / "agent.toml").write_text(text)
    return tmp_path


def leaks(folder: Any, *said: Any) -> Any:
    """Where a reading can be read, in files or in what was said: text or the bits of a float."""
    found = []
    for load in LOADS:
        marks = str(load).encode()[:8], struct.pack("<d", load), struct.pack(">d", load)
        for path in (p for p in folder.rglob("*") if p.is_file() and p.name != "readings.csv"):
            found += [path.name for mark in marks if mark in path.read_bytes()]
        found += [text for text in said if marks[0].decode() in text]
    return found


def test_the_search_for_leaks_finds_one(tmp_path: Any) -> None:
    assert not leaks(tmp_path, "nothing")
    (tmp_path / "state").write_bytes(b"x" + struct.pack("<d", LOADS[1]))
    assert leaks(tmp_path) == ["state"]
    assert leaks(tmp_path, f"load {LOADS[0]}") == [f"load {LOADS[0]}", "state"]


def start(folder: Any, *options: Any) -> Any:
    return subprocess.Popen(
        [*MURMURA, "agent", "agent.toml", *options],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_three_machines_agree(machines: Any) -> None:
    checked = {
        site: murmura("agent", "agent.toml", "--check", cwd=machines / site) for site in SITES
    }
    hashes = {first(r"manifest (\w{64})", text) for text in checked.values()}
    assert len(hashes) == 1
    assert "Proved: differential privacy with epsilon = 1" in checked["north"]
    port = free_ports(1)[0]
    running = {"north": start(machines / "north", "--metrics", str(port))}
    running |= {site: start(machines / site) for site in ("east", "west")}
    try:
        said = {site: process.communicate(timeout=120) for site, process in running.items()}
    finally:
        for process in running.values():
            process.kill()
    estimates = [
        float(first(r": ([-\d.]+) \+- [\d.]+ \(95%\) after 60", out)) for out, _ in said.values()
    ]
    assert max(estimates) - min(estimates) < 1e-3
    for site, (_, log) in said.items():
        assert '"kind": "done"' in log
        assert not leaks(machines / site, log)
        shown = murmura("ledger", "show", f"{site}.ledger", cwd=machines / site)
        assert site in shown
        key = f"{site}.ledger.key"
        murmura("ledger", "verify", f"{site}.ledger", "--key", key, cwd=machines / site)


def test_sigterm_is_graceful_and_the_agent_goes_on_where_it_was(machines: Any) -> None:
    north = start(machines / "north", "--metrics", "0")
    port = None
    for line in north.stderr:
        if found := re.search(r"http://127.0.0.1:(\d+)/metrics", line):
            port = found[1]
        if '"kind": "started"' in line:
            break
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
        assert 'murmura_epsilon_spent{agent="north"}' in page.read().decode()
    north.terminate()
    _, log = north.communicate(timeout=60)
    assert north.returncode == 3  # it has no result
    assert "start again to continue" in log
    running = {site: start(machines / site) for site in SITES}
    try:
        said = {site: process.communicate(timeout=120) for site, process in running.items()}
    finally:
        for process in running.values():
            process.kill()
    assert all("after 60 rounds" in out for out, _ in said.values())
    assert '"releases": 0' in said["north"][1]  # alone it had nobody to ask, and released nothing
    made = read_ledger(machines / "north" / "north.ledger").entries
    assert len(made) == 1
    again = start(machines / "north")
    out, log = again.communicate(timeout=120)
    assert "after 60 rounds" in out
    assert '"releases": 1' in log
    assert read_ledger(machines / "north" / "north.ledger").entries == made


def test_an_agent_without_certificates_refuses_to_start(machines: Any) -> None:
    file = machines / "north" / "agent.toml"
    file.write_text(re.sub(r"\[keys\]\nfolder.*\n", "", file.read_text()))
    refused = start(machines / "north")
    _, log = refused.communicate(timeout=60)
    assert refused.returncode == 1
    assert "north has no certificate" in log
    file.write_text(file.read_text().replace("127.0.0.1", "0.0.0.0").replace("tls/", "tcp/"))
    refused = start(machines / "north", "--insecure")
    _, log = refused.communicate(timeout=60)
    assert refused.returncode == 1
    assert "not on the loopback" in log
