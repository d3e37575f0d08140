"""What the agent may spend: its ledger, its budget, and whether that buys anything."""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from veilsum._numbers import upward
from veilsum.agents.doctor.outcomes import CheckResult, ExaminedAgent, failure, ok, warning
from veilsum.agents.doctor.purchase import Purchase
from veilsum.agents.ledger import LedgerContents, read_ledger, verify
from veilsum.agents.ledger.lock import lock_path, read_lock
from veilsum.agents.ledger.opening import check_identity, check_original
from veilsum.agents.ledger.queries import run_name
from veilsum.agents.results import NO_INTERVAL, half_width
from veilsum.agents.versions import LEDGER
from veilsum.errors import VeilsumError
from veilsum.privacy import Batches
from veilsum.privacy.accounting import repeated
from veilsum.simulation import Problem
from veilsum.theory import precision
from veilsum.theory.accuracy import MOST_READINGS


def ledger(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """It can be made, or it is whole, belongs to this agent and these terms, and is not in use."""
    path = agent.ledger
    key = None if agent.insecure else _key(agent)
    recorded = read_lock(path)
    if recorded is not None and recorded.releases and not path.exists():
        yield failure(
            "ledger",
            f"{path} is missing, and its lock file records {recorded.releases} releases",
            "restore the latest copy of the ledger",
        )
        return
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
    else:
        check_original(path, contents)
        check_identity(path, contents, agent.setup.ledger_identity)
        had = contents.meta["format"]
        later = (
            "" if int(had) == LEDGER.newest else f"; it has format {had}, and the start migrates it"
        )
        said = f"{path.name} is whole, with {found.releases} releases{_left(contents)}{later}"
        yield ok("ledger", said)


def _key(agent: ExaminedAgent) -> bytes | None:
    """The key that seals the ledger, if it is there; one is not made here."""
    if not (agent.setup.ledger_key_file.exists() or agent.ledger.exists()):
        return None
    return agent.setup.ledger_key()  # raises if it is missing


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
    cost, chosen = agent.cost, setup.config.budget
    place = setup.locator.at("budget", "epsilon")
    if cost is None:
        yield warning("budget", "nothing is guaranteed, so nothing is charged")
        return
    if cost.epsilon > chosen.epsilon or cost.delta > chosen.delta:
        yield failure(
            "budget",
            f"{place}: {_what(agent)} costs epsilon = {cost.epsilon:g}, delta = {cost.delta:g} and the "
            f"budget is epsilon = {chosen.epsilon:g}, delta = {chosen.delta:g}: none is released",
            _enough(agent),
        )
        return
    refused = _next_refused(agent)
    if refused is not None:
        yield refused
        return
    bought, needed = Purchase(setup, cost), setup.manifest.rounds
    unit = f"every {chosen.per}" if chosen.per else f"per {chosen.unit}"
    spent = f"epsilon = {chosen.epsilon:g} {unit} buys"
    online = setup.manifest.made_algorithm.online
    limited = online and chosen.unit == "stream" and chosen.per is None
    if not bought.pays_for_batches:
        long = bought.longest < math.inf
        size = f"of {bought.longest:,.0f}" if long else "of ever more"
        total = (
            f"epsilon = {upward(cost.times(int(bought.longest)).epsilon, 6)}"
            if long
            else "ever more"
        )
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
            f"epsilon = {upward(repeated(cost, needed).epsilon, 6)} buys all"
            if needed
            else 'give a budget per day or window, or unit = "event"',
        )
    else:
        batches = f", in batches of up to {bought.longest:,.0f}" if bought.longest > 1 else ""
        count = f"{bought.readings:,.0f} readings at epsilon = {cost.epsilon:g} each"
        yield ok("budget", f"{spent} {count}{batches}")


def _enough(agent: ExaminedAgent) -> str:
    """The least budget that one reading needs, and where it comes from."""
    less = "or agree on a scenario that asks for less"
    if not agent.masked:
        return f"raise [budget] epsilon and delta to those of the scenario's [privacy], {less}"
    manifest, cost = agent.setup.manifest, agent.cost
    assert cost is not None
    delta = f" and delta = {cost.delta:g}" if cost.delta else ""
    return (
        f"raise [budget] to epsilon = {cost.epsilon:g}{delta}, what a query of up to "
        f"{manifest.attempts} attempts costs; {less}"
    )


def _next_refused(agent: ExaminedAgent) -> CheckResult | None:
    """What the ledger would answer to the next query or release, if it would refuse it."""
    one, length = agent.cost_of_attempt, 0
    if one is not None and agent.ledger.exists() and not locked_by(agent.ledger):
        contents = read_ledger(agent.ledger)
        known = contents.identity == agent.setup.ledger_identity  # else it is not opened at all
        length = _next_length(agent, contents) if known else 0
    if one is None or not length:
        return None
    problem = contents.refusal(one, length, agent.setup.manifest.attempts)
    if problem is None:
        return None
    if problem.final and agent.masked:
        return failure("budget", f"the ledger does not admit the next query: {problem}")
    return warning("budget", f"the ledger does not admit the next reading now: {problem}")


def _next_length(agent: ExaminedAgent, contents: LedgerContents) -> int:
    """How many readings are paid for next; 0 if none is, or if they have been reserved for."""
    manifest, queries = agent.setup.manifest, contents.queries
    done = len(contents.entries) if not agent.masked else 0
    if agent.masked:
        run = run_name(manifest.digest, bytes.fromhex(manifest.nonce))
        if queries and not queries[-1].reason and queries[-1].run == run:
            return 0
        done = max((row.query for row in queries if row.run == run), default=0)
    if not manifest.made_algorithm.online:
        return 0 if done else 1
    batches, end, start = Batches(manifest.batch_growth, manifest.longest_batch), 0, 0
    for _ in range(done + 1):
        start, end = end, batches.closing(end + 1)
    rounds = manifest.rounds
    return 0 if rounds and start >= rounds else min(end, rounds or end) - start


def _left(contents: LedgerContents) -> str:
    """What the ledger has for the next reading."""
    if contents.identity.budget is None:
        return ""
    status = contents.status
    reserved = f", {status.reserved.epsilon:g} reserved" if status.reserved.epsilon else ""
    return f", epsilon = {status.remaining.epsilon:g} left for the next reading{reserved}"


def _what(agent: ExaminedAgent) -> str:
    """What is paid for at once: in a masked sum, all attempts before the first begins."""
    tries = agent.setup.manifest.attempts
    return f"a query of up to {tries} attempts" if agent.masked else "a reading"


def accuracy(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """The interval of the estimate leaves something out that public bounds allow."""
    problem, cost = agent.setup.problem, agent.cost
    condition = "if all members take part"
    if problem.algorithm.online and cost is not None:
        released = Purchase(agent.setup, cost).released(problem.rounds)
        rounds = max(1, min(released, MOST_READINGS))
        if rounds < problem.rounds:
            condition += f", after {rounds:,} readings of each"
        elif agent.setup.config.budget.per and not agent.setup.manifest.every:
            condition += " and the budget covers every reading"
        problem = replace(problem, rounds=rounds)
    manifest = agent.setup.manifest
    if manifest.clip and not manifest.tolerance:
        yield warning("accuracy", f"results have {NO_INTERVAL}")
        return
    try:
        found = precision(problem)
        if found is not None:  # remedies are approximate; the width is what the agent will state
            low, high = problem.family.moves(math.inf).range
            widths = _widths(agent, problem)
            found = replace(found, half_width=widths[int((high - low).argmin())])
    except VeilsumError as unknown:
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


def _widths(agent: ExaminedAgent, problem: Problem) -> tuple[float, ...]:
    """What the agent will state after all readings; in a masked sum a round is a query."""
    manifest, rounds = agent.setup.manifest, problem.rounds
    if not agent.masked:
        agreed = manifest.tolerance > 0  # in clipped rounds an interval needs it
        return half_width(manifest, problem.family, label=agent.name, round=rounds, agreed=agreed)
    queries, readings = 1, 1
    if problem.algorithm.online:
        lengths = Batches(manifest.batch_growth, manifest.longest_batch).lengths(rounds)
        queries, readings = len(lengths), sum(lengths)
    counts = [readings] * len(manifest.members)
    return half_width(manifest, problem.family, counts, round=queries)
