"""What a scenario file may contain, as frozen pydantic models.

A model checks types, ranges and the rules of one section. Checks that need the rest of the library
(options of a family, parameters to draw from) are in `veilsum.scenario.check`. A validator raises
a ValueError whose text says what is allowed; `veilsum.scenario.errors` adds the line and the value
that was found.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic import model_validator as whole

from veilsum._validate import as_float, duration
from veilsum.errors import VeilsumError

if TYPE_CHECKING:
    from veilsum._types import Family
    from veilsum.privacy import PrivacyRequest

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
LONGEST_UNIT = 24  # characters
MOST_REPLICAS = 2**16 - 1  # each replica has one of 2^16 noise streams


def is_number(value: Any) -> bool:
    """Whether a value is a number that a float can represent, infinity included."""
    return not math.isnan(as_float(value)) and (isinstance(value, float) or abs(value) < 2**1023)


def _rule(holds: Callable[[Any], bool], allowed: str) -> BeforeValidator:
    """A validator whose message says what is allowed."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise ValueError(allowed)
        return value

    return BeforeValidator(check)


def _one_mechanism() -> BeforeValidator:
    """One of the registered mechanisms, which are imported when another than the default is named."""

    def check(value: Any) -> Any:
        if value != "laplace":
            from veilsum.privacy.mechanisms import names

            if value not in names():
                known = [f'"{name}"' for name in names()]
                raise ValueError(f"{', '.join(known[:-1])} or {known[-1]}")
        return value

    return BeforeValidator(check)


def _epsilons(value: Any) -> tuple[float, ...]:
    """One epsilon, or several for a sweep."""
    values = list(value) if isinstance(value, list | tuple) else [value]
    positive = all(0 < as_float(x) < math.inf for x in values)
    if not values or not positive or len(set(values)) < len(values):
        raise ValueError("a number above 0, or a list of different ones")
    return tuple(map(float, values))


def _duration(value: Any) -> float:
    """Seconds, from a number or a text such as "90s"."""
    try:
        return duration(VeilsumError, duration=value)
    except VeilsumError:
        allowed = 'a duration such as "90s", "10m", "1h", "1d" or "2w", or seconds'
        raise ValueError(allowed) from None


def _is_quorum(value: Any) -> bool:
    return value == "all" or (_is_integer(value) and value >= 1)


def _is_nonce(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{32}", value) is not None


def _is_interval(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_number, value))


def _is_agents(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(x, str) or _is_integer(x) for x in value)
    return value == "all" or (_is_integer(value) and value >= 1)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and is_number(value)


def _is_missing_rule(value: Any) -> bool:
    return value in ("error", "drop-rounds") or math.isfinite(as_float(value))


def _is_unit(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    return 0 < len(value) <= LONGEST_UNIT and value.isprintable() and value.strip() == value


def _is_columns(value: Any) -> bool:
    several = value if isinstance(value, list) else [value]
    return bool(several) and all(isinstance(x, str) for x in several)


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
Replicas = Annotated[int, Field(ge=1, le=MOST_REPLICAS)]
Epsilons = Annotated[tuple[float, ...], BeforeValidator(_epsilons)]
Duration = Annotated[float, BeforeValidator(_duration)]
Nonce = Annotated[str, _rule(_is_nonce, "32 hexadecimal digits in lower case")]
UnitOfMeasure = Annotated[
    str, _rule(_is_unit, f'a unit such as "kWh", of up to {LONGEST_UNIT} printable characters')
]
Quorum = Annotated[Literal["all"] | int, _rule(_is_quorum, '"all", or a number of members')]


class Section(BaseModel):
    """A table of a scenario: unknown keys and implicit conversions are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SectionWithOptions(Section):
    """A table with a name, and the options of what is named as further keys."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: str

    @property
    def options(self) -> dict[str, Any]:
        """The keys that the schema does not define."""
        return dict(self.model_extra or {})


class NetworkSection(Section):
    """[network]: the graph, its weights and its failures."""

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
            raise ValueError(f"with directed = true, weights = {_alternatives(DIRECTED)}")
        return self


class FamilySection(SectionWithOptions):
    """[family]: the distribution of a signal and its unit, with the options of the family."""

    unit: UnitOfMeasure = ""  # of a signal, such as "kWh": for axes, tables and pages

    @cached_property
    def family(self) -> Family:
        """The family, made from its name and options."""
        from veilsum import families

        return families.get(self.name, **self.options)


class SignalsSection(Section):
    """[signals]: parameters to draw synthetic signals from, or a file of readings."""

    draw: dict[str, Any] | None = None
    file: Annotated[str, StringConstraints(min_length=1)] | None = None
    agent: str | None = None
    time: str | None = None
    value: Annotated[
        str | list[str] | None, _rule(_is_columns, "a column or a list of columns")
    ] = None
    clip: Annotated[list[float] | None, _rule(_is_interval, "[low, high]; inf is no bound")] = None
    missing: Annotated[
        str | float,
        _rule(_is_missing_rule, '"error", "drop-rounds" or a public constant to fill in'),
    ] = "error"
    match: Literal["label", "order"] = "label"

    @whole(mode="after")
    def _one_source(self) -> Self:
        if (self.draw is None) == (self.file is None):
            raise ValueError('one of draw = { parameters } and file = "readings.csv"')
        others = self.model_fields_set - {"draw", "file"}
        if self.draw is not None and others:
            raise ValueError(f"{', '.join(sorted(others))} only with file; draw takes no such keys")
        return self


class BatchesSection(Section):
    """privacy.batches: readings of a stream that are released together (`privacy.Batches`)."""

    growth: float = Field(default=2.0, ge=1, le=1000)  # 1: each reading by itself
    longest: int = Field(default=0, ge=0)  # readings; 0: no limit

    @whole(mode="after")
    def _grows(self) -> Self:
        from veilsum.privacy.batches import LEAST_GROWTH

        if 1 < self.growth < LEAST_GROWTH:
            raise ValueError(f"growth = 1 (no batches), or of at least {LEAST_GROWTH:g}")
        return self


class PrivacySection(Section):
    """[privacy]: what is protected, epsilon and delta, and the sensitivity to use."""

    protect: Literal["signal", "network", "nothing"]
    epsilon: Epsilons = ()
    delta: float = Field(default=0.0, ge=0, lt=1)
    radius: float | None = Field(default=None, gt=0)  # None, or inf: any two values of the domain
    sensitivity: Literal["global", "smooth", "smooth-as-published"] = "global"
    mechanism: Annotated[str, _one_mechanism()] = "laplace"
    batches: BatchesSection | None = None  # for online algorithms
    unit: Literal["event", "stream"] = (
        "event"  # stream: all `horizon` readings cost epsilon together
    )
    horizon: int | None = Field(default=None, ge=1)  # readings of such a stream
    # secure: secure-sum, or secure-learn for a stream, which need not say so; masked: masked-sum and -learn
    mode: Literal["local", "secure", "masked"] = "local"
    colluders: int | None = Field(default=None, ge=0)  # that may collude; secure: 20% unless stated
    absent: int | None = Field(default=None, ge=0)  # that a roster may lack; secure: 10%, masked: 0
    attempts: int = Field(default=1, ge=1)  # sessions that share epsilon, of a masked sum
    steps: int | None = Field(default=None, ge=1)  # of the grid, per sensitivity, of a sum

    @property
    def request(self) -> PrivacyRequest:
        """The privacy request, at the first epsilon."""
        from veilsum.privacy import Batches, MaskedDP, SecureSumDP
        from veilsum.privacy.requests import make_request

        epsilon = self.epsilon[0] if self.epsilon else math.inf
        asked = self.batches
        batches = None if asked is None else Batches(asked.growth, asked.longest)
        if self.mode == "secure":
            return SecureSumDP(
                epsilon, self.delta, self.radius, batches=batches, colluders=self.colluders,
                absent=self.absent, steps=self.steps,
            )  # fmt: skip
        if self.colluders is not None:  # `_one_mode`: masked
            return MaskedDP(
                epsilon, self.delta, self.radius, batches=batches, colluders=self.colluders,
                absent=self.absent or 0, attempts=self.attempts, steps=self.steps,
            )  # fmt: skip
        return make_request(
            self.protect, epsilon, self.delta, self.radius, self.sensitivity, self.mechanism,
            batches, self.unit, self.horizon,
        )  # fmt: skip

    @whole(mode="after")
    def _needs_epsilon(self) -> Self:
        others = sorted(self.model_fields_set - {"protect"})
        if self.protect == "nothing" and others:
            raise ValueError(f'protect = "nothing" without {", ".join(others)}: no noise is added')
        if self.protect != "nothing" and not self.epsilon:
            raise ValueError("epsilon = a number above 0, such as 1.0, which is missing")
        return self

    @whole(mode="after")
    def _one_mode(self) -> Self:
        asked = self.model_fields_set
        if self.mode == "local":
            if asked & {"colluders", "absent", "attempts", "steps"}:
                raise ValueError(
                    'colluders, absent and steps only with mode = "secure" or "masked", attempts only '
                    'with "masked"'
                )
            return self
        others = sorted(asked & {"sensitivity", "mechanism", "unit", "horizon"})
        if self.mode == "secure":
            others += sorted(asked & {"attempts"})
        if self.protect != "signal":
            raise ValueError(f'mode = "{self.mode}" with protect = "signal": it hides signals')
        if self.mode == "masked" and self.colluders is None:
            raise ValueError(
                'mode = "masked" with colluders = how many of the other members may collude, '
                "which somebody must state; 0 covers none"
            )
        if others:
            raise ValueError(f'mode = "{self.mode}" without {", ".join(others)}')
        return self


class AlgorithmSection(SectionWithOptions):
    """[algorithm]: the algorithm and its number of rounds, with the options of the algorithm."""

    rounds: int = Field(ge=1)


class RecordSection(Section):
    """[record]: the estimates to record; errors are recorded in every round."""

    every: int = Field(default=1, ge=1)
    agents: Annotated[
        int | str | list[str | int],
        _rule(_is_agents, '"all", a whole number of at least 1, or a list of agents'),
    ] = 12
    estimates: bool = True


class AgentsSection(Section):
    """[agents]: further terms that real agents agree on; a simulation ignores all but `clip`."""

    epoch: int = Field(default=1, ge=1)  # counts changes of membership
    former: dict[str, Annotated[int, Field(ge=1)]] = {}  # who is no member, and since which epoch
    asynchronous: bool = False
    open_ended: bool = False
    tolerance: float = Field(default=0.0, ge=0)  # 0: all rounds are run
    quorum: Quorum = "all"  # members whose readings a result needs
    gathering: Duration = 600.0  # seconds to wait for members that were never heard
    lost_after: Duration = 3600.0  # seconds of silence after which a neighbour counts as lost
    every: Duration = 0.0  # a slot of the reading schedule; 0: no schedule
    grace: Duration = 0.0  # how much later than its slot a reading may come
    clip: float = Field(default=0.0, ge=0)  # radius of clipped gossip, in the statistic's units
    certificates: dict[str, str] = {}
    nonce: Nonce = ""  # of a masked sum: new for every run
    signing_keys: (
        dict[str, str] | str
    ) = {}  # by label, or the path of a TOML file with such a table

    @whole(mode="after")
    def _ends(self) -> Self:
        if self.asynchronous and self.tolerance:
            raise ValueError("tolerance needs rounds in common, which asynchronous agents lack")
        if self.clip and (self.asynchronous or self.open_ended):
            lacks = "asynchronous" if self.asynchronous else "open_ended"
            raise ValueError(f"clip needs rounds in common and a last one; leave {lacks} out")
        if not (self.gathering and self.lost_after):
            raise ValueError("gathering and lost_after must be above 0 seconds")
        if self.grace and not self.every:
            raise ValueError("grace belongs to a schedule; set every too")
        return self


class ReportSection(Section):
    """[report]: what the page for the one who signs says of choices that no number explains."""

    purpose: str = ""  # what the answer is for
    signal: str = ""  # what is measured of whom, such as "daily consumption of a household"
    operator: str = ""  # who runs the network, and answers questions
    kept: str = ""  # how long readings, ledgers and results are kept
    radius: str = ""  # why this radius: what it hides
    epsilon: str = ""  # why this epsilon
    whole_value: str = ""  # why it is enough that the whole value has an epsilon beyond 5
    colluders: str = ""  # why no more members will collude, in a masked sum
    independence: str = ""  # why other members' signals say little of this one's


class Spec(Section):
    """The full specification of one variant: the base of a scenario with the variant merged in.

    Attributes
    ----------
    name, title
        The name is part of file names.
    seed
        Without one: 0 for synthetic signals, the operating system's entropy for measured ones.
    replicas
        How many independent runs.
    network, family, signals, privacy, algorithm, record, agents, report
        The sections of the file.

    Examples
    --------
    >>> from veilsum.scenario import Scenario, template
    >>> spec = Scenario.parse(template()).variants[0]
    >>> spec.algorithm.name, spec.algorithm.rounds, spec.privacy.epsilon
    ('jacobi', 60, (1.0,))
    """

    name: Name
    title: str = ""
    seed: Seed | None = None
    replicas: Replicas = 1
    network: NetworkSection
    family: FamilySection
    signals: SignalsSection
    privacy: PrivacySection
    algorithm: AlgorithmSection
    record: RecordSection = RecordSection()
    agents: AgentsSection = AgentsSection()
    report: ReportSection = ReportSection()


def _alternatives(words: tuple[str, ...]) -> str:
    return " or ".join(f'"{word}"' for word in words)
