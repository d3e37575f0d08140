"""Who takes part, between the agents of one process: each change is handed over once, not per link.

What an agent knows goes into a register for each view that all agents of the process read together,
once nothing else is waiting to be delivered among them; so a flood costs each agent a few events and
not some tens of messages on each of its links. An agent shares with the actions of an event, in their
order: what it relies on is saved before. Only registers are in common, which every member may know;
an agent takes the register of a neighbour only if it would accept it as a message.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from veilsum.agents.events import LocalRegisters, PostRegister
from veilsum.agents.messages import Register

LONGEST_WAIT = 1.0  # seconds that a change waits while there are always messages to deliver


class RegisterBoard:
    """The registers of the agents of one process.

    Parameters
    ----------
    neighbours : mapping of str to collection of str
        Of every agent of the process.

    Examples
    --------
    >>> board = RegisterBoard({"a": ["b"], "b": ["a"]})
    >>> board.post("a", PostRegister(1, b"", Register(present=0b01)), now=0.0)
    >>> board.post("b", PostRegister(1, b"", Register(present=0b10)), now=0.0)
    >>> readers, event = board.take()
    >>> readers, bin(event.unions[0, 0].present), board.waiting
    (['a', 'b'], '0b11', False)
    """

    def __init__(self, neighbours: Mapping[str, Collection[str]]) -> None:
        """Nothing is known."""
        self._neighbours = neighbours
        self._posted: dict[str, PostRegister] = {}
        self._unions: dict[tuple[int, int], Register] = {}
        self._ended = 0
        self._readers: dict[str, None] = {}  # who is to read, in order
        self._since = 0.0  # when the first of what waits came

    @property
    def waiting(self) -> bool:
        """Whether there is something to read."""
        return bool(self._readers)

    def overdue(self, now: float) -> bool:
        """Whether something has waited too long to wait for a pause."""
        return self.waiting and now - self._since >= LONGEST_WAIT

    def post(self, label: str, found: PostRegister, now: float) -> None:
        """An agent's register; if it is the one before, only its neighbours look at it again."""
        if not self._readers:
            self._since = now
        before = self._posted.get(label)
        self._posted[label] = found
        if found == before:
            readers: Collection[str] = (label, *self._neighbours[label])
            self._readers.update((each, None) for each in readers if each in self._neighbours)
            return
        register = found.register
        union = self._unions.get(register[:2])
        if union is None:
            self._unions[register[:2]] = register
        elif union is not register:
            self._unions[register[:2]] = union.merge(register)
        self._ended |= register.ended
        if len(self._readers) < len(self._neighbours):
            self._readers.update(dict.fromkeys(self._neighbours))

    def take(self) -> tuple[list[str], LocalRegisters]:
        """Who is to read, and what; nothing waits any more."""
        readers, self._readers = list(self._readers), {}
        if len(self._unions) > 1:  # a view that no agent is in any more
            views = {found.register[:2] for found in self._posted.values()}
            self._unions = {view: found for view, found in self._unions.items() if view in views}
        for view, found in self._unions.items():
            if found.ended != self._ended:
                self._unions[view] = found._replace(ended=self._ended)
        return readers, LocalRegisters(self._posted, dict(self._unions))
