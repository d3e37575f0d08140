"""What a round costs on many nodes: bytes, halo, latency.

A rank with m = n/p agents of mean degree d carries c = streams x groups columns (a stream is a
replica and component; a group is the noiseless run or one epsilon). A round streams past it

    m (12 (d + 1) + 16 c)   bytes: a weight and an index for each entry, once for all columns; and
                            for each column the old estimate read and the new one written

at the memory bandwidth that the rank gets, and draws one number of noise per stream where the
algorithm asks for it. A graph in the plane has a perimeter: in a good order a rank reads about
`perimeter * sqrt(m)` agents of others, whose estimates travel,

    exchange = neighbours * latency + 8 c perimeter sqrt(m) / link

of which `overlap` times the smaller of computing and exchange is hidden; 0 is the cautious end.

`compare` puts the model beside what `benchmarks.ranks` measured. Two numbers are taken from the job
of one rank: the fraction of a triad's bandwidth that a round of one column reaches, and the cost of
a draw. All else is predicted: other ranks from the triad and the messages of their own job, other
columns from the formula.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from veilsum import _validate
from veilsum.errors import VeilsumError

ENTRY = 12  # bytes of a weight and an index
NUMBER = 8  # bytes of an estimate
HELD = 80  # bytes of an agent beside its row and its columns: numbers, places, scales, mass
READ = 4  # times that a stream's statistic is held online: signal, statistic, two rounds ahead
LOADING = 110  # bytes of an entry at the peak of `load_slices`: links sent, received and sorted


@dataclass(frozen=True)
class Machine:
    """What one rank gets of its node, and what connects ranks.

    Parameters
    ----------
    bandwidth
        Bytes of memory traffic per second and rank.
    latency
        Seconds per message.
    link
        Bytes per second between ranks, per rank.
    draw
        Seconds per draw of noise.
    overlap
        The fraction of the smaller of computing and exchange that is hidden, 0 to 1.
    neighbours
        The number of ranks that a rank exchanges with.

    Raises
    ------
    VeilsumError
        If a number is out of range.

    Examples
    --------
    >>> Machine(bandwidth=2e9, latency=2e-6, link=4e8).neighbours
    10
    """

    bandwidth: float
    latency: float
    link: float
    draw: float = 0.0
    overlap: float = 0.0
    neighbours: int = 10

    def __post_init__(self) -> None:
        """Check the signs."""
        _validate.positive(VeilsumError, bandwidth=self.bandwidth, link=self.link)
        if self.latency < 0 or self.draw < 0 or not 0 <= self.overlap <= 1:
            raise VeilsumError(
                "latency and draw must be at least 0, and overlap between 0 and 1; found "
                f"{self.latency}, {self.draw}, {self.overlap}"
            )


@dataclass(frozen=True)
class Workload:
    """The size of a run.

    Parameters
    ----------
    agents
        The number of agents.
    degree
        Their mean degree.
    streams
        Replicas times components.
    groups
        One for the noiseless run and one for each epsilon.
    online
        Whether every round has signals and noise.
    perimeter
        The agents that a patch of m agents reads beyond it, over sqrt(m).
    states
        Copies of the estimates: three for an algorithm with momentum.

    Raises
    ------
    VeilsumError
        If a number is out of range.

    Examples
    --------
    >>> Workload(10**6, streams=8, groups=2).columns
    16
    """

    agents: int
    degree: float = 6.0
    streams: int = 1
    groups: int = 1
    online: bool = False
    perimeter: float = 5.0
    states: int = 2

    def __post_init__(self) -> None:
        """Check the counts."""
        counts = {"agents": self.agents, "streams": self.streams, "groups": self.groups}
        _validate.at_least(VeilsumError, 1, **counts)
        _validate.positive(VeilsumError, degree=self.degree)

    @property
    def columns(self) -> int:
        """Runs that advance together."""
        return self.streams * self.groups

    @property
    def traffic(self) -> float:
        """Bytes that a round streams, per agent."""
        return ENTRY * (self.degree + 1) + 2 * NUMBER * self.columns


@dataclass(frozen=True)
class Prediction:
    """What a round costs one rank."""

    compute: float  # seconds
    exchange: float  # seconds
    hidden: float  # seconds of the smaller of the two
    memory: float  # bytes in use
    loading: float  # bytes at the peak of `load_slices`
    halo: float  # agents of other ranks whose estimates are read

    @property
    def seconds(self) -> float:
        """How long the round takes."""
        return self.compute + self.exchange - self.hidden


def predict(work: Workload, machine: Machine, ranks: int) -> Prediction:
    """Predict time and memory of a round by the formulas above.

    Parameters
    ----------
    work
        The size of the run.
    machine
        What one rank gets.
    ranks
        The number of ranks.

    Returns
    -------
    Prediction
        Seconds and bytes per rank and round.

    Raises
    ------
    VeilsumError
        If `ranks` is below 1.

    Examples
    --------
    >>> node = Machine(bandwidth=2e9, latency=2e-6, link=4e8)
    >>> cost = predict(Workload(10**9), node, ranks=2048)
    >>> f"{1e3 * cost.seconds:.0f} ms, {cost.memory / 1e6:.0f} MB"
    '25 ms, 133 MB'
    """
    _validate.at_least(VeilsumError, 1, ranks=ranks)
    own = work.agents / ranks
    halo = 0.0 if ranks == 1 else min(work.perimeter * math.sqrt(own), work.agents - own)
    draws = work.streams if work.online else 0
    compute = own * (work.traffic / machine.bandwidth + draws * machine.draw)
    messages = min(machine.neighbours, ranks - 1)
    exchange = messages * machine.latency + halo * work.columns * NUMBER / machine.link
    hidden = machine.overlap * min(compute, exchange)
    loading = own * (work.degree + 1) * LOADING
    return Prediction(compute, exchange, hidden, _memory(work, own, halo), loading, halo)


def _memory(work: Workload, own: float, halo: float) -> float:
    """The network's rows and the kernel's copy of them, statistics, states with their halo."""
    rows = 2 * ENTRY * (work.degree + 1)
    statistics = (READ if work.online else 1) * NUMBER * work.streams
    states = work.states * NUMBER * work.columns
    return own * (rows + HELD + statistics) + (own + halo) * states


Report = Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """A measured round beside its prediction."""

    ranks: int
    algorithm: str
    columns: int
    seconds: float  # measured
    held: float  # bytes in use, measured
    peak: float  # bytes while loading, measured
    halo: float  # agents, counted
    model: Prediction

    @property
    def factor(self) -> float:
        """The larger of measured and predicted time over the smaller: 1 if they agree."""
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
            found.append(Comparison(job["ranks"], row["algorithm"], work.columns, *measured, cost))
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
