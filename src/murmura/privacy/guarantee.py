"""A promise: what is protected, against whom, how strongly, and whether that is proved.

A guarantee is made by `promise` and changed only by asking: for more messages, for a window or a
whole stream of readings, against everyone. Each answer is a guarantee again, with its own epsilon.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Self

from murmura import _validate
from murmura.errors import PrivacyError
from murmura.privacy.accounting import Composition, Loss, compose


class Status(StrEnum):
    """How a promise stands."""

    PROVED = "proved"
    CLAIMED = "claimed"  # somebody says so: the paper, or the author of a family
    ESTIMATED = "estimated"  # rests on a number estimated from samples
    NONE = "none"


class Span(StrEnum):
    """How much of an agent's signals may change."""

    EVENT = "event"
    WINDOW = "window"
    STREAM = "stream"


class Sees(StrEnum):
    """What an adversary sees."""

    MESSAGES = "messages"  # a number of messages of one agent
    TRANSCRIPT = "transcript"  # all messages of one agent
    EVERYONE = "everyone"  # all messages of all agents


@dataclass(frozen=True)
class Unit:
    """What may change: readings, each by at most `radius`; or a neighbour's estimate, by 1."""

    radius: float  # in the signal's own units; infinite: any two values of its bounded domain
    online: bool = False
    neighbours: bool = False
    span: Span = Span.EVENT
    readings: int = 1

    def __str__(self) -> str:
        """Say it."""
        far = f"by at most {self.radius:g} in its own units"
        moves = "between any two values of its domain" if math.isinf(self.radius) else far
        near = ", or a neighbour's estimate that moves by at most 1" if self.neighbours else ""
        return f"{self._signals()} that moves {moves}{near}"

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
        """Say it."""
        if self.sees is Sees.EVERYONE:
            return "whoever sees all messages of all agents"
        if self.sees is Sees.TRANSCRIPT:
            return "whoever sees all messages of an agent"
        count = "one message" if self.messages == 1 else f"{self.messages} messages"
        return f"whoever sees {count} of an agent"


@dataclass(frozen=True)
class Guarantee:
    """Epsilon and delta for a unit, against an adversary, with a standing and its reason."""

    epsilon: float
    delta: float
    unit: Unit
    adversary: Adversary
    status: Status
    reason: str
    erratum: int | None = None
    loss: Loss | None = None  # the price of one release, which composition needs
    signals: Self | None = None  # what holds for the signals alone, if the unit is wider

    def __str__(self) -> str:
        """Say it as a sentence."""
        see = f" (erratum {self.erratum})" if self.erratum else ""
        if self.status is Status.NONE:
            return f"No privacy is promised: {self.reason}{see}."
        delta = f" and delta = {self.delta:.3g}" if self.delta else ""
        words = (
            f"differential privacy with epsilon = {self.epsilon:.4g}{delta} for {self.unit}, "
            f"against {self.adversary}; {self.reason}{see}."
        )
        start = "Proved" if self.status is Status.PROVED else f"{self.status.title()}, not proved"
        return f"{start}: {words}"

    def for_messages(self, k: int, delta: float | None = None) -> Self:
        """Promise the same against whoever sees k messages of an agent.

        Noise that enters once protects all messages alike; noise of its own in every message, which
        hides the neighbours' estimates, composes. With a `delta` the tighter composition is used.
        """
        _validate.at_least(PrivacyError, 1, k=k)
        seen = Adversary(Sees.MESSAGES, k)
        if not self.unit.neighbours or self.loss is None:
            return replace(self, adversary=seen)
        most = max(k, self.unit.readings)  # readings that move were paid for, and stay so
        return self._composed(most, delta, f"{most} messages", adversary=seen)

    def for_window(self, w: int, delta: float | None = None) -> Self:
        """Promise for any w consecutive readings at once (w-event privacy)."""
        return self._readings(Span.WINDOW, w, delta)

    def for_stream(self, readings: int, delta: float | None = None) -> Self:
        """Promise for a whole stream of so many readings at once (user-level privacy)."""
        return self._readings(Span.STREAM, readings, delta)

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
        most = max(count, self.adversary.messages)
        seen = Adversary(Sees.MESSAGES, most)
        return self._composed(most, delta, f"{most} readings", unit=unit, adversary=seen)

    def _composed(self, count: int, delta: float | None, what: str, **changes: Any) -> Self:
        if self.status is Status.NONE or self.loss is None:
            return replace(self, **changes)
        total: Composition = compose([self.loss] * count, delta)
        if total.delta >= 1:
            void = f"{what} add up to a delta of {total.delta:.3g}; state a smaller one"
            return replace(self, status=Status.NONE, reason=void, delta=1.0, **changes)
        reason = f"{self.reason}; {what} composed ({total.method})"
        return replace(self, epsilon=total.epsilon, delta=total.delta, reason=reason, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as plain data that JSON can hold, which `from_dict` reads."""
        return {key: _plain(value) for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` gave."""
        unit, adversary = data["unit"], data["adversary"]
        radius, span = float(unit["radius"]), Span(unit["span"])
        return cls(
            **{
                **data,
                "epsilon": float(data["epsilon"]),
                "unit": Unit(**{**unit, "radius": radius, "span": span}),
                "adversary": Adversary(Sees(adversary["sees"]), adversary["messages"]),
                "status": Status(data["status"]),
                "loss": None if data["loss"] is None else Loss(**data["loss"]),
                "signals": None if data["signals"] is None else cls.from_dict(data["signals"]),
            }
        )


def _plain(value: Any) -> Any:
    """JSON has no infinity: it becomes a word."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return "inf" if value == math.inf else value
