"""Who speaks for a neighbour, and what it takes to follow another: two messages that agree.

A Hello names its sender's incarnation, the start and the run of its ledger, and the proof of both. What
is remembered of that decides which messages are accepted from then on, so that one Hello that is wrong,
by a fault on the way or of a program, would close a good link for good. Therefore

    nothing known before      followed at once, provisionally
    the same as before        followed; what was provisional is certain now
    a correction              contradicts a provisional one: followed when it is said again
    another                   likewise; until then the one before stands

It is a correction only if nothing else was accepted under the provisional run: who has spoken under it
is not replaced by a contradiction. Whoever says the same twice is followed, as it always was: what a
neighbour gains by repeating a wrong Hello is a link of its own that is closed.

Both kinds of agents decide by this, with `SaidOnce` also for other claims that cannot be taken back.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import NamedTuple

CLAIMS = 4  # different ones that are held: two copies that speak in turn are both heard twice


class Speaker(NamedTuple):
    """Who speaks, as a Hello says it.

    Parameters
    ----------
    incarnation : int
        Of the agent; 0 where it is not known.
    start, run, start_proof
        As in its `PeerStatus`.
    """

    incarnation: int
    start: int
    run: bytes
    start_proof: bytes


class Change(Enum):
    """How a Hello compares with what is known of its sender."""

    FIRST = "first"
    SAME = "same"
    CORRECTION = "correction"
    ANOTHER = "another"


class SaidOnce:
    """Claims that were made once, and count when they are made again.

    Examples
    --------
    >>> claims = SaidOnce()
    >>> claims.repeated("a"), claims.repeated("b"), claims.repeated("a")
    (False, False, True)
    """

    __slots__ = ("_claims",)

    def __init__(self) -> None:
        """Nothing was claimed."""
        self._claims: deque[object] = deque(maxlen=CLAIMS)

    def repeated(self, claim: object) -> bool:
        """Whether this was claimed before; if so, all claims are forgotten, otherwise it is held."""
        if claim in self._claims:
            self._claims.clear()
            return True
        self._claims.append(claim)
        return False


class Succession:
    """Whether a neighbour is followed in what it says of who it is.

    Examples
    --------
    >>> known, wrong = Speaker(1, 1, b"run", b""), Speaker(1, 4, b"run", b"")
    >>> succession = Succession()
    >>> change = succession.change(known, wrong)
    >>> change, succession.follows(change, wrong), succession.follows(change, wrong)
    (<Change.ANOTHER: 'another'>, False, True)
    """

    __slots__ = ("_claims", "provisional")

    def __init__(self) -> None:
        """Nothing was heard of it."""
        self.provisional = False  # whether a single Hello says who it is
        self._claims = SaidOnce()

    def change(self, known: Speaker, said: Speaker, accepted: bool = False) -> Change:
        """How a Hello compares with what is known.

        Parameters
        ----------
        known, said : Speaker
            Who was followed so far (with an empty run if nobody was), and who speaks now.
        accepted : bool
            Whether anything but a Hello was accepted under the known run.

        Returns
        -------
        Change
            To be passed to `follows`, unless the Hello is refused for another reason.
        """
        if not known.run:
            if not known.incarnation:
                return Change.FIRST
            if not said.run:  # agents without ledgers have no runs
                return Change.SAME
        if not known.incarnation:
            known = known._replace(incarnation=said.incarnation)
        if said == known:
            return Change.SAME
        if self.provisional and (said.run == known.run or not accepted):
            return Change.CORRECTION
        return Change.ANOTHER

    def follows(self, change: Change, said: Speaker) -> bool:
        """Whether a Hello is followed now; if not, its sender is to be asked again."""
        if change in (Change.CORRECTION, Change.ANOTHER) and not self._claims.repeated(said):
            return False
        self.provisional = change is Change.FIRST and said.run != b""
        return True
