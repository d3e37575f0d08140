"""What the agent may spend: its ledger, its budget, and whether that buys anything."""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from murmura.agents.doctor.outcomes import CheckResult, ExaminedAgent, failure, ok, warning
from murmura.agents.ledger import key_of, read_ledger, verify
from murmura.agents.ledger.records import release_terms
from murmura.agents.ledger.store import lock_path, read_lock
from murmura.agents.results import half_width
from murmura.errors import MurmuraError
from murmura.families import statistic_bounds
from murmura.theory import precision

MOST_READINGS = 10_000  # rounds for which the accuracy of a stream is computed


def ledger(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """It can be made, or it is whole, belongs to this agent and these terms, and is not in use."""
    path = agent.ledger
    key = None if agent.insecure else _key(agent)
    if not path.exists():
        yield ok("ledger", f"{path.name} does not exist yet, and is made at the start")
        return
    holder = locked_by(path)
    if holder:
        yield failure(
            "ledger", f"{path} is open in {holder}: the agent runs already", "an agent runs once"
        )
        return
    found = verify(path, key)
    if not found.ok:
        yield failure(
            "ledger",
            f"{path} cannot be trusted: {'; '.join(found.problems)}",
            "restore the latest copy, or use a new ledger under a new name",
        )
        return
    identity = read_ledger(path).identity
    if identity.agent != agent.name:
        yield failure(
            "ledger",
            f"{path} belongs to {identity.agent}, and this agent is {agent.name}",
            "use its own ledger",
        )
    elif identity.terms != release_terms(agent.setup.manifest):
        yield failure(
            "ledger",
            f"{path} was made for other terms of release than those of the scenario (family, "
            "bounds, privacy)",
            "use the scenario it was made for, or a new ledger under a new name",
        )
    elif agent.setup.budget is not None and _changed(agent, identity):
        yield failure(
            "ledger",
            f"{path} was made for epsilon = {identity.epsilon:g}, delta = {identity.delta:g} per "
            f"{identity.unit}, and [budget] differs",
            "give the budget that it was made for",
        )
    else:
        left = f", epsilon = {found.remaining.epsilon:g} left" if agent.setup.budget else ""
        yield ok("ledger", f"{path.name} is whole, with {found.releases} releases{left}")


def _changed(agent: ExaminedAgent, identity: object) -> bool:
    budget = agent.setup.config.budget
    stated = (budget.epsilon, budget.delta, budget.unit, budget.window or 0)
    return stated != tuple(getattr(identity, k) for k in ("epsilon", "delta", "unit", "window"))


def _key(agent: ExaminedAgent) -> bytes | None:
    """The key that seals the ledger, if it is there; one is not made here."""
    if agent.setup.config.keys is None or not agent.setup.ledger_key_file.exists():
        if agent.ledger.exists() and agent.setup.config.keys is not None:
            return agent.setup.ledger_key()  # raises: it is missing
        return None
    return key_of(agent.setup.read_ledger_key())


def locked_by(path: Path) -> str:
    """Who has a ledger open: "process 17", or nobody; the lock is left as it is."""
    try:
        file = os.open(lock_path(path), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        record = read_lock(path)
        return f"process {record.pid}" if record and record.pid else "another process"
    finally:
        os.close(file)
    return ""


def budget(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """One reading can be paid for, and how many can."""
    setup = agent.setup
    cost, chosen = agent.mechanism.event(1), setup.config.budget
    place = setup.locator.at("budget", "epsilon")
    if cost is None:
        yield warning("budget", "nothing is guaranteed, so nothing is charged")
        return
    if cost.epsilon > chosen.epsilon or cost.delta > chosen.delta:
        yield failure(
            "budget",
            f"{place}: a reading costs epsilon = {cost.epsilon:g}, delta = {cost.delta:g} and the "
            f"budget is epsilon = {chosen.epsilon:g}, delta = {chosen.delta:g}: none is released",
            "raise [budget] epsilon and delta to those of the scenario's [privacy], or agree on "
            "a scenario that asks for less",
        )
        return
    bought, needed = readings_bought(agent), setup.manifest.rounds
    online = setup.manifest.made_algorithm.online
    per = getattr(chosen, "per", None)
    unit = f"every {per}" if per else f"per {chosen.unit}"
    spent = f"epsilon = {chosen.epsilon:g} {unit} buys"
    if math.isinf(bought):
        yield ok("budget", f"{spent} every reading once, at epsilon = {cost.epsilon:g}")
    elif online and not per and chosen.unit == "stream" and (not needed or bought < needed):
        whole = f"{needed:,}" if needed else "a stream without end"
        yield warning(
            "budget",
            f"{place}: {spent} {bought:,.0f} readings of {whole}; the others are not released",
            f"epsilon = {needed * cost.epsilon:g} buys all"
            if needed
            else 'give a budget per day or window, or unit = "event"',
        )
    else:
        yield ok("budget", f"{spent} {bought:,.0f} readings at epsilon = {cost.epsilon:g} each")


def readings_bought(agent: ExaminedAgent) -> float:
    """How many readings the whole budget pays for, in its unit."""
    cost, chosen = agent.mechanism.event(1), agent.setup.config.budget
    if cost is None or chosen.unit == "event":
        return math.inf
    by_delta = chosen.delta / cost.delta if cost.delta else math.inf
    return math.floor(min(chosen.epsilon / cost.epsilon, by_delta) * (1 + 1e-12))


def accuracy(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """The interval of the estimate leaves something out that public bounds allow."""
    setup = agent.setup
    bought = readings_bought(agent)
    limited = setup.config.budget.unit == "stream" and not getattr(setup.config.budget, "per", None)
    problem = setup.problem
    if problem.algorithm.online and limited:
        rounds = max(1, int(min(problem.rounds, bought, MOST_READINGS)))
        problem = replace(problem, rounds=rounds)
    try:
        found = precision(problem)
        if found is not None:  # remedies are approximate; the width is what the agent will state
            low, high = statistic_bounds(problem.family)
            widths = half_width(
                setup.manifest, problem.family, label=agent.name, round=problem.rounds
            )
            found = replace(found, half_width=widths[int((high - low).argmin())])
    except MurmuraError as unknown:
        yield warning("accuracy", f"it cannot be predicted: {unknown}")
        return
    if found is None:
        yield ok("accuracy", "without noise or without public bounds there is nothing to compare")
    elif found.useful:
        yield ok(
            "accuracy",
            f"about +- {found.half_width:.3g} (95%) within [{found.low:g}, {found.high:g}], if "
            "all members take part",
        )
    else:
        yield warning("accuracy", found.warning())
