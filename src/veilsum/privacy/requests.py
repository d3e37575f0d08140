"""Privacy requests: the protection a user asks for, before any noise is chosen.

Two protections come from the paper. Signal DP hides each agent's signal; Network DP hides the
signal and the estimates of the neighbours that an agent builds upon. Both are stated for signals
that move between any two values of their public domain, or by at most a stated `radius` in their own
units. `NoPrivacy` asks for nothing: it is a request like
the others, with epsilon = inf and a mechanism that releases its input.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Self

from veilsum import _validate
from veilsum._registry import did_you_mean
from veilsum.algorithms.base import Algorithm
from veilsum.algorithms.batched import batched
from veilsum.algorithms.keepers import Keepers
from veilsum.errors import AlgorithmError, PrivacyError
from veilsum.privacy.accounting.events import Span
from veilsum.privacy.batches import Batches
from veilsum.privacy.mechanisms import (
    MECHANISMS,
    IdentityMechanism,
    LaplaceMechanism,
    MaskedMechanism,
    SecureMechanism,
    names,
)
from veilsum.privacy.mechanisms.choose import BEST
from veilsum.privacy.streams import Horizon


class Protects(StrEnum):
    """What a request protects."""

    NOTHING = "nothing"
    SIGNAL = "signal"
    NETWORK = "network"  # the signal, and the estimates of neighbours


class SensitivityKind(StrEnum):
    """Which sensitivity sets the noise."""

    GLOBAL = "global"
    SMOOTH = "smooth"
    SMOOTH_AS_PUBLISHED = "smooth-as-published"  # holds on some domains only (erratum 2)

    @property
    def reads_signals(self) -> bool:
        """Whether the scale follows the signal, and so is as private as it."""
        return self is not SensitivityKind.GLOBAL


GLOBAL, SMOOTH = SensitivityKind.GLOBAL, SensitivityKind.SMOOTH
SMOOTH_AS_PUBLISHED = SensitivityKind.SMOOTH_AS_PUBLISHED
SENSITIVITIES = tuple(kind.value for kind in SensitivityKind)
LAPLACE = LaplaceMechanism.name
MASKED, SECURE = MaskedMechanism.name, SecureMechanism.name


@dataclass(frozen=True)
class PrivacyRequest(ABC):
    """A protection with its epsilon, delta, radius, sensitivity and mechanism; abstract.

    Parameters
    ----------
    epsilon, delta, radius, sensitivity, budget_fractions, mechanism, batches, unit, horizon
        As for `SignalDP`.

    Examples
    --------
    >>> isinstance(SignalDP(epsilon=1.0), PrivacyRequest)
    True
    """

    epsilon: float
    delta: float = 0.0
    radius: float | None = None
    sensitivity: str = GLOBAL
    budget_fractions: tuple[float, ...] | None = None
    mechanism: str = LAPLACE
    batches: Batches | None = None
    unit: str = Span.EVENT
    horizon: int | None = None

    protects: ClassVar[Protects]

    @property
    @abstractmethod
    def adds_noise(self) -> bool:
        """Whether anything is protected at all: what every decision about noise asks."""

    @property
    def hides_neighbours(self) -> bool:
        """Whether neighbours' estimates are protected as well."""
        return self.protects is Protects.NETWORK

    @property
    def summed(self) -> bool:
        """Whether members add parts of one noise to a sum, instead of noise for themselves."""
        return False

    @property
    def masked(self) -> bool:
        """Whether that sum is a masked one."""
        return False

    @property
    def sessions(self) -> int:
        """Releases that share epsilon: the attempts of a masked sum, otherwise 1."""
        return 1

    @property
    def reads_signals(self) -> bool:
        """Whether the noise's scale is read off the signal, and so is as private as it."""
        return SensitivityKind(self.sensitivity).reads_signals

    @property
    def perturbs_input(self) -> bool:
        """Whether M(xi) takes the place of xi, for any mechanism but Laplace noise."""
        return self.adds_noise and self.mechanism != LAPLACE

    @property
    def stream(self) -> Horizon | None:
        """The stream whose readings together are what is hidden; None where it is each of them."""
        return None if self.horizon is None else Horizon(self.horizon)

    @property
    def reach(self) -> float:
        """The radius as a number: infinite for the whole domain."""
        return math.inf if self.radius is None else self.radius

    def at(self, epsilon: float) -> Self:
        """Ask for the same protection with another epsilon.

        Parameters
        ----------
        epsilon
            The other epsilon.
        """
        return replace(self, epsilon=epsilon)

    def batched(self, algorithm: Algorithm) -> Algorithm:
        """The algorithm as the request runs it: with its readings in batches, if there are any."""
        try:
            return batched(algorithm, self.batches)
        except AlgorithmError as problem:
            raise PrivacyError(f"batches do not go with this algorithm: {problem}") from problem

    def over(self, family: Any, drawn: bool = False) -> Self:
        """The same request with a number as its radius: what None stands for is decided here.

        None is the whole domain of the family: an infinite radius, or the domain's width where the
        noise follows the signal. Where no noise hides any two values, for the domain has no bounds,
        signals that are drawn get a radius of 1, and any other signals an error that asks for bounds.

        Parameters
        ----------
        family
            The family of the signals; with None, for no family in particular, nothing is decided.
        drawn
            Whether the signals are drawn, and nobody's.

        Examples
        --------
        >>> from veilsum import families
        >>> SignalDP(1.0).over(families.Normal(1.0, bounds=(0.0, 5.0))).radius
        inf
        >>> SignalDP(1.0).over(families.Normal(1.0), drawn=True).radius
        1.0
        """
        if self.radius is not None or family is None:
            return self
        support, whole = family.support, math.inf
        if math.isfinite(family.moves(math.inf).l1):
            if self.reads_signals:
                whole = support.high - support.low
            return replace(self, radius=whole)
        if drawn:
            return replace(self, radius=1.0)
        raise PrivacyError(
            f"the whole value of a signal is to be hidden, and family {family.name} has no bounds "
            f"that limit it ({support.describe()}): between any two values no noise is enough. Give "
            "the family public bounds: bounds=(low, high), in a scenario bounds = [low, high] under "
            "[family]. To hide smaller moves only, state how far a signal may move: radius=..., in a "
            "scenario radius = ... under [privacy]"
        )


@dataclass(frozen=True)
class DifferentialPrivacy(PrivacyRequest):
    """Epsilon, delta, the radius they hold for, the sensitivity and the mechanism.

    Parameters
    ----------
    epsilon, delta, radius, sensitivity, budget_fractions, mechanism, batches
        As for `SignalDP`.

    Raises
    ------
    PrivacyError
        If a number is out of range, or two of the choices exclude one another.

    Examples
    --------
    >>> isinstance(NetworkDP(epsilon=1.0), DifferentialPrivacy)
    True
    """

    protects: ClassVar[Protects] = Protects.SIGNAL

    @property
    def adds_noise(self) -> bool:
        """Yes."""
        return True

    def __post_init__(self) -> None:
        """Check every number, and that delta goes with the sensitivity that needs it."""
        _validate.positive(PrivacyError, epsilon=self.epsilon)
        self._check_radius()
        _validate.probability(PrivacyError, delta=self.delta)
        _validate.one_of(PrivacyError, SENSITIVITIES, sensitivity=self.sensitivity)
        object.__setattr__(self, "sensitivity", SensitivityKind(self.sensitivity))
        if self.reads_signals and self.delta == 0:
            raise PrivacyError(
                f"sensitivity {self.sensitivity} needs a delta above 0, such as 0.01"
            )
        for fraction in self.budget_fractions or ():
            _validate.positive(PrivacyError, budget_fractions=fraction)
        if self.budget_fractions is not None and self.sensitivity is SMOOTH:
            raise PrivacyError(
                "budget fractions and smooth sensitivity do not go together: its smoothing "
                "belongs to one epsilon; try sensitivity global"
            )
        self._check_mechanism()
        self._check_delta()
        self._check_batches()
        self._check_stream()

    def _check_stream(self) -> None:
        """A stream has an end, and noise whose divergences add up."""
        _validate.one_of(PrivacyError, (Span.EVENT.value, Span.STREAM.value), unit=self.unit)
        object.__setattr__(self, "unit", Span(self.unit))
        if self.unit is Span.EVENT:
            if self.horizon is not None:
                raise PrivacyError(
                    f"horizon = {_validate.found(self.horizon)} is for a whole stream; ask for unit = "
                    '"stream", or leave it out: every reading by itself has no end'
                )
            return
        if self.horizon is None:
            raise PrivacyError(
                'unit = "stream" needs its horizon, the number of readings after which the stream ends '
                "(horizon = 8760 for a year of hours): their noise is calibrated to cost epsilon "
                "together, and without an end there is none that keeps its size"
            )
        _ = self.stream  # refuses what is no number
        if self.batches is not None or self.summed:
            raise PrivacyError(
                'unit = "stream" goes with local noise for each reading; leave '
                f"{'batches' if self.batches is not None else 'the sum'} out"
            )
        if self.mechanism == BEST or not MECHANISMS.get(self.mechanism).takes_delta:
            fitting = [n for n, kind in MECHANISMS.items() if kind.takes_delta and kind.requested]
            raise PrivacyError(
                f'unit = "stream" gains nothing with mechanism {self.mechanism}: epsilons of pure noise '
                "add up, so the mean of t readings has sqrt(t) times the noise of one release or more; "
                f"ask for mechanism {' or '.join(fitting)} with a delta, such as 1e-6"
            )

    def _check_delta(self) -> None:
        """Refuse a delta that no noise here makes use of."""
        if self.reads_signals or self.mechanism == BEST:
            return
        takes = MECHANISMS.get(self.mechanism).takes_delta
        if takes and not self.delta > 0:
            raise PrivacyError(f"mechanism {self.mechanism} needs a delta above 0, such as 1e-6")
        if self.delta > 0 and not takes:
            others = [name for name, one in MECHANISMS.items() if one.takes_delta and one.requested]
            raise PrivacyError(
                f"delta = {self.delta} buys nothing with mechanism {self.mechanism}, whose noise is pure "
                f"epsilon-DP; leave delta out, or ask for mechanism {' or '.join(others)}"
            )

    def _check_radius(self) -> None:
        if self.radius is None:
            return
        if self.radius != math.inf:
            _validate.positive(PrivacyError, radius=self.radius)
        elif self.sensitivity != GLOBAL:
            raise PrivacyError(
                "an infinite radius means any two values of a bounded domain, and goes with "
                "sensitivity global"
            )

    def _check_mechanism(self) -> None:
        """Other mechanisms than Laplace perturb the statistic itself: not everything fits."""
        if self.mechanism not in names():
            hint = did_you_mean(str(self.mechanism), names())
            raise PrivacyError(
                f"mechanism must be one of {', '.join(names())}; found {_validate.found(self.mechanism)}"
                f"{hint and '; ' + hint.strip()}"
            )
        if not self.perturbs_input:
            return
        if self.hides_neighbours:
            raise PrivacyError(
                f"mechanism {self.mechanism} perturbs the statistic, which hides no neighbour's "
                "estimate; Network DP goes with mechanism laplace"
            )
        if self.reads_signals:
            raise PrivacyError(
                f"mechanism {self.mechanism} has a public scale; sensitivity {self.sensitivity} "
                "goes with mechanism laplace"
            )
        if self.budget_fractions is not None:
            raise PrivacyError(
                f"budget fractions go with mechanism laplace; found mechanism {self.mechanism}"
            )

    def _check_batches(self) -> None:
        """Only what adds noise of a public scale to a sum has a proof for batches."""
        if self.batches is None:
            return
        if not isinstance(self.batches, Batches):
            raise PrivacyError(
                "batches must be privacy.Batches(growth=2.0, longest=24); found "
                f"{_validate.found(self.batches)}"
            )
        if self.batches.trivial:  # fresh noise for every reading
            object.__setattr__(self, "batches", None)
            return
        if self.hides_neighbours:
            raise PrivacyError(
                "batches leave rounds without noise, in which messages show neighbours' estimates "
                "as they are; Network DP goes without batches, or protect the signal"
            )
        if self.reads_signals:
            raise PrivacyError(
                f"sensitivity {self.sensitivity} is that of one reading at its own value, and of a "
                "batch's sum nothing is known; batches go with sensitivity global"
            )
        if self.mechanism != BEST and not MECHANISMS.get(self.mechanism).adds:
            raise PrivacyError(
                f"mechanism {self.mechanism} is for one number between public bounds, and the sum "
                "of a batch lies between bounds as many times as wide as it has readings; batches "
                "go with laplace, staircase, discrete-laplace or best"
            )


@dataclass(frozen=True)
class SignalDP(DifferentialPrivacy):
    """Hide each signal: Lap(Delta / eps) once per signal (Th. 1 and 2), or another mechanism.

    Parameters
    ----------
    epsilon, delta
        The privacy loss allowed, and the probability of exceeding it.
    radius
        How far a signal may move, in its own units. None, or infinite: any two values of its domain,
        which needs bounds; signals that are drawn from a family without bounds move by 1.
    sensitivity
        "global", "smooth" or "smooth-as-published".
    budget_fractions
        One for each agent: agent i has the budget epsilon * budget_fractions[i]
        (`veilsum.paper.allocation` computes them).
    mechanism
        The noise: one of `mechanisms.names()`. "best" is the one of least worst-case variance for
        the family, the bounds and epsilon.
    batches
        Release the readings of a stream in growing batches, `Batches(growth=2.0, longest=24)`;
        None: each by itself.
    unit
        "event": every reading costs epsilon. "stream": all `horizon` readings together do, by noise that
        grows with their number (`privacy.streams`).
    horizon
        The number of readings of such a stream, which then ends.

    Raises
    ------
    PrivacyError
        If a number is out of range, or two of the choices exclude one another.

    Examples
    --------
    >>> SignalDP(epsilon=1.0, radius=2.0, mechanism="hybrid").at(0.5).epsilon
    0.5
    >>> names = [name for name, kind in MECHANISMS.items() if kind.takes_delta and kind.requested]
    >>> year = SignalDP(1.0, 1e-6, mechanism=names[0], unit="stream", horizon=8760)
    >>> round(year.stream.deviation(100), 2)
    2.09
    """


@dataclass(frozen=True)
class NetworkDP(DifferentialPrivacy):
    """Hide signals and neighbours' estimates: Lap(max(max_j a_ij, Delta) / eps) (Cor. 1, Th. 3).

    Parameters
    ----------
    epsilon, delta, radius, sensitivity, budget_fractions
        As for `SignalDP`.
    mechanism
        "laplace": no other noise hides the estimates of neighbours.
    batches
        None: rounds without noise would show the estimates of neighbours.
    unit, horizon
        "event" and None: what later messages cost is not known of a whole stream.

    Raises
    ------
    PrivacyError
        If a number is out of range, or two of the choices exclude one another.

    Examples
    --------
    >>> NetworkDP(epsilon=1.0).hides_neighbours
    True
    """

    protects: ClassVar[Protects] = Protects.NETWORK


@dataclass(frozen=True)
class SecureSumDP(DifferentialPrivacy):
    """Hide each signal in a secure sum: the noise of all honest members together is one Laplace.

    The error of the mean is sqrt(|F|/h) times that of a trusted server, F the members that are
    added up and h = n - colluders - absent. In return the guarantee is computational, and holds
    against stated numbers of colluding members and keepers; `guarantee_of` says what more of them cost.
    It goes with the algorithms secure-sum and, for streams, secure-learn.

    Parameters
    ----------
    epsilon
        What a query costs. There are no further attempts.
    delta
        0: the noise is pure. Above 0: Skellam noise for vectors, by the l2 norm of a move; refused
        where pure noise is smaller, as it is for numbers.
    radius
        As for `SignalDP`.
    sensitivity
        "global".
    budget_fractions
        None: all members draw the same noise.
    mechanism
        "secure-sum".
    batches
        A query for each batch of a stream, `Batches(growth=2.0, longest=24)`; None: for each
        reading.
    unit, horizon
        "event" and None: all queries have noise of one size.
    colluders
        c', how many of the other members may collude; 20% of all, rounded up, if left out.
    absent
        d, how many members a roster may lack; 10% of all, rounded up, if left out.
    steps
        Grid steps that make up the sensitivity, at least; 2^12 for numbers and 2^24 for vectors if
        left out. Whole-number statistics have a step of 1.

    Raises
    ------
    PrivacyError
        If a number is out of range, or a choice does not go with a secure sum.

    Examples
    --------
    >>> from veilsum.algorithms import SecureSum
    >>> from veilsum.privacy import guarantee_of
    >>> found = guarantee_of(SecureSumDP(epsilon=1.0), SecureSum(members=100, hops=4))
    >>> str(found.status), found.epsilon, found.assumes
    ('proved', 1.0, 'computational')
    >>> print(found.adversary)
    whoever sees all messages and up to 20 keepers and 20 members together, chosen before the query
    """

    mechanism: str = SECURE
    _: KW_ONLY
    colluders: int | None = None
    absent: int | None = None
    steps: int | None = None

    own_mechanism: ClassVar[str] = SECURE
    mode: ClassVar[str] = "secure"  # as scenarios call it
    what: ClassVar[str] = "secure sum"

    @property
    def summed(self) -> bool:
        """Yes."""
        return True

    def keepers(self, members: int) -> Keepers:
        """Who adds up so many members, with what is covered."""
        return Keepers.usual(members, self.colluders, self.absent)

    def local(self) -> SignalDP:
        """Local noise that guarantees as much, with delta 0."""
        return SignalDP(self.epsilon, radius=self.radius, batches=self.batches)

    @property
    def query_cost(self) -> tuple[float, float]:
        """Epsilon and delta of one release: of a query."""
        return self.epsilon, self.delta

    @classmethod
    def like(cls, local: SignalDP, colluders: int | None = None, absent: int | None = None) -> Self:
        """A sum that guarantees as much as local noise.

        Parameters
        ----------
        local
            A request for noise of global sensitivity.
        colluders, absent
            As in the request.
        """
        if local.reads_signals:
            raise PrivacyError(
                f"a {cls.what} has noise of a public scale, and sensitivity {local.sensitivity} "
                "follows the signal; use sensitivity global"
            )
        covered: Any = {"colluders": colluders, "absent": absent}
        return cls(local.epsilon, radius=local.radius, batches=local.batches, **covered)

    def __post_init__(self) -> None:
        """Check the numbers; what depends on the number of members is checked with the algorithm."""
        super().__post_init__()
        for name in ("colluders", "absent"):
            if getattr(self, name) is not None:
                _validate.at_least(PrivacyError, 0, **{name: getattr(self, name)})
        if self.steps is not None:
            _validate.at_least(PrivacyError, 1, steps=self.steps)

    def _check_delta(self) -> None:
        """A family decides about delta; batches need pure noise."""
        if self.delta > 0 and self.batches is not None and not self.batches.trivial:
            raise PrivacyError(
                "readings of one batch that move together need pure noise (delta = 0): a delta "
                "would grow with e^epsilon; leave delta or batches out"
            )

    def _check_mechanism(self) -> None:
        """One mechanism, of a public scale, the same for all."""
        if self.mechanism != self.own_mechanism:
            raise PrivacyError(
                f"a {self.what} has the mechanism {self.own_mechanism}; found "
                f"{_validate.found(self.mechanism)}; leave it out"
            )
        if self.reads_signals:
            raise PrivacyError(
                f"a {self.what} has noise of a public scale, and sensitivity {self.sensitivity} "
                "follows the signal; use sensitivity global"
            )
        if self.budget_fractions is not None:
            raise PrivacyError(
                f"all members of a {self.what} draw the same noise; leave fractions out"
            )


@dataclass(frozen=True)
class MaskedDP(SecureSumDP):
    """Hide each signal in a masked sum: the noise of all honest members together is one Laplace.

    As `SecureSumDP`, against colluding members only, with sessions that may have to be repeated. It goes
    with the algorithms masked-sum and, for streams, masked-learn.

    Parameters
    ----------
    epsilon
        What a query costs, all of its attempts together.
    delta, radius, sensitivity, budget_fractions, batches, unit, horizon, steps
        As for `SecureSumDP`.
    mechanism
        "masked".
    colluders
        c, how many of the other members may collude: somebody must state it, 0 too.
    absent
        d, how many members a roster may lack.
    attempts
        A, sessions per query. A second one needs `absent` to be at least 1, and each has the noise
        of epsilon/A.

    Raises
    ------
    PrivacyError
        If a number is out of range, or a choice does not go with a masked sum.

    Examples
    --------
    >>> from veilsum.algorithms import MaskedSum
    >>> from veilsum.privacy import guarantee_of
    >>> request = MaskedDP(epsilon=1.0, colluders=20, absent=10, attempts=2)
    >>> found = guarantee_of(request, MaskedSum(members=100, hops=4))
    >>> str(found.status), found.epsilon, found.assumes
    ('proved', 1.0, 'computational')
    >>> print(found.adversary)
    whoever sees all messages and up to 20 of the other members together, chosen before the session
    """

    mechanism: str = MASKED
    _: KW_ONLY
    colluders: int = field()
    absent: int = 0
    attempts: int = 1

    own_mechanism: ClassVar[str] = MASKED
    mode: ClassVar[str] = "masked"
    what: ClassVar[str] = "masked sum"

    @property
    def masked(self) -> bool:
        """Yes."""
        return True

    @property
    def sessions(self) -> int:
        """A."""
        return self.attempts

    @property
    def session_cost(self) -> tuple[float, float]:
        """Epsilon and delta of one session, rounded down: A sessions cost no more than was asked."""
        return _part(self.epsilon, self.attempts), _part(self.delta, self.attempts)

    @property
    def query_cost(self) -> tuple[float, float]:
        """Epsilon and delta of one release: of a session."""
        return self.session_cost

    @classmethod
    def like(
        cls,
        local: SignalDP,
        colluders: int | None = None,
        absent: int | None = None,
        attempts: int = 1,
    ) -> Self:
        """A masked sum that guarantees as much as local noise.

        Parameters
        ----------
        local
            A request for noise of global sensitivity.
        colluders, absent, attempts
            As in the request.
        """
        return replace(super().like(local, colluders, absent or 0), attempts=attempts)

    def __post_init__(self) -> None:
        """Check the attempts too."""
        super().__post_init__()
        _validate.at_least(PrivacyError, 0, colluders=self.colluders, absent=self.absent)
        _validate.at_least(PrivacyError, 1, attempts=self.attempts)


@dataclass(frozen=True, init=False)
class NoPrivacy(PrivacyRequest):
    """Guarantee nothing and add no noise: the baseline.

    Examples
    --------
    >>> NoPrivacy().epsilon, NoPrivacy().adds_noise
    (inf, False)
    """

    protects: ClassVar[Protects] = Protects.NOTHING

    @property
    def adds_noise(self) -> bool:
        """No."""
        return False

    def __init__(self) -> None:
        """There is nothing to choose."""
        fixed = {
            "epsilon": math.inf, "delta": 0.0, "radius": 0.0, "sensitivity": GLOBAL,
            "budget_fractions": None, "mechanism": IdentityMechanism.name, "batches": None,
            "unit": Span.EVENT, "horizon": None,
        }  # fmt: skip
        for name, value in fixed.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """Without the fields, which are fixed."""
        return "NoPrivacy()"

    def at(self, epsilon: float) -> Self:  # noqa: ARG002 - there is no other
        """The request itself."""
        return self


def make_request(
    protect: str,
    epsilon: float = math.inf,
    delta: float = 0.0,
    radius: float | None = None,
    sensitivity: str = GLOBAL,
    mechanism: str = "laplace",
    batches: Batches | None = None,
    unit: str = Span.EVENT,
    horizon: int | None = None,
) -> PrivacyRequest:
    """The privacy request that a name stands for, as scenarios and manifests write it.

    Examples
    --------
    >>> make_request("signal", 1.0).epsilon
    1.0
    """
    kinds = {kind.protects.value: kind for kind in (SignalDP, NetworkDP)}
    _validate.one_of(PrivacyError, (*kinds, NoPrivacy.protects.value), protect=protect)
    if protect not in kinds:
        return NoPrivacy()
    return kinds[protect](
        epsilon, delta, radius, sensitivity, mechanism=mechanism, batches=batches, unit=unit,
        horizon=horizon,
    )  # fmt: skip


def _part(whole: float, parts: int) -> float:
    """The largest float of which so many are no more than the whole."""
    found = whole / parts
    return math.nextafter(found, 0.0) if Fraction(found) * parts > Fraction(whole) else found
