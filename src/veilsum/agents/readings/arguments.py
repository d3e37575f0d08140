"""Checks of what a source of readings is made with; errors name the argument and no secret."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from veilsum import _validate
from veilsum.errors import AgentError

NUL = "\0"
LONGEST_TOPIC = 65535  # bytes, in MQTT
LONGEST_WAIT = 31_536_000.0  # seconds, a year: more overflows the timers of the system


def text(name: str, value: Any, expected: str) -> str:
    """A text that is not empty, without NUL characters."""
    if isinstance(value, str) and value and NUL not in value:
        return value
    raise AgentError(f"{name} must be {expected}; found {_kind(value)}")


def texts(**values: Any) -> None:
    """Raise unless each value is a text, or None."""
    for name, value in values.items():
        if value is not None:
            text(name, value, "a text")


def file(name: str, value: Any) -> Path:
    """The path of a file."""
    if isinstance(value, PathLike):
        value = str(value)
    return Path(text(name, value, "the path of a file"))


def names(name: str, value: Any, least: int = 1) -> list[str]:
    """One name, or several of them, as a list."""
    expected = f'{"a name" if least else "nothing, a name"} or a list of names, such as ["id"]'
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, Iterable) or isinstance(given, bytes | dict):
        raise AgentError(f"{name} must be {expected}; found {_kind(value)}")
    found = [text(name, each, expected) for each in given]
    if len(found) < least:
        raise AgentError(f"{name} must be {expected}; it is empty")
    return found


def seconds(name: str, value: Any) -> float:
    """A time above 0 and of at most a year, in seconds."""
    found = _validate.duration(AgentError, **{name: value})
    if not 0 < found <= LONGEST_WAIT:
        raise AgentError(
            f"{name} must be a time above 0 and of at most a year, such as 10.0 (seconds) or "
            f'"10s"; found {_validate.found(value)}'
        )
    return found


def command(value: Any) -> list[str]:
    """Program and arguments."""
    expected = 'program and arguments, such as ["read-meter", "--once"]'
    given = None if isinstance(value, str | bytes) else value
    if not isinstance(given, Iterable):
        raise AgentError(f"command must be {expected}; found {_kind(value)}")
    found = list(given)
    if not found or not found[0]:
        raise AgentError(f"command must be {expected}; it names no program")
    for each in found:
        if not isinstance(each, str) or NUL in each:
            raise AgentError(f"command must be {expected}; one of them is {_kind(each)}")
    return found


def topic(value: Any) -> str:
    """A filter of MQTT topics: + and # are whole levels, # is the last."""
    expected = 'a topic such as "meters/north/load" or "meters/+/load" or "meters/#"'
    found = text("topic", value, expected)
    levels = found.split("/")
    wrong = [
        level
        for place, level in enumerate(levels, 1)
        if (set(level) & set("+#") and len(level) > 1) or (level == "#" and place < len(levels))
    ]
    if wrong:
        raise AgentError(
            f"topic must be {expected}; + and # stand for whole levels, and # only for the last"
        )
    if len(found.encode("utf-8", errors="replace")) > LONGEST_TOPIC:
        raise AgentError(f"topic must be {expected}, of at most {LONGEST_TOPIC} bytes")
    return found


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return (
            "a text with a NUL character"
            if NUL in value
            else "an empty text" * (not value) or "a text"
        )
    return "nothing" if value is None else f"a value of type {type(value).__name__}"
