"""Names on the network: one key for every direction of a link, fenced by the two devices.

    murmura/<network>/<device of sender>/<device of receiver>/data/<sender>/<receiver>
    murmura/<network>/<device of sender>/<device of receiver>/live/<sender>/<session>
    murmura/<network>/<device of sender>/<device of receiver>/many

Names are percent-encoded, so any label will do. A device may speak only under its own name, and
what is said to one device is not handed to another: access control sees both in the key.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote


class Name(NamedTuple):
    """A key taken apart; `last` is the receiver of data, or the session that is alive."""

    source: str
    target: str
    kind: str  # "data" or "live"
    sender: str
    last: str


def space(network: str, source: str, target: str) -> str:
    """All that one device says to another; "*" stands for any device."""
    return f"murmura/{quote(network, safe='')}/{_device(source)}/{_device(target)}"


def data(network: str, source: str, target: str, sender: str, receiver: str) -> str:
    """The key of one direction of a link."""
    return (
        f"{space(network, source, target)}/data/{quote(sender, safe='')}/{quote(receiver, safe='')}"
    )


def many(network: str, source: str, target: str) -> str:
    """The key of several messages together, of any agents of two devices."""
    return f"{space(network, source, target)}/many"


def source_of(key: str) -> str:
    """The device that speaks under a key."""
    return unquote(key.split("/")[2])


def live(network: str, source: str, target: str, sender: str, session: str) -> str:
    """The key of a token that stands while an agent's session does."""
    return f"{space(network, source, target)}/live/{quote(sender, safe='')}/{session}"


def parse(key: str) -> Name | None:
    """Take a key apart; None if it is of another shape."""
    parts = key.split("/")
    if len(parts) != 7 or parts[0] != "murmura" or parts[4] not in ("data", "live"):
        return None
    return Name(*map(unquote, parts[2:]))


def _device(name: str) -> str:
    return name if name == "*" else quote(name, safe="")
