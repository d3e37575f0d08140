"""The form of the page that asks: made from the registry of questions, and read back.

A question's fields are those of its `Spelling`: a column for each positional parameter of `make`, and the
words of each option. A new question needs nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from veilsum.errors import QuestionError

if TYPE_CHECKING:
    from veilsum.questions import Question
    from veilsum.questions.options import Option

FIRST = ("mean", "count", "histogram")  # what most people ask, before the alphabet


@dataclass(frozen=True)
class FormOption:
    """An option as inputs.

    Parameters
    ----------
    flag : str
        By which it is read back.
    label : str
        For people.
    words : tuple of str
        A label for each input; empty for a box to tick.
    repeats : bool
        Whether it is one input of several lines.
    required : bool
        Whether the question needs it.
    """

    flag: str
    label: str
    words: tuple[str, ...]
    repeats: bool
    required: bool

    @classmethod
    def of(cls, option: Option) -> FormOption:
        """The inputs of an option."""
        label = option.name.replace("_", " ")
        words = tuple(word.lower() for word in option.form.shown.split())
        return cls(option.flag, label, words, option.form.repeats, option.required)


@dataclass(frozen=True)
class QuestionForm:
    """The part of the form that belongs to one question.

    Parameters
    ----------
    name, about : str
        Of the question.
    columns : tuple of (str, bool)
        A label for each column, and whether it is required.
    more : str
        The label of any number of further columns; empty for none.
    options : tuple of FormOption
        Its options.
    """

    name: str
    about: str
    columns: tuple[tuple[str, bool], ...]
    more: str
    options: tuple[FormOption, ...]


def forms() -> list[QuestionForm]:
    """All questions, common ones first.

    Examples
    --------
    >>> [form.options[0].words for form in forms() if form.name == "mean"]
    [('low', 'high')]
    """
    from veilsum.questions import QUESTIONS
    from veilsum.questions.options import spelling

    common = {name: k for k, name in enumerate(FIRST)}
    names = sorted(QUESTIONS, key=lambda name: (common.get(name, len(FIRST)), name))
    found = []
    for name in names:
        known = spelling(name)
        columns = tuple((column, k < known.least) for k, column in enumerate(known.columns))
        options = tuple(map(FormOption.of, known.options))
        found.append(QuestionForm(name, QUESTIONS[name].about, columns, known.more, options))
    return found


@dataclass(frozen=True)
class FilledForm:
    """What somebody filled in.

    Parameters
    ----------
    table : str
        A path.
    question : Question
        As it is asked.
    terms : dict
        The keywords of `asking.ask` that were given.
    """

    table: str
    question: Question
    terms: dict[str, Any]

    @classmethod
    def read(cls, sent: Mapping[str, Any]) -> FilledForm:
        """The question of a form, or an error that says what is missing.

        Parameters
        ----------
        sent : mapping
            Texts by name, as the page sends them; an empty one was not filled in.
        """
        from veilsum.questions.options import made

        columns = [name for name in _texts(sent.get("columns")) if name]
        given = {
            flag: rows for flag, rows in _rows(sent.get("options")).items() if any(map(any, rows))
        }
        terms: dict[str, Any] = {"epsilon": _number(sent, "epsilon", needed=True)}
        for name in ("delta", "limit"):
            if (number := _number(sent, name)) is not None:
                terms[name] = number
        if (cap := _number(sent, "cap")) is not None:
            terms["cap"] = int(cap)
        for name in ("id", "missing"):
            if text := _text(sent, name):
                terms[name] = text
        where, by = _chosen(sent, "where"), _chosen(sent, "by")
        if where:
            terms["where"] = dict([where])
        if by:
            terms["by"] = by
        for name in ("anyway", "population", "fresh"):
            if sent.get(name) is True:
                terms[name] = True
        return cls(table_of(sent), made(_text(sent, "question"), columns, given), terms)


def table_of(sent: Mapping[str, Any]) -> str:
    """The path that was filled in."""
    if not (table := _text(sent, "table")):
        raise QuestionError("choose a table: a file such as households.csv")
    return table


def _chosen(sent: Mapping[str, Any], name: str) -> tuple[str, tuple[str, ...]] | None:
    """A column and its public values."""
    column, values = _text(sent, f"{name}_column"), _text(sent, f"{name}_values")
    if not column and not values:
        return None
    if not (column and values):
        raise QuestionError(
            f"{'a filter has' if name == 'where' else 'groups have'} a column and its public values, such as "
            "region and north, south"
        )
    return column, tuple(value.strip() for value in values.split(","))


def _text(sent: Mapping[str, Any], name: str) -> str:
    value = sent.get(name, "")
    return value.strip() if isinstance(value, str) else ""


def _number(sent: Mapping[str, Any], name: str, needed: bool = False) -> float | None:
    text = _text(sent, name)
    if not text and not needed:
        return None
    try:
        return float(text)
    except ValueError:
        raise QuestionError(f"{name} is a number, such as 1; found {text or 'nothing'}") from None


def _texts(value: Any) -> list[str]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [word.strip() for word in value if isinstance(word, str)]
    return []


def _rows(value: Any) -> dict[str, list[list[str]]]:
    """Words of each time that an option was given, by its flag."""
    if not isinstance(value, Mapping):
        return {}
    return {str(flag): [_texts(row) for row in rows] for flag, rows in value.items()}
