"""Scenarios: what to run, as a TOML file.

    from veilsum.scenario import Scenario, run
    results = run("examples/us-power-grid.toml")         # {variant: Result}
    Scenario.load("mine.toml").with_(seed=1).build().problem

Names are imported on first access, so that `import veilsum` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veilsum._lazy import lazily

if TYPE_CHECKING:
    from veilsum.scenario.build import Job
    from veilsum.scenario.execute import ExecutionOptions, run
    from veilsum.scenario.parse import Scenario
    from veilsum.scenario.schema import Spec

# No name here may also be a submodule's: importing the submodule would replace the function.
_HOMES = {
    "ExecutionOptions": "execute",
    "Job": "build",
    "Scenario": "parse",
    "Spec": "schema",
    "run": "execute",
}

__all__ = ["ExecutionOptions", "Job", "Scenario", "Spec", "run", "template"]


def template() -> str:
    """A commented scenario to start from: what `veilsum init` writes.

    Returns
    -------
    str
        TOML.

    Examples
    --------
    >>> template().splitlines()[0]
    '# A veilsum scenario: what to run. Try it with'
    """
    from importlib import resources

    return (resources.files("veilsum.scenario") / "template.toml").read_text(encoding="utf-8")


__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
