"""The log of a node: JSON lines, bounded in rate for each kind, agent and peer.

Of lines that repeat but for their numbers, the first few are written, then one after 1, 2, 4, ...
seconds up to an hour, with the number of those left out since. What was quiet for an hour starts
anew. So an agent
that waits alone for a day writes a few kilobytes, and a member that floods others fills no disk.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

from veilsum.errors import AgentError

LEVELS = {"debug": 0, "info": 1, "warning": 2, "error": 3}
DEBUG_KINDS = {"round", "duplicate"}  # once per round and agent
WARNING_KINDS = {
    "certificate",
    "clock",
    "denied",
    "slot",
    "spool",
    "surplus",
    "rejected",
    "refused",
    "mismatch",
    "rolled-back",
    "cloned",
    "contradiction",
    "reinstated",
    "conflicting-releases",
    "budget",
    "reading",
    "readings",
    "alone",
    "left",
    "gathering",
    "view",
    "quorum",
    "excluded",
    "unacknowledged",
    "unproved",
}
ONCE_KINDS = {"started", "resumed", "done", "stopped", "result", "metrics"}  # in each run
BURST = 8  # lines that repeat before intervals begin
FIRST_INTERVAL, LONGEST_INTERVAL = 1.0, 3600.0  # seconds
MOST_KEYS = 1000  # kinds, peers and texts that are counted separately
MOST_TEXTS = 12  # of one kind about one peer
LONGEST_TEXT, LONGEST_KEY = 2000, 200  # characters
NUMBER = re.compile(r"[0-9a-f]{16,}|\d+")  # and digests
OTHERS = "others"  # stands for every peer beyond that


def level_of(kind: str) -> str:
    """The log level of a kind of report."""
    if kind in DEBUG_KINDS:
        return "debug"
    return "warning" if kind in WARNING_KINDS else "info"


@dataclass
class Repetition:
    """What is known of one kind of line: how many were written, and when the next one is due."""

    written: int = 0
    interval: float = FIRST_INTERVAL
    due: float = 0.0
    last: float = 0.0
    omitted: int = 0

    def admit(self, now: float) -> bool:
        """Whether a line is written now; those that are not are counted."""
        if self.written and now - self.last > LONGEST_INTERVAL:
            self.written, self.interval, self.due = 0, FIRST_INTERVAL, 0.0
        self.last = now
        if now < self.due:
            self.omitted += 1
            return False
        self.written += 1
        if self.written >= BURST:
            self.due = now + self.interval
            self.interval = min(2 * self.interval, LONGEST_INTERVAL)
        return True


class Log:
    """Writes JSON lines of at least a level to a stream; safe to call from any thread.

    Parameters
    ----------
    stream : TextIO, optional
        Standard error by default.
    level : str
        "debug", "info", "warning" or "error".
    clock : callable
        Seconds that never decrease, from which intervals between lines are measured.
    wall : callable
        Seconds since 1970, for the time of a line.

    Attributes
    ----------
    receivers : list of callable
        Each is called with every line that is written, in whichever thread wrote it; it must not
        wait, nor write to this log. One that fails is not called again.

    Raises
    ------
    AgentError
        If there is no such level.

    Examples
    --------
    >>> import io, json
    >>> stream = io.StringIO()
    >>> log = Log(stream)
    >>> log.write("peer", "north", "south is up", peer="south", round=None)
    >>> line = json.loads(stream.getvalue())
    >>> line["level"], line["kind"], line["agent"], line["peer"], line["text"]
    ('info', 'peer', 'north', 'south', 'south is up')
    >>> for _ in range(1000):
    ...     log.write("peer", "north", "south is up", peer="south")
    >>> stream.getvalue().count("\\n")
    8
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        level: str = "info",
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = lambda: time.time(),
    ) -> None:
        """Check the level."""
        if level not in LEVELS:
            raise AgentError(f"log level must be one of {', '.join(LEVELS)}; found {level!r}")
        self._stream, self._least, self._clock = stream or sys.stderr, LEVELS[level], clock
        self._wall = wall
        self._lock = threading.Lock()
        self.receivers: list[Callable[[dict[str, Any]], None]] = []
        self._repetitions: dict[tuple[str, str, str, str], Repetition] = {}
        self._texts: Counter[tuple[str, str, str]] = Counter()

    def writes(self, level: str) -> bool:
        """Whether a line of this level is written."""
        return LEVELS[level] >= self._least

    def write(
        self,
        kind: str,
        agent: str,
        text: str,
        *,
        level: str | None = None,
        group: str | None = None,
        **more: Any,
    ) -> None:
        """Write one line, unless the like were written too often; empty fields are left out.

        Parameters
        ----------
        kind, agent, text : str
            What it is about.
        level : str, optional
            By its kind by default.
        group : str, optional
            The name under which lines of its kind are counted, in place of the peer's; then their
            texts count as one.
        **more
            Further fields.
        """
        level = level or level_of(kind)
        if not self.writes(level):
            return
        with self._lock:
            if level != "debug" and kind not in ONCE_KINDS:
                peer = str(more.get("peer") or "") if group is None else group
                found = self._repetition(kind, agent, peer, text if group is None else "")
                if not found.admit(self._clock()):
                    return
                more["omitted"] = found.omitted or None
                found.omitted = 0
            self._print(level, kind, agent, text, more)

    def close(self) -> None:
        """Say how many lines were left out at the end; may be called twice."""
        with self._lock:
            for (kind, agent, peer, _), found in self._repetitions.items():
                if found.omitted:
                    more = {"peer": peer, "omitted": found.omitted}
                    self._print(level_of(kind), kind, agent, "more of these were left out", more)
                    found.omitted = 0

    def _repetition(self, kind: str, agent: str, peer: str, text: str) -> Repetition:
        key = kind, agent, peer, NUMBER.sub("#", text[:LONGEST_KEY])
        if key not in self._repetitions:
            if len(self._repetitions) >= MOST_KEYS:
                key = kind, OTHERS, OTHERS, ""
            elif self._texts[key[:3]] >= MOST_TEXTS:
                key = kind, agent, peer, ""
            else:
                self._texts[key[:3]] += 1
        return self._repetitions.setdefault(key, Repetition())

    def _print(self, level: str, kind: str, agent: str, text: str, more: dict[str, Any]) -> None:
        now = self._wall()
        stamp = (
            time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
        )
        line = {"time": stamp, "level": level, "kind": kind, "agent": agent}
        line |= {key: value for key, value in more.items() if value not in ("", None)}
        line["text"] = text[:LONGEST_TEXT]
        print(json.dumps(line, ensure_ascii=False), file=self._stream, flush=True)
        for receiver in tuple(self.receivers):
            try:
                receiver(line)
            except Exception:  # whatever it is, the line is written and the agent goes on
                self.receivers.remove(receiver)
