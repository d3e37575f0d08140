"""Epsilon, radius and assumptions in words: what was chosen, what it hides, and what must be true."""

from __future__ import annotations

import math

from veilsum._html import Markup, bullets, element, table
from veilsum.families.support import Metric
from veilsum.privacy import Guarantee, MaskedParameters, Status
from veilsum.privacy.odds import believed, in_words, upward
from veilsum.reports.exposure import amount, stated
from veilsum.reports.terms import Mode, SignOffTerms

PRIORS = (0.5, 0.1, 0.01)
MULTIPLES = (2, 5, 10)


def odds(terms: SignOffTerms) -> list[Markup]:
    """Epsilon as odds, and what an observer may believe afterwards."""
    found = terms.signals
    if not terms.holds:
        return [element("p", f"Nothing is guaranteed: {found.reason}.", class_="stop")]
    delta = f", delta = {upward(found.delta, 3)}" if found.delta else ""
    unit = "one reading" if terms.online else "one signal"
    moved = _moves(terms)
    proved = found.status is Status.PROVED
    condition = "" if proved else f"If what is {found.status} holds, and it is not proved: "
    text = (
        f"{condition}Epsilon = {upward(found.epsilon)}{delta} for {unit}. Take any two values of it {moved}: "
        f"whatever an observer sees is {in_words(found.epsilon, found.delta)} (or less likely) under "
        "one than under the other."
    )
    rows = [(f"{prior:.0%}", believed(found.epsilon, prior)) for prior in PRIORS]
    return [
        element("p", text),
        table(
            ("who believes in one of the two with", "believes in it afterwards with at most"),
            rows,
            stacked=True,
        ),
        *(
            [
                element(
                    "p",
                    f"Except with probability {upward(found.delta, 3)}, for which nothing is limited.",
                )
            ]
            if found.delta
            else []
        ),
        element("p", "Why this epsilon: ", stated(terms.spec.report.epsilon, "epsilon")),
    ]


def _moves(terms: SignOffTerms) -> str:
    unit = terms.signals.unit
    if unit.metric is Metric.DISCRETE:
        return "(any two categories)"
    if unit.whole:
        return "(any two values between the bounds)"
    norm = " in l1 norm" if unit.metric is Metric.L1 else ""
    return f"that differ by at most {amount(unit.radius, terms.job.unit)}{norm}"


def radius(terms: SignOffTerms) -> list[Markup]:
    """What the radius hides and what it does not."""
    found, spec = terms.signals, terms.spec
    if not terms.holds:
        return [element("p", "Nothing is hidden.", class_="stop")]
    size, unit = found.unit.radius, terms.job.unit
    why = element("p", "Why this radius: ", stated(spec.report.radius, "radius"))
    everything = found.unit.whole
    text = f"The noise is sized for it: {terms.problem.family.sensitivity(size).reason}."
    if terms.problem.privacy.reads_signals:
        text = (
            f"The scale of the noise follows the signal (sensitivity {spec.privacy.sensitivity}): it "
            "is as secret as the signal, and agents refuse it."
        )
    noise = element("p", text, class_="faint")
    if everything:
        text = "The whole value is hidden: the guarantee compares any two values that are possible."
        return [element("p", text), why, noise]
    text = (
        f"The radius is {amount(size, unit)}. It is the difference that must not be noticed: an "
        f"appliance, a meal, a dose. This {found.hides(unit)}. Differences that are larger are "
        "hidden less, step by step:"
    )
    rows = [
        (f"{amount(k * size, unit)}", upward(found.cost.times(steps).epsilon), _after(found, steps))
        for k, steps in ((k, _steps(terms, k)) for k in MULTIPLES)
        if steps is not None
    ]
    heads = ("two values that differ by", "epsilon", "whatever is seen is")
    if not rows:
        return [element("p", f"{text.removesuffix(', step by step:')}."), why, noise]
    return [element("p", text), table(heads, rows, stacked=True), why, noise]


def _after(found: Guarantee, steps: int) -> str:
    """Group privacy in words."""
    cost = found.cost.times(steps)
    if cost.delta > 0.5:
        return "not limited: delta would be above 0.5"
    return in_words(cost.epsilon, cost.delta)


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


def assumptions(terms: SignOffTerms) -> list[Markup]:
    """What must be true, for the one who signs to check."""
    spec = terms.spec
    items: list[object] = [
        "The bounds on values, the radius and epsilon were chosen before any reading was looked at.",
        element(
            "span",
            "Independence: the guarantee compares two values of one member's reading while all others "
            "stay as they are. Where members resemble one another (a building, a family, an epidemic), "
            "the others' releases say something of this one's reading that no epsilon here limits. ",
            stated(spec.report.independence, "independence"),
        ),
        "Authority: whoever holds the key of the certificates' authority can admit members, and "
        "whoever writes the scenario decides who they are.",
        "Each site's machine is trusted with that site's readings, and runs veilsum as installed.",
        "One name, one ledger: a ledger that is copied or lost can release a reading twice.",
        "How many readings there are, and when, is not secret.",
    ]
    if terms.refused:
        items.insert(
            0,
            element(
                "span",
                f"Real agents cannot run this variant: {terms.refused}. What follows from it is a "
                "simulation, whose noise is in floating point: its results are for those who hold the "
                "readings, and not to be released.",
                class_="missing",
            ),
        )
    numbers = terms.masked
    if terms.mode is Mode.MASKED and numbers is not None:
        items += [
            element(
                "span",
                f"Colluders: {_colluding(numbers)}, counted by label: an operator of many sites is as many "
                "colluders, and so is each member that leaves its noise out. Nobody can check this by "
                "software. ",
                stated(spec.report.colluders, "colluders"),
            ),
            f"At least {numbers.smallest_roster:,} members take part in a sum, of which "
            f"{numbers.honest:,} follow the protocol and do not collude.",
            "Cryptography: nobody can break X25519, HKDF, ChaCha20 or Ed25519, now or while the "
            "readings must stay secret.",
        ]
    return [bullets(items)]


def _colluding(numbers: MaskedParameters) -> str:
    """What is assumed of the members; one that uses what it knows by itself is a colluder, too."""
    if not numbers.colluders:
        return f"none of the {numbers.n:,} members uses what it knows, not even by itself"
    return f"at most {numbers.colluders} of the {numbers.n:,} members pool what they know"
