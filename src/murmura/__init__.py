"""Differentially private distributed estimation over a network of agents.

    import murmura as mm
    mixing = mm.network.metropolis(mm.network.load("us-power-grid"))
    result = mm.estimate(signals, mixing, mm.families.LogNormal1p(sigma=1.0),
                         mm.privacy.SignalDP(epsilon=1.0), law="jacobi", rounds=100, rng=7)
    print(result)

Names are imported when they are first used, so that `import murmura` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from murmura import (
        agent,
        audits,
        cluster,
        engine,
        errors,
        families,
        laws,
        network,
        paper,
        privacy,
        report,
        scenario,
        signals,
        theory,
    )
    from murmura.api import estimate, sweep
    from murmura.engine.record import Record
    from murmura.report.result import Result
    from murmura.scenario import Scenario, run

__version__ = "0.1.0"

_MODULES = (
    "agent", "audits", "cluster", "engine", "errors", "families", "laws", "network", "paper",
    "privacy", "report", "scenario", "signals", "theory",
)  # fmt: skip
_NAMES = {
    "Record": "murmura.engine.record",
    "Result": "murmura.report.result",
    "Scenario": "murmura.scenario",
    "estimate": "murmura.api",
    "run": "murmura.scenario",
    "sweep": "murmura.api",
}

__all__ = [
    "Record",
    "Result",
    "Scenario",
    "agent",
    "audits",
    "cluster",
    "engine",
    "errors",
    "estimate",
    "families",
    "laws",
    "network",
    "paper",
    "privacy",
    "report",
    "run",
    "scenario",
    "signals",
    "sweep",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"murmura.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'murmura' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
