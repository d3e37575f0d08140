"""init, join, admit, remove, witnesses, rotate, close: who is in, and what careless people are said."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.fleet.commands.folders import ALLOWED, WRONG, Folders, squeezed, write_readings
from veilsum.errors import FleetError
from veilsum.fleet.consent import ConsentPost
from veilsum.fleet.joining import (
    FleetAuthority,
    JoinRequest,
    fingerprint,
    fleets_on,
    publish,
    read_key,
    requested,
    requests_on,
)
from veilsum.fleet.membership import Membership, fleet_id, following
from veilsum.fleet.post import SALT, Header, Kind, Post, public, sealed, short
from veilsum.fleet.site import Site
from veilsum.fleet.store import FolderStore


def membership(folders: Folders) -> Membership:
    with FleetAuthority(folders.place("desk")).seated() as seat:
        return seat.membership


def test_a_fleet_begins_sites_join_and_are_admitted(folders: Folders) -> None:
    said = folders.fleet("desk", "init ../board --mounted")
    assert "Began the fleet board" in said
    assert "veilsum fleet join ../board" in said
    assert stat.S_IMODE((folders.place("desk") / "authority.key").stat().st_mode) == 0o600
    first = membership(folders)
    assert first.witnesses.store
    joined = squeezed(folders.join("north"))
    assert fingerprint(first.founder) in joined
    assert "readings.csv: hour, kwh" in joined
    assert "yes to mean, count, histogram of kwh" in joined
    folders.join("east")
    said = folders.fleet("desk", "admit north east")
    assert "Epoch 2 of board: 2 sites" in said
    assert [one.name for one in membership(folders).members] == ["desk", "north", "east"]
    assert sorted(path.name for path in folders.place("north").iterdir()) == [
        "readings.csv", "site.db", "site.toml",
    ]  # fmt: skip


def test_members_witness_where_nobody_says_that_the_folder_is_one(folders: Folders) -> None:
    folders.begin(options="")
    found = membership(folders).witnesses
    assert (found.members, found.needed) == (("north", "east", "west"), 2)


def test_two_sites_witness_for_each_other(folders: Folders) -> None:
    folders.begin("north", "east", options="--synced")
    assert membership(folders).witnesses.needed == 2


def test_witnesses_stay_once_something_was_released(folders: Folders) -> None:
    folders.begin("north", "east", options="--synced", joined=ALLOWED)
    with Site(folders.place("desk")) as site:
        from tests.fleet.fleets import mean
        from veilsum.fleet.post import Kind

        question = mean()
        site.seat().publish(Kind.QUESTION, question.digest, question.canonical(), 1)
        site.seat().write(1)
    folders.step("north", "east", "north", "east")
    folders.join("west")
    folders.fleet("desk", "admit west")
    assert membership(folders).witnesses.members == ("north", "east")
    folders.fleet("desk", "witnesses north,east,west")
    assert membership(folders).witnesses.members == ("north", "east", "west")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--name north --data gone.csv --epsilon 3", "there is no file gone.csv"),
        ("--name north --data readings.csv", "--epsilon is missing"),
        ("--data readings.csv --name North/2 --epsilon 3", "a site is called by letters"),
        (
            "--name north --data readings.csv --epsilon 3 --approve mean --columns kwhh",
            "has no column kwhh; it has hour, kwh",
        ),
        ("--name north --data readings.csv --epsilon 3 --approve maen --columns kwh", "mean"),
        ("--name north --data readings.csv --epsilon 3 --columns kwh", "are of --approve"),
        ("--name north --data readings.csv --epsilon -3", "epsilon"),
        ("--name n --data readings.csv --epsilon 3 --per fortnight", "per"),
        ("--name n --data readings.csv --epsilon 3 --authority 1234", "20 digits"),
        (f"--name n --data readings.csv --epsilon 3 --authority {'7' * 20}", "do not join"),
    ],
)
def test_a_mistake_at_joining_leaves_nothing(folders: Folders, options: str, expected: str) -> None:
    folders.fleet("desk", "init ../board --mounted")
    write_readings(folders.place("north"))
    place = folders.place("north")
    said = squeezed(folders.fleet("north", f"join ../board {options}", WRONG))
    assert expected in said
    assert [path.name for path in place.iterdir()] == ["readings.csv"]
    folders.join("north")


def test_a_table_without_a_row_of_names_is_no_table(folders: Folders) -> None:
    folders.fleet("desk", "init ../board --mounted")
    (folders.place("north") / "readings.csv").write_text("")
    said = folders.fleet("north", "join ../board --name north --data readings.csv --epsilon 3", 1)
    assert "readings.csv" in said
    assert not (folders.place("north") / "site.db").exists()


def test_a_folder_is_one_site(folders: Folders) -> None:
    folders.begin("north", "east")
    again = "join ../board --name north --data readings.csv --epsilon 3"
    assert "has a site.toml already" in squeezed(folders.fleet("north", again, 1))
    assert "already" in folders.fleet("desk", "init ../other", 1)
    assert "has a fleet already" in squeezed(folders.fleet("other", "init ../board", 1))
    assert "has no authority.key" in squeezed(folders.fleet("north", "admit east", 1))
    late = "join ../nowhere --name late --data readings.csv --epsilon 1"
    assert "there is no such folder" in squeezed(folders.fleet("late", late, 1))


def test_who_did_not_ask_is_not_admitted(folders: Folders) -> None:
    folders.fleet("desk", "init ../board --mounted")
    folders.join("north")
    said = squeezed(folders.fleet("desk", "admit nroth", 1))
    assert "nobody called nroth asks to join; on the board are requests of north" in said


def test_two_requests_of_one_name_differ_by_key(folders: Folders) -> None:
    folders.fleet("desk", "init ../board --mounted")
    folders.join("north")
    thief = folders.place("thief")
    write_readings(thief)
    folders.fleet("thief", "join ../board --name north --data readings.csv --epsilon 3")
    said = folders.fleet("desk", "admit north", 1)
    assert "2 requests are called north" in said
    with Site(folders.place("north")) as site:
        key = site.public.hex()
    assert key[:20] in said
    folders.fleet("desk", f"admit north={key[:20]}")
    assert membership(folders).member("north").key == key
    wrong = squeezed(folders.fleet("desk", f"admit north={'0' * 20}", 1))
    assert "somebody else may have sent it" in wrong


def test_a_forged_request_is_none(folders: Folders) -> None:
    folders.fleet("desk", "init ../board --mounted")
    folders.join("north")
    store = FolderStore(folders.board)
    (name,) = store.names("join")
    data = store.get(name)
    assert data is not None
    store.put(name, data.replace(b"north", b"south"))
    store.put(f"join/{'0' * 20}", data)
    assert requests_on(store) == []
    with pytest.raises(FleetError, match="not signed"):
        JoinRequest.parse(b"[]")


@pytest.mark.parametrize("body", [b"[" * 1900, b'{"format": Infinity}'])
def test_what_a_stranger_writes_stops_nobody(folders: Folders, body: bytes) -> None:
    folders.fleet("desk", "init ../board --mounted")
    store, key = FolderStore(folders.board), Ed25519PrivateKey.generate()
    store.put(f"join/{'0' * 20}", json.dumps([body.decode(), "00"]).encode())
    store.put(f"join/{'1' * 20}", body)
    assert requests_on(store) == []
    assert ConsentPost.read(body) is None
    salt, terms = bytes(SALT), fleet_id(public(key))
    header = Header(Kind.MEMBERSHIP, terms, public(key), 1, digest=sealed(salt, body))
    post = Post(header.signed(key), salt, body)
    store.put(f"post/{short(public(key))}/{header.topic.name}", post.data)
    assert [one.fleet for one in fleets_on(store)] == ["board"]


def test_a_lost_site_comes_back_with_another_key(folders: Folders) -> None:
    folders.begin()
    before = membership(folders).member("north")
    shutil.rmtree(folders.place("north"))
    folders.join("north")
    said = squeezed(folders.fleet("desk", "admit north", 2))
    assert "--yes" in said
    assert fingerprint(before.key) in said
    said = squeezed(folders.fleet("desk", "admit north --yes"))
    assert "its key before is closed" in said
    after = membership(folders).member("north")
    assert after.closed == (before.key,)
    again = squeezed(folders.fleet("desk", f"admit north={before.key} --yes", 1))
    assert "is closed" in again


def test_roles_change_and_members_leave(folders: Folders) -> None:
    folders.begin()
    said = squeezed(folders.fleet("desk", "admit north --role site --role keeper --role asker"))
    assert "was site, keeper" in said
    assert membership(folders).member("north").roles == ("site", "keeper", "asker")
    folders.fleet("desk", "remove east --yes")
    found = membership(folders)
    assert found.member("east").roles == ()
    assert found.number == 4
    assert "has no member 'south'" in squeezed(folders.fleet("desk", "remove south --yes", 1))
    folders.step("east")
    folders.fleet("desk", "admit east")
    assert membership(folders).member("east").roles == ("site", "keeper")


def test_the_authority_rotates_its_key_and_everyone_follows(folders: Folders) -> None:
    folders.begin("north", "east")
    old = (folders.place("desk") / "authority.key").read_text()
    said = squeezed(folders.fleet("desk", "rotate"))
    assert "names the key that signs the next one" in said
    assert (folders.place("desk") / "authority.key").read_text() != old
    folders.join("west")
    folders.fleet("desk", "admit west")
    folders.step("north", "west")
    with Site(folders.place("north")) as site:
        assert site.seat().membership.number == 4
    (folders.place("desk") / "authority.key").write_text(old)
    assert "is not the key that signs board" in squeezed(folders.fleet("desk", "remove west", 1))


def test_a_rotation_that_was_cut_short_goes_on(folders: Folders) -> None:
    folders.begin("north", "east")
    desk = folders.place("desk")
    old = (desk / "authority.key").read_text()
    folders.fleet("desk", "rotate")
    (desk / "authority.key").rename(desk / "authority.next.key")
    (desk / "authority.key").write_text(old)
    folders.fleet("desk", "remove east")
    assert not (desk / "authority.next.key").exists()


def test_two_epochs_of_one_number_stop_everyone(folders: Folders, tmp_path: Path) -> None:
    folders.begin("north", "east", "west")
    thief = tmp_path / "stolen"
    shutil.copytree(folders.place("desk"), thief)
    folders.fleet("desk", "remove west --yes")
    folders.step("north")
    with Site(thief) as site:  # knows epoch 2 alone, and has the key
        seat = site.seat()
        key = read_key(thief / "authority.key")
        publish(seat, following(seat.membership, seat.membership.members), key)
    assert "two memberships of one number" in squeezed(folders.step("north", code=1))
    assert "two memberships" in squeezed(
        folders.veilsum("desk", "ask count --eps 1 --fleet ../board", 1)
    )
    assert "two memberships" in squeezed(folders.fleet("desk", "admit north", 1))


def test_a_fleet_ends(folders: Folders) -> None:
    folders.begin()
    assert "say so with --yes" in squeezed(folders.fleet("desk", "close", 2))
    folders.fleet("desk", "close --yes")
    assert not any(one.roles for one in membership(folders).members)
    before = folders.stored()
    folders.step("north")
    assert folders.stored() == before
    folders.veilsum("desk", "ask count --eps 1 --fleet ../board", 1)


def test_an_epoch_is_kept_before_it_is_shown(folders: Folders) -> None:
    """The store loses it: the next command shows it again, and signs no number twice."""
    folders.begin("north", "east")
    name = next(name for name in folders.stored() if "membership" in name)
    data = folders.stored()[name]
    (folders.board / name).unlink()
    folders.fleet("desk", "remove east --yes")
    assert membership(folders).number == 3
    (folders.board / name).write_bytes(data)  # rolled back
    folders.fleet("desk", "admit east")
    assert membership(folders).number == 4
    assert membership(folders).fork is None


def test_a_request_of_a_full_line(folders: Folders) -> None:
    folders.fleet("desk", "init ../board --mounted")
    with FleetAuthority(folders.place("desk")).seated() as seat:
        (found,) = requested(seat.membership, [], [f"north={'a' * 64}"], ["observer"])
    assert (found.name, found.roles) == ("north", ("observer",))
