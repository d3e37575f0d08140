"""An agent follows the latest signed epoch, which changes the membership and nothing else."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.agents.membership.fleets import edit, made_fleet, members, setup_of
from veilsum.agents import doctor
from veilsum.agents.config import Setup
from veilsum.agents.ledger import Ledger
from veilsum.agents.membership import adoption
from veilsum.agents.membership.adoption import EpochWatcher, adopted_path, check_successor
from veilsum.agents.membership.drafts import EpochFiles
from veilsum.agents.membership.signed_epoch import SignedEpoch
from veilsum.agents.pki import Authority
from veilsum.errors import AgentError, LedgerError


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 2.0
        return self.now


def watched(home: Path, label: str = "north") -> tuple[EpochWatcher, list[str]]:
    said: list[str] = []
    return EpochWatcher(setup_of(home, label), said.append, Clock()), said


def test_a_later_epoch_is_found_while_running(tmp_path: Path) -> None:
    home = made_fleet(tmp_path)
    watcher, said = watched(home)
    assert watcher.look() is None
    members(home, "add", "south", "--link", "north")
    assert watcher.look() is None  # a draft is no epoch
    members(home, "rollout")
    found = watcher.look()
    assert found is not None
    assert found.setup is not None
    assert (found.manifest.epoch, "south" in found.setup.manifest.link_weights("north")) == (
        2,
        True,
    )
    assert watcher.look() is None  # once
    assert said == []


def test_who_is_no_member_any_more_has_no_setup(tmp_path: Path) -> None:
    home = made_fleet(tmp_path)
    watcher, _ = watched(home, "west")
    members(home, "remove", "west")
    members(home, "rollout")
    found = watcher.look()
    assert found is not None
    assert found.setup is None


def test_an_older_epoch_and_an_edited_one_change_nothing(tmp_path: Path) -> None:
    home = made_fleet(tmp_path)
    members(home, "add", "south", "--link", "north")
    members(home, "rollout")
    second = (home / "epoch.json").read_text()
    members(home, "remove", "south")
    members(home, "rollout")
    watcher, said = watched(home)
    assert watcher.look() is None  # its own
    (home / "epoch.json").write_text(second)
    assert watcher.look() is None
    (home / "epoch.json").write_text(second.replace('"epoch": 2', '"epoch": 9'))
    assert watcher.look() is None
    assert "epoch 2 is not later than epoch 3" in said[0]
    assert "is not signed by the authority" in said[1]
    assert all("stays in epoch 3" in line for line in said)


@pytest.mark.parametrize("weakened", [False, True])
def test_a_kept_epoch_outlives_the_file(
    tmp_path: Path, weakened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weakened: the copy beside the ledger is not looked at, and the older epoch is adopted."""
    home = made_fleet(tmp_path)
    old = (home / "scenario.toml").read_text(), (home / "links.csv").read_text()
    members(home, "add", "south", "--link", "north")
    members(home, "rollout")
    setup = setup_of(home, "north")
    setup.keep_epoch()
    assert adopted_path(setup.path(setup.config.ledger.path)).stat().st_mode & 0o777 == 0o600
    (home / "epoch.json").unlink()
    (home / "scenario.toml").write_text(old[0])
    (home / "links.csv").write_text(old[1])
    if weakened:
        monkeypatch.setattr("veilsum.agents.config.adopted_path", lambda path: path / "nowhere")
    assert setup_of(home, "north").manifest.epoch == (1 if weakened else 2)


def test_an_epoch_of_the_scenario_that_nobody_signed_is_refused(tmp_path: Path) -> None:
    home = made_fleet(tmp_path)
    members(home, "add", "south", "--link", "north")
    members(home, "rollout")
    edit(home / "scenario.toml", ("epoch = 2", "epoch = 3"))
    with pytest.raises(AgentError, match=r"newest signed epoch here is 2; copy the epoch\.json"):
        setup_of(home, "north")
    edit(home / "scenario.toml", ("epoch = 3", "epoch = 2\nquorum = 2"))
    with pytest.raises(
        AgentError, match="differs in quorum from the one that the authority signed"
    ):
        setup_of(home, "north")


def test_without_a_signed_epoch_the_ledger_says_which_is_in_force(tmp_path: Path) -> None:
    home = made_fleet(tmp_path)
    setup = setup_of(home, "north")
    setup.check_epoch(None)
    setup.check_epoch(1)
    edit(home / "scenario.toml", ("[agents]\n", "[agents]\nepoch = 2\n"))
    with pytest.raises(AgentError, match="epoch 2 of the scenario is not signed"):
        setup_of(home, "north").check_epoch(1)
    edit(home / "sites/north/agent.toml", ('[membership]\nfile = "../../epoch.json"', ""))
    setup_of(home, "north").check_epoch(1)  # by hand, as before


def test_the_authority_cannot_change_what_a_site_releases(tmp_path: Path) -> None:
    """It signs who is a member; epsilon, bounds and schedule were agreed on by each site."""
    home = made_fleet(tmp_path)
    setup = setup_of(home, "north")
    terms = EpochFiles.load(home / "scenario.toml")
    text = terms.files["scenario.toml"].replace("epsilon = 1.0", "epsilon = 50.0")
    text = text.replace("[agents]\n", "[agents]\nepoch = 2\n")
    files = {**terms.files, "scenario.toml": text}
    evil = SignedEpoch("demo", 2, "scenario.toml", files, {})
    evil.sign(Authority.load(home / "authority")).write(home / "epoch.json")
    said: list[str] = []
    assert EpochWatcher(setup, said.append, Clock()).look() is None
    assert "changes epsilon from 1.0 to 50.0" in said[0]
    with pytest.raises(AgentError, match="changes epsilon"):
        setup_of(home, "north")


def test_every_other_term_is_compared(tmp_path: Path) -> None:
    manifest = setup_of(made_fleet(tmp_path), "north").manifest
    later = replace(manifest, epoch=2)
    check_successor(manifest, later)
    changed: dict[str, Any] = {"rounds": 7, "every": 60.0, "largest": 1.0, "lost_after": 1.0}
    for name, value in changed.items():
        with pytest.raises(AgentError, match=f"changes {name}"):
            check_successor(manifest, replace(later, **{name: value}))
    assert {"epsilon", "delta", "radius", "colluders", "family"} & adoption.MEMBERSHIP == set()


def test_a_ledger_does_not_return_to_an_older_epoch(tmp_path: Path) -> None:
    home = made_fleet(tmp_path)
    setup = setup_of(home, "north")
    path = tmp_path / "a.ledger"
    Ledger.open(path, replace(setup.manifest, epoch=2), "north", setup.budget).close()
    with pytest.raises(LedgerError, match="older membership is not returned to"):
        Ledger.open(path, setup.manifest, "north", setup.budget)


def test_an_address_of_who_is_no_neighbour_is_said_to_be_unused(tmp_path: Path) -> None:
    home = made_fleet(tmp_path)
    members(home, "remove", "west")
    members(home, "rollout")
    setup = setup_of(home, "north")
    assert set(setup.peers) == {"east"}
    assert "west is no neighbour of north in epoch 2" in setup.notes[0]


def test_addresses_of_new_neighbours_come_with_the_epoch(tmp_path: Path) -> None:
    home = made_fleet(tmp_path, ("a", "b", "c", "d"))
    members(home, "remove", "c", "--link", "b=d")
    members(home, "rollout")
    setup = setup_of(home, "b")
    assert set(setup.peers) == {"a", "d"}
    assert isinstance(setup, Setup)


def test_the_doctor_says_which_epoch_is_followed_and_what_is_not_used(tmp_path: Path) -> None:
    home = made_fleet(tmp_path)

    def said() -> list[tuple[str, str]]:
        results = doctor.checks(setup_of(home, "north"))
        return [(str(r.outcome.value), r.found) for r in results if r.check == "membership"]

    assert said() == [("ok", "epoch 1 with 3 members, as the scenario says")]
    members(home, "add", "south", "--link", "north")
    members(home, "rollout")
    assert said() == [("ok", "epoch 2 with 4 members, signed by the authority")]
    setup_of(home, "north").keep_epoch()
    edit(home / "epoch.json", ("north,east", "north,evil"))
    (outcome, text), good = said()
    assert (outcome, good[0]) == ("warning", "ok")
    assert "is not signed by the authority" in text


def signed_with(home: Path, epoch: int, **addresses: str) -> SignedEpoch:
    """The next epoch with other addresses, signed by the authority."""
    found = SignedEpoch.read(home / "epoch.json", home / "authority" / "ca.pem")
    assert found.epoch == epoch
    changed = replace(found, addresses={**found.addresses, **addresses})
    return changed.sign(Authority.load(home / "authority"))


def test_an_epoch_under_which_the_agent_could_not_start_is_reported_and_not_adopted(
    tmp_path: Path,
) -> None:
    """It would end every neighbour of south, and every later start of theirs."""
    home = made_fleet(tmp_path)
    watcher, said = watched(home)
    members(home, "add", "south", "--link", "north")
    members(home, "rollout")
    good = (home / "epoch.json").read_bytes()
    signed_with(home, 2, south="nowhere").write(home / "epoch.json")
    assert watcher.look() is None
    assert "'nowhere' is not an endpoint" in said[0]
    assert "stays in epoch 1" in said[0]
    (home / "epoch.json").write_bytes(good)
    assert watcher.look() is not None


def test_a_masked_agent_stays_in_its_epoch_while_its_pinned_key_is_missing(tmp_path: Path) -> None:
    home = made_fleet(tmp_path, ("a", "b", "c", "d", "e"), masked=True)
    watcher, said = watched(home, "a")
    members(home, "remove", "e", "--link", "d=a")
    members(home, "rollout")
    key = home / "sites" / "a" / "keys" / "a.signing.key"
    away = key.rename(key.with_name("away"))
    assert watcher.look() is None
    assert "stays in epoch 1" in said[0]
    away.rename(key)
    clock = watcher._file._clock
    assert isinstance(clock, Clock)
    clock.now += adoption.AGAIN
    assert watcher.look() is not None


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_a_pipe_in_place_of_an_epoch_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    home = made_fleet(tmp_path)
    watcher, said = watched(home)
    path = home / "epoch.json"
    path.unlink(missing_ok=True)
    os.mkfifo(path) if kind == "fifo" else path.symlink_to("/dev/zero")
    assert watcher.look() is None
    assert "it is no file" in said[0]
