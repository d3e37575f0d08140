"""The settings of a session, the names of its keys, and what is refused before anything is opened."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
import zenoh
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.transport.transport_cases import totals
from veilsum._extras import install_command
from veilsum.agents.transport import zenoh_config as names
from veilsum.agents.transport.zenoh import Presence, ZenohTransport, load_zenoh
from veilsum.agents.transport.zenoh_config import Endpoint, access_control, settings
from veilsum.errors import AgentError, MissingExtraError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(TEXT, TEXT, TEXT, TEXT, TEXT)
def test_any_name_makes_a_key_and_comes_back(
    network: Any, source: Any, target: Any, sender: Any, receiver: Any
) -> None:
    key = names.data_key(network, source, target, sender, receiver)
    assert names.parse_key(key) == (source, target, "data", sender, receiver)
    assert str(zenoh.KeyExpr(key)) == key  # canonical, and without wildcards
    if source != "*" and target != "*":
        fence = zenoh.KeyExpr(f"{names.key_prefix(network, source, target)}/**")
        assert fence.includes(key)


def test_keys_of_another_shape_are_none() -> None:
    for key in ("veilsum/n/a/b/data/c", "other/n/a/b/data/c/d", "veilsum/n/a/b/what/c/d"):
        assert names.parse_key(key) is None


def test_a_device_called_star_does_not_open_the_fence() -> None:
    with pytest.raises(AgentError, match=r"'\*'"):
        ZenohTransport("n", "p", devices={"a": "p", "b": "*"}, insecure=True)


@pytest.mark.parametrize("text", ["127.0.0.1:7447", "tcp/127.9.9.9:1", "localhost:1", "[::1]:1"])
def test_without_certificates_loopback_is_fine(text: Any) -> None:
    assert Endpoint.parse(text, insecure=True).scheme == "tcp"


@pytest.mark.parametrize(
    "text",
    ["0.0.0.0:7447", "192.0.2.1:7447", "[::]:7447", "example.org:7447", "localhost.evil.org:1"],
)
def test_without_certificates_nothing_else_is(text: Any) -> None:
    with pytest.raises(AgentError, match="loopback"):
        Endpoint.parse(text, insecure=True)
    with pytest.raises(AgentError, match="loopback"):
        ZenohTransport("n", "p", listen=[text], devices={}, insecure=True)
    with pytest.raises(AgentError, match="loopback"):
        ZenohTransport("n", "p", connect={"q": text}, devices={}, insecure=True)
    assert str(Endpoint.parse(text, insecure=False)) == f"tls/{text}"


@pytest.mark.parametrize(
    "text",
    ["", "7447", "udp/127.0.0.1:1", "127.0.0.1", "127.0.0.1:99999", "a:1#iface=eth0", "a:1?rel=0",
     "a..b:1", ".a:1", f"{'a' * 64}.example:1"],
)  # fmt: skip
@pytest.mark.parametrize("insecure", [True, False])
def test_what_is_no_endpoint(text: Any, insecure: Any) -> None:
    with pytest.raises(AgentError, match="is not an endpoint"):
        Endpoint.parse(text, insecure=insecure)


def test_an_ipv6_address_is_for_listening(authority: Any) -> None:
    keys = authority.credentials("p")
    ZenohTransport("n", "p", listen=["[::1]:7447"], devices={}, credentials=keys)
    with pytest.raises(AgentError, match="use a host name"):
        ZenohTransport("n", "p", connect={"q": "[::1]:7447"}, devices={}, credentials=keys)


def test_schemes_do_not_mix() -> None:
    for text, insecure in (("tls/127.0.0.1:1", True), ("tcp/127.0.0.1:1", False)):
        with pytest.raises(AgentError, match="is not an endpoint"):
            Endpoint.parse(text, insecure=insecure)


def test_no_certificate_no_agent() -> None:
    with pytest.raises(AgentError, match=r"veilsum keys request p.*--insecure"):
        ZenohTransport("n", "p", listen=["127.0.0.1:1"], devices={"a": "p"})


def test_a_secure_session_has_all_settings(authority: Any) -> None:
    configured = settings("n", "p", [], [], ["q", "r"], authority.credentials("p"))
    assert configured["transport/link/protocols"] == ["tls"]
    assert (
        configured["scouting/multicast/enabled"] is configured["scouting/gossip/enabled"] is False
    )
    tls = configured["transport/link/tls"]
    for guarantee in ("enable_mtls", "verify_name_on_connect", "close_link_on_expiration"):
        assert tls[guarantee] is True
    assert configured["access_control"]["default_permission"] == "deny"


def test_the_fence_lets_a_neighbour_speak_under_its_own_name_only() -> None:
    rules = access_control("n", "p", ["q", "r"])["rules"]
    allowed = {
        (r["flows"][0], m): k for r in rules[:4] for m in r["messages"] for k in r["key_exprs"]
    }
    heard = zenoh.KeyExpr(allowed["ingress", "put"])
    assert heard.includes(names.data_key("n", "q", "p", "b", "a"))
    assert not heard.intersects(names.data_key("n", "r", "p", "c", "a"))
    assert not heard.intersects(names.data_key("n", "q", "r", "b", "c"))
    said = zenoh.KeyExpr(allowed["egress", "put"])
    assert not said.intersects(names.data_key("n", "p", "r", "a", "c"))
    assert all(r["permission"] == "allow" for r in rules)


def test_agents_are_attached_to_their_own_device_and_in_time() -> None:
    made = ZenohTransport("n", "p", devices={"a": "p", "b": "q"}, insecure=True)
    with pytest.raises(AgentError, match="after attaching"):
        made.open(print)
    with pytest.raises(AgentError, match="belongs to the certificate 'q'"):
        made.attach("b", ["a"])
    with pytest.raises(AgentError, match="no device is known for agent 'z'"):
        made.attach("a", ["z"])
    made.attach("a", ["b"])
    with pytest.raises(AgentError, match="must be opened"):
        made.send(totals("a", "b"))
    with pytest.raises(AgentError, match="has no link"):
        made.send(totals("b", "a"))
    made.close()
    made.close()


def test_an_agent_is_up_while_one_of_its_sessions_is() -> None:
    presence = Presence({"a": "p"})
    first, second = (names.liveliness_key("n", "p", "q", "a", session) for session in ("1", "2"))
    assert presence.update(first, True) == ("a", True)
    assert presence.update(second, True) is None  # restarted before the old session was given up
    assert presence.update(first, False) is None
    assert presence.update(second, False) == ("a", False)
    assert presence.update(second, False) is None
    assert (
        presence.update(names.liveliness_key("n", "r", "q", "a", "1"), True) is None
    )  # not its device
    assert presence.update(names.liveliness_key("n", "p", "q", "z", "1"), True) is None


def test_a_missing_package_is_named(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "zenoh", None)
    with pytest.raises(MissingExtraError, match=re.escape(install_command("agents"))):
        load_zenoh()
