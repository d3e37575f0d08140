"""Many agents on one machine: real processes, real sockets, one command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from murmura._lazy import lazily

if TYPE_CHECKING:
    from murmura.agent.fleet.fleet import Fleet
    from murmura.agent.fleet.launch import Terms, UpResult, up
    from murmura.agent.fleet.plan import Plan

_WHERE = {"Fleet": "fleet", "Plan": "plan", "Terms": "launch", "UpResult": "launch", "up": "launch"}

__all__ = ["Fleet", "Plan", "Terms", "UpResult", "up"]

__getattr__ = lazily(__name__, _WHERE)
