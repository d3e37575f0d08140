"""A question to a fleet: what one signed post says, the same bytes for the same question everywhere.

    FleetQuestion ── data ──> canonical JSON ── SHA-256 ──> digest
                  └─ settled() ──> questions, units, shares, noise: `asking.settle`, public, no row is read

All questions of a post are released together: their vectors make one vector of whole numbers, for one
price. A site adds its noise to it (`pool`), or its share of one noise (`secure-sum`); which laws can be
drawn so is what a `ReleaseRule` says, and nothing else.

Questions in stages are asked at once where they have such a form: a stage that follows what a stage before
released would need a second post of every site.

What is settled here is settled again at every site. `settles`, a hash of it, stops a site whose version of
veilsum would settle it differently, before it adds another vector than the others.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Any

from veilsum import _validate
from veilsum.asking.settling import Settled, settle
from veilsum.errors import FleetError, QuestionError, VeilsumError
from veilsum.fleet.plain import is_texts, misfit, types_of
from veilsum.fleet.release_rules import POOL, ReleaseRule, rule_of
from veilsum.fleet.schedule import Timetable
from veilsum.privacy.accounting import PrivacyEvent
from veilsum.privacy.laws import Law
from veilsum.questions import By, Question
from veilsum.questions.columns import text_of
from veilsum.questions.noise import GridNoise
from veilsum.questions.options import made, words_of

FORMAT = 1
DOMAIN = b"veilsum fleet question\0"
LONGEST_TEXT = 120  # characters of a label or a nonce
LARGEST = 1 << 16  # bytes of a question
MOST_QUESTIONS = 64
MOST_CELLS = 1 << 14  # before trees and other sums are made of them
MOST_SITES_PER_PERSON = 1000
MOST_RECORDS = 1 << 40  # of one site
USUAL_RECORDS = 1_000_000

Words = Mapping[str, Sequence[Sequence[str]]]  # flag -> the words of each time that it is given


@dataclass(frozen=True)
class Worded:
    """One question in words.

    >>> Worded("mean", ("kwh",), {"--between": [["0", "40"]]}).question.name
    'mean'
    """

    name: str  # of `veilsum.questions`
    columns: tuple[str, ...]
    options: Words = field(default_factory=dict)  # as `questions.options.made` takes them

    def __post_init__(self) -> None:
        """Take plain tuples; refuse what is no text."""
        if not (isinstance(self.name, str) and is_texts(self.columns) and _is_words(self.options)):
            raise FleetError(
                "a question of a post is a name, columns and options, all of them texts, such as "
                '["mean", ["kwh"], {"--between": [["0", "40"]]}]'
            )
        options = {flag: tuple(map(tuple, times)) for flag, times in sorted(self.options.items())}
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "options", options)

    @cached_property
    def question(self) -> Question:
        """As it is asked: at once, where it has stages."""
        if any(len(word) > 5 for times in self.options.get("--bins", ()) for word in times):
            raise FleetError(f"a question to a fleet has at most {MOST_CELLS:,} bins")
        found = made(self.name, self.columns, self.options)
        if len(found.stages) == 1:
            return found
        try:
            return found.at_once()
        except QuestionError:
            raise FleetError(
                f"{found.name} is asked in {len(found.stages)} stages, each of which follows what was "
                f"released before; a site of a fleet posts once: {_INSTEAD.get(found.name, _ELSE)}"
            ) from None

    def data(self) -> list[Any]:
        """For JSON."""
        return [
            self.name,
            list(self.columns),
            {k: [list(t) for t in v] for k, v in self.options.items()},
        ]


_INSTEAD = {
    "logistic": (
        "ask a regression of the outcome as 0 and 1 (regression), or its share in groups of a column "
        "(proportion, with by)"
    )
}
_ELSE = "ask it of one table (veilsum ask), or another question"


def asked_of(name: str, columns: Sequence[str], given: Words, codebook: Any = None) -> Worded:
    """A question in words, with those that a codebook adds: a post says all that shapes the vector."""
    fill = None if codebook is None else codebook.filled
    return Worded(name, tuple(columns), words_of(name, columns, given, fill))


@dataclass(frozen=True, eq=False, kw_only=True)
class FleetQuestion:
    """What is asked of a fleet, for how much, and how it is protected.

    >>> mean = Worded("mean", ("kwh",), {"--between": [["0", "40"]]})
    >>> question = FleetQuestion(asks=(mean,), epsilon=1.0, protocol="pool")
    >>> question.title(), question.length, FleetQuestion.parsed(question.canonical()) == question
    ('mean of kwh', 1, True)
    """

    asks: tuple[Worded, ...]  # released together
    epsilon: float  # what they cost a record, together
    protocol: str
    delta: float = 0.0
    # where, by, id, cap, missing, population, rows_public, clipped: as of `asking.ask`
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by: tuple[str, tuple[str, ...]] | None = None
    id: str | None = None  # of one site
    cap: int | None = None
    missing: Any = None
    population: bool = False
    rows_public: bool | None = None
    clipped: bool = False
    noise: str | None = None  # without it the protocol's best
    codebook: str | None = None  # what sites' codebooks must say: `Codebook.digest`
    deadline: int | None = None  # UTC seconds; of a question that is asked once
    quorum: int | None = None  # sites that are in before a pool prints an answer
    schedule: Mapping[str, Any] | None = None  # of a question that repeats: as of `Timetable.of`
    sites_per_person: int = 1  # at which one person may have records; multiplied into the guarantee
    most_records: int = USUAL_RECORDS  # of one site; far limits and the field are computed from it
    label: str = ""  # for people
    nonce: str = ""  # makes the same question another one, to be paid again
    settles: str = ""  # hash of what this settles to; computed where it is left out

    def __post_init__(self) -> None:
        """Check everything that can be checked without a row."""
        _check_types(self)
        object.__setattr__(self, "asks", tuple(self.asks))
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))
        where = {str(k): tuple(map(text_of, v)) for k, v in sorted(self.where.items())}
        object.__setattr__(self, "where", where)
        if self.by is not None:
            object.__setattr__(self, "by", (self.by[0], tuple(map(text_of, self.by[1]))))
        _check_numbers(self)
        if self.timetable is not None:
            object.__setattr__(self, "schedule", self.timetable.to_dict())
        self.rule.chosen(self.noise)
        if not self.settles:
            object.__setattr__(self, "settles", self._settles())
            self.rule.check(self)
        if len(self.canonical()) > LARGEST:
            raise FleetError(
                f"a question has at most {LARGEST:,} bytes; this one has {len(self.canonical()):,}: ask with "
                "fewer categories, or in several questions"
            )

    def __eq__(self, other: object) -> bool:
        """Whether both are the same bytes."""
        return isinstance(other, FleetQuestion) and self.canonical() == other.canonical()

    def __hash__(self) -> int:
        """Of its bytes."""
        return hash(self.digest)

    @cached_property
    def timetable(self) -> Timetable | None:
        """When its slots are; None of a question that is asked once."""
        return None if self.schedule is None else Timetable.of(self.schedule)

    @property
    def rule(self) -> ReleaseRule:
        """Of its protocol."""
        return rule_of(self.protocol)

    def data(self) -> dict[str, Any]:
        """All of it, in plain values."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**found, "asks": [one.data() for one in self.asks], "format": FORMAT}

    def canonical(self) -> bytes:
        """Its bytes: JSON, keys sorted, without spaces."""
        return self._canonical

    @cached_property
    def _canonical(self) -> bytes:
        try:
            return _dumped(self.data())
        except (TypeError, ValueError):
            raise FleetError(
                "missing of a question is a text, a finite number, or a mapping of columns to these"
            ) from None

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of its bytes."""
        return hashlib.sha256(DOMAIN + self.canonical()).digest()

    @classmethod
    def parsed(cls, text: bytes) -> FleetQuestion:
        """The question of a post.

        It is not settled yet: `settled` stops where this version would settle it differently.
        """
        table = _read(text)
        known = {one.name for one in fields(cls)}
        if extra := sorted(set(table) - known):
            raise FleetError(f"a question of format {FORMAT} has no key {extra[0]!r}")
        if lacking := sorted(known - set(table)):
            raise FleetError(
                f"a question of format {FORMAT} has a key {lacking[0]!r}, which is missing"
            )
        asks = table["asks"]
        if not isinstance(asks, list) or not all(isinstance(a, list) and len(a) == 3 for a in asks):
            raise FleetError("asks of a question is a list of [name, columns, options]")
        if not table["settles"]:
            raise FleetError("settles of a question is 64 hexadecimal digits; found none")
        found = cls(**{**table, "asks": tuple(Worded(*one) for one in asks)})
        if found.canonical() != text:
            raise FleetError(
                "a question is written in one way, which this is not: its bytes were changed"
            )
        return found

    def settled(self) -> Settled:
        """What is public about the release."""
        if self.settles != self._settles():
            raise FleetError(
                "this version of veilsum would add up another vector for this question than the asker's: "
                "bring both to one version, and ask again"
            )
        self._ruled  # noqa: B018  once
        return self._settled

    @cached_property
    def _ruled(self) -> None:
        self.rule.check(self)

    def _settles(self) -> str:
        return hashlib.sha256(DOMAIN + self._settled.terms.encode()).hexdigest()

    def _check_size(self) -> None:
        """Before anything of that size is made: an asker is not trusted with a site's memory."""
        groups = 1 if self.by is None else max(len(self.by[1]), 1)
        cells = groups * sum(one.question.cells * one.question.parts for one in self.asks)
        if cells > MOST_CELLS:
            raise FleetError(
                f"a question has at most {MOST_CELLS:,} components; this one has {cells:,}: ask for fewer "
                "bins, categories, columns or groups"
            )

    @cached_property
    def _settled(self) -> Settled:
        try:
            self._check_size()
            return settle(
                [one.question for one in self.asks], epsilon=self.epsilon, delta=self.delta,
                where=self.where or None, by=self.by, id=self.id, cap=self.cap, missing=self.missing,
                population=self.population, rows_public=self.rows_public, clipped=self.clipped,
                laws=self.rule.chosen(self.noise),
            )  # fmt: skip
        except FleetError:
            raise
        except VeilsumError as error:
            raise FleetError(f"this cannot be asked of a fleet: {error}") from None

    @property
    def event(self) -> PrivacyEvent:
        """What one release costs, for one record of one site."""
        return self._settled.event

    @property
    def for_person(self) -> tuple[float, float]:
        """(epsilon, delta) for a person with a record at `sites_per_person` sites."""
        return self.rule.for_person(self.event, self.sites_per_person)

    @property
    def records_public(self) -> bool:
        """Whether a site says how many records it has; else it says 0."""
        return self._settled.rows_public

    @property
    def noises(self) -> tuple[GridNoise, ...]:
        """Of each block of the vector: what a trusted server would add."""
        return tuple(one.noises[0] for one in self._settled.asked)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Components of each block: one for each question."""
        return tuple(one.question.dimension for one in self._settled.asked)

    @property
    def length(self) -> int:
        """Components of the vector."""
        return sum(self.lengths)

    @property
    def laws(self) -> tuple[Law, ...]:
        """Of the noise of each block, in steps."""
        return tuple(noise.law for noise in self.noises)

    @property
    def steps(self) -> tuple[Fraction, ...]:
        """Of the grid of each block."""
        return tuple(noise.step for noise in self.noises)

    @cached_property
    def ends(self) -> list[tuple[int, int]]:
        """The least and the largest number of steps of one record, for each component."""
        found = []
        for one, step in zip(self._settled.asked, self.steps, strict=True):
            moves = one.unit.statistic(one.question.statistic)
            for low, high in zip(moves.low, moves.high, strict=True):
                found.append(
                    (math.floor(Fraction(low) / step) - 1, math.ceil(Fraction(high) / step) + 1)
                    if moves.step is None
                    else (math.floor(Fraction(low) / step), math.ceil(Fraction(high) / step))
                )
        return found

    def bound(self, records: int) -> list[int]:
        """The largest absolute sum of each component over so many records, in steps, without noise."""
        return [records * max(-low, high) for low, high in self.ends]

    def title(self) -> str:
        """What is asked, for people: "mean of kwh by region, where sector is water"."""
        names = [_title(one.question) for one in self._settled.asked]
        where = f", where {self._settled.where}" if self.where else ""
        return f"{' and '.join(dict.fromkeys(names))}{where}"


def _title(question: Question) -> str:
    by = ""
    if isinstance(question, By):
        by, question = f" by {question.group.name}", question.question
    columns = ", ".join(column.name for column in question.columns)
    return f"{question.name.replace('-', ' ')}{columns and f' of {columns}'}{by}"


def _dumped(data: Any) -> bytes:
    text = json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def _read(text: bytes) -> dict[str, Any]:
    """The table of a post's bytes, of a known format, without it."""
    if len(text) > LARGEST:
        raise FleetError(f"a question has at most {LARGEST:,} bytes; found {len(text):,}")
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        raise FleetError("a question is a table in JSON, which these bytes are not") from None
    if not isinstance(table, dict):
        raise FleetError("a question is a table in JSON; found another value")
    found = table.pop("format", None)
    if isinstance(found, int) and found > FORMAT:
        raise FleetError(
            f"this question has format {found}, and this version of veilsum reads {FORMAT}: update veilsum"
        )
    if found != FORMAT or isinstance(found, bool):
        raise FleetError(f"a question says format {FORMAT}; found {found!r}")
    return table


def _is_words(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(flag, str) and isinstance(times, list | tuple) and all(map(is_texts, times))
        for flag, times in value.items()
    )


def _is_by(value: Any) -> bool:
    pair = isinstance(value, list | tuple) and len(value) == 2
    return pair and isinstance(value[0], str) and is_texts(value[1])


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def _is_where(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(k, str) and isinstance(v, list | tuple) and v for k, v in value.items()
    )


def _is_asks(value: Any) -> bool:
    several = isinstance(value, list | tuple) and 0 < len(value) <= MOST_QUESTIONS
    return several and all(isinstance(one, Worded) for one in value)


_ALLOWED: Mapping[str, tuple[Callable[[Any], bool], str]] = {  # beyond the types
    "missing": (lambda _: True, ""),
    "asks": (_is_asks, f"1 to {MOST_QUESTIONS} questions"),
    "where": (_is_where, "a mapping of columns to lists of values"),
    "by": (lambda x: x is None or _is_by(x), "a column and its public values"),
    "codebook": (lambda x: x is None or _is_hash(x), "64 hexadecimal digits"),
    "settles": (lambda x: x == "" or _is_hash(x), "64 hexadecimal digits"),
}


def _check_types(question: FleetQuestion) -> None:
    for name, hint in types_of(FleetQuestion).items():
        value = getattr(question, name)
        holds, allowed = _ALLOWED.get(
            name, (_is_short, f"text of at most {LONGEST_TEXT} characters")
        )
        text = misfit(hint, value) or ("" if holds(value) else f"must be {allowed}")
        if text:
            raise FleetError(f"{name} of a question {text}")


def _is_short(value: Any) -> bool:
    return not isinstance(value, str) or len(value) <= LONGEST_TEXT


def _check_numbers(question: FleetQuestion) -> None:
    _validate.positive(FleetError, **{"epsilon of a question": question.epsilon})
    _validate.probability(FleetError, **{"delta of a question": question.delta})
    for name, most in (
        ("sites_per_person", MOST_SITES_PER_PERSON), ("most_records", MOST_RECORDS),
        ("quorum", MOST_RECORDS), ("deadline", 1 << 40),
    ):  # fmt: skip
        value = getattr(question, name)
        if value is not None and not 1 <= value <= most:
            raise FleetError(f"{name} of a question is 1 to {most:,}; found {value:,}")
    if question.quorum is not None and question.protocol != POOL:
        raise FleetError(
            "quorum is of a pool; a secure sum waits for the sites that its numbers say"
        )
    if question.schedule is not None and question.deadline is not None:
        raise FleetError(
            "a question has a deadline if it is asked once, or a schedule if it stands; not both"
        )
