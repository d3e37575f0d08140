"""The deny list: who signs it, what it denies, and that it only ever grows on a site."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from typing import Any

import pytest
from cryptography import x509

from veilsum.agents.pki import Authority, DenyList, KeyWatch, Role, Trust, install, make_request
from veilsum.agents.pki.denied import MOST_BYTES, DeniedEntry
from veilsum.errors import AgentError


@pytest.fixture
def home(tmp_path: Any) -> Any:
    made = Authority.create(tmp_path / "ca")
    made.issue("north", ("north.example",))
    made.issue("south")
    made.issue("room", role=Role.OBSERVER)
    return made


def shown(home: Any, name: str) -> Any:
    return x509.load_pem_x509_certificate((home.directory / f"{name}.pem").read_bytes())


def read(home: Any) -> Any:
    return DenyList.read(home.directory / "denied.json", home.directory / "ca.pem")


def test_a_name_is_denied_for_good(home: Any) -> None:
    made = home.revoke("south", reason="left")
    assert read(home) == made == home.deny_list()
    assert made.number == 1
    assert "its name is on deny list 1" in made.about("south", shown(home, "south"))
    assert made.about("north", shown(home, "north")) == ""
    with pytest.raises(AgentError, match="gets no certificate: its name is on deny list 1"):
        home.issue("south", renew=True)
    with pytest.raises(AgentError, match="on deny list 1 already"):
        home.revoke("south")
    assert home.revoke("room").entries[-1].value == "observer:room"
    assert read(home).number == 2
    assert {entry.name: entry.state for entry in home.entries()} == {
        "north": "valid", "room": "denied", "south": "denied",
    }  # fmt: skip


def test_the_old_keys_of_a_name_are_denied_and_the_present_one_is_not(home: Any) -> None:
    old = shown(home, "north")
    with pytest.raises(AgentError, match="one key only"):
        home.revoke("north", old=True)
    home.issue("north", renew=True)
    renewed = shown(home, "north")
    home.issue("north", renew=True, new_key=True)
    made = home.revoke("north", old=True)
    for certificate in (old, renewed):
        assert "the key of this certificate" in made.about("north", certificate)
    assert made.about("north", shown(home, "north")) == ""
    assert made.singles_out("north")
    assert not made.singles_out("south")
    assert home.issue("north", renew=True), "it is renewed as before"


def test_one_certificate_is_denied_by_its_number(home: Any) -> None:
    serial = f"{shown(home, 'north').serial_number:x}"
    with pytest.raises(AgentError, match="is of north, and not of south"):
        home.revoke("south", serial=serial)
    made = home.revoke("north", serial=serial.upper())
    assert "this certificate" in made.about("north", shown(home, "north"))
    home.issue("north", renew=True)
    assert made.about("north", shown(home, "north")) == ""
    for wrong in ({"serial": "xyz"}, {"serial": "1", "old": True}):
        with pytest.raises(AgentError):
            home.revoke("north", **wrong)


def test_a_list_that_was_changed_or_is_another_authoritys_is_refused(
    home: Any, tmp_path: Any
) -> None:
    home.revoke("south")
    file, ca = home.directory / "denied.json", home.directory / "ca.pem"
    good = json.loads(file.read_text())
    other = Authority.create(tmp_path / "other")
    with pytest.raises(AgentError, match="not signed by the authority"):
        DenyList.read(file, other.directory / "ca.pem")
    changes: list[dict[str, Any]] = [
        {"number": 2},
        {"entries": []},
        {"entries": [good["entries"][0] | {"value": "north"}]},
        {"signature": "00" * 70},
    ]
    for change in changes:
        file.write_text(json.dumps(good | change))
        with pytest.raises(AgentError, match="not signed by the authority"):
            DenyList.read(file, ca)
    for text in ("", "[]", "{}", json.dumps(good | {"number": True}), json.dumps(good | {"x": 1}),
                 json.dumps(good | {"entries": [{"kind": "name"}]}), "x" * 5_000_000):  # fmt: skip
        file.write_text(text)
        with pytest.raises(AgentError, match="is no deny list"):
            DenyList.read(file, ca)


def trust(home: Any, tmp_path: Any, **more: Any) -> Any:
    return Trust(
        home.directory / "ca.pem", tmp_path / "denied.json", tmp_path / "kept.json", **more
    )


def bring(home: Any, tmp_path: Any, number: int) -> None:
    """Put the list with this number on the site, as the authority once wrote it."""
    lists = {k: f"{home.directory}/list-{k}.json" for k in (1, 2)}
    if not (home.directory / "list-1.json").exists():
        home.revoke("south").write(lists[1])
        home.revoke("north").write(lists[2])
    (tmp_path / "denied.json").write_bytes((home.directory / f"list-{number}.json").read_bytes())


def test_an_older_list_never_replaces_a_newer_one(home: Any, tmp_path: Any) -> None:
    bring(home, tmp_path, 2)
    site = trust(home, tmp_path)
    assert site.denied.number == 2
    assert site.keep() == ""
    bring(home, tmp_path, 1)
    assert "number 2 was accepted before: it is not used" in site.refresh()[0]
    assert site.denied_name("north")
    again = trust(home, tmp_path)
    assert again.denied.number == 2, "after a restart neither"
    assert again.denied_name("north")
    (tmp_path / "denied.json").unlink()
    assert trust(home, tmp_path).denied.number == 2, "nor if the file is gone"


def test_a_weakened_twin_that_keeps_nothing_forgets_whom_it_denied(
    home: Any, tmp_path: Any
) -> None:
    bring(home, tmp_path, 2)
    Trust(home.directory / "ca.pem", tmp_path / "denied.json").keep()
    bring(home, tmp_path, 1)
    assert not Trust(home.directory / "ca.pem", tmp_path / "denied.json").denied_name("north")


def test_a_forged_list_stops_the_start_and_changes_nothing_later(home: Any, tmp_path: Any) -> None:
    other = Authority.create(tmp_path / "other")
    forged = other.directory / "denied.json"
    other.revoke("north")
    (tmp_path / "denied.json").write_bytes(forged.read_bytes())
    with pytest.raises(AgentError, match="not signed by the authority"):
        trust(home, tmp_path)
    bring(home, tmp_path, 1)
    site = trust(home, tmp_path)
    site.keep()
    (tmp_path / "denied.json").write_bytes(forged.read_bytes())
    assert "list 1 stays in use" in site.refresh()[0]
    assert site.refresh() == [], "said once"
    assert trust(home, tmp_path).denied_name("south")


def test_who_is_trusted_is_decided_to_the_moment(home: Any, tmp_path: Any) -> None:
    now = time.time()
    site = trust(home, tmp_path, wall=lambda: now)
    found = shown(home, "north")
    assert site.refusal(found, "north") == ""
    assert "expected 'south'" in site.refusal(found, "south")
    end = found.not_valid_after_utc.timestamp()
    now = end - 0.001
    assert site.refusal(found, "north") == ""
    now = end
    assert "expired at" in site.refusal(found, "north")
    now = found.not_valid_before_utc.timestamp() - 1
    assert "not valid before" in site.refusal(found, "north")
    foreign = Authority.create(tmp_path / "other").issue("north").certificate
    now = time.time()
    stranger = x509.load_pem_x509_certificate(foreign.read_bytes())
    assert "another authority" in site.refusal(stranger, "north")


def test_install_brings_the_list_and_none_that_is_older(home: Any, tmp_path: Any) -> None:
    site = tmp_path / "site"
    made, _ = make_request("east", site)
    home.sign(made, ["east.example"])
    bring(home, home.directory, 2)
    install("east", home.directory, site)
    assert DenyList.read(site / "denied.json", site / "ca.pem").number == 2
    bring(home, home.directory, 1)
    install("east", home.directory, site)
    assert DenyList.read(site / "denied.json", site / "ca.pem").number == 2


def test_of_several_places_the_newest_list_counts(home: Any, tmp_path: Any) -> None:
    places = [tmp_path / "state.json", tmp_path / "keys.json"]
    bring(home, tmp_path, 1)
    (tmp_path / "denied.json").rename(places[0])
    site = Trust(home.directory / "ca.pem", places)
    assert site.denied.number == 1
    bring(home, tmp_path, 2)
    (tmp_path / "denied.json").rename(places[1])
    assert site.refresh() == ["deny list 2 is in use: 2 entries"]
    assert Trust(home.directory / "ca.pem", places).denied.number == 2


def test_a_long_list_is_read_whole(home: Any) -> None:
    many = tuple(DeniedEntry("serial", f"{k:x}", "north", "now") for k in range(5000))
    DenyList(7, many).sign(home._signer[0]).write(home.directory / "denied.json")
    assert len(read(home).entries) == 5000


class Lines:
    def __init__(self, watch: Any) -> None:
        self.said: list[tuple[str, str]] = []
        watch.notify = lambda kind, text: self.said.append((kind, text))

    def of(self, kind: str) -> list[str]:
        return [text for said, text in self.said if said == kind]


def test_renewed_files_are_found_once_they_fit_together(home: Any) -> None:
    credentials = home.credentials("north")
    watch = KeyWatch(credentials, "north")
    lines, renewed = Lines(watch), []
    watch.renewed.append(lambda: renewed.append(1))
    watch.poll()
    assert lines.said == []
    old_key = credentials.key.read_bytes()
    home.issue("north", renew=True, new_key=True)
    new_key = credentials.key.read_bytes()
    credentials.key.write_bytes(old_key)
    watch.poll()
    assert (renewed, lines.said) == ([], []), "the key may be on its way"
    watch.poll()
    (text,) = lines.of("certificate")
    assert "the former stay in use" in text
    watch.poll()
    assert len(lines.of("certificate")) == 1, "said once"
    credentials.key.write_bytes(new_key)
    watch.poll()
    assert renewed == [1]
    assert f"{watch.certificate.serial_number:x}" in lines.of("renewed")[0]
    credentials.certificate.touch()
    watch.poll()
    assert renewed == [1], "the same contents are no renewal"


def test_the_end_of_a_certificate_is_announced_a_few_times(home: Any) -> None:
    credentials = home.issue("north", renew=True, days=90)
    end = shown(home, "north").not_valid_after_utc.timestamp()
    now = end - 90 * 86400
    watch = KeyWatch(credentials, "north", wall=lambda: now)
    lines = Lines(watch)
    while now < end + 3600:
        watch.poll()
        now += 600
    said = lines.of("certificate")
    assert "expires in 14 days" in said[0]
    assert "expired at" in said[-1]
    assert 5 < len(said) < 20
    assert sum("expired at" in text for text in said) == 1
    now = time.time()
    home.issue("north", renew=True)
    watch.poll()
    assert len(lines.of("certificate")) == len(said), "renewed: nothing more to say"


def test_a_site_that_is_denied_itself_says_so(home: Any) -> None:
    watch = KeyWatch(home.credentials("north"), "north", denied=home.directory / "denied.json")
    home.revoke("north")
    watch.trust.refresh()
    lines = Lines(watch)
    watch.poll()
    assert "others will refuse this site: its name is on deny list 1" in lines.of("certificate")[0]


def test_issued_certificates_are_recorded_also_those_of_before(home: Any) -> None:
    before = [row["serial"] for row in home.issued() if row["name"] == "north"]
    assert before == [f"{shown(home, 'north').serial_number:x}"]
    (home.directory / "issued.jsonl").unlink()  # as an earlier version left it
    home.issue("north", not_after=dt.datetime.now(dt.UTC) + dt.timedelta(1), force=True)
    rows = [row["serial"] for row in home.issued()]
    assert rows == [*before, f"{shown(home, 'north').serial_number:x}"]


def test_a_pipe_in_place_of_a_list_is_not_waited_for(home: Any, tmp_path: Any) -> None:
    home.revoke("south")
    ca, file = home.directory / "ca.pem", tmp_path / "brought.json"
    trust = Trust(ca, file)
    os.mkfifo(file)
    assert trust.refresh() == []
    with pytest.raises(AgentError, match="it is no file"):
        DenyList.read(file, ca)
    file.unlink()
    file.write_bytes((home.directory / "denied.json").read_bytes())
    assert "deny list 1 is in use" in trust.refresh()[0]
    file.write_bytes(b"x" * (MOST_BYTES + 1000))
    assert "no deny list" in trust.refresh()[0]
    assert max(map(len, trust._seen.values())) == MOST_BYTES + 1


def test_who_cannot_take_new_files_is_handed_them_again(home: Any) -> None:
    """A file that is replaced once more in this moment must not end the watch."""
    made = KeyWatch(home.credentials("north"), "north")
    said, calls = list[tuple[str, str]](), list[int]()
    made.notify = lambda kind, text: said.append((kind, text))

    def take() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise FileNotFoundError(2, "north.pem")

    made.renewed.append(take)
    home.issue("north", renew=True)
    for _ in range(3):
        made.poll()
    assert len(calls) == 2
    assert any("it is tried again" in text for _, text in said)


def test_a_list_that_is_nested_too_deeply_does_not_end_the_watch(home: Any) -> None:
    """Whoever brings lists could otherwise have no later one taken, nor a renewed certificate."""
    file = home.directory / "denied.json"
    watch = KeyWatch(home.credentials("north"), "north", denied=file, pause=0.02)
    said: list[str] = []
    watch.notify = lambda _, text: said.append(text)
    watch.start()
    try:
        file.write_text("[" * 50_000)
        wait_until(lambda: any("is no deny list" in text for text in said))
        file.unlink()
        home.revoke("south", reason="left")
        wait_until(lambda: bool(watch.trust.denied_name("south")))
    finally:
        watch.close()


def wait_until(true: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)
