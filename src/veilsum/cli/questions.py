"""veilsum questions: what can be asked of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from veilsum.cli.guard import AsJson, Debug, guarded, print_json, usage_errors

Name = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="One question: how it is asked.", show_default=False),
]


def questions(name: Name = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """List the questions that `veilsum ask` and `veilsum plan` take, each with its options."""
    with guarded(debug), usage_errors():
        from veilsum.questions import QUESTIONS
        from veilsum.questions.options import spelling

        names = QUESTIONS.names() if name is None else [QUESTIONS.get(name).name]
        rows = [(spelling(each).usage, QUESTIONS[each].about) for each in names]
        if as_json:
            found = zip(names, rows, strict=True)
            print_json({"questions": [{"name": n, "usage": u, "about": a} for n, (u, a) in found]})
            return
        from veilsum.front.screen import wrapped
        from veilsum.front.terminal import say, width

        columns = width()
        for usage, about in rows:
            for line in [*wrapped(usage, columns, "    "), *wrapped(f"  {about}", columns)]:
                say(line)
        if name is None:
            say("\n".join(["", *wrapped(HOW, columns)]))


HOW = (
    "Ask one: veilsum ask QUESTION COLUMN ... TABLE --eps E. Several at once, with `and` between them. "
    "All of them take --where, --by, --id, --population: veilsum ask --help."
)
