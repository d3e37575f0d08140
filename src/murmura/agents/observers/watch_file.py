"""WATCH.toml: who watches which sites of a fleet.

    name = "control-room"               # on its certificate: `murmura keys request NAME --observer`
    scenario = "scenario.toml"          # the same file as on every site

    [keys]
    folder = "keys"                     # ca.pem, control-room.pem, control-room.key

    [sites]                             # where each site serves statuses: its [observers] listen
    north = "tls/north.example:8447"

Paths are relative to the file. Sites that are not named are not watched.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from murmura.agents.config_keys import credentials_of, path_in
from murmura.agents.config_tables import ConfigTable, KeysTable
from murmura.agents.manifest import Manifest
from murmura.agents.pki import Credentials, check_credentials
from murmura.agents.pki.denied import FILE as DENIED
from murmura.agents.roles import Role
from murmura.agents.scenario_terms import load_scenario, problem_and_manifest, spec_of
from murmura.agents.transport.zenoh_config import Endpoint
from murmura.errors import AgentError
from murmura.scenario.errors import Issue, options
from murmura.scenario.loader import load_model
from murmura.simulation import Problem


class WatchConfig(ConfigTable):
    """The contents of a watch file."""

    name: str = Field(min_length=1)
    scenario: str = Field(min_length=1)
    variant: str | None = None
    keys: KeysTable
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
    sites : dict of str to Endpoint
        Where each watched site serves its statuses, by label.
    unit : str
        Of the estimates, as the scenario has it.
    denied : Path or None
        Where the authority's deny list is put.

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
    sites: dict[str, Endpoint]
    unit: str = ""
    denied: Path | None = None

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
        sites = {}
        for label, text in config.sites.items():
            if label not in manifest.certificates:
                said = f"no member of {manifest.name}; {options(label, sorted(manifest.labels))}"
                raise AgentError(locator.message(Issue(("sites", label), said)))
            with locator.errors_at("sites", label):
                sites[label] = Endpoint.parse(text, insecure=False)
        requested = f"{config.name} --observer"
        credentials = credentials_of(config.keys, config.name, path_of, locator, requested)
        with locator.errors_at("keys"):
            check_credentials(credentials, config.name, role=Role.OBSERVER)
        denied = credentials.ca.with_name(DENIED)
        if config.keys.denied is not None:
            denied = path_of(config.keys.denied)
        unit = spec_of(scenario, config.variant).family.unit
        return cls(config.name, problem, manifest, credentials, sites, unit, denied)
