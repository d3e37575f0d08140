"""Prometheus with the generated configuration watches a real fleet: panels have data, no alert fires."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tests.deploy.rendered import DASHBOARD
from veilsum.agents.fleet import Fleet
from veilsum.agents.local_cluster.plan import free_ports
from veilsum.agents.pki import Authority, install, make_request

SITES = ("north", "east", "west")
PATIENCE = 120  # seconds
TROUBLE = {  # titles of panels that are empty while nothing is wrong
    "Links that are not open",
    "Members that are gone",
    "Messages refused, and releases in conflict",
}

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus"),
]


class Prometheus:
    """The server, asked over HTTP."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> Any:
        with urlopen(f"{self.address}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[Any]:
        found: list[Any] = self.get(f"query?{urlencode({'query': expression})}")["result"]
        return found

    def rules(self) -> list[Any]:
        return [rule for group in self.get("rules")["groups"] for rule in group["rules"]]


def set_up(folder: Path) -> None:
    """A fleet of masked sums, which has every series, with the keys of its sites."""
    sites = [f"{k}=127.0.0.1:{p}" for k, p in zip(SITES, free_ports(3), strict=True)]
    Fleet("demo", tuple(sites), masked=True).write(folder)
    authority = Authority.create(folder / "authority")
    for label in SITES:
        made, _ = make_request(label, folder / "sites" / label / "keys")
        authority.sign(made, ["127.0.0.1"])
        install(label, folder / "authority", folder / "sites" / label / "keys")


def configure(folder: Path, ports: list[int]) -> Path:
    """The generated configuration, with free ports in place of its own, and read more often."""
    file = folder / "monitoring" / "prometheus.yml"
    text = re.sub(r"(scrape|evaluation)_interval: \w+", r"\1_interval: 1s", file.read_text())
    for k, port in enumerate(ports):
        text = text.replace(f'"127.0.0.1:{9464 + k}"', f'"127.0.0.1:{port}"')
        assert f'"127.0.0.1:{port}"' in text
    file.write_text(text)
    return file


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Prometheus]:
    set_up(tmp_path)
    *ports, own = free_ports(4)
    config = configure(tmp_path, ports)
    commands = [
        [sys.executable, "-m", "veilsum.cli", "agent", str(tmp_path / "sites" / k / "agent.toml"),
         "--metrics", str(port)]
        for k, port in zip(SITES, ports, strict=True)
    ]  # fmt: skip
    commands.append(
        ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}",
         f"--web.listen-address=127.0.0.1:{own}"]
    )  # fmt: skip
    with ExitStack() as stack:
        running = []
        for number, command in enumerate(commands):
            log = stack.enter_context((tmp_path / f"{number}.log").open("w"))
            running.append(subprocess.Popen(command, stdout=log, stderr=log))
        try:
            yield Prometheus(own)
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.wait(30)


def empty_panels(server: Prometheus) -> set[str]:
    """Titles of the panels of which an expression finds nothing."""
    found = set()
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            asked = target["expr"].replace("$fleet", "demo").replace("$agent", "|".join(SITES))
            if not server.query(asked):
                found.add(panel["title"])
    return found


def test_every_panel_has_data_and_no_alert_fires(watched: Prometheus, tmp_path: Path) -> None:
    end, empty = time.monotonic() + PATIENCE, {"everything"}
    while not empty <= TROUBLE:
        logs = "\n".join(log.read_text()[-2000:] for log in tmp_path.glob("*.log"))
        assert time.monotonic() < end, f"{empty}\n{logs}"
        time.sleep(0.5)
        try:
            empty = empty_panels(watched)
        except URLError:  # not listening yet
            continue
    up = {(r["metric"]["fleet"], r["metric"]["agent"]): r["value"][1] for r in watched.query("up")}
    assert up == {("demo", label): "1" for label in SITES}
    rules = watched.rules()
    assert len(rules) > 15
    assert [rule["name"] for rule in rules if rule["health"] != "ok"] == []
    assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
    assert {panel["title"] for panel in DASHBOARD["panels"]} > TROUBLE
