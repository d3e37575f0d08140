"""A fleet of real agents over mutual TLS on loopback, of which each runs one of two versions."""

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from murmura.agents.pki import Authority, SigningKey

BASELINE = Path(__file__).with_name("baseline")
START = "from murmura.cli import main; main()"
NONCE = "00112233445566778899aabbccddeeff"
NAMES = ("north", "east", "south", "west")
SCENARIO = """
name = "fleet"

[network]
graph = "links.csv"
weights = "lazy-metropolis"

[family]
name = "normal"
sigma = 10.0
bounds = [0.0, 100.0]

[signals]
draw = {{ mu = 50.0 }}

[privacy]
protect = "signal"
epsilon = 1.0
radius = inf{privacy}

[algorithm]
{algorithm}
{agents}
"""
LINKS = "source,target\nnorth,east\neast,south\nsouth,west\nwest,north\n"
AGENT = """
name = "{name}"
scenario = "../scenario.toml"
listen = ["tls/127.0.0.1:{port}"]

[peers]
{peers}

[keys]
folder = "../keys"

[ledger]
path = "{name}.ledger"
durability = "process"

[budget]
epsilon = 10.0

[rounds]
deadline = 5.0
resend = 0.2
linger = 20.0

[readings]
csv = "readings.csv"
column = "load"
key = "hour"
"""


@cache
def installed() -> Path:
    """The baseline's wheel, installed in a folder of its own, once."""
    target = Path(mkdtemp(prefix="murmura-baseline-"))
    atexit.register(shutil.rmtree, target)
    (wheel,) = BASELINE.glob("*.whl")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
         "--no-compile", "--disable-pip-version-check", "--target", str(target), str(wheel)],
        check=True,
    )  # fmt: skip
    return target


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


class Fleet:
    """Four sites in a ring; `start` and `stop` each with either version."""

    def __init__(self, folder: Path, algorithm: str, masked: bool = False) -> None:
        self.folder, self.old = folder, installed()
        self.running: dict[str, subprocess.Popen[str]] = {}
        privacy = '\nmode = "masked"\ncolluders = 1' if masked else ""
        agents = (
            f'[agents]\nnonce = "{NONCE}"\nsigning_keys = "signing-keys.toml"' if masked else ""
        )
        text = SCENARIO.format(privacy=privacy, algorithm=algorithm, agents=agents)
        (folder / "scenario.toml").write_text(text)
        (folder / "links.csv").write_text(LINKS)
        authority = Authority.create(folder / "keys")
        signing = {}
        for name in NAMES:
            authority.issue(name, ["127.0.0.1"])
            signing[name] = SigningKey.create(folder / "keys" / f"{name}.signing.key").public
        lines = [f'{name} = "{key}"' for name, key in signing.items()]
        (folder / "signing-keys.toml").write_text("\n".join(["[signing_keys]", *lines, ""]))
        ports = dict(zip(NAMES, free_ports(4), strict=True))
        for name in NAMES:
            self._write_site(name, ports)

    def _write_site(self, name: str, ports: dict[str, int]) -> None:
        links = [line.split(",") for line in LINKS.splitlines()[1:]]
        to = [b for a, b in links if a == name]
        peers = "\n".join(f'{peer} = "tls/127.0.0.1:{ports[peer]}"' for peer in to)
        site = self.folder / name
        site.mkdir()
        text = AGENT.format(name=name, port=ports[name], peers=peers)
        (site / "agent.toml").write_text(text)
        (site / "readings.csv").write_text("hour,load\n")

    def add_reading(self, name: str, hour: int, load: float) -> None:
        with (self.folder / name / "readings.csv").open("a") as file:
            file.write(f"{hour},{load}\n")

    def start(self, name: str, old: bool = False, before: str = "") -> None:
        """Start an agent, of the baseline if `old`; `before` is run in its process first."""
        site = self.folder / name
        more = {"PYTHONPATH": str(self.old)} if old else {}
        with (site / "log.txt").open("a") as log, (site / "out.txt").open("a") as out:
            log.write(f"--- {'baseline' if old else 'new'}\n")
            log.flush()
            self.running[name] = subprocess.Popen(
                [sys.executable, "-c", before + START, "agent", "agent.toml", "--json"],
                cwd=site, stdout=out, stderr=log, text=True, env=os.environ | more,
            )  # fmt: skip

    def stop(self, name: str, kill: bool = False) -> None:
        process = self.running.pop(name)
        process.kill() if kill else process.terminate()
        process.wait(60)

    def close(self) -> None:
        for name in list(self.running):
            self.stop(name, kill=True)

    def log(self, name: str) -> str:
        return (self.folder / name / "log.txt").read_text()

    def logs(self) -> str:
        return "\n".join(f"== {name}\n{self.log(name)[-2500:]}" for name in NAMES)

    def status(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads((self.folder / name / f"{name}.ledger.status.json").read_text())
        except (OSError, ValueError):
            return {}
        process = self.running.get(name)
        return found if process is not None and found["process"] == process.pid else {}

    def until(self, condition: Any, what: str, seconds: float = 180.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"{what}\n{self.logs()}"
            dead = [n for n, p in self.running.items() if p.poll() not in (None, 0)]
            assert not dead, f"{dead} ended: {what}\n{self.logs()}"
            time.sleep(0.05)

    def round(self, name: str) -> int:
        return int(self.status(name).get("round", 0))

    def wait_for_progress(self, name: str, rounds: int = 20) -> None:
        """Until an agent that was started again has its links, and then so many rounds more.

        Statuses of the others are up to a second old, so its own restored round may be above theirs:
        what counts is how far it comes from where it is once it runs.
        """
        self.until(lambda: self.status(name).get("state") == "running", f"{name} does not run")
        began = self.round(name)
        self.until(lambda: self.round(name) > began + rounds, f"no round with {name} upgraded")

    def finish(self) -> dict[str, dict[str, Any]]:
        """Until every agent has ended; the result of each."""
        self.until(lambda: all(p.poll() is not None for p in self.running.values()), "not done")
        found = {}
        for name in NAMES:
            last = (self.folder / name / "out.txt").read_text().splitlines()[-1]
            found[name] = json.loads(last)
            assert found[name]["kind"] == "result", found[name]
        return found
