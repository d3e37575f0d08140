"""What a prepared agent waits for: the whole roster's commitments, then that all are ready for them.

Each question costs the same however many members there are until as many records are counted as
the roster has members; then they are read once, and once per process where nobody contradicts itself.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from veilsum.agents.masked.flooding import Agreement, RecordSet
from veilsum.agents.masked.records import Commit, Ready, SignedRecord, commitments_digest

CONVICTING = ("Roster", "Commit", "Ready")  # before SENT, a contradiction of these ends a view


def has_failed(
    records: RecordSet, sid: bytes, labels: tuple[str, ...], left: AbstractSet[str]
) -> bool:
    """Whether a member left or contradicted itself: before SENT, nobody needs to wait.

    One that has sent its value and is in the next attempt has done its part.
    """
    if left:
        lost = left - (records.of(sid, "Masked").keys() - records.of(sid, "Withdraw").keys())
        if not lost.isdisjoint(labels):
            return True
    liars = {who for kind, who in records.contradictions(sid) if kind in CONVICTING}
    return bool(liars) and not liars.isdisjoint(labels)


def agreed_commitments(
    records: RecordSet, sid: bytes, rho: bytes, labels: tuple[str, ...]
) -> bytes | None:
    """gamma = H(all commitments of the roster); None while one is missing or for another roster."""
    if records.count(sid, "Commit", rho) < len(labels):
        return None
    found = records.gather(sid, "Commit", labels)
    if found is None:
        return None
    gamma: bytes | None = records.derived(sid, ("gamma", rho, labels), lambda: _gamma(rho, found))
    return gamma


def agreement_on(
    records: RecordSet, sid: bytes, rho: bytes, gamma: bytes, labels: tuple[str, ...]
) -> Agreement:
    """What an agent that is ready takes masked values for; of the commitments that it has seen."""
    found = records.gather(sid, "Commit", labels)
    if found is None:
        return Agreement(rho, gamma, {})
    made: Agreement = records.derived(
        sid, ("agreement", rho, labels), lambda: Agreement(rho, gamma, _hidden(found))
    )
    return made if made.gamma == gamma else Agreement(rho, gamma, {})


def all_ready(
    records: RecordSet, sid: bytes, rho: bytes, gamma: bytes, labels: tuple[str, ...]
) -> bool:
    """Whether a whole roster is ready for the same commitments."""
    if records.count(sid, "Ready", rho, gamma) < len(labels):
        return False
    found = records.gather(sid, "Ready", labels)
    return found is not None and bool(
        records.derived(
            sid, ("ready", rho, gamma, labels), lambda: _are_ready(found, rho, gamma) or None
        )
    )


def _gamma(rho: bytes, commits: tuple[SignedRecord, ...]) -> bytes | None:
    found = [one.record for one in commits]
    fits = all(isinstance(one, Commit) and one.rho == rho for one in found)
    return commitments_digest(rho, _hidden(commits)) if fits else None


def _hidden(commits: tuple[SignedRecord, ...]) -> dict[str, bytes]:
    found = (one.record for one in commits)
    return {one.label: one.commitment for one in found if isinstance(one, Commit)}


def _are_ready(readys: tuple[SignedRecord, ...], rho: bytes, gamma: bytes) -> bool:
    found = [one.record for one in readys]
    return all(isinstance(one, Ready) and (one.rho, one.gamma) == (rho, gamma) for one in found)
