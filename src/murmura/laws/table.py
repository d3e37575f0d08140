"""The coefficients of all rounds of a law as arrays, checked once.

Guarantee and calibration both read them here, so a coefficient that is not a number cannot pass
one of the two unseen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmura.errors import LawError
from murmura.laws.base import Coefficients, Law

Floats = NDArray[np.float64]

KEPT = 100_000  # rounds up to which a table is kept for the next who asks
MOST = 64  # tables kept


@dataclass(frozen=True, eq=False)
class Table:
    """Coefficients and sensitivities of rounds 0 .. rounds, the start being round 0."""

    law: Law
    keep: Floats
    mix: Floats
    recall: Floats
    learn: Floats
    noise: Floats
    edge: Floats
    signal: Floats  # Sensitivities.signal, 0 in rounds without noise
    network: Floats  # Sensitivities.network, likewise

    @property
    def rounds(self) -> int:
        """The last round."""
        return len(self.mix) - 1

    @property
    def releases(self) -> int:
        """How many rounds have noise, the start included."""
        return int(np.count_nonzero(self.noise))


def table(law: Law, rounds: int) -> Table:
    """Tabulate a law; raise `LawError` for a coefficient or sensitivity that is not finite."""
    key = (type(law), rounds, *sorted(getattr(law, "__dict__", {"": []}).items()))
    try:
        found = _kept.get(key)
    except TypeError:  # an algorithm with a list or an array for an option
        return _made(law, rounds)
    if found is None:
        found = _made(law, rounds)
        if rounds <= KEPT:
            while len(_kept) >= MOST:
                _kept.pop(next(iter(_kept)), None)
            _kept[key] = found
    return found


_kept: dict[Any, Table] = {}  # by type and all attributes: `==` of algorithms sees fields only


def _made(law: Law, rounds: int) -> Table:
    numbers = np.array([law.at(t) for t in range(rounds + 1)], dtype=np.float64)
    moves = np.zeros((rounds + 1, 2))
    for t in np.flatnonzero(numbers[:, 4]):
        moves[t] = law.sensitivities(int(t))
    _check(law, numbers, Coefficients._fields)
    _check(law, moves, ("sensitivities.signal", "sensitivities.network"))
    if (moves < 0).any():
        first = int(np.argwhere(moves < 0)[0][0])
        raise LawError(f"law {law.name} has a negative sensitivity in round {first}")
    return Table(law, *numbers.T.copy(), *moves.T.copy())


def _check(law: Law, numbers: Floats, names: tuple[str, ...]) -> None:
    wrong = np.argwhere(~np.isfinite(numbers))
    if wrong.size:
        t, k = wrong[0]
        raise LawError(
            f"law {law.name} gives {numbers[t, k]} for {names[k]} in round {t}; every coefficient "
            "and sensitivity must be a finite number"
        )
