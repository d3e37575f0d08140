"""An observer's certificate on the links of members: it says nothing, hears nothing, answers nothing.

It is signed by the same authority, so TLS lets it in; access control and the protocol keep it out. The
weakened twins lack access control, and there the observer is heard and overhears.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
import zenoh

from tests.agents.protocol.cases import small
from tests.agents.transport.test_transport_intruders import session
from tests.agents.transport.transport_cases import Devices, hello, totals, wait_for
from veilsum.agents.events import AgentReport, Received, Send, Started
from veilsum.agents.messages import Hello
from veilsum.agents.pki import Role
from veilsum.agents.protocol import Agent
from veilsum.agents.transport import zenoh as transport
from veilsum.agents.transport import zenoh_config as names
from veilsum.agents.transport.admission import PeerAdmission
from veilsum.agents.transport.zenoh import ZenohTransport
from veilsum.agents.transport.zenoh_config import settings, source_of
from veilsum.agents.wire import encode
from veilsum.errors import AgentError

PAIR = {"p": ["a"], "q": ["b"]}
LINKS = [("a", "b")]
A_TO_B = names.data_key("test", "p", "q", "a", "b")
B_TO_A = names.data_key("test", "q", "p", "b", "a")


@pytest.fixture(scope="session")
def observer(authority: Any) -> Any:
    """Called as a member is: its role must be enough."""
    from veilsum.agents.pki import Authority

    made = Authority(authority.directory)
    return made.issue("control-room", role=Role.OBSERVER)


def _without_access_control(monkeypatch: Any) -> None:
    def weakened(*arguments: Any) -> Any:
        return {k: v for k, v in settings(*arguments).items() if k != "access_control"}

    monkeypatch.setattr(transport, "settings", weakened)
    monkeypatch.setattr(PeerAdmission, "admits_plain", lambda *_: True)  # and hears without proofs


def _attempts(devices: Any, observer: Any) -> tuple[list[str], list[Any]]:
    """An observer subscribes to all, speaks as a member and under its own name, and answers queries."""
    overheard: list[str] = []
    asked: list[Any] = []
    with session(devices.ports["q"], observer) as attacker:
        attacker.declare_subscriber("**", lambda sample: overheard.append(str(sample.key_expr)))
        attacker.declare_queryable("veilsum/**", asked.append)
        for source in ("p", "observer:control-room", "control-room"):
            for message in (hello("a", "b"), totals("a", "b", 66)):
                key = names.data_key("test", source, "q", "a", "b")
                attacker.put(key, encode(message), congestion_control=zenoh.CongestionControl.BLOCK)
        token = attacker.liveliness().declare_token(
            names.liveliness_key("test", "p", "q", "z", "1")
        )
        time.sleep(0.3)
        for now in range(3):
            devices.send(totals("b", "a", now + 1))
            time.sleep(0.1)
        token.undeclare()
    return overheard, asked


@pytest.mark.parametrize("weakened", [False, True], ids=["as it is", "weakened twin"])
def test_an_observer_takes_no_part_in_rounds(
    weakened: bool, authority: Any, observer: Any, monkeypatch: Any
) -> None:
    if weakened:
        _without_access_control(monkeypatch)
    with Devices("zenoh-mtls", PAIR, LINKS, authority) as devices:
        devices.start("p", "q")
        devices.wait_until_linked()
        overheard, asked = _attempts(devices, observer)
        refused = [r for r in devices.ears["q"].refused() if r.peer == "observer:control-room"]
        assert refused, "the observer is named in the log"
        heard = devices.ears_of("b").messages("b")
        if weakened:
            assert B_TO_A in overheard
            assert totals("a", "b", 66) in heard
        else:
            assert {key for key in overheard if source_of(key) == "q"} == set()  # not its own
            assert asked == []
            assert heard == []
            assert devices.ears_of("b").is_up("b", "a")


def test_an_observer_with_a_members_name_is_no_member(authority: Any) -> None:
    """Its common name has the role in it, so that the name alone opens nothing."""
    from veilsum.agents.pki import Authority

    made = Authority.create(authority.directory.parent / "again", force=True)
    for name in ("p", "q"):
        made.issue(name, ("127.0.0.1",))
    other = Authority.create(authority.directory.parent / "namesake", force=True)
    for file in ("ca.key", "ca.pem"):  # the same authority, which forgot that p is a member
        (other.directory / file).write_bytes((made.directory / file).read_bytes())
    namesake = Authority(other.directory).issue("p", role=Role.OBSERVER)
    with Devices("zenoh-mtls", PAIR, LINKS, made) as devices:
        devices.start("q")
        with session(devices.ports["q"], namesake) as attacker:
            attacker.put(A_TO_B, encode(totals("a", "b", 66)))
            time.sleep(0.3)
        assert devices.ears_of("b").messages("b") == []
        member = made.credentials("p")
        with session(devices.ports["q"], member) as attacker:  # a member of that name is heard
            attacker.put(A_TO_B, encode(totals("a", "b", 66)))
            wait_for(lambda: devices.ears_of("b").messages("b"), "the member")


def test_no_member_is_called_like_an_observer(authority: Any) -> None:
    with pytest.raises(AgentError, match="marks observers"):
        ZenohTransport("n", "p", devices={"a": "p", "b": "observer:x"}, insecure=True)
    made = ZenohTransport(
        "n",
        "control-room",
        devices={"a": "control-room"},
        credentials=authority.issue("control-room", role=Role.OBSERVER, force=True),
    )
    made.attach("a", [])
    with pytest.raises(AgentError, match="is for an observer"):
        made.open(print)


def test_the_protocol_refuses_the_hello_of_one_that_is_no_neighbour() -> None:
    """Should one ever be delivered: no answer, no link, and it is reported."""
    terms = small(rounds=50)
    agent = Agent(terms, "0")
    agent.handle(Started(1))

    def hello_of(sender: str) -> Received:
        fields = (1, 1, terms.epoch, terms.digest, terms.field_digests)
        return Received(Hello(sender, "0", *fields))

    actions = agent.handle(hello_of("control-room"))
    assert not [a for a in actions if isinstance(a, Send)]
    assert "control-room" not in agent.links_status()
    (report,) = [a for a in actions if isinstance(a, AgentReport)]
    assert (report.kind, report.peer) == ("rejected", "control-room")
    accepted = agent.handle(hello_of("1"))  # the same of a neighbour is answered
    assert [a for a in accepted if isinstance(a, Send)]
