"""A consent as it is posted: yes, or no with the reason that the site gives."""

from __future__ import annotations

import json
from dataclasses import dataclass

LONGEST = 500  # characters of a reason


@dataclass(frozen=True)
class ConsentPost:
    """What a site says to a question."""

    yes: bool
    reason: str = ""

    @property
    def data(self) -> bytes:
        """As bytes."""
        return json.dumps(
            {"reason": self.reason[:LONGEST], "yes": self.yes}, sort_keys=True
        ).encode()

    @classmethod
    def read(cls, data: bytes) -> ConsentPost | None:
        """Of bytes; None if it is none."""
        try:
            found = json.loads(data)
            yes, reason = found["yes"], found["reason"]
        except (ValueError, TypeError, KeyError):
            return None
        return cls(yes, reason) if isinstance(yes, bool) and isinstance(reason, str) else None
