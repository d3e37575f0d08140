"""The unit of a site: valid for systemd, hardly exposed, and the agent runs under its rules."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from veilsum.agents.fleet import Fleet
from veilsum.agents.local_cluster.plan import free_ports
from veilsum.agents.pki import Authority, install, make_request

EXPOSURE = 1.2  # of 10; what systemd 252 says is 1.1
SITES = ("north", "east")
PROGRAM = "/opt/veilsum/bin/veilsum"
PAGE = ("--page", "127.0.0.1:0")
CONFINED = Path(__file__).with_name("confined.py")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze"),
]


def unit() -> str:
    return Fleet("demo", ("north=north.example", "east=east.example")).files()[
        "sites/north/veilsum-agent.service"
    ]


def analyze(folder: Path, text: str, *words: str) -> tuple[int, str]:
    """The exit code and output of systemd-analyze for a unit whose program exists."""
    file = folder / "veilsum-agent.service"
    file.write_text(text.replace(PROGRAM, sys.executable))
    done = subprocess.run(
        ["systemd-analyze", *words, "--no-pager", str(file)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    assert analyze(tmp_path, unit(), "verify") == (0, "")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("ProtectHome=yes", "ProtectHomes=yes"), ("Type=notify", "Type=notifies"),
     ("WatchdogSec=90", "WatchdogSec=soon"), ("ExecStart=", "ExecStarts=")],
)  # fmt: skip
def test_it_would_find_a_mistake(tmp_path: Path, right: str, wrong: str) -> None:
    assert right in unit()
    assert analyze(tmp_path, unit().replace(right, wrong), "verify") != (0, "")


def exposure(folder: Path, text: str) -> tuple[int, float]:
    threshold = f"--threshold={EXPOSURE * 10:.0f}"
    code, said = analyze(folder, text, "security", "--offline=true", threshold)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert found, said
    return code, float(found[1])


def test_the_unit_is_hardly_exposed(tmp_path: Path) -> None:
    code, found = exposure(tmp_path, unit())
    assert found <= EXPOSURE
    assert code == 0


@pytest.mark.parametrize(
    "line", ["NoNewPrivileges", "SystemCallFilter", "CapabilityBoundingSet", "ProtectSystem",
             "User", "PrivateDevices", "RestrictNamespaces"],
)  # fmt: skip
def test_a_weakened_unit_is_above_the_threshold(tmp_path: Path, line: str) -> None:
    weakened = re.sub(rf"^{line}=.*\n", "", unit(), flags=re.M)
    assert weakened != unit()
    code, found = exposure(tmp_path, weakened)
    assert found > EXPOSURE
    assert code != 0


def confined(folder: Path, *command: str) -> list[str]:
    file = folder / "unit"
    file.write_text(unit())
    return [sys.executable, str(CONFINED), str(file), *command]


def test_the_rules_refuse_what_an_agent_does_not_need(tmp_path: Path) -> None:
    for code, refused in (
        ("import os; os.chroot('/')", "PermissionError"),
        ("import os; os.setpriority(os.PRIO_PROCESS, 0, 5)", "PermissionError"),
        ("import mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC)", "Error"),
        ("print('fine')", ""),
    ):
        done = subprocess.run(
            confined(tmp_path, sys.executable, "-c", code),
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert bool(done.returncode) is bool(refused), done.stdout + done.stderr
        assert refused in done.stderr


def test_agents_reach_an_estimate_under_these_rules(tmp_path: Path) -> None:
    """Over TLS, from a CSV file, with a ledger on disk: both sites are confined."""
    sites = [f"{k}=127.0.0.1:{p}" for k, p in zip(SITES, free_ports(2), strict=True)]
    Fleet("pair", tuple(sites)).write(tmp_path)
    authority = Authority.create(tmp_path / "authority")
    for label in SITES:
        made, _ = make_request(label, tmp_path / "sites" / label / "keys")
        authority.sign(made, ["127.0.0.1"])
        install(label, tmp_path / "authority", tmp_path / "sites" / label / "keys")
    running = []
    try:
        for label in SITES:
            file = str(tmp_path / "sites" / label / "agent.toml")
            command = (sys.executable, "-m", "veilsum.cli", "agent", file, "--metrics", "0", *PAGE)
            with (tmp_path / f"{label}.log").open("w") as log:
                running.append(
                    subprocess.Popen(
                        confined(tmp_path, *command), stdout=log, stderr=log, env=os.environ.copy()
                    )
                )
        end = time.monotonic() + 60
        while not all(has_estimate(tmp_path, label) for label in SITES):
            logs = "".join((tmp_path / f"{label}.log").read_text() for label in SITES)
            assert time.monotonic() < end, logs
            time.sleep(0.2)
    finally:
        for process in running:
            process.terminate()
        assert [process.wait(30) for process in running] == [0, 0]


def has_estimate(folder: Path, label: str) -> bool:
    file = folder / "sites" / label / "state" / f"{label}.ledger.status.json"
    return file.exists() and bool(json.loads(file.read_text())["complete"])
