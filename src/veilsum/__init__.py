"""Differentially private distributed estimation over a network of agents.

    import veilsum as vs
    mixing = vs.networks.metropolis(vs.networks.load("us-power-grid"))
    answers = vs.estimate(signals, mixing, vs.families.LogNormal1p(sigma=1.0),
                          vs.privacy.SignalDP(epsilon=1.0), algorithm="jacobi", rounds=100, rng=7)
    print(answers)

Names are imported when they are first used, so that `import veilsum` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from veilsum import (
        agents,
        algorithms,
        asking,
        auditing,
        errors,
        families,
        front,
        networks,
        paper,
        privacy,
        questions,
        results,
        scenario,
        signals,
        simulation,
        testing,
        theory,
    )
    from veilsum.api import ask, estimate, sweep
    from veilsum.front import Answers
    from veilsum.results.result import Result
    from veilsum.scenario import Scenario, run
    from veilsum.simulation.recording import Record

__version__ = "0.2.0.dev0"

_MODULES = (
    "agents", "asking", "auditing", "simulation", "errors", "families", "front", "algorithms", "networks",
    "paper", "privacy", "questions", "results", "scenario", "signals", "testing", "theory",
)  # fmt: skip
_NAMES = {
    "Answers": "veilsum.front",
    "Record": "veilsum.simulation.recording",
    "Result": "veilsum.results.result",
    "Scenario": "veilsum.scenario",
    "ask": "veilsum.api",
    "estimate": "veilsum.api",
    "run": "veilsum.scenario",
    "sweep": "veilsum.api",
}

__all__ = [
    "Answers",
    "Record",
    "Result",
    "Scenario",
    "agents",
    "algorithms",
    "ask",
    "asking",
    "auditing",
    "errors",
    "estimate",
    "families",
    "front",
    "networks",
    "paper",
    "privacy",
    "questions",
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
        return importlib.import_module(f"veilsum.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'veilsum' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
