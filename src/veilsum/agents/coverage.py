"""Whose readings are in an estimate: the coverage of a result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from veilsum.errors import AgentError

MOST_NAMES = 8  # that a sentence lists


@dataclass(frozen=True)
class Coverage:
    """The members whose readings are in an estimate, and those that are missing.

    Parameters
    ----------
    members : tuple of str
        Every member of the manifest.
    present : tuple of str
        Those that take part: they agreed on the manifest and were not lost.
    readings : tuple of int
        For each member, how many of its readings are in the estimate.
    dropped : tuple of (str, str)
        Links over which nothing was exchanged, because one end was lost or the link was broken.
    draws : int
        Draws of noise in an estimate from masked sums: the sizes of all rosters together.
    attempt : int
        Which attempt of its query gave the last masked sum, from 1; 0 without one.
    mixed : int or None
        Rounds since what a member had exchanged was last rolled back, because it lost its state
        of mixing; None where none was.
    left : tuple of str
        Members that left for good, and handed their part of the estimate over: it is in it.
    lost : tuple of str
        Members that ended with a part that they could not hand over: it is not in the estimate.
    former : tuple of str
        Members of earlier epochs: nothing of theirs is in the estimate.

    Raises
    ------
    AgentError
        If the parts do not fit together.

    Examples
    --------
    >>> found = Coverage(("a", "b", "c"), ("a", "b"), (1, 1, 0))
    >>> found.sentence()
    'readings of 2 of 3 members, 1 missing: c'
    >>> Coverage(("a", "b"), ("a", "b"), (12, 7)).sentence()
    '19 readings of 2 of 2 members'
    >>> found.meets(2), found.complete
    (True, False)
    >>> Coverage(("a", "b"), ("a", "b"), (1, 1), left=("b",), former=("c",)).sentence()
    'readings of 2 of 2 members, left and handed over: b, former members, not in it: c'
    """

    members: tuple[str, ...]
    present: tuple[str, ...] = ()
    readings: tuple[int, ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()
    draws: int = 0
    attempt: int = 0
    mixed: int | None = None
    left: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    former: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that there is a count for each member, and that nobody else is present."""
        if len(self.readings) != len(self.members):
            raise AgentError(
                f"coverage needs one count of readings for each of {len(self.members)} members; "
                f"found {len(self.readings)}"
            )
        if not set(self.present) <= set(self.members):
            raise AgentError("only members can be present; expected labels of the manifest")

    @classmethod
    def none(cls, members: tuple[str, ...]) -> Coverage:
        """Nobody's readings."""
        return cls(members, (), (0,) * len(members))

    @property
    def contributing(self) -> tuple[str, ...]:
        """The members with at least one reading in the estimate."""
        return tuple(m for m, count in zip(self.members, self.readings, strict=True) if count)

    @property
    def missing(self) -> tuple[str, ...]:
        """The members without a reading in the estimate."""
        return tuple(m for m, count in zip(self.members, self.readings, strict=True) if not count)

    @property
    def absent(self) -> tuple[str, ...]:
        """The members that do not take part, as far as is known."""
        return tuple(member for member in self.members if member not in self.present)

    @property
    def count(self) -> int:
        """How many members contribute."""
        return sum(1 for count in self.readings if count)

    @property
    def complete(self) -> bool:
        """Whether every member contributes."""
        return self.count == len(self.members)

    def meets(self, quorum: int) -> bool:
        """Whether at least so many members contribute."""
        return self.count >= quorum

    def sentence(self) -> str:
        """One line for a person: how many, and who is missing."""
        missing = self.missing
        total = sum(self.readings)
        text = f"readings of {self.count} of {len(self.members)} members"
        if total != self.count:
            text = f"{total} {text}"
        text = f"{text}, {len(missing)} missing: {some_names(missing)}" if missing else text
        for names, what in (
            (self.left, "left and handed over"),
            (self.lost, "gone with a part that is lost"),
            (self.former, "former members, not in it"),
        ):
            text += f", {what}: {some_names(names)}" if names else ""
        return text


class Departure(NamedTuple):
    """What became of a member's part of the estimate when it left.

    Attributes
    ----------
    handed_over : tuple of (str, float)
        Neighbours that acknowledged what they were given, and how much, in weight of readings.
    lost : tuple of str
        What could not be handed over, in words; empty if all was.
    unreleased : int
        Readings of the open batch: they were never released, so that they are in no estimate and cost
        nothing.

    Examples
    --------
    >>> Departure((("b", 2.0),), unreleased=3).sentence()
    'handed over 2 to b (weight of readings); lost: nothing; 3 readings of the open batch are not in \
the estimate, were not released and cost nothing'
    """

    handed_over: tuple[tuple[str, float], ...] = ()
    lost: tuple[str, ...] = ()
    unreleased: int = 0

    def sentence(self) -> str:
        """One line for a person."""
        parts = ", ".join(f"{weight:.6g} to {peer}" for peer, weight in self.handed_over)
        given = f"handed over {parts} (weight of readings)" if parts else "nothing to hand over"
        lost = f"lost: {' and '.join(self.lost) or 'nothing'}"
        return "; ".join((given, lost, *filter(None, [unreleased_sentence(self.unreleased)])))

    def to_json(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {
            "handed_over": dict(self.handed_over),
            "lost": list(self.lost),
            "unreleased": self.unreleased,
        }


def unreleased_sentence(count: int) -> str:
    """What became of the readings of an open batch; empty if there are none."""
    if not count:
        return ""
    some, are, were = (
        ("1 reading", "is", "was") if count == 1 else (f"{count} readings", "are", "were")
    )
    return (
        f"{some} of the open batch {are} not in the estimate, {were} not released and cost nothing"
    )


def some_names(names: tuple[str, ...] | list[str]) -> str:
    """The first few names, and how many more there are.

    Examples
    --------
    >>> some_names([str(k) for k in range(10)])
    '0, 1, 2, 3, 4, 5, 6, 7 and 2 more'
    """
    listed = ", ".join(names[:MOST_NAMES])
    more = len(names) - MOST_NAMES
    return f"{listed} and {more} more" if more > 0 else listed
