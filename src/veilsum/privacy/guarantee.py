"""A guarantee: what is protected, against whom, how strongly, and whether that is proved.

A guarantee is about releases (`runs`): its epsilon is what `spent` says they cost for the readings of its
unit. `guarantee_of` derives a guarantee. Its methods state it for more messages, for an agent's whole
transcript, for a window or a whole stream of readings, against everyone, or for several runs on the
same signals. Each of them returns a guarantee again, with its own epsilon.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from veilsum import _validate
from veilsum._numbers import upward
from veilsum._statistic import Status
from veilsum.errors import PrivacyError
from veilsum.families.support import Metric
from veilsum.privacy.accounting import Composition, PrivacyEvent, Release, Span, spent
from veilsum.privacy.accounting.accountant import most
from veilsum.privacy.accounting.composition import added
from veilsum.privacy.accounting.events import DISCRETE_LAPLACE, LAPLACE, LARGEST_DELTA
from veilsum.privacy.batches import Batches, window_starts
from veilsum.privacy.streams import Horizon

MOST_USEFUL = 5.0  # odds of 149: docs/sign-off.md calls a guarantee beyond it one on paper


class Noise(StrEnum):
    """Whether a guarantee is about the ideal distribution of the noise, or the bits released.

    Examples
    --------
    >>> Noise("exact") is Noise.EXACT
    True
    """

    IDEAL = "ideal"  # real numbers of the stated distribution; a floating-point sampler is not that
    EXACT = "exact"  # drawn exactly on a grid, by integer arithmetic and the system's entropy


class Sees(StrEnum):
    """Which messages an adversary sees.

    Examples
    --------
    >>> Sees("everyone") is Sees.EVERYONE
    True
    """

    MESSAGES = "messages"  # a number of messages of one agent, any of them
    NEXT = "next"  # the messages of one agent that follow the round in which an estimate moves
    TRANSCRIPT = "transcript"  # all messages of one agent
    EVERYONE = "everyone"  # all messages of all agents
    MEMBERS = "members"  # all messages, and what some colluding members know
    KEEPERS = "keepers"  # all messages, and what some colluding keepers and members know


BROKEN = {  # what would have to be, for a guarantee that assumes cryptography not to hold
    Sees.MEMBERS: "X25519, HKDF, ChaCha20 or Ed25519",
    Sees.KEEPERS: "X25519, SHAKE256 or Ed25519",
}


@dataclass(frozen=True)
class Unit:
    """What may change: readings, each by at most `radius`; or a neighbour's estimate, by 1.

    The move of an estimate is measured in the l1 norm, and happens in one round: estimates that
    move in several rounds are several moves.

    Parameters
    ----------
    radius : float
        By how much a signal may move, in its own units; infinite: any two values of its bounded
        domain.
    online : bool
        Whether the signals are a stream of readings.
    neighbours : bool
        Whether a neighbour's estimate may move instead.
    span : Span
        How many readings may move at once.
    readings : int
        The number of readings of a window or a stream.
    metric : Metric
        In which the move of a signal is measured.
    width : float, optional
        How far apart the ends of a signal's domain are; infinite without bounds.
    steps : float, optional
        How many such moves any two values of the domain are apart at most, as the noise counts
        them: 1 where the whole value may change, infinite without bounds, None if not known.

    Examples
    --------
    >>> print(Unit(0.5, online=True))
    any one reading of a stream that moves by at most 0.5 in its own units
    """

    radius: float
    online: bool = False
    neighbours: bool = False
    span: Span = Span.EVENT
    readings: int = 1
    metric: Metric = Metric.ABSOLUTE
    width: float | None = None
    steps: float | None = None

    @property
    def whole(self) -> bool:
        """Whether the whole value may change: any two values of the domain."""
        return self.steps == 1 or math.isinf(self.radius) or self.metric is Metric.DISCRETE

    def __str__(self) -> str:
        """Describe what may change."""
        near = (
            ", or a neighbour's estimate that moves by at most 1 in l1 norm in one round"
            if self.neighbours
            else ""
        )
        return f"{self._signals()} that moves {self._moves()}{near}"

    def _moves(self) -> str:
        if self.metric is Metric.DISCRETE:
            return "between any two categories"
        if self.whole:
            return "between any two values of its domain"
        norm = " (l1 norm of the vector)" if self.metric is Metric.L1 else ""
        return f"by at most {self.size()} in its own units{norm}"

    def size(self, unit: str = "") -> str:
        """The radius, and of how much: "1 of 300,000 CHF"."""
        domain = "" if self.width is None or math.isinf(self.width) else f" of {self.width:,g}"
        return f"{self.radius:,g}{domain}{unit and f' {unit}'}"

    def _signals(self) -> str:
        if not self.online:
            return "an agent's signal"
        if self.span is Span.EVENT:
            return "any one reading of a stream"
        if self.span is Span.WINDOW:
            return f"each of any {self.readings} consecutive readings of a stream"
        return f"each reading of a whole stream of {self.readings}"


@dataclass(frozen=True)
class Adversary:
    """Who sees which messages.

    Parameters
    ----------
    sees : Sees
        The kind of view.
    messages : int
        How many messages, or over how many rounds.
    colluders : int
        How many of the other members collude, where that matters; one by itself counts, too.
    keepers : int
        How many of the keepers of a secure sum collude.

    Examples
    --------
    >>> print(Adversary(Sees.NEXT))
    whoever sees the next message of an agent
    """

    sees: Sees
    messages: int = 1
    colluders: int = 0
    keepers: int = 0

    def __str__(self) -> str:
        """Describe the adversary."""
        if self.sees is Sees.KEEPERS:
            return (
                f"whoever sees all messages and up to {self.keepers} keepers and {self.colluders} "
                "members together, chosen before the query"
            )
        if self.sees is Sees.MEMBERS and not self.colluders:
            return "whoever sees all messages and is no member (any one member may learn more)"
        if self.sees is Sees.MEMBERS:
            return (
                f"whoever sees all messages and up to {self.colluders} of the other members "
                "together, chosen before the session"
            )
        if self.sees is Sees.EVERYONE:
            return "whoever sees all messages of all agents"
        if self.sees is Sees.TRANSCRIPT:
            return f"whoever sees all messages of an agent over {self.messages} rounds"
        if self.sees is Sees.NEXT:
            count = "message" if self.messages == 1 else f"{self.messages} messages"
            return f"whoever sees the next {count} of an agent"
        count = "one message" if self.messages == 1 else f"{self.messages} messages"
        return f"whoever sees {count} of an agent"


@dataclass(frozen=True)
class RunReleases:
    """The releases of one run: what each costs, and which readings are in it.

    Parameters
    ----------
    event : PrivacyEvent
        The cost of one release, for one reading in it.
    batches : Batches or None
        The batches in which the readings of a stream are released; None: each by itself.
    times : int
        How many releases a reading is in: the attempts of a query, the rounds of a divided budget.
    growth : float
        The most that the effect of a moved estimate grows by from one message to the next.

    Examples
    --------
    >>> run = RunReleases(PrivacyEvent(0.5), Batches(growth=2.0))
    >>> spent(run.moved(first=3, readings=3)).epsilon
    1.5
    """

    event: PrivacyEvent
    batches: Batches | None = None
    times: int = 1
    growth: float = 1.0

    @property
    def delta(self) -> float | None:
        """The delta at which readings that move together are composed where none is stated."""
        return None

    def moved(self, first: int = 1, readings: int = 1) -> Counter[Release]:
        """Return the releases that have some of these consecutive readings, each with so many of them."""
        if self.batches is None:
            return Counter({Release(self.event): self.times * readings})
        parts = (
            self.batches.lengths(readings) if first == 1 else self.batches.parts(first, readings)
        )
        return self._of(parts)

    def moved_anywhere(self, readings: int) -> Composition:
        """Return what any window of that many readings costs at most, added up.

        Group privacy costs a batch at least the epsilon of its parts, so that epsilon is largest where
        the readings are in as few batches as possible; delta is largest there, or where each reading
        is in a release of its own.
        """
        apart = Counter({Release(self.event): self.times * readings})
        if self.batches is None:
            return spent(apart)
        whole = self.batches.most_together(readings)
        rest = readings % whole
        together = self._of((whole,) * (readings // whole) + (rest,) * (rest > 0))
        return most((spent(together), spent(apart)))

    def messages(self, count: int) -> Counter[Release]:
        """Return `count` messages after an estimate moved, whose cost grows where it can grow."""
        if self.growth <= 1:
            return Counter({Release(self.event): count})
        kind = self.event.mechanism
        if kind == DISCRETE_LAPLACE:  # its steps grow too, to no whole number
            kind = PrivacyEvent.of(self.event.epsilon).mechanism
        each = (self.event.epsilon * self.growth**m for m in range(count))
        return Counter(Release(PrivacyEvent(e, self.event.delta, kind)) for e in each)

    def _of(self, parts: tuple[int, ...]) -> Counter[Release]:
        return Counter(
            {Release(self.event, 1, m): self.times * n for m, n in Counter(parts).items()}
        )


@dataclass(frozen=True)
class StreamReleases(RunReleases):
    """The releases of a stream with an end, whose readings divide the cost of one release.

    Parameters
    ----------
    event : PrivacyEvent
        The cost of all readings together.
    horizon : Horizon
        How many they are, and the share of each.

    Examples
    --------
    >>> from veilsum.algorithms import Learn
    >>> from veilsum.families import Bernoulli
    >>> from veilsum.privacy import MECHANISMS, SignalDP, guarantee_of
    >>> name = next(n for n, kind in MECHANISMS.items() if kind.takes_delta)
    >>> request = SignalDP(1.0, 1e-6, mechanism=name, unit="stream", horizon=365)
    >>> year = guarantee_of(request, Learn(), rounds=365, family=Bernoulli())
    >>> round(year.epsilon, 6), round(year.for_window(7).epsilon, 2)
    (1.0, 0.48)
    """

    horizon: Horizon = field(kw_only=True)

    @property
    def delta(self) -> float:
        """That of the whole."""
        return self.event.delta

    def moved(self, first: int = 1, readings: int = 1) -> Counter[Release]:
        """Return one release with the shares of these readings, whose divergences add up to its own."""
        share = self.horizon.share(first, first + readings - 1)
        return Counter({Release(self.event.part(share)): self.times})

    def moved_anywhere(self, readings: int) -> Composition:
        """Return the cost of the first ones, which have the least noise."""
        return spent(self.moved(1, readings), delta=self.delta)


@dataclass(frozen=True)
class Guarantee:
    """Epsilon and delta for a unit, against an adversary, with a status and its reason.

    Attributes
    ----------
    epsilon, delta : float
        What is guaranteed.
    unit : Unit
        What may change.
    adversary : Adversary
        Who sees what.
    status : Status
        Whether it is proved.
    reason : str
        Why.
    erratum : int or None
        The number of the erratum that explains a status which the paper does not state.
    runs : tuple of RunReleases
        The releases that it is about, which composition needs; empty where nothing is guaranteed.
    signals : Guarantee or None
        What holds for the signals alone, if the unit is wider.
    transcript : Guarantee or None
        What holds for neighbours' estimates against an agent's whole transcript.
    noise : Noise
        Whether it is about ideal noise or the bits released.
    assumes : str
        "computational" where it rests on cryptography; empty where it rests on noise alone.
    caveat : str
        What becomes of epsilon where the adversary is stronger than stated.

    Examples
    --------
    >>> from veilsum.algorithms import Learn
    >>> from veilsum.privacy import SignalDP, guarantee_of
    >>> daily = guarantee_of(SignalDP(epsilon=0.5, radius=2.0), Learn())
    >>> daily.status, daily.epsilon, daily.for_window(7).epsilon
    (<Status.PROVED: 'proved'>, 0.5, 3.5)
    """

    epsilon: float
    delta: float
    unit: Unit
    adversary: Adversary
    status: Status
    reason: str
    erratum: int | None = None
    runs: tuple[RunReleases, ...] = ()
    signals: Self | None = None
    transcript: Self | None = None
    noise: Noise = Noise.IDEAL
    assumes: str = ""
    caveat: str = ""

    @property
    def cost(self) -> PrivacyEvent:
        """(epsilon, delta) as an event of which no more is known; `PrivacyError` without any."""
        return PrivacyEvent.of(self.epsilon, self.delta)

    @property
    def event(self) -> PrivacyEvent | None:
        """The cost of one release of a single run; None for several runs, or without a guarantee."""
        return self.runs[0].event if len(self.runs) == 1 else None

    def __str__(self) -> str:
        """State the guarantee in a sentence, with its status and reason; in three if masks hide."""
        see = f" (erratum {self.erratum})" if self.erratum else ""
        if self.status is Status.NONE:
            return f"No privacy is guaranteed: {self.reason}{see}."
        delta = f" and delta = {upward(self.delta, 3)}" if self.delta else ""
        statement = (
            f"differential privacy with epsilon = {upward(self.epsilon)}{delta} for {self.unit}, "
            f"against {self.adversary}{self._whole_value()}"
        )
        if self.status is Status.REFUTED:
            return f"Refuted: {statement}, is claimed and does not hold; {self.reason}{see}."
        start = f"{self.status.title()}, not proved"
        if self.status is Status.PROVED:
            start = "Proved" if self.noise is Noise.EXACT else "Proved for ideal noise"
        if not self.assumes:
            return f"{start}: {statement}; {self.reason}{see}."
        sentences = (
            f"{start}: {statement}, as long as nobody breaks {BROKEN[self.adversary.sees]}",
            f"{self.reason}{see}",
            self.caveat,
        )
        return " ".join(f"{each[:1].upper()}{each[1:]}." for each in sentences if each)

    def for_whole_value(self) -> Self:
        """Return the guarantee for a signal that moves between any two values of its domain.

        Such a move is at most `unit.steps` moves of the radius, one after the other, each of which
        changes probabilities by (epsilon, delta) (`PrivacyEvent.times`).

        Examples
        --------
        >>> from veilsum.algorithms import Average
        >>> from veilsum.families import Normal
        >>> from veilsum.privacy import SignalDP, guarantee_of
        >>> income = Normal(sigma=2e4, bounds=(0.0, 3e5))
        >>> found = guarantee_of(SignalDP(epsilon=1.0, radius=1.0), Average(), family=income)
        >>> found.for_whole_value().epsilon, found.hides("CHF")
        (300000.0, 'hides moves of 1 of 300,000 CHF; the whole value: epsilon 300,000')
        """
        alone = self._of_signals()
        steps, unit = alone.unit.steps, replace(alone.unit, radius=math.inf, steps=1)
        if alone.status is Status.NONE or alone.unit.whole:
            return alone
        if steps is None or math.isinf(steps):
            why = (
                "a signal has no public bounds" if steps else "the domain of a signal is not known"
            )
            return replace(
                alone, epsilon=math.inf, unit=unit, status=Status.NONE, reason=why, runs=()
            )
        moves = int(steps)
        runs = tuple(replace(run, event=run.event.times(moves)) for run in alone.runs)
        cost = spent([Release(alone.cost, 1, moves)])
        if alone.delta and runs and alone.unit.span is Span.EVENT:  # the noise is known
            known = spent(_all(run.moved() for run in runs))
            cost = min(cost, known, key=lambda one: (one.delta, one.epsilon))
        reason = f"{alone.reason}; any two values are at most {moves:,} moves of the radius apart"
        if cost.delta >= LARGEST_DELTA:
            return replace(alone, epsilon=math.inf, delta=1.0, unit=unit, status=Status.NONE,
                           reason=f"{reason}, whose delta adds up to 1", runs=())  # fmt: skip
        return replace(
            alone, epsilon=cost.epsilon, delta=cost.delta, unit=unit, reason=reason, runs=runs
        )

    @property
    def useful(self) -> bool:
        """Whether the whole value is hidden with an epsilon of at most `MOST_USEFUL`."""
        alone = self._of_signals()
        whole = alone if alone.unit.steps is None else alone.for_whole_value()
        return whole.status is not Status.NONE and whole.epsilon <= MOST_USEFUL

    def hides(self, unit: str = "") -> str:
        """What is hidden of a signal in a few words, to stand wherever epsilon does.

        Parameters
        ----------
        unit : str
            The unit of the signals.
        """
        if self.status in (Status.NONE, Status.REFUTED):
            return "hides nothing"
        if self.unit.metric is Metric.DISCRETE or self.unit.whole:
            return "hides the whole value"
        whole = self.for_whole_value()
        said = f"hides moves of {self.unit.size(unit)}"
        if self.unit.steps is None:
            return said
        if whole.status is Status.NONE:
            return f"{said}; the whole value is not hidden: {whole.reason}"
        delta = f", delta {upward(whole.delta, 2)}" if whole.delta else ""
        return f"{said}; the whole value: epsilon {upward(whole.epsilon)}{delta}"

    def _whole_value(self) -> str:
        """What the whole value costs, for the sentence; empty where it is what is stated."""
        said = self.hides().partition("; ")[2]
        return f" ({said})" if said else ""

    def for_messages(self, k: int, delta: float | None = None) -> Self:
        """Return the guarantee against whoever sees k messages of an agent.

        Noise that enters once protects all messages alike. Where noise in every message hides the
        neighbours' estimates, the k messages are those that follow the round in which an estimate
        moves; they compose, the m-th at growth^(m-1) times the cost of the first. A single later
        message is among them: it costs as much as all from the move up to it
        (`veilsum.privacy.network_cost`).

        Parameters
        ----------
        k : int
            How many messages.
        delta : float, optional
            At which the tighter composition is used.
        """
        _validate.at_least(PrivacyError, 1, k=k)
        if self.adversary.sees in BROKEN:
            return self  # it covers all messages, and colluders besides
        if not self.unit.neighbours:
            return replace(self, adversary=Adversary(Sees.MESSAGES, k))
        if self.adversary.sees is Sees.TRANSCRIPT:
            return self
        total = self._next_messages(
            max(k, self.unit.readings),  # readings that move stay accounted for
            delta, "messages", adversary=Adversary(Sees.NEXT, k),
        )  # fmt: skip
        if self.signals is None or total.status is Status.NONE:
            return total
        return replace(  # a signal may cost more than a message: the unit has both
            total,
            epsilon=max(total.epsilon, self.signals.epsilon),
            delta=max(total.delta, self.signals.delta),
        )

    def for_transcript(self) -> Self:
        """Return the guarantee against whoever sees all messages that one agent sends in the run.

        Signals are noised once: what holds for them holds against everyone.
        """
        if not self.unit.neighbours:
            return self.against_everyone()
        if self.transcript is None:
            return self
        if self.unit.span is Span.EVENT:
            return self.transcript
        return self.transcript._readings(self.unit.span, self.unit.readings, self.delta or None)

    def for_window(self, w: int, delta: float | None = None) -> Self:
        """Return the guarantee for any w consecutive readings at once (w-event privacy).

        Parameters
        ----------
        w : int
            The number of readings.
        delta : float, optional
            At which the tighter composition is used.
        """
        return self._readings(Span.WINDOW, w, delta)

    def for_stream(self, readings: int, delta: float | None = None) -> Self:
        """Return the guarantee for a whole stream of readings at once (user-level privacy).

        Parameters
        ----------
        readings : int
            The number of readings of the stream.
        delta : float, optional
            At which the tighter composition is used.
        """
        return self._readings(Span.STREAM, readings, delta)

    def for_runs(self, others: Sequence[Self]) -> Self:
        """Return the guarantee for this run and others on the same signals: their costs add up.

        Runs with (eps_l, delta_l) are together (sum eps_l, sum delta_l)-DP, for the unit and the
        adversary that they have in common; so are the signals alone and the transcripts. Their
        releases are kept, each with its batches: what is stated for a window or a stream later
        composes them all.

        Parameters
        ----------
        others : sequence of Guarantee
            The guarantees of the other runs.
        """
        runs = (self, *others)
        if len({(run.unit, run.adversary) for run in runs}) > 1:
            raise PrivacyError(
                "runs that protect different units, or against different adversaries, have no "
                "guarantee in common; state each for the same first (for_transcript, "
                "against_everyone, for_stream)"
            )
        if not others:
            return self
        worst = max(runs, key=lambda run: (run.status.rank, run.epsilon))
        total = replace(
            worst,
            signals=_together([run.signals for run in runs]),
            transcript=_together([run.transcript for run in runs]),
            noise=Noise.EXACT if all(run.noise is Noise.EXACT for run in runs) else Noise.IDEAL,
            runs=(),
        )
        together = f"{len(runs)} runs on the same signals add up"
        if worst.status is Status.NONE:
            return total
        cost = spent(Release(run.cost) for run in runs)
        if not cost.delta < 1:
            return replace(total, status=Status.NONE, reason=f"{together} to delta >= 1", delta=1.0)
        known = all(run.runs for run in runs)  # what is unknown of one is unknown of all together
        return replace(
            total,
            epsilon=cost.epsilon,
            delta=cost.delta,
            reason=f"{worst.reason}; {together}",
            runs=tuple(each for run in runs for each in run.runs) if known else (),
        )

    def released_exactly(self, charged: PrivacyEvent | None = None) -> Self:
        """Return the same guarantee for the bits that an exact sampler releases.

        Parameters
        ----------
        charged : PrivacyEvent, optional
            The event that a ledger charges for one release. Without it Laplace noise, which is
            discrete when it is drawn exactly, is composed as any pure mechanism.
        """
        signals = None if self.signals is None else self.signals.released_exactly(charged)
        whole = None if self.transcript is None else self.transcript.released_exactly(charged)
        runs = tuple(replace(run, event=_drawn_exactly(run.event, charged)) for run in self.runs)
        return replace(self, noise=Noise.EXACT, runs=runs, signals=signals, transcript=whole)

    def against_everyone(self) -> Self:
        """Return the guarantee against whoever sees all messages of all agents.

        Neighbours' estimates are messages themselves, and everyone sees them: what can be
        guaranteed is the signals, one agent's at a time. Signals of several agents that move
        together cost the sum of their losses (see erratum 6 for when the largest suffices).
        """
        if self.adversary.sees in BROKEN:
            return self  # it covers all messages, and colluders besides
        if not self.unit.neighbours:
            return replace(self, adversary=Adversary(Sees.EVERYONE))
        alone = self._signals_alone()
        if self.unit.span is Span.EVENT:
            return alone
        return alone._readings(self.unit.span, self.unit.readings, self.delta or None)

    def _readings(self, span: Span, count: int, delta: float | None) -> Self:
        _validate.at_least(PrivacyError, 1, readings=count)
        if not self.unit.online:
            raise PrivacyError(
                "this estimate uses one signal of each agent: there is no stream; "
                "use an online algorithm such as learn"
            )
        unit = replace(self.unit, span=span, readings=count)
        if delta is None:
            delta = next((run.delta for run in self.runs if run.delta), None)
        if not self.unit.neighbours:
            return self._moved(unit, delta)
        if self.adversary.sees is Sees.TRANSCRIPT:
            return self._or_readings(unit, delta)
        return self._next_messages(
            max(count, self.adversary.messages), delta, "readings", unit=unit
        )

    def _moved(self, unit: Unit, delta: float | None) -> Self:
        """For readings that move together, in the same batches or not.

        Of a stream the first readings count, of a window the worst that any w consecutive ones cost.
        Where one batch may hold all w, the sum is stated, which no delta makes less.
        """
        count = unit.readings
        if self.status is Status.NONE or not self.runs:
            return replace(self, unit=unit)
        starts: tuple[int, ...] | None = (1,)
        if unit.span is Span.WINDOW:
            schedules = {run.batches for run in self.runs if run.batches is not None}
            starts = window_starts(schedules, count) if delta is not None else None
        if starts is None:
            total = added(run.moved_anywhere(count) for run in self.runs)
        else:
            total = most(
                spent(_all(run.moved(first, count) for run in self.runs), delta=delta)
                for first in starts
            )
        return self._stating(total, self._grouped(unit), unit=unit)

    def _grouped(self, unit: Unit) -> str:
        """How many readings move, and how many of them in one batch."""
        from_start, count = unit.span is Span.STREAM, unit.readings
        together = max(
            run.batches.most_together(count, from_start) if run.batches else 1 for run in self.runs
        )
        if together == 1:
            return f"{count} readings"
        return (
            f"{count} readings, of which up to {together} are in one batch and move its sum "
            f"together, at {together} times the cost of one,"
        )

    def _of_signals(self) -> Self:
        """The guarantee for the signals, for as many readings as this one is for."""
        if self.signals is None or self.unit.span is Span.EVENT:
            return self.signals or self
        return self.signals._readings(self.unit.span, self.unit.readings, self.delta or None)

    def _signals_alone(self) -> Self:
        if self.signals is None:
            raise PrivacyError(
                "nothing is known of the signals alone; derive the guarantee by `guarantee_of`"
            )
        return self.signals

    def _or_readings(self, unit: Unit, delta: float | None) -> Self:
        """For readings that move or an estimate: the larger epsilon and delta hold for both."""
        moved = self._signals_alone()._moved(unit, delta)
        if Status.NONE in (self.status, moved.status):
            return replace(self, status=Status.NONE, unit=unit, reason=moved.reason)
        return replace(
            self,
            unit=unit,
            epsilon=max(self.epsilon, moved.epsilon),
            delta=max(self.delta, moved.delta),
            reason=f"{self.reason}; {unit.readings} readings composed",
        )

    def _next_messages(self, count: int, delta: float | None, what: str, **changes: Any) -> Self:
        """For the messages that follow a moved estimate, each of which is a release."""
        if self.status is Status.NONE or not self.runs:
            return replace(self, **changes)
        total = spent(_all(run.messages(count) for run in self.runs), delta=delta)
        return self._stating(total, f"{count} {what}", **changes)

    def _stating(self, total: Composition, what: str, **changes: Any) -> Self:
        if total.delta >= 1:
            why = f"{what.rstrip(',')} add up to a delta of {upward(total.delta, 3)}; state a smaller one"
            return replace(self, status=Status.NONE, reason=why, delta=1.0, **changes)
        reason = f"{self.reason}; {what} composed ({total.method})"
        return replace(self, epsilon=total.epsilon, delta=total.delta, reason=reason, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data that JSON can store, which `from_dict` reads."""
        return {key: _plain(value) for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Restore what `to_dict` returned."""
        unit, adversary = data["unit"], data["adversary"]
        typed = {
            "radius": float(unit["radius"]),
            "span": Span(unit["span"]),
            "metric": Metric(unit["metric"]),
            **{name: unit[name] and float(unit[name]) for name in ("width", "steps")},
        }
        inner = {
            name: None if data[name] is None else cls.from_dict(data[name])
            for name in ("signals", "transcript")
        }
        return cls(
            **{
                **data,
                **inner,
                "epsilon": float(data["epsilon"]),
                "unit": Unit(**{**unit, **typed}),
                "adversary": Adversary(**{**adversary, "sees": Sees(adversary["sees"])}),
                "status": Status(data["status"]),
                "noise": Noise(data["noise"]),
                "runs": tuple(_run(one) for one in data["runs"]),
            }
        )


def _drawn_exactly(event: PrivacyEvent, charged: PrivacyEvent | None) -> PrivacyEvent:
    """What a ledger charges; Laplace noise, discrete when drawn exactly, as any pure mechanism."""
    if charged is not None:
        return charged
    return PrivacyEvent.of(event.epsilon) if event.mechanism == LAPLACE else event


def _all(parts: Iterable[Counter[Release]]) -> Counter[Release]:
    return sum(parts, Counter())


def _run(data: dict[str, Any]) -> RunReleases:
    event = PrivacyEvent(**data["event"])
    batches = None if data["batches"] is None else Batches(**data["batches"])
    made = {**data, "event": event, "batches": batches}
    if "horizon" in data:
        return StreamReleases(**{**made, "horizon": Horizon(**data["horizon"])})
    return RunReleases(**made)


def _together(parts: Sequence[Guarantee | None]) -> Guarantee | None:
    """The total over runs of a part of their guarantees; None if one run has no such part."""
    stated = [part for part in parts if part is not None]
    return stated[0].for_runs(stated[1:]) if len(stated) == len(parts) else None


def _plain(value: Any) -> Any:
    """Plain data: JSON has no infinity, which becomes a string, and no enums."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, StrEnum):
        return value.value
    return "inf" if value == math.inf else value
