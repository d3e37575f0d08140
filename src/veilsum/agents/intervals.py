"""How far an agent's estimate is from the mean of the readings that it covers: public numbers only.

    estimate - mean = sum_k p_k d_k  +  sum_k (p_k - 1/N) xi_k
                      noise             mixing

p_k are the weights of the releases (`mixing`), d_k is the noise of the manifest's mechanism
(`privacy.noise_quantile`), N is the number of readings covered. Readings within public bounds make the second
part at most (high - low)/2 sum_k |p_k - 1/N|. Without bounds, readings of one distribution with a
known variance give it a standard deviation. The interval is that "of the mean of these readings",
or, if some members have none in it, "of the mean of the readings present" (`theory.noise.interval_name`), as
in simulated results. It says nothing about a population that members may be
drawn from: that error is `sampling`, apart from it, where all readings of a member count as one.

An estimate from masked sums is a sum over rosters, the same everywhere: there is no mixing, and all
noise together is that of as many draws as the rosters have members (`privacy.laws`). Rounding
to the grid adds half a step.

In clipped rounds (`Manifest.clip`) the mean of all members' estimates is that of their releases, p_k =
1/N, and how far one member is from it follows from no public number. Where all stopped because they
agree (`tolerance`), it is at most the tolerance, which takes the place of mixing. Otherwise there is
no interval: its half width is infinite. A member that lies moves the mean besides, by at most
`LinkFlows.influence`, and no interval contains that.

Results, status, metrics and the checks before a start ask `interval`. A plan has no manifest yet:
`theory.precision` asks the same of masked sums, and approximates local noise with a normal quantile,
which is too narrow for few releases (by 8% for one Laplace draw).
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from veilsum import _validate
from veilsum.agents.manifest import Manifest
from veilsum.agents.mixing import ReleaseWeights, release_weights
from veilsum.agents.release.guarantees import AgentNeighbourhood, request_of
from veilsum.errors import AgentError
from veilsum.families.base import quantile
from veilsum.privacy import Batches, MaskedDP, Plan, plan
from veilsum.privacy.noise_quantile import noise_quantile
from veilsum.theory.accuracy import CONFIDENCE, MOST_AGENTS

MOST_READINGS = 10**8  # of a member, and rounds: beyond, an interval is not computed

Floats = NDArray[np.float64]
Numbers = tuple[float, ...]


class ResultInterval(NamedTuple):
    """The half widths of an interval around an estimate, by component.

    Parameters
    ----------
    half_width : tuple of float
        Noise and mixing together, never more than the public bounds allow; infinite if unknown.
        Each component by itself has the stated confidence.
    noise, mixing : tuple of float
        The two parts.
    sampling : tuple of float or None
        Half widths of what members add that are drawn from a population whose readings have a known
        variance, for its mean instead of that of these readings; None where it is not known.
    confidence : float
        The probability with which an interval covers the mean of the readings.
    """

    half_width: Numbers
    noise: Numbers
    mixing: Numbers
    sampling: Numbers | None
    confidence: float


def half_width(
    manifest: Manifest, family: Any, counts: Sequence[int] | None = None, **terms: Any
) -> Numbers:
    """The half width of the interval around an estimate, by component.

    Parameters
    ----------
    manifest, family, counts, **terms
        As for `interval`.

    Returns
    -------
    tuple of float
        `ResultInterval.half_width`.

    Examples
    --------
    >>> from veilsum.agents import Manifest
    >>> from veilsum.scenario import Scenario
    >>> problem = Scenario.parse('''
    ... network = {graph = "complete:3", weights = "lazy-metropolis"}
    ... family = {name = "normal", sigma = 1.0, bounds = [0.0, 100.0]}
    ... signals = {draw = {mu = 50.0}}
    ... privacy = {protect = "signal", epsilon = 1.0, radius = 1.0}
    ... algorithm = {name = "average", rounds = 60}
    ... ''').build().problem
    >>> [round(width, 2) for width in half_width(Manifest.of(problem), problem.family)]
    [1.66]
    """
    return interval(manifest, family, counts, **terms).half_width


def interval(
    manifest: Manifest,
    family: Any,
    counts: Sequence[int] | None = None,
    *,
    label: str | None = None,
    round: int | None = None,
    present: Container[str] | None = None,
    dropped: Iterable[tuple[str, str]] = (),
    draws: int = 0,
    estimate: Sequence[float] = (),
    confidence: float = CONFIDENCE,
    mixed: int | None = None,
    agreed: bool = False,
) -> ResultInterval:
    """The interval around an estimate, from the terms and the coverage alone.

    Parameters
    ----------
    manifest : Manifest
        The terms of the network.
    family : Family
        Of the readings.
    counts : sequence of int, optional
        For each member, how many of its readings are in; all of them by default. A round holds
        no more than `most_readings`.
    label : str, optional
        Whose estimate; by default the worst of some agents.
    round : int, optional
        Of which round; the last by default.
    present : container of str, optional
        Members that take part; all by default.
    dropped : iterable of (str, str), optional
        Links over which nothing was exchanged; none by default.
    draws : int
        Members of all rosters of masked sums together; by default all members, in every query.
    estimate : sequence of float, optional
        Where the variance of readings depends on their mean, the one to take.
    confidence : float
        Of each component.
    mixed : int, optional
        Rounds since mixing was last rolled back; by default it never was.
    agreed : bool
        Whether all members stopped because they agree within the tolerance: in clipped rounds
        there is no interval otherwise.

    Returns
    -------
    ResultInterval
        Infinite where there is no reading, or no interval.

    Raises
    ------
    AgentError
        If the counts do not fit the members or the round, the family is not the manifest's, a
        number is not in its range, or no round is given and none is the last.

    Examples
    --------
    >>> from veilsum.agents import Manifest
    >>> from veilsum.scenario import Scenario
    >>> problem = Scenario.parse('''
    ... network = {graph = "ring:4", weights = "lazy-metropolis"}
    ... family = {name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}
    ... signals = {draw = {mu = 0.5}}
    ... privacy = {protect = "signal", epsilon = 1.0}
    ... algorithm = {name = "average", rounds = 5}
    ... ''').build().problem
    >>> found = interval(Manifest.of(problem), problem.family)
    >>> found.half_width, round(found.mixing[0], 3)  # no further apart than the bounds
    ((1.0,), 0.016)
    """
    _check_terms(manifest, family)
    last = manifest.rounds if round is None else round
    _validate.at_least(AgentError, 0, round=last)
    _validate.at_most(AgentError, MOST_READINGS, round=last)
    if last == 0 and manifest.made_algorithm.online and counts is None:
        raise AgentError(
            "an interval needs a round where the manifest names no last one: give round and counts"
        )
    if not 0 < _validate.as_float(confidence) < 1:
        raise AgentError(
            "confidence must be a number above 0 and below 1, such as 0.95; found "
            f"{_validate.found(confidence)}"
        )
    if mixed is not None:
        _validate.at_least(AgentError, 0, mixed=mixed)
    members = [member for member, _ in manifest.members]
    given = (_readings_of(manifest, last),) * len(members)
    if counts is not None:
        given = _checked_counts(manifest, counts, last)
    if present is not None and not isinstance(present, Container):
        raise AgentError(
            f"present must be a collection of labels; found {_validate.found(present)}"
        )
    taking = None if present is None else tuple(m for m in members if m in present)
    near = checked_estimate(family, estimate)
    if manifest.masked:
        queries = manifest.queries if round is None else max(round, 1)
        in_all = draws or len(members) * queries
        return _of_sums(manifest, family, given, in_all, near, float(confidence))
    chosen = members[:: max(len(members) // MOST_AGENTS, 1)] if label is None else [label]
    found = [
        _interval(
            manifest,
            family,
            given,
            each,
            last,
            taking,
            tuple(dropped),
            near,
            float(confidence),
            mixed,
            bool(agreed),
        )
        for each in chosen
    ]
    return max(found, key=lambda each: each.half_width)


def most_readings(manifest: Manifest, round: int) -> int:
    """How many readings of one member can be in an estimate of a round.

    Agents without common rounds count their own ticks: of another's readings any number may be in.

    Parameters
    ----------
    manifest : Manifest
        The terms.
    round : int
        The round of the estimate.
    """
    online = manifest.made_algorithm.online
    if online and (manifest.asynchronous or manifest.masked):  # there a round is a query
        return MOST_READINGS
    return max(_readings_of(manifest, min(round, MOST_READINGS)), 1)


def _readings_of(manifest: Manifest, round: int) -> int:
    """The readings that a member has released up to a round, if it missed none."""
    if not manifest.made_algorithm.online:
        return 1
    return Batches(manifest.batch_growth, manifest.longest_batch).released(round)


def _check_terms(manifest: Any, family: Any) -> None:
    if not isinstance(manifest, Manifest):
        raise AgentError(f"an interval needs a Manifest; found {_validate.found(manifest)}")
    if repr(family) != manifest.family:
        raise AgentError(
            f"the manifest is for the family {manifest.family}; found {family!r}; give the family "
            "of the network"
        )


def _checked_counts(manifest: Manifest, counts: Any, round: int) -> tuple[int, ...]:
    if isinstance(counts, str | bytes) or not isinstance(counts, Iterable):
        raise AgentError(
            f"counts must be one whole number for each member; found {_validate.found(counts)}"
        )
    given = tuple(counts)
    most = most_readings(manifest, round)
    for count in given:
        _validate.at_least(AgentError, 0, counts=count)
        if count > most:
            raise AgentError(
                f"at most {most} readings of a member are in an estimate of round {round}; found "
                f"{_validate.found(count)}; give the round of these counts, or fewer"
            )
    return tuple(map(int, given))


def checked_estimate(family: Any, estimate: Any) -> Numbers:
    """An estimate as numbers: one for each component of the statistic, or none."""
    found = _validate.real_array(AgentError, estimate=estimate)
    if found.shape not in ((0,), (family.dimension,)):
        raise AgentError(
            f"estimate must be {family.dimension} numbers, one for each component of "
            f"{family.name}, or none; found an array of shape {found.shape}"
        )
    return tuple(found.tolist())


@lru_cache(maxsize=64)
def _interval(
    manifest: Manifest,
    family: Any,
    counts: tuple[int, ...],
    label: str,
    round: int,
    present: tuple[str, ...] | None,
    dropped: tuple[tuple[str, str], ...],
    estimate: Numbers,
    confidence: float,
    mixed: int | None,
    agreed: bool,
) -> ResultInterval:
    size = manifest.dimension
    weights = release_weights(manifest, label, counts, round, present, dropped, mixed)
    low, high = family.moves(math.inf).range
    apart = manifest.tolerance if agreed and manifest.tolerance else math.inf
    if not len(weights.weight) or (manifest.clip and math.isinf(apart)):
        unknown = (math.inf,) * size
        return ResultInterval(unknown, unknown, unknown, None, confidence)
    if manifest.clip:
        weights = weights._replace(undone=0.0)
    elif math.isinf(weights.undone):
        unknown, widths = (math.inf,) * size, tuple((np.asarray(high) - np.asarray(low)).tolist())
        return ResultInterval(widths, unknown, unknown, None, confidence)
    variance = _variance(family, estimate)
    scales, mechanism = _noise(manifest, family, weights)
    parts = []
    for k in range(size):
        width, spread = float(high[k] - low[k]), 0.0
        mixing = width * weights.unevenness if math.isfinite(width) else 0.0
        if not math.isfinite(width):
            spread = math.inf if variance is None else variance[k] * weights.deviation
        noise = noise_quantile(
            mechanism if scales is None else scales,
            weights.largest,
            weights.releases,
            confidence,
            0.0 if math.isinf(spread) else spread,
        )
        mixing = math.inf if math.isinf(spread) and weights.unevenness > 0 else mixing
        mixing = apart if manifest.clip else mixing
        parts.append((min(noise + mixing, width), noise, mixing))
    z = quantile(confidence)
    sampling = (
        None
        if variance is None
        else tuple(z * math.sqrt(v * weights.squares_of_members) for v in variance)
    )
    whole, noises, mixings = (tuple(column) for column in zip(*parts, strict=True))
    return ResultInterval(whole, noises, mixings, sampling, confidence)


@lru_cache(maxsize=64)
def _of_sums(
    manifest: Manifest,
    family: Any,
    counts: tuple[int, ...],
    draws: int,
    estimate: Numbers,
    confidence: float,
) -> ResultInterval:
    """Of an estimate from masked sums: noise of all draws, and half a step of rounding."""
    request, size = request_of(manifest), manifest.dimension
    assert isinstance(request, MaskedDP)
    made, total = plan(request, family, members=len(manifest.members)).mechanism(), sum(counts)
    if not total:
        unknown = (math.inf,) * size
        return ResultInterval(unknown, unknown, (0.0,) * size, None, confidence)
    noise = made.half_width(draws, total, confidence)
    low, high = family.moves(math.inf).range
    widths = tuple(min(noise, float(top - end)) for end, top in zip(low, high, strict=True))
    z, variance = quantile(confidence), _variance(family, estimate)
    squares = sum(count**2 for count in counts) / total**2  # readings of a member are worth one
    sampling = None if variance is None else tuple(z * math.sqrt(v * squares) for v in variance)
    return ResultInterval(widths, (noise,) * size, (0.0,) * size, sampling, confidence)


def project(family: Any, estimate: Sequence[float]) -> Numbers:
    """The point within the public bounds that is nearest: no further from the mean of the readings.

    Parameters
    ----------
    family : Family
        Of the readings.
    estimate : sequence of float
        One number for each component, or none.

    Returns
    -------
    tuple of float
        Computed from what was released, so that it costs no privacy.

    Raises
    ------
    AgentError
        If there is another number of components, or one is not finite.

    Examples
    --------
    >>> from veilsum import families
    >>> project(families.Normal(1.0, bounds=(0.0, 100.0)), [146.0])
    (100.0,)
    """
    given = checked_estimate(family, estimate)
    if not given:
        return ()
    if not all(map(math.isfinite, given)):
        raise AgentError("estimate must be finite numbers; without one there is nothing to project")
    low, high = family.moves(math.inf).range
    return tuple(float(x) for x in np.clip(given, low, high))


def _variance(family: Any, estimate: Numbers) -> Numbers | None:
    """Var xi by component, where the family knows it or it follows from the estimate."""
    known = family.variance_in_mean
    if known is None:
        return None
    a, b, c = known
    if b == c == 0:
        return (float(a),) * int(family.dimension)
    if not estimate:
        return None
    means = project(family, estimate)
    return tuple(max(a + b * m + c * m * m, 0.0) for m in means)


def _noise(manifest: Manifest, family: Any, weights: ReleaseWeights) -> tuple[Any, Any]:
    """The scales of Laplace noise by release, or the one mechanism of all."""
    if not manifest.adds_noise:
        return None, None
    labels = [member for member, _ in manifest.members]
    if not manifest.hides_neighbours:
        return None, _plan(manifest, family, labels[0]).mechanism(
            manifest.epsilon, int(weights.round.max()), released=True
        )
    scales = np.empty(len(weights.weight))
    for k, (place, t) in enumerate(zip(weights.member, weights.round, strict=True)):
        made: Any = _plan(manifest, family, labels[place]).mechanism(
            manifest.epsilon, int(t), released=True
        )
        scales[k] = made.release_scale
    return scales, None


@lru_cache(maxsize=512)
def _plan(manifest: Manifest, family: Any, label: str) -> Plan:
    neighbourhood = AgentNeighbourhood.of(manifest, label)
    request = request_of(manifest)
    rounds = max(manifest.rounds, 1)
    return plan(request, family, manifest.made_algorithm, neighbourhood, rounds)
