"""What a neighbour can claim to send, at most: the one place that decides it, for both ends of a link.

*Ratio.* Mass is a sum of parts c (x, 1) of releases x, c >= 0, so the sum of a message rises by at
most `largest` times what its weight rises by, apart from rounding. After a roll-back an honest agent
may have a sum with too little weight for it; it sends less of the sum then, and keeps the rest.

*With a last round and symmetric weights*, rounds are followed exactly, and what has crossed a link,
net, is a known part of what was released (`agents.flows`): between -minus and plus readings of each
round's total, and (plus + minus) times the largest release. The neighbour is at most one round
ahead, for which one more part of the receiver's own mass is added. A member that leaves hands over
all it has; for everyone that is known to have left, each release may cross each link twice more.

*Where rounds are clipped* (`Manifest.clip`) they are not linear, and these flows do not hold: between two
groups that differ by much, a chain of members carries as much as a direct link, and not a fraction
of it. Instead all weights are equal, so that the weight of a message of round t is known to the bit, and
a sum rises by at most the largest release times the weight of a round. What it changes is at most
the radius in a round, whatever it says (`mass.settle`).

*Without a last round* messages of several rounds arrive at once, links fail one by one, and mass is
rolled back: nothing is exact. There a neighbour's weight sent, less what this agent sent it, is at most

    allowance = ROOM n (1 + r + t) readings,

r the receiver's own releases and t its own round (for one reading of each agent: ROOM n). A sender
stays below it by what it last heard of r and t. Both only rise, as do the totals, so what it
sends is allowed when it arrives, however late: an honest message is never refused. What it does
not send stays with it. The receiver sends it mass in turn, which makes room again.

*Weights that differ by direction* let mass move in circles: there the weight of one round is limited,
by all that exists or by the allowance, and nothing limits the total.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import CumulativeMass, Register
from veilsum.agents.protocol.history import AgentIdentity
from veilsum.agents.protocol.memory import AgentState
from veilsum.agents.protocol.options import ONE

if TYPE_CHECKING:
    from veilsum.agents.protocol.link import Link

UNKNOWN = 2**256  # size of a release where the manifest knows no largest: still fits a message
READINGS = 2**32  # of a batch that has no longest one
ROOM = 4  # times the releases of all members: roll-backs and delays stay below it
ROUNDING = 2  # units of weight by which a part that is rounded may have too little
MOST_ROUNDS = 2**40  # that anybody sends: whoever skips more has not
DUST = 2**10  # units that are nothing
_NOTHING = (0, 0, 0)  # crosses a link that the view does not have


def largest_release(manifest: Manifest) -> int:
    """A bound on every release and its rounding, in whole numbers; `UNKNOWN` if there is none.

    Parameters
    ----------
    manifest : Manifest
        The terms.

    Returns
    -------
    int
        At least `Manifest.largest`. That is computed for the scales of the noise up to the last
        round, which under Network DP grow for ever if there is none.
    """
    endless = manifest.hides_neighbours and not manifest.rounds
    by_signal = manifest.sensitivity not in ("none", "global")
    if endless or by_signal or not math.isfinite(manifest.largest):
        return UNKNOWN
    return math.ceil(manifest.largest) + 1


class RegisterSource:
    """Has a register that says who takes part; `Flooding` is one."""

    register = Register()


class Claims:
    """What the neighbours of one agent can claim, and what it sends them at most.

    Parameters
    ----------
    manifest : Manifest
        The schedule, the weights and the largest release.
    state, identity : AgentState, AgentIdentity
        The agent's own round and number of releases.

    Attributes
    ----------
    rounds : int
        The last round; 0 is open-ended.
    largest : int
        No release is larger.
    exact : bool
        Whether what crosses a link is known: there is a last round, and weights are symmetric.
    source : RegisterSource
        Has the agent's register: dropped links, and who has ended.
    """

    def __init__(self, manifest: Manifest, state: AgentState, identity: AgentIdentity) -> None:
        """Read the limits off the manifest."""
        self._manifest, self._state, self._identity = manifest, state, identity
        self.rounds, self.largest = manifest.rounds, largest_release(manifest)
        self.source = RegisterSource()
        self._unit, self._members = manifest.unit, len(manifest.members)
        online = manifest.made_algorithm.online
        longest = manifest.longest_batch or (READINGS if manifest.batch_growth > 1 else 1)
        self._grows = manifest.asynchronous or online
        self._batch = 1 if online and not manifest.asynchronous else longest
        self._waits, self._symmetric = manifest.waits, manifest.flows.symmetric
        self.exact = self._waits and self._symmetric
        self._parts: dict[str, int] = {}  # where rounds are clipped: weight of one, by neighbour
        if manifest.clip:
            weights = manifest.link_weights(state.label)
            self._parts = {peer: (1 << self._unit) * w >> ONE for peer, w in weights.items()}
        self._view: tuple[int, int] = (-1, -1)
        self._seen: Register | None = None
        self._flows: dict[str, tuple[int, int, int]] = {}

    def allows_next(self, link: Link, message: CumulativeMass, total: int, weight: int) -> bool:
        """Whether the next message of one component is within all limits, for certain.

        A fast path past the two refusals below, which decide where this is False.
        """
        gained, sums = message[7] - weight, message[6][0]
        most = self.largest * gained
        if gained < 0 or not -most <= sums - total <= most or not self._symmetric:
            return False
        if self._parts:
            return not self._clipped_refusal(link, message)
        net = message[7] - link.out_weight
        if not self.exact:
            return net <= self._own_allowance()
        if self.source.register is not self._seen or link.peer not in self._flows:
            return False
        low, high, most = self._flows[link.peer]
        if self._grows:
            number = message[4]
            if number > self._state.round + 1:
                return False
            low, high, most = low * number, high * number, most * number
        return low <= net <= high and -most <= sums - link.out_sums[0] <= most

    def rise_refusal(
        self, rounds: int, sums: Sequence[int], weight: int, later: CumulativeMass
    ) -> str:
        """Why no honest neighbour's totals rise like that in some rounds; empty if one's may."""
        gained = later[7] - weight
        if gained < 0:
            return "its total of weight fell"
        most = self.largest * (gained + ROUNDING * min(rounds, MOST_ROUNDS) + DUST)
        for before, now in zip(sums, later[6], strict=True):
            if not -most <= now - before <= most:
                return f"its total rose or fell by more than {self.largest} times its weight"
        if not self._symmetric and gained > rounds * self._one_round(later[4]):
            return f"its total of weight rose by more than exists, in {rounds} rounds"
        return ""

    def net_refusal(self, link: Link, message: CumulativeMass) -> str:
        """Why no honest neighbour has sent so much more than it was sent; empty if one may."""
        if self._parts:
            return self._clipped_refusal(link, message)
        if not self._symmetric:
            return ""
        net = message[7] - link.out_weight
        if not self.exact:
            if net > self._own_allowance():
                return f"{_shown(net, self._unit)} more of weight than it was sent, too much"
            return ""
        if self._state.leaving:  # the others go on without this agent
            return ""
        low, high, most = self._known_flows(message[9]).get(link.peer, _NOTHING)
        readings = self._readings(min(message[4], self._state.round + 1)) if self._grows else 1
        if not low * readings <= net <= high * readings:
            return f"{_shown(net, self._unit)} more of weight than it was sent, more than can be"
        limit = most * readings
        for now, sent in zip(message[6], link.out_sums, strict=True):
            if not -limit <= now - sent <= limit:
                return "its total differs from what it was sent by more than can be"
        return ""

    def _clipped_refusal(self, link: Link, message: CumulativeMass) -> str:
        """Why no honest neighbour says this where all weights are equal in all rounds."""
        number = message[4]
        if message[9]:  # it leaves, and hands nothing over
            return ""
        if number > self._state.round + 1:
            return f"more than one round ahead of round {self._state.round}"
        if message[7] != number * self._parts[link.peer]:
            return "another weight than every member has where rounds are clipped"
        return ""

    def permits(self, link: Link, sums: Sequence[int], weight: int) -> bool:
        """Whether a neighbour accepts so much more, for sure."""
        if not self._waits:
            room = self._room(link)
            if room is not None and weight > room:
                return False
        most = self.largest * (weight + ROUNDING)
        return -most <= min(sums) and max(sums) <= most

    def reduce(self, link: Link, sums: Sequence[int], weight: int) -> tuple[list[int], int]:
        """As much of some mass as a neighbour accepts for sure; perhaps none."""
        room = self._room(link)
        if room is not None and weight > room:
            kept = max(room, 0)
            sums, weight = [s * kept // weight if weight else 0 for s in sums], kept
        most = self.largest * (weight + ROUNDING)
        return [min(max(s, -most), most) for s in sums], weight

    def _room(self, link: Link) -> int | None:
        """How much more weight a neighbour accepts for sure; None where that is known anyway."""
        if self._waits:
            return None
        allowance = self._allowance(link.newest + link.known.releases)
        return allowance - (link.out_weight - link.in_weight if self._symmetric else 0)

    def _own_allowance(self) -> int:
        return self._allowance(self._state.round + self._identity.release_fields[0])

    def _allowance(self, count: int) -> int:
        readings = self._batch * (1 + (count if self._grows else 0))
        return ROOM * self._members * readings << self._unit

    def _one_round(self, number: int) -> int:
        """The most weight that one round sends where mass moves in circles."""
        if not self._waits:
            return self._own_allowance()
        return self._members * self._readings(number) << self._unit

    def _readings(self, number: int) -> int:
        """The most readings of one member that are in after a round of a run with a last one."""
        return max(number, 1) if self._grows else self._batch

    def _known_flows(self, leaving: bool) -> dict[str, tuple[int, int, int]]:
        """By neighbour: least and most weight net, and the most of a sum.

        Of one reading of each member, where every round adds one; otherwise of all.
        """
        register = self.source.register
        if register is not self._seen or leaving:  # a register is replaced, and never changed
            self._seen = None if leaving else register
            departed = register.ended.bit_count() or int(leaving)
            if self._view != (register.dropped, departed):
                self._view = register.dropped, departed
                self._flows = self._compute_flows(register.dropped, 2 * departed * self._members)
        return self._flows

    def _compute_flows(self, dropped: int, more: int) -> dict[str, tuple[int, int, int]]:
        label = self._state.label
        one = (1 if self._grows else self._batch) << self._unit
        found = {}
        for (peer, to), flow in self._manifest.flows.of(dropped).items():
            if to == label:
                low, high = flow.minus + flow.step + more, flow.plus + flow.step + more
                most = flow.plus + flow.minus + flow.step + 2 * more
                found[peer] = (
                    -math.ceil(low * one),
                    math.ceil(high * one),
                    self.largest * math.ceil(most * one),
                )
        return found


def _shown(weight: int, unit: int) -> str:
    """A weight in readings, however large."""
    return f"{weight >> unit}" if weight >> unit else f"{weight / (1 << unit):.3g}"
