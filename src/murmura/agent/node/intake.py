"""From a source of readings to an agent: when it has use for one, and what may go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from murmura.agent.events import NoMoreReadings, Reading
from murmura.agent.ledger import Origin
from murmura.agent.manifest import Manifest
from murmura.agent.node.readings import Now
from murmura.agent.node.site import Site
from murmura.agent.node.voice import Voice
from murmura.errors import SignalError
from murmura.privacy.accounting import BudgetExceeded

POLL = 0.05  # seconds between two looks at a source that had nothing
TURN = 1000  # readings passed over before others have their turn
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
        """Take readings while the agent has use for one; others have their turn in between.

        What a source with a key gives again was released, and is passed over.
        """
        passed = 0
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
            origin = site.ledger.origin(site.readings.origin, site.fed + 1)
            if site.readings.keyed and site.ledger.knows(origin):
                passed += 1
                if passed % TURN == 0:
                    self._again(site, SOON)
                    return
                continue
            self._release(site, value, origin)
            if self.manifest.asynchronous:
                self._again(site, SOON)
                return

    @staticmethod
    def pass_over(site: Site) -> None:
        """Find the readings that were released where they were, or raise: they are not given again.

        A row that is not the one that was released under its number was changed, or rows were
        inserted, put in another order or taken out before it; nobody can tell which.
        """

        def check(reading: int, origin: Origin) -> None:
            known = site.ledger.origin_of(reading)
            if known and known != site.ledger.origin(origin, reading):
                raise SignalError(
                    f"reading {reading} of agent {site.label} is not the one that was released "
                    "under this number: the source was rewritten, or readings were inserted, "
                    "changed, put in another order or taken out before it; nothing was released; "
                    "give the agent the readings it had and add new ones at the end"
                )

        site.ledger.name_by(site.readings.naming)
        site.readings.skip(site.fed, check)

    def wants(self, site: Site) -> bool:
        """One reading for an offline estimate, one ahead of each round for an online one.

        None before neighbours have said what they remember of this agent.
        """
        if not site.core.cleared:
            return False
        if not self.online:
            return site.fed < 1
        return self.manifest.asynchronous or site.fed <= site.core.round

    def _release(self, site: Site, value: Any, origin: str) -> None:
        site.fed += 1
        try:
            enters = max(site.fed, site.core.round + 1)  # noise that grows must cover that round
            released = site.drawer.release(site.ledger, site.fed, value, enters, origin=origin)
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
