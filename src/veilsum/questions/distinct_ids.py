"""How many ids there are: an id counts as 1 if any of its rows is in, however many are.

x = 1 for an id with a row that is in, 0 for one without,    l1 = 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from veilsum.questions.counts import Count


@dataclass(frozen=True, kw_only=True)
class Distinct(Count):
    """How many different ids have a row that is in.

    Examples
    --------
    >>> import veilsum as vs
    >>> vs.questions.distinct().once
    True
    """

    name: ClassVar[str] = "distinct"
    about: ClassVar[str] = "how many different ids there are, each counted once"
    what: ClassVar[str] = "different ids"
    once: ClassVar[bool] = True
    adds_rows: ClassVar[bool] = False
