"""Errors as messages and exit codes, warnings as notes on stderr, JSON on stdout."""

from __future__ import annotations

import json
import os
import select
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from veilsum import _extras
from veilsum.cli.options import with_page_address
from veilsum.errors import CommandError, CostError, ScenarioError, VeilsumError, VeilsumWarning

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
BEYOND = 4  # of an audit: nothing was refuted, and something attacked that is not claimed
USAGE_ERRORS = (ScenarioError, CommandError, CostError)

Debug = Annotated[
    bool, typer.Option("--debug", envvar="VEILSUM_DEBUG", help="Show the traceback of an error.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]

ClickException: Any = typer.BadParameter.__mro__[2]  # which typer does not export
_json_errors: ContextVar[bool] = ContextVar("json_errors", default=False)


class PlainGroup(TyperGroup):
    """A group whose help names every command with all of its first paragraph."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands, wrapped where typer would cut them."""
        rows = [
            (name, " ".join((command.help or "").split("\n\n")[0].split()))
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name)) is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class VerbGroup(PlainGroup):
    """The verbs; with --json an error is also a JSON object on stdout."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Note whether the command line asks for JSON, before an option can be wrong."""
        _json_errors.set("--json" in args)
        return super().parse_args(ctx, with_page_address(args))

    def invoke(self, ctx: Any) -> Any:
        """Run a verb; errors of its arguments are printed as JSON, too."""
        try:
            return super().invoke(ctx)
        except ClickException as error:
            _print_json_error(error.format_message())
            raise


@contextmanager
def guarded(debug: bool) -> Iterator[None]:
    """Print one clear message instead of a traceback, and exit with the code that belongs to it."""
    with _warnings_as_notes():
        try:
            yield
        except KeyboardInterrupt:
            raise _exit("interrupted", INTERRUPTED) from None
        except (VeilsumError, OSError, MemoryError, ModuleNotFoundError) as caught:
            error = _extras.explained(caught)
            if isinstance(error, BrokenPipeError) and _stdout_is_closed():
                raise typer.Exit(FAILED) from None
            if debug or not isinstance(error, VeilsumError | OSError | MemoryError):
                raise
            code = WRONG_USAGE if isinstance(error, USAGE_ERRORS) else FAILED
            raise _exit(_message(error), code, "error: ") from None


@contextmanager
def usage_errors() -> Iterator[None]:
    """Errors of veilsum in this block are wrong usage, with its exit code."""
    try:
        yield
    except VeilsumError as error:
        raise CommandError(str(error)) from error


def existing(path: Path, what: str) -> Path:
    """The path, if the file exists."""
    if not path.exists():
        raise CommandError(f"there is no {what} at {path}; check the path")
    return path


def needs_simulator(verb: str, plot: Path | None = None, *more: str) -> None:
    """Raise before a verb starts anything it could not end: it simulates, and may draw a figure."""
    _extras.require(verb, "sim", *more)
    needs_plot(plot)


def needs_plot(plot: Path | None) -> None:
    """Raise before a verb starts if it is asked for a figure that it could not draw."""
    if plot is not None:
        _extras.require("--plot", "plot", otherwise="leave it out")


def print_json(value: Any) -> None:
    """Print one JSON object on stdout."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))


def discard_closed_stdout() -> None:
    """Let Python exit without a complaint if the reader of a pipe has gone (`veilsum ... | head`)."""
    if _stdout_is_closed():
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stdout_is_closed() -> bool:
    """Whether stdout is a pipe that nobody reads."""
    try:
        sys.stdout.flush()
        descriptor = sys.stdout.fileno()
    except BrokenPipeError:
        return True
    except (OSError, ValueError):  # not a file, or closed on purpose
        return False
    if not hasattr(select, "poll"):  # Windows
        return False
    poller = select.poll()
    poller.register(descriptor, 0)  # reports errors only
    return bool(poller.poll(0))


def _exit(message: str, code: int, prefix: str = "") -> typer.Exit:
    typer.echo(f"{prefix}{message}", err=True)
    _print_json_error(message)
    return typer.Exit(code)


def _print_json_error(message: str) -> None:
    if _json_errors.get():
        typer.echo(json.dumps({"error": message}, ensure_ascii=False))  # one line, as of JSON lines


def _message(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory; ask for fewer replicas, epsilons or recorded agents"
    return str(error)


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Print each warning of veilsum once, as a note; others as Python does."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", VeilsumWarning)
        default, seen = warnings.showwarning, set()

        def show(message: Any, category: Any, *place: Any, **more: Any) -> None:
            if not issubclass(category, VeilsumWarning):
                default(message, category, *place, **more)
            elif str(message) not in seen:
                seen.add(str(message))
                print(f"note: {message}", file=sys.stderr)

        warnings.showwarning = show
        yield
