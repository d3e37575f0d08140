"""What a certificate is for: a member's links, or an observer's reading of statuses.

The role is part of the common name, because that is what access control admits by: an observer is
"observer:NAME" there, and no member can be called that. So none of the members' links takes an observer
for one of theirs, whatever it is called.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from veilsum.errors import AgentError

OBSERVER = "observer:"  # before the name of an observer, in its common name


class Role(StrEnum):
    """What a certificate is for."""

    MEMBER = "member"
    OBSERVER = "observer"


def common_name_of(name: str, role: Role) -> str:
    """What is on the certificate of a name.

    Examples
    --------
    >>> common_name_of("control-room", Role.OBSERVER)
    'observer:control-room'
    """
    return OBSERVER + name if role is Role.OBSERVER else name


def split_common_name(written: str) -> tuple[str, Role]:
    """The name, and the role that goes with it.

    Examples
    --------
    >>> split_common_name("observer:control-room")[0], split_common_name("north")[1].value
    ('control-room', 'member')
    """
    if written.startswith(OBSERVER):
        return written.removeprefix(OBSERVER), Role.OBSERVER
    return written, Role.MEMBER


def check_members(names: Iterable[str]) -> None:
    """Raise `AgentError` if a member's certificate would be an observer's."""
    for name in names:
        if name.startswith(OBSERVER):
            raise AgentError(
                f"certificates: {name!r} cannot be the name on a member's certificate: {OBSERVER!r} "
                "marks observers, who take part in nothing; choose another name"
            )
