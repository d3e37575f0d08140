"""What an agent may choose for itself, and what follows from the manifest for all."""

from __future__ import annotations

import math
from dataclasses import dataclass

from murmura import _validate
from murmura.agent.manifest import Manifest
from murmura.errors import AgentError

ONE = 53  # shares are in units of 2^-53
READINGS = 2**32  # of one agent, where the manifest sets no limit
UNKNOWN = 2**256  # size of a release where the manifest knows no largest: fits a message yet


@dataclass(frozen=True)
class Options:
    """How patient an agent is; seconds, and none of it changes what the estimate tends to."""

    deadline: float = 2.0  # without the missing messages after this
    resend: float = 0.25  # while waiting, say the last again
    tick: float = 0.1  # between two pushes of an asynchronous agent
    linger: float = 60.0  # after the end, say the last again for so long to who did not hear it
    patience: int = 16  # pushes without an answer before a link is left alone
    buffer: int = 64  # messages kept of one neighbour that is ahead
    confirmations: int = 1  # neighbours that say what they remember, before anything is released

    def __post_init__(self) -> None:
        """Check the times and counts."""
        _validate.positive(
            AgentError, deadline=self.deadline, resend=self.resend, tick=self.tick,
            linger=self.linger,
        )  # fmt: skip
        _validate.at_least(AgentError, 1, confirmations=self.confirmations)
        _validate.at_least(AgentError, 2, patience=self.patience, buffer=self.buffer)


@dataclass(frozen=True)
class Limits:
    """What an honest neighbour never exceeds, in units of 2^-unit.

    No more weight exists than every member's readings, and no sum beyond `largest` times it; a
    push of one round takes at most that. All three bounds add up over rounds, so it is enough to
    compare a message with the one before. A sum is not held to `largest` times its own weight:
    where a flow was undone, an honest agent may hold a sum with little weight for a while.
    """

    weight: int
    sums: int
    rounds: int  # 0: open-ended

    @classmethod
    def of(cls, manifest: Manifest) -> Limits:
        """Read them off the manifest."""
        readings = 1
        if manifest.asynchronous:
            readings = READINGS
        elif manifest.made_law.online:
            readings = manifest.rounds or READINGS
        count = len(manifest.members) * readings
        known = math.isfinite(manifest.largest)
        largest = math.ceil(manifest.largest) + 1 if known else UNKNOWN
        weight = count << manifest.unit
        return cls(weight=weight, sums=largest * weight, rounds=manifest.rounds)

    def excess(self, sums: list[int], weight: int) -> int:
        """How many bits to shift a push down by so that it is believed; 0 but after mishaps."""
        largest = max(map(abs, sums))
        if weight <= self.weight and largest <= self.sums:
            return 0
        return max(_above(weight, self.weight), _above(largest, self.sums))


def _above(value: int, limit: int) -> int:
    return 0 if value <= limit else value.bit_length() - limit.bit_length() + 1
