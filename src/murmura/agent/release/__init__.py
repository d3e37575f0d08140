"""From a reading to what may leave the agent, and what is promised about it."""

from __future__ import annotations

from murmura.agent.release.drawer import Drawer
from murmura.agent.release.precision import input_error, least_scale
from murmura.agent.release.terms import check_promise, guarantee, want_of

__all__ = ["Drawer", "check_promise", "guarantee", "input_error", "least_scale", "want_of"]
