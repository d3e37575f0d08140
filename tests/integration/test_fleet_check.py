"""fleet check against real servers: what each can and cannot, in its own words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fleet.fleets import SmallFleet
from tests.fleet.servers import Moto, RcloneS3, RcloneWebDav
from tests.fleet.status.test_fleet_check import checked
from veilsum.fleet.membership import Witnesses
from veilsum.fleet.store import open_store

pytestmark = pytest.mark.integration
OURS = ("AWS_", "VEILSUM_STORE_", "SSL_CERT_", "NETRC")
NAME = "as a witness"
RealServer = Moto | RcloneS3 | RcloneWebDav


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith(OURS) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(Moto, ""), (RcloneS3, "a second put of one name was granted"),
     (RcloneWebDav, "it has no put-if-absent")],
)  # fmt: skip
def test_whether_it_can_witness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[RealServer], reason: str
) -> None:
    (tmp_path / "server").mkdir()
    server = kind(tmp_path / "server")
    try:
        server.start()
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        fleet = SmallFleet(tmp_path / "sites", 2, store=open_store(server.address))
        found = checked(fleet, "s0")
        lines = {one.what.removeprefix(fleet.store.address).strip(): one for one in found}
        assert lines[""].ok, lines[""]
        assert lines[NAME].ok is not bool(reason)
        assert lines[NAME].found == (reason or "of two puts of one name, exactly one was granted")
        assert [one for one in found if not one.ok] == ([lines[NAME]] if reason else [])
        assert fleet.store.names("probe") == {}
        if reason:  # what the authority does then
            wit = Witnesses(("s0", "s1"), 2)
            members = SmallFleet(tmp_path / "more", 2, store=fleet.store, witnesses=wit)
            assert all(one.ok for one in checked(members, "s0"))
        wrong_rights(fleet, server, monkeypatch)
    finally:
        server.close()


def wrong_rights(fleet: SmallFleet, server: RealServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the credentials of nobody, where the server looks at them."""
    if isinstance(server, Moto):
        return
    for name in server.environment():
        if "SECRET" in name or "PASSWORD" in name:
            monkeypatch.setenv(name, "wrong")
    fleet.store = open_store(server.address)
    lines = [one for one in checked(fleet, "s0") if not one.ok]
    assert [one.what for one in lines] == [fleet.store.address]
    assert lines[0].remedy.startswith("check the rights")
