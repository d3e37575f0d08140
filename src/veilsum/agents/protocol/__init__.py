"""The whole behaviour of an agent, without input and output: events in, actions out."""

from __future__ import annotations

from veilsum.agents.protocol.agent import Agent
from veilsum.agents.protocol.options import Options

__all__ = ["Agent", "Options"]
