"""A device of its own process: python transport_child.py OWN_PORT PEER_PORT DIRECTORY

It hosts agent b on device q, connects to p and prints the round of every message it hears; with
DIRECTORY "-" without certificates. It ends when standard input does.
"""

from __future__ import annotations

import sys

from murmura.agent.events import Received
from murmura.agent.keys import Authority
from murmura.agent.transport.zenoh import ZenohTransport


def hear(_, arrival):
    if isinstance(arrival, Received):
        print(arrival.message.round, flush=True)


def main(own, peer, directory):
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
