"""veilsum ask: one line from a table to an answer that may be published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilsum.cli.asked import AskedPart, parsed, questions_of
from veilsum.cli.guard import AsJson, Debug, existing, guarded, needs_plot, print_json, usage_errors
from veilsum.cli.options import Plot
from veilsum.cli.sheets import check_places, tell, written
from veilsum.errors import CommandError

if TYPE_CHECKING:
    from veilsum.cli.fleet_ask import FleetWords
    from veilsum.front import Answers
    from veilsum.questions.options import Fill

USAGE = "QUESTION COLUMN ... TABLE"
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar=USAGE, help="Such as: mean kwh households.csv --between 0 40.",
                   show_default=False),
]  # fmt: skip
Eps = Annotated[
    float | None,
    typer.Option("--eps", "--epsilon", metavar="E", help="What the answers cost; no default."),
]
Delta = Annotated[
    float,
    typer.Option(metavar="D", help="Allows Gaussian noise, if it is less.", show_default=False),
]
Where = Annotated[list[str] | None, typer.Option(metavar="C=V,V", help="Rows that count; repeats.")]
By = Annotated[str | None, typer.Option(metavar="C=V,V", help="Public groups, each is asked.")]
Id = Annotated[
    str | None, typer.Option("--id", metavar="C", help="Whose a row is: all rows of one.")
]
Cap = Annotated[int | None, typer.Option(min=1, metavar="N", help="How many rows of one id count.")]
Missing = Annotated[
    str | None, typer.Option(metavar="out|V", help="Leave out missing values, or what they are.")
]
Population = Annotated[
    bool, typer.Option("--population", help="The interval of where the rows come from.")
]
Clipped = Annotated[
    bool, typer.Option("--clipped", help="Also the share of values beyond the bounds.")
]
MinCount = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Do not show cells of fewer, after noise.")
]
Round = Annotated[
    int | None, typer.Option("--round", min=1, metavar="N", help="Round counts to its multiples.")
]
RowsPublic = Annotated[
    bool | None,
    typer.Option("--rows-public/--rows-private", help="Whether the number of rows is.",
                 show_default=False),
]  # fmt: skip
Budget = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Of the data.", show_default="TABLE.budget")
]
Limit = Annotated[float | None, typer.Option(metavar="E", help="Of the budget; set once.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Pay for a new draw of the same question.")]
Anyway = Annotated[bool, typer.Option("--anyway", help="Although noise will say little.")]
Codebook = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Bounds and categories.", show_default="TABLE.codebook.toml"),
]
Decimal = Annotated[str, typer.Option(metavar="MARK", help="Decimal mark of numbers in text.")]
Sql = Annotated[
    str | None,
    typer.Option(metavar="SELECT", help="Makes the table, row by row, in DuckDB, from `data`."),
]
Fleet = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Ask the sites of a fleet, from a folder of it; no TABLE."
    ),
]
Protocol = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Of --fleet: secure-sum or pool.",
                 show_default="secure-sum of 3 sites or more"),
]  # fmt: skip
Deadline = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Of --fleet: how long sites may take.", show_default="7 days"
    ),
]
Every = Annotated[
    str | None, typer.Option(metavar="TIME", help='Of --fleet: ask again and again, such as "1 h".')
]
SitesPerPerson = Annotated[
    int, typer.Option(min=1, metavar="N", help="Of --fleet: sites that may know one person.")
]
MostRecords = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Of --fleet: records of a site.", show_default="1,000,000"
    ),
]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Of --fleet: post the question, and come back later.")
]
Quorum = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Of a pool: sites that are enough.")
]
Stem = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="STEM", help="Write STEM.html and STEM.csv.")
]


def ask(
    ctx: typer.Context,
    words: Words = None,
    eps: Eps = None,
    delta: Delta = 0.0,
    where: Where = None,
    by: By = None,
    id: Id = None,
    cap: Cap = None,
    missing: Missing = None,
    population: Population = False,
    clipped: Clipped = False,
    rows_public: RowsPublic = None,
    min_count: MinCount = None,
    round_to: Round = None,
    budget: Budget = None,
    limit: Limit = None,
    fresh: Fresh = False,
    anyway: Anyway = False,
    codebook: Codebook = None,
    decimal: Decimal = ".",
    sql: Sql = None,
    fleet: Fleet = None,
    protocol: Protocol = None,
    deadline: Deadline = None,
    every: Every = None,
    sites_per_person: SitesPerPerson = 1,
    most_records: MostRecords = None,
    quorum: Quorum = None,
    no_wait: NoWait = False,
    out: Stem = None,
    plot: Plot = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Ask questions of a table: an answer that may be published, charged to the table's budget.

    Questions and their own options: veilsum questions. Several at once: mean kwh and count households.csv.
    Asking the same again costs nothing. What it would be worth: veilsum plan QUESTION COLUMN ... --rows N.
    Without arguments a page for this machine alone opens in the browser, which does the same.
    """
    with guarded(debug):
        if words is None and eps is None:
            from veilsum.live.ask import serve

            serve()
            return
        needs_plot(plot)
        if fleet is not None:
            from veilsum.cli.fleet_ask import FleetWords, refuse

            with usage_errors():
                refuse(ctx.params)
                check_epsilon(eps)
                more = {
                    "epsilon": eps, "delta": delta, "where": where_of(where) or {}, "by": by_of(by),
                    "id": id, "cap": cap, "missing": _missing(missing), "population": population,
                    "clipped": clipped, "rows_public": rows_public,
                }  # fmt: skip
                asked_of_fleet = FleetWords(
                    fleet,
                    protocol,
                    deadline,
                    every,
                    sites_per_person,
                    most_records,
                    quorum,
                    fresh,
                    no_wait,
                    more,
                )
                parts, _ = parsed(words or [], table=False, others=flags_of(ctx))
            ask_fleet(parts, asked_of_fleet, codebook, out, plot, as_json)
            return
        with usage_errors():
            parts, source = parsed(words or [], table=True, others=flags_of(ctx))
            table = existing(Path(str(source)), "table")
            asked = questions_of(parts, filledby_of(table, codebook))
            check_epsilon(eps)
        from veilsum.asking import ask as answer
        from veilsum.front.of_ask import facts, of_ask, stem_of, title_of

        name = stem_of(table.name, [*map(title_of, asked), *(where or ()), by or ""])
        stem = places_of(name, out, plot)
        reply = answer(
            table, *asked, epsilon=eps or 0.0, delta=delta, where=where_of(where), by=by_of(by), id=id,
            cap=cap, missing=_missing(missing), population=population, rows_public=rows_public,
            clipped=clipped, min_count=min_count, round=round_to, budget=budget, limit=limit,
            anyway=anyway, fresh=fresh, decimal=decimal, sql=sql, codebook=codebook,
        )  # fmt: skip
        report(of_ask(reply), stem, plot, as_json, **facts(reply))


def ask_fleet(
    parts: Sequence[AskedPart],
    words: FleetWords,
    codebook: Path | None,
    out: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Ask the sites of a fleet, and print the sheet."""
    from veilsum.cli.fleet_ask import asked_fleet

    stem = places_of("-".join(["fleet", *(part.name for part in parts)]), out, plot)
    found = asked_fleet(parts, words, codebook, quiet=as_json)
    if found is not None:
        from veilsum.front.of_fleet_answer import of_fleet_answer

        report(of_fleet_answer(found), stem, plot, as_json, **found.facts)


def places_of(name: str, out: Path | None, plot: Path | None) -> Path | None:
    """Where files go that are asked for; an error before anything is drawn if they cannot."""
    if out is not None:
        return check_places(name, out, plot)
    if plot is not None:
        from veilsum.front.files import check_figure

        check_figure(plot)
    return None


def report(
    answers: Answers, stem: Path | None, plot: Path | None, as_json: bool, **more: Any
) -> None:
    """Print a sheet that has files only where they are asked for."""
    if stem is not None:
        tell([(answers, written(answers, stem, plot))], as_json, **more)
        return
    if plot is not None:
        from veilsum.front.files import save_figure

        save_figure(answers, plot)
    if as_json:
        print_json(answers.to_dict() | more | {"files": [str(plot)] if plot else []})
        return
    from veilsum.front.terminal import show

    show(answers)


def filledby_of(table: Path, codebook: Path | None) -> Fill | None:
    """What the codebook of a table adds to options; None without one."""
    if codebook is None and not table.with_name(f"{table.stem}.codebook.toml").is_file():
        return None  # without importing what reads it
    from veilsum.asking.codebook import codebook_of

    found = codebook_of(table, codebook)
    return None if found is None else found.filled


def flags_of(ctx: typer.Context) -> list[str]:
    """The options of a command, for suggestions."""
    return [flag for parameter in ctx.command.params for flag in parameter.opts if flag[:2] == "--"]


def check_epsilon(eps: float | None) -> None:
    """Raise without an epsilon: what it is, and that nobody else can choose it."""
    if eps is None:
        from veilsum.front.odds import in_words

        raise CommandError(
            "--eps is missing: how much may anyone learn of one row? With --eps 1, anything published is "
            f"{in_words(1.0)} if that row were any other; with 0.1, {in_words(0.1)}; with 3, "
            f"{in_words(3.0)}. It is spent for good, so there is no default"
        )


def where_of(texts: Sequence[str] | None) -> Mapping[str, tuple[str, ...]] | None:
    """Columns and the values that count."""
    return dict(chosen(text, "--where") for text in texts) if texts else None


def by_of(text: str | None) -> tuple[str, tuple[str, ...]] | str | None:
    """A column and its public groups, or a column alone, whose groups the codebook says."""
    return text if text is None or "=" not in text else chosen(text, "--by")


def chosen(text: str, flag: str) -> tuple[str, tuple[str, ...]]:
    """A column and its public values."""
    column, equals, values = text.partition("=")
    if not (column and equals and values):
        raise CommandError(
            f"{flag} takes a column and its public values, such as {flag} region=north,south; found "
            f"{text}"
        )
    return column.strip(), tuple(value.strip() for value in values.split(","))


def _missing(text: str | None) -> Any:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
