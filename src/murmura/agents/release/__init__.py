"""From a reading to what may leave the agent, and what is guaranteed about it."""

from __future__ import annotations

from murmura.agents.release.guarantees import check_guarantee, guarantee, request_of
from murmura.agents.release.mechanism import ReleaseMechanism

__all__ = ["ReleaseMechanism", "check_guarantee", "guarantee", "request_of"]
