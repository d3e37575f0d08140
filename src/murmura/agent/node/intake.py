"""From a source of readings to an agent: when it has use for one, and what may go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from murmura.agent.events import NoMoreReadings, Reading
from murmura.agent.manifest import Manifest
from murmura.agent.node.readings import Now
from murmura.agent.node.site import Site
from murmura.agent.node.voice import Voice
from murmura.errors import SignalError
from murmura.privacy.accounting import BudgetExceeded

POLL = 0.05  # seconds between two looks at a source that had nothing
SOON = 0.0  # until the next reading of an agent that takes them as they come

Perform = Callable[[Site, Any], None]
Again = Callable[[Site, float], None]


class Intake:
    """Takes readings, has them released and hands the releases to the core."""

    def __init__(self, manifest: Manifest, voice: Voice, perform: Perform, again: Again) -> None:
        """`perform` carries out a core's actions, `again` calls `feed` after some seconds."""
        self.manifest, self.voice = manifest, voice
        self.online = manifest.made_law.online
        self._perform, self._again = perform, again

    def feed(self, site: Site) -> None:
        """Take readings while the agent has use for one; others have their turn in between."""
        while not site.ended and self.wants(site):
            try:
                value = site.readings.next()
            except SignalError as problem:
                site.fed += 1
                self._unfit(site, problem)
                continue
            if isinstance(value, Now):
                if value is Now.WAITING:
                    self._again(site, POLL)
                else:
                    self._no_more(site)
                return
            self._release(site, value)
            if self.manifest.asynchronous:
                self._again(site, SOON)
                return

    def wants(self, site: Site) -> bool:
        """One reading for an offline estimate, one ahead of each round for an online one."""
        if not self.online:
            return site.fed < 1
        return self.manifest.asynchronous or site.fed <= site.core.round

    def _release(self, site: Site, value: Any) -> None:
        site.fed += 1
        try:
            enters = max(site.fed, site.core.round + 1)  # noise that grows must cover that round
            released = site.drawer.release(site.ledger, site.fed, value, enters)
        except BudgetExceeded as refused:
            self.voice.log.say("budget", site.label, str(refused))
            self._no_more(site)
            return
        except SignalError as problem:
            self._unfit(site, problem)
            return
        self.voice.budget(site.label, site.ledger, released=True)
        self._perform(site, site.core.handle(Reading(released)))

    def _unfit(self, site: Site, problem: SignalError) -> None:
        """A reading that cannot be released; where every round needs one, it was the last."""
        self.voice.log.say("reading", site.label, str(problem))
        if self.manifest.hides_neighbours:
            self._no_more(site)

    def _no_more(self, site: Site) -> None:
        site.ended = True
        self._perform(site, site.core.handle(NoMoreReadings()))
