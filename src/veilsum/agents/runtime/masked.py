"""What the agents of a node need for masked sums: terms, sessions in their ledgers, records in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from veilsum.agents.ledger import Ledger
from veilsum.agents.manifest import Manifest
from veilsum.agents.protocol import Options
from veilsum.agents.release import ContributionMechanism
from veilsum.agents.runtime.query_ledger import QueryLedger
from veilsum.errors import AgentError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from veilsum.agents.masked.actions import SessionTimes
    from veilsum.agents.masked.agent import MaskedAgent
    from veilsum.agents.masked.local import LocalRecords
    from veilsum.agents.masked.pool import RecordPool
    from veilsum.agents.masked.terms import MaskedTerms


class MaskedParts:
    """Makes the agents of a node for masked sums.

    Parameters
    ----------
    manifest : Manifest
        The terms of the network, with pinned keys and a nonce.
    options : Options
        Time limits of the agents.

    Attributes
    ----------
    sessions : dict of str to QueryLedger
        The queries of each agent.
    times : SessionTimes or None
        Time limits of sessions; None for those that follow from the manifest.
    """

    def __init__(self, manifest: Manifest, options: Options) -> None:
        """No agent is made yet."""
        self.manifest, self.options = manifest, options
        self.sessions: dict[str, QueryLedger] = {}
        self.times: SessionTimes | None = None
        self._agents: dict[str, MaskedAgent] = {}
        self._terms: MaskedTerms | None = None
        self._pool: RecordPool | None = None

    def agent(
        self,
        label: str,
        ledger: Ledger,
        mechanism: ContributionMechanism,
        signing_key: Ed25519PrivateKey | None,
        in_common: bool,
    ) -> MaskedAgent:
        """An agent with the sessions of its ledger.

        Parameters
        ----------
        label : str
            Which member.
        ledger : Ledger
            Its open ledger.
        mechanism : ContributionMechanism
            Gives its noise.
        signing_key : Ed25519PrivateKey
            The private half of its pinned key.
        in_common : bool
            Whether the agents of this process hold verified records in common.

        Returns
        -------
        MaskedAgent
            It has not started yet.

        Raises
        ------
        AgentError
            Without a signing key, or with another one than the manifest pins.
        """
        from veilsum.agents.masked.actions import SessionTimes
        from veilsum.agents.masked.agent import MaskedAgent
        from veilsum.agents.masked.pool import RecordPool
        from veilsum.agents.masked.terms import MaskedTerms

        if signing_key is None:
            raise AgentError(
                f"agent {label} needs its signing key for a masked sum; `veilsum keys request` makes "
                "one, and [keys] signing in agent.toml names it"
            )
        if self._terms is None:
            self._terms = MaskedTerms.of(self.manifest, mechanism.family)
            self._pool = RecordPool(self._terms.manifest, self._terms.keys) if in_common else None
        sessions = self.sessions[label] = ledger.sessions(self._terms)
        made = self._agents[label] = MaskedAgent(
            self.manifest,
            label,
            self._terms,
            signing_key,
            sessions,
            mechanism.noise.draw,
            options=self.options,
            times=self.times or SessionTimes.of(self.manifest, self.options),
            pool=self._pool,
            step=mechanism.step,
            concluded=sessions.concluded(),
            last_concluded=sessions.last_query,
            last_reason=sessions.last_reason,
        )
        return made

    def connect_locally(self) -> LocalRecords:
        """Have the agents of this process read each other's records without messages.

        Returns
        -------
        LocalRecords
            What they have in common.
        """
        from veilsum.agents.masked.local import LocalRecords

        assert self._pool is not None, "they hold records in common"
        common = LocalRecords(self._pool)
        for label in self._agents:
            common.enter(label)
        for agent in self._agents.values():
            agent.connect_locally(common)
        return common
