"""Intruders over real links: what they say is never delivered, and the others go on.

Each attack is made with a bare zenoh session of its own, which obeys no rule but those of the
device it attacks. The weakened twins at the end weaken that device, and there the attack succeeds.
"""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
import zenoh

from tests.agents.transport.transport_cases import Devices, free_port, hello, totals, wait_for
from veilsum.agents.transport import zenoh as transport
from veilsum.agents.transport import zenoh_config as names
from veilsum.agents.transport.admission import PeerAdmission
from veilsum.agents.transport.zenoh_config import settings
from veilsum.agents.wire import MOST_BYTES, encode

LINE = {"p": ["a"], "q": ["b"], "r": ["c"]}
LINKS = [("a", "b"), ("b", "c")]
A_TO_B = names.data_key("test", "p", "q", "a", "b")
C_TO_B = names.data_key("test", "r", "q", "c", "b")


@pytest.fixture
def pair(authority: Any) -> Any:
    """p and q run; r is a neighbour of q that the test plays itself."""
    with Devices("zenoh-mtls", LINE, LINKS, authority) as devices:
        devices.start("p", "q")
        wait_for(lambda: devices.ears_of("a").is_up("a", "b"), "a to see b")
        wait_for(lambda: devices.ears_of("b").is_up("b", "a"), "b to see a")
        yield devices


def session(
    port: Any,
    credentials: Any = None,
    *,
    mutual: Any = True,
    listen: Any = (),
    insecure: Any = False,
) -> Any:
    """A bare session that connects to a port, or gives up at once."""
    config = zenoh.Config()
    scheme = "tcp" if insecure else "tls"
    chosen = {
        "mode": "peer",
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "listen/endpoints": list(listen),
        "connect/endpoints": [f"{scheme}/127.0.0.1:{port}"] if port else [],
        "connect/timeout_ms": 0,
        "connect/exit_on_failure": True,
        "transport/shared_memory/enabled": False,
    }
    if credentials:
        shown = {"root_ca_certificate": str(credentials.ca), "enable_mtls": mutual}
        for side in ("listen", "connect") if mutual else ():
            shown[f"{side}_certificate"] = str(credentials.certificate)
            shown[f"{side}_private_key"] = str(credentials.key)
        chosen["transport/link/tls"] = shown
    for key, value in chosen.items():
        config.insert_json5(key, json.dumps(value))
    return zenoh.open(config)


def say(attacker: Any, key: Any, data: Any, times: Any = 1) -> None:
    for _ in range(times):
        attacker.put(key, data, congestion_control=zenoh.CongestionControl.BLOCK)


def still_works(devices: Any, now: Any = 77) -> None:
    devices.send(totals("a", "b", now))
    wait_for(lambda: totals("a", "b", now) in devices.ears_of("b").messages("b"), "a's message")
    assert devices.ears_of("b").is_up("b", "a")


def heard_from(devices: Any, sender: Any) -> Any:
    return [m for m in devices.ears_of("b").messages("b") if m.sender == sender]


def test_who_has_no_certificate_gets_no_link(pair: Any, authority: Any) -> None:
    with pytest.raises(zenoh.ZError, match="CertificateRequired"):
        session(pair.ports["q"], authority.credentials("r"), mutual=False)
    still_works(pair)


def test_a_certificate_of_another_authority_gets_no_link(
    pair: Any, authority: Any, other_authority: Any
) -> None:
    forged = other_authority.credentials("q")._replace(ca=authority.directory / "ca.pem")
    with pytest.raises(zenoh.ZError, match=r"alert|certificate"):
        session(pair.ports["q"], forged)
    still_works(pair)


def test_an_expired_certificate_gets_no_link(pair: Any, authority: Any) -> None:
    with pytest.raises(zenoh.ZError, match="CertificateExpired"):
        session(pair.ports["q"], authority.credentials("old"))
    still_works(pair)


def test_plain_tcp_gets_no_link(pair: Any) -> None:
    with pytest.raises(zenoh.ZError):
        session(pair.ports["q"], insecure=True)
    still_works(pair)


def test_a_stranger_with_a_good_certificate_is_named_and_not_heard(
    pair: Any, authority: Any
) -> None:
    with session(pair.ports["q"], authority.credentials("stranger")) as attacker:
        wait_for(lambda: pair.ears["q"].refused(), "the stranger to be named")
        for key in (A_TO_B, C_TO_B, names.data_key("test", "stranger", "q", "c", "b")):
            parsed = names.parse_key(key)
            assert parsed is not None
            say(attacker, key, encode(totals(parsed.sender, "b", 66)))
        token = attacker.liveliness().declare_token(
            names.liveliness_key("test", "r", "q", "c", "1")
        )
        time.sleep(0.3)
        token.undeclare()
    assert [refused.peer for refused in pair.ears["q"].refused()] == ["stranger"]
    assert pair.ears_of("b").messages("b") == []
    assert not pair.ears_of("b").is_up("b", "c")
    still_works(pair)


def test_a_neighbour_cannot_speak_under_anothers_name(pair: Any, authority: Any) -> None:
    with session(pair.ports["q"], authority.credentials("r")) as attacker:
        say(attacker, A_TO_B, encode(totals("a", "b", 66)), times=20)
        attacker.delete(A_TO_B)
        token = attacker.liveliness().declare_token(
            names.liveliness_key("test", "p", "q", "a", "1")
        )
        say(
            attacker, C_TO_B, encode(totals("c", "b", 5))
        )  # its own message comes after, on one link
        wait_for(lambda: heard_from(pair, "c"), "the neighbour's own message")
        token.undeclare()
    time.sleep(0.1)
    assert heard_from(pair, "a") == []
    assert pair.ears_of("b").is_up("b", "a")
    still_works(pair)


def test_a_neighbour_cannot_listen_to_what_is_said_to_another(pair: Any, authority: Any) -> None:
    overheard = []
    with session(pair.ports["q"], authority.credentials("r")) as attacker:
        for key in ("**", "veilsum/**", names.data_key("test", "q", "p", "b", "a")):
            attacker.declare_subscriber(key, lambda s: overheard.append(str(s.key_expr)))
        mine = []
        attacker.declare_subscriber("veilsum/test/*/r/**", lambda s: mine.append(str(s.key_expr)))
        token = attacker.liveliness().declare_token(
            names.liveliness_key("test", "r", "q", "c", "1")
        )
        wait_for(lambda: pair.ears_of("b").is_up("b", "c"), "r to be there")
        pair.send(totals("b", "a"))
        pair.send(totals("b", "c"))
        wait_for(lambda: mine, "what is said to r")
        wait_for(lambda: pair.ears_of("a").messages("a"), "what is said to p")
        time.sleep(0.2)
        token.undeclare()
    assert set(overheard) <= {names.data_key("test", "q", "r", "b", "c")}


def test_what_is_no_message_is_refused_by_name(pair: Any, authority: Any) -> None:
    good, draw = encode(totals("c", "b")), random.Random(5)
    bad = {
        "oversized": bytes(MOST_BYTES + 1),
        "truncated": good[:-1],
        "longer": good + b"\0",
        "random": draw.randbytes(100),
        "empty": b"",
        "replayed": encode(totals("a", "b", 66)),  # the words of another
        "relayed": encode(hello("b", "c")),
    }
    with session(pair.ports["q"], authority.credentials("r")) as attacker:
        for data in bad.values():
            say(attacker, C_TO_B, data)
        say(attacker, names.data_key("test", "r", "q", "c", "nobody"), good)
        wait_for(lambda: len(pair.ears["q"].refused()) == len(bad) + 1, "refusals")
        say(attacker, C_TO_B, good)
        wait_for(lambda: heard_from(pair, "c"), "a good message of the same peer")
    refused = pair.ears["q"].refused()
    assert [r.peer for r in refused] == ["c"] * len(bad) + ["c on r"]
    assert "65,537 bytes" in refused[0].reason
    assert "'a'" in refused[5].reason
    assert pair.ears_of("b").messages("b") == [totals("c", "b")]
    still_works(pair)


def test_what_is_far_too_long_is_dropped_on_the_way(pair: Any, authority: Any) -> None:
    with session(pair.ports["q"], authority.credentials("r")) as attacker:
        say(attacker, C_TO_B, bytes(4 << 20))
        time.sleep(0.3)
    assert heard_from(pair, "c") == []
    still_works(pair)


def test_a_link_ends_when_its_certificate_does(authority: Any) -> None:
    import datetime as dt

    end = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=3)
    authority.issue("q", ("127.0.0.1",), not_after=end, force=True)
    try:
        with Devices("zenoh-mtls", {"p": ["a"], "q": ["b"]}, [("a", "b")], authority) as devices:
            devices.start()
            devices.wait_until_linked()
            wait_for(lambda: not devices.ears_of("a").is_up("a", "b"), "a to miss b", 6)
            assert dt.datetime.now(dt.UTC) > end - dt.timedelta(seconds=1)
    finally:
        authority.issue("q", ("localhost", "127.0.0.1"), force=True)


@pytest.mark.parametrize(
    ("shown", "words"),
    [("old", "expired"), ("r", "a certificate for 'r'"), ("other", "not accepted")],
)
def test_who_connects_says_why_there_is_no_link(
    shown: Any, words: Any, authority: Any, other_authority: Any, monkeypatch: Any
) -> None:
    """p wants to reach q, and finds somebody else where q should listen."""
    monkeypatch.setattr(transport, "FIRST_PROBE", 0.2)
    found = other_authority.credentials("q") if shown == "other" else authority.credentials(shown)
    port = free_port()
    with session(None, found, listen=[f"tls/127.0.0.1:{port}"]):
        hosts, links = {"q": ["b"], "p": ["a"]}, [("a", "b")]
        with Devices("zenoh-mtls", hosts, links, authority) as devices:
            devices.ports["q"] = port
            devices.start("p")
            ears = devices.ears["p"]
            wait_for(lambda: any(r.peer == "b" for r in ears.refused()), "a reason")
            (reason,) = {r.reason for r in ears.refused() if r.peer == "b"}
            assert "no link to q" in reason
            assert words in reason


def _weakened(monkeypatch: Any) -> None:
    def without_fence(*arguments: Any) -> Any:
        return {k: v for k, v in settings(*arguments).items() if k != "access_control"}

    monkeypatch.setattr(transport, "settings", without_fence)
    monkeypatch.setattr(PeerAdmission, "admits_plain", lambda *_: True)  # and hears without proofs


def test_a_weakened_twin_without_access_control_believes_a_forger(
    authority: Any, monkeypatch: Any
) -> None:
    _weakened(monkeypatch)
    with Devices("zenoh-mtls", LINE, LINKS, authority) as devices:
        devices.start("p", "q")
        wait_for(lambda: devices.ears_of("b").is_up("b", "a"), "b to see a")
        with session(devices.ports["q"], authority.credentials("r")) as attacker:
            say(attacker, A_TO_B, encode(totals("a", "b", 66)))
            wait_for(lambda: totals("a", "b", 66) in heard_from(devices, "a"), "the forgery")


def test_a_weakened_twin_without_access_control_is_overheard(
    authority: Any, monkeypatch: Any
) -> None:
    _weakened(monkeypatch)
    overheard = []
    with Devices("zenoh-mtls", LINE, LINKS, authority) as devices:
        devices.start("p", "q")
        wait_for(lambda: devices.ears_of("b").is_up("b", "a"), "b to see a")
        with session(devices.ports["q"], authority.credentials("r")) as attacker:
            attacker.declare_subscriber("**", lambda s: overheard.append(str(s.key_expr)))
            time.sleep(0.3)
            devices.send(totals("b", "a"))
            wait_for(lambda: names.data_key("test", "q", "p", "b", "a") in overheard, "a leak")
