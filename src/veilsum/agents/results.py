"""What an agent has found: its estimate with an interval, whose readings it covers, the guarantee.

A result is made of public terms and of what was released: it may be shown to anyone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from veilsum._numbers import upward
from veilsum.agents.coverage import Coverage
from veilsum.agents.intervals import (
    MOST_READINGS,
    ResultInterval,
    checked_estimate,
    half_width,
    interval,
    most_readings,
    project,
)
from veilsum.agents.manifest import Manifest
from veilsum.agents.release.guarantees import guarantee
from veilsum.theory.accuracy import CONFIDENCE
from veilsum.theory.noise import READINGS, interval_name

__all__ = [
    "CONFIDENCE",
    "AgentResult",
    "ResultInterval",
    "finite",
    "half_width",
    "interval",
    "project",
]

NO_INTERVAL = (
    "no interval: rounds were clipped, and members are not known to agree; set [agents] tolerance"
)
NO_RESULT = 3  # the exit code without a result, or with one below the quorum
WITHOUT = {  # why there is no estimate, and what to do
    "rolled-back": "its ledger is older than what its neighbours received; restore the newest one",
    "conflicting-releases": "its neighbours remember releases of this name that its ledger does "
    "not have, or another copy of it runs; the log says which, and what to do",
    "late": "its neighbours were done before it restarted without its state; use their estimate",
    "quorum": "too few members for the quorum; start the missing ones, or lower [agents] quorum on "
    "every site",
    "excluded": "the others went on without it; use their estimate, and take part in the next run",
    "readings": "its readings ended; see the log, and give it readings that it can release",
    "stopped": "stopped before the end; start again to continue",
    "attempts": "members fell silent in every attempt after values were sent; find out which, and "
    "run again with a new nonce",
    "missed": "the others have concluded, and nobody that was reached has the records of it any more; "
    "if they have an estimate, use it: no new query is needed",
    "views": "no roster came about: too many members were missing or contradicted themselves; start "
    "the missing ones, and run again with a new nonce",
    "left": "it has left for good; use the estimate of its neighbours",
    "cloned": "another process uses its signing key; stop all but one and find out which ledger is "
    "the newest",
}
VOID = (
    "rolled-back",
    "cloned",
    "conflicting-releases",
    "late",
    "quorum",
    "excluded",
)  # no result ever


@dataclass(frozen=True)
class AgentResult:
    """An agent's estimate and what must be known of it.

    Parameters
    ----------
    agent, network, manifest : str
        The agent's label, the name of the network and the hash of its terms, in hex.
    round : int
        The round of the estimate.
    reason : str
        Why it ended, as in `Done`; "stopped" if it was, "running" while it has not.
    estimate : tuple of float
        Within the public bounds; empty if there is none.
    unprojected : tuple of float
        As the agents computed it.
    half_width : tuple of float
        Of the interval for the mean of the covered readings, by component; noise and mixing.
    sampling : tuple of float or None
        As in `ResultInterval`.
    confidence : float
        Of the interval.
    coverage : Coverage
        Whose readings are in the estimate.
    quorum : int
        How many members a result needs.
    epsilon, delta : float
        Of one reading, or of one session of a masked sum; epsilon is infinite without a guarantee.
    guarantee : str
        What is guaranteed, in words.
    attempts : int
        How many sessions a query of a masked sum may take; 0 without masked sums.
    unit : str
        Of the estimate, such as "kW"; empty if it has none.
    epoch : int
        Which membership it is of.
    clip : float
        The radius of clipped rounds; 0 where nothing is clipped.

    Examples
    --------
    >>> covered = Coverage(("a", "b"), ("a", "b"), (1, 1))
    >>> found = AgentResult(
    ...     "a", "pair", "c0ffee11" * 8, 20, "rounds", (0.5,), (0.51,), (0.25,), None, 0.95,
    ...     covered, 2, 1.0, 0.0, "(1, 0)-DP for one reading",
    ... )
    >>> found.sentence()
    'a: 0.5 +- 0.25 (95% of the mean of these readings) after 20 rounds, readings of 2 of 2 members, \
epsilon 1 per reading, manifest c0ffee11c0ff'
    >>> found.exit_code
    0
    """

    agent: str
    network: str
    manifest: str
    round: int
    reason: str
    estimate: tuple[float, ...]
    unprojected: tuple[float, ...]
    half_width: tuple[float, ...]
    sampling: tuple[float, ...] | None
    confidence: float
    coverage: Coverage
    quorum: int
    epsilon: float
    delta: float
    guarantee: str = field(repr=False)
    attempts: int = 0
    unit: str = ""
    epoch: int = 1
    clip: float = 0.0

    @classmethod
    def of(
        cls,
        manifest: Manifest,
        family: Any,
        agent: str,
        round: int,
        reason: str,
        estimate: Sequence[float],
        coverage: Coverage,
        *,
        stated: str | None = None,
        unit: str = "",
        intervals: bool = True,
    ) -> AgentResult:
        """The result of an agent with its interval.

        Parameters
        ----------
        manifest : Manifest
            The terms.
        family : Family
            Of the readings.
        agent : str
            Its label.
        round : int
            The round of the estimate.
        reason : str
            Why it ended.
        estimate : sequence of float
            As the protocol has it; empty if there is none.
        coverage : Coverage
            Whose readings are in it.
        stated : str, optional
            The guarantee in words, where it is known already.
        unit : str
            Of the estimate.
        intervals : bool
            Whether to compute the interval; without, its half widths are infinite.

        Returns
        -------
        AgentResult
            Without an estimate if no reading is covered, or the reason leaves none. Readings of
            a member that is ahead of this round count as those of the round.

        Raises
        ------
        AgentError
            If the estimate has another number of components than the family's statistic.
        """
        given = checked_estimate(family, estimate)
        raw = given if coverage.count and reason not in VOID else ()
        if not all(math.isfinite(x) for x in raw):
            raw = ()
        at, most = min(round, MOST_READINGS), most_readings(manifest, round) if raw else 0
        found = (
            interval(
                manifest, family, [min(count, most) for count in coverage.readings], label=agent,
                round=at, present=coverage.present, dropped=coverage.dropped,
                draws=coverage.draws, estimate=raw, mixed=coverage.mixed,
                agreed=reason == "tolerance",
            )
            if raw and intervals
            else None
        )  # fmt: skip
        unknown = (math.inf,) * len(raw)
        return cls(
            agent=agent,
            network=manifest.name,
            manifest=manifest.digest.hex(),
            round=round,
            reason=reason,
            estimate=project(family, raw),
            unprojected=raw,
            half_width=unknown if found is None else found.half_width,
            sampling=None if found is None else found.sampling,
            confidence=CONFIDENCE,
            coverage=coverage,
            quorum=manifest.quorum,
            epsilon=manifest.epsilon if manifest.adds_noise else math.inf,
            delta=manifest.delta,
            guarantee=str(guarantee(manifest, family)) if stated is None else stated,
            attempts=manifest.attempts,
            unit=unit,
            epoch=manifest.epoch,
            clip=manifest.clip,
        )

    @property
    def complete(self) -> bool:
        """Whether there is an estimate, of at least the quorum."""
        return bool(self.estimate) and self.coverage.meets(self.quorum)

    @property
    def exit_code(self) -> int:
        """0 with a result that meets the quorum, 3 without."""
        return 0 if self.complete else NO_RESULT

    def sentence(self) -> str:
        """The result in one line."""
        if not self.estimate:
            why = WITHOUT.get(self.reason, f"it has none yet ({self.reason})")
            return f"{self.agent}: no estimate: {why}; {self.coverage.sentence()}"
        unknown = self.clip > 0 and all(map(math.isinf, self.half_width))
        values = ", ".join(
            f"{value:.6g}{'' if unknown else f' +- {width:.3g}'}{f' {self.unit}' if self.unit else ''}"
            for value, width in zip(self.estimate, self.half_width, strict=True)
        )
        name = interval_name(READINGS, len(self.coverage.missing))
        sure = f"({NO_INTERVAL})" if unknown else f"({self.confidence:.0%} {name})"
        below = "" if self.complete else f", below the quorum of {self.quorum}"
        ended = "" if self.reason in ("rounds", "running", "sum") else f" ({self.reason})"
        return (
            f"{self.agent}: {values} {sure} {self._how()}{ended}, "
            f"{self.coverage.sentence()}{below}, {self._cost()}, manifest {self.manifest[:12]}"
        )

    def _cost(self) -> str:
        """What a reading costs; in masked sums all sessions of its query."""
        if math.isinf(self.epsilon):
            return "no guarantee"
        delta = f", delta {upward(self.delta, 6)}" if self.delta else ""
        most = f", at most, over {self.attempts} attempts" if self.attempts > 1 else ""
        return f"epsilon {upward(self.epsilon, 6)}{delta} per reading{most}"

    def _how(self) -> str:
        """How the estimate came about: rounds, or sums over rosters."""
        if not self.coverage.draws:
            return f"after {self.round} rounds{f' clipped at {self.clip:g}' if self.clip else ''}"
        members, draws = len(self.coverage.members), self.coverage.draws
        attempt = f"attempt {self.coverage.attempt} of {self.attempts}"
        if self.round > 1:
            return (
                f"from {self.round} masked sums, the last in {attempt}, over "
                f"{draws / self.round:.3g} of {members} members"
            )
        return f"from a masked sum in {attempt} over a roster of {draws} of {members}"

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON takes it; null for what is infinite."""
        covered = self.coverage
        data = asdict(self) | {
            "epsilon": finite(self.epsilon),
            "half_width": [finite(x) for x in self.half_width],
            "sampling": None if self.sampling is None else [finite(x) for x in self.sampling],
            "coverage": {
                "members": len(covered.members),
                "present": len(covered.present),
                "contributing": covered.count,
                "readings": sum(covered.readings),
                "missing": list(covered.missing),
                "absent": list(covered.absent),
                "left": list(covered.left),
                "lost": list(covered.lost),
                "former": list(covered.former),
                "draws": covered.draws,
                "attempt": covered.attempt,
                "quorum": self.quorum,
                "sentence": covered.sentence(),
            },
            "complete": self.complete,
        }
        del data["quorum"]
        return data | {"estimate": list(self.estimate), "unprojected": list(self.unprojected)}


def finite(value: float) -> float | None:
    """The number, or None where JSON has no name for it."""
    return value if math.isfinite(value) else None
