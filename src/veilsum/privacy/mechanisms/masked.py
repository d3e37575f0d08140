"""What a member of a masked sum adds to its statistic: as of a secure sum, and padded by masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import ArrayLike, NDArray

from veilsum.errors import PrivacyError
from veilsum.privacy.exact.entropy import SYSTEM, Entropy
from veilsum.privacy.masked import MaskedParameters
from veilsum.privacy.mechanisms.secure import SecureMechanism


@dataclass(frozen=True)
class MaskedMechanism(SecureMechanism):
    """floor(x/step + 1/2) + GDL(1/h, t), in grid steps; the sum over a roster is what is seen."""

    terms: MaskedParameters

    name: ClassVar[str] = "masked"

    def release(self, values: ArrayLike, *, entropy: Entropy = SYSTEM) -> NDArray[Any]:
        """Refuse: without masks it hides nearly nothing."""
        raise PrivacyError(
            "a member's value of a masked sum never leaves by itself; agents/masked pads it"
        )
