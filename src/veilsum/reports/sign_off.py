"""The page for the one who signs: one printable HTML document from a scenario's public terms.

The same scenario and version of veilsum give the same page, byte for byte, so that what was signed
can be compared with what is there.
"""

from __future__ import annotations

import math
from pathlib import Path

from veilsum._html import Markup, badge, document, element, facts, section, table
from veilsum.privacy import Status
from veilsum.privacy.accounting import compose, repeated
from veilsum.privacy.guarantee import MOST_USEFUL
from veilsum.privacy.odds import in_words, upward
from veilsum.reports import choices, exposure
from veilsum.reports.audits import AuditedClaim, audit_jobs
from veilsum.reports.claims import audit_table, claim_table
from veilsum.reports.periods import PeriodCost, period_costs
from veilsum.reports.terms import Mode, SignOffTerms
from veilsum.results.describe import describe_network, versions
from veilsum.scenario import Scenario


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
        Whether to attack the guarantee, which takes a while.
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
    return page(terms, per_day, audited_claims(terms, trials) if audit else None)


def audited_claims(terms: SignOffTerms, trials: int | None = None) -> list[AuditedClaim]:
    """What attacks on the guarantee found; nothing where nothing is guaranteed."""
    return [] if terms.signals.status is Status.NONE else audit_jobs([terms.job], trials)


def page(
    terms: SignOffTerms, per_day: float | None = None, audited: list[AuditedClaim] | None = None
) -> str:
    """The page of terms, with what an audit found; None if there was none."""
    title = f"{terms.scenario.title}: what it reveals at most"
    body = [
        element("h1", title),
        element("p", _what(terms), class_="faint"),
        *_first(terms, per_day, audited),
        section("What is collected", *exposure.collected(terms), name="collected"),
        section("What leaves a site", *exposure.leaves(terms), name="leaves"),
        section("Who could learn what", *exposure.learns(terms), name="who"),
        section("Epsilon in odds", *choices.odds(terms), name="epsilon"),
        section("The radius, and what it hides", *choices.radius(terms), name="radius"),
        section("What is assumed", *choices.assumptions(terms), name="assumed"),
        section("A day, a month, a year", *_totals(terms, per_day), name="totals"),
        section("Claims and their proofs", *claim_table(terms), name="claims"),
        section("Audit", *audit_table(audited), name="audit"),
        section("Versions and hashes", *_versions(terms), name="versions"),
        section("Signature", signature(), name="signature"),
    ]
    return document(title, body)


def _what(terms: SignOffTerms) -> str:
    variant = "" if terms.spec.name == terms.scenario.name else f", variant {terms.spec.name}"
    return (
        f"Scenario {terms.scenario.name}{variant}: {describe_network(terms.problem.network)}, "
        f"algorithm {terms.problem.algorithm.name}, {terms.mode}"
    )


def _first(
    terms: SignOffTerms, per_day: float | None, audited: list[AuditedClaim] | None
) -> list[Markup]:
    """The page in a paragraph, and reasons not to sign."""
    found, unit = terms.signals, "reading" if terms.online else "signal"
    parts = []
    if found.status is Status.PROVED:
        against = {
            Mode.MASKED: _colluding(found.adversary.colluders),
        }.get(terms.mode, "against all other members together")
        where = (
            "Their readings are in one file, and whoever controls the machine with it sees them all."
            if terms.measured
            else "There is no server; whoever controls a member's machine sees its readings."
        )
        text = (
            f"{terms.problem.network.size:,} members estimate together. {where} The messages are "
            f"{in_words(found.epsilon, found.delta)} under one value of a member's {unit} than under "
            f"another{'' if found.unit.whole else ' within the radius'}, {against}. This "
            f"{found.hides(terms.job.unit)}."
        )
        more = f"{_besides(terms)}{_together(terms, per_day)}"
        parts.append(
            element("p", badge(found.status, found.useful), f" {text}{more}", class_="lead")
        )
        if terms.reason and not found.useful:
            text = f"Beyond what is called useful (epsilon {MOST_USEFUL:g}). The reason given: "
            parts.append(element("p", text, terms.reason, class_="missing"))
    else:
        text = f"Not proved: {found.reason}."
        parts.append(element("p", badge(found.status, found.useful), f" {text}", class_="lead"))
    return parts + [
        element("p", f"Do not sign: {why}", class_="stop") for why in objections(terms, audited)
    ]


def _colluding(members: int) -> str:
    """Whom a masked sum holds against: with no colluders, outsiders alone."""
    if not members:
        return "for whoever is no member; any one member may learn more"
    return f"against up to {members} colluding members"


def _besides(terms: SignOffTerms) -> str:
    """What Network DP says of neighbours' estimates, beside the signals."""
    whole = terms.guarantee.for_transcript()
    if terms.mode is not Mode.NETWORK or whole.status is not Status.PROVED:
        return ""
    return (
        " For a neighbour's estimate that moves by 1 in one round, all messages of one agent are "
        f"{in_words(whole.epsilon, whole.delta)}."
    )


def _together(terms: SignOffTerms, per_day: float | None) -> str:
    """What the readings of a year say together: one reading is not what a habit shows in."""
    if not terms.online:
        return ""
    year = _costs(terms, per_day)[-1]
    words = in_words(year.epsilon, year.delta)
    return f" That is for one reading; for all readings of a year together it is {words}."


def objections(terms: SignOffTerms, audited: list[AuditedClaim] | None = None) -> list[str]:
    """What speaks against a signature, whatever the numbers are; empty if nothing does."""
    why = []
    if terms.signals.status is not Status.PROVED:
        why.append(f"the guarantee is not proved (its status is {terms.signals.status}).")
    elif terms.guarantee.status is not Status.PROVED:
        why.append(
            f"what is asked for besides signals is not proved ({terms.guarantee.status}): "
            f"{terms.guarantee.reason}."
        )
    if terms.holds and not terms.signals.useful and not terms.reason:
        whole = terms.signals.for_whole_value()
        found = "has no limit" if whole.status is Status.NONE else f"is {upward(whole.epsilon)}"
        why.append(
            f"epsilon for the whole value of a signal {found} (this "
            f"{terms.signals.hides(terms.job.unit)}), and beyond {MOST_USEFUL:g} a guarantee is one on "
            f"paper. Hide more ({'' if terms.signals.unit.whole else 'no radius, '}a smaller epsilon), or "
            "give the reason why this is enough: --reason, or whole_value under [report]."
        )
    if audited and any(report.refuted for report, _ in audited):
        why.append("the audit refutes a claim.")
    if terms.refused and terms.mode is Mode.NETWORK:
        why.append(f"real agents refuse this ({terms.refused.rstrip('.')}).")
    elif terms.measured and terms.refused and terms.mode is not Mode.NOTHING:
        why.append(
            f"real agents cannot run this ({terms.refused.rstrip('.')}), and the noise of a simulation "
            "is in floating point: its results may not be released."
        )
    if terms.measured and terms.spec.seed is not None:
        why.append(
            "the scenario has a seed and measured signals; whoever knows it can draw the noise of a "
            "simulation again. Remove the seed."
        )
    if terms.measured and terms.spec.replicas > 1:
        total = repeated(terms.signals.cost, terms.spec.replicas).epsilon
        why.append(
            f"{terms.spec.replicas} replicas release the same measured signals as often: together "
            f"epsilon = {upward(total)}. Set replicas = 1."
        )
    return why


def _costs(terms: SignOffTerms, per_day: float | None) -> list[PeriodCost]:
    """Of a day, a month and a year; of one run a day where nothing else is known of single runs."""
    given = per_day or terms.per_day or (None if terms.online else 1.0)
    return period_costs(terms.signals, given, terms.last, terms.budget)


def _totals(terms: SignOffTerms, per_day: float | None) -> list[Markup]:
    found, given = terms.signals, per_day or terms.per_day
    if not terms.holds:
        return [element("p", "Nothing is guaranteed: there is no total.", class_="stop")]
    what = "readings" if terms.online else "runs"
    assumed = not terms.online and given is None
    costs = _costs(terms, per_day)
    rows = [
        (
            cost.span,
            "no limit" if cost.readings is None else f"{cost.readings:,}",
            "no limit" if math.isinf(cost.epsilon) else upward(cost.epsilon),
            in_words(cost.epsilon, cost.delta),
            "the budget" if cost.by_budget else "-",
        )
        for cost in costs
    ]
    heads = ("all of", f"{what} at most", "epsilon", "whatever is seen is", "limited by")
    said = [table(heads, rows, stacked=True)]
    if terms.online and given is None and terms.last is not None:
        text = (
            f"There is no schedule: a run of {terms.last:,} readings may take place in a day. Set "
            "every under [agents], or --per-day."
        )
        said.append(element("p", text, class_="missing"))
    elif any(cost.readings is None for cost in costs):
        text = (
            "Nothing limits the readings of a day. Set every under [agents], or a [budget] for all "
            "readings or for a period."
        )
        said.append(element("p", text, class_="stop"))
    if terms.last is not None:
        text = (
            f"The table is for one run, which ends after {terms.last:,} readings; each further run on the "
            "same people adds up."
        )
        said.append(element("p", text))
    elif assumed:
        text = (
            f"One run costs epsilon = {upward(found.epsilon)}. The table is for one run a day on signals of "
            "the same people; --per-day changes that."
        )
        said.append(element("p", text))
    said.append(element("p", _budget(terms)))
    others = terms.other_variants
    if others:
        total = compose([found.cost, *(cost for _, cost in others)])
        text = (
            f"The scenario has other variants on the same signals ({', '.join(n for n, _ in others)}). "
            f"Where they are run too, all costs add up: together epsilon = {upward(total.epsilon)}."
        )
        said.append(element("p", text, class_="missing"))
    numbers = terms.masked
    if numbers is not None and numbers.attempts > 1:
        text = (
            f"A query takes up to {numbers.attempts} sessions, which are counted; where the first "
            f"session succeeds, the cost is 1/{numbers.attempts} of it."
        )
        said.append(element("p", text, class_="faint"))
    text = (
        "These are sums over everything that one person's readings reveal together: that is what "
        "counts for a habit or an illness that shows in all of them. For what shows in one reading "
        "only, the epsilon of one reading counts."
    )
    return [*said, element("p", text, class_="faint")]


def _budget(terms: SignOffTerms) -> str:
    site, budget = terms.site, terms.budget
    if site is None or budget is None:
        return (
            "No budget was given: `--agent agent.toml` takes the [budget] of a site into account."
        )
    if budget.per is not None:
        what = f"per {budget.per} ({budget.refill})"
    elif budget.window:
        what = f"for {budget.window} readings in a row"
    else:
        what = "for each reading" if budget.unit == "event" else "for all readings together"
    return (
        f"Budget of the site {site.name}: epsilon = {budget.epsilon:g} {what}. Its ledger refuses a release "
        "that exceeds it."
    )


def _versions(terms: SignOffTerms) -> list[Markup]:
    """Versions and hashes; that of a text with a seed for measured signals is left out."""
    secret = terms.measured and terms.spec.seed is not None
    digest = "left out: the text has the seed of the noise" if secret else terms.scenario.digest
    manifest = terms.manifest or (
        f"not complete: {terms.lacking}" if terms.lacking else "none: agents cannot run it"
    )
    rows: list[tuple[object, object]] = [
        ("scenario", Path(terms.scenario.source_map.file).name),
        ("sha256 of the scenario", element("span", digest, class_="hash")),
        ("sha256 of the agents' terms (manifest)", element("span", manifest, class_="hash")),
        ("made with", ", ".join(f"{name} {number}" for name, number in versions().items())),
    ]
    text = (
        "The same scenario and the same version of veilsum make the same page. Agents whose manifest "
        "has another hash do not talk to one another; `veilsum ledger report` shows it."
    )
    return [facts(rows), element("p", text, class_="faint")]


def signature() -> Markup:
    """Three lines to write on."""
    fields = ("Name and function", "Signature", "Date")
    return element(
        "div",
        *(element("div", element("span", "", class_="fill"), element("span", name, class_="faint"))
          for name in fields),
        class_="sign",
    )  # fmt: skip
