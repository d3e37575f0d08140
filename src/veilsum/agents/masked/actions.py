"""What a session asks its agent to do, and its time limits."""

from __future__ import annotations

from typing import NamedTuple

from veilsum.agents.events import SetTimer
from veilsum.agents.manifest import Manifest
from veilsum.agents.masked.flooding import Admission
from veilsum.agents.masked.records import SignedRecord
from veilsum.agents.masked.results import SumResult
from veilsum.agents.protocol.options import Options

SETTLING = 60.0  # seconds from a roster to the masked values, at least
STOPPED = ("rolled-back", "cloned")  # an agent that says no more, whatever it receives


class Publish(NamedTuple):
    """Flood this record; its ledger entry is durable."""

    signed: SignedRecord


class Misconduct(NamedTuple):
    """A record that convicts somebody: its signer (a contradiction), or the neighbour who sent it."""

    label: str
    kind: str
    admission: Admission


class Concluded(NamedTuple):
    """The query has its result, or will have none.

    Parameters
    ----------
    result : SumResult or None
        The sum.
    reason : str
        "sum", "attempts" (used up), "views" (used up, or too few members remain), "rolled-back" or
        "cloned".
    """

    result: SumResult | None
    reason: str


class Reinstated(NamedTuple):
    """A refunded charge was taken again: the refund was false.

    Parameters
    ----------
    attempt : int
        Whose.
    signers : tuple of str
        Who withdrew and published all the same; empty if the sum itself can be read.
    """

    attempt: int
    signers: tuple[str, ...]


SessionAction = Publish | SetTimer | Misconduct | Concluded | Reinstated


class SessionTimes(NamedTuple):
    """Time limits in seconds.

    Parameters
    ----------
    view : float
        For a view, once enough members have been seen in it.
    proposal : float
        Before a roster is proposed that lacks members, likewise.
    attempt : float
        For an attempt after this agent has sent, and for enough members to come back.

    Examples
    --------
    >>> SessionTimes(view=5.0).proposal
    10.0
    """

    view: float = 60.0
    proposal: float = 10.0
    attempt: float = 600.0

    @classmethod
    def of(cls, manifest: Manifest, options: Options) -> SessionTimes:
        """Those of a manifest: its gathering is waited for before members are left out."""
        settling = max(SETTLING, 30 * options.deadline)
        return cls(manifest.gathering + settling, manifest.gathering, manifest.lost_after)
