"""What a run keeps: memory follows the choice."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from murmura import _validate
from murmura.errors import MurmuraError


@dataclass(frozen=True)
class Record:
    """Which rounds and agents' estimates to keep; error norms are kept for every round.

    `Record()` keeps the final estimates of all agents, `Record(every=10)` those of each tenth
    round and the last, `Record(agents=[...], every=1)` whole paths of a few agents, and
    `Record(estimates=False)` the error norms alone.
    """

    every: int | None = None
    agents: Sequence[Hashable] | None = None
    estimates: bool = True

    def __post_init__(self) -> None:
        """Check the stride."""
        if self.every is not None:
            _validate.at_least(MurmuraError, 1, every=self.every)
        if self.agents is not None and len(self.agents) == 0:
            raise MurmuraError(
                "record has an empty list of agents; leave it out for all of them, or use "
                "estimates=False for none"
            )

    def rounds(self, last: int) -> list[int]:
        """List the rounds whose estimates are kept."""
        if not self.estimates:
            return []
        kept = range(0, last + 1, self.every) if self.every else range(0)
        return sorted({*kept, last})

    def rows(self, labels: Sequence[Hashable]) -> list[int] | slice:
        """Find the rows of the agents that are kept."""
        if self.agents is None:
            return slice(None)
        place = {label: i for i, label in enumerate(labels)}
        unknown = [label for label in self.agents if label not in place]
        if unknown:
            raise MurmuraError(
                f"record names agents that the network does not have: {unknown[:5]}; "
                "use the labels of the network's agents"
            )
        return [place[label] for label in self.agents]
