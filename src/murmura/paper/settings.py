"""The settings of the experiments: where they run, and one run of a law there."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from murmura.engine import Record
from murmura.errors import DivergenceWarning, LimitWarning, PrivacyWarning
from murmura.laws.base import Sensitivities
from murmura.laws.first_order import FirstOrder, FirstOrderOnline
from murmura.paper.entry import Context

EPSILONS = tuple(float(e) for e in np.geomspace(0.125, 4.0, 6))
DELTA = 0.01
QUICK_ROUNDS, QUICK_REPLICAS = 20, 2

US, HOUSEHOLDS, DAILY, HOURLY = "us-grid", "households", "swiss-daily", "swiss-hourly"
PRINTED, GLOBAL = "smooth-printed", "global"


@dataclass(frozen=True)
class Place:
    """A network and what its agents measure there; `rounds` is the paper's T."""

    title: str
    sigma: float
    rounds: int
    mu: float | None = None  # None: real readings
    floor: float | None = None  # public lower bound: below it no signal can be


PLACES = {
    US: Place("US power grid", sigma=1.0, rounds=100, mu=10.0, floor=100.0),
    # The authors' code fits log(1 + kWh) and then draws log s from the normal law: 5.4% of its
    # signals are below 1 (erratum 7). The floor holds only where a run is `bounded`.
    HOUSEHOLDS: Place(
        "households, as in the authors' code", sigma=1.04, rounds=1096, mu=1.67, floor=1.0
    ),
    DAILY: Place("537 Swiss households, daily", sigma=1.04, rounds=49, floor=1.0),
    HOURLY: Place("537 Swiss households, hourly", sigma=1.04, rounds=1176, floor=1.0),
}


@dataclass(frozen=True)
class Run:
    """One law somewhere: everything that decides its numbers, but the seed."""

    name: str
    place: str
    law: str
    protects: str = "signal"
    epsilons: tuple[float, ...] = EPSILONS
    sensitivity: str = PRINTED
    family: str = "log-normal"
    rounds: int = 0  # 0: the place's
    replicas: int = 10
    bounded: bool = False  # with the place's public floor

    def sketch(self, quick: bool) -> Run:
        """The same, or a short version of it for a quick look."""
        rounds = self.rounds or PLACES[self.place].rounds
        if not quick:
            return replace(self, rounds=rounds)
        few, short = min(self.replicas, QUICK_REPLICAS), min(rounds, QUICK_ROUNDS)
        return replace(self, rounds=short, replicas=few)


@cache
def network(place: str) -> Any:
    """Metropolis weights on the place's graph."""
    from murmura.network import load, metropolis, random_geometric

    if place == US:
        return metropolis(load("us-power-grid"))
    size = 969 if place == HOUSEHOLDS else 537
    return metropolis(random_geometric(size, 0.1, seed=0))


def family(run: Run) -> Any:
    """xi = log s as in the paper, with a public floor, or log(1 + s)."""
    from murmura.families import LogNormal, LogNormal1p

    place = PLACES[run.place]
    if run.family == "log-normal-1p":
        return LogNormal1p(sigma=place.sigma)
    return LogNormal(sigma=place.sigma, bounds=(place.floor, None) if run.bounded else None)


def want(run: Run) -> Any:
    """The protection of a run, at its first epsilon."""
    from murmura.privacy import NetworkDP, NoPrivacy, SignalDP

    if run.protects == "nothing":
        return NoPrivacy()
    kind = NetworkDP if run.protects == "network" else SignalDP
    delta = DELTA if run.sensitivity == PRINTED else 0.0
    return kind(epsilon=run.epsilons[0], delta=delta, sensitivity=run.sensitivity)


def signals(run: Run) -> Any:
    """Parameters to draw from, or the real readings: kWh for log(1 + s), 1 + kWh for log s."""
    if PLACES[run.place].mu is not None:
        return {"mu": PLACES[run.place].mu}
    from murmura.paper import data
    from murmura.signals import as_signals

    found = data.readings(run.place)
    return found if run.family == "log-normal-1p" else as_signals(1 + found.values)


def law(run: Run) -> Any:
    """A name, or the first-order method with the noise of the authors' code."""
    coded = {c.name: c for c in (FirstOrderAsCoded, FirstOrderOnlineAsCoded)}
    return coded[run.law](rounds=run.rounds) if run.law in coded else run.law


def perform(run: Run, context: Context, record: Record | None = None, where: Any = None) -> Any:
    """Run it; that the paper's promises are not proved is known here and said in the verdicts."""
    from murmura.api import sweep

    run = run.sketch(context.quick)
    context.tell(run.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", DivergenceWarning)
        warnings.simplefilter("ignore", LimitWarning)  # the first day of many, as the paper has it
        return sweep(
            signals(run), where or network(run.place), family(run), want(run), law(run),
            run.rounds, epsilons=run.epsilons, replicas=run.replicas, rng=context.seed,
            record=record or Record(estimates=False), name=run.name,
        )  # fmt: skip


@dataclass(frozen=True)
class FirstOrderAsCoded(FirstOrder):
    """First-order with the smooth sensitivity of the share eps/T of a round, as the authors' code.

    S is in proportion to 1/eps, so d_t is T times larger than with S at the whole budget, which
    is how murmura reads App. B: Lap(eta T S(eps/T)/eps) = Lap(eta T^2 S(eps)/eps).
    """

    rounds: int = 1

    name = "first-order-as-coded"

    def sensitivities(self, t: int) -> Sensitivities:  # noqa: ARG002 - the same in every round
        """max(max_j a_ij, eta S(eps/T)) in units of S(eps)."""
        return Sensitivities(signal=self.eta * self.rounds, network=1.0)


@dataclass(frozen=True)
class FirstOrderOnlineAsCoded(FirstOrderOnline):
    """The same noise on a stream (the authors' code plots the offline method there)."""

    rounds: int = 1

    name = "first-order-online-as-coded"

    def sensitivities(self, t: int) -> Sensitivities:  # noqa: ARG002 - the same in every round
        """max(max_j a_ij, eta S(eps/T)) in units of S(eps)."""
        return Sensitivities(signal=self.eta * self.rounds, network=1.0)
