"""What a scenario may say, as frozen models: types, ranges and words are checked here.

A field's own rule is checked by its model; what needs the library (a family's options, a law's,
the parameters to draw) is checked in `murmura.scenario.check`. A validator raises a ValueError
whose text says what is allowed; `murmura.scenario.faults` adds the place and what was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic import model_validator as whole

from murmura._validate import as_float

DIRECTED = ("row-stochastic", "column-stochastic")
Weights = Literal[
    "metropolis",
    "lazy-metropolis",
    "max-degree",
    "best-constant",
    "fastest",
    "row-stochastic",
    "column-stochastic",
]
LARGEST_SEED = 2**63 - 1
MOST_REPLICAS = 2**16 - 1  # a replica's noise has a stream of its own, of which there are 2^16


def is_number(value: Any) -> bool:
    """A number that a float can hold, infinity included."""
    return not math.isnan(as_float(value)) and (isinstance(value, float) or abs(value) < 2**1023)


def _rule(holds: Callable[[Any], bool], allowed: str) -> BeforeValidator:
    """A check whose message says what is allowed."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise ValueError(allowed)
        return value

    return BeforeValidator(check)


def _is_budget(value: Any) -> bool:
    return 0 < as_float(value) < math.inf


def _budgets(value: Any) -> tuple[float, ...]:
    """One epsilon, or several for a sweep."""
    values = list(value) if isinstance(value, list | tuple) else [value]
    if not values or not all(map(_is_budget, values)) or len(set(values)) < len(values):
        raise ValueError("a number above 0, or a list of different ones")
    return tuple(map(float, values))


def _interval(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_number, value))


def _agents(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(x, str) or _is_whole(x) for x in value)
    return value == "all" or (_is_whole(value) and value >= 1)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and is_number(value)


def _missing(value: Any) -> bool:
    return value in ("error", "drop-rounds") or math.isfinite(as_float(value))


def _columns(value: Any) -> bool:
    several = value if isinstance(value, list) else [value]
    return bool(several) and all(isinstance(x, str) for x in several)


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Fraction = Annotated[float, Field(gt=0, lt=1)]


class Section(BaseModel):
    """A table of the scenario: no unknown key, no silent conversion, never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Open(Section):
    """A table that names a thing and, beside it, holds that thing's own options."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: str

    @property
    def options(self) -> dict[str, Any]:
        """The keys that are not the scenario's own."""
        return dict(self.model_extra or {})


class Network(Section):
    """[network]: who talks to whom, and with which weights."""

    graph: Annotated[str, StringConstraints(min_length=1)]
    weights: Weights | None = None
    directed: bool = False
    options: dict[str, Any] = {}
    link_failures: Fraction | None = None
    asleep: Fraction | None = None

    @property
    def dynamic(self) -> bool:
        """Whether the weights change from round to round."""
        return self.link_failures is not None or self.asleep is not None

    @whole(mode="after")
    def _one_kind(self) -> Self:
        if self.link_failures is not None and self.asleep is not None:
            raise ValueError("link_failures or asleep, not both")
        if self.dynamic and self.weights not in (None, "lazy-metropolis"):
            raise ValueError(
                'with link_failures or asleep, weights = "lazy-metropolis", the weights that '
                "agents can work out anew in every round"
            )
        if self.directed and self.weights not in DIRECTED:
            raise ValueError(f"with directed = true, weights = {_either(DIRECTED)}")
        return self


class Family(Open):
    """[family]: the law of a signal, with the family's own options."""


class Signals(Section):
    """[signals]: parameters to draw from, or a file of readings."""

    draw: dict[str, Any] | None = None
    file: Annotated[str, StringConstraints(min_length=1)] | None = None
    agent: str | None = None
    time: str | None = None
    value: Annotated[str | list[str] | None, _rule(_columns, "a column or a list of columns")] = (
        None
    )
    clip: Annotated[list[float] | None, _rule(_interval, "[low, high]; inf is no bound")] = None
    missing: Annotated[
        str | float, _rule(_missing, '"error", "drop-rounds" or a public constant to fill in')
    ] = "error"
    match: Literal["label", "order"] = "label"

    @whole(mode="after")
    def _one_source(self) -> Self:
        if (self.draw is None) == (self.file is None):
            raise ValueError('one of draw = { parameters } and file = "readings.csv"')
        given = self.model_fields_set - {"draw", "file"}
        if self.draw is not None and given:
            raise ValueError(f"{', '.join(sorted(given))} only with file; draw takes no such keys")
        return self


class Privacy(Section):
    """[privacy]: what is protected, how strongly, and how the noise is made."""

    protect: Literal["signal", "network", "nothing"]
    epsilon: Annotated[tuple[float, ...], BeforeValidator(_budgets)] = ()
    delta: float = Field(default=0.0, ge=0, lt=1)
    radius: float = Field(default=1.0, gt=0)  # inf: any two values of the bounded domain
    sensitivity: Literal["global", "smooth", "smooth-printed"] = "global"

    @whole(mode="after")
    def _budget(self) -> Self:
        given = sorted(self.model_fields_set - {"protect"})
        if self.protect == "nothing" and given:
            raise ValueError(f'protect = "nothing" without {", ".join(given)}: no noise is added')
        if self.protect != "nothing" and not self.epsilon:
            raise ValueError("epsilon = a number above 0, such as 1.0, which is missing")
        return self


class Law(Open):
    """[law]: the algorithm and how long it runs, with the law's own options."""

    rounds: int = Field(ge=1)


class Record(Section):
    """[record]: which estimates are kept; errors are kept for every round."""

    every: int = Field(default=1, ge=1)
    agents: Annotated[
        int | str | list[str | int],
        _rule(_agents, '"all", a whole number of at least 1, or a list of agents'),
    ] = 12
    estimates: bool = True
    evaluate: bool = False  # of measured signals: compare with the truth, in a secret file


class Agents(Section):
    """[agents]: what real agents agree on beside the rest; a simulation has no use for it."""

    epoch: int = Field(default=1, ge=1)  # counts changes of membership
    asynchronous: bool = False
    open_ended: bool = False
    tolerance: float = Field(default=0.0, ge=0)  # 0: all rounds are run
    certificates: dict[str, str] = {}

    @whole(mode="after")
    def _ends(self) -> Self:
        if self.asynchronous and self.tolerance:
            raise ValueError("tolerance needs rounds in common, which asynchronous agents lack")
        return self


class Spec(Section):
    """One run in full: the base of a scenario with one variant merged over it."""

    name: Name
    title: str = ""
    # without one: 0 for signals that are drawn, the operating system's entropy for measured ones
    seed: int | None = Field(default=None, ge=0, le=LARGEST_SEED)
    replicas: int = Field(default=1, ge=1, le=MOST_REPLICAS)
    network: Network
    family: Family
    signals: Signals
    privacy: Privacy
    law: Law
    record: Record = Record()
    agents: Agents = Agents()


def _either(words: tuple[str, ...]) -> str:
    return " or ".join(f'"{word}"' for word in words)
