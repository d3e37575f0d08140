"""Engines run a law over a network; the simulator is the one that is always there."""

from __future__ import annotations

from murmura.engine.problem import Problem
from murmura.engine.record import Record
from murmura.engine.simulate import simulate
from murmura.engine.source import Drawn, Observed, Source
from murmura.engine.trace import Trace

__all__ = ["Drawn", "Observed", "Problem", "Record", "Source", "Trace", "simulate"]
