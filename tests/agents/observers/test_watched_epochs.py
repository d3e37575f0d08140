"""A watcher that runs follows the epochs that the authority signed, and no others; real files and links.

The weakened variants skip the signature, or the comparison of numbers, and take what must not be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.agents.membership.fleets import SITES, edit, made_fleet, members
from tests.agents.observers.observing import PublishedSite, status, wait_for
from veilsum.agents.membership import adoption
from veilsum.agents.membership.signed_epoch import SignedEpoch
from veilsum.agents.observers import StatusWatcher, Watch, WatchChanged, watcher
from veilsum.agents.pki import Authority, Role
from veilsum.errors import AgentError

NAMES = (*SITES, "south")


class WatchedFleet:
    """Publishers in place of agents; the fleet's files, its authority and a watcher."""

    def __init__(self, home: Path) -> None:
        self.home, self.file = made_fleet(home), home / "watch.toml"
        authority = Authority.load(home / "authority")
        for name in NAMES:
            authority.issue(name, ["127.0.0.1"], force=True)
        authority.issue("control-room", role=Role.OBSERVER)
        self.sites = {name: PublishedSite(authority, ["control-room"], name) for name in NAMES}
        self.write(*SITES)
        self.said: list[str] = []
        self.watcher = StatusWatcher.of(Watch.load(self.file))
        self.watcher.on_notice = self.said.append

    def write(self, *names: str) -> None:
        """The watch file; the observer has its keys where the authority has."""
        sites = "\n".join(f'{name} = "{self.sites[name].endpoint}"' for name in names)
        self.file.write_text(
            'name = "control-room"\nscenario = "scenario.toml"\n[keys]\nfolder = "authority"\n'
            f'[membership]\nfile = "epoch.json"\n[sites]\n{sites}\n'
        )

    def digest(self) -> str:
        """Of the manifest that the fleet's files have now."""
        return Watch.load(self.file).manifest.digest.hex()

    def publish(self, name: str, digest: str, epoch: int, **more: Any) -> None:
        made = status(3, name, digest, **more)
        self.sites[name].publisher(replace(made, result=replace(made.result, epoch=epoch)))

    def epoch_of(self, name: str) -> int | None:
        last = self.watcher.sites[name].last
        return None if last is None else last.status["epoch"]

    def rolled_out(self, *words: str, out: str = "epoch.json") -> bytes:
        """The signed epoch of a change, in a file that the watcher follows or does not."""
        members(self.home, *words)
        members(self.home, "rollout", "--out", str(self.home / out))
        return (self.home / out).read_bytes()

    def close(self) -> None:
        self.watcher.close()
        for site in self.sites.values():
            site.publisher.close()


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedFleet]:
    monkeypatch.setattr(watcher, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(watcher, "SWEEP", 0.05)
    monkeypatch.setattr(adoption, "LOOK_EVERY", 0.05)
    made = WatchedFleet(tmp_path)
    yield made
    made.close()


def test_new_members_appear_and_removed_ones_are_former(fleet: WatchedFleet) -> None:
    watched, first = fleet.watcher, fleet.digest()
    for name in SITES:
        fleet.publish(name, first, 1)
    with watched:
        wait_for(lambda: watched.heard_of_all, "the first epoch")
        fleet.write(*NAMES)  # before it is a member: it is waited for
        fleet.rolled_out("add", "south", "--link", "north")
        wait_for(lambda: "south" in watched.sites, "the newcomer")
        second = fleet.digest()
        assert (watched.manifest.epoch, watched.manifest.digest.hex()) == (2, second)
        for name in ("north", "east", "south"):
            fleet.publish(name, second, 2)
        wait_for(lambda: fleet.epoch_of("south") == fleet.epoch_of("north") == 2, "epoch 2")
        fleet.publish("west", first, 1, state="gathering")  # the roll-out has not reached it
        wait_for(lambda: watched.sites["west"].last.status["state"] == "gathering", "west")  # type: ignore[union-attr]
        assert fleet.epoch_of("west") == 1
        assert watched.silent == {}

        fleet.rolled_out("remove", "west")
        wait_for(lambda: "west" not in watched.sites, "its end")
        assert watched.watch is not None
        assert watched.watch.former == {"west": 3}
        changes = [event for event in watched.take(1.0) if isinstance(event, WatchChanged)]
        found = [(each.watch.manifest.epoch, each.joined, each.former) for each in changes]
        assert found.pop(0) == (1, (), ())  # the watch file has a further name
        assert found == [(2, ("south",), ()), (3, (), ("west",))]
        assert "joined: south" in changes[1].text
    again = Watch.load(fleet.file)  # a former member may stay in the file
    assert sorted(again.sites) == ["east", "north", "south"]
    assert again.strangers == []


def test_a_site_that_adopts_first_is_heard_once_the_watcher_has_the_epoch(
    fleet: WatchedFleet,
) -> None:
    """Its status came once: it is kept, and used when its terms are known."""
    watched, first = fleet.watcher, fleet.digest()
    fleet.publish("north", first, 1)
    with watched:
        wait_for(lambda: fleet.epoch_of("north") == 1, "a status")
        signed = fleet.rolled_out("remove", "west", out="signed.json")
        second = fleet.digest()
        fleet.publish("north", second, 2)
        wait_for(lambda: "copy the signed epoch.json" in watched.sites["north"].reason, "why")
        assert str(fleet.home / "epoch.json") in watched.sites["north"].reason
        assert fleet.epoch_of("north") == 1
        (fleet.home / "epoch.json").write_bytes(signed)
        wait_for(lambda: fleet.epoch_of("north") == 2, "the kept status")
        assert "north" not in watched.silent


def test_a_watcher_that_starts_late_names_who_is_behind(fleet: WatchedFleet) -> None:
    first = fleet.digest()
    fleet.rolled_out("remove", "west")
    watched = StatusWatcher.of(Watch.load(fleet.file))
    fleet.publish("north", first, 1)
    with watched:
        wait_for(lambda: "the roll-out has not reached it" in watched.sites["north"].reason, "why")
        events = watched.take(1.0)
        assert ("north", 1) in [(getattr(e, "label", ""), getattr(e, "epoch", 0)) for e in events]


def unsigned(fleet: WatchedFleet) -> tuple[bytes, str]:
    good = fleet.rolled_out("remove", "west", out="signed.json")
    return good.replace(b"north,east", b"north,evil"), "is not signed by the authority"


def older(fleet: WatchedFleet) -> tuple[bytes, str]:
    """Signed, and of an epoch before the one that the watcher follows."""
    good = fleet.rolled_out("remove", "west")
    fleet.rolled_out("add", "west", "--link", "north")
    wait_for(lambda: fleet.watcher.manifest.epoch == 3, "epoch 3")
    return good, "epoch 2 is not later than epoch 3"


def other_terms(fleet: WatchedFleet) -> tuple[bytes, str]:
    """Signed, and with another epsilon: an epoch changes the membership alone."""
    fleet.rolled_out("remove", "west", out="signed.json")
    path, authority = fleet.home / "signed.json", Authority.load(fleet.home / "authority")
    found = SignedEpoch.read(path, authority.directory / "ca.pem")
    text = found.files["scenario.toml"]
    assert "epsilon = 1.0" in text
    files = {**found.files, "scenario.toml": text.replace("epsilon = 1.0", "epsilon = 9.0")}
    replace(found, files=files).sign(authority).write(path)
    return path.read_bytes(), "changes epsilon from 1.0 to 9.0"


CASES = {"unsigned": unsigned, "older": older, "other terms": other_terms}
WEAKENED: dict[str, tuple[str, Any]] = {
    "unsigned": ("veilsum.agents.membership.signed_epoch.is_signed", lambda *_: True),
    "older": ("veilsum.agents.membership.adoption.check_later", lambda *_: None),
    "other terms": ("veilsum.agents.observers.watch_file.check_successor", lambda *_: None),
}


@pytest.mark.parametrize("weakened", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_what_the_authority_did_not_sign_as_a_later_membership_is_not_taken(
    case: str, weakened: bool, fleet: WatchedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fleet.watcher:
        data, why = CASES[case](fleet)
        before = fleet.watcher.manifest.epoch
        if weakened:
            monkeypatch.setattr(*WEAKENED[case])
        (fleet.home / "next").write_bytes(data)
        (fleet.home / "next").replace(fleet.home / "epoch.json")
        if weakened:
            wait_for(lambda: fleet.watcher.manifest.epoch != before, "a weakened variant takes it")
            return
        wait_for(lambda: any(why in text for text in fleet.said), why)
        assert fleet.watcher.manifest.epoch == before
        assert any(f"stays in epoch {before}" in text for text in fleet.said)


def test_a_watch_file_that_is_spoilt_changes_nothing(fleet: WatchedFleet) -> None:
    with fleet.watcher:
        edit(fleet.file, ("[sites]", "[site]"))
        wait_for(lambda: any("sites: missing" in text for text in fleet.said), "a notice")
        assert sorted(fleet.watcher.sites) == sorted(SITES)
        fleet.write("north", "east")
        wait_for(lambda: sorted(fleet.watcher.sites) == ["east", "north"], "the file as it is now")


def test_without_a_file_of_epochs_a_stranger_is_an_error(fleet: WatchedFleet) -> None:
    fleet.write(*NAMES)
    assert Watch.load(fleet.file).strangers == ["south"]
    edit(fleet.file, ('[membership]\nfile = "epoch.json"\n', ""))
    with pytest.raises(AgentError, match="no member of demo"):
        Watch.load(fleet.file)
