"""The readings: there, parseable, of the right shape, within bounds; counted, never shown."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from veilsum.agents.doctor.outcomes import CheckResult, ExaminedAgent, failure, ok, warning
from veilsum.agents.doctor.spending import locked_by
from veilsum.agents.ledger import ReadingOrigin
from veilsum.agents.readings import CsvReadings, Readings, SourceState
from veilsum.errors import SignalError

ROWS = 1000  # that are looked at
PATIENCE = 5.0  # seconds for the first reading of a source that is reached over a network
NAMED = 5  # rows that a result names


class Looked(NamedTuple):
    """What is known of one reading, without its value."""

    kind: str
    problem: str = ""
    origin: ReadingOrigin | None = None


def readings(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """The source exists, has the columns, and what it gives can be released."""
    setup, chosen = agent.setup, agent.setup.config.readings
    setup.check_readings()
    if chosen.command is not None:
        yield ok("readings", f"the program {chosen.command[0]} exists; it is not started here")
        return
    if chosen.csv is None:
        yield from _over_network(agent)
        return
    path = setup.path(chosen.csv)
    source = CsvReadings(path, chosen.column, follow=False, key=chosen.key, time=chosen.time)
    try:
        yield from _roles(agent, source.value_columns)
        looked = _look(source, setup.problem.family, ROWS)
    finally:
        source.close()
    if chosen.follow and _unended(path):
        looked = looked[:-1] if len(looked) < ROWS else looked
        yield warning(
            "readings",
            f"{setup.locator.at('readings')}: the last row of {path.name} has no end of line, and is "
            "not read before it has one",
            "let the program that writes the file end every row with a newline",
        )
    yield from _judged(agent, looked, chosen.follow)


def _unended(path: Path) -> bool:
    """Whether the last line of a file may be half written."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _roles(agent: ExaminedAgent, values: list[str]) -> Iterator[CheckResult]:
    """A column of values is not the time of a reading, nor all that identifies it."""
    chosen, locator = agent.setup.config.readings, agent.setup.locator
    if chosen.time in values:
        yield failure(
            "readings",
            f"{locator.at('readings', 'time')}: the column {chosen.time} has the values too, and "
            "would be read as seconds since 1970",
            "name the column with the time of a reading, or leave time out",
        )
    keys = [chosen.key] if isinstance(chosen.key, str) else chosen.key or []
    if keys and set(keys) <= set(values):
        yield warning(
            "readings",
            f"{locator.at('readings', 'key')}: only values identify a reading, so that the second "
            "of two equal readings counts as a repetition and is left out",
            "name what differs between any two readings, such as the column of their time",
        )


def _over_network(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """A source on another machine: one reading is looked at, and not acknowledged."""
    if agent.offline:
        yield ok("readings", "the source is on another machine, and not tried offline")
        return
    if locked_by(agent.ledger):
        yield ok("readings", "the source is in use by the agent that runs, and not tried")
        return
    source = agent.setup.readings()
    column = agent.setup.config.readings.column
    yield from _roles(agent, [column] if isinstance(column, str) else column or [])
    end = time.monotonic() + PATIENCE
    try:
        looked = _look(source, agent.setup.problem.family, 1)
        while not looked and time.monotonic() < end:
            time.sleep(0.05)
            looked = _look(source, agent.setup.problem.family, 1)
    finally:
        source.close()
    yield from _judged(agent, looked, follow=True)


def _look(source: Readings, family: Any, most: int) -> list[Looked]:
    """What kind the next readings are: good, clipped, refused or wrong."""
    found: list[Looked] = []
    while len(found) < most:
        try:
            value = source.next()
        except SignalError as problem:
            found.append(Looked("wrong", str(problem)))
            continue
        if isinstance(value, SourceState):
            break
        kind = _kind(np.asarray(value, dtype=np.float64), family)
        found.append(Looked(kind, origin=source.origin if source.keyed else None))
    return found


def _kind(value: Any, family: Any) -> str:
    if value.shape != family.signal_shape:
        return "shape"
    if not np.isfinite(value).all():
        return "not finite"
    if not family.support.violations(value).any():
        return "good"
    natural = family.natural_support.violations(value).any()
    return "refused" if family.bounds is None or (natural and family.support.integer) else "clipped"


def _repeated(agent: ExaminedAgent, readings: list[Looked]) -> Iterator[CheckResult]:
    """An agent releases one reading of a key; others with it are left out as repetitions."""
    first: dict[ReadingOrigin, int] = {}
    pairs = []
    for row, reading in enumerate(readings, 1):
        if reading.origin is not None and first.setdefault(reading.origin, row) != row:
            pairs.append(f"row {row} that of row {first[reading.origin]}")
    if pairs:
        others = len(pairs) - NAMED
        more = f", and {others:,} others" if others > 0 else ""
        yield warning(
            "readings",
            f"{agent.setup.locator.at('readings', 'key')}: {len(pairs):,} of the first "
            f"{len(readings):,} readings repeat the key of an earlier one and are left out: "
            f"{', '.join(pairs[:NAMED])}{more}",
            "name in key the columns that differ between any two readings, such as that of their time; "
            "if these rows are copies, nothing is to do",
        )


def _judged(agent: ExaminedAgent, readings: list[Looked], follow: bool) -> Iterator[CheckResult]:
    family, looked = agent.setup.problem.family, len(readings)
    counts = Counter(reading.kind for reading in readings)
    place = agent.setup.locator.at("readings")
    of = f"{{}} of the first {looked:,} readings"
    if not looked:
        say = warning if follow else failure
        yield say("readings", f"{place}: there is no reading yet", "the agent waits for the first")
        return
    if counts["shape"]:
        yield failure(
            "readings",
            f"{place}: a reading has another number of values than {family.name} takes "
            f"({int(np.prod(family.signal_shape, dtype=int))})",
            "name the columns in [readings] column",
        )
        return
    wrong = counts["wrong"] + counts["not finite"]
    if wrong:
        why = next((r.problem for r in readings if r.problem), "the value is not a finite number")
        yield failure("readings", f"{of.format(wrong)} cannot be used: {why}", "mend the source")
    if counts["refused"]:
        yield failure(
            "readings",
            f"{of.format(counts['refused'])} lie outside {family.support.describe()} and are "
            "refused",
            family.remedy,
        )
    if counts["clipped"]:
        yield warning(
            "readings",
            f"{of.format(counts['clipped'])} lie outside the public bounds and count as the bound",
            "agree on wider bounds if these are right: clipping shifts the mean",
        )
    repeated = list(_repeated(agent, readings))
    yield from repeated
    if looked == counts["good"] and not repeated:
        yield ok("readings", f"the first {looked:,} can be released")
