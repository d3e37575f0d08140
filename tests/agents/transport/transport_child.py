"""A device of its own process: python transport_child.py OWN_PORT PEER_PORT DIRECTORY

It hosts agent b on device q, connects to p and prints the round of every message it hears; with
DIRECTORY "-" without certificates. It ends when standard input does.
"""

from __future__ import annotations

import sys
from typing import Any

from veilsum.agents.events import Received
from veilsum.agents.messages import CumulativeMass
from veilsum.agents.pki import Authority
from veilsum.agents.transport.base import Arrival
from veilsum.agents.transport.zenoh import ZenohTransport


def hear(_: str, arrival: Arrival) -> None:
    if isinstance(arrival, Received) and isinstance(arrival.message, CumulativeMass):
        print(arrival.message.round, flush=True)


def main(own: Any, peer: Any, directory: Any) -> None:
    made = ZenohTransport(
        "test",
        "q",
        listen=[f"127.0.0.1:{own}"],
        connect={"p": f"127.0.0.1:{peer}"},
        devices={"a": "p", "b": "q"},
        credentials=None if directory == "-" else Authority.load(directory).credentials("q"),
        insecure=directory == "-",
    )
    made.attach("b", ["a"])
    made.open(hear)
    sys.stdin.read()
    made.close()


main(*sys.argv[1:])
