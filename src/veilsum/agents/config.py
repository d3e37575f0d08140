"""agent.toml: the configuration of one agent on one site.

    name = "north"
    scenario = "scenario.toml"          # the same file on every site
    listen = ["tls/0.0.0.0:7447"]

    [peers]                             # where its neighbours listen
    south = "tls/south.example:7447"

    [keys]
    folder = "keys"                     # north.key and more: `veilsum keys request north`

    [ledger]
    path = "north.ledger"

    [budget]
    epsilon = 1.0

    [readings]
    csv = "readings.csv"
    column = "kwh"

Paths are relative to the file. Every error names the file, the line and the key; numbers and text
are never converted into each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilsum._toml import Issue, SourceMap, options
from veilsum.agents.config_keys import (
    credentials_of,
    make_ledger_key,
    path_in,
    pinned_signing_key,
    read_ledger_key,
)
from veilsum.agents.config_readings import ReadingsSource
from veilsum.agents.config_tables import AgentConfig, KeysTable
from veilsum.agents.ledger import LedgerIdentity, key_of
from veilsum.agents.membership.adoption import adopted_path, check_signed, latest
from veilsum.agents.membership.signed_epoch import SignedEpoch
from veilsum.agents.observers.publisher import StatusPublisher
from veilsum.agents.pki import Credentials, KeyWatch, check_credentials, site_secret
from veilsum.agents.pki.denied import FILE as DENIED
from veilsum.agents.pki.signing import SUFFIX as SIGNING
from veilsum.agents.pki.unproved import request_path
from veilsum.agents.protocol import Options
from veilsum.agents.readings import Readings
from veilsum.agents.roles import Role, common_name_of
from veilsum.agents.runtime.status import SUFFIX
from veilsum.agents.scenario_terms import (
    load_scenario,
    problem_and_manifest,
    signed_terms,
    spec_of,
)
from veilsum.agents.transport.zenoh import ZenohTransport
from veilsum.agents.transport.zenoh_config import Endpoint
from veilsum.errors import AgentError
from veilsum.privacy.accounting import Budget
from veilsum.scenario.json_schema import schema_of
from veilsum.scenario.loader import load_model

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = [
    "HIGHEST_PORT",
    "OBSERVERS_ABOVE",
    "Setup",
    "agent_schema",
]

OBSERVERS_ABOVE, HIGHEST_PORT = 1000, 65535  # by default statuses are served so far above the links


class Setup:
    """A checked agent.toml, with what it refers to.

    Parameters
    ----------
    config : AgentConfig
        The contents of the file.
    folder : Path
        Folder that paths are relative to.
    locator : SourceMap, optional
        Where keys are in the file, for errors.
    signed : SignedEpoch, optional
        The epoch to follow, checked, in place of the scenario; by default the scenario's, or the
        latest that [membership] and the ledger's folder have.

    Attributes
    ----------
    problem : Problem
        The scenario's problem, without signals.
    manifest : Manifest
        The terms of the network.
    unit : str
        Of a reading, such as "kWh"; empty if the scenario does not say.
    former : dict of str to int
        Members of earlier epochs, and the epoch from which they are none.
    signed : SignedEpoch or None
        The epoch that the authority signed; None where the scenario's own is followed.
    peers : dict of str to str
        Where neighbours listen.
    notes : tuple of str
        What of the files is not used, and why; for the log.

    Raises
    ------
    AgentError
        If the agent is no member of the network, or [peers] names an agent that is no neighbour.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "agent.toml"
    ...     _ = path.write_text('name = "north"\\nscenarios = "scenario.toml"\\n')
    ...     try:
    ...         Setup.load(path)
    ...     except AgentError as problem:
    ...         print(str(problem).replace(f"{folder}/", "").splitlines()[0])
    agent.toml, line 2: scenarios: there is no such key; allowed: name, scenario, variant, listen, \
peers, keys, ledger, budget, readings, rounds, status, page, observers, membership; did you mean \
"scenario"?
    """

    def __init__(
        self,
        config: AgentConfig,
        folder: Path,
        locator: SourceMap | None = None,
        signed: SignedEpoch | None = None,
    ) -> None:
        """Load the scenario; nothing is opened yet."""
        self.config, self.folder, self.locator = config, folder, locator or SourceMap("agent.toml")
        self.signed, problems = signed, list[str]()
        if signed is not None:  # the files of the fleet may be replaced at this moment
            self.problem, self.manifest, spec = signed_terms(signed, config.variant)
        else:
            scenario = load_scenario(self.path(config.scenario), self.locator)
            self.problem, self.manifest = problem_and_manifest(scenario, config.variant)
            spec = spec_of(scenario, config.variant)
            self.signed, problems = self._latest_epoch()
            if self.signed is not None:
                written = self.manifest
                self.problem, self.manifest, spec = signed_terms(self.signed, config.variant)
                check_signed(written, self.manifest, self.locator.at("scenario"))
        self.unit, self.former = spec.family.unit, dict(spec.agents.former)
        with self.locator.errors_at("name"):
            if config.name in self.former:
                raise AgentError(
                    f"{config.name} is no member of {self.manifest.name} since epoch "
                    f"{self.former[config.name]}: stop its service; `veilsum members add {config.name}` "
                    "where the fleet's files are kept takes it in again"
                )
            neighbours = self.manifest.link_weights(config.name)
        self.peers, unused = self._addresses(neighbours)
        self.notes = (*problems, *unused)

    def _addresses(self, neighbours: Mapping[str, int]) -> tuple[dict[str, str], list[str]]:
        """Where neighbours listen: as [peers] says, then as a signed epoch does."""
        config, signed, unused = self.config, self.signed, list[str]()
        stated = {} if signed is None else signed.addresses
        found = {k: v for k, v in stated.items() if k in neighbours}
        for peer, written in config.peers.items():
            if peer in neighbours:
                found[peer] = written
                continue
            if signed is None:
                said = f"no neighbour of {config.name}; {options(peer, sorted(neighbours))}"
                raise AgentError(self.locator.message(Issue(("peers", peer), said)))
            unused.append(
                f"{self.locator.at('peers', peer)}: {peer} is no neighbour of {config.name} in epoch "
                f"{self.manifest.epoch}; its address is not used"
            )
        return found, unused

    @property
    def membership_file(self) -> Path | None:
        """The file in which a later epoch comes; None where the scenario alone says who is a member."""
        chosen = self.config.membership
        return None if chosen is None else self.path(chosen.file)

    def authority_certificate(self) -> Path:
        """The certificate of the authority that signs epochs.

        Raises
        ------
        AgentError
            Without [keys], or if it is missing.
        """
        chosen = self.config.keys
        if chosen is None:
            raise AgentError(
                f"{self.locator.at('membership')}: an epoch is signed by the authority, and this agent "
                "has no certificate of one; add [keys], or leave [membership] out"
            )
        found = (
            self.path(chosen.folder or "") / "ca.pem" if chosen.ca is None else self.path(chosen.ca)
        )
        if not found.is_file():
            raise AgentError(
                f"{self.locator.at('keys')}: {found} is missing; `veilsum keys install` adds it"
            )
        return found

    def _latest_epoch(self) -> tuple[SignedEpoch | None, list[str]]:
        file = self.membership_file
        if file is None:
            return None, []
        kept = adopted_path(self.path(self.config.ledger.path))
        if not (file.exists() or kept.exists()):
            return None, []
        return latest(self.manifest.name, self.authority_certificate(), kept, file)

    def under(self, signed: SignedEpoch) -> Setup:
        """The same agent under another epoch.

        Parameters
        ----------
        signed : SignedEpoch
            Verified.

        Raises
        ------
        AgentError
            If agents cannot run it, or this agent is no member of it.
        """
        return Setup(self.config, self.folder, self.locator, signed)

    def keep_epoch(self) -> None:
        """Keep the signed epoch beside the ledger: an older one is not followed any more."""
        if self.signed is not None:
            self.signed.write(adopted_path(self.path(self.config.ledger.path)), secret=True)

    def check_start(self) -> None:
        """Raise for what would keep the agent from running under these terms.

        Keys, deny list and addresses: all that may differ from one epoch to the next.

        Raises
        ------
        AgentError
            With the first that cannot be used.
        """
        insecure = any(written.startswith("tcp/") for written in self.config.listen)
        for peer, written in self.peers.items():
            with self.locator.errors_at("peers", peer):
                Endpoint.parse(written, insecure=insecure).check_verifiable(peer)
        found = None if insecure else self.credentials()
        if found is not None:
            check_credentials(found, self.manifest.certificates[self.config.name])
            assert self.key_watch is not None, "it has read the deny list"
        if self.manifest.masked:
            self.signing_key()

    def check_epoch(self, stored: int | None) -> None:
        """Raise if the epoch changes without the authority's signature.

        Parameters
        ----------
        stored : int or None
            The epoch in which the ledger was last used; None for a new one.

        Raises
        ------
        AgentError
            Where [membership] says that epochs are signed.
        """
        now = self.manifest.epoch
        if stored in (None, now) or self.signed is not None or self.config.membership is None:
            return
        raise AgentError(
            f"{self.locator.at('scenario')}: the ledger was used in epoch {stored}, and epoch {now} of "
            "the scenario is not signed; `veilsum members rollout` signs it, and [membership] file is "
            "where it is found"
        )

    @classmethod
    def load(cls, path: str | Path, keys: str | Path | None = None) -> Setup:
        """Read an agent.toml.

        Parameters
        ----------
        path : str or Path
            The file.
        keys : str or Path, optional
            A folder in place of the file's [keys], such as one that a service manager provides.

        Returns
        -------
        Setup
            Checked; nothing is opened.

        Raises
        ------
        AgentError
            If the file cannot be read or is invalid: every problem with its line, and the nearest
            key where one is misspelt. Values are not shown.
        """
        config, locator = load_model(path, AgentConfig, "agent's file", AgentError)
        if keys is not None:
            folder = str(Path(keys).absolute())
            denied = None if config.keys is None else config.keys.denied
            config = config.model_copy(update={"keys": KeysTable(folder=folder, denied=denied)})
        return cls(config, Path(path).resolve().parent, locator)

    def path(self, written: str) -> Path:
        """A path of the file, relative to it."""
        return path_in(self.folder, written, self.locator)

    @property
    def status_file(self) -> Path:
        """Where the agent's status is written: beside its ledger by default."""
        ledger = self.path(self.config.ledger.path)
        chosen = self.config.status.file
        return ledger.with_name(f"{ledger.name}{SUFFIX}") if chosen is None else self.path(chosen)

    @property
    def page_readers(self) -> frozenset[str]:
        """Names on the certificates of those who may open the agent's page beyond loopback."""
        allowed = [] if self.config.observers is None else self.config.observers.allow
        named = (common_name_of(name, Role.OBSERVER) for name in allowed)
        return frozenset([*self.manifest.certificates.values(), *named])

    @property
    def options(self) -> Options:
        """How long the agent waits, and for how many confirmations."""
        rounds = self.config.rounds
        return Options(
            deadline=rounds.deadline,
            resend=rounds.resend,
            tick=rounds.tick,
            linger=rounds.linger,
            confirmations=max(len(self.manifest.link_weights(self.config.name)), 1)
            if self.config.ledger.confirmations == "all"
            else self.config.ledger.confirmations,
        )

    @property
    def budget(self) -> Budget | None:
        """What may be spent; None where nothing is guaranteed."""
        if not self.manifest.adds_noise:
            return None
        return Budget(self.config.budget.epsilon, self.config.budget.delta)

    @property
    def ledger_identity(self) -> LedgerIdentity:
        """The agent, the terms of its releases and its budget, as its ledger records them."""
        chosen = self.config.budget
        return LedgerIdentity.of(
            self.config.name, self.manifest, self.budget, chosen.unit, chosen.window, chosen.period
        )

    def credentials(self) -> Credentials | None:
        """The files that prove this agent's name, or None without [keys]; raises if one is missing."""
        chosen = self.config.keys
        if chosen is None:
            return None
        device = self.manifest.certificates[self.config.name]
        return credentials_of(chosen, device, self.path, self.locator, self.config.name)

    @property
    def signing_key_file(self) -> Path:
        """The file of the key that signs in a masked sum: beside the certificate by default."""
        chosen = self.config.keys
        if chosen is not None and chosen.signing is not None:
            return self.path(chosen.signing)
        if chosen is None or chosen.folder is None:
            raise AgentError(
                f"{self.locator.at('keys')}: a masked sum needs [keys] signing = "
                f'"{self.config.name}{SIGNING}", or a folder that holds this file'
            )
        return self.path(chosen.folder) / f"{self.config.name}{SIGNING}"

    def signing_key(self) -> Ed25519PrivateKey:
        """The private key that signs this agent's records in a masked sum.

        Returns
        -------
        Ed25519PrivateKey
            Its public half is the one that the manifest pins for this agent.

        Raises
        ------
        AgentError
            If it is missing, can be read by others, or is not the pinned one.
        """
        if not self.manifest.masked:
            raise AgentError(
                f"{self.manifest.name} is no masked sum, so nothing is signed; "
                'it needs [privacy] mode = "masked"'
            )
        return pinned_signing_key(self.signing_key_file, self.manifest, self.config.name)

    def ledger_key(self) -> bytes | None:
        """The key that seals the ledger: 32 bytes in a file beside it, created with it.

        None without certificates. It is not the agent's private key, which may be replaced while
        the ledger continues.
        """
        if self.config.keys is None:
            return None
        ledger, file = self.path(self.config.ledger.path), self.ledger_key_file
        if not (file.exists() or ledger.exists()):
            make_ledger_key(file, self.locator.at("ledger"))
        return key_of(read_ledger_key(file, ledger))

    @property
    def ledger_key_file(self) -> Path:
        """The file of the key that seals the ledger: beside it by default."""
        ledger, chosen = self.path(self.config.ledger.path), self.config.ledger.key
        return ledger.with_name(f"{ledger.name}.key") if chosen is None else self.path(chosen)

    def device_secret(self) -> bytes | None:
        """What identifies readings and proves what this agent sent; None without certificates."""
        found, chosen = self.credentials(), self.config.keys
        if found is None or chosen is None:
            return None
        return site_secret(found, None if chosen.secret is None else self.path(chosen.secret))

    @property
    def denied_files(self) -> list[Path]:
        """Where the authority's deny list may be: beside its certificate, or as [keys] says."""
        chosen, found = self.config.keys, self.credentials()
        if found is None or chosen is None:
            return []
        written = [] if chosen.denied is None else [self.path(chosen.denied)]
        return [*written, found.ca.with_name(DENIED)]

    @property
    def kept_list_file(self) -> Path:
        """Where the newest deny list that was accepted is kept: beside the ledger."""
        ledger = self.path(self.config.ledger.path)
        return ledger.with_name(f"{ledger.name}.{DENIED}")

    @cached_property
    def key_watch(self) -> KeyWatch | None:
        """What follows the key files and the deny list, for all who use them; None without [keys]."""
        found = self.credentials()
        if found is None:
            return None
        with self.locator.errors_at("keys"):
            return KeyWatch(
                found,
                self.manifest.certificates[self.config.name],
                denied=self.denied_files,
                kept=self.kept_list_file,
                request=request_path(self.path(self.config.ledger.path)),
            )

    def transport(self, insecure: bool) -> ZenohTransport:
        """The transport of this agent, not yet open.

        Parameters
        ----------
        insecure : bool
            Without certificates, on loopback only.
        """
        names = self.manifest.certificates
        for written in self.config.listen:
            with self.locator.errors_at("listen"):
                Endpoint.parse(written, insecure=insecure)
        for peer, written in self.peers.items():
            with self.locator.errors_at("peers", peer):
                Endpoint.parse(written, insecure=insecure)
        return ZenohTransport(
            self.manifest.name,
            names[self.config.name],
            listen=self.config.listen,
            connect={names[peer]: endpoint for peer, endpoint in self.peers.items()},
            devices=names,
            credentials=None if insecure else self.credentials(),
            insecure=insecure,
            watch=None if insecure else self.key_watch,
        )

    @property
    def observers_endpoint(self) -> Endpoint:
        """Where statuses are served: beside the links by default, on a port 1000 higher."""
        chosen = self.config.observers
        if chosen is not None and chosen.listen is not None:
            with self.locator.errors_at("observers", "listen"):
                return Endpoint.parse(chosen.listen, insecure=False)
        with self.locator.errors_at("listen"):
            first = Endpoint.parse(self.config.listen[0], insecure=False)
        if not first.port:
            return first
        if first.port + OBSERVERS_ABOVE > HIGHEST_PORT:
            raise AgentError(
                f"{self.locator.at('observers')}: there is no port {first.port} + {OBSERVERS_ABOVE}; "
                'say where statuses are served: listen = "tls/0.0.0.0:8447"'
            )
        return first._replace(port=first.port + OBSERVERS_ABOVE)

    def publisher(self, insecure: bool = False) -> StatusPublisher | None:
        """What serves statuses to observers, not yet started; None where nobody is allowed.

        Parameters
        ----------
        insecure : bool
            As for `veilsum agent`.

        Returns
        -------
        StatusPublisher or None
            For the observers that [observers] allows.

        Raises
        ------
        AgentError
            If there are no certificates, by which observers are known.
        """
        chosen = self.config.observers
        if chosen is None:
            return None
        credentials = None if insecure else self.credentials()
        if credentials is None:
            raise AgentError(
                f"{self.locator.at('observers')}: observers are known by their certificates, and this "
                "agent runs without any; leave [observers] out, or give it certificates"
            )
        name = self.config.name
        device, where = self.manifest.certificates[name], self.observers_endpoint
        return StatusPublisher(name, where, credentials, device, chosen.allow, self.key_watch)

    def readings(self, connect: bool = True) -> Readings:
        """Open the source of readings; without `connect`, a source over a network stays away from it."""
        return self._source.open(connect)

    def check_readings(self) -> None:
        """Raise unless the source of readings exists and has the columns; starts no command.

        Of a broker, a database or a server only what is on this site is checked: packages,
        addresses, files and passwords. A CSV file that is followed may still be empty: the agent
        waits for its first line.

        Raises
        ------
        SignalError
            If the file cannot be read.
        AgentError
            If a column is missing, a file that is not followed is empty, or there is no command.
        """
        self._source.check()

    @property
    def _source(self) -> ReadingsSource:
        client = f"veilsum-{self.manifest.name}-{self.config.name}"
        return ReadingsSource(self.config.readings, client, self.path, self.locator)


def agent_schema() -> dict[str, Any]:
    """The JSON Schema of agent.toml, for editors.

    Returns
    -------
    dict
        A JSON Schema, in draft 7.
    """
    return schema_of(AgentConfig, "veilsum agent")
