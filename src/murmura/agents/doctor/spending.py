"""What the agent may spend: its ledger, its budget, and whether that buys anything."""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from murmura.agents.doctor.outcomes import CheckResult, ExaminedAgent, failure, ok, warning
from murmura.agents.doctor.purchase import Purchase
from murmura.agents.ledger import key_of, read_ledger, verify
from murmura.agents.ledger.opening import check_identity, check_original
from murmura.agents.ledger.records import release_terms
from murmura.agents.ledger.store import lock_path, read_lock
from murmura.agents.results import half_width
from murmura.errors import MurmuraError
from murmura.families import statistic_bounds
from murmura.theory import precision
from murmura.theory.accuracy import MOST_READINGS


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
    contents = read_ledger(path)
    identity = contents.identity
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
    else:
        check_original(path, contents)
        check_identity(path, identity, agent.setup.ledger_identity)
        left = f", epsilon = {found.remaining.epsilon:g} left" if agent.setup.budget else ""
        yield ok("ledger", f"{path.name} is whole, with {found.releases} releases{left}")


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
    """One reading and the longest batch can be paid for, and how many readings can."""
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
    bought, needed = Purchase(setup, cost), setup.manifest.rounds
    unit = f"every {chosen.per}" if chosen.per else f"per {chosen.unit}"
    spent = f"epsilon = {chosen.epsilon:g} {unit} buys"
    online = setup.manifest.made_algorithm.online
    limited = online and chosen.unit == "stream" and chosen.per is None
    if not bought.pays_for_batches:
        long = bought.longest < math.inf
        size = f"of {bought.longest:,.0f}" if long else "of ever more"
        total = f"epsilon = {bought.longest * cost.epsilon:g}" if long else "ever more"
        yield failure(
            "budget",
            f"{place}: a batch {size} readings costs {total}, and the budget is epsilon = "
            f"{chosen.epsilon:g}, delta = {chosen.delta:g} {unit}: nothing is released from the "
            "first batch that costs more",
            'choose unit = "event" if the budget is to be for each reading, or a larger budget, or '
            f"agree on longest = {bought.affordable:,} of batches at most in the scenario",
        )
    elif math.isinf(bought.readings):
        yield ok("budget", f"{spent} every reading once, at epsilon = {cost.epsilon:g}")
    elif limited and (not needed or bought.readings < needed):
        whole = f"{needed:,}" if needed else "a stream without end"
        yield warning(
            "budget",
            f"{place}: {spent} {bought.readings:,.0f} readings of {whole}; the others are not "
            "released",
            f"epsilon = {needed * cost.epsilon:g} buys all"
            if needed
            else 'give a budget per day or window, or unit = "event"',
        )
    else:
        batches = f", in batches of up to {bought.longest:,.0f}" if bought.longest > 1 else ""
        count = f"{bought.readings:,.0f} readings at epsilon = {cost.epsilon:g} each"
        yield ok("budget", f"{spent} {count}{batches}")


def accuracy(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """The interval of the estimate leaves something out that public bounds allow."""
    problem, cost = agent.setup.problem, agent.mechanism.event(1)
    condition = "if all members take part"
    if problem.algorithm.online and cost is not None:
        released = Purchase(agent.setup, cost).released(problem.rounds)
        rounds = max(1, min(released, MOST_READINGS))
        if rounds < problem.rounds:
            condition += f", after {rounds:,} readings of each"
        elif agent.setup.config.budget.per and not agent.setup.manifest.every:
            condition += " and the budget covers every reading"
        problem = replace(problem, rounds=rounds)
    try:
        found = precision(problem)
        if found is not None:  # remedies are approximate; the width is what the agent will state
            low, high = statistic_bounds(problem.family)
            widths = half_width(
                agent.setup.manifest, problem.family, label=agent.name, round=problem.rounds
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
            f"about +- {found.half_width:.3g} (95%) within [{found.low:g}, {found.high:g}], "
            f"{condition}",
        )
    else:
        yield warning("accuracy", f"{found.warning()} ({condition})")
