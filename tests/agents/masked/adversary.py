"""What an adversary does and computes in a small network: puppets, weakened terms, sums it can read."""

from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from tests.agents.masked.world import EPSILON, QUERY, World, made_terms
from veilsum.agents.masked import masks
from veilsum.agents.masked.entries import Stage
from veilsum.agents.masked.masks import EphemeralKey, Participant, centred, to_words
from veilsum.agents.masked.records import Commit, Masked, Present, Ready, Roster, SignedRecord
from veilsum.agents.masked.session import Session
from veilsum.agents.masked.terms import MaskedTerms
from veilsum.privacy.masked import MaskedParameters

EPS = Fraction(EPSILON)


@dataclass(frozen=True)
class Unchecked(MaskedParameters):
    """Weakened variant: numbers of members and attempts that the theorem does not cover."""

    def _check_members(self) -> None:
        pass


def unchecked_terms(labels: str, colluders: int, absent: int, attempts: int = 1) -> MaskedTerms:
    """Terms that `MaskedParameters` would refuse."""
    numbers = Unchecked(
        len(labels), colluders, absent, EPSILON, sensitivity_steps=100, largest_steps=1000,
        attempts=attempts,
    )  # fmt: skip
    return replace(made_terms(0, 0, labels), parameters=numbers)


class Lenient(Session):
    """Weakened variant: one objection to a roster is not made."""

    ignored = ""

    def objection(self, entry: Any, roster: Any) -> str:
        found = super().objection(entry, roster)
        return "" if self.ignored in found else found


def world_of(
    session: type[Session] = Session, terms: MaskedTerms | None = None, silent: str = ""
) -> World:
    """A started network; the silent ones are the adversary's to play."""
    world = World(terms, session=session)
    for label in world.terms.labels:
        if label not in silent:
            world.start(label)
    return world


def session_at(world: World, label: str) -> Session:
    found = world.sessions[label]
    assert found is not None
    return found


def value(world: World, label: str, draw: int = 0) -> tuple[int, ...]:
    """v = x + eta, the secret."""
    noise = world.drawn[label][draw]
    return tuple(x + eta for x, eta in zip(world.statistics[label], noise, strict=True))


def stages(world: World, label: str) -> list[Stage]:
    return [entry.stage for entry in world.ledgers[label].entries(QUERY)]


def said(world: World, label: str, kind: type) -> list[Any]:
    """What an agent published, of one kind."""
    return [s.record for s in world.published[label] if isinstance(s.record, kind)]


def presences(world: World, to: str, sid: bytes, labels: Any) -> dict[str, Participant]:
    """The members of a roster as rho is made of them, from what one agent has heard."""
    return {label: _presence(session_at(world, to), sid, label) for label in labels}


def _presence(session: Session, sid: bytes, label: str) -> Participant:
    signed = session.records.get(sid, "Present", label)
    assert signed is not None
    assert isinstance(signed.record, Present)
    return Participant(signed.record.key, signed.record.readings)


class Puppet:
    """A colluding member that says whatever leads an honest one to send its value."""

    def __init__(self, world: World, label: str, sid: bytes = b"") -> None:
        self.world, self.label = world, label
        self.sid = sid or world.terms.sid(QUERY, 0, 0)
        self.key = EphemeralKey()

    def present(self, to: str, key: bytes = b"") -> None:
        self.world.inject(to, Present(self.sid, self.label, key or self.key.public))

    def propose(self, to: str, members: tuple[int, ...], labels: Any, **changes: Any) -> Roster:
        found = presences(self.world, to, self.sid, labels) | changes
        rho = masks.roster_digest(self.world.terms.manifest, self.sid, found)
        roster = Roster(self.sid, self.label, rho, members)
        self.world.inject(to, roster)
        return roster

    def go_on(self, to: str, rho: bytes, hidden: bytes = bytes(32)) -> None:
        """Commit to anything, then be ready for whatever the other one is ready for."""
        self.world.inject(to, Commit(self.sid, self.label, rho, hidden))
        for ready in said(self.world, to, Ready):
            if ready.rho == rho:
                self.world.inject(to, Ready(self.sid, self.label, rho, ready.gamma))

    def read(
        self, words: tuple[int, ...], victim: str, roster: dict[str, Participant]
    ) -> tuple[int, ...]:
        """A victim's masked value without the mask that it has in common with the puppet."""
        manifest = self.world.terms.manifest
        rho = masks.roster_digest(manifest, self.sid, roster)
        theirs = roster[victim].key
        info = masks.pair_info(
            manifest, self.sid, rho, (self.label, self.key.public), (victim, theirs)
        )
        mask = masks.stream(self.key.exchange(theirs), info, len(words))
        found = to_words(words)
        return centred(found - mask if victim < self.label else found + mask)


def closed_sums(world: World, honest: str, colluders: str) -> list[tuple[set[str], Any]]:
    """Every roster for which all honest members published: who, and the sum of all its values.

    The lemma says that this is what the adversary learns; it is computed from published values.
    """
    rosters: dict[bytes, tuple[int, ...]] = {}
    values: defaultdict[bytes, dict[str, tuple[int, ...]]] = defaultdict(dict)
    for label in honest + colluders:
        for roster in said(world, label, Roster):
            rosters[roster.rho] = roster.members
        for masked in said(world, label, Masked):
            values[masked.rho][label] = masked.words
    found = []
    for rho, numbers in rosters.items():
        members = {world.terms.labels[number] for number in numbers}
        if all(label in values[rho] for label in members):
            words = [to_words(values[rho][label]) for label in sorted(members)]
            found.append((members & set(honest), centred(sum(words[1:], words[0]))))
    return found


def without(label: str, kind: type) -> Any:
    """A filter of exchanges that holds one member's records of a kind back."""

    def keep(signed: SignedRecord) -> bool:
        return not (signed.record.label == label and isinstance(signed.record, kind))

    return keep


def exchange_among(world: World, labels: str, keep: Any = lambda _: True, rounds: int = 6) -> None:
    """Everything that `keep` lets through, within one side of a partition."""
    for _ in range(rounds):
        for source in labels:
            for to in labels:
                world.exchange(source, to, keep)
