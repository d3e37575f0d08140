"""What is collected, what leaves a site, and who could learn what: by the mode of protection."""

from __future__ import annotations

import math

from veilsum._html import Markup, bullets, element, facts, table
from veilsum.families.base import SIGNAL
from veilsum.privacy import MaskedParameters
from veilsum.privacy.accounting import PrivacyEvent, repeated
from veilsum.privacy.odds import in_words
from veilsum.reports.terms import Mode, SignOffTerms
from veilsum.results.describe import mechanisms_of

NOTHING, EVERYTHING = "nothing from the contents", "everything: the readings are there"


def amount(value: float, unit: str) -> str:
    """A number in the unit of the signals."""
    return f"{value:g} {unit}" if unit else f"{value:g} (in the units of the signal)"


def stated(text: str, key: str) -> object:
    """What the scenario says, or a line to fill in."""
    if text.strip():
        return text.strip()
    hint = f'Not stated. Set {key} = "..." under [report], or write it here: '
    return element("span", hint, element("span", "", class_="fill"), class_="missing")


def collected(terms: SignOffTerms) -> list[Markup]:
    """Signals, their bounds, how many of whom, and how often."""
    spec, problem, unit = terms.spec, terms.problem, terms.job.unit
    family, every = problem.family, spec.agents.every
    bounded = spec.family.options.get("bounds") is not None
    clipped = "; what lies outside counts as the nearest bound" if bounded else ""
    how_often = "one signal of each member, in one run"
    if terms.online:
        length = "without an end" if terms.last is None else f"{terms.last:,} readings at most"
        schedule = f"one every {_duration(every)}" if every else "without a schedule"
        how_often = f"a stream of readings of each member: {schedule}, {length} in a run"
    rows: list[tuple[object, object]] = [
        ("Purpose", stated(spec.report.purpose, "purpose")),
        ("Signal", stated(spec.report.signal, "signal")),
        ("Unit", unit or "not stated"),
        ("Values", f"{family.support.describe()}{clipped}"),
        ("How often", how_often),
        ("Members", f"{problem.network.size:,}"),
        ("Used for", f"the mean of {_of(family.formula)} over all members (family {family.name})"),
        ("Readings are", _kept(terms)),
        ("Files hold", _files(terms)),
        ("Kept for", stated(spec.report.kept, "kept")),
        ("Run by", stated(spec.report.operator, "operator")),
    ]
    said = [facts(rows)]
    if not terms.measured:
        text = (
            "This file names no readings: a simulation draws them. With real agents each site reads "
            "its own, under the same terms."
        )
        said.append(element("p", text, class_="faint"))
    return said


def _kept(terms: SignOffTerms) -> str:
    """Where the readings are: in the scenario's file, or on the sites of agents."""
    if terms.measured:
        return (
            f"those of all members in one file, {terms.spec.signals.file}, on the machine that runs "
            "this scenario; it stays there until somebody deletes it"
        )
    return "on the site that measured them; veilsum sends none"


def _files(terms: SignOffTerms) -> str:
    """What is written, and what becomes of it."""
    if not terms.measured:
        return (
            "on each site, its ledger: what was released, with its noise, and the cost; an agent "
            "whose ledger is gone releases nothing. In its spool, encrypted, readings that are not "
            "released yet. Results: estimates with noise. veilsum deletes readings from the spool when "
            "they are released, and nothing else"
        )
    secret = (
        "; and, as the scenario asks for it, evaluation.secret files: errors that follow from the "
        "readings without noise, as secret as they are"
        if terms.spec.record.evaluate
        else ""
    )
    return f"estimates with noise, figures and the guarantee{secret}; veilsum deletes none of them"


def _of(formula: str) -> str:
    name, _, more = formula.partition(", ")
    return f"{name} ({more})" if more and formula in SIGNAL else formula


def leaves(terms: SignOffTerms) -> list[Markup]:
    """What is sent, and what stays."""
    problem = terms.problem
    noise = ", ".join(dict.fromkeys(mechanisms_of(problem))) or "no"
    formula = problem.family.formula
    vector = formula in SIGNAL and formula != "s"
    statistic = f"{formula} of the signal s"
    if formula in SIGNAL:
        statistic = "the signal s, a vector," if vector else "the signal s"
    summed = "Skellam" if terms.signals.delta else "discrete Laplace"
    if terms.mode is Mode.NOTHING:
        text = f"{statistic}, as it is: no noise is added and nothing is protected."
        return [element("p", text, class_="stop")]
    sent = {
        Mode.LOCAL: [
            f"Of each reading one value: {statistic}, with {noise} noise that is drawn once and "
            "never again. Everything sent later is computed from such values.",
        ],
        Mode.NETWORK: [
            f"In each round one message: the agent's estimate, into which {statistic} enters with "
            f"{noise} noise, drawn anew in each round. The noise also hides what neighbours sent.",
        ],
        Mode.MASKED: [
            f"Of each query one padded value{_attempts(terms)}: {statistic} on a public grid, with a "
            "small part of the noise, hidden by masks that cancel in the sum over the members of a "
            "roster. One padded value alone is uniformly random.",
            "What all padded values together reveal: the sum over the roster, with at least one full "
            f"{summed} noise in it that no adversary within the limits knows.",
        ],
    }[terms.mode]
    if problem.privacy.batches is not None:
        sent.append(f"Readings are added up first, in {problem.privacy.batches}.")
    sent.append(
        "Public besides: who takes part, how many readings of each member were released, and when."
    )
    kept = (
        "Never sent: a reading, the noise, private keys, and anything whose size follows from a "
        "reading."
    )
    return [bullets([*sent, kept])]


def _attempts(terms: SignOffTerms) -> str:
    """How many padded values there are, where a query may take several sessions."""
    tries = terms.masked.attempts if terms.masked is not None else 1
    return f" in each attempt, with new noise and masks, {tries} at most" if tries > 1 else ""


def learns(terms: SignOffTerms) -> list[Markup]:
    """A row for each observer: what it sees, and what it can conclude about one reading."""
    heads = ("who", "sees", "can conclude about one reading")
    if terms.mode is Mode.NOTHING:
        rows = [("anyone who sees a message", "the statistic", "everything that it reveals")]
        return [table(heads, rows, stacked=True)]
    limit = terms.limit
    wire = "who communicates with whom, when and how much; contents are encrypted"
    first = [("an eavesdropper on the wire", wire, NOTHING)]
    middle = _masked_rows(terms, limit) if terms.mode is Mode.MASKED else _local_rows(terms, limit)
    sent = "" if terms.mode is Mode.NETWORK else "estimates, "
    last = [
        (
            "an observer that a site allows",
            f"{sent}who takes part, what is spent, when and how the site works",
            "no more than the above; when and how a site works is not limited by epsilon",
        ),
        (
            "whoever receives the answer",
            "numbers computed from the above",
            "no more than the above",
        ),
        (
            "a thief of a site's ledger",
            "what was released, and its cost",
            "no more than the above; with the site's private key also rows that can be guessed",
        ),
        ("whoever controls a site's machine", "that site's readings", EVERYTHING),
        (
            "the holder of the authority's key",
            "nothing by itself; can admit members",
            "nothing about past readings",
        ),
    ]
    return [table(heads, [*first, *middle, *last], stacked=True)]


def _local_rows(terms: SignOffTerms, limit: str) -> list[tuple[str, str, str]]:
    rows = [
        ("a neighbour", "sums of values that were released", limit),
        (
            "all other members together, or whoever sees all messages of all",
            "every released value exactly",
            limit,
        ),
    ]
    if terms.mode is Mode.NETWORK:
        whole = terms.guarantee.for_transcript()
        found = (
            "not limited: " + terms.guarantee.reason
            if math.isinf(whole.epsilon) or terms.guarantee.status != "proved"
            else in_words(whole.epsilon, whole.delta)
        )
        rows.append(
            (
                f"whoever sees all messages of one agent over {terms.problem.rounds:,} rounds",
                "estimates with noise",
                f"about a neighbour's estimate that moved by 1 in one round: {found}; who combines "
                "the messages of k agents learns up to k times as much (epsilon)",
            )
        )
    return rows


def _masked_rows(terms: SignOffTerms, limit: str) -> list[tuple[str, str, str]]:
    numbers = terms.masked
    if numbers is None:
        return [("anyone", "", "not limited: " + terms.guarantee.reason)]
    others = numbers.smallest_roster - 1
    counts = sorted({min(c, others) for c in (2 * numbers.colluders, numbers.colluders + 1)})
    rows = [
        (
            f"up to {numbers.colluders} of the other members together, with all messages"
            if numbers.colluders
            else "whoever is no member, with all messages",
            "padded values, their own masks and noise, and the noised sum of the rest"
            if numbers.colluders
            else "padded values, and the noised sum",
            f"{limit}, over the {numbers.attempts} sessions of a query"
            if numbers.attempts > 1
            else limit,
        )
    ]
    rows += [
        (
            f"{count} of the other members together",
            "the same, and less noise that they do not know",
            f"{_against(numbers, count)}: beyond the guarantee",
        )
        for count in counts
        if count > numbers.colluders
    ]
    return [
        *rows,
        (
            "all other members together",
            "everything but this member's own small noise",
            "nearly the statistic itself",
        ),
        (
            "whoever records the messages and breaks X25519 later",
            "the padded values without their masks",
            "nearly the statistic itself; local noise has no such end",
        ),
        (
            "one member that lies",
            "nothing more",
            "nothing more; but it can move the answer within its bounds, unnoticed",
        ),
    ]


def _against(numbers: MaskedParameters, count: int) -> str:
    """What more colluders than covered could conclude, over all sessions of a query."""
    session = PrivacyEvent.of(numbers.epsilon_against(count), numbers.event.delta)
    query = repeated(session, numbers.attempts)
    return in_words(query.epsilon, query.delta)


def _duration(seconds: float) -> str:
    for name, length in (("day", 86_400.0), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= length and seconds % length == 0:
            count = int(seconds // length)
            return name if count == 1 else f"{count} {name}s"
    return f"{seconds:g} seconds"
