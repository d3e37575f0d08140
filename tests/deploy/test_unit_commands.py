"""The commands of a site's README that put its files where the unit looks for them."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.deploy.rendered import FILES, SITES
from veilsum.agents.fleet import Fleet

COMMANDS = re.search(
    r"\*\*Under systemd\.\*\*.*?```sh\n(.*?)```", FILES["sites/north/README.md"], re.S
)
PLACE = "/etc/veilsum"
COPIES = ("mkdir", "cp -R", "cp scenario", "cp authority", "rm ", "ln ")


def copies(place: str) -> list[str]:
    """The commands that make and copy files below /etc/veilsum, which is somewhere else here."""
    assert COMMANDS
    lines = [line for line in COMMANDS[1].splitlines() if line.startswith(COPIES)]
    assert all(PLACE in line for line in lines)
    return [line.replace(PLACE, place) for line in lines]


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="commands of a shell, for systemd")
def test_a_site_gets_its_files_and_no_key_of_the_authority(tmp_path: Path) -> None:
    fleet, place = tmp_path / "fleet", tmp_path / "etc"
    Fleet("example", SITES, unit="kWh").write(fleet)
    for name in ("ca.pem", "ca.key", "north.pem", "signing-keys.toml"):
        (fleet / "authority" / name).write_text(name)
    (fleet / "sites/north/keys").mkdir(exist_ok=True)
    subprocess.run(
        ["bash", "-euc", "\n".join(copies(str(place)))], cwd=fleet, check=True, timeout=60
    )
    found = {path.relative_to(place).as_posix() for path in place.rglob("*")}
    assert "ca.key" not in {Path(name).name for name in found}
    assert {
        "scenario.toml",
        "links.csv",
        "authority/ca.pem",
        "authority/signing-keys.toml",
    } <= found
    assert {"sites/north/agent.toml", "sites/north/readings.csv", "sites/north/keys"} <= found
    assert (place / "sites/north/state").readlink() == Path("/var/lib/veilsum")


def test_the_unit_looks_where_they_are() -> None:
    unit = FILES["sites/north/veilsum-agent.service"]
    assert f"veilsum agent {PLACE}/sites/north/agent.toml" in unit
    for path in re.findall(r"LoadCredential=\S+?:(\S+)", unit):
        assert path.startswith(f"{PLACE}/sites/north/keys/")
    assert COMMANDS
    user = re.search(r"^User=(\w+)$", unit, re.M)
    assert user
    assert f" {user[1]}\n" in COMMANDS[1]  # useradd
    assert f"chgrp -R {user[1]} {PLACE}" in COMMANDS[1]
