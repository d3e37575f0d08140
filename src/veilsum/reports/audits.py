"""The audits of a scenario's variants: every guarantee under attack, for the command and the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from veilsum import _extras
from veilsum.auditing import (
    AuditReport,
    Transcript,
    audit_likelihoods,
    audit_neighbour,
    audit_problem,
    best_connected,
    worst_neighbours,
)
from veilsum.errors import PrivacyError
from veilsum.privacy import Status
from veilsum.scenario import Job
from veilsum.simulation import Problem

FAULT, ROUNDS = 0.1, 3
MOST_NUMBERS = 1_000_000  # agents times rounds whose likelihoods every page has: a few seconds
MOST_OF_NEIGHBOURS = 100_000  # where thousands of adversaries are tried


class AuditedClaim(NamedTuple):
    """What an attack found, and the status of the guarantee that it attacked."""

    report: AuditReport
    status: Status


def audit_jobs(
    jobs: Sequence[Job],
    trials: int | None = None,
    rounds: int | None = None,
    fault: float = FAULT,
    colluders: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[AuditedClaim]:
    """Audit every variant that adds noise; signals are planted, those of a scenario are not read.

    Parameters
    ----------
    jobs
        Of a scenario.
    trials
        Runs a side; as many as `fault` needs without it.
    rounds
        How many rounds of messages are seen; 3 if left out.
    fault
        The fraction of the noise that, if it were missing, must be found.
    colluders
        Members that collude against a sum over a roster; as many as it covers without it.
    progress
        Called with a name, how many are done and how many there are.

    Returns
    -------
    list of AuditedClaim
        Several for Network DP: the signals, and neighbours' estimates.

    Raises
    ------
    PrivacyError
        If colluders are given and all noise is local, or rounds and none is.
    """
    noisy = [job for job in jobs if job.problem.run_epsilons]
    if colluders is not None and not any(job.problem.privacy.summed for job in noisy):
        origin = jobs[0].provenance
        name = "this scenario" if origin is None else origin.name
        raise PrivacyError(
            f"--colluders {colluders}: nothing of {name} is a sum over a roster; leave the "
            'option out, or set [privacy] mode = "secure"'
        )
    if rounds is not None and noisy and all(job.problem.privacy.summed for job in noisy):
        raise PrivacyError(
            f"--rounds {rounds}: a sum over a roster is attacked query by query, in which a signal "
            "is once; leave the option out"
        )
    rounds = ROUNDS if rounds is None else rounds
    found = []
    for done, job in enumerate(noisy):
        problem, guarantee = job.problem, job.problem.guarantee
        if progress is not None:
            progress(job.name, done, len(noisy))
        alone = guarantee.signals or guarantee
        who = colluders if problem.privacy.summed else None
        report = audit_problem(problem, trials, rounds, problem.seed, job.name, fault, who)
        found.append(AuditedClaim(report, alone.status))
        if problem.privacy.summed:
            name = f"{job.name}: drawn as by agents"
            exact = audit_problem(
                problem, rng=problem.seed, name=name, colluders=who, drawn_exactly=True
            )
            found.append(AuditedClaim(exact, alone.status))
        if guarantee.unit.neighbours and guarantee.status is not Status.NONE:
            more = _neighbours(problem, trials, rounds, f"{job.name}: neighbour", fault)
            found += [AuditedClaim(each, guarantee.status) for each in more]
    return found


def likelihoods(job: Job) -> list[AuditedClaim]:
    """What likelihoods alone find of a variant, the same each time.

    Nothing where they are not known or cost too much, or where a network needs scipy and there is none.
    """
    problem, guarantee = job.problem, job.problem.guarantee
    neighbours = guarantee.unit.neighbours and guarantee.status is not Status.NONE
    most = MOST_OF_NEIGHBOURS if neighbours else MOST_NUMBERS
    large = problem.network.size * problem.rounds > most
    if not problem.privacy.summed and (large or not _extras.available("scipy")):
        return []
    alone = guarantee.signals or guarantee
    report = audit_likelihoods(problem, job.name)
    found = [] if report is None else [AuditedClaim(report, alone.status)]
    if found and neighbours:
        more = worst_neighbours(problem, f"{job.name}: neighbour")
        found += [AuditedClaim(each, guarantee.status) for each in more]
    return found


def _neighbours(
    problem: Problem, trials: int | None, rounds: int, name: str, fault: float
) -> list[AuditReport]:
    """All adversaries that are cheap to try, exactly; samples of the worst, and of what follows."""
    reports = worst_neighbours(problem, name, trials, problem.seed, fault, sampled=True)
    last = min(1 + rounds, problem.rounds)
    if last > 2:
        view = Transcript((best_connected(problem),), last)
        label = f"{name}: rounds 2..{last}"
        reports.insert(1, audit_neighbour(problem, trials, 1, view, problem.seed, label, fault))
    return reports
