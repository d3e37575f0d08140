"""Who an agent is to its neighbours: what it has released, and proofs of what it has sent.

The release history is one short head that neighbours remember:

    h_k = HMAC-SHA256(secret, h_{k-1}, release k),   the first 16 bytes,   in the ledger's order.

The number k and the head h_k travel with every message. Neighbours store the last they received of
each member, across incarnations, starts and epochs, and repeat it when the member starts. The
member, who alone can compute heads, compares: a head that its ledger does not lead to means that
another holder of its name released something that this ledger does not know of. The hash is keyed:
under Network DP a release is the noise that protects the neighbours' estimates, and an open hash
would let anyone who tries all values of a release find it and subtract it from the totals.

An authentication tag proves that a round was sent:

    tag(incarnation, round) = blake2s(incarnation, round; key = secret),   the first 8 bytes.

It travels with the agent's messages, and neighbours echo the last one. Only a receiver of a round
knows its tag, so a neighbour that claims that this agent was further than it remembers proves it
with the tag, or is not believed. The secret is created with the ledger and part of every copy of
it: an agent whose ledger was restored from an older copy still recognises its tags.
"""

from __future__ import annotations

import hmac
from hashlib import blake2s

from veilsum.agents.events import Released, Restarted, Started
from veilsum.agents.messages import PeerStatus
from veilsum.agents.protocol.gaps import Gaps

HEAD_SIZE = 16  # bytes of a head
TAG_SIZE = 8  # bytes of a tag or a proof
NO_SECRET = b"veilsum"  # the key where there is no secret, as in a simulation


class ReleaseHistory:
    """The heads of one agent's releases, oldest first.

    Parameters
    ----------
    label : str
        The agent's name, part of the key.
    secret : bytes
        The ledger's.

    Examples
    --------
    >>> history = ReleaseHistory("a", b"secret")
    >>> history.add(Released(1, (5,), 1)), history.add(Released(1, (5,), 1))
    (True, False)
    >>> len(history), len(history.head)
    (1, 16)
    """

    def __init__(self, label: str, secret: bytes = b"") -> None:
        """Nothing was released."""
        self._key = hmac.digest(secret or NO_SECRET, f"releases\n{label}".encode(), "sha256")
        self._heads = bytearray()
        self._last, self._gaps = 0, Gaps()

    def __len__(self) -> int:
        """How many releases there are."""
        return len(self._heads) // HEAD_SIZE

    @property
    def head(self) -> bytes:
        """h_k of the last release; empty before the first."""
        return self.at(len(self))

    def at(self, count: int) -> bytes:
        """h_k after so many releases; empty for none, or more than there are."""
        return bytes(self._heads[HEAD_SIZE * (count - 1) : HEAD_SIZE * count]) if count else b""

    def add(self, released: Released) -> bool:
        """Append a release, unless it is there; whether it was new."""
        reading = released.reading
        if reading <= self._last and reading not in self._gaps:
            return False
        self._gaps.discard(reading)
        self._gaps.extend(self._last + 1, reading - 1)
        self._last = max(self._last, reading)
        numbers = " ".join(format(n, "x") for n in (reading, released.weight, *released.sums))
        self._heads += hmac.digest(self._key, self.head + numbers.encode(), "sha256")[:HEAD_SIZE]
        return True


class Authenticator:
    """Computes and verifies the tags of one agent; the latest is cached, as all neighbours get it.

    Parameters
    ----------
    secret : bytes
        The ledger's. Without one every tag is empty and every claim is believed.

    Examples
    --------
    >>> own = Authenticator(b"secret")
    >>> own.verifies(own.tag(1, 7), 1, 7), own.verifies(own.tag(1, 7), 1, 8)
    (True, False)
    """

    def __init__(self, secret: bytes = b"") -> None:
        """No tag is cached."""
        self._secret = secret
        self._last = (-1, -1)
        self._tag = b""

    def __bool__(self) -> bool:
        """Whether claims need a proof."""
        return bool(self._secret)

    def tag(self, incarnation: int, number: int) -> bytes:
        """The tag of a round of an incarnation."""
        if self._secret and self._last != (incarnation, number):
            self._last = incarnation, number
            self._tag = self._compute(incarnation, number)
        return self._tag

    def verifies(self, echo: bytes, incarnation: int, number: int) -> bool:
        """Whether the tag that a neighbour echoes is that of this round."""
        return not self._secret or hmac.compare_digest(echo, self._compute(incarnation, number))

    def start_proof(self, start: int, run: bytes) -> bytes:
        """The proof of a start of this agent's ledger."""
        return self._proof(b"start", start, run)

    def head_proof(self, count: int, head: bytes) -> bytes:
        """The proof of so many releases with this head."""
        return self._proof(b"releases", count, head)

    def verifies_start(self, proof: bytes, start: int, run: bytes) -> bool:
        """Whether a start was this agent's."""
        return not self._secret or hmac.compare_digest(proof, self.start_proof(start, run))

    def verifies_head(self, proof: bytes, count: int, head: bytes) -> bool:
        """Whether a head was this agent's."""
        return not self._secret or hmac.compare_digest(proof, self.head_proof(count, head))

    def _proof(self, kind: bytes, number: int, what: bytes) -> bytes:
        if not self._secret:
            return b""
        text = number.to_bytes(8, "big") + what
        return blake2s(text, key=self._secret, digest_size=TAG_SIZE, person=kind).digest()

    def _compute(self, incarnation: int, number: int) -> bytes:
        text = incarnation.to_bytes(8, "big") + number.to_bytes(8, "big")
        return blake2s(text, key=self._secret, digest_size=TAG_SIZE).digest()


class AgentIdentity:
    """One agent's start, history and proofs, as its messages carry them.

    Parameters
    ----------
    label : str
        The agent's name.

    Attributes
    ----------
    authenticator, history : Authenticator, ReleaseHistory
        Keyed by the ledger's secret.
    start, run : int, bytes
        Which opening of the ledger this is.
    release_fields : tuple
        (releases, head, head_proof).
    """

    def __init__(self, label: str) -> None:
        """No ledger is open."""
        self._label = label
        self.authenticator = Authenticator()
        self.history = ReleaseHistory(label)
        self.start, self.run = 0, b""
        self._start_proof = b""
        self.release_fields = (0, b"", b"")

    def open(self, event: Started | Restarted) -> None:
        """Take the secret, the start and the releases of the ledger that was opened."""
        self.authenticator = Authenticator(event.secret)
        self.history = ReleaseHistory(self._label, event.secret)
        self.start, self.run = event.start, event.run
        self._start_proof = self.authenticator.start_proof(event.start, event.run)
        for released in event.released:
            self.history.add(released)
        self._renew()

    def add(self, released: Released) -> None:
        """Append a release to the history."""
        if self.history.add(released):
            self._renew()

    def _renew(self) -> None:
        count, head = len(self.history), self.history.head
        self.release_fields = count, head, self.authenticator.head_proof(count, head)

    @property
    def status(self) -> PeerStatus:
        """This agent's status."""
        return PeerStatus(self.start, self.run, self._start_proof, *self.release_fields)

    def contradiction(self, known: PeerStatus) -> tuple[str, bool]:
        """Why what is remembered of this agent is not of its ledger, and whether it is proved."""
        count, own = known.releases, len(self.history)
        if count and (count > own or self.history.at(count) != known.head):
            text = f"it remembers {count} releases of this name, and the ledger here has {own}"
            if count <= own:
                text += f", of which the first {count} are others"
            return text, self.authenticator.verifies_head(known.head_proof, count, known.head)
        if (known.start, known.run != self.run) > (self.start, False):
            other = " by another run" if known.start == self.start else ""
            text = (
                f"it knows start {known.start}{other} of this ledger, here is start {self.start}: "
                "another copy of it is in use, or it was restored from an older copy"
            )
            proved = self.authenticator.verifies_start(known.start_proof, known.start, known.run)
            return text, proved
        return "", False
