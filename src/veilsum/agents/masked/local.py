"""Records between the agents of one process: no message, one batch for all in each turn.

What an agent publishes, or takes from a neighbour in another process, goes into a log that all agents
of the process read. A batch ends where the turn began (`close_batch`), so all of them read the same
records. Nothing is lost to an agent that reads late: it goes on where it stopped, and from the
beginning when it accepts records of more sessions than before. An agent that has stopped reads no
more, which is of no consequence to the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from veilsum.agents.masked.flooding import RecordSet
from veilsum.agents.masked.pool import RecordBatch, RecordPool
from veilsum.agents.masked.queries import KEPT, Queries
from veilsum.agents.masked.records import SignedRecord


class LocalRecords:
    """The log of one process: verified records by query, in the order in which they came.

    Parameters
    ----------
    pool : RecordPool
        Where its agents keep their records.

    Attributes
    ----------
    concluded : dict of str to int
        By agent, how many queries it has concluded.
    done : set of str
        The agents that are done.
    changes : int
        Grows with everything that agents should hear of.
    """

    def __init__(self, pool: RecordPool) -> None:
        """No agent, no record."""
        self._pool = pool
        self._made: dict[int, tuple[int, RecordBatch]] = {}  # the last batch of each query
        self.concluded: dict[str, int] = {}
        self.done: set[str] = set()
        self.changes = 0
        self._logs: dict[int, dict[bytes, SignedRecord]] = {}  # by query and name
        self._batches: dict[int, list[SignedRecord]] = {}  # of each log, what may be read

    def enter(self, label: str) -> None:
        """An agent of this process."""
        self.concluded[label] = 0

    def add(self, query: int, signed: Iterable[SignedRecord]) -> None:
        """Verified records that an agent has; they may be read after the next `close_batch`."""
        log = self._logs.setdefault(query, {})
        before = len(log)
        for one in signed:
            log.setdefault(self._pool.name(one), one)
        self.changes += len(log) > before

    def note(self, label: str, concluded: int, done: bool) -> None:
        """How far an agent is; records are held as long as agents hold theirs."""
        if (self.concluded[label], label in self.done) == (concluded, done):
            return
        self.concluded[label] = concluded
        (self.done.add if done else self.done.discard)(label)
        self.changes += 1
        first = max(self.concluded.values()) - KEPT + 1
        for query in [one for one in self._logs if one < first]:
            del self._logs[query]
            self._batches.pop(query, None)
            self._made.pop(query, None)

    def close_batch(self) -> int:
        """Let everything be read that is here now; what `changes` is at present."""
        for query, log in self._logs.items():
            batch = self._batches.setdefault(query, [])
            if len(batch) < len(log):
                batch.extend(islice(log.values(), len(batch), None))
                self._made.pop(query, None)
        return self.changes

    def readable(self) -> dict[int, int]:
        """How many records of each query may be read."""
        return {query: len(batch) for query, batch in self._batches.items()}

    def since(self, query: int, start: int) -> RecordBatch:
        """What may be read of a query, after the first `start`: most agents ask for the same."""
        made = self._made.get(query)
        if made is None or made[0] != start:
            batch = RecordBatch(self._pool, self._batches[query][start:])
            made = self._made[query] = start, batch
        return made[1]


class LocalReader:
    """What one agent has read of the log.

    Parameters
    ----------
    common : LocalRecords
        The log.
    queries : Queries
        Which queries the agent follows.
    """

    def __init__(self, common: LocalRecords, queries: Queries) -> None:
        """Nothing is read yet."""
        self._common, self._queries = common, queries
        self._read: dict[int, tuple[RecordSet, int, int]] = {}

    def unread(self) -> list[tuple[int, list[SignedRecord]]]:
        """The records by query that this agent is to take now; they count as read."""
        found: list[tuple[int, list[SignedRecord]]] = []
        for query, end in self._common.readable().items():
            records = self._queries.records(query)
            if records is None:
                self._read.pop(query, None)
                continue
            before, widened, start = self._read.get(query, (records, records.widened, 0))
            if before is not records or widened != records.widened:
                start = 0
            if start < end:
                found.append((query, self._common.since(query, start)))
            self._read[query] = records, records.widened, end
        return found
