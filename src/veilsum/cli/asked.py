"""The words of `veilsum ask` and `veilsum plan`: questions with `and` between them, each with its options.

    mean kwh --between 0 40 and histogram region --categories north,south households.csv

An option belongs to the question of its part. One behind the table is shared: it belongs to every question
that takes it and can be asked with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from veilsum._registry import did_you_mean
from veilsum.errors import CommandError, QuestionError

if TYPE_CHECKING:
    from veilsum.questions import Question
    from veilsum.questions.options import Fill, Spelling

AND = "and"
Words = dict[str, list[list[str]]]  # option -> the words of each time
Made = TypeVar("Made")


@dataclass
class AskedPart:
    """One question as it was written."""

    name: str
    columns: list[str] = field(default_factory=list)
    given: Words = field(default_factory=dict)
    shared: Words = field(default_factory=dict)

    @property
    def spelling(self) -> Spelling:
        """How it is asked."""
        from veilsum.questions.options import spelling

        return spelling(self.name)

    def question(self, fill: Fill | None = None) -> Question:
        """The question, with what a codebook adds."""
        from veilsum.questions.options import made

        return self.tried(lambda given: made(self.name, self.columns, given, fill))

    def tried(self, make: Callable[[Words], Made]) -> Made:
        """What is made of its options; a shared one that it need not have, and cannot have, is not its."""
        try:
            return make(self.shared | self.given)
        except QuestionError:
            needed = {option.flag for option in self.spelling.options if option.required}
            own = {
                flag: words for flag, words in self.shared.items() if flag in needed
            } | self.given
            if own == self.shared | self.given:
                raise
            try:
                return make(own)
            except QuestionError:
                pass
            raise


def questions_of(parts: Sequence[AskedPart], fill: Fill | None = None) -> list[Question]:
    """The questions, with what a codebook adds."""
    return [part.question(fill) for part in parts]


def parsed(
    words: Sequence[str], table: bool, others: Sequence[str] = ()
) -> tuple[list[AskedPart], str | None]:
    """The questions in words, and the table that they are asked of.

    Parameters
    ----------
    words
        Of the command line, without the options that all questions have.
    table
        Whether the last word is a table.
    others
        The options that all questions have, for suggestions.
    """
    texts = _split(words)
    parts = [_part(text, last=k == len(texts) - 1, others=others) for k, text in enumerate(texts)]
    source, shared = None, parts[-1][1]
    found = [part for part, _ in parts]
    if table:
        last = found[-1]
        if len(last.columns) <= last.spelling.least:
            raise CommandError(
                f"a column or the table is missing: found {' '.join([last.name, *last.columns])}; it is "
                f"asked as: veilsum ask {last.spelling.usage} TABLE"
            )
        source = last.columns.pop()
    _share(found, shared)
    return found, source


def _split(words: Sequence[str]) -> list[list[str]]:
    texts: list[list[str]] = [[]]
    for word in words:
        if word == AND:
            texts.append([])
        else:
            texts[-1].append(word)
    if not words:
        raise CommandError(
            "a question is missing, such as: veilsum ask mean kwh households.csv --between 0 40 --eps 1; "
            "veilsum questions lists what can be asked"
        )
    if not all(texts):
        raise CommandError("`and` stands between two questions, each with its columns")
    return texts


def _part(text: Sequence[str], last: bool, others: Sequence[str]) -> tuple[AskedPart, Words]:
    """A question; options behind the last word of the last part are shared, and apart."""
    from veilsum.questions import QUESTIONS
    from veilsum.questions.columns import is_number

    part = AskedPart(QUESTIONS.get(text[0]).name)
    shared: Words = {}
    rest = list(text[1:])
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or is_number(word):
            for flag, times in shared.items():
                part.given.setdefault(flag, []).extend(times)
            shared = {}
            part.columns.append(word)
            continue
        flag, equals, value = word.partition("=")
        taken = [value] if equals else []
        need = _need(flag, part, others) - len(taken)
        taken += [rest.pop(0) for _ in range(min(need, len(rest)))]
        if len(taken) < need:
            raise CommandError(
                f"{flag} takes {need} values, as in {part.spelling.usage}; found "
                f"{' '.join(taken) or 'none'}"
            )
        shared.setdefault(flag, []).append(taken)
    if not last:
        part.given, shared = part.given | shared, {}
    return part, shared


def _need(flag: str, part: AskedPart, others: Sequence[str]) -> int:
    """How many words an option takes: of this question, or of any other that has it."""
    from veilsum.questions import QUESTIONS
    from veilsum.questions.options import spelling

    option = part.spelling.option(flag)
    if option is None:
        found = (spelling(name).option(flag) for name in QUESTIONS)
        option = next((one for one in found if one is not None), None)
    if option is None:
        flags = [one.flag for one in part.spelling.options]
        raise CommandError(
            f"no option is called {flag}; {did_you_mean(flag, [*flags, *others])}{part.name} is asked as: "
            f"{part.spelling.usage}"
        )
    return option.form.words


def _share(parts: Sequence[AskedPart], shared: Words) -> None:
    """Give every question that takes it what stands behind the table."""
    for flag, times in shared.items():
        takers = [part for part in parts if part.spelling.option(flag) is not None]
        if not takers:
            raise CommandError(
                f"{' and '.join(part.name for part in parts)} does not take {flag}; asked as: "
                f"{'; '.join(part.spelling.usage for part in parts)}"
            )
        for part in takers:
            part.shared[flag] = times
