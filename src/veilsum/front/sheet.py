"""A sheet of answers: each a number, an interval and a promise.

    answers = vs.run("study.toml")
    answers.value, answers.interval      of the best one
    answers["masked"]                    the sheet of one run
    print(answers)                       the screen
    answers.to_frame()                   the long table
    answers.save("study")                study.html and study.csv

The order of the answers is the order on the screen: by verdict, then best first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from veilsum import _extras
from veilsum.errors import VeilsumError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from veilsum.front.plot import Picture
    from veilsum.front.table import Row
    from veilsum.privacy import Guarantee
    from veilsum.results import Result

VERDICTS = (  # the order of groups; a verb that has others lists them as they come
    "proved", "estimated", "claimed", "refuted", "none",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Answer:
    """One number with its interval and its promise.

    Parameters
    ----------
    name
        Of the run, candidate, attack or statement that it comes from.
    quantity
        What the number is, such as "mu".
    value, low, high
        The number and the ends of its 95% interval, or arrays; None where there is none.
    unit
        Of the three.
    of
        What the interval is of.
    method, rounds
        How it was found.
    status
        The verdict: of a promise "proved", "estimated", "claimed", "refuted" or "none".
    kind
        What the number is compared with; numbers of different kinds are never in one group.
    guarantee
        The promise, where there is one.
    epsilon, delta
        Of the promise.
    cells
        Further columns of the screen and of the page, by their headings, what matters most first.
    sentences
        Of an answer in words, which the screen shows in place of the cells: always the first one, all
        of them where there is room.
    labels
        Of the components of an array, such as bins; numbered without them.
    ordered
        Whether the labels lie on a line, so that some of them say what lies between.
    absent
        For each component what stands in place of a number that is not shown.
    releasable
        Whether the number may be shown to anyone: nothing of measured signals whose noise is simulated.

    Examples
    --------
    >>> Answer("masked", "mu", 9.99, 9.97, 10.01, status="proved").interval
    (9.97, 10.01)
    """

    name: str
    quantity: str = ""
    value: Any = None
    low: Any = None
    high: Any = None
    unit: str = ""
    of: str = ""
    method: str = ""
    rounds: str = ""
    status: str = ""
    kind: str = ""
    guarantee: Guarantee | None = None
    epsilon: float | None = None
    delta: float | None = None
    cells: Mapping[str, str] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    ordered: bool = False
    absent: tuple[str, ...] = ()
    releasable: bool = True

    @property
    def interval(self) -> tuple[Any, Any] | None:
        """Both ends; None where there is no interval."""
        return None if self.low is None else (self.low, self.high)

    @property
    def size(self) -> int:
        """How many components the number has; 0 where there is no number."""
        return 0 if self.value is None else int(np.size(self.value))


@dataclass(frozen=True, eq=False, repr=False)
class Answers:
    """The answers of one verb, and all that is shown of them.

    Parameters
    ----------
    name
        Of the study: its files are NAME.html and NAME.csv.
    title, about
        The first two lines.
    rows
        The answers, in order.
    promises
        What is guaranteed, a sentence each.
    warnings
        What a reader must know before using a number.
    legend
        What the columns mean.
    notes
        What is worth knowing besides; not on the screen.
    paste
        Lines for the study file that follow from the answers.
    text
        The study, so that the page can be made again.
    origin
        How the numbers were made, by name: command, versions, seeds.
    curves
        Further rows of the long table, made when it is asked for: numbers round by round.
    pictures
        Drawn when a page is written.
    drawing
        What `plot` draws where no quantity is named; a quantity of the long table without it.
    results
        The runs that the answers are of, by name; empty for other verbs.
    remake
        Makes the sheet of some of the runs; None where there are no runs.
    secret
        Whether something is compared with the truth of measured signals.
    layout
        The lines of the screen between the heading and the promises, at a width; a table of the rows
        without it.
    template, more
        Of the page, and what it shows besides the sheet, made when a page is written.

    Examples
    --------
    >>> import veilsum as vs
    >>> answers = vs.sweep(
    ...     {"mu": 3.0}, "ring:9", vs.families.Normal(sigma=1.0), vs.privacy.SignalDP(epsilon=1.0),
    ...     "average", rounds=50, replicas=2, rng=1,
    ... )
    >>> answers.guarantee.status
    <Status.PROVED: 'proved'>
    >>> answers.low < answers.value < answers.high
    True
    """

    name: str
    title: str
    about: str
    rows: tuple[Answer, ...]
    promises: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    legend: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    paste: str = ""
    text: str = ""
    origin: Mapping[str, str] = field(default_factory=dict)
    curves: Callable[[], Sequence[Row]] = tuple
    pictures: Callable[[], Sequence[Picture]] = tuple
    drawing: Callable[[Axes | None], Axes] | None = None
    results: Mapping[str, Result] = field(default_factory=dict)
    remake: Callable[[Sequence[str]], Answers] | None = None
    secret: bool = False
    layout: Callable[[Answers, int], list[str]] | None = None
    template: str = "sheet.html"
    more: Callable[[], Mapping[str, Any]] = dict

    @property
    def best(self) -> Answer:
        """The first answer: of the best verdict, the run of least error or narrowest interval."""
        if not self.rows:
            raise VeilsumError(f"{self.title}: there is no answer")
        return self.rows[0]

    @property
    def value(self) -> Any:
        """The number of the best answer; an array if it has several components."""
        return self.best.value

    @property
    def interval(self) -> tuple[Any, Any] | None:
        """The 95% interval of the best answer: `best.of` says of what. None where there is none."""
        return self.best.interval

    @property
    def low(self) -> Any:
        """The lower end of `interval`."""
        return self.best.low

    @property
    def high(self) -> Any:
        """The upper end of `interval`."""
        return self.best.high

    @property
    def epsilon(self) -> float | None:
        """What the best answer's promise costs; None where nothing is promised."""
        return self.best.epsilon

    @property
    def coef_(self) -> dict[str, float]:
        """The numbers of the best answer by their labels: coefficients by column, shares by bin."""
        best = self.best
        if not best.labels:
            raise VeilsumError(f"{self.title}: {best.quantity} is one number; take `value`")
        return dict(zip(best.labels, np.ravel(best.value).tolist(), strict=True))

    @property
    def guarantee(self) -> Guarantee:
        """What is promised for everything that the best answer's run contains."""
        found = self.best.guarantee
        if found is None:
            raise VeilsumError(f"{self.title}: {self.best.name} promises nothing")
        return found

    @property
    def releasable(self) -> bool:
        """Whether all of it may be shown to anyone: nothing is secret, and every number protected."""
        return not self.secret and all(row.releasable for row in self.rows)

    @property
    def result(self) -> Result:
        """The run of a sheet that has one: its estimates, errors and trace."""
        if len(self.results) != 1:
            raise VeilsumError(
                f"{self.title} has {len(self.results)} runs; name one of {list(self)}: "
                'answers["NAME"].result'
            )
        return next(iter(self.results.values()))

    def __getitem__(self, name: str) -> Answers:
        """The sheet of one run, or of one answer where there are no runs."""
        if name not in list(self):
            raise KeyError(f"there is no {name!r}; there are {', '.join(self)}")
        if self.remake is not None:
            return self.remake([name])
        return replace(self, rows=tuple(row for row in self.rows if row.name == name))

    def __iter__(self) -> Iterator[str]:
        """The names, each once, in the order of the answers."""
        return iter(dict.fromkeys(row.name for row in self.rows))

    def __len__(self) -> int:
        """How many names there are."""
        return len(list(iter(self)))

    def to_frame(self) -> pd.DataFrame:
        """The long table: a row for each number, with its verdict.

        Returns
        -------
        pandas.DataFrame
            What `save` writes as CSV, with numbers as numbers.
        """
        from veilsum.front.table import COLUMNS, long_table

        return _extras.load("pandas").DataFrame(long_table(self), columns=list(COLUMNS))

    def to_dict(self) -> dict[str, Any]:
        """Answers, promises and warnings in plain values: what `--json` prints."""
        from veilsum.front.table import as_dict

        return as_dict(self)

    def plot(self, y: str | None = None, x: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw a quantity of the long table, a curve for each run.

        Parameters
        ----------
        y
            A quantity, such as "error" or "noise"; by default the errors, or the answers with their
            intervals where nothing is compared with the truth; of plans and audits their own picture.
        x
            "round" or "epsilon"; by default epsilon where several were run.
        ax
            Axes to draw into; new ones by default.

        Returns
        -------
        matplotlib.axes.Axes
            Of a figure that can be saved.
        """
        _extras.require("Answers.plot", "plot")
        from veilsum.front.plot import draw

        return draw(self, y, x, ax)

    def save(self, stem: str | PathLike[str] | None = None) -> list[Path]:
        """Write the page and the long table beside each other.

        Parameters
        ----------
        stem
            The path of both without .html and .csv, or a folder for them; by default the name of the
            study, here.

        Returns
        -------
        list of Path
            The files that were written; earlier ones of veilsum are replaced, others refused.
        """
        from veilsum.front.files import save

        return save(self, stem)

    def __str__(self) -> str:
        """The screen, as plain text of 80 columns."""
        from veilsum.front.screen import screen

        return screen(self)

    def _repr_html_(self) -> str:
        """The inside of the page, for notebooks."""
        from veilsum.front.page import inside

        return inside(self)

    def __repr__(self) -> str:
        """The title and the names; no number, which may reveal a signal."""
        return f"Answers({self.title!r}: {', '.join(self)})"


def ordered(rows: Sequence[Answer], rank: Callable[[Answer], Any]) -> tuple[Answer, ...]:
    """Rows by verdict and kind, then best first; kinds and unknown verdicts in order of appearance."""
    kinds = list(dict.fromkeys(row.kind for row in rows))
    verdicts = [*VERDICTS, *dict.fromkeys(row.status for row in rows)]
    return tuple(
        sorted(rows, key=lambda r: (verdicts.index(r.status), kinds.index(r.kind), rank(r)))
    )


def groups(rows: Sequence[Answer]) -> list[tuple[str, list[Answer]]]:
    """Consecutive answers of one verdict and kind, with their heading."""
    found: list[tuple[str, list[Answer]]] = []
    for row in rows:
        words = [WITHOUT.get(row.status, row.status).upper(), row.kind]
        heading = ", ".join(word for word in words if word)
        if not found or found[-1][0] != heading:
            found.append((heading, []))
        found[-1][1].append(row)
    return found


WITHOUT = {"none": "no promise"}
