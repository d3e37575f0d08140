"""When the agents of a node draw noise: between queries, while the node sends nothing.

    query k is concluded, and a reserve is low --> no agent of the node begins a query
    none of them has a query open              --> silence: all reserves are filled
    after a whole number of pauses             --> query k + 1

Whether a reserve is low is public: it follows from the number of views that the agent has entered.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from veilsum.agents.release import ContributionMechanism
from veilsum.agents.release.reserve import PAUSE, NoiseReserve, in_silence
from veilsum.agents.runtime.hosted import HostedAgent

PATIENCE = 5.0  # seconds for which an agent waits for others of its node to conclude theirs


class NoiseRefills:
    """Fills the reserves of a node's agents where nobody can see how long that takes.

    Parameters
    ----------
    agents : mapping of str to HostedAgent
        Those of the node; there may be more of them later.
    last : int
        The last query; 0 is open-ended.

    Attributes
    ----------
    pause : float
        Seconds; a silence lasts a whole number of them.
    """

    def __init__(self, agents: Mapping[str, HostedAgent], last: int) -> None:
        """Nothing is missing yet: reserves are filled when they are made."""
        self._agents, self._last = agents, last
        self.pause = PAUSE
        self._wanted, self._since = False, 0.0

    def concluded(self, agent: HostedAgent) -> None:
        """A query of an agent is over: fill its reserve before the next, if it is low."""
        further = not self._last or agent.protocol.round < self._last
        if further and agent.done is None and _reserve(agent).low:
            self._wanted, self._since = True, time.monotonic()

    @property
    def holds(self) -> bool:
        """Whether no agent of the node may begin a query now.

        An agent that waited for one whose query needs it would wait for ever: after `PATIENCE` it goes
        on with what it has.
        """
        if not self._wanted:
            return False
        return not self._open or time.monotonic() - self._since < PATIENCE

    @property
    def _open(self) -> bool:
        return any(agent.query and agent.done is None for agent in self._agents.values())

    def turn(self) -> None:
        """Fill all reserves if one is low and no query is open; the node sends nothing meanwhile."""
        if self._wanted and not self._open:
            self._wanted = False
            agents = [agent for agent in self._agents.values() if agent.done is None]
            in_silence(lambda: _refill(map(_reserve, agents)), self.pause)


def _refill(reserves: Iterable[NoiseReserve]) -> None:
    for reserve in reserves:
        reserve.refill()


def _reserve(agent: HostedAgent) -> NoiseReserve:
    mechanism = agent.release_mechanism
    assert isinstance(mechanism, ContributionMechanism), "a masked sum has a contribution mechanism"
    return mechanism.noise
