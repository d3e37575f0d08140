"""The model beside what `benchmarks.ranks` measured.

Two numbers are taken from the job of one rank: the share of a triad's bandwidth that a round of one
column reaches, and the cost of a draw. All else is predicted: other ranks from the triad and the
messages of their own job, other columns from the formula.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from murmura.cluster.model import Machine, Prediction, Workload, predict

Report = Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """One kind of round on so many ranks."""

    ranks: int
    law: str
    columns: int
    seconds: float  # measured
    held: float  # bytes, measured
    peak: float  # bytes while loading, measured
    halo: float  # agents, counted
    model: Prediction

    @property
    def factor(self) -> float:
        """How far measured and predicted time are apart: 1 if they agree."""
        ratio = self.seconds / self.model.seconds
        return max(ratio, 1 / ratio)


def compare(report: Report) -> list[Comparison]:
    """Every measured round of a report with its prediction."""
    found = []
    for job in report["jobs"]:
        for row in job["rows"]:
            work = _workload(job, row)
            cost = predict(work, _machine(report, job), job["ranks"])
            measured = (row["seconds"], row["held"], row["peak"], row["halo"])
            found.append(Comparison(job["ranks"], row["law"], work.columns, *measured, cost))
    return found


def _workload(job: Report, row: Report) -> Workload:
    """The halo is counted, so that what is compared is time."""
    patch = (job["agents"] / job["ranks"]) ** 0.5
    shape = (row["streams"], row["groups"], row["online"])
    return Workload(job["agents"], job["degree"], *shape, perimeter=row["halo"] / patch)


def _machine(report: Report, job: Report) -> Machine:
    """Ranks beyond the cores take turns: their triad shows it, their draws are multiplied."""
    alone = report["jobs"][0]
    plain, drawing = alone["rows"][0], alone["rows"][-1]
    per_byte = plain["seconds"] / alone["agents"] / _workload(alone, plain).traffic
    streamed = alone["agents"] * _workload(alone, drawing).traffic * per_byte
    draw = (drawing["seconds"] - streamed) / (alone["agents"] * drawing["streams"])
    return Machine(
        bandwidth=job["bandwidth"] / alone["bandwidth"] / per_byte,
        latency=job["latency"],
        link=job["link"] or 1e9,
        draw=max(draw, 0.0) * max(1.0, job["ranks"] / report["cores"]),
        neighbours=job["ranks"] - 1,
    )
