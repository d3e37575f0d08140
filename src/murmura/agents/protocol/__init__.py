"""The whole behaviour of an agent, without input and output: events in, actions out."""

from __future__ import annotations

from murmura.agents.protocol.agent import Agent
from murmura.agents.protocol.options import Options

__all__ = ["Agent", "Options"]
