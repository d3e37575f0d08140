"""Intervals of the network's mean and of any one agent, and units of errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import veilsum as vs
from veilsum.errors import VeilsumError
from veilsum.results import Result, intervals

RING = vs.networks.metropolis(vs.networks.load("ring:41"))
REPLICAS = 2000
LEAST = 0.95 - 5.2 * math.sqrt(0.95 * 0.05 / REPLICAS)  # false alarm 1e-7 at a coverage of 0.95
MOST = 0.95 + 5.2 * math.sqrt(0.95 * 0.05 / REPLICAS)
FAMILIES: list[tuple[Any, dict[str, Any]]] = [
    (vs.families.Normal(1.0), {"mu": 0.3}),
    (vs.families.Bernoulli(), {"p": 0.3}),
    (vs.families.Exponential(), {"rate": 2.0}),
    (vs.families.LogNormal1p(1.0), {"mu": 0.5}),
]


def run(
    family: Any, parameters: Any, privacy: Any, rounds: int = 3, algorithm: str = "average"
) -> Result:
    return vs.sweep(
        parameters,
        RING,
        family,
        privacy,
        algorithm,
        rounds,
        replicas=REPLICAS,
        record=vs.Record(),
        rng=3,
    ).result


def coverage(bars: list[Any], truth: float) -> float:
    return float(np.mean([(i.low <= truth) & (truth <= i.high) for i in bars]))


@pytest.mark.parametrize(("family", "parameters"), FAMILIES, ids=lambda c: getattr(c, "name", ""))
@pytest.mark.parametrize("privacy", [vs.privacy.NoPrivacy(), vs.privacy.SignalDP(2.0)], ids=str)
def test_the_network_and_its_agents_have_intervals_of_their_own(
    family: Any, parameters: Any, privacy: Any
) -> None:
    """Three rounds of a ring of 41, far from agreement: the one interval covered 100%.

    Two-sided for the network's mean (3% more for noise that is no normal one); an agent's may be
    wider than needed, never narrower than 90% by the average over agents.
    """
    result = run(family, parameters, privacy)
    ((name, truth),) = parameters.items()
    network = [result.intervals(replica=r)[name] for r in range(REPLICAS)]
    assert LEAST - 0.01 < coverage(network, truth) < MOST + 0.03
    assert result.trace.final is not None
    one = [
        intervals.interval_asked(
            result.problem,
            result.trace,
            intervals.Asked(replica=r, of="population", whose="agent"),
            result.trace.final[:, 0, r],
        )[name]
        for r in range(0, REPLICAS, 4)
    ]
    assert coverage(one, truth) > 0.93
    both = result.intervals(whose="agent")[name], result.intervals(whose="network")[name]
    assert both[0].high - both[0].low > both[1].high - both[1].low


def test_agreement_makes_them_one() -> None:
    result = run(*FAMILIES[0], vs.privacy.NoPrivacy(), rounds=3000)
    agent, network = (result.intervals(whose=whose)["mu"] for whose in ("agent", "network"))
    assert agent.low == pytest.approx(network.low, rel=1e-6)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_no_success_is_no_certainty(p: float) -> None:
    """Wilson's interval for 0 of n: up to z^2/(n + z^2). It used to be 0 to 0."""
    signals = np.full(41, p)
    result = vs.estimate(signals, RING, "bernoulli", vs.privacy.NoPrivacy(), rounds=5).result
    found = result.intervals(of="population")["p"]
    z2 = 1.959963984540054**2
    width = z2 / (41 + z2)
    assert (found.low, found.high) == pytest.approx((0, width) if p == 0 else (1 - width, 1))


@pytest.mark.parametrize("mean", [-5.0, 6.0])
@pytest.mark.parametrize("family", [vs.families.Bernoulli(), vs.families.Categorical(3)])
def test_noise_far_out_leaves_a_width(family: Any, mean: float) -> None:
    """An estimate five margins below 0 used to give an interval of no width at 0."""
    d = family.dimension
    m = np.full(d, mean)
    found = family.interval(m, np.eye(d) * 0.01, 0.95)["p"]
    assert (np.asarray(found.high - found.low) > 0.1).all()
    scored = intervals.interval_of(family, m, 0.0, np.full(d, 0.01), 0.95)["p"]
    assert (np.asarray(scored.high - scored.low) > 0.1).all()


def test_what_cannot_be_asked() -> None:
    """A replica out of range used to be an IndexError, and replica = -1 the last one."""
    result = vs.sweep(
        {"mu": 0.0}, RING, vs.families.Normal(1.0), vs.privacy.SignalDP(1.0), rounds=2
    ).result
    for options, message in (
        ({"replica": 5}, "replica 5 was not run; there are 1"),
        ({"replica": -1}, "replica must be a whole number of at least 0"),
        ({"replica": 0.5}, "replica must be a whole number"),
        ({"epsilon": "x"}, "epsilon must be a finite number above 0"),
        ({"epsilon": 3.0}, "epsilon 3.0 was not run"),
        ({"confidence": "x"}, "confidence must lie strictly between 0 and 1"),
        ({"confidence": 1.0}, "confidence must lie strictly between 0 and 1"),
        ({"of": "everyone"}, "of must be one of readings, population"),
        ({"whose": "everyone"}, "whose must be one of network, agent"),
        ({"correlation": 0.5}, "correlation must be a number of at least 1"),
        ({"of": "readings", "correlation": 2.0}, "correlation is of readings that are drawn"),
    ):
        with pytest.raises(VeilsumError, match=message):
            result.intervals(**options)


def test_errors_per_agent_are_norms_over_root_n() -> None:
    """`run` published norms over agents and `plan` errors of one agent, under one name."""
    result = vs.sweep(
        {"mu": 0.0}, RING, vs.families.Normal(1.0), vs.privacy.SignalDP(1.0), rounds=4,
        epsilons=[0.5, 1.0], replicas=3,
    ).result  # fmt: skip
    for norm, own in zip(result.errors, result.errors_per_agent, strict=True):
        assert np.allclose(own * math.sqrt(41), norm)
