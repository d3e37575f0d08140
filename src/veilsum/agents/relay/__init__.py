"""A relay for sites that cannot be reached: it joins two outgoing connections and copies bytes.

    site A ── TLS ──> relay <── TLS ── site B       each proves its name to the relay
       └───────────── TLS of the link ────┘         runs inside both: the relay has no key of it

What passes through the relay is the TLS of the members' link, end to end: it sees who is joined with
whom, when, and how many bytes pass; it can delay or cut a link, and can read or change nothing of it.
"""

from veilsum.agents.relay.connector import RelayConnector
from veilsum.agents.relay.server import Relay

__all__ = ["Relay", "RelayConnector"]
