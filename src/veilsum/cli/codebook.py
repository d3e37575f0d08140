"""veilsum codebook: what is public about a table, in a file beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veilsum.cli.guard import Debug, existing, guarded
from veilsum.errors import CommandError

Table = Annotated[
    Path, typer.Argument(metavar="FILE", help="A table; with --mock, a table or its codebook.")
]
Mock = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Draw N rows from the codebook; no real row is read."),
]
Seed = Annotated[int, typer.Option(min=0, help="Of the rows that are drawn.", show_default=True)]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="PATH", help="What to write.",
                 show_default="FILE.codebook.toml, or FILE.mock.csv"),
]  # fmt: skip


def codebook(
    file: Table, mock: Mock = None, seed: Seed = 0, out: Out = None, debug: Debug = False
) -> None:
    """Draft the codebook of a table, names and kinds alone, or draw rows from one for a dry run."""
    with guarded(debug):
        if mock is None:
            _draft(existing(file, "table"), out)
        else:
            _mock(file, mock, seed, out)


def _draft(table: Path, out: Path | None) -> None:
    from veilsum.asking import open_table
    from veilsum.asking.codebook import draft, place
    from veilsum.front.terminal import say_sentence

    path = out or place(table)
    _write(path, draft(open_table(table)))
    say_sentence(
        f"{path}: the names and kinds of {table.name}, and no value. Add what is known beforehand: units, "
        "bounds, categories, whose a row is, the budget. Then a question need not say it again."
    )


def _mock(file: Path, rows: int, seed: int, out: Path | None) -> None:
    import numpy as np

    from veilsum.asking.codebook import SUFFIX, place, read_codebook
    from veilsum.asking.mock import as_csv, mock
    from veilsum.front.terminal import say_sentence

    book = file if file.name.endswith(SUFFIX) else place(file)
    existing(book, "codebook")
    path = out or book.with_name(f"{book.name.removesuffix(SUFFIX)}.mock.csv")
    _write(path, as_csv(mock(read_codebook(book), rows, np.random.default_rng(seed))))
    say_sentence(
        f"{path}: {rows:,} rows drawn from {book.name}; no real row was read, and nothing can be learned "
        "from them."
    )


def _write(path: Path, text: str) -> None:
    if path.exists():
        raise CommandError(
            f"{path} is there already, and is not replaced; name another file with --out"
        )
    path.write_text(text, encoding="utf-8")
