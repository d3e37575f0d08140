"""Differentially private distributed estimation over a network of agents.

    import murmura as mm
    mixing = mm.networks.metropolis(mm.networks.load("us-power-grid"))
    result = mm.estimate(signals, mixing, mm.families.LogNormal1p(sigma=1.0),
                         mm.privacy.SignalDP(epsilon=1.0), algorithm="jacobi", rounds=100, rng=7)
    print(result)

Names are imported when they are first used, so that `import murmura` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from murmura import (
        agents,
        algorithms,
        auditing,
        errors,
        families,
        networks,
        paper,
        privacy,
        results,
        scenario,
        signals,
        simulation,
        testing,
        theory,
    )
    from murmura.api import estimate, sweep
    from murmura.results.result import Result
    from murmura.scenario import Scenario, run
    from murmura.simulation.recording import Record

__version__ = "0.1.0"

_MODULES = (
    "agents", "auditing", "simulation", "errors", "families", "algorithms", "networks", "paper",
    "privacy", "results", "scenario", "signals", "testing", "theory",
)  # fmt: skip
_NAMES = {
    "Record": "murmura.simulation.recording",
    "Result": "murmura.results.result",
    "Scenario": "murmura.scenario",
    "estimate": "murmura.api",
    "run": "murmura.scenario",
    "sweep": "murmura.api",
}

__all__ = [
    "Record",
    "Result",
    "Scenario",
    "agents",
    "algorithms",
    "auditing",
    "errors",
    "estimate",
    "families",
    "networks",
    "paper",
    "privacy",
    "results",
    "run",
    "scenario",
    "signals",
    "simulation",
    "sweep",
    "testing",
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
