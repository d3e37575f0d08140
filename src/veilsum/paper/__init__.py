"""The paper as data: each figure and table is scenarios, tables, a drawing, and rows of claims.toml.

    from veilsum import paper
    paper.names()                                                  the experiments
    reports = paper.reproduce(paper.find(["fig-mse-us"]), Path("out"))     numbers and verdicts
    print(paper.sheet(reports, Path("out")))                               the sheet of them

Names are imported when first used, so that `import veilsum` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veilsum._lazy import lazily

if TYPE_CHECKING:
    from veilsum.paper.experiment import (
        Claim,
        ClaimSource,
        Context,
        Experiment,
        Finding,
        Measurement,
        Verdict,
    )
    from veilsum.paper.reproduction import (
        EXPERIMENTS,
        ReproductionReport,
        find,
        names,
        reproduce,
        sheet,
    )

_HOMES = {
    "Claim": "experiment",
    "ClaimSource": "experiment",
    "Context": "experiment",
    "EXPERIMENTS": "reproduction",
    "Experiment": "experiment",
    "Finding": "experiment",
    "Measurement": "experiment",
    "ReproductionReport": "reproduction",
    "Verdict": "experiment",
    "find": "reproduction",
    "names": "reproduction",
    "reproduce": "reproduction",
    "sheet": "reproduction",
}

__all__ = [
    "EXPERIMENTS",
    "Claim",
    "ClaimSource",
    "Context",
    "Experiment",
    "Finding",
    "Measurement",
    "ReproductionReport",
    "Verdict",
    "find",
    "names",
    "reproduce",
    "sheet",
]

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
