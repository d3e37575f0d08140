"""A question as words: its columns, and its options, read off the signature of `make`.

    make(column, *, between: tuple[float, float], bins: int | None = None)
    histogram COLUMN --between LOW HIGH [--bins N]

Positional parameters of `make` are columns. Each keyword is an option, whose annotation says how many
words it takes and what they become; a new question needs nothing here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from veilsum._registry import did_you_mean
from veilsum.errors import QuestionError
from veilsum.questions.base import QUESTIONS, Question

Given = Mapping[str, Sequence[Sequence[str]]]  # option -> the words of each time that it was given
Fill = Callable[[str, Sequence[str], Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Form:
    """How an option is written, and what its words become.

    Parameters
    ----------
    shown : str
        In help, such as "LOW HIGH".
    words : int
        How many it takes.
    read : function of the words
        Their value; ValueError where they are not what is shown.
    repeats : bool
        Whether it may be given several times, which makes a list.
    """

    shown: str
    words: int
    read: Callable[[Sequence[str]], Any]
    repeats: bool = False


def _texts(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.strip() for part in words[0].split(","))


def _numbers(words: Sequence[str]) -> tuple[float, ...]:
    return tuple(float(part) for part in words[0].split(","))


def _bounds(words: Sequence[str]) -> tuple[str, tuple[float, float]]:
    return words[0], _pair(words[1:])


def _number_or_more(words: Sequence[str]) -> float | tuple[float, ...]:
    found = _numbers(words)
    return found[0] if len(found) == 1 else found


def _pair(words: Sequence[str]) -> tuple[float, float]:
    return float(words[0]), float(words[1])


def _named(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    column, equals, values = words[0].partition("=")
    if not equals:
        raise ValueError(words[0])
    return column, _texts([values])


PAIR = "tuple[float, float]"
TEXTS = "Sequence[str]"
BY_COLUMN = f"Mapping[str, {PAIR}]"
FORMS = (  # the first whose text is in the annotation, so those that contain others come first
    (f"tuple[{TEXTS}", Form("A,B,...", 1, _texts, True)),
    (BY_COLUMN, Form("COLUMN LOW HIGH", 3, _bounds, True)),
    (f"Mapping[str, {TEXTS}]", Form("COLUMN=A,B,...", 1, _named, True)),
    (f"Sequence[{PAIR}]", Form("LOW HIGH", 2, _pair, True)),
    (f"tuple[{PAIR}", Form("LOW HIGH", 2, _pair, True)),
    (f"Sequence[{TEXTS}]", Form("A,B,...", 1, _texts, True)),
    (PAIR, Form("LOW HIGH", 2, _pair)),
    (TEXTS, Form("A,B,...", 1, _texts)),
    ("tuple[str, ...]", Form("A,B,...", 1, _texts)),
    ("float | Sequence[float]", Form("X,Y,...", 1, _number_or_more)),
    ("Sequence[float]", Form("X,Y,...", 1, _numbers)),
    ("tuple[float, ...]", Form("X,Y,...", 1, _numbers)),
    ("bool", Form("", 0, lambda _: True)),
    ("int", Form("N", 1, lambda w: int(w[0]))),
    ("float", Form("X", 1, lambda w: float(w[0]))),
    ("str", Form("TEXT", 1, lambda w: w[0])),
)  # fmt: skip


@dataclass(frozen=True)
class Option:
    """An option of a question.

    Parameters
    ----------
    name : str
        Of the keyword.
    form : Form
        How it is written.
    required : bool
        Whether `make` has no default for it.
    annotation : str
        Of the keyword.
    """

    name: str
    form: Form
    required: bool
    annotation: str

    @property
    def flag(self) -> str:
        """As it is written."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def usage(self) -> str:
        """With its words, in brackets where it may be left out, with dots where it repeats."""
        text = f"{self.flag} {self.form.shown}".strip()
        return (text if self.required else f"[{text}]") + (" ..." if self.form.repeats else "")

    def value(self, question: str, given: Sequence[Sequence[str]]) -> Any:
        """What its words mean, or an error that says how it is written."""
        try:
            read = [self.form.read(words) for words in given]
        except ValueError:
            said = " ".join(given[-1])
            raise QuestionError(
                f"{question} takes {self.flag} {self.form.shown}; found {self.flag} {said}"
            ) from None
        if self.form.read in (_named, _bounds):
            return dict(read)
        if self.form.repeats:
            return tuple(read)
        if len(read) > 1:
            raise QuestionError(
                f"{question} takes {self.flag} once; found it {len(read)} times (options before `and` "
                "belong to the question before it)"
            )
        return read[0]


@dataclass(frozen=True)
class Spelling:
    """How a question is asked in words.

    Parameters
    ----------
    name : str
        Of the question.
    columns : tuple of str
        Its positional parameters.
    least : int
        How many of them must be there.
    more : str
        Of any number of further columns; empty for none.
    options : tuple of Option
        Its keywords.
    """

    name: str
    columns: tuple[str, ...]
    least: int
    more: str
    options: tuple[Option, ...]

    @property
    def usage(self) -> str:
        """The whole of it, such as "histogram COLUMN [--between LOW HIGH] [--bins N]"."""
        columns = [
            column.upper() if k < self.least else f"[{column.upper()}]"
            for k, column in enumerate(self.columns)
        ]
        columns += [f"{self.more.upper()} ..."] if self.more else []
        return " ".join([self.name, *columns, *(option.usage for option in self.options)])

    def option(self, flag: str) -> Option | None:
        """The option that is written so."""
        return next((option for option in self.options if option.flag == flag), None)


@cache
def spelling(name: str) -> Spelling:
    """How the question of that name is asked.

    Examples
    --------
    >>> spelling("mean").usage
    'mean COLUMN --between LOW HIGH'
    """
    kind = QUESTIONS.get(name)
    columns, options, least, more = [], [], 0, ""
    for parameter in inspect.signature(kind.make).parameters.values():
        required = parameter.default is inspect.Parameter.empty
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            more = parameter.name.removesuffix("s")
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            text = str(parameter.annotation)
            form = next((form for key, form in FORMS if key in text), None)
            if form is not None:
                options.append(Option(parameter.name, form, required, text))
        else:
            columns.append(parameter.name)
            least += required
    return Spelling(kind.name, tuple(columns), least, more, tuple(options))


def made(name: str, columns: Sequence[str], given: Given, fill: Fill | None = None) -> Question:
    """The question of words.

    Parameters
    ----------
    name : str
        Of the question.
    columns : sequence of str
        Of the table.
    given : mapping
        Words of each option, by its flag.
    fill : function of the name, the columns and the options, optional
        The options with what a codebook adds.

    Examples
    --------
    >>> made("histogram", ["kwh"], {"--between": [["0", "40"]], "--bins": [["8"]]}).dimension
    8
    """
    known = spelling(name)
    if len(columns) < known.least or (len(columns) > len(known.columns) and not known.more):
        raise QuestionError(
            f"found {len(columns)} column{'' if len(columns) == 1 else 's'}"
            f"{', ' if columns else ''}{', '.join(columns)}; the question is asked as: {known.usage}"
        )
    values = {}
    for flag, times in given.items():
        option = known.option(flag)
        if option is None:
            flags = [one.flag for one in known.options]
            raise QuestionError(
                f"{known.name} has no option {flag}; {did_you_mean(flag, flags)}it is asked as: "
                f"{known.usage}"
            )
        values[option.name] = option.value(known.name, times)
    if fill is not None:
        values = dict(fill(known.name, columns, values))
    for option in known.options:
        if option.required and option.name not in values:
            raise QuestionError(_missing(known, option, columns))
    return QUESTIONS[name].make(*columns, **values)


def words_of(name: str, columns: Sequence[str], given: Given, fill: Fill | None = None) -> Given:
    """The words of a question together with those for what `fill` adds, so that nobody else needs it.

    Parameters
    ----------
    name, columns, given, fill
        As of `made`.

    Examples
    --------
    >>> words_of("mean", ["kwh"], {}, lambda *_: {"between": (0.0, 40.0)})
    {'--between': [['0.0', '40.0']]}
    """
    known = spelling(name)
    words = {flag: [list(times) for times in each] for flag, each in given.items()}
    if fill is None:
        return words
    options = {option.name: option for option in known.options}
    values = {
        option.name: option.value(known.name, words[option.flag])
        for option in known.options
        if option.flag in words
    }
    for entry, value in fill(known.name, columns, values).items():
        if entry not in values:
            option = options[entry]
            words[option.flag] = _written(option.form, value, columns)
    return words


def _written(form: Form, value: Any, columns: Sequence[str]) -> list[list[str]]:
    """The words of what a codebook fills in: bounds or categories, of one column or by column."""
    if form.read is _bounds:
        return [[column, *map(repr, ends)] for column, ends in value.items()]
    if form.read is _named:
        return [[f"{column}={_joined(texts)}"] for column, texts in value.items()]
    each = [value[column] for column in columns] if isinstance(value, Mapping) else [value]
    return [[_joined(one)] if form.read is _texts else list(map(repr, one)) for one in each]


def _joined(values: Sequence[Any]) -> str:
    texts = [str(one) for one in values]
    for text in texts:
        if "," in text or text != text.strip():
            raise QuestionError(
                f"category {text!r} cannot be written in a list with commas: take the comma and the "
                "spaces at its ends out, in the table and in the codebook"
            )
    return ",".join(texts)


def _missing(known: Spelling, option: Option, columns: Sequence[str]) -> str:
    start = f"{known.name} of {', '.join(columns)} needs {option.flag} {option.form.shown}"
    if option.name in ("between", "bounds"):
        return (
            f"{start}: bounds that are known without a look at the data, such as what a meter can show. "
            "Bounds read off the data would give its extreme values away; values beyond them count as "
            "the bounds. A codebook says them once for all questions: veilsum codebook TABLE"
        )
    if option.name == "categories":
        return (
            f"{start}: the values that there may be, known without a look at the data. Which ones occur "
            "would give rare ones away"
        )
    return f"{start}; it is asked as: {known.usage}"
