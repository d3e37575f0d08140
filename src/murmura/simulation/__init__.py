"""The simulator: it runs a `Problem` and returns a `Trace`; `simulation.mpi` does so on many ranks."""

from __future__ import annotations

from murmura._types import SignalSource
from murmura.simulation.clipped import clipped_gossip, clipping_bound
from murmura.simulation.problem import Problem
from murmura.simulation.recording import Record, Trace
from murmura.simulation.runner import simulate
from murmura.simulation.sources import RecordedSignals, SyntheticSignals

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
