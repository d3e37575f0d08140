"""Certificates over real links: renewed, ended, exposed and denied while the devices run.

Certificates live seconds here. Where zenoh's own TLS would close a link too, it is set not to, or the
clock of one device is ahead: what is tested is our own handshake.
"""

from __future__ import annotations

import datetime as dt
import time
from functools import partial
from typing import Any, Self

import pytest
import zenoh

from tests.agents.transport.test_transport_intruders import say, session
from tests.agents.transport.transport_cases import Devices, has, totals, wait_for
from veilsum.agents.pki import Authority, KeyWatch
from veilsum.agents.pki.trust import Trust
from veilsum.agents.transport import guard, zenoh_config
from veilsum.agents.transport import zenoh as transport
from veilsum.agents.transport import zenoh_config as names
from veilsum.agents.transport.admission import PeerAdmission
from veilsum.agents.transport.base import TransportNotice
from veilsum.agents.transport.channels import Channels
from veilsum.agents.transport.zenoh import ZenohTransport
from veilsum.agents.versions import WIRE
from veilsum.agents.wire import encode

PAIR, LINK = {"p": ["a"], "q": ["b"]}, [("a", "b")]
HERE = ("localhost", "127.0.0.1")
B_TO_A = names.data_key("test", "q", "p", "b", "a")


@pytest.fixture
def home(tmp_path: Any) -> Any:
    made = Authority.create(tmp_path / "ca")
    for name in ("p", "q"):
        made.issue(name, HERE)
    return made


class Watched(Devices):
    """Devices that follow their certificates and the authority's deny list."""

    def __init__(self, home: Any) -> None:
        super().__init__("zenoh-mtls", PAIR, LINK, home)
        self.ahead = {"p": 0.0, "q": 0.0}  # seconds by which a device's clock is ahead

    def make(self, device: str) -> Any:
        made: Any = super().make(device)
        kept = self.authority.directory.parent / f"{device}.kept.json"
        made._watch = KeyWatch(
            self.authority.credentials(device),
            device,
            denied=self.authority.directory / "denied.json",
            kept=kept,
            wall=lambda: time.time() + self.ahead[device],
            pause=0.1,
        )
        return made

    def __enter__(self) -> Self:
        return self

    def up(self, agent: str = "a", peer: str = "b") -> bool:
        return self.ears_of(agent).is_up(agent, peer)

    def reasons(self, device: str) -> str:
        return "\n".join(refused.reason for refused in self.ears[device].refused())

    def notices(self, device: str, kind: str) -> list[str]:
        heard = [arrival for _, arrival in self.ears[device].heard]
        return [
            each.text for each in heard if isinstance(each, TransportNotice) and each.kind == kind
        ]

    def renewed_since(self, device: str, count: int) -> bool:
        return len(self.notices(device, "renewed")) > count

    def talk(self, now: int) -> None:
        """Both ends hear each other."""
        for message in (totals("a", "b", now), totals("b", "a", now)):
            self.send(message)
            wait_for(partial(has, self.ears_of(message.receiver), message), f"message {now}")


@pytest.fixture
def pair(home: Any) -> Any:
    with Watched(home) as devices:
        devices.start()
        devices.wait_until_linked()
        devices.talk(1)
        yield devices


def channel(devices: Any, device: str, peer: str) -> Any:
    return devices.transports[device]._guard.channels.channel(peer)


def test_messages_are_sealed_between_those_who_have_proved_themselves(pair: Any) -> None:
    overheard: list[Any] = []
    stranger = names.key_prefix("test", "*", "p")
    subscriber = pair.transports["p"]._session.declare_subscriber(
        f"{stranger}/data/**", lambda sample: overheard.append(bytes(sample.payload))
    )
    pair.talk(5)
    wait_for(lambda: overheard, "what zenoh carries")
    assert encode(totals("b", "a", 5)) not in overheard
    assert channel(pair, "p", "q").certificate.serial_number
    subscriber.undeclare()


@pytest.mark.parametrize("who", ["p", "q"])
@pytest.mark.parametrize("new_key", [False, True])
def test_a_renewal_is_taken_on_either_end_while_running(
    pair: Any, home: Any, who: str, new_key: bool
) -> None:
    """p listens and q connects; nothing that was sent last is lost."""
    other = "q" if who == "p" else "p"
    before = channel(pair, other, who).certificate.serial_number
    pair.send(totals("a", "b", 2))
    pair.send(totals("b", "a", 2))
    home.issue(who, renew=True, new_key=new_key)
    wait_for(lambda: pair.notices(who, "renewed"), "the renewal")
    wait_for(
        lambda: (found := channel(pair, other, who)) and found.certificate.serial_number != before,
        "a proof with the new certificate",
    )
    wait_for(lambda: pair.up() and pair.up("b", "a"), "both to be up")
    for message in (totals("a", "b", 2), totals("b", "a", 2)):
        wait_for(partial(has, pair.ears_of(message.receiver), message), "what was sent last")
    pair.talk(3)


def test_files_that_are_replaced_while_they_are_taken_are_read_once_more(
    pair: Any, home: Any, monkeypatch: Any
) -> None:
    """Otherwise the thread that follows them ends, and the agent is deaf from then on."""
    usual, failed = Channels.__init__, list[str]()
    monkeypatch.setattr(transport, "AGAIN", 0.1)

    def fails_once(self: Any, *parts: Any) -> None:
        if not failed:
            failed.append("once")
            raise FileNotFoundError(2, "p.pem is being replaced")
        usual(self, *parts)

    monkeypatch.setattr(Channels, "__init__", fails_once)
    before = channel(pair, "q", "p").certificate.serial_number
    home.issue("p", renew=True)
    wait_for(
        lambda: (found := channel(pair, "q", "p")) and found.certificate.serial_number != before,
        "a proof with the new certificate",
    )
    assert failed == ["once"]
    assert any("it is tried again" in text for text in pair.notices("p", "certificate"))
    wait_for(lambda: pair.up() and pair.up("b", "a"), "both to be up")
    pair.talk(4)


def test_renewals_before_each_end_keep_a_link_beyond_all_of_them(home: Any) -> None:
    def short() -> Any:
        return dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5)

    for name in ("p", "q"):
        home.issue(name, not_after=short(), renew=True)
    with Watched(home) as devices:
        devices.start()
        devices.wait_until_linked()
        first = channel(devices, "p", "q").expires
        for number in range(1, 5):
            devices.talk(number)
            for name in ("p", "q"):
                count = len(devices.notices(name, "renewed"))
                home.issue(name, not_after=short(), renew=True)
                wait_for(partial(devices.renewed_since, name, count), "a renewal")
            wait_for(lambda: devices.up() and devices.up("b", "a"), "both to be up")
            time.sleep(1.5)
        assert time.time() > first, "the first certificates have ended"
        wait_for(lambda: devices.up() and devices.up("b", "a"), "both to be up")
        devices.talk(9)


def test_files_that_do_not_fit_leave_the_links_as_they_are(pair: Any, home: Any) -> None:
    key = home.credentials("q").key
    good = key.read_bytes()
    key.write_bytes(home.credentials("p").key.read_bytes())
    wait_for(lambda: pair.notices("q", "certificate"), "a warning")
    assert "the former stay in use" in pair.notices("q", "certificate")[0]
    pair.talk(4)
    key.write_bytes(good)


def lenient(monkeypatch: Any) -> None:
    """zenoh's TLS closes no link at the end of a certificate."""
    plain = zenoh_config._tls
    monkeypatch.setattr(
        zenoh_config, "_tls", lambda found: {**plain(found), "close_link_on_expiration": False}
    )


def ending(home: Any, seconds: float) -> dt.datetime:
    end = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
    home.issue("q", HERE, not_after=end, renew=True)
    return end.replace(microsecond=0)


def test_a_member_is_held_to_the_end_of_its_certificate_by_our_own_handshake(
    home: Any, monkeypatch: Any
) -> None:
    lenient(monkeypatch)
    end = ending(home, 4).timestamp()
    with Watched(home) as devices:
        devices.start()
        devices.wait_until_linked()
        devices.talk(1)
        wait_for(lambda: not devices.up(), "a to miss b")
        assert time.time() >= end
        devices.send(totals("b", "a", 2))
        time.sleep(1.5)
        assert not devices.up(), "it does not come back"
        assert not has(devices.ears_of("a"), totals("b", "a", 2))
        assert "expired at" in devices.reasons("p")


def test_a_weakened_twin_that_trusts_zenoh_alone_goes_on_after_the_end(
    home: Any, monkeypatch: Any
) -> None:
    lenient(monkeypatch)
    forever = float("inf")
    monkeypatch.setattr(Trust, "refusal", lambda *_: "")
    plain = Channels._agree
    monkeypatch.setattr(Channels, "_agree", lambda *given: plain(*given)._replace(expires=forever))
    end = ending(home, 4).timestamp()
    with Watched(home) as devices:
        devices.start()
        devices.wait_until_linked()
        time.sleep(max(0.0, end + 1.0 - time.time()))
        devices.talk(2)


def test_a_link_that_tls_lets_through_after_the_end_is_closed_again_and_again(pair: Any) -> None:
    """As in the second after the end, for as long as it takes: p's clock is past it, TLS's is not."""
    pair.ahead["p"] = channel(pair, "p", "q").expires - time.time() + 1.0
    wait_for(lambda: not pair.up(), "a to miss b")

    def closed() -> list[str]:
        return [r.reason for r in pair.ears["p"].refused() if r.peer == "q"]

    count = len(closed())
    wait_for(lambda: len(closed()) > count + 2, "it to be refused once more")
    assert not pair.up()
    assert any("q at tls/127.0.0.1" in reason for reason in closed()), "who"
    assert all("is refused: its certificate" in reason for reason in closed()), "why"
    pair.send(totals("b", "a", 7))
    time.sleep(0.5)
    assert not has(pair.ears_of("a"), totals("b", "a", 7))
    pair.ahead["p"] = 0.0
    wait_for(lambda: pair.up() and pair.up("b", "a"), "the clock to be right again")
    pair.talk(8)


def test_a_denied_name_loses_its_links_and_gets_none_again(pair: Any, home: Any) -> None:
    home.revoke("q", reason="left")
    wait_for(lambda: not pair.up(), "a to miss b")
    wait_for(lambda: pair.notices("p", "denied"), "the notice")
    assert "deny list 1 is in use" in pair.notices("p", "denied")[0]
    wait_for(lambda: "its name is on deny list 1" in pair.reasons("p"), "a line")
    pair.send(totals("b", "a", 7))
    time.sleep(1.5)
    assert not pair.up()
    assert not has(pair.ears_of("a"), totals("b", "a", 7))
    pair.transports["p"].close()
    (home.directory / "denied.json").unlink()
    pair.ears["p"].heard.clear()
    pair.start("p")
    time.sleep(1.5)
    assert not pair.up(), "the list was kept"


def test_who_is_denied_is_not_called_again(pair: Any, home: Any) -> None:
    caller = next(name for name in ("p", "q") if pair.transports[name]._calling)
    (called,) = pair.transports[caller]._calling
    home.revoke(called)
    wait_for(lambda: not pair.transports[caller]._calling, "a session without it")
    wait_for(lambda: not pair.transports[caller]._guard.links(), "no link")
    time.sleep(1.0)  # sessions call ten times in it
    assert not pair.transports[caller]._guard.links()


def test_a_weakened_twin_that_does_not_follow_the_list_goes_on(home: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(Trust, "refresh", lambda _: [])
    with Watched(home) as devices:
        devices.start()
        devices.wait_until_linked()
        home.revoke("q")
        time.sleep(1.0)
        devices.talk(2)


def stolen(home: Any, folder: Any) -> Any:
    """A copy of q's files, before its key is replaced."""
    folder.mkdir()
    found = home.credentials("q")
    copies = [folder / file.name for file in found]
    for file, copy in zip(found, copies, strict=True):
        copy.write_bytes(file.read_bytes())
        copy.chmod(0o600)
    return type(found)(*copies)


def thief_of(devices: Any, credentials: Any) -> Any:
    """A device of its own under q's name, with q's old files; it knows the protocol."""
    made = ZenohTransport(
        "test",
        "q",
        connect={"p": f"127.0.0.1:{devices.ports['p']}"},
        devices={"a": "p", "b": "q"},
        credentials=credentials,
    )
    made.attach("b", ["a"])
    return made


def test_an_exposed_key_is_replaced_and_its_thief_shut_out_while_all_run(
    pair: Any, home: Any, tmp_path: Any
) -> None:
    copies = stolen(home, tmp_path / "stolen")
    home.issue("q", renew=True, new_key=True)
    wait_for(lambda: pair.notices("q", "renewed"), "the new key")
    home.revoke("q", old=True, reason="exposed")
    wait_for(lambda: pair.notices("p", "denied"), "the list")
    wait_for(lambda: pair.up() and pair.up("b", "a"), "the owner to be up")
    heard: list[Any] = []
    thief = thief_of(pair, copies)
    thief.open(lambda agent, arrival: heard.append((agent, arrival)))
    try:
        wait_for(lambda: "exposed" in pair.reasons("p"), "the thief to be refused")
        thief.send(totals("b", "a", 66))
        with session(pair.ports["p"], copies) as bare:  # and without any proof
            say(bare, B_TO_A, encode(totals("b", "a", 67)))
            pair.talk(5)
            wait_for(lambda: "without a proof" in pair.reasons("p"), "the bare one to be refused")
        pair.talk(6)
    finally:
        thief.close()
    received = [arrival.message for _, arrival in heard if type(arrival).__name__ == "Received"]
    assert received == [], "what p says to q is sealed for q"
    for number in (66, 67):
        assert not has(pair.ears_of("a"), totals("b", "a", number))


def test_a_weakened_twin_that_hears_without_proofs_believes_the_thief(
    pair: Any, home: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    copies = stolen(home, tmp_path / "stolen")
    home.issue("q", renew=True, new_key=True)
    home.revoke("q", old=True)
    wait_for(lambda: pair.notices("p", "denied"), "the list")
    monkeypatch.setattr(PeerAdmission, "admits_plain", lambda *_: True)
    with session(pair.ports["p"], copies) as bare:
        say(bare, B_TO_A, encode(totals("b", "a", 67)))
        wait_for(lambda: has(pair.ears_of("a"), totals("b", "a", 67)), "the forgery")


def test_a_link_without_a_proof_is_closed_where_one_is_required(
    pair: Any, home: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(guard, "UNPROVED", 0.5)
    copies = stolen(home, tmp_path / "stolen")
    with session(pair.ports["p"], copies) as bare:
        wait_for(lambda: bare.info.links(), "the link")
        wait_for(lambda: not bare.info.links(), "it to be closed")
    wait_for(lambda: "it does not prove its certificate" in pair.reasons("p"), "the reason")
    pair.talk(5)


def test_a_member_of_an_earlier_version_is_heard_by_its_tls(home: Any) -> None:
    """It has no mark, sends no proof, and neither seals nor expects a seal."""
    with Watched(home) as devices:
        devices.start("p")
        heard: list[bytes] = []
        with session(devices.ports["p"], home.credentials("q")) as old:
            old.declare_subscriber(
                names.data_key("test", "p", "q", "a", "b"),
                lambda sample: heard.append(bytes(sample.payload)),
            )
            token = old.liveliness().declare_token(
                names.liveliness_key("test", "q", "p", "b", str(old.zid()))
            )
            wait_for(devices.up, "a to see b")
            say(old, B_TO_A, encode(totals("b", "a", 3)))
            wait_for(lambda: has(devices.ears_of("a"), totals("b", "a", 3)), "its message")
            devices.send(totals("a", "b", 4))
            wait_for(lambda: encode(totals("a", "b", 4), WIRE.oldest) in heard, "ours, as it is")
            token.undeclare()
        devices.start("q")
        devices.wait_until_linked()
        devices.talk(5)
        with session(devices.ports["p"], home.credentials("q")) as old:
            say(old, B_TO_A, encode(totals("b", "a", 6)))
            wait_for(lambda: "without a proof" in devices.reasons("p"), "it to be refused now")
        assert not has(devices.ears_of("a"), totals("b", "a", 6))


def test_a_session_that_cannot_be_opened_again_is_tried_until_it_can(
    pair: Any, home: Any, monkeypatch: Any
) -> None:
    from veilsum.errors import AgentError

    plain, failures = ZenohTransport._open_session, [1, 1]

    def taken(self: Any) -> Any:
        if failures:
            failures.pop()
            raise AgentError("the port is taken")
        return plain(self)

    monkeypatch.setattr(transport, "AGAIN", 0.1)
    monkeypatch.setattr(ZenohTransport, "_open_session", taken)
    home.issue("p", renew=True)
    wait_for(lambda: len(pair.notices("p", "certificate")) == 2, "two attempts")
    wait_for(lambda: pair.up() and pair.up("b", "a"), "the third")
    pair.send(totals("a", "b", 4))
    pair.talk(5)


def test_zenoh_refuses_what_it_refused_before(pair: Any, home: Any) -> None:
    yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    home.issue("old", HERE, not_after=yesterday)
    with pytest.raises(zenoh.ZError, match="CertificateExpired"):
        session(pair.ports["p"], home.credentials("old"))
    pair.talk(2)


def test_a_refused_handshake_is_known_by_the_end_of_its_certificate(pair: Any) -> None:
    end = int(channel(pair, "p", "q").expires)
    pair.transports["p"].handshake_refused("its certificate expired", end)
    pair.transports["p"].handshake_refused("its certificate expired", end - 1)
    known, unknown = pair.ears["p"].refused()[-2:]
    assert (known.peer, unknown.peer) == ("q", "unknown")
    assert "a handshake of q was refused: its certificate expired" in known.reason
