"""What an agent remembers: its state while it runs, and the snapshot that a restart continues.

A snapshot does not contain whether a link is open: before mass is sent again, the agent learns what
its neighbour knows. It does not contain the agent's mass either, which follows from what it
released and from the totals of its links; nor buffered messages, which their senders repeat.

Versions (`versions.STATE`): a snapshot begins with its version. Version 5 had two shapes, without and
with the rounds since mixing was undone; version 6 has one, which also says who left and whose part is
lost, and packs the numbers without a release (`gaps`), of which version 5 had a list. The former is
read, and the next snapshot replaces it. Where rounds are clipped the schedule's part has one entry more,
with offers and what was not gained: a version that does not know it refuses the manifest, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from veilsum.agents.coverage import Coverage
from veilsum.agents.messages import RangeReport
from veilsum.agents.protocol.gaps import Gaps
from veilsum.agents.protocol.states import SessionState
from veilsum.agents.versions import STATE
from veilsum.errors import LedgerError

if TYPE_CHECKING:
    from veilsum.agents.protocol.link import Link
    from veilsum.agents.protocol.mass import Mass

VERSION = STATE.newest
LOST = -1  # `mixed_since` from a loss of the own mixing state until the round is the others'
BEHIND = -2  # the same from the start of an agent that may come late, and has lost nothing


@dataclass(slots=True)
class AgentState:
    """What all parts of an agent share; each gets it by its constructor.

    Attributes
    ----------
    label : str
        The agent's name.
    incarnation, round : int
        Where it is; 0 before it has started.
    first_round : int
        The round that this run of the agent began with.
    mixed_since : int
        The last round up to which mixing was undone, as far as is known; 0 if none was, and
        `LOST` in an agent that lost its own state of mixing, until it is in the others' round, and
        `BEHIND` in one that has just started, likewise.
    leaving, exhausted : bool
        Whether it leaves for good, and whether no further reading will come.
    reason, result : str, tuple of float
        Why it is done, and the estimate it was done with.
    result_round, coverage : int, Coverage
        The round of that estimate, and whose readings are in it.
    view : bytes
        What identifies the view in messages.
    completed : bool
        Whether the last round of the view is complete: the result waits for the others.
    halted : bool
        Whether it ignores all further events.
    unsaved : bool
        Whether something changed since the last snapshot.
    """

    label: str
    incarnation: int = 0
    round: int = 0
    first_round: int = 0
    mixed_since: int = 0
    leaving: bool = False
    exhausted: bool = False
    reason: str = ""
    result: tuple[float, ...] = ()
    result_round: int = 0
    coverage: Coverage = field(default_factory=lambda: Coverage(()))
    view: bytes = b""
    completed: bool = False
    halted: bool = False
    unsaved: bool = False

    @property
    def mixed(self) -> int | None:
        """How many rounds have mixed for certain since mixing was last undone; None if it never was.

        The present round is not counted: while it waits, the estimate is that of the round before.
        """
        since = self.mixed_since
        if since == 0:
            return None
        return 0 if since < 0 else max(self.round - since - 1, 0)

    def in_step(self) -> None:
        """The present round is the others': from the next one on this agent mixes with them."""
        if self.mixed_since < 0:
            self.mixed_since, self.unsaved = self.unmixed, True

    @property
    def unmixed(self) -> int:
        """The last round up to which nothing that this agent sends was mixed; 0 if all of it was.

        Who begins the first round with the others has missed nothing.
        """
        since = self.mixed_since
        if since == BEHIND and self.round <= 1:
            return 0
        return self.round if since < 0 else since

    def undo_mixing(self, since: int) -> None:
        """No round up to this one counts as mixed."""
        if self.mixed_since >= 0 and since > self.mixed_since:
            self.mixed_since, self.unsaved = since, True


def snapshot(
    digest: bytes,
    state: AgentState,
    mass: Mass,
    links: Mapping[str, Link],
    schedule: list[Any],
    gathering: list[Any],
) -> bytes:
    """Write an agent's state as compact JSON.

    Parameters
    ----------
    digest : bytes
        Of the manifest.
    state, mass, links
        The agent's parts.
    schedule, gathering : list
        What its schedule and its gathering remember besides, as JSON accepts it.

    Returns
    -------
    bytes
        What `restore` reads.
    """
    rows = [
        [
            link.peer, link.peer_incarnation, link.session is SessionState.LEFT, link.out_sums,
            link.out_weight, link.in_sums, link.in_weight, link.in_round, link.in_tag.hex(),
            link.acknowledged, link.since, link.range_report, link.first_tag.hex(),
        ]
        for link in links.values()
        if link.peer_incarnation
    ]  # fmt: skip
    written = [
        VERSION, digest.hex(), state.label, state.incarnation, state.round, mass.released_sums,
        mass.released_weight, mass.entered, mass.skipped.text(), state.reason, state.result,
        state.leaving, schedule, rows, mass.aside_sums, mass.aside_weight, gathering,
        _written_result(state), [state.mixed_since, state.coverage.mixed],
        [state.coverage.left, state.coverage.lost],
    ]  # fmt: skip
    return json.dumps(written, separators=(",", ":")).encode()


def restore(
    digest: bytes, state: AgentState, mass: Mass, links: Mapping[str, Link], written: bytes
) -> tuple[list[Any], list[Any]]:
    """Set an agent's parts to what `snapshot` wrote.

    Parameters
    ----------
    digest : bytes
        Of the manifest.
    state, mass, links
        The agent's parts; `state` has its label and incarnation.
    written : bytes
        The snapshot.

    Returns
    -------
    tuple of list
        What the schedule and the gathering remember.

    Raises
    ------
    LedgerError
        If the snapshot cannot be read, or is of another version, manifest, agent or incarnation.
    """
    read = _checked(digest, state, written)
    state.round, mass.released_sums, mass.released_weight, mass.entered = read[4:8]
    mass.skipped, state.reason, state.result = Gaps.parse(read[8]), read[9], tuple(read[10])
    state.leaving = read[11]
    mass.aside_sums, mass.aside_weight = read[14:16]
    for peer, incarnation, left, *values in read[13]:
        link = links[peer]
        link.peer_incarnation = incarnation
        if left:
            link.restore_left()
        link.out_sums, link.out_weight = tuple(values[0]), values[1]
        link.in_sums, link.in_weight = tuple(values[2]), values[3]
        link.in_round, link.in_tag = values[4], bytes.fromhex(values[5])
        link.newest, link.acknowledged, link.since = link.in_round, values[6], values[7]
        link.range_report = range_report(values[8])
        link.first_tag = bytes.fromhex(values[9])
    mass.recount()
    state.mixed_since, mixed = read[18]
    if read[17] is not None:
        state.result_round, *coverage = read[17]
        members, present, readings = map(tuple, coverage)
        left, lost = map(tuple, read[19])
        state.coverage = Coverage(members, present, readings, mixed=mixed, left=left, lost=lost)
    return list(read[12]), list(read[16])


def _written_result(state: AgentState) -> list[Any] | None:
    if not state.reason:
        return None
    found = state.coverage
    return [state.result_round, found.members, found.present, found.readings]


def range_report(read: list[Any]) -> RangeReport:
    """A range report as JSON returns it."""
    phase, depth, low, high, stop = read
    return RangeReport(phase, depth, tuple(low), tuple(high), stop)


def _from_5(read: list[Any]) -> list[Any]:
    """Without the rounds since mixing was undone, it never was; nobody left that it knew of."""
    return [*read[:18], *(read[18:19] or [[0, None]]), [[], []]]


UPGRADES: dict[int, Callable[[list[Any]], list[Any]]] = {5: _from_5}  # each to the version after it


def _checked(digest: bytes, state: AgentState, written: bytes) -> list[Any]:
    expected = [digest.hex(), state.label, state.incarnation]
    try:
        read = json.loads(written)
        version, *found = read[:4]
    except (ValueError, TypeError) as error:
        raise LedgerError(f"the state of {state.label} cannot be read: {error}") from None
    if type(version) is not int or not STATE.reads(version):
        why = STATE.refusal(version) if type(version) is int else "it states no version"
        raise LedgerError(
            f"the state of {state.label} is for another version: {why}; begin a new incarnation with "
            "the releases of its ledger"
        )
    names = ("manifest", "agent", "incarnation")
    for name, own, other in zip(names, expected, found, strict=True):
        if own != other:
            raise LedgerError(
                f"the state of {state.label} is for another {name}: found {other}, expected {own}; "
                "begin a new incarnation with the releases of its ledger"
            )
    for older in range(version, VERSION):
        read = UPGRADES[older](read)
    return list(read)
