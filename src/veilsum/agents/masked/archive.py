"""The records of the last query that has a sum, as an agent keeps them across restarts: all public.

    "mu" "archive" version[1] | query[8] | records, each with its length before it

Version 1 began with the query. A query's number begins with a byte of 0, so the two differ in the first
byte. Whoever comes after all others have restarted still finds the sum in them, and can check it. Kept are
all records of the session that was summed, and every Present: these lead to its view.
"""

from __future__ import annotations

from veilsum.agents.masked.flooding import RecordSet
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.masked.records import Present, SignedRecord
from veilsum.agents.versions import ARCHIVE
from veilsum.agents.wire import WireError

MAGIC = b"muarchive"
QUERY = 8  # bytes of the query's number
MOST_KEPT = 1 << 28  # bytes of all records


def to_archive(query: int, sid: bytes, records: RecordSet) -> bytes:
    """The records of a query by which its sum can be found again.

    Parameters
    ----------
    query : int
        Which query.
    sid : bytes
        The session that was summed.
    records : RecordSet
        All records of the query.

    Returns
    -------
    bytes
        What `from_archive` reads.
    """
    kept = (one for one in records if one.record.sid == sid or isinstance(one.record, Present))
    head = MAGIC + bytes([ARCHIVE.newest]) + query.to_bytes(QUERY, "big")
    return head + b"".join(records.pool.chunks(kept, MOST_KEPT))


def from_archive(pool: RecordPool, data: bytes) -> tuple[int, list[SignedRecord]]:
    """The query and its records; they are verified when they are added to a set.

    Parameters
    ----------
    pool : RecordPool
        Where the agents of this process keep records.
    data : bytes
        What `to_archive` wrote.

    Returns
    -------
    tuple of int and list of SignedRecord
        Which query, and its records.

    Raises
    ------
    WireError
        For anything else.
    """
    body, version = data, 1
    if data.startswith(MAGIC):
        at = len(MAGIC)
        version, body = int.from_bytes(data[at : at + 1], "big"), data[at + 1 :]
    if not ARCHIVE.reads(version):
        raise WireError(ARCHIVE.refusal(version))
    if len(body) < QUERY:
        raise WireError(f"{len(data)} bytes are no archive of a query")
    return int.from_bytes(body[:QUERY], "big"), pool.split(body[QUERY:], MOST_KEPT)
