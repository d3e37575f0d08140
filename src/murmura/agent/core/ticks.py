"""No rounds in common: every agent pushes at its own pace, and readings enter when they come.

A reading adds (release, 1) to what is held. Whatever the speeds, the ratio S/w tends to the mean
of all that was released: late joiners and missing readings change who contributes, not what is
right. At every tick the agent pushes half of its shares, so that it always holds something to
estimate with, whatever its own weight; its round is the number of its pushes. A link
whose pushes are not answered for `patience` ticks is left alone until they are; while all are, the
agent says its last again and counts no tick.
"""

from __future__ import annotations

import math
from typing import Any

from murmura.agent.core.base import Core
from murmura.agent.core.link import Link
from murmura.agent.core.options import ONE, Options
from murmura.agent.events import Report, SetTimer
from murmura.agent.manifest import Manifest
from murmura.agent.messages import Totals
from murmura.errors import AgentError

HALF = 1 << (ONE - 1)


class Ticks(Core):
    """A core that pushes by its own clock."""

    def __init__(self, manifest: Manifest, label: str, options: Options | None = None) -> None:
        """Refuse terms that need rounds in common."""
        super().__init__(manifest, label, options)
        self._waited = 0  # ticks that were not counted
        if manifest.hides_neighbours or manifest.tolerance:
            what = "Network DP" if manifest.hides_neighbours else "a tolerance"
            raise AgentError(
                f"asynchronous agents have no rounds in common, which {what} needs; "
                "run them with asynchronous = false"
            )

    def progress(self) -> list[Any]:
        """Nothing besides the flows."""
        return []

    def proceed(self, read: list[Any]) -> None:
        """Nothing to take back."""

    def _begin(self) -> None:
        self._changed()
        self._out.append(SetTimer("tick", self.options.tick))

    def _changed(self) -> None:
        if not self.reason and self.pending:
            self.enter()
        if self.leaving and not self.reason:
            self._hand_over()

    def _arrived(self, link: Link, message: Totals) -> None:
        self.absorb(link, message)

    def _timer(self, timer: str) -> None:
        if timer != "tick" or self.reason or self.leaving:
            return
        if self.late:
            self.finish("late")
            return
        if self._accompanied():
            self._waited = 0
            self._push()
        else:
            self._wait()
        if self.round == self.manifest.rounds > 0:
            self.finish("rounds")
        else:
            self._out.append(SetTimer("tick", self.options.tick))

    def _accompanied(self) -> bool:
        """Whether somebody answers or is done, or all have left for good."""
        for link in self.links:
            if (link.done and link.in_weight) or self.usable(link):
                return True
        return all(link.closed for link in self.links)

    def _wait(self) -> None:
        """Nobody answers: ask again, and say so once in a deadline."""
        self._waited += 1
        if self._waited % math.ceil(self.options.deadline / self.options.tick) == 0:
            self.report("alone", text=f"no neighbour answers; tick {self.round} was the last")
        for link in self.links:
            if self._reached(link):
                self.tell(link)

    def _push(self) -> None:
        self.round += 1
        self.push(HALF)
        self.dirty = True
        for link in self.links:
            if self._reached(link):
                self.tell(link)
        self._out.append(Report("round", self.round, "", "", self.estimate))
