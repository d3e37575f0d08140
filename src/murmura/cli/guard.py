"""From errors to exit codes, and from warnings to one-line notes on stderr."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from murmura.errors import CommandError, CostError, MurmuraError, MurmuraWarning, ScenarioError

FAILED, WRONG, INTERRUPTED = 1, 2, 130
WRONGLY_ASKED = (ScenarioError, CommandError, CostError)

Debug = Annotated[
    bool, typer.Option("--debug", envvar="MURMURA_DEBUG", help="Show the traceback of an error.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@contextmanager
def guarded(debug: bool) -> Iterator[None]:
    """One clear message instead of a traceback, and the exit code that goes with it."""
    with _notes():
        try:
            yield
        except KeyboardInterrupt:
            raise _stop("interrupted", INTERRUPTED) from None
        except (MurmuraError, OSError, MemoryError) as problem:
            if debug:
                raise
            code = WRONG if isinstance(problem, WRONGLY_ASKED) else FAILED
            raise _stop(f"error: {_words(problem)}", code) from None


@contextmanager
def asked() -> Iterator[None]:
    """What is refused in here was asked for wrongly: the exit code is that of a wrong command."""
    try:
        yield
    except MurmuraError as problem:
        raise CommandError(str(problem)) from problem


def existing(path: Path, what: str) -> Path:
    """A file that a command names, if it is there."""
    if not path.exists():
        raise CommandError(f"there is no {what} at {path}; check the path")
    return path


def print_json(value: Any) -> None:
    """Print one JSON object on stdout."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))


def _stop(message: str, code: int) -> typer.Exit:
    typer.echo(message, err=True)
    return typer.Exit(code)


def _words(problem: BaseException) -> str:
    if isinstance(problem, MemoryError):
        return "not enough memory; ask for fewer replicas, epsilons or recorded agents"
    return str(problem)


@contextmanager
def _notes() -> Iterator[None]:
    """Show each warning of murmura once, as a note; others as Python does."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", MurmuraWarning)
        usual, seen = warnings.showwarning, set()

        def show(message: Any, category: Any, *place: Any, **more: Any) -> None:
            if not issubclass(category, MurmuraWarning):
                usual(message, category, *place, **more)
            elif str(message) not in seen:
                seen.add(str(message))
                print(f"note: {message}", file=sys.stderr)

        warnings.showwarning = show
        yield
