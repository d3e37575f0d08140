"""What a round costs on many nodes: bytes, halo, latency.

A rank with m = n/p agents of mean degree d carries c = streams x groups columns (a stream is a
replica and component; a group is the clean run or one epsilon). A round streams past it

    m (12 (d + 1) + 16 c)   bytes: a weight and an index for each entry, once for all columns; and
                            for each column the old estimate read and the new one written

at the memory bandwidth that the rank gets, and draws one number of noise per stream where the law
asks for it. A graph in the plane has a perimeter: in a good order a rank hears about
`perimeter * sqrt(m)` agents of others, whose estimates travel,

    exchange = neighbours * latency + 8 c perimeter sqrt(m) / link

of which `overlap` times the smaller of computing and exchange is hidden; 0 is the cautious end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from murmura import _validate
from murmura.errors import MurmuraError

ENTRY = 12  # bytes of a weight and an index
NUMBER = 8  # bytes of an estimate
HELD = 80  # bytes of an agent beside its row and its columns: numbers, places, scales, mass
READ = 4  # times that a stream's statistic is held online: signal, statistic, two rounds ahead
LOADING = 110  # bytes of an entry at the peak of `load_slices`: links sent, received and sorted


@dataclass(frozen=True)
class Machine:
    """What one rank gets of its node, and what lies between ranks."""

    bandwidth: float  # bytes of the formula above per second, per rank
    latency: float  # seconds per message
    link: float  # bytes per second between ranks, per rank
    draw: float = 0.0  # seconds per draw of noise
    overlap: float = 0.0
    neighbours: int = 10  # ranks that a rank exchanges with

    def __post_init__(self) -> None:
        """Check the signs."""
        _validate.positive(MurmuraError, bandwidth=self.bandwidth, link=self.link)
        if self.latency < 0 or self.draw < 0 or not 0 <= self.overlap <= 1:
            raise MurmuraError(
                "latency and draw must be at least 0, and overlap between 0 and 1; found "
                f"{self.latency}, {self.draw}, {self.overlap}"
            )


@dataclass(frozen=True)
class Workload:
    """What is run: so many agents, links and columns."""

    agents: int
    degree: float = 6.0
    streams: int = 1
    groups: int = 1
    online: bool = False  # whether every round brings signals and noise
    perimeter: float = 5.0  # agents heard beyond a patch of m, over sqrt(m)
    states: int = 2  # copies of the estimates: three for a law that recalls

    def __post_init__(self) -> None:
        """Check the counts."""
        counts = {"agents": self.agents, "streams": self.streams, "groups": self.groups}
        _validate.at_least(MurmuraError, 1, **counts)
        _validate.positive(MurmuraError, degree=self.degree)

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
    """Per rank and round."""

    compute: float  # seconds
    exchange: float  # seconds
    hidden: float  # seconds of the smaller of the two
    memory: float  # bytes held
    loading: float  # bytes at the peak of `load_slices`
    halo: float  # agents heard beyond the rank's own

    @property
    def seconds(self) -> float:
        """How long the round takes."""
        return self.compute + self.exchange - self.hidden


def predict(work: Workload, machine: Machine, ranks: int) -> Prediction:
    """Time and memory of a round on so many ranks: the formulas above."""
    _validate.at_least(MurmuraError, 1, ranks=ranks)
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
