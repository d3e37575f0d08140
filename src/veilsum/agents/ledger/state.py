"""What a ledger keeps besides releases: the mixing state, and the last status of neighbours."""

from __future__ import annotations

from collections.abc import Mapping

from veilsum.agents.ledger import records
from veilsum.agents.ledger.writer import LedgerWriter
from veilsum.agents.messages import PeerStatus


class StateKeeper:
    """The mixing state and the neighbours of one ledger.

    Parameters
    ----------
    writer : LedgerWriter
        The open file.
    waits : bool
        Whether saving waits for the disk.
    """

    def __init__(self, writer: LedgerWriter, waits: bool) -> None:
        """Read whose status is stored."""
        self._writer, self._waits = writer, waits
        self._members = set(writer.store.peers())

    @property
    def incarnation(self) -> int:
        """How many times the agent started without its mixing state."""
        return int(self._writer.meta["incarnation"])

    def save(self, state: bytes, round: int) -> None:
        """As `Ledger.save`."""
        writer = self._writer
        checksum = records.state_checksum(writer.key, self.incarnation, round, state)
        with writer.transaction("save the state", self._waits) as store:
            store.save_state(state, round, checksum)
            if writer.meta["state"] != "1":
                writer.put(state=1)

    def load(self) -> bytes | None:
        """As `Ledger.load`."""
        with self._writer.reading() as store:
            found = store.state()
        return (found[0] or None) if found else None

    def new_incarnation(self, state: bytes | None) -> int:
        """As `Ledger.new_incarnation`."""
        writer = self._writer
        with writer.transaction("start a new incarnation") as store:
            following = self.incarnation + 1
            store.drop_state()
            if state is not None:
                checksum = records.state_checksum(writer.key, following, 0, state)
                store.save_state(state, 0, checksum)
            writer.put(incarnation=following, state=int(state is not None))
        return following

    def peers(self) -> dict[str, PeerStatus]:
        """As `Ledger.peers`."""
        with self._writer.reading() as store:
            return {name: status for name, (status, _) in store.peers().items()}

    def save_peers(self, peers: Mapping[str, PeerStatus]) -> None:
        """As `Ledger.save_peers`."""
        writer = self._writer
        rows = {
            name: (status, records.peer_checksum(writer.key, name, status))
            for name, status in peers.items()
        }
        members = self._members.union(rows)
        with writer.transaction("save the status of its neighbours", self._waits) as store:
            store.save_peers(rows)
            if len(members) > len(self._members):
                writer.put(peers=len(members))
        self._members = members
