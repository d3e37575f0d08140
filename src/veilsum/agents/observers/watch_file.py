"""WATCH.toml: who watches which sites of a fleet.

    name = "control-room"               # on its certificate: `veilsum keys request NAME --observer`
    scenario = "scenario.toml"          # the same file as on every site

    [keys]
    folder = "keys"                     # ca.pem, control-room.pem, control-room.key

    [membership]
    file = "epoch.json"                 # a later epoch comes here, signed: `veilsum members rollout`

    [sites]                             # where each site serves statuses: its [observers] listen
    north = "tls/north.example:8447"

Paths are relative to the file. Sites that are not named are not watched. With [membership] a name may be
of a site that is no member yet: it is watched once it is; former members may stay in the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import Field

from veilsum._toml import Issue, SourceMap, options
from veilsum.agents.config_keys import credentials_of, path_in
from veilsum.agents.config_tables import ConfigTable, KeysTable, MembershipTable
from veilsum.agents.manifest import Manifest
from veilsum.agents.membership.adoption import check_signed, check_successor, later_in, latest
from veilsum.agents.membership.signed_epoch import SignedEpoch
from veilsum.agents.pki import Credentials, check_credentials
from veilsum.agents.pki.denied import FILE as DENIED
from veilsum.agents.roles import Role
from veilsum.agents.scenario_terms import (
    load_scenario,
    problem_and_manifest,
    signed_terms,
    spec_of,
)
from veilsum.agents.transport.zenoh_config import Endpoint
from veilsum.errors import AgentError
from veilsum.scenario.loader import load_model
from veilsum.simulation import Problem


class WatchConfig(ConfigTable):
    """The contents of a watch file."""

    name: str = Field(min_length=1)
    scenario: str = Field(min_length=1)
    variant: str | None = None
    keys: KeysTable
    membership: MembershipTable | None = None
    sites: dict[str, str] = Field(min_length=1)


@dataclass(frozen=True)
class Watch:
    """A checked watch file, with what it refers to.

    Parameters
    ----------
    name : str
        The observer's.
    problem : Problem
        The scenario's problem, without signals.
    manifest : Manifest
        The terms of the fleet.
    credentials : Credentials
        The observer's certificate.
    named : dict of str to Endpoint
        Where each site that the file names serves its statuses, by label; members or not.
    unit : str
        Of the estimates, as the scenario has it.
    denied : Path or None
        Where the authority's deny list is put.
    path : Path or None
        The watch file, which is followed.
    membership : Path or None
        The file in which a later epoch comes; None where the scenario alone says who is a member.
    former : dict of str to int
        Members of earlier epochs, and the epoch from which they are none.
    variant : str or None
        Of the scenario.
    notes : tuple of str
        What of the files is not used, and why.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "watch.toml"
    ...     _ = path.write_text('name = "control-room"\\nscenario = "scenario.toml"\\n')
    ...     try:
    ...         Watch.load(path)
    ...     except AgentError as problem:
    ...         print(str(problem).replace(f"{folder}/", "").splitlines()[0])
    watch.toml, line 1: keys: missing; add a section [keys]
    """

    name: str
    problem: Problem
    manifest: Manifest
    credentials: Credentials
    named: dict[str, Endpoint]
    unit: str = ""
    denied: Path | None = None
    path: Path | None = None
    membership: Path | None = None
    former: Mapping[str, int] = field(default_factory=dict)
    variant: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def sites(self) -> dict[str, Endpoint]:
        """Where each watched member serves its statuses, by label."""
        return {
            label: at for label, at in self.named.items() if label in self.manifest.certificates
        }

    def later(self, path: Path) -> Watch | None:
        """What is watched under the epoch that a file has; None if that is the present one.

        Parameters
        ----------
        path : Path
            The file.

        Raises
        ------
        AgentError
            If the authority has not signed it, it is not later, or it changes more than the membership.
        """
        signed = later_in(path, self.manifest, self.credentials.ca)
        if signed is None:
            return None
        following = self._under(signed)
        check_successor(self.manifest, following.manifest)
        return following

    def _under(self, signed: SignedEpoch) -> Watch:
        problem, manifest, spec = signed_terms(signed, self.variant)
        return replace(
            self, problem=problem, manifest=manifest, unit=spec.family.unit,
            former=dict(spec.agents.former),
        )  # fmt: skip

    def reread(self, path: Path) -> Watch | None:
        """The same with the sites that the watch file names now; None if they are the same.

        Parameters
        ----------
        path : Path
            The watch file.

        Raises
        ------
        AgentError
            If it is invalid.
        """
        config, locator = load_model(path, WatchConfig, "watch file", AgentError)
        named = _named(config, locator)
        if named == self.named:
            return None
        self._check_named(named, locator)
        return replace(self, named=named)

    def _check_named(self, named: Mapping[str, Endpoint], locator: SourceMap) -> None:
        """Refuse the name of a site that is no member, was none, and cannot become one."""
        if self.membership is not None:
            return
        for label in named:
            if label not in self.manifest.certificates and label not in self.former:
                said = f"no member of {self.manifest.name}; {options(label, sorted(self.manifest.labels))}"
                raise AgentError(locator.message(Issue(("sites", label), said)))

    @property
    def strangers(self) -> list[str]:
        """Sites that the file names and that are no members, and were none: they may become some."""
        known = {*self.manifest.certificates, *self.former}
        return [label for label in self.named if label not in known]

    @classmethod
    def load(cls, path: str | Path) -> Watch:
        """Read a watch file, its scenario and its certificate.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Watch
            Checked; nothing is connected.

        Raises
        ------
        AgentError
            If the file is invalid, names a site that is no member, or the certificate cannot be used
            or is no observer's.
        """
        config, locator = load_model(path, WatchConfig, "watch file", AgentError)
        folder = Path(path).resolve().parent

        def path_of(written: str) -> Path:
            return path_in(folder, written, locator)

        scenario = load_scenario(path_of(config.scenario), locator)
        problem, manifest = problem_and_manifest(scenario, config.variant)
        named = _named(config, locator)
        requested = f"{config.name} --observer"
        credentials = credentials_of(config.keys, config.name, path_of, locator, requested)
        with locator.errors_at("keys"):
            check_credentials(credentials, config.name, role=Role.OBSERVER)
        denied = credentials.ca.with_name(DENIED)
        if config.keys.denied is not None:
            denied = path_of(config.keys.denied)
        chosen, epochs = spec_of(scenario, config.variant), config.membership
        made = cls(
            config.name, problem, manifest, credentials, named, chosen.family.unit, denied,
            path=Path(path).resolve(), variant=config.variant, former=dict(chosen.agents.former),
            membership=None if epochs is None else path_of(epochs.file),
        )  # fmt: skip
        made._check_named(named, locator)
        return made._latest(locator.at("scenario"))

    def _latest(self, place: str) -> Watch:
        """Under the epoch that the authority signed, if there is one, which the scenario must fit."""
        if self.membership is None:
            return self
        signed, problems = latest(self.manifest.name, self.credentials.ca, self.membership)
        if signed is None:
            return replace(self, notes=tuple(problems))
        following = self._under(signed)
        check_signed(self.manifest, following.manifest, place)
        return following


def _named(config: WatchConfig, locator: SourceMap) -> dict[str, Endpoint]:
    """Where the sites that a watch file names serve their statuses."""
    named = {}
    for label, text in config.sites.items():
        with locator.errors_at("sites", label):
            named[label] = Endpoint.parse(text, insecure=False)
    return named
