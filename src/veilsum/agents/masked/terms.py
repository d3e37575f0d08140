"""What all members of a masked sum agree on: who they are, their pinned keys, and the parameters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from veilsum.agents.masked.masks import digest
from veilsum.errors import AgentError
from veilsum.privacy import MaskedDP, plan
from veilsum.privacy.masked import MaskedParameters

if TYPE_CHECKING:
    from veilsum.agents.manifest import Manifest

NONCE, KEY = 16, 32
MOST_ROSTERS = 64  # whose labels are remembered


@dataclass(frozen=True)
class MaskedTerms:
    """The public terms.

    Parameters
    ----------
    manifest : bytes
        The digest of the manifest, which every record and mask is bound to.
    nonce : bytes
        16 bytes that distinguish this run from all others under the manifest.
    members : tuple of (str, bytes)
        Label and pinned Ed25519 key of every member; its number is its place.
    parameters : MaskedParameters
        n, c, d, epsilon and the grid.

    Raises
    ------
    AgentError
        If labels or keys repeat, a size is wrong, or the parameters are for another n.

    Examples
    --------
    >>> numbers = MaskedParameters(3, 0, 0, epsilon=1.0, sensitivity_steps=8)
    >>> members = tuple((label, label.encode() * 32) for label in "abc")
    >>> terms = MaskedTerms(bytes(32), bytes(16), members, numbers)
    >>> terms.numbers["b"], terms.proposer(1, 0, 0) != terms.proposer(1, 0, 1)
    (1, True)
    """

    manifest: bytes
    nonce: bytes
    members: tuple[tuple[str, bytes], ...]
    parameters: MaskedParameters

    def __post_init__(self) -> None:
        """Check sizes, and that no label or key stands for two members."""
        if len(self.manifest) != 32 or len(self.nonce) != NONCE:
            raise AgentError("a manifest's digest has 32 bytes, a run's nonce 16")
        if len(self.members) != self.parameters.n:
            raise AgentError(
                f"{len(self.members)} members, the parameters are for {self.parameters.n}"
            )
        for what in zip(*self.members, strict=True):
            if len(set(what)) != len(what):
                raise AgentError("two members have the same label or the same signing key")
        if any(len(key) != KEY for _, key in self.members):
            raise AgentError("a pinned Ed25519 key has 32 bytes")

    @classmethod
    def of(cls, manifest: Manifest, family: Any) -> MaskedTerms:
        """The terms of a manifest that pins its members' keys.

        Parameters
        ----------
        manifest : Manifest
            With `masked`, a nonce and the signing key of every member.
        family : Family
            The family of the signals, whose name the manifest has.

        Returns
        -------
        MaskedTerms
            The parameters are computed by `privacy.plan`, and nowhere else.

        Raises
        ------
        AgentError
            If nothing is masked, or nonce and keys are missing.
        """
        from veilsum.agents.release.guarantees import request_of

        request = request_of(manifest)
        if not isinstance(request, MaskedDP):
            raise AgentError(
                f"{manifest.name} adds local noise (algorithm {manifest.algorithm}); a masked sum "
                'needs [privacy] mode = "masked"'
            )
        if not manifest.pinned:
            raise AgentError(
                f"the manifest of {manifest.name} has no nonce or no signing keys; state both in "
                "[agents]"
            )
        keys = (bytes.fromhex(key) for key in manifest.signing_keys)
        return cls(
            manifest.digest,
            bytes.fromhex(manifest.nonce),
            tuple(zip(manifest.labels, keys, strict=True)),
            plan(request, family, members=len(manifest.members)).mechanism().terms,
        )

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """By number."""
        return tuple(label for label, _ in self.members)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """By label."""
        return {label: number for number, label in enumerate(self.labels)}

    @cached_property
    def keys(self) -> dict[str, bytes]:
        """The pinned keys (R3)."""
        return dict(self.members)

    @cached_property
    def _rosters(self) -> dict[tuple[int, ...], tuple[str, ...]]:
        return {}

    def labels_of(self, members: tuple[int, ...]) -> tuple[str, ...]:
        """The labels of a roster."""
        found = self._rosters.get(members)
        if found is None:
            if len(self._rosters) >= MOST_ROSTERS:
                self._rosters.clear()
            found = self._rosters[members] = tuple(self.labels[number] for number in members)
        return found

    @cached_property
    def _sids(self) -> dict[tuple[int, int, int], bytes]:
        return {}

    def sid(self, query: int, attempt: int, view: int) -> bytes:
        """H(domain, manifest, nonce, query, attempt, view)."""
        place = query, attempt, view
        if place not in self._sids:
            counts = (number.to_bytes(8, "big") for number in place)
            self._sids[place] = digest(b"session", self.manifest, self.nonce, *counts)
        return self._sids[place]

    def proposer(self, query: int, attempt: int, view: int) -> str:
        """Who proposes the roster: the next member in each view, from a public start."""
        start = int.from_bytes(self.sid(query, attempt, 0)[:8], "big")
        return self.labels[(start + view) % len(self.labels)]

    @property
    def withdrawals_needed(self) -> int:
        """For a refund: the colluders', that of one restored ledger, and one that is true."""
        return self.parameters.colluders + 2

    @property
    def most_views(self) -> int:
        """Views of an attempt in which enough members were seen: every member proposes twice."""
        return 2 * len(self.labels)
