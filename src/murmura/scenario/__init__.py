"""Scenarios: what to run, as a TOML file.

    from murmura.scenario import Scenario, run
    results = run("examples/us-power-grid.toml")         # {variant: Result}
    Scenario.load("mine.toml").with_(seed=1).build().problem

Names are imported when they are first used, so that `import murmura` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from murmura.scenario.build import Job, run
    from murmura.scenario.load import Scenario
    from murmura.scenario.model import Spec

_WHERE = {"Job": "build", "Scenario": "load", "Spec": "model", "run": "build"}

__all__ = ["Job", "Scenario", "Spec", "run", "template"]


def template() -> str:
    """A commented scenario to begin with: what `murmura init` writes."""
    from importlib import resources

    return (resources.files("murmura.scenario") / "template.toml").read_text(encoding="utf-8")


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
