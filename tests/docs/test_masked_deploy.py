"""The tutorial of a masked sum on loopback: four processes with their own keys."""

import contextlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from veilsum.agents.ledger import read_ledger, verify
from veilsum.agents.local_cluster.plan import free_ports
from veilsum.agents.results import half_width
from veilsum.agents.scenario_terms import problem_and_manifest
from veilsum.cli.app import app
from veilsum.scenario import Scenario

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
PAGE = (TUTORIALS / "masked-sum-of-four-sites.md").read_text()
SITES = ("north", "east", "south", "west")
PEAKS = {"north": 41.2578125, "east": 62.1328125, "south": 38.0703125, "west": 55.5078125}
VEILSUM = [sys.executable, "-m", "veilsum.cli"]
PATIENCE = 120  # seconds


def file_of(name: str) -> str:
    found = re.search(rf"^`{re.escape(name)}`:\n\n```\w+\n(.*?)^```", PAGE, re.S | re.M)
    assert found, name
    return found[1]


def commands(starting: str) -> list[list[str]]:
    found = re.findall(rf"^(veilsum {starting}.*)$", PAGE, re.M)
    assert found
    return [line.split()[1:] for line in found]


def veilsum(*words: str, cwd: Path) -> None:
    with contextlib.chdir(cwd):
        done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output


@pytest.fixture
def sites(tmp_path: Path) -> Path:
    """Four folders with files and keys as the page says, at addresses of this machine."""
    central = tmp_path / "central"
    central.mkdir()
    (made_request,) = commands("keys request")
    (made_install,) = commands("keys install")
    for site in SITES:
        folder = tmp_path / site
        folder.mkdir()
        veilsum(*(word.replace("north", site) for word in made_request), cwd=folder)
        shutil.copy(folder / "keys" / f"{site}.request", central)
    for words in (*commands("keys init"), *commands("keys sign")):
        hosts = ("--host", "127.0.0.1") if "sign" in words else ()
        veilsum(*words, *hosts, cwd=central)
    ports = dict(zip(SITES, free_ports(4), strict=True))
    for number, site in enumerate(SITES):
        folder = tmp_path / site
        (folder / "inbox").mkdir()
        for name in ("ca.pem", f"{site}.pem"):
            shutil.copy(central / "authority" / name, folder / "inbox")
        veilsum(*(word.replace("north", site) for word in made_install), cwd=folder)
        shutil.copy(central / "authority" / "signing-keys.toml", folder)
        for name in ("sum.toml", "ring.csv"):
            (folder / name).write_text(file_of(name))
        (folder / "peak.csv").write_text(f"peak\n{PEAKS[site]}\n")
        near = [SITES[(number + k) % 4] for k in (1, -1)]
        peers = "\n".join(f'{p} = "tls/127.0.0.1:{ports[p]}"' for p in near)
        text = file_of("north.toml").replace("north", site)
        text = text.replace("0.0.0.0:7447", f"127.0.0.1:{ports[site]}")
        text = re.sub(r"^\[peers\]\n.*?\n\n", f"[peers]\n{peers}\n\n", text, flags=re.M | re.S)
        (folder / f"{site}.toml").write_text(text)
    return tmp_path


@pytest.fixture
def running() -> Iterator[dict[str, Any]]:
    found: dict[str, Any] = {}
    yield found
    for process in found.values():
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_four_sites_end_with_the_same_sum(sites: Path, running: dict[str, Any]) -> None:
    """The interval is exceeded five times over once in 10^9 runs."""
    ((*command, _),) = commands("agent")
    for check in (("doctor", "north.toml"), ("agent", "north.toml", "--check")):
        veilsum(*check, cwd=sites / "north")
    for site in SITES:
        with (sites / f"{site}.log").open("w") as log:
            running[site] = subprocess.Popen(
                [*VEILSUM, *command, f"{site}.toml"],
                cwd=sites / site, text=True, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
    found = set()
    for site, process in running.items():
        out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, (sites / f"{site}.log").read_text()
        result = re.match(
            rf"{site}: ([\d.]+) \+- ([\d.]+) \(95% of the mean of these readings\) from a masked sum in "
            "attempt 1 of 1 over a roster of 4 of 4, "
            "readings of 4 of 4 members, epsilon 1 per reading",
            out,
        )
        assert result, out
        found.add((result[1], result[2]))
    ((estimate, width),) = found
    assert abs(float(estimate) - sum(PEAKS.values()) / 4) < 7 * float(width)
    assert f"+- {width} (95% of the mean of these readings)" in PAGE
    for site in SITES:
        path = sites / site / f"{site}.ledger"
        assert verify(path).ok
        assert [entry.epsilon for entry in read_ledger(path).entries] == [1.0]
        secret = str(PEAKS[site])
        written = [p for p in sites.rglob("*") if p.is_file() and p.name != "peak.csv"]
        assert not [p for p in written if secret.encode() in p.read_bytes()]


def test_the_numbers_of_the_page_are_those_of_both_modes(sites: Path) -> None:
    folder = sites / "north"
    problem, manifest = problem_and_manifest(Scenario.load(folder / "sum.toml"))
    (width,) = half_width(manifest, problem.family)
    text = file_of("sum.toml").replace('mode = "masked"\n', "").replace("masked-sum", "average")
    text = re.sub(r"^(colluders|\[agents\]|nonce|signing_keys).*\n", "", text, flags=re.M)
    local, terms = problem_and_manifest(Scenario.parse(text, folder=folder))
    (much,) = half_width(terms, local.family)
    assert f"would give about {much:.0f} in place of {width:.2g}" in PAGE.replace("\n", " ")
