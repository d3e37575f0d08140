"""veilsum ask ... --fleet ADDRESS: the same words, asked of the sites of a fleet."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from veilsum.cli.asked import AskedPart, Words
from veilsum.cli.fleet_options import say
from veilsum.cli.guard import INTERRUPTED, usage_errors
from veilsum.errors import CommandError

if TYPE_CHECKING:
    from veilsum.asking.codebook_contents import Codebook
    from veilsum.fleet.asking import Asking, FleetReply
    from veilsum.fleet.membership import Membership
    from veilsum.fleet.question import FleetQuestion, Worded

NOT_HERE = (  # options of a table that a fleet does not have
    "min_count", "round_to", "budget", "limit", "sql", "anyway",
)  # fmt: skip


@dataclass(frozen=True)
class FleetWords:
    """What the command line says of a fleet."""

    address: str
    protocol: str | None = None
    deadline: str | None = None
    every: str | None = None
    sites_per_person: int = 1
    most_records: int | None = None
    quorum: int | None = None
    fresh: bool = False  # pays for another draw
    no_wait: bool = False  # leaves once the question is posted
    more: Mapping[str, Any] = field(default_factory=dict)  # fields of a question


def refuse(given: Mapping[str, Any]) -> None:
    """Raise for options that only a table has."""
    for name in NOT_HERE:
        if given.get(name):
            flag = {"round_to": "--round"}.get(name, f"--{name.replace('_', '-')}")
            raise CommandError(
                f"{flag} is of a table that one file has; leave it out with --fleet, whose sites have "
                "budgets and tables of their own"
            )


def asked_fleet(
    parts: Sequence[AskedPart], words: FleetWords, codebook: Path | None, quiet: bool
) -> FleetReply | None:
    """Ask, wait and show what is waited for; None where nobody waits, and there is no answer yet."""
    from veilsum.fleet.asking import Asking, check_asked

    asking = Asking(Path.cwd(), words.address)
    membership = asking.membership()
    book = _codebook(codebook)
    with usage_errors():
        question = question_of(parts, words, membership, book)
        check_asked(question, membership)
    posted, new = asking.post(question, int(time.time()), fresh=words.fresh)
    if new:
        _note(_cost(posted.question, membership))
    if question.timetable is not None or words.no_wait:
        return _so_far(asking, posted, book)
    line = _Line(quiet)
    try:
        found = asking.wait(posted, say=line, clock=time.time, sleep=pause, codebook=book)
    except KeyboardInterrupt:
        line.end()
        _note(
            "The question stays on the board. The same line again waits for it and costs nothing; without "
            "it, veilsum fleet step or run here lets it go on."
        )
        raise typer.Exit(INTERRUPTED) from None
    finally:
        line.end()
    return found


def pause(seconds: float) -> None:
    """Between two looks at the board."""
    time.sleep(seconds)


def _so_far(asking: Asking, posted: Any, book: Codebook | None) -> FleetReply | None:
    found = asking.look(posted, int(time.time()), book)
    answer = found.done or found.so_far
    if answer is None:
        slots = "sites answer each slot when it is over. " if posted.question.timetable else ""
        say(
            f"The question is on the board; {slots or f'it {found.stage}. '}The same line again prints the "
            "answer; veilsum fleet run or step here lets it go on."
        )
    return answer


def question_of(
    parts: Sequence[AskedPart], words: FleetWords, membership: Membership, book: Codebook | None
) -> FleetQuestion:
    """The question that the words mean."""
    from veilsum.fleet.asking import WEEK, usual_protocol
    from veilsum.fleet.consent import columns_of
    from veilsum.fleet.periods import seconds_of
    from veilsum.fleet.question import FleetQuestion

    asks = tuple(part.tried(partial(_asked, part, book)) for part in parts)
    more = dict(words.more)
    if isinstance(more.get("by"), str):
        raise CommandError(f"--by {more['by']} takes the groups, too: --by {more['by']}=A,B")
    if words.most_records is not None:
        more["most_records"] = words.most_records
    seconds = WEEK if words.deadline is None else seconds_of(words.deadline, "--deadline")
    if words.every:
        more["schedule"] = {"every": words.every}
    else:
        more["deadline"] = int(time.time()) + seconds
    if words.every and words.deadline:
        raise CommandError(
            "--deadline is of a question that is asked once, --every of one that repeats"
        )
    usual = "pool" if words.every else usual_protocol(membership)
    made = FleetQuestion(
        asks=asks, protocol=words.protocol or usual, quorum=words.quorum,
        sites_per_person=words.sites_per_person, **more,
    )  # fmt: skip
    if book is None:
        return made
    return replace(made, codebook=book.digest(columns_of(made)), settles="")


def _asked(part: AskedPart, book: Codebook | None, given: Words) -> Worded:
    from veilsum.fleet.question import asked_of

    return asked_of(part.name, part.columns, given, book)


def _codebook(path: Path | None) -> Codebook | None:
    if path is None:
        return None
    from veilsum.asking.codebook import read_codebook

    return read_codebook(path)


def _cost(question: FleetQuestion, membership: Membership) -> str:
    from veilsum.fleet.membership import SITE

    sites, times = len(membership.having(SITE)), ", each time" if question.timetable else ""
    delta = f" and delta {question.delta:g}" if question.delta else ""
    return (
        f"Asking {sites} sites of {membership.fleet}: {question.title()}, by {question.protocol}. It costs "
        f"each epsilon {question.event.epsilon:g}{delta}{times}, once it agrees."
    )


def _note(text: str) -> None:
    import textwrap

    typer.echo(textwrap.fill(text, 80, break_on_hyphens=False), err=True)


class _Line:
    """What is waited for, on stderr: one line on a terminal, a line for each change elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self._terminal = sys.stderr.isatty()
        self._quiet, self._last, self._since = quiet, "", time.monotonic()

    def __call__(self, text: str) -> None:
        """Show it."""
        if self._terminal:
            seconds = int(time.monotonic() - self._since)
            typer.echo(f"\r\033[K{f'{seconds} s: {text}'[:79]}", err=True, nl=False)
        elif text != self._last and not self._quiet:
            _note(text)
        self._last = text

    def end(self) -> None:
        """Clear it."""
        if self._terminal and self._last:
            typer.echo("\r\033[K", err=True, nl=False)
        self._last = ""
