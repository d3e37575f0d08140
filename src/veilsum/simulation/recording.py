"""What a run records, and the trace that it returns: plain arrays, from which reports are made."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veilsum import _validate
from veilsum._types import Floats
from veilsum.errors import VeilsumError


@dataclass(frozen=True)
class Record:
    """Which estimates a run records: memory follows this choice.

    Error norms are recorded for every round in any case. `Record()` records the final estimates of
    all agents.

    Parameters
    ----------
    every
        Record rounds 0, every, 2 every, ... and the last one; None records the last one alone.
    agents
        The labels of the agents to record; None records all of them.
    estimates
        False records error norms alone.

    Raises
    ------
    VeilsumError
        If `every` is below 1 or `agents` is empty.

    Examples
    --------
    >>> Record(every=10).rounds(25)
    [0, 10, 20, 25]
    >>> Record(agents=["b", "a"]).rows(["a", "b", "c"])
    [1, 0]
    >>> Record(estimates=False).rounds(25)
    []
    """

    every: int | None = None
    agents: Sequence[Hashable] | None = None
    estimates: bool = True

    def __post_init__(self) -> None:
        """Check the stride and the agents."""
        if self.every is not None:
            _validate.at_least(VeilsumError, 1, every=self.every)
        if self.agents is not None and len(self.agents) == 0:
            raise VeilsumError(
                "record has an empty list of agents; leave it out for all of them, or use "
                "estimates=False for none"
            )

    def rounds(self, last: int) -> list[int]:
        """The rounds whose estimates are recorded."""
        if not self.estimates:
            return []
        recorded = range(0, last + 1, self.every) if self.every else range(0)
        return sorted({*recorded, last})

    def rows(self, labels: Sequence[Hashable]) -> list[int] | slice:
        """The rows of the agents that are recorded; for labels 0 .. n-1 no table of them is made."""
        if self.agents is None:
            return slice(None)
        if isinstance(labels, range):
            numbers = [int(a) for a in self.agents if isinstance(a, int | np.integer)]
            if len(numbers) == len(self.agents) and all(a in labels for a in numbers):
                return [labels.index(a) for a in numbers]
        place = {label: i for i, label in enumerate(labels)}
        unknown = [label for label in self.agents if label not in place]
        if unknown:
            raise VeilsumError(
                f"record names agents that the network does not have: {unknown[:5]}; "
                "use the labels of the network's agents"
            )
        return [place[label] for label in self.agents]


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """What a run returns: arrays with the axes given below.

    Errors are norms over agents and components, for every round from 0 on. On several ranks the
    recorded estimates are in the trace of rank 0 alone.

    Attributes
    ----------
    total
        ||nu - m||, (round, epsilon, replica).
    privacy
        ||nu - mu||, mu the noiseless run with the same signals, (round, epsilon, replica).
    decentralisation
        ||mu - m||, (round, replica or 1).
    target
        m, (replica or 1, component).
    recorded_rounds
        The rounds of `private` and `noiseless`.
    rows
        The rows of the agents in `private` and `noiseless`.
    private
        Recorded estimates, (recorded round, agent, epsilon, replica, component), or None.
    noiseless
        The same without noise, (recorded round, agent, replica or 1, component), or None.
    final
        Final estimates of all agents, (agent, epsilon or 1, replica, component), or None.
    mean
        Mean of the final estimates, (epsilon, replica, component); of noiseless ones without privacy.
    disagreement
        Their variance over agents, same axes.
    noise_variance
        Variance of their mean that comes from the noise, computed from its scales, same axes.
    statistic_gain
        Variance of the mean estimate per variance of the statistic.

    Examples
    --------
    >>> import veilsum as vs
    >>> family = vs.families.Normal(sigma=1.0)
    >>> trace = vs.sweep({"mu": 2.0}, "ring:9", family, vs.privacy.SignalDP(1.0),
    ...                  rounds=20, epsilons=[0.5, 1.0], replicas=3).result.trace
    >>> trace.total.shape, trace.decentralisation.shape, trace.mean.shape
    ((21, 2, 3), (21, 3), (2, 3, 1))
    """

    total: Floats
    privacy: Floats
    decentralisation: Floats
    target: Floats
    recorded_rounds: list[int]
    rows: list[int] | slice
    private: Floats | None
    noiseless: Floats | None
    final: Floats | None
    mean: Floats
    disagreement: Floats
    noise_variance: Floats
    statistic_gain: float


def join(traces: Sequence[Trace]) -> Trace:
    """The trace of a problem with the epsilons of all traces, in their order."""
    if len(traces) == 1:
        return traces[0]

    def beside(name: str, axis: int) -> Any:
        arrays = [getattr(trace, name) for trace in traces]
        return None if arrays[0] is None else np.concatenate(arrays, axis=axis)

    axes = {
        "total": 1, "privacy": 1, "private": 2, "final": 1, "mean": 0, "disagreement": 0,
        "noise_variance": 0,
    }  # fmt: skip
    return replace(traces[0], **{name: beside(name, axis) for name, axis in axes.items()})
