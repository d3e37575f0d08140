"""Seeded entropy: the same noise every time, which therefore protects nothing."""

from __future__ import annotations

import numpy as np

from veilsum.errors import PrivacyError
from veilsum.privacy.exact.entropy import Entropy


class PredictableEntropy(Entropy):
    """A seeded stream for tests and simulations: who knows the seed can subtract the noise.

    Parameters
    ----------
    seed : int
        Decides every byte.
    simulation_only : bool
        Must be True: it states that nothing drawn from this will be released.

    Raises
    ------
    PrivacyError
        Without `simulation_only=True`.

    Examples
    --------
    >>> PredictableEntropy(1, simulation_only=True).read(4).hex()
    'ffe42279'
    >>> PredictableEntropy(1)
    Traceback (most recent call last):
    ...
    veilsum.errors.PrivacyError: predictable entropy protects nothing; pass simulation_only=True in
    a test or a simulation, and leave entropy out of a release
    """

    def __init__(self, seed: int, *, simulation_only: bool = False) -> None:
        """Refuse, unless the caller says that nothing of this will be released."""
        if simulation_only is not True:
            raise PrivacyError(
                "predictable entropy protects nothing; pass simulation_only=True in a test or a "
                "simulation, and leave entropy out of a release"
            )
        self._stream = np.random.default_rng(seed)

    def read(self, count: int) -> bytes:
        """Return the next `count` bytes of the stream."""
        return self._stream.bytes(count)
