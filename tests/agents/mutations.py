"""Hellos with one field changed, as by a fault on the way or of a program."""

from typing import Any

from veilsum.agents.messages import PeerStatus

NUMBERS = ("incarnation", "peer_incarnation", "epoch", "acknowledged")
BYTES = ("manifest", "tag", "echo")
STATUS = tuple(f"{part}.{name}" for part in ("own", "known") for name in PeerStatus._fields)
FIELDS = (*NUMBERS, *BYTES, "fields", "asks", *STATUS)


def changed(value: Any, by: int) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return max(value + by, 0) if value + by != value else value + 1
    if isinstance(value, tuple):
        return (*value[:-1], bytes(8))
    if not value:
        return bytes([by % 256]) * 8
    at = by % len(value)
    return value[:at] + bytes([value[at] ^ (1 << by % 8)]) + value[at + 1 :]


def mutated(hello: Any, field: str, by: int) -> Any:
    """A Hello with one field changed, by its name or as `own.start`."""
    if "." not in field:
        return hello._replace(**{field: changed(getattr(hello, field), by)})
    part, name = field.split(".")
    status = getattr(hello, part)
    return hello._replace(**{part: status._replace(**{name: changed(getattr(status, name), by)})})
