"""Where the random bits come from.

A release draws from the operating system and from nothing else: there is no seed, no pool of our
own and no second choice. Each request is one call of `os.urandom`, so no byte is kept between two
requests; a forked process therefore cannot repeat its parent's noise, and nothing in memory
foretells the next draw. The samplers ask for blocks of many draws, which keeps the calls few.

Tests may pass `veilsum.testing.PredictableEntropy`; it must be asked for by name and by keyword.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from veilsum.errors import PrivacyError


class Entropy(ABC):
    """A source of independent, uniform random bytes.

    Examples
    --------
    >>> isinstance(SYSTEM, Entropy), len(SYSTEM.read(16))
    (True, 16)
    """

    @abstractmethod
    def read(self, count: int) -> bytes:
        """Give `count` fresh bytes."""


class SystemEntropy(Entropy):
    """The operating system's cryptographic generator, the one that `secrets` uses.

    Examples
    --------
    >>> len(SystemEntropy().read(16))
    16
    """

    def read(self, count: int) -> bytes:
        """Give `count` bytes of `os.urandom`, which raises rather than give weaker ones."""
        return os.urandom(count)


SYSTEM = SystemEntropy()


def checked(entropy: Entropy) -> Entropy:
    """Return the source itself, or raise: a seed or a numpy generator is no entropy."""
    if not isinstance(entropy, Entropy):
        raise PrivacyError(
            f"entropy must be an Entropy; found {type(entropy).__name__}; leave it out to draw "
            "from the operating system"
        )
    return entropy


def read(entropy: Entropy, count: int) -> bytes:
    """Read exactly `count` bytes; a short answer stops the release."""
    found = entropy.read(count)
    if len(found) != count:
        raise PrivacyError(
            f"entropy gave {len(found)} of {count} bytes; nothing is released without all of them"
        )
    return found


def octets(entropy: Entropy, count: int) -> NDArray[np.uint8]:
    """Read `count` uniform integers of 8 bits."""
    return np.frombuffer(read(entropy, count), dtype=np.uint8)


def words(entropy: Entropy, count: int) -> NDArray[np.uint64]:
    """Read `count` uniform integers of 64 bits."""
    return np.frombuffer(read(entropy, 8 * count), dtype="<u8").astype(np.uint64, copy=False)
