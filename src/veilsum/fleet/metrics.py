"""The status of fleets as metrics for Prometheus: text for a scrape, or a file for node_exporter's collector.

Every line is a number of `FleetStatus`; names of metrics begin with `veilsum_fleet_`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from veilsum.fleet.status import FleetStatus, FoundNumber, QuestionStatus

PREFIX = "veilsum_fleet"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Sample(NamedTuple):
    """One number: of which metric, with which labels."""

    name: str
    labels: dict[str, str]
    value: float | None


GAUGES = {
    "looked_at_seconds": "When this was so, in seconds since 1970.",
    "epoch": "Number of the membership; 0 before it has arrived.",
    "sites": "Members that have readings.",
    "stopped": "1 if this site has stopped for good.",
    "outbox": "Own releases whose body has not left.",
    "open_keys": "Keys of this keeper whose query is open.",
    "troubles": "Lines of the status that a person should look at, by kind.",
    "question_sites": "Sites that are in the answer.",
    "question_expected_sites": "Sites that could be in the answer.",
    "question_answered": "1 if there is an answer.",
    "question_late_slots": "Slots that are over, and that nobody has released.",
    "answer": "The answer; of a stream that of all slots.",
    "answer_low": "The lower end of its 95% interval.",
    "answer_high": "The upper end of its 95% interval.",
    "slot_answer": "Of a stream: the answer of the newest slot that most sites have.",
    "slot_answer_low": "The lower end of its 95% interval.",
    "slot_answer_high": "The upper end of its 95% interval.",
    "slot_end_seconds": "When that slot ended, in seconds since 1970.",
    "site_age_seconds": "How long ago a member last said what it holds.",
    "site_silent": "1 if that is much longer ago than that of others.",
    "site_behind_slots": "Slots that most sites have released and this one has not.",
    "site_forks": "Evidence that a member said two things.",
    "site_left_out": "1 if its posts are in no answer.",
    "site_epsilon": "Epsilon that a site spent here, as it posted.",
    "budget_epsilon_spent": "Epsilon of this site's data that counts now.",
    "budget_epsilon_limit": "Epsilon that may be spent.",
    "budget_until_seconds": "Until when the budget is enough, in seconds since 1970.",
    "store_reachable": "1 if a store of the board answered.",
}


def exposition(statuses: Iterable[FleetStatus]) -> str:
    """The text format of Prometheus, all metrics of all fleets."""
    found: dict[str, list[Sample]] = {}
    for status in statuses:
        for sample in samples(status):
            if sample.value is not None:
                found.setdefault(sample.name, []).append(sample)
    out = []
    for gauge in filter(found.__contains__, GAUGES):
        name = f"{PREFIX}_{gauge}"
        out += [f"# HELP {name} {GAUGES[gauge]}", f"# TYPE {name} gauge"]
        out += [f"{name}{_labels(one.labels)} {one.value!r}" for one in found[gauge]]
    return "".join(f"{line}\n" for line in out)


def write_metrics(path: Path, statuses: Iterable[FleetStatus]) -> None:
    """Replace a file at once, so that a collector never reads half of it."""
    path = Path(path)
    made = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        made.write_text(exposition(statuses), encoding="utf-8")
        made.chmod(0o644)
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)


def samples(status: FleetStatus) -> Iterator[Sample]:
    """All numbers of one fleet."""
    fleet = {"fleet": status.fleet}

    def one(name: str, value: float | None, **more: str) -> Sample:
        return Sample(name, fleet | more, value)

    yield one("looked_at_seconds", status.at)
    yield one("epoch", status.epoch)
    yield one("sites", len(status.sites))
    yield one("stopped", bool(status.stopped) + 0)
    yield one("outbox", len(status.outbox))
    yield one("open_keys", len(status.open_keys))
    kinds = [trouble.kind for trouble in status.attention]
    for kind in sorted(set(kinds)):
        yield one("troubles", kinds.count(kind), kind=kind)
    for question in status.questions:
        labels = {"question": question.terms, "title": question.label or question.title}
        yield from (Sample(s.name, fleet | labels | s.labels, s.value) for s in _question(question))
    for member in status.members:
        if member.roles:
            site = {"site": member.name}
            behind = member.behind
            yield one("site_age_seconds", member.age, **site)
            yield one("site_silent", member.silent + 0, **site)
            yield one("site_behind_slots", 0 if behind is None else behind.behind, **site)
            yield one("site_forks", len(member.forks), **site)
            yield one("site_left_out", bool(member.left_out) + 0, **site)
            yield one("site_epsilon", member.epsilon, **site)
    for budget in status.budgets:
        yield one("budget_epsilon_spent", budget.spent, source=budget.source)
        yield one("budget_epsilon_limit", budget.limit, source=budget.source)
        yield one("budget_until_seconds", budget.until, source=budget.source)
    for store in status.stores:
        yield one("store_reachable", (not store.problem) + 0, address=store.address)


def _question(one: QuestionStatus) -> Iterator[Sample]:
    yield Sample("question_sites", {}, one.inside)
    yield Sample("question_expected_sites", {}, one.of)
    yield Sample("question_answered", {}, bool(one.found) + 0)
    if one.every:
        yield Sample("question_late_slots", {}, one.late)
    yield from _numbers("answer", one.found)
    if one.latest is not None:
        yield from _numbers("slot_answer", one.latest.found)
        yield Sample("slot_end_seconds", {}, one.latest.end)


def _numbers(name: str, found: Sequence[FoundNumber]) -> Iterator[Sample]:
    for one in found:
        if one.detail:
            continue
        for k, value in enumerate(one.values):
            labels = {"quantity": one.quantity}
            if len(one.values) > 1:
                labels["component"] = one.labels[k] if one.labels else str(k)
            yield Sample(name, labels, value)
            yield Sample(f"{name}_low", labels, one.low[k])
            yield Sample(f"{name}_high", labels, one.high[k])


def _labels(labels: dict[str, str]) -> str:
    pairs = (f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items())
    return f"{{{','.join(pairs)}}}"
