"""The terms of a manifest that follow from a problem: units, bounds, batches, and the masked sum's.

Everything here is computed from what is public: the network, the family with its bounds and the
privacy request. No signal is looked at.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from veilsum.errors import AgentError
from veilsum.networks.hops import diameter
from veilsum.networks.kernels import depths, either_way
from veilsum.networks.rows import coordinates, first_rows
from veilsum.privacy import Batches, MaskedDP, PrivacyRequest, plan
from veilsum.privacy.planning import SCALAR_STEPS, VECTOR_STEPS
from veilsum.simulation import Problem

FINER = 24  # a unit is this many bits below the grid of the finest release
TAIL = 700.0  # scales beyond which a release lies with probability e^-700
GRID = 40  # bits between a release's scale and its grid
WITHOUT_NOISE = 40  # bits below 1 where nothing sets a scale
DAY = 86_400.0  # seconds
KEY = re.compile(r"[0-9a-f]{64}")  # an Ed25519 key
NONCE = re.compile(r"[0-9a-f]{32}")  # 128 bits

WeightedLink = tuple[str, str, float]  # (from, to, weight)


class Numbers(NamedTuple):
    """The unit of a network's numbers, and the largest one.

    Attributes
    ----------
    unit : int
        Numbers are in units of 2^-unit.
    largest : float
        No release, or statistic of a masked sum, is larger; inf if unknown.
    """

    unit: int
    largest: float

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """From the scales of the noise and the public bounds."""
        if problem.algorithm.masked and not problem.privacy.adds_noise:
            raise AgentError(
                f"algorithm {problem.algorithm.name} without privacy shows the sum as it is; real "
                'agents run it with [privacy] protect = "signal" and mode = "masked"'
            )
        least, most = _scales(problem)
        bits = WITHOUT_NOISE if least == 0 else GRID - math.floor(math.log2(least)) + 1
        return cls(bits + FINER, _largest(problem, most))


class MaskedNumbers(NamedTuple):
    """What a masked sum adds to a manifest.

    Attributes
    ----------
    colluders, absent, attempts, steps : int
        c, d, A, and the grid steps of the sensitivity, all resolved.
    """

    colluders: int = 0
    absent: int = 0
    attempts: int = 0
    steps: int = 0

    @classmethod
    def of(
        cls, asked: PrivacyRequest, problem: Problem, batches: Batches
    ) -> tuple[Self, Numbers | None]:
        """Resolve the request, and check everything that does not depend on keys.

        Parameters
        ----------
        asked : PrivacyRequest
            At the epsilon that is run.
        problem : Problem
            Of which network, algorithm and family count.
        batches : Batches
            As the manifest has them.

        Returns
        -------
        (MaskedNumbers, Numbers or None)
            Zeros and None where nothing is masked.

        Raises
        ------
        VeilsumError
            If there are too few members, the sum has no room, or the algorithm does not fit.
        """
        if not isinstance(asked, MaskedDP):
            return cls(), None
        family, algorithm = problem.family, problem.algorithm
        plan(asked, family, algorithm, problem.network, max(problem.rounds, 1))
        _check_simulated(problem)
        ends = np.abs(np.array(family.moves(math.inf).range))
        if not np.isfinite(ends).all():
            raise AgentError(
                f"the statistic of {family.name} has no public bounds, and a masked sum must have "
                "room for all of them in 64 bits; give the family bounds=(low, high)"
            )
        in_batches = replace(asked, batches=None if batches.trivial else batches)
        made = plan(in_batches, family, members=problem.network.size).mechanism()
        steps = asked.steps or (SCALAR_STEPS if family.dimension == 1 else VECTOR_STEPS)
        unit = max(0, -math.frexp(made.step)[1] + 1)
        numbers = cls(asked.colluders, asked.absent, made.terms.attempts, steps)
        return numbers, Numbers(unit, float(ends.max()))


def _check_simulated(problem: Problem) -> None:
    """Refuse options that describe a simulated session: of a real one, agents find out."""
    session: Any = problem.algorithm.session
    known = getattr(problem.network, "diameter", session.hops)
    usual = {"missing": 0, "restarts": 0, "delay": 0, "hops": max(known, 1)}
    for name, value in usual.items():
        found = getattr(session, name, value)
        if found != value:
            raise AgentError(
                f"{name} = {found} describes a simulated session; real agents find out by "
                f"themselves, so leave {name} out of [algorithm]"
            )


def batches_of(asked: Batches, every: float, rounds: int, masked: bool) -> Batches:
    """The batches of a network: the longest is a day where a schedule says what that is.

    Parameters
    ----------
    asked : Batches
        By the scenario.
    every : float
        Seconds of a slot; 0 without a schedule.
    rounds : int
        Readings of each agent at most; 0: no end.
    masked : bool
        Whether sums must fit a modulus, so that a batch has a longest one.
    """
    if asked.trivial or asked.longest:
        return asked
    if every > DAY / 2:
        raise AgentError(
            f"a longest batch of a day is less than two readings every {every:g} s; say how many "
            "readings a batch may wait for: batches = {growth = 2.0, longest = 4}"
        )
    if every:
        return Batches(asked.growth, int(DAY // every))
    if masked and rounds < 2:
        raise AgentError(
            "a masked sum has room for batches up to a longest one only; say how many readings a "
            "batch may wait for: batches = {growth = 2.0, longest = 24}"
        )
    return Batches(asked.growth, rounds) if masked else asked


def links_of(network: Any, labels: list[str]) -> list[WeightedLink]:
    """(from, to, weight): agent j pushes a_ij of its mass to i."""
    rows, columns, weights = coordinates(first_rows(network))
    return sorted(
        (labels[j], labels[i], a)
        for i, j, a in zip(rows.tolist(), columns.tolist(), weights.tolist(), strict=True)
        if i != j and a > 0
    )


def hops_of(network: Any) -> int:
    """The diameter, with links taken as undirected; an upper bound above 2,000 agents."""
    links = either_way(first_rows(network))
    return diameter(links)[1] if network.size <= 2000 else 2 * int(depths(links).max())


def mechanism_of(privacy: PrivacyRequest, family: Any) -> str:
    """The name of the mechanism: Laplace noise has one name whatever its sensitivity."""
    if privacy.masked or privacy.reads_signals:
        return privacy.mechanism
    return plan(privacy, family).name


def check_pins(labels: tuple[str, ...], nonce: str, signing_keys: tuple[str, ...]) -> None:
    """Raise unless nonce and keys are what a masked sum needs; both may be missing until a run.

    Parameters
    ----------
    labels : tuple of str
        Of all members.
    nonce : str
        32 hexadecimal digits, or empty.
    signing_keys : tuple of str
        64 hexadecimal digits for each member, or none at all.

    Raises
    ------
    AgentError
        If one is malformed, missing or repeated.
    """
    if nonce and not NONCE.fullmatch(nonce):
        raise AgentError(
            "nonce must have 32 hexadecimal digits in lower case, such as `openssl rand -hex 16` "
            f"prints; found {len(nonce)} characters"
        )
    if not signing_keys:
        return
    if len(signing_keys) != len(labels):
        raise AgentError(
            f"signing_keys must have one key for each of the {len(labels)} members; found "
            f"{len(signing_keys)}"
        )
    owner: dict[str, str] = {}
    for label, key in zip(labels, signing_keys, strict=True):
        if not KEY.fullmatch(key):
            raise AgentError(
                f"the signing key of {label} must have 64 hexadecimal digits in lower case, as "
                f"`veilsum keys request` prints them; found {len(key)} characters"
            )
        if owner.setdefault(key, label) != label:
            raise AgentError(
                f"{owner[key]} and {label} have the same signing key; each makes its own with "
                "`veilsum keys request`"
            )


def _scales(problem: Problem) -> tuple[float, float]:
    """The least and largest scale of any release, 0 without noise; computed for a signal of 1."""
    last = max(problem.rounds, 1)
    noise = plan(problem.privacy, problem.family, problem.algorithm, problem.network, last)
    if not problem.privacy.adds_noise:
        return 0.0, 0.0
    signals, epsilon = np.ones((problem.network.size, 1)), problem.run_epsilons[0]
    rounds = (1, last) if problem.algorithm.online else (0,)
    scales = np.array([noise.scale(signals, epsilon, t) for t in rounds])
    tail = noise.sensitivity / epsilon if noise.perturbs_input else 0.0
    return float(scales.min()), max(float(scales.max()), tail)


def _largest(problem: Problem, scale: float) -> float:
    """max |xi| over the bounds, plus a negligible tail of noise; inf without bounds."""
    family = problem.family
    ends = np.array([family.support.low, family.support.high], dtype=np.float64)
    if family.signal_shape or not np.isfinite(ends).all():
        return math.inf
    return float(np.max(np.abs(family.columns(ends)))) + TAIL * scale
