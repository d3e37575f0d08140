"""The next epoch is drafted beside the fleet's files, checked as agents would, and rolled out whole."""

import json
from pathlib import Path

import pytest

from tests.agents.membership.fleets import edit, made_fleet, members, setup_of, sign_in
from veilsum.agents.membership.drafts import FOLDER, EpochFiles, NextEpoch, set_key
from veilsum.agents.membership.signed_epoch import SignedEpoch
from veilsum.agents.pki import Authority
from veilsum.agents.starter import starter
from veilsum.errors import AgentError, VeilsumError


def test_a_member_is_added_and_another_removed(tmp_path: Path) -> None:
    home = made_fleet(tmp_path)
    before = (home / "scenario.toml").read_text()
    assert "linked to east, north" in members(
        home, "add", "south=127.0.0.1:7999", "--link", "north", "--link", "east"
    )
    assert "every result names it as a former member" in members(home, "remove", "west")
    assert (home / "scenario.toml").read_text() == before  # until it is rolled out
    listed = members(home, "list")
    assert "epoch 1: 3 members" in listed
    assert "epoch 2, joined: south; no member any more: west" in listed
    said = members(home, "rollout")
    assert "epoch 2 of demo, signed" in said
    assert not (home / FOLDER).exists()
    found = json.loads(members(home, "list", "--json"))
    assert (found["epoch"], sorted(found["members"]), found["former"]) == (
        2,
        ["east", "north", "south"],
        {"west": 2},
    )
    assert found["members"]["south"]["address"] == "tls/127.0.0.1:7999"
    signed = SignedEpoch.read(home / "epoch.json", home / "authority" / "ca.pem")
    assert signed.epoch == 2
    assert set(signed.addresses) == {"north", "east", "south"}
    assert setup_of(home, "north").manifest.digest.hex() == found["manifest"]
    with pytest.raises(
        AgentError, match="west is no member of demo since epoch 2: stop its service"
    ):
        setup_of(home, "west")


def test_an_address_that_a_member_has_is_refused(tmp_path: Path) -> None:
    """Neighbours would find another's certificate there, as where the port was left out."""
    home = made_fleet(tmp_path)
    taken = EpochFiles.load(home / "scenario.toml").addresses["north"].removeprefix("tls/")
    said = members(home, "add", f"south={taken}", "--link", "north", code=1)
    assert f"south cannot listen at tls/{taken}: north does; give south a port of its own" in said
    assert not (home / FOLDER).exists()
    members(home, "add", "south=127.0.0.1:7999", "--link", "north")
    said = members(home, "add", "lab=127.0.0.1:7999", "--link", "north", code=1)
    assert "south does" in said  # one that is only drafted counts
    members(home, "remove", "south")
    members(home, "add", "lab=127.0.0.1:7999", "--link", "north")  # its place is free again


def test_who_is_in_the_draft_is_added_otherwise_after_it_was_taken_out(tmp_path: Path) -> None:
    home = made_fleet(tmp_path)
    members(home, "add", "south", "--link", "north")
    said = members(home, "add", "south", "--link", "east", code=1)
    assert "south is in the draft of the next epoch already" in said
    assert "veilsum members remove south" in said
    members(home, "remove", "south")
    assert "linked to east" in members(home, "add", "south", "--link", "east")
    assert "is a member already" in members(home, "add", "north", "--link", "east", code=1)


def test_who_comes_back_is_no_former_member(tmp_path: Path) -> None:
    home = made_fleet(tmp_path)
    members(home, "remove", "west")
    members(home, "rollout")
    members(home, "add", "west", "--link", "north")
    members(home, "rollout")
    found = json.loads(members(home, "list", "--json"))
    assert (found["epoch"], found["former"]) == (3, {})


def test_who_is_denied_is_in_no_epoch(tmp_path: Path) -> None:
    """All others would wait for it in vain."""
    home = made_fleet(tmp_path)
    members(home, "add", "south", "--link", "north")
    Authority.load(home / "authority").revoke("west")
    said = members(home, "rollout", code=1)
    assert "west cannot be a member: its name is on deny list 1" in said
    assert "veilsum members remove west" in said
    members(home, "remove", "west")
    assert "epoch 2 of demo, signed" in members(home, "rollout")


def test_a_new_link_closes_the_ring(tmp_path: Path) -> None:
    home = made_fleet(tmp_path, ("a", "b", "c", "d"))
    members(home, "remove", "c", "--link", "b=d")
    members(home, "rollout")
    found = json.loads(members(home, "list", "--json"))
    assert found["members"]["b"]["neighbours"] == ["a", "d"]


def test_a_change_that_agents_could_not_follow_is_refused(tmp_path: Path) -> None:
    home = made_fleet(tmp_path, ("a", "b", "c"), graph="star")
    said = members(home, "remove", "a", code=1)
    assert "falls into 2 parts (b; c), and nothing was written" in said
    for words in (
        ["add", "b", "--link", "a"],
        ["add", "x"],
        ["add", "x", "--link", "y"],
        ["remove", "y"],
    ):
        members(home, *words, code=1)
    assert not (home / FOLDER).exists()
    assert "there is no change to roll out" in members(home, "rollout", code=1)


def test_a_quorum_that_is_too_large_is_named_and_can_be_changed(tmp_path: Path) -> None:
    home = made_fleet(tmp_path)
    edit(home / "scenario.toml", ("[agents]\n", "[agents]\nquorum = 3\n"))
    assert "quorum" in members(home, "remove", "west", code=1)
    edit(home / "scenario.toml", ("quorum = 3", "quorum = 2"))
    members(home, "remove", "west", "--quorum", "all")
    members(home, "rollout")
    assert json.loads(members(home, "list", "--json"))["quorum"] == 2
    members(home, "add", "west", "--link", "north", "--quorum", "most", code=2)


def test_under_network_dp_the_membership_cannot_change(tmp_path: Path) -> None:
    home = made_fleet(tmp_path)
    edit(
        home / "scenario.toml",
        ('protect = "signal"', 'protect = "network"'),
        ("radius = inf", "radius = 1.0"),
        ('name = "learn"', 'name = "learn-network"'),
        ("open_ended = true", "open_ended = false"),
        ("batches = { growth = 2.0, longest = 24 }", ""),
    )
    for words in (["add", "south", "--link", "north"], ["remove", "west"]):
        assert "new ledgers and budgets" in " ".join(members(home, *words, code=1).split())


def test_a_masked_fleet_has_a_new_nonce_and_the_keys_of_its_members(tmp_path: Path) -> None:
    home = made_fleet(tmp_path, ("a", "b", "c", "d"), masked=True)
    first = setup_of(home, "a").manifest
    assert "signing_keys lacks e" in members(home, "add", "e", "--link", "a", code=1)
    sign_in(home, "e")
    members(home, "add", "e", "--link", "a", "--link", "b")
    nonce = NextEpoch.load(home / "scenario.toml").draft.manifest.nonce
    members(home, "remove", "d")
    members(home, "rollout")
    second = setup_of(home, "a").manifest
    assert second.nonce == nonce != first.nonce
    assert sorted(second.labels) == ["a", "b", "c", "e"]
    assert len(second.signing_keys) == 4
    keys = Authority.load(home / "authority").signing_keys()
    assert set(keys) == {"a", "b", "c", "e"}


@pytest.mark.parametrize("graph", ['"ring:4"', '"links.npz"'])
def test_members_are_named_in_a_file_of_links(tmp_path: Path, graph: str) -> None:
    home = made_fleet(tmp_path)
    edit(home / "scenario.toml", ('"links.csv"', graph))
    with pytest.raises(VeilsumError, match="a file of undirected links"):
        EpochFiles.load(home / "scenario.toml")


def test_only_the_key_changes() -> None:
    text = '# a\nname = "x"\n[network] # b\ngraph = "l"\n[agents] # c\nquorum = 2 # d\n[report]\nepoch = 7\n'
    made = set_key(text, "agents", "epoch", "2")
    assert made == text.replace("[agents] # c\n", "[agents] # c\nepoch = 2\n")
    assert set_key(made, "agents", "epoch", "3") == made.replace("epoch = 2", "epoch = 3")
    assert set_key("a = 1\n", "agents", "epoch", "2").endswith("[agents]\nepoch = 2\n")
    with pytest.raises(AgentError, match="cannot be changed"):
        set_key("agents = {quorum = 2}\n", "agents", "epoch", "2")


def test_what_a_careless_operator_types(tmp_path: Path) -> None:
    home = made_fleet(tmp_path)
    assert "cannot be the name" in members(home, "add", "keys/../x", "--link", "north", code=1)
    members(home, "add", "south", "--link", "north")
    said = members(home, "remove", "north", code=1)
    assert "2 parts (south; east, west)" in said.replace("\n", " ")
    assert "--link south=east" in said
    assert "was never a member" in members(home, "remove", "south")
    assert "to drop it, remove the folder" in members(home, "list")
    (home / "authority" / "ca.key").rename(tmp_path / "away")
    said = members(home, "rollout", code=1)
    assert "put ca.key back" in said
    assert "keys init" not in said  # no site would believe a new authority


def test_the_file_of_a_newcomer_has_the_addresses_and_the_place_of_epochs(tmp_path: Path) -> None:
    home = made_fleet(tmp_path)
    members(home, "add", "south=127.0.0.1:7999", "--link", "north")
    members(home, "rollout")
    text = starter(home / "scenario.toml", "south")
    north = json.loads(members(home, "list", "--json"))["members"]["north"]["address"]
    assert f'"north" = "{north}"' in text
    assert 'listen = ["tls/127.0.0.1:7999"]' in text
    assert f'file = "{home / "epoch.json"}"' in text
