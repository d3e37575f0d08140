"""The masked sum: the noise of a secure sum (`privacy.secure`), and what masks and attempts ask for."""

from __future__ import annotations

from dataclasses import dataclass

from veilsum._numbers import upward
from veilsum.errors import PrivacyError
from veilsum.privacy.secure import COMPUTATIONAL, TAIL, SecureParameters

__all__ = ["COMPUTATIONAL", "MODULUS_BITS", "MOST_COMPONENTS", "TAIL", "MaskedParameters"]

MODULUS_BITS = 64
MOST_COMPONENTS = 1024  # of a statistic: what one message of an agent has room for


@dataclass(frozen=True)
class MaskedParameters(SecureParameters):
    """The public numbers of a masked sum.

    Parameters
    ----------
    n, colluders, absent, epsilon, sensitivity_steps, largest_steps, dimension, longest_batch
        As for `SecureParameters`, epsilon for one session.
    range_steps, delta, l2_steps
        As for `SecureParameters`.
    attempts : int
        A, sessions per query.

    Raises
    ------
    PrivacyError
        If n - c - 2d < 2, there are more than d + 1 attempts, t is outside 1/1000 .. 2^40, there
        are more than 1,024 components, or the sum does not fit the modulus.

    Examples
    --------
    >>> terms = MaskedParameters(1000, colluders=200, absent=100, epsilon=1.0, sensitivity_steps=4096)
    >>> terms.honest, terms.scale, terms.attempts, round(terms.error_factor(1000), 2)
    (700, Fraction(4096, 1), 1, 1.2)
    >>> round(terms.epsilon_against(400), 2)
    1.74
    """

    attempts: int = 1

    def _check_members(self) -> None:
        left = self.n - self.colluders - 2 * self.absent
        if left < 2:
            raise PrivacyError(
                f"n - colluders - 2 absent must be at least 2; found {self.n} - {self.colluders} - "
                f"2 x {self.absent} = {left}; two rosters must have two honest members in common, or "
                "a restored ledger can leak; cover fewer colluders or absentees"
            )
        if self.attempts > self.absent + 1:
            raise PrivacyError(
                f"attempts must be at most absent + 1 = {self.absent + 1}; found {self.attempts}; each "
                "further attempt leaves out at least one member"
            )
        if self.dimension > MOST_COMPONENTS:
            raise PrivacyError(
                f"a masked sum has at most {MOST_COMPONENTS:,} components, which one message has "
                f"room for; found {self.dimension:,}; sum fewer, or parts with an epsilon of their own"
            )

    def _check_room(self) -> None:
        """|sum| <= n longest largest + noise < 2^63, the noise up to a probability of 2^-60."""
        if self.largest_sum >= 2 ** (MODULUS_BITS - 1):
            raise PrivacyError(
                f"a sum of {self.n} times {self.longest_batch} statistics of up to {self._largest} "
                "steps and its noise exceed 2^63; use a coarser grid (fewer steps) or shorter batches"
            )

    @property
    def reason(self) -> str:
        """Why the sum hides a member."""
        return (
            f"masks hide all but the sum over a roster, in which the noise of at least {self.honest} "
            f"honest members is one full {self.law.name} draw"
        )

    @property
    def per_query(self) -> str:
        """How many sessions a query takes."""
        if self.attempts == 1:
            return "one session"
        each = f"at most {self.attempts} sessions of epsilon = {upward(self.epsilon)}"
        return f"{each}, one if the first succeeds"

    @property
    def caveat(self) -> str:
        """What epsilon becomes if twice as many collude, for a guarantee's sentence."""
        twice = min(max(2 * self.colluders, 1), self.n - 1)
        who = str(twice) if twice < self.n - 1 else f"all {twice} others"
        more = f"if {who} colluded" if self.colluders else "against any one of the other members"
        return (
            f"{more}, epsilon would be {upward(self.epsilon_against(twice), 3)} a session; a "
            "member that omits its noise counts as a colluder"
        )
