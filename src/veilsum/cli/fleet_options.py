"""What the commands of a fleet have in common: options, lines for people, questions on a terminal."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import typer

from veilsum.errors import CommandError, VeilsumError

WIDTH = 80
Value = TypeVar("Value")

HERE = Path()


def say(text: str, hanging: str = "  ") -> None:
    """A paragraph of at most 80 columns on stdout; commands in lines of their own stay whole."""
    for line in text.split("\n"):
        typer.echo(
            textwrap.fill(
                line,
                WIDTH,
                subsequent_indent=hanging,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )


def rows(lines: Sequence[tuple[str, str]]) -> None:
    """Two columns, the second one wrapped."""
    wide = max(len(name) for name, _ in lines) + 2
    for name, text in lines:
        say(f"{name:{wide}}{text}", " " * wide)


def asked(
    value: Value | None, option: str, question: str, read: Callable[[str], Value], usual: str = ""
) -> Value:
    """An option, or on a terminal the answer to a question, asked until it can be read."""
    if value is not None:
        return value
    if not on_terminal():
        raise CommandError(f"{option} is missing: {question[:1].lower()}{question[1:]}")
    while True:
        shown = f" [{usual}]" if usual else ""
        prompt = textwrap.fill(f"{question}{shown}", WIDTH - 2, break_on_hyphens=False)
        suffix = " " if prompt.endswith("?") else ": "
        text = typer.prompt(prompt, default=usual, show_default=False, prompt_suffix=suffix).strip()
        try:
            return read(text)
        except (ValueError, VeilsumError) as error:
            say(str(error))


def on_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def words(text: str | None) -> tuple[str, ...]:
    """Of a list with commas."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())
