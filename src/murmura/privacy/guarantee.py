"""A promise: what is protected, against whom, how strongly, and whether that is proved.

A guarantee is made by `promise` and changed only by asking: for more messages, for an agent's whole
transcript, for a window or a whole stream of readings, against everyone, for several runs on the
same signals. Each answer is a guarantee again, with its own epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Self

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.families.support import Metric
from murmura.privacy.accounting import Composition, Loss, compose


class Status(StrEnum):
    """How a promise stands."""

    PROVED = "proved"
    CLAIMED = "claimed"  # somebody says so: the paper, or the author of a family
    ESTIMATED = "estimated"  # rests on a number estimated from samples
    REFUTED = "refuted"  # claimed, and broken by an audit or a derivation
    NONE = "none"


class Noise(StrEnum):
    """Of which noise a promise speaks: its ideal law, or the very bits that are released."""

    IDEAL = "ideal"  # real numbers of the stated law; a floating-point sampler is not that
    EXACT = "exact"  # drawn exactly on a grid, by integers and the system's entropy


class Span(StrEnum):
    """How much of an agent's signals may change."""

    EVENT = "event"
    WINDOW = "window"
    STREAM = "stream"


class Sees(StrEnum):
    """What an adversary sees."""

    MESSAGES = "messages"  # a number of messages of one agent, any of them
    NEXT = "next"  # the messages of one agent that follow the round in which an estimate moves
    TRANSCRIPT = "transcript"  # all messages of one agent
    EVERYONE = "everyone"  # all messages of all agents


@dataclass(frozen=True)
class Unit:
    """What may change: readings, each by at most `radius`; or a neighbour's estimate, by 1.

    `metric` measures the move of a signal. The move of an estimate is measured in the l1 norm, and
    happens in one round: estimates that move in several rounds are several moves.
    """

    radius: float  # in the signal's own units; infinite: any two values of its bounded domain
    online: bool = False
    neighbours: bool = False
    span: Span = Span.EVENT
    readings: int = 1
    metric: Metric = Metric.ABSOLUTE

    def __str__(self) -> str:
        """Describe it in words."""
        near = (
            ", or a neighbour's estimate that moves by at most 1 in l1 norm in one round"
            if self.neighbours
            else ""
        )
        return f"{self._signals()} that moves {self._moves()}{near}"

    def _moves(self) -> str:
        if self.metric is Metric.DISCRETE:
            return "between any two categories"
        if math.isinf(self.radius):
            return "between any two values of its domain"
        norm = " (l1 norm of the vector)" if self.metric is Metric.L1 else ""
        return f"by at most {self.radius:g} in its own units{norm}"

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
    """Who looks, and at how much."""

    sees: Sees
    messages: int = 1

    def __str__(self) -> str:
        """Describe it in words."""
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
class Guarantee:
    """Epsilon and delta for a unit, against an adversary, with a status and its reason."""

    epsilon: float
    delta: float
    unit: Unit
    adversary: Adversary
    status: Status
    reason: str
    erratum: int | None = None
    loss: Loss | None = None  # the cost of one release, which composition needs
    signals: Self | None = None  # what holds for the signals alone, if the unit is wider
    transcript: Self | None = None  # what holds for neighbours against an agent's transcript
    growth: float = 1.0  # how much a moved estimate can grow from one message to the next
    noise: Noise = Noise.IDEAL

    def __str__(self) -> str:
        """Say it as a sentence."""
        see = f" (erratum {self.erratum})" if self.erratum else ""
        if self.status is Status.NONE:
            return f"No privacy is promised: {self.reason}{see}."
        delta = f" and delta = {self.delta:.3g}" if self.delta else ""
        words = (
            f"differential privacy with epsilon = {self.epsilon:.4g}{delta} for {self.unit}, "
            f"against {self.adversary}"
        )
        if self.status is Status.REFUTED:
            return f"Refuted: {words}, is claimed and does not hold; {self.reason}{see}."
        return f"{self._start()}: {words}; {self.reason}{see}."

    def _start(self) -> str:
        if self.status is not Status.PROVED:
            return f"{self.status.title()}, not proved"
        return "Proved" if self.noise is Noise.EXACT else "Proved for ideal noise"

    def for_messages(self, k: int, delta: float | None = None) -> Self:
        """Promise the same against whoever sees k messages of an agent.

        Noise that enters once protects all messages alike. Where noise in every message hides the
        neighbours' estimates, the k messages are those that follow the round in which an estimate
        moves; they compose, the m-th at growth^(m-1) times the cost of the first. A single later
        message is among them: it costs as much as all from the move up to it
        (`murmura.privacy.network_cost`). With a `delta` the tighter composition is used.
        """
        _validate.at_least(PrivacyError, 1, k=k)
        if not self.unit.neighbours:
            return replace(self, adversary=Adversary(Sees.MESSAGES, k))
        if self.adversary.sees is Sees.TRANSCRIPT:
            return self
        most = max(k, self.unit.readings)  # readings that move were paid for, and stay so
        made = self._composed(most, delta, f"{most} messages", adversary=Adversary(Sees.NEXT, k))
        if self.signals is None or made.status is Status.NONE:
            return made
        return replace(  # a signal may cost more than a message: the unit has both
            made,
            epsilon=max(made.epsilon, self.signals.epsilon),
            delta=max(made.delta, self.signals.delta),
        )

    def for_transcript(self) -> Self:
        """Promise against whoever sees all messages that one agent sends in the run.

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
        """Promise for any w consecutive readings at once (w-event privacy)."""
        return self._readings(Span.WINDOW, w, delta)

    def for_stream(self, readings: int, delta: float | None = None) -> Self:
        """Promise for a whole stream of so many readings at once (user-level privacy)."""
        return self._readings(Span.STREAM, readings, delta)

    def for_runs(self, others: Sequence[Self]) -> Self:
        """Promise for this run and others on the same signals together: their costs add up.

        Runs with (eps_l, delta_l) are together (sum eps_l, sum delta_l)-DP, for what may change in
        all of them and against who sees the same of each; so are the signals alone and the
        transcripts. Raises `PrivacyError` where units or adversaries differ: then there is no
        common statement, and the caller must first ask each run for the same.
        """
        runs = (self, *others)
        if len({(run.unit, run.adversary) for run in runs}) > 1:
            raise PrivacyError(
                "runs that protect different units, or against different adversaries, have no "
                "guarantee in common; ask each for the same first (for_transcript, "
                "against_everyone, for_stream)"
            )
        if not others:
            return self
        worst = max(runs, key=lambda run: _RANK.index(run.status))
        total = replace(
            worst,
            signals=_together([run.signals for run in runs]),
            transcript=_together([run.transcript for run in runs]),
            growth=max(run.growth for run in runs),
            noise=Noise.EXACT if all(run.noise is Noise.EXACT for run in runs) else Noise.IDEAL,
        )
        epsilon = math.fsum(run.epsilon for run in runs)
        delta = math.fsum(run.delta for run in runs)
        together = f"{len(runs)} runs on the same signals add up"
        if worst.status is Status.NONE or not delta < 1:
            why = worst.reason if worst.status is Status.NONE else f"{together} to delta >= 1"
            return replace(total, status=Status.NONE, reason=why, loss=None)
        loss = Loss(epsilon, delta, "approximate" if delta else "pure")
        reason = f"{worst.reason}; {together}"
        return replace(total, epsilon=epsilon, delta=delta, reason=reason, loss=loss)

    def released_exactly(self) -> Self:
        """State the same for the bits that an exact sampler releases."""
        signals = None if self.signals is None else self.signals.released_exactly()
        transcript = None if self.transcript is None else self.transcript.released_exactly()
        return replace(self, noise=Noise.EXACT, signals=signals, transcript=transcript)

    def against_everyone(self) -> Self:
        """Promise against whoever sees all messages of all agents.

        Neighbours' estimates are messages themselves, and everyone sees them: what can be promised
        is the signals, one agent's at a time. Signals of several agents that move together cost
        the sum of their losses (see erratum 6 for when the largest suffices).
        """
        if not self.unit.neighbours:
            return replace(self, adversary=Adversary(Sees.EVERYONE))
        if self.signals is None:
            raise PrivacyError("nothing is known of the signals alone; ask `promise` for them")
        if self.unit.span is Span.EVENT:
            return self.signals
        return self.signals._readings(self.unit.span, self.unit.readings, self.delta or None)

    def _readings(self, span: Span, count: int, delta: float | None) -> Self:
        _validate.at_least(PrivacyError, 1, readings=count)
        if not self.unit.online:
            raise PrivacyError(
                "this estimate uses one signal of each agent: there is no stream; "
                "ask for an online law such as learn"
            )
        unit = replace(self.unit, span=span, readings=count)
        if not self.unit.neighbours:
            return self._composed(count, delta, f"{count} readings", unit=unit)
        if self.adversary.sees is Sees.TRANSCRIPT:
            return self._either(self._alone(), unit, count, delta)
        most = max(count, self.adversary.messages)
        return self._composed(most, delta, f"{most} readings", unit=unit)

    def _alone(self) -> Self:
        if self.signals is None:
            raise PrivacyError("nothing is known of the signals alone; ask `promise` for them")
        return self.signals

    def _either(self, alone: Self, unit: Unit, count: int, delta: float | None) -> Self:
        """Readings that move, or an estimate: the larger epsilon and delta hold for both."""
        moved = alone._composed(count, delta, f"{count} readings")
        if Status.NONE in (self.status, moved.status):
            return replace(self, status=Status.NONE, unit=unit, reason=moved.reason)
        return replace(
            self,
            unit=unit,
            epsilon=max(self.epsilon, moved.epsilon),
            delta=max(self.delta, moved.delta),
            reason=f"{self.reason}; {count} readings composed",
        )

    def _composed(self, count: int, delta: float | None, what: str, **changes: Any) -> Self:
        if self.status is Status.NONE or self.loss is None:
            return replace(self, **changes)
        total: Composition = compose(self._losses(count), delta)
        if total.delta >= 1:
            void = f"{what} add up to a delta of {total.delta:.3g}; state a smaller one"
            return replace(self, status=Status.NONE, reason=void, delta=1.0, **changes)
        reason = f"{self.reason}; {what} composed ({total.method})"
        return replace(self, epsilon=total.epsilon, delta=total.delta, reason=reason, **changes)

    def _losses(self, count: int) -> list[Loss]:
        """The costs of `count` releases, growing where a moved estimate can grow."""
        assert self.loss is not None
        if self.growth <= 1 or not self.unit.neighbours:
            return [self.loss] * count
        each = (self.loss.epsilon * self.growth**m for m in range(count))
        return [Loss(e, self.loss.delta, self.loss.mechanism) for e in each]

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as plain data that JSON can hold, which `from_dict` reads."""
        return {key: _plain(value) for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` gave."""
        unit, adversary = data["unit"], data["adversary"]
        typed = {
            "radius": float(unit["radius"]),
            "span": Span(unit["span"]),
            "metric": Metric(unit["metric"]),
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
                "adversary": Adversary(Sees(adversary["sees"]), adversary["messages"]),
                "status": Status(data["status"]),
                "noise": Noise(data["noise"]),
                "loss": None if data["loss"] is None else Loss(**data["loss"]),
            }
        )


_RANK = (Status.PROVED, Status.ESTIMATED, Status.CLAIMED, Status.REFUTED, Status.NONE)


def _together(parts: Sequence[Guarantee | None]) -> Guarantee | None:
    """The total of what each run states of a part; None if one of them states nothing."""
    stated = [part for part in parts if part is not None]
    return stated[0].for_runs(stated[1:]) if len(stated) == len(parts) else None


def _plain(value: Any) -> Any:
    """JSON has no infinity: it becomes a word."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return "inf" if value == math.inf else value
