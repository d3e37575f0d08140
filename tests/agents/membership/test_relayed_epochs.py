"""A site behind a relay adopts an epoch as every other does."""

from pathlib import Path

import pytest

from tests.agents.membership.fleets import edit, made_fleet, members, setup_of
from tests.agents.membership.test_adoption import watched
from veilsum.errors import AgentError

RELAY = '\n[relay]\naddress = "tls/127.0.0.1:7450"\npeers = ["west", "east"]\n'


def behind_a_relay(home: Path) -> Path:
    """Reach both neighbours of north through a relay."""
    path = home / "sites" / "north" / "agent.toml"
    for label, address in setup_of(home, "north").peers.items():
        edit(path, (f'{label} = "{address}"\n', ""))
    path.write_text(path.read_text() + RELAY)
    return home


def test_a_neighbour_behind_the_relay_that_is_removed_is_not_called(tmp_path: Path) -> None:
    """An error here would end every site behind the relay, for as long as the epoch is in force."""
    home = behind_a_relay(made_fleet(tmp_path))
    watcher, said = watched(home)
    members(home, "remove", "west")
    members(home, "rollout")
    found = watcher.look()
    assert found is not None
    assert found.setup is not None
    made = found.setup.relay(insecure=False)
    assert made is not None
    assert list(made._peers) == ["east"]
    assert said == []
    assert "west is no neighbour of north in epoch 2; it is not called" in found.setup.notes[-1]


def test_the_address_of_an_epoch_does_not_take_the_place_of_the_relay(tmp_path: Path) -> None:
    """East is reached by west, and the epoch has its address; north cannot reach it there."""
    home = behind_a_relay(made_fleet(tmp_path))
    members(home, "add", "south", "--link", "west")
    members(home, "rollout")
    setup = setup_of(home, "north")
    assert setup.signed is not None
    assert "east" in setup.signed.addresses
    assert setup.peers == {}
    connects = setup.transport(False, {"east": 7001, "west": 7002})._connect
    assert {str(at) for at in connects.values()} == {"tls/127.0.0.1:7001", "tls/127.0.0.1:7002"}


def test_without_a_signed_epoch_a_stranger_is_an_error(tmp_path: Path) -> None:
    home = made_fleet(tmp_path)
    path = home / "sites" / "north" / "agent.toml"
    path.write_text(path.read_text() + RELAY.replace("west", "nobody"))
    with pytest.raises(AgentError, match="'nobody' is no neighbour"):
        setup_of(home, "north").relay(insecure=False)
