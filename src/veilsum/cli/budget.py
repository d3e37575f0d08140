"""veilsum budget: what a table's answers have cost, and what is done to its budget on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from veilsum.cli.guard import AsJson, Debug, guarded, print_json
from veilsum.errors import CommandError

Budget = Annotated[
    Path, typer.Argument(metavar="FILE", help="Such as households.budget, beside its table.")
]
Raise = Annotated[
    float | None, typer.Option("--raise", metavar="E", help="Let more be spent, in all E.")
]
Delta = Annotated[float | None, typer.Option(metavar="D", help="With --raise: a delta, too.")]
Mend = Annotated[
    bool, typer.Option("--mend", help="Go on with a missing or damaged one: charge what it lacks.")
]
Adopt = Annotated[
    Path | None, typer.Option(metavar="TABLE", help="These are its rows, changed elsewhere.")
]


def budget(
    file: Budget,
    raised: Raise = None,
    delta: Delta = None,
    mend: Mend = False,
    adopt: Adopt = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show what was spent of a table's budget, raise its limit, mend it, or let it have changed rows."""
    with guarded(debug):
        if sum((raised is not None, mend, adopt is not None)) > 1:
            raise CommandError("--raise, --mend and --adopt are done one at a time")
        from veilsum.asking import budget_acts

        if raised is not None:
            said: Any = budget_acts.raise_limit(file, raised, delta)
        elif mend:
            said = budget_acts.mend(file)
        elif adopt is not None:
            said = budget_acts.adopt(file, adopt)
        else:
            _show(budget_acts.describe(file), as_json)
            return
        if as_json:
            print_json({"done": said})
            return
        from veilsum.front.terminal import say_sentence

        say_sentence(said)


def _show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    from veilsum.front.of_budget import budget_lines
    from veilsum.front.terminal import say, width

    say("\n".join(budget_lines(found, width())))
