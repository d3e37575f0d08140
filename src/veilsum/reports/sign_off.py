"""The page for the one who signs: one printable HTML document from a scenario's public terms.

Its sentences are in front/templates/sign; here are the numbers in them. The same scenario and version of
veilsum give the same page, byte for byte, so that what was signed can be compared with what is there.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from veilsum._numbers import upward
from veilsum.families.base import SIGNAL
from veilsum.families.support import Metric
from veilsum.front.odds import believed, in_words
from veilsum.front.page import page as rendered
from veilsum.privacy import Guarantee, PrivacyEvent, Status
from veilsum.privacy.accounting import Composition, compose, repeated
from veilsum.privacy.guarantee import BROKEN, MOST_USEFUL
from veilsum.reports.audits import AuditedClaim, audit_jobs, likelihoods
from veilsum.reports.claims import claims
from veilsum.reports.objections import objections
from veilsum.reports.periods import PeriodCost, period_costs
from veilsum.reports.terms import Mode, SignOffTerms
from veilsum.results import units
from veilsum.results.describe import describe_network, mechanisms_of, versions
from veilsum.scenario import Scenario

PRIORS = (0.5, 0.1, 0.01)
MULTIPLES = (2, 5, 10)


def sign_off(
    scenario: Scenario,
    variant: str | None = None,
    *,
    agent: Path | None = None,
    per_day: float | None = None,
    audit: bool = False,
    trials: int | None = None,
    reason: str = "",
) -> str:
    """The page, as text.

    Parameters
    ----------
    scenario
        The scenario.
    variant
        Of the scenario; without one that of the agent, or the first.
    agent
        An agent.toml, whose [budget] limits the totals.
    per_day
        Readings or runs a day, where [agents] has no schedule.
    audit
        Whether to attack the guarantee by samples, too, which takes a while. Without it the page has
        the verdict of the likelihoods, where these are known and cheap.
    trials
        Of the audit, a side; as many as find a tenth of the noise missing without it.
    reason
        Why an epsilon beyond 5 for the whole value is enough, in place of the scenario's
        `whole_value` under [report]. Without either the page says not to sign.

    Returns
    -------
    str
        HTML that fetches nothing and runs nothing.

    Raises
    ------
    ScenarioError
        If there is no such variant, or its parts do not fit together.
    AgentError
        If the agent runs another scenario or another variant.

    Examples
    --------
    >>> from veilsum.scenario import template
    >>> page = sign_off(Scenario.parse(template()), "average")
    >>> "at most 2.72 times more likely" in page
    True
    """
    terms = SignOffTerms.of(scenario, variant, agent, reason)
    return page(terms, per_day, attacks(terms, audit, trials))


def attacks(
    terms: SignOffTerms,
    sampled: bool = False,
    trials: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[AuditedClaim]:
    """What attacks on the guarantee found; nothing where nothing is guaranteed, or none was run."""
    if terms.signals.status is Status.NONE:
        return []
    if sampled:
        return audit_jobs([terms.job], trials, progress=progress)
    return likelihoods(terms.job)


def page(
    terms: SignOffTerms, per_day: float | None = None, audited: Sequence[AuditedClaim] = ()
) -> str:
    """The page of terms, with what attacks found."""
    values = _exposure(terms) | _choices(terms) | _totals(terms, per_day) | _attacks(terms, audited)
    return rendered(
        "sign/page.html",
        terms.scenario.title,
        terms=terms,
        mode=terms.mode.name.lower(),
        signals=terms.signals,
        guarantee=terms.guarantee,
        proved=terms.signals.status is Status.PROVED,
        report=terms.spec.report,
        family=terms.problem.family,
        unit=terms.job.unit,
        unit_word="reading" if terms.online else "signal",
        members=terms.problem.network.size,
        network=describe_network(terms.problem.network),
        most_useful=f"{MOST_USEFUL:g}",
        objections=objections(terms, audited),
        claims=claims(terms),
        in_full=units.in_sentence(str(terms.guarantee), terms.job.unit),
        file=Path(terms.scenario.source_map.file).name,
        seed_inside=terms.measured and terms.spec.seed is not None,
        versions=versions(),
        odds=in_words,
        upward=upward,
        count="{:,}".format,
        **values,
    )


def _exposure(terms: SignOffTerms) -> dict[str, Any]:
    """What is collected and sent, and what observers can conclude."""
    formula, every = terms.problem.family.formula, terms.spec.agents.every
    name, _, more = formula.partition(", ")
    plain = formula in SIGNAL
    return {
        "every": _duration(every) if every else "",
        "bounded": terms.spec.family.options.get("bounds") is not None,
        "plain": plain,
        "vector": plain and formula != "s",
        "statistic": f"{name} ({more})" if plain and more else formula,
        "noise": ", ".join(dict.fromkeys(mechanisms_of(terms.problem))) or "no",
        "summed": terms.summed,
        "broken": BROKEN.get(terms.guarantee.adversary.sees, ""),
        "attempts": 1 if terms.summed is None else terms.summed.attempts,
        "more_colluders": _more_colluders(terms),
        "all_messages": _all_messages(terms),
    }


def _duration(seconds: float) -> str:
    for name, length in (("day", 86_400.0), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= length and seconds % length == 0:
            count = int(seconds // length)
            return name if count == 1 else f"{count} {name}s"
    return f"{seconds:g} seconds"


def _more_colluders(terms: SignOffTerms) -> list[tuple[int, Composition]]:
    """More colluders than are covered, and what a query costs against them."""
    numbers = terms.summed
    if numbers is None:
        return []
    others = numbers.smallest_roster - 1
    counts = sorted({min(c, others) for c in (2 * numbers.colluders, numbers.colluders + 1)})
    delta = numbers.event.delta
    return [
        (count, repeated(PrivacyEvent.of(numbers.epsilon_against(count), delta), numbers.attempts))
        for count in counts
        if count > numbers.colluders
    ]


def _all_messages(terms: SignOffTerms) -> Guarantee | None:
    """What Network DP states of all messages of an agent; None where it limits nothing."""
    whole = terms.guarantee.for_transcript()
    proved = whole.status is Status.PROVED and not math.isinf(whole.epsilon)
    return whole if terms.mode is Mode.NETWORK and proved else None


def _choices(terms: SignOffTerms) -> dict[str, Any]:
    """Epsilon and the radius."""
    found, metric = terms.signals, terms.signals.unit.metric
    return {
        "categories": metric is Metric.DISCRETE,
        "in_l1": metric is Metric.L1,
        "beliefs": [(f"{p:.0%}", believed(found.epsilon, p)) for p in PRIORS if terms.holds],
        "larger": _larger(terms) if terms.holds and not found.unit.whole else [],
        "sensitivity": terms.problem.family.moves(found.unit.radius).reason if terms.holds else "",
    }


def _larger(terms: SignOffTerms) -> list[tuple[float, PrivacyEvent]]:
    """Differences beyond the radius, and what each costs by group privacy."""
    steps = {k: _steps(terms, k) for k in MULTIPLES}
    return [
        (k * terms.signals.unit.radius, terms.signals.cost.times(count))
        for k, count in steps.items()
        if count is not None
    ]


def _steps(terms: SignOffTerms, multiple: int) -> int | None:
    """Steps of at most a radius from one value to another, k radii apart; None if there are none."""
    support, size = terms.problem.family.support, terms.signals.unit.radius
    if (
        terms.signals.unit.metric is Metric.ABSOLUTE
        and multiple * size > support.high - support.low
    ):
        return None
    steps = multiple
    if support.integer:
        if size < 1:
            return None
        steps = math.ceil(multiple * size / math.floor(size))
    whole = terms.signals.unit.steps  # between any two values there are no more than these
    return steps if whole is None else int(min(steps, whole))


def _totals(terms: SignOffTerms, per_day: float | None) -> dict[str, Any]:
    """What readings, runs and variants add up to."""
    costs = _costs(terms, per_day)
    others = terms.other_variants if terms.holds else []
    return {
        "costs": costs,
        "year": costs[-1] if costs else None,
        "scheduled": bool(per_day or terms.per_day),
        "unlimited": any(cost.readings is None for cost in costs),
        "budget": terms.budget,
        "other_variants": [name for name, _ in others],
        "of_all_variants": compose([terms.signals.cost, *(cost for _, cost in others)])
        if others
        else None,
        "infinity": math.inf,
    }


def _costs(terms: SignOffTerms, per_day: float | None) -> list[PeriodCost]:
    """Of a day, a month and a year; of one run a day where nothing else is known of single runs."""
    given = per_day or terms.per_day or (None if terms.online else 1.0)
    return period_costs(terms.signals, given, terms.last, terms.budget)


def _attacks(terms: SignOffTerms, audited: Sequence[AuditedClaim]) -> dict[str, Any]:
    """The verdicts of attacks, and the command that attacks by samples."""
    reports = [report for report, _ in audited]
    file = Path(terms.scenario.source_map.file).name
    variant = "" if terms.spec.name == terms.scenario.name else f" --variant {terms.spec.name}"
    return {
        "attackable": terms.signals.status is not Status.NONE,
        "attacks": reports,
        "sampled": any(report.trials for report in reports),
        "confidence": max((r.confidence for r in reports if r.trials), default=0.0),
        "command": f"veilsum report {shlex.quote(file)}{variant} --audit",
    }
