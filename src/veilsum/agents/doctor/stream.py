"""The readings: there, parseable, of the right shape, within bounds; counted, never shown."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from veilsum.agents.doctor.outcomes import CheckResult, ExaminedAgent, failure, ok, warning
from veilsum.agents.doctor.spending import locked_by
from veilsum.agents.readings import CsvReadings, Readings, SourceState
from veilsum.errors import SignalError

ROWS = 1000  # that are looked at
PATIENCE = 5.0  # seconds for the first reading of a source that is reached over a network


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
        counts, first = _count(source, setup.problem.family, ROWS)
    finally:
        source.close()
    yield from _judged(agent, counts, first, chosen.follow)


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
        counts, first = _count(source, agent.setup.problem.family, 1)
        while not counts and time.monotonic() < end:
            time.sleep(0.05)
            counts, first = _count(source, agent.setup.problem.family, 1)
    finally:
        source.close()
    yield from _judged(agent, counts, first, follow=True)


def _count(source: Readings, family: Any, most: int) -> tuple[Counter[str], str]:
    """How many readings are good, clipped, refused and wrong, and what is wrong with the first."""
    counts: Counter[str] = Counter()
    first = ""
    while counts.total() < most:
        try:
            value = source.next()
        except SignalError as problem:
            counts["wrong"] += 1
            first = first or str(problem)
            continue
        if isinstance(value, SourceState):
            break
        counts[_kind(np.asarray(value, dtype=np.float64), family)] += 1
    return counts, first


def _kind(value: Any, family: Any) -> str:
    if value.shape != family.signal_shape:
        return "shape"
    if not np.isfinite(value).all():
        return "not finite"
    if not family.support.violations(value).any():
        return "good"
    natural = family.natural_support.violations(value).any()
    return "refused" if family.bounds is None or (natural and family.support.integer) else "clipped"


def _judged(
    agent: ExaminedAgent, counts: Counter[str], first: str, follow: bool
) -> Iterator[CheckResult]:
    family, looked = agent.setup.problem.family, counts.total()
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
        why = first or "the value is not a finite number"
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
    if counts.total() == counts["good"]:
        yield ok("readings", f"the first {looked:,} can be released")
