"""What a budget pays for, where the readings of a batch are charged together.

A batch of n readings costs n epsilon in a budget for a stream, a period or a window, and as much as
one reading in a budget for each event. One that costs more than the whole budget is never released,
and is the last that the agent tries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from veilsum.agents.config import Setup
from veilsum.agents.config_tables import BudgetTable
from veilsum.agents.ledger.budget import covers
from veilsum.agents.ledger.meters import NOTHING
from veilsum.agents.ledger.records import EVENT, STREAM, CostSum, group_cost
from veilsum.privacy import Batches, PrivacyEvent
from veilsum.privacy.accounting import Budget


@dataclass(frozen=True)
class Purchase:
    """What the budget of an agent pays for.

    Attributes
    ----------
    setup : Setup
        The budget, and the terms of the network.
    cost : PrivacyEvent
        Of one reading.
    """

    setup: Setup
    cost: PrivacyEvent

    @property
    def chosen(self) -> BudgetTable:
        """The section [budget]."""
        return self.setup.config.budget

    @cached_property
    def batches(self) -> Batches:
        """How readings are released together; one by one where only one is."""
        manifest = self.setup.manifest
        if not manifest.made_algorithm.online:
            return Batches(1.0)
        return Batches(manifest.batch_growth, manifest.longest_batch)

    @cached_property
    def longest(self) -> float:
        """The most readings of a batch that are charged together; infinite without a limit."""
        if self.chosen.unit == EVENT or self.batches.trivial:
            return 1
        rounds = self.setup.manifest.rounds
        most = max(self.batches.lengths(rounds)) if rounds else self.batches.longest or math.inf
        return min(most, self.chosen.window or math.inf)

    @cached_property
    def affordable(self) -> int:
        """The most readings of a batch that the budget pays for, together."""
        return _most(lambda count: self._covers(self._batch(count)))

    @property
    def pays_for_batches(self) -> bool:
        """Whether no batch costs more than the budget."""
        return self.longest <= self.affordable

    @cached_property
    def readings(self) -> float:
        """How many readings the budget pays for in its unit, in whole batches; may be infinite."""
        chosen = self.chosen
        if chosen.unit == EVENT:
            return math.inf
        if chosen.unit == STREAM and chosen.per is None:
            return self._first_readings
        if not self.pays_for_batches:
            return 0
        batch = self._batch(int(self.longest))
        paid = _most(lambda count: self._covers(batch.times(count))) * self.longest
        return min(paid, chosen.window or math.inf)

    def released(self, rounds: int) -> int:
        """How many of so many readings are released, as far as the file says how often they come."""
        chosen, every = self.chosen, self.setup.manifest.every
        if chosen.unit == STREAM and chosen.per is None:
            return int(min(rounds, self.readings))
        if not self.pays_for_batches:  # the first that is too long is the last
            lengths = self.batches.lengths(rounds)
            short = next((k for k, n in enumerate(lengths) if n > self.affordable), len(lengths))
            return min(rounds, sum(lengths[:short]))
        together: float = chosen.window or math.inf  # readings in a unit
        if chosen.period is not None:
            together = chosen.period.seconds / every if every else 0.0
        if self.readings >= together:
            return rounds
        return math.ceil(rounds * self.readings / together) if together < math.inf else rounds

    @property
    def _first_readings(self) -> int:
        """The readings of the batches from the first on that the budget of a stream pays for."""
        one, rounds = self._batch(1), self.setup.manifest.rounds
        most = _most(lambda count: self._covers(one.times(count)))
        if self.batches.trivial:
            return most
        whole = rounds if rounds and most >= rounds else self.batches.released(most)
        if not self.cost.delta:
            return whole
        spent, bought = NOTHING, 0
        for length in self.batches.lengths(whole):
            spent = spent.plus(self._batch(length))
            if not self._covers(spent):
                break
            bought += length
        return bought

    def _batch(self, count: int) -> CostSum:
        return group_cost(self.cost.epsilon, self.cost.delta, count)

    def _covers(self, cost: CostSum) -> bool:
        return covers(Budget(self.chosen.epsilon, self.chosen.delta), cost)


def _most(holds: Callable[[int], bool]) -> int:
    """The largest number for which something holds that holds for no number above it."""
    low, high = 0, 1
    while holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
