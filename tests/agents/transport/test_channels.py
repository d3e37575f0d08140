"""Proofs of certificates and sealed messages: what is accepted, and what a thief can do with less."""

from __future__ import annotations

import time
from typing import Any

import pytest

from veilsum.agents.pki import Authority, Trust
from veilsum.agents.transport import channels as module
from veilsum.agents.transport.channels import Channels, DeviceProof, ProofError

KEY = "veilsum/test/p/q/data/a/b"


@pytest.fixture
def home(tmp_path: Any) -> Any:
    made = Authority.create(tmp_path / "ca")
    for name in ("p", "q"):
        made.issue(name)
    return made


class End:
    """One end of a link, with a clock of its own."""

    def __init__(self, home: Any, device: str, credentials: Any = None, session: str = "") -> None:
        self.ahead = 0.0
        self.device = device
        trust = Trust(
            home.directory / "ca.pem",
            home.directory / "denied.json",
            wall=lambda: time.time() + self.ahead,
        )
        shown = credentials or home.credentials(device)
        self.made = Channels("test", device, session or f"session of {device}", shown, trust)

    def hear(self, other: End, data: bytes) -> Any:
        return self.made.receive(other.device, data)


def agree(one: End, two: End) -> int:
    """Introduce two ends to each other; how many proofs that took."""
    waiting, count = [(one, two, one.made.introduce(two.device))], 0
    while waiting:
        source, target, data = waiting.pop(0)
        count += 1
        assert count < 10, "they answer each other without end"
        if target.hear(source, data).answer:
            waiting.append((target, source, target.made.introduce(source.device)))
    return count


def said(source: End, target: End, text: bytes = b"text") -> bytes:
    sealed = source.made.seal(target.device, KEY, text)
    assert sealed is not None
    return target.made.open(source.device, KEY, *sealed)


def test_two_devices_agree_and_hear_each_other(home: Any) -> None:
    p, q = End(home, "p"), End(home, "q")
    assert p.made.seal("q", KEY, b"text") is None
    assert agree(p, q) == 3
    assert said(p, q) == said(q, p) == b"text"
    assert not p.hear(q, q.made.introduce("p")).answer, "all is said"
    p.made.forget("q")
    assert agree(p, q) == 2, "who has forgotten asks, and is answered"
    assert said(q, p) == b"text"


def test_both_may_speak_first(home: Any) -> None:
    p, q = End(home, "p"), End(home, "q")
    first, second = p.made.introduce("q"), q.made.introduce("p")
    answers = [(p, q, p.made.introduce("q")) for _ in [0] if p.hear(q, second).answer] + [
        (q, p, q.made.introduce("p")) for _ in [0] if q.hear(p, first).answer
    ]
    for source, target, data in answers:
        assert target.hear(source, data).opened
    assert said(p, q) == said(q, p) == b"text"


def test_a_proof_of_an_earlier_session_opens_nothing(home: Any) -> None:
    p, q = End(home, "p"), End(home, "q")
    agree(p, q)
    old = q.made.introduce("p")
    again = End(home, "p")
    found = again.hear(q, old)
    assert not found.opened
    assert again.made.channel("q") is None, "it answers another ephemeral key"


@pytest.mark.parametrize("field", DeviceProof._fields)
def test_a_proof_that_was_changed_is_refused(home: Any, field: str) -> None:
    p, q = End(home, "p"), End(home, "q")
    agree(p, q)
    proof = DeviceProof.decode(q.made.introduce("p"))
    other = {
        "certificate": End(home, "p").made._certificate,
        "session": b"another",
        "ephemeral": bytes(range(32)),
        "answers": bytes(32),
        "asks": b"!",
        "signature": proof.signature[:-1] + bytes([proof.signature[-1] ^ 1]),
    }
    with pytest.raises(ProofError):
        p.hear(q, proof._replace(**{field: other[field]}).encode())
    assert said(q, p) == b"text", "the channel is as it was"


def test_what_is_no_proof_is_refused(home: Any) -> None:
    p, q = End(home, "p"), End(home, "q")
    good = q.made.introduce("p")
    for bad in (b"", good[:-1], good + b"\0", b"x" * 100, module.DOMAIN, good[1:], bytes(10_000)):
        with pytest.raises(ProofError, match="that is none"):
            p.hear(q, bad)


def test_a_proof_is_for_one_receiver_and_one_network(home: Any) -> None:
    home.issue("r")
    p, q, r = End(home, "p"), End(home, "q"), End(home, "r")
    with pytest.raises(ProofError, match="does not prove"):
        r.hear(q, q.made.introduce("p"))
    with pytest.raises(ProofError, match="does not prove"):
        p.made.receive("r", q.made.introduce("p"))
    other = Channels("other", "p", "s", home.credentials("p"), p.made.trust)
    with pytest.raises(ProofError, match="does not prove"):
        other.receive("q", q.made.introduce("p"))


def test_a_certificate_of_another_name_or_authority_is_refused(home: Any, tmp_path: Any) -> None:
    p, foreign = End(home, "p"), Authority.create(tmp_path / "other")
    with pytest.raises(ProofError, match="another authority"):
        p.hear(q := End(home, "q", foreign.issue("q")), q.made.introduce("p"))
    with pytest.raises(ProofError, match="is for 'p', expected 'q'"):
        p.hear(q := End(home, "q", home.credentials("p")), q.made.introduce("p"))


def test_nothing_is_taken_after_the_end_of_a_certificate(home: Any) -> None:
    p, q = End(home, "p"), End(home, "q")
    agree(p, q)
    channel = p.made.channel("q")
    assert channel is not None
    assert p.made.next_end() == channel.expires
    late = q.made.seal("p", KEY, b"late")
    assert late is not None
    p.ahead = channel.expires - time.time() + 0.001
    with pytest.raises(ProofError, match="has not proved"):
        p.made.open("q", KEY, *late)
    assert p.made.seal("q", KEY, b"secret") is None, "nor is anything sent to it"
    ((device, session, reason),) = p.made.review()
    assert (device, session) == ("q", "session of q")
    assert "expired at" in reason
    with pytest.raises(ProofError, match="expired at"):
        p.hear(q, q.made.introduce("p"))


def test_a_weakened_twin_that_looks_at_the_start_only_goes_on_after_the_end(
    home: Any, monkeypatch: Any
) -> None:
    p, q = End(home, "p"), End(home, "q")
    agree(p, q)
    monkeypatch.setattr(Channels, "channel", lambda self, device: self._channels.get(device))
    p.ahead = 1e9
    assert said(q, p, b"late") == b"late"


def thief(home: Any) -> tuple[End, End, End]:
    """The key of q was exposed and replaced: p, q with the new key, and who has the old one."""
    stolen = home.directory / "stolen"
    stolen.mkdir()
    old = home.credentials("q")
    copies = [stolen / file.name for file in old]
    for file, copy in zip(old, copies, strict=True):
        copy.write_bytes(file.read_bytes())
        copy.chmod(0o600)
    home.issue("q", renew=True, new_key=True)
    home.revoke("q", old=True, reason="exposed")
    return End(home, "p"), End(home, "q"), End(home, "q", type(old)(*copies), "of the thief")


def test_the_thief_of_a_denied_key_is_neither_heard_nor_spoken_to(home: Any) -> None:
    p, q, stolen = thief(home)
    assert p.made.must_prove("q"), "some certificates of it are denied"
    agree(p, q)
    with pytest.raises(ProofError, match=r"key of this certificate is on deny list 1 .*exposed"):
        p.hear(stolen, stolen.made.introduce("p"))
    assert said(q, p) == b"text", "the owner of the name goes on"
    stolen.hear(p, p.made.introduce("q"))  # p's proof reaches all who have a link in q's name
    sealed = p.made.seal("q", KEY, b"secret")
    assert sealed is not None
    with pytest.raises(ProofError):
        stolen.made.open("p", KEY, *sealed)
    forged = stolen.made.seal("p", KEY, b"forged")
    if forged is not None:
        with pytest.raises(ProofError, match="another key"):
            p.made.open("q", KEY, *forged)


def test_a_weakened_twin_without_the_deny_list_listens_to_the_thief(
    home: Any, monkeypatch: Any
) -> None:
    from veilsum.agents.pki.denied import DenyList

    p, _, stolen = thief(home)
    monkeypatch.setattr(DenyList, "about", lambda *_: "")
    agree(p, stolen)
    assert said(stolen, p, b"forged") == b"forged"


def test_a_seal_holds_for_its_key_direction_and_contents(home: Any) -> None:
    p, q = End(home, "p"), End(home, "q")
    agree(p, q)
    made = p.made.seal("q", KEY, b"text")
    assert made is not None
    sealed, attached = made
    for data, key, more in (
        (sealed[:-1] + bytes([sealed[-1] ^ 1]), KEY, attached),
        (sealed, KEY + "x", attached),
        (sealed, KEY, attached[:-1] + bytes([attached[-1] ^ 1])),
        (sealed, KEY, attached[:-1]),
        (sealed, KEY, b""),
        (b"", KEY, attached),
    ):
        with pytest.raises(ProofError):
            q.made.open("p", key, data, more)
    with pytest.raises(ProofError):
        p.made.open("q", KEY, sealed, attached)  # reflected
    assert b"text" not in sealed


def test_no_number_is_used_twice_under_a_key(home: Any) -> None:
    """Also if the peer flaps between two sessions: both keys belong to one ephemeral of ours."""
    p, q, again = End(home, "p"), End(home, "q"), End(home, "q", session="second")
    seen = set()
    for other in (q, again, q, again, q):
        agree(p, other)
        for _ in range(5):
            sealed = p.made.seal("q", KEY, b"text")
            assert sealed is not None
            assert sealed[1] not in seen
            seen.add(sealed[1])


def test_a_name_that_has_proved_itself_must_go_on_doing_so(home: Any) -> None:
    p, q = End(home, "p"), End(home, "q")
    assert not p.made.must_prove("q"), "a member of an earlier version is heard by its TLS"
    agree(p, q)
    p.made.forget("q")
    assert p.made.must_prove("q")
    later = Channels("test", "p", "s", home.credentials("p"), p.made.trust, p.made.proved)
    assert later.must_prove("q"), "in the next session of the process too"


def test_who_is_released_is_heard_until_it_proves_itself_again(home: Any) -> None:
    p, q = End(home, "p"), End(home, "q")
    assert not p.made.forget_proof("q"), "there is nothing to forget"
    agree(p, q)
    assert p.made.forget_proof("q")
    assert p.made.must_prove("q"), "nobody is downgraded while its channel is open"
    assert said(q, p) == b"text"
    p.made.forget("q")
    assert not p.made.must_prove("q"), "it is gone, and may come back as an earlier version"
    agree(p, q)
    p.made.forget("q")
    why = p.made.must_prove("q")
    assert "did so before" in why
    assert "veilsum keys unproved q" in why


def test_release_does_not_undo_the_deny_list(home: Any) -> None:
    p, q, _ = thief(home)
    agree(p, q)
    p.made.forget_proof("q")
    p.made.forget("q")
    why = p.made.must_prove("q")
    assert "deny list" in why
    assert "unproved" not in why, "no remedy that does not help"
    home.revoke("q", reason="left the fleet")
    p.made.trust.refresh()
    assert p.made.must_prove("q").startswith("its name is on deny list 2")


def test_a_weakened_twin_that_asks_only_for_earlier_proofs_listens_to_the_thief(
    home: Any, monkeypatch: Any
) -> None:
    p, q, _ = thief(home)
    monkeypatch.setattr(Trust, "must_prove", lambda *_: False)
    agree(p, q)
    p.made.forget_proof("q")
    p.made.forget("q")
    assert not p.made.must_prove("q")


def test_a_connection_is_found_by_its_ends_and_no_descriptor_is_left_open() -> None:
    import os
    import socket

    from veilsum.agents.transport.sockets import close_connection

    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        two, _ = server.accept()
        other = socket.create_connection(server.getsockname())
        ends = ["tls/{}:{}".format(*one.getsockname()), "tls/{}:{}".format(*one.getpeername())]
        with one, two, other:
            before = len(os.listdir("/dev/fd"))
            for _ in range(20):
                assert not close_connection("tls/127.0.0.1:1", "tls/[::1]:2")
                assert not close_connection(ends[0], ends[0])
            assert close_connection(*ends)
            assert len(os.listdir("/dev/fd")) == before
            assert two.recv(1) == b"", "the peer sees the end"
            two.close()
            other.settimeout(0.05)
            with pytest.raises(TimeoutError):
                other.recv(1)
