"""What neighbours remember of a member of masked sums, and what it makes of that when it starts.

A member's releases are the masked values that it has sent, in the order of its ledger's chain. The
head of their history and the start of its ledger are in every Hello, each with a proof that only the
member can compute (`protocol.history`). Neighbours store both, across restarts, epochs and nonces, and
repeat them. A member that has just sent a value says so to its neighbours, twice, before the value itself,
and again until each of them has repeated it.

The member compares what is repeated with its own ledger (`OwnStatus.judge`):
- more releases, or others: its ledger was restored from an older copy, or lost;
- a later start, or another run of the same start: a copy of its ledger is in use.
Either ends it, if the claim is proved. An unproved claim is refused, and the link stays closed; only a
ledger without a release believes that there were some, since its secret may be as new as it is.

A neighbour (`doubt`) accepts the latest start only and refuses a Hello that cannot be of the member that
it remembers; the answer says what it remembers, so that the refused end learns it. Releases are taken
over from a Hello only after its sender has compared in its present run (`follow`): otherwise an agent
with an older ledger would hear only what it has just said.
"""

from __future__ import annotations

from typing import NamedTuple

from veilsum.agents.events import Released, Restarted, Started
from veilsum.agents.messages import PeerStatus
from veilsum.agents.protocol.history import AgentIdentity

Words = tuple[int, ...]


class Contradiction(NamedTuple):
    """Why a ledger is not the one that a neighbour remembers.

    Parameters
    ----------
    reason : str
        "rolled-back" or "cloned".
    text : str
        In words.
    proved : bool
        Whether the agent must stop.
    believed : bool
        Whether it must although there is no proof: its ledger has released nothing, and its secret
        may be as new as it is. Such a claim counts when it is repeated.
    """

    reason: str
    text: str
    proved: bool
    believed: bool = False


class OwnStatus:
    """An agent's start, the history of what it sent, and proofs of both.

    Parameters
    ----------
    label : str
        The agent's name.

    Examples
    --------
    >>> own = OwnStatus("a")
    >>> own.open(Started(1, secret=b"secret", start=1, run=b"12345678"))
    >>> own.add((7, 8)), own.add((7, 8))
    (True, False)
    >>> own.status.releases
    1
    """

    def __init__(self, label: str) -> None:
        """No ledger is open."""
        self._identity = AgentIdentity(label)
        self._sent: set[Words] = set()
        self.status = PeerStatus()

    def open(self, event: Started | Restarted) -> None:
        """Take over the ledger that was opened: its secret, its start, and what it has sent."""
        self._identity.open(event)
        self._sent = {released.sums for released in event.released}
        self.status = self._identity.status

    def add(self, words: Words) -> bool:
        """A masked value is sent; False if it was sent before: the same one is sent for ever."""
        if words in self._sent:
            return False
        self._sent.add(words)
        self._identity.add(sent_release(len(self._identity.history) + 1, words))
        self.status = self._identity.status
        return True

    def judge(self, known: PeerStatus, met: bool) -> Contradiction | None:
        """What a neighbour remembers of this agent, against its ledger.

        Parameters
        ----------
        known : PeerStatus
            As the neighbour repeated it.
        met : bool
            Whether a neighbour has known the present run before: then a later start is that of a
            second process.

        Returns
        -------
        Contradiction or None
            None if both agree.
        """
        text, proved = self._identity.contradiction(known)
        if not text:
            return None
        history = self._identity.history
        released = known.releases > 0 and history.at(known.releases) != known.head
        cloned = not released and (met or known.start == self.status.start)
        believed = not proved and released and not len(history)
        reason = "cloned" if cloned else "rolled-back"
        return Contradiction(reason, text, proved or believed, believed)


def sent_release(number: int, words: Words) -> Released:
    """A masked value as a release: by its place in the ledger's chain, without a weight.

    Examples
    --------
    >>> sent_release(2, (5,))
    Released(reading=2, sums=(5,), weight=0)
    """
    return Released(number, words, 0)


def doubt(known: PeerStatus, own: PeerStatus) -> str:
    """Why a Hello cannot be of the member that is remembered; empty if it can.

    Parameters
    ----------
    known : PeerStatus
        What is remembered.
    own : PeerStatus
        What the Hello says.

    Returns
    -------
    str
        In words.

    Examples
    --------
    >>> doubt(PeerStatus(2, b"12345678"), PeerStatus(1, b"87654321"))
    'start 1 of its ledger after start 2: an old message, or a copy of its ledger is in use'
    """
    if not own.run:
        return f"start {own.start} of its ledger, and it does not say which run that is"
    if own.start < known.start:
        return (
            f"start {own.start} of its ledger after start {known.start}: an old message, or a copy "
            "of its ledger is in use"
        )
    if own.start == known.start and known.run and own.run != known.run:
        return f"two copies of its ledger speak as start {own.start}"
    if own.run != known.run and own.releases < known.releases:
        return (
            f"{own.releases} values sent and {known.releases} are remembered: its ledger was "
            "restored from an older copy"
        )
    if own.releases == known.releases and own.head != known.head:
        return (
            f"{own.releases} values sent that are not those remembered: its ledger is another one"
        )
    return ""


def follow(known: PeerStatus, own: PeerStatus, certain: bool) -> PeerStatus:
    """What is remembered after a Hello that is not doubted.

    Parameters
    ----------
    known : PeerStatus
        What was remembered.
    own : PeerStatus
        What the Hello says.
    certain : bool
        Whether its sender has compared, in its present run, what was remembered, and has said these
        releases before.

    Returns
    -------
    PeerStatus
        With the sender's start, and its releases if they are certain and more.
    """
    found = known._replace(start=own.start, run=own.run, start_proof=own.start_proof)
    if certain and own.releases > known.releases:
        found = found._replace(releases=own.releases, head=own.head, head_proof=own.head_proof)
    return found
