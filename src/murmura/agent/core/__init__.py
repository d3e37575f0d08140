"""The whole behaviour of an agent, without input and output: events in, actions out."""

from __future__ import annotations

from murmura.agent.core.base import Core
from murmura.agent.core.options import Options

__all__ = ["Core", "Options"]
