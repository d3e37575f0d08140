"""The files of a fleet: from a list of sites to everything that has to be agreed on and written.

    fleet = Fleet("demo", ("north", "east=east.example:7447", "west"))
    fleet.write(folder)

The texts are templates in `fleet_files/`, with names in double braces; a name that a template has and
a fleet does not is an error. No key is made here: sites make their own (`veilsum keys request`).
"""

from __future__ import annotations

import ipaddress
import json
import random
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files as resources
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from veilsum import __version__
from veilsum._validate import duration
from veilsum.agents.config import HIGHEST_PORT, OBSERVERS_ABOVE
from veilsum.agents.coverage import some_names
from veilsum.agents.pins import BYTES
from veilsum.agents.starter import PORT
from veilsum.agents.transport.zenoh_config import Endpoint
from veilsum.errors import AgentError
from veilsum.scenario.schema import LONGEST_UNIT, UnitOfMeasure

HIGHEST = HIGHEST_PORT - OBSERVERS_ABOVE  # port of a site's links
METRICS, PAGE = 9464, 8080  # ports; of several sites on one machine, those that follow
OBSERVER = "control-room"
GRAPHS = ("ring", "complete", "path", "star")
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252})")
NAME = re.compile(r"\{\{(\w+)\}\}")
COLLUDERS = 1  # of the other members, in a masked sum
READINGS = "readings.csv"
IMAGE = f"veilsum-agent:{__version__}"
FILLED = (
    "monitoring/prometheus.yml",
    "monitoring/grafana/provisioning/datasources/prometheus.yml",
)
COPIED = (  # the same for every fleet; double braces in them are of other languages
    "monitoring/alerts.yml",
    "monitoring/grafana/provisioning/dashboards/veilsum.yml",
    "monitoring/grafana/dashboards/veilsum.json",
)
COLUMN = 44  # of comments in TOML
SAMPLE = 168  # readings of a sample: a week of hours


class SiteAddress(NamedTuple):
    """A site of a fleet, and where its neighbours reach it.

    Examples
    --------
    >>> SiteAddress.parse("east=east.example:7500", 0)
    SiteAddress(label='east', host='east.example', port=7500)
    >>> SiteAddress.parse("west", 2)  # on this machine, each with a port of its own
    SiteAddress(label='west', host='127.0.0.1', port=7449)
    """

    label: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str, place: int) -> SiteAddress:
        """Read SITE, SITE=HOST or SITE=HOST:PORT; without a host it is on this machine.

        Parameters
        ----------
        text : str
            As it is typed.
        place : int
            Its place in the list, by which sites on this machine have different ports.

        Raises
        ------
        AgentError
            If the label, the host or the port cannot be one.
        """
        label, given, address = text.partition("=")
        if not LABEL.fullmatch(label) or label in ("ca", OBSERVER):
            raise AgentError(
                f"{label!r} cannot be the label of a site: expected up to 32 lower-case letters, "
                f"digits and -, such as north; not ca or {OBSERVER}, which have other uses"
            )
        if not given:
            return cls(label, "127.0.0.1", PORT + place)
        host, port = _split(address)
        if port is None or not _is_host(host):
            raise AgentError(
                f"{text!r}: expected SITE=HOST or SITE=HOST:PORT, such as {label}={label}.example:"
                f"{PORT}, with a port from 1 to {HIGHEST}; observers have the port that is "
                f"{OBSERVERS_ABOVE} higher"
            )
        made = cls(label, host, port)
        Endpoint.parse(made.endpoint, insecure=False).check_verifiable(label)
        return made

    @property
    def here(self) -> bool:
        """Whether it is an address of the machine itself, which no other reaches."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def machine(self) -> str:
        """What tells its machine from others: the host, one for all addresses of this machine."""
        return "" if self.here else self.host.lower()

    @property
    def authority(self) -> str:
        """HOST:PORT, as in an address."""
        return f"{self.host}:{self.port}"

    @property
    def endpoint(self) -> str:
        """Where neighbours connect to."""
        return f"tls/{self.authority}"

    @property
    def listen(self) -> str:
        """What the agent binds to: the loopback address, or all addresses of its machine."""
        return self.endpoint if self.here else f"tls/0.0.0.0:{self.port}"

    @property
    def watched(self) -> SiteAddress:
        """Where it serves its status to observers."""
        return self._replace(port=self.port + OBSERVERS_ABOVE)


def _split(address: str) -> tuple[str, int | None]:
    """Host, an IPv6 address with its brackets, and port of an address; no port if it is none."""
    found = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d{1,5}))?", address)
    if found is None:
        return address, None
    port = int(found[2] or PORT)
    return found[1], port if 1 <= port <= HIGHEST else None


def _is_host(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return HOST.fullmatch(host) is not None and ".." not in host
    return True


@dataclass(frozen=True)
class Fleet:
    """The terms of a new fleet, and its files.

    Parameters
    ----------
    name : str
        Of the network; part of the manifest.
    sites : tuple of str
        SITE, SITE=HOST or SITE=HOST:PORT each.
    masked : bool
        A masked sum in place of local noise: nearly exact, against a stated number of colluders.
    epsilon : float
        For each reading.
    bounds : (float, float)
        Public bounds of a reading.
    unit : str
        Of a reading, such as "kWh".
    every : str
        A schedule such as "1h": one reading of each site in each slot; without one, as they come.
    graph : str
        Who exchanges messages with whom: "ring", "complete", "path" or "star".
    nonce : str
        Of a masked sum; a new one by default.

    Raises
    ------
    AgentError
        If the terms are not possible.

    Examples
    --------
    >>> fleet = Fleet("demo", ("north", "east", "west"), unit="kWh")
    >>> print(fleet.files()["links.csv"])
    source,target
    north,east
    east,west
    west,north
    <BLANKLINE>
    >>> sorted(path for path in fleet.files() if path.startswith("sites/north/"))
    ... # doctest: +NORMALIZE_WHITESPACE
    ['sites/north/README.md', 'sites/north/agent.toml', 'sites/north/kubernetes.yaml',
     'sites/north/readings.csv', 'sites/north/veilsum-agent.service']
    """

    name: str
    sites: tuple[str, ...]
    masked: bool = False
    epsilon: float = 1.0
    bounds: tuple[float, float] = (0.0, 100.0)
    unit: str = ""
    every: str = ""
    graph: str = "ring"
    nonce: str = field(default_factory=lambda: secrets.token_hex(BYTES))

    def __post_init__(self) -> None:
        """Check what the scenario's loader would not name by its option."""
        least = 2 + COLLUDERS if self.masked else 2
        if len(self.sites) < least:
            why = f" where {COLLUDERS} of the others may collude" if self.masked else ""
            raise AgentError(
                f"a fleet has at least {least} sites{why}; found {len(self.sites)}: name them, "
                "such as north east west"
            )
        self._check_different()
        low, high = self.bounds
        if not low < high or not abs(low) + abs(high) < float("inf"):
            raise AgentError(
                f"--bounds must be two numbers, the lower one first; found {low:g} {high:g}"
            )
        if not 0 < self.epsilon < float("inf"):
            raise AgentError(f"--epsilon must be a number above 0; found {self.epsilon:g}")
        if self.graph not in GRAPHS:
            raise AgentError(f"--graph must be one of {', '.join(GRAPHS)}; found {self.graph!r}")
        if self.unit:
            try:
                TypeAdapter(UnitOfMeasure).validate_python(self.unit)
            except ValidationError:
                raise AgentError(
                    f"--unit must be a unit such as kWh, of up to {LONGEST_UNIT} printable "
                    f"characters; found {self.unit!r}"
                ) from None
        if self.every and not duration(AgentError, every=self.every) > 0:
            raise AgentError(f"--every must be above 0 seconds; found {self.every!r}")

    def _check_different(self) -> None:
        for what in ("label", "authority"):
            found = Counter(getattr(site, what) for site in self.addresses)
            ((most, count),) = found.most_common(1)
            if count > 1:
                raise AgentError(
                    f"{count} sites have the {'label' if what == 'label' else 'address'} {most}; "
                    "each has its own"
                )
        taken = {site.authority: site for site in self.addresses}
        for site in self.addresses:
            other = taken.get(site.watched.authority)
            if other is not None:
                raise AgentError(
                    f"{other.label} has the address {other.authority}, at which {site.label} serves "
                    f"observers ({OBSERVERS_ABOVE} above its own port); choose another port for one"
                )

    @cached_property
    def addresses(self) -> tuple[SiteAddress, ...]:
        """The sites in order."""
        return tuple(SiteAddress.parse(text, k) for k, text in enumerate(self.sites))

    @property
    def here(self) -> bool:
        """Whether all sites are on this machine."""
        return all(site.here for site in self.addresses)

    @cached_property
    def links(self) -> tuple[tuple[str, str], ...]:
        """Pairs of neighbours."""
        labels = [site.label for site in self.addresses]
        if self.graph == "complete":
            return tuple((a, b) for k, a in enumerate(labels) for b in labels[k + 1 :])
        if self.graph == "star":
            return tuple((labels[0], b) for b in labels[1:])
        pairs = tuple(pairwise(labels))
        closed = self.graph == "ring" and len(labels) > 2
        return (*pairs, (labels[-1], labels[0])) if closed else pairs

    def neighbours(self, label: str) -> list[SiteAddress]:
        """The sites that a site exchanges messages with."""
        near = {a if b == label else b for a, b in self.links if label in (a, b)}
        return [site for site in self.addresses if site.label in near]

    def files(self) -> dict[str, str]:
        """The text of every file, by its path in the fleet's folder."""
        common = self._common()
        made = {
            "scenario.toml": _fill("scenario.toml", common | self._sections(common)),
            "links.csv": _csv(("source", "target"), self.links),
            "watch.toml": _fill("watch.toml", common),
            "compose.yaml": _fill("compose.yaml", common | self._containers(common)),
            "COMMANDS.md": _fill("commands-here.md" if self.here else "commands-sites.md", common),
        }
        made |= {path: _fill(path, common) for path in FILLED}
        made |= {path: _text(path) for path in COPIED}
        for site in self.addresses:
            names = common | self._of_site(site)
            folder = f"sites/{site.label}"
            made |= {
                f"{folder}/agent.toml": _fill("agent.toml", names),
                f"{folder}/veilsum-agent.service": _fill("veilsum-agent.service", names),
                f"{folder}/kubernetes.yaml": _fill("kubernetes.yaml", names),
                f"{folder}/README.md": _fill("site.md", names),
                f"{folder}/{READINGS}": self._sample(site.label),
            }
        return made

    def folders(self) -> list[str]:
        """Folders for what is made later, private: nothing is in them yet."""
        states = [f"sites/{site.label}/state" for site in self.addresses]
        return ["authority", *states]

    def write(self, folder: str | Path, *, force: bool = False) -> list[Path]:
        """Write all files into a folder, which is made if it does not exist.

        Parameters
        ----------
        folder : str or Path
            Of the fleet.
        force : bool
            Replace files that exist, except readings; keys and ledgers are never among them.

        Returns
        -------
        list of Path
            What was written.

        Raises
        ------
        AgentError
            If one of the files exists, unless `force`, or cannot be written.
        """
        home, made = Path(folder), self.files()
        there = [path for path in made if (home / path).exists()]
        if there and not force:
            raise AgentError(
                f"{home} has {some_names(there)} already, and nothing was written; choose another "
                "folder, or --force to replace these files, except readings"
            )
        made = {path: text for path, text in made.items() if not _is_kept(home / path)}
        try:
            for path, text in made.items():
                (home / path).parent.mkdir(parents=True, exist_ok=True)
                (home / path).write_text(text, encoding="utf-8")
            for private in self.folders():
                (home / private).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            raise AgentError(
                f"cannot write {problem.filename}: {problem.strerror}; check the folder"
            ) from None
        return [home / path for path in made]

    def _common(self) -> dict[str, str]:
        low, high = self.bounds
        sites = self.addresses
        machines = (
            f"| {site.label}, reached at {site.authority} | `scenario.toml`, `links.csv`, "
            f"`sites/{site.label}/` |"
            for site in sites
        )
        return {
            "name": self.name,
            "file": "scenario.toml",
            "low": repr(low),
            "high": repr(high),
            "middle": repr((low + high) / 2),
            "sigma": repr((high - low) / 10),
            "epsilon": repr(self.epsilon),
            "budget": repr(self.epsilon),
            "colluders": str(COLLUDERS),
            "observer": OBSERVER,
            "first": sites[0].label,
            "labels": " ".join(site.label for site in sites),
            "sites": "\n".join(f'{site.label} = "{site.watched.endpoint}"' for site in sites),
            "targets": "\n".join(self._targets()),
            "prometheus": "http://127.0.0.1:9090",
            "image": IMAGE,
            "machines": "\n".join(machines),
        }

    def _sections(self, common: dict[str, str]) -> dict[str, str]:
        """What of the scenario depends on the choices."""
        terms = []
        if self.every:
            grace = duration(AgentError, every=self.every) / 6
            terms += [f'every = "{self.every}"', f"grace = {grace:g}  # seconds"]
        if self.masked:
            terms += [f'nonce = "{self.nonce}"', 'signing_keys = "authority/signing-keys.toml"']
        return {
            "unit": f"unit = {json.dumps(self.unit, ensure_ascii=False)}\n" if self.unit else "",
            "privacy": _fill("masked.toml" if self.masked else "local.toml", common).rstrip(),
            "agents": "\n".join(terms),
        }

    @cached_property
    def _places(self) -> dict[str, int]:
        """By label, the place among the sites of one machine: their ports differ by it."""
        seen: Counter[str] = Counter()
        found = {}
        for site in self.addresses:
            found[site.label] = seen[site.machine]
            seen[site.machine] += 1
        return found

    def _of_site(self, site: SiteAddress) -> dict[str, str]:
        peers = (f'{near.label} = "{near.endpoint}"' for near in self.neighbours(site.label))
        ports = sorted({near.port for near in self.neighbours(site.label)})
        nonce = ", choose a new `nonce` in `scenario.toml`," if self.masked else ""
        return {
            "label": site.label,
            "authority": site.authority,
            "listen": site.listen,
            "watched": site.watched.listen,
            "port": str(site.port),
            "watched_port": str(site.watched.port),
            "peers": "\n".join(peers),
            "egress": "\n".join(f"        - {{ protocol: TCP, port: {port} }}" for port in ports),
            "metrics": str(METRICS + self._places[site.label]),
            "page": f"127.0.0.1:{PAGE + self._places[site.label]}",
            "nonce": nonce,
        }

    def _targets(self) -> list[str]:
        """Where Prometheus finds each site."""
        lines = []
        for site in self.addresses:
            at = site._replace(port=METRICS + self._places[site.label]).authority
            lines.append(f'      - targets: ["{at}"]')
            lines.append(f'        labels: {{ fleet: "{self.name}", agent: "{site.label}" }}')
        return lines

    def _containers(self, common: dict[str, str]) -> dict[str, str]:
        """A service for each site, and the files of its keys."""
        services, secret = [], ["  ca: { file: ./authority/ca.pem }"]
        for site in self.addresses:
            names, label = common | self._of_site(site), site.label
            services.append(_fill("compose-service.yaml", names))
            keys = f"./sites/{label}/keys/{label}"
            secret += [
                f"  {label}-certificate: {{ file: {keys}.pem }}",
                f"  {label}-key: {{ file: {keys}.key }}",
                f"  {label}-signing: {{ file: {keys}.signing.key }}",
                f"  {label}-secret: {{ file: {keys}.secret }}",
            ]
        return {"services": "\n".join(services), "secrets": "\n".join(secret)}

    def _sample(self, label: str) -> str:
        """Readings to begin with, drawn around the middle of the bounds and of no meaning."""
        low, high = self.bounds
        draw = random.Random(f"sample of {label}")
        spread = (high - low) / 10
        values = [min(max(draw.gauss((low + high) / 2, spread), low), high) for _ in range(SAMPLE)]
        hours = (f"2026-01-{1 + k // 24:02}T{k % 24:02}:00" for k in range(SAMPLE))
        rows = [(hour, f"{value:.6g}") for hour, value in zip(hours, values, strict=True)]
        return _csv(("time", "value"), rows[:1] if self.every else rows)


def _is_kept(path: Path) -> bool:
    """Readings that are there may be real ones."""
    return path.name == READINGS and path.exists()


def _csv(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"{','.join(row)}\n" for row in (heads, *rows))


def _fill(template: str, names: Mapping[str, str]) -> str:
    """A template with its names replaced; one that is unknown is an error of this package."""
    made = NAME.sub(lambda found: names[found[1]], _text(template))
    if template.endswith(".toml"):
        made = re.sub(
            r"^(\S.*?) +(# .*)$", lambda line: f"{line[1]:{COLUMN}} {line[2]}", made, flags=re.M
        )
    return re.sub(r"\n{3,}", "\n\n", made).rstrip() + "\n"


def _text(template: str) -> str:
    return resources("veilsum.agents").joinpath("fleet_files", template).read_text("utf-8")
