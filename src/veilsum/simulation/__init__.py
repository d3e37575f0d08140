"""The simulator: it runs a `Problem` and returns a `Trace`; `simulation.mpi` does so on many ranks."""

from __future__ import annotations

from veilsum._types import SignalSource
from veilsum.simulation.clipped import clipped_gossip, clipping_bound
from veilsum.simulation.problem import Problem
from veilsum.simulation.recording import Record, Trace
from veilsum.simulation.runner import simulate
from veilsum.simulation.sources import RecordedSignals, SyntheticSignals

__all__ = [
    "Problem",
    "Record",
    "RecordedSignals",
    "SignalSource",
    "SyntheticSignals",
    "Trace",
    "clipped_gossip",
    "clipping_bound",
    "simulate",
]
