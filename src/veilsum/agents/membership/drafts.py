"""The next epoch of a fleet, where its files are kept: add and remove members, then roll it out.

Changes are collected in the folder `next-epoch` beside the scenario, with the epoch that follows the
present one, a new nonce in a masked sum, and every former member named. The fleet's own files stay as
they are until `rollout`: then the authority signs the next epoch as one file, which agents adopt, and
the scenario and its links are replaced. Every draft is loaded as an agent would load it, so a change
that agents could not follow is an error before anything is written.
"""

from __future__ import annotations

import csv
import io
import json
import re
import secrets
import shutil
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from veilsum.agents.coverage import some_names
from veilsum.agents.manifest import Manifest
from veilsum.agents.membership.adoption import NETWORK_DP, check_successor
from veilsum.agents.membership.signed_epoch import SignedEpoch, write_files
from veilsum.agents.pins import BYTES
from veilsum.agents.pki import Authority
from veilsum.agents.pki.files import check_name
from veilsum.agents.pki.signing import read_keys, write_keys
from veilsum.agents.scenario_terms import problem_and_manifest
from veilsum.errors import AgentError, VeilsumError
from veilsum.scenario import Scenario
from veilsum.scenario.check import graph_source

FOLDER, ADDRESSES, EPOCH_FILE = "next-epoch", "addresses.json", "epoch.json"


@dataclass(frozen=True)
class EpochFiles:
    """The files that make up the terms of a fleet, as they are or as they are to be.

    Parameters
    ----------
    scenario : Path
        The fleet's scenario file.
    files : mapping of str to str
        Its text, those of the links and the signing keys, by path relative to its folder.
    addresses : mapping of str to str
        Where members listen, by label, as far as is known.
    manifest : Manifest
        What agents make of the files.
    former : mapping of str to int
        Members of earlier epochs, and the epoch from which they are none.
    """

    scenario: Path
    files: Mapping[str, str]
    addresses: Mapping[str, str]
    manifest: Manifest = field(repr=False)
    former: Mapping[str, int]

    @classmethod
    def load(cls, scenario: Path) -> EpochFiles:
        """The present terms of a fleet.

        Parameters
        ----------
        scenario : Path
            Its scenario file.

        Raises
        ------
        VeilsumError
            If it cannot be loaded, or its links are not a CSV file beside it.
        """
        found = Scenario.load(scenario)
        names = [scenario.name, _links_name(found)]
        keys = found.variants[0].agents.signing_keys
        if isinstance(keys, str):
            names.append(keys)
        files = {name: _read(scenario.parent / name) for name in names}
        return cls._of(scenario, files, known_addresses(scenario.parent))

    @classmethod
    def draft(cls, scenario: Path) -> EpochFiles | None:
        """The next epoch as it was drafted so far; None if nothing was."""
        folder = scenario.parent / FOLDER
        if not folder.is_dir():
            return None
        present = cls.load(scenario)
        files = {name: _read(folder / name) for name in present.files}
        try:
            addresses = json.loads((folder / ADDRESSES).read_text("utf-8"))
        except (OSError, ValueError):
            addresses = {}
        return cls._of(scenario, files, {**present.addresses, **addresses})

    @classmethod
    def _of(cls, scenario: Path, files: dict[str, str], addresses: Mapping[str, str]) -> EpochFiles:
        """Load files as an agent would; keys of who is no member are left out."""
        with TemporaryDirectory(prefix="veilsum-members-") as folder:
            home = Path(folder)
            write_files(home, files)
            found = Scenario.load(home / scenario.name)
            agents = found.variants[0].agents
            if isinstance(agents.signing_keys, str):
                files = {**files, agents.signing_keys: _member_keys(home, found)}
            problem, manifest = problem_and_manifest(found, pinned=False)
        del problem
        return cls(scenario, files, addresses, manifest, dict(agents.former))

    @property
    def links_name(self) -> str:
        """The path of the links, relative to the scenario's folder."""
        return next(name for name in self.files if name.endswith(".csv"))

    def pairs(self) -> list[tuple[str, str]]:
        """Who exchanges messages with whom, each pair once."""
        return list(self.manifest.graph.pairs)

    def neighbours(self, label: str) -> list[str]:
        """The neighbours of a member."""
        return sorted(self.manifest.link_weights(label))

    def signed(self, authority: Authority) -> SignedEpoch:
        """These terms as one file, signed.

        Parameters
        ----------
        authority : Authority
            Whose certificate all sites have.
        """
        known = {k: at for k, at in self.addresses.items() if k in self.manifest.certificates}
        made = SignedEpoch(
            self.manifest.name, self.manifest.epoch, self.scenario.name, self.files, known
        )
        return made.sign(authority)


@dataclass(frozen=True)
class NextEpoch:
    """The next epoch of a fleet: changes give another one, and `save` stores it as the draft.

    Parameters
    ----------
    present, draft : EpochFiles
        The terms in force, and those to be.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from veilsum.agents.fleet import Fleet
    >>> with TemporaryDirectory() as folder:
    ...     _ = Fleet("demo", ("north", "east", "west")).write(folder)
    ...     following = NextEpoch.load(Path(folder) / "scenario.toml")
    ...     changed = following.add("south", ["north", "east"]).remove("west").draft
    ...     changed.manifest.epoch, sorted(changed.manifest.labels), changed.former
    (2, ['east', 'north', 'south'], {'west': 2})
    """

    present: EpochFiles
    draft: EpochFiles

    @classmethod
    def load(cls, scenario: str | Path) -> NextEpoch:
        """The draft that is there, or the present terms with the next epoch and a new nonce.

        Parameters
        ----------
        scenario : str or Path
            The fleet's scenario file.

        Raises
        ------
        VeilsumError
            If a file cannot be loaded, or the membership of this fleet cannot change.
        """
        path = Path(scenario)
        present = EpochFiles.load(path)
        if present.manifest.hides_neighbours:
            raise AgentError(NETWORK_DP)
        draft = EpochFiles.draft(path)
        if draft is None:
            new = {"epoch": str(present.manifest.epoch + 1)}
            if present.manifest.masked:
                new["nonce"] = json.dumps(secrets.token_hex(BYTES))
            draft = _edited(present, {}, new)
        return cls(present, draft)

    def add(self, label: str, links: Iterable[str], address: str = "") -> NextEpoch:
        """With a further member.

        Parameters
        ----------
        label : str
            Its label, which is the name on its certificate.
        links : iterable of str
            Its neighbours, at least one.
        address : str
            Where it listens, such as "tls/south.example:7447", if neighbours are to connect to it.

        Raises
        ------
        VeilsumError
            If it is a member already, a neighbour is none, or agents could not follow it.
        """
        near = list(dict.fromkeys(links))
        labels = self.draft.manifest.labels
        if label in labels and label not in self.present.manifest.labels:
            raise AgentError(
                f"{label} is in the draft of the next epoch already; to draft it otherwise, take it out "
                f"first: veilsum members remove {label}"
            )
        if label in labels:
            raise AgentError(f"{label} is a member already; its members are {some_names(labels)}")
        if not near:
            raise AgentError(
                f"{label} needs a neighbour: --link NAME, once for each; the members are "
                f"{some_names(labels)}"
            )
        check_name(label)
        self._check_members(near)
        self._check_address(label, address)
        pairs = [*_pairs(self.draft), *((label, peer) for peer in near)]
        made = self._with(pairs, {k: e for k, e in self.draft.former.items() if k != label})
        if address:
            terms = replace(made.draft, addresses={**made.draft.addresses, label: address})
            made = replace(made, draft=terms)
        return made

    def remove(self, label: str, links: Iterable[tuple[str, str]] = ()) -> NextEpoch:
        """Without a member, and with links between others if they are needed.

        Parameters
        ----------
        label : str
            Who is no member any more.
        links : iterable of (str, str)
            New links between the others, such as one that closes a ring.

        Raises
        ------
        VeilsumError
            If it is no member, or agents could not follow the rest.
        """
        self._check_members([label, *(end for pair in links for end in pair)])
        pairs = [pair for pair in _pairs(self.draft) if label not in pair]
        new = [pair for pair in links if not {pair, pair[::-1]} & set(pairs)]
        _check_connected([*pairs, *new], [k for k in self.draft.manifest.labels if k != label])
        former = {**self.draft.former}
        if label in self.present.manifest.certificates:
            former[label] = self.draft.manifest.epoch
        return self._with([*pairs, *new], former)

    def with_quorum(self, quorum: str) -> NextEpoch:
        """With another number of members that a result needs: "all", or a number."""
        value = quorum if quorum.isdecimal() else json.dumps(quorum)
        return replace(self, draft=_edited(self.draft, {}, {"quorum": value}))

    def save(self) -> Path:
        """Store the draft beside the scenario; the fleet's files stay as they are.

        Returns
        -------
        Path
            The folder of the draft.
        """
        check_successor(self.present.manifest, self.draft.manifest)
        folder = self.present.scenario.parent / FOLDER
        folder.mkdir(exist_ok=True)
        addresses = json.dumps(dict(self.draft.addresses), indent=1)
        write_files(folder, {**self.draft.files, ADDRESSES: addresses + "\n"})
        return folder

    def roll_out(self, authority: Authority, out: Path | None = None) -> Path:
        """Sign the draft as one file for all sites, and make it the fleet's present terms.

        Parameters
        ----------
        authority : Authority
            Whose certificate all sites have.
        out : Path, optional
            The file; `epoch.json` beside the scenario by default.

        Returns
        -------
        Path
            The signed epoch.

        Raises
        ------
        AgentError
            If nothing was drafted, a masked sum lacks a signing key, or a member is denied.
        """
        home = self.present.scenario.parent
        if not (home / FOLDER).is_dir():
            raise AgentError(
                "there is no change to roll out; `veilsum members add` and `veilsum members remove` "
                "draft one"
            )
        check_successor(self.present.manifest, self.draft.manifest)
        if not self.draft.manifest.pinned:
            raise AgentError(
                "the masked sum has no signing keys yet; `veilsum keys sign` collects them"
            )
        for label, name in self.draft.manifest.certificates.items():
            if denied := authority.deny_list().about(name):  # no site would have a link to it
                raise AgentError(
                    f"{label} cannot be a member: {denied}; `veilsum members remove {label}` first"
                )
        path = out or home / EPOCH_FILE
        self.draft.signed(authority).write(path)
        write_files(home, dict(reversed(list(self.draft.files.items()))))  # the scenario last
        shutil.rmtree(home / FOLDER)
        return path

    def _check_members(self, labels: Iterable[str]) -> None:
        known = self.draft.manifest.labels
        for label in labels:
            if label not in known:
                raise AgentError(f"{label} is no member; the members are {some_names(known)}")

    def _check_address(self, label: str, address: str) -> None:
        """Two agents cannot listen at one address: neighbours would find the other's certificate."""
        for other in self.draft.manifest.labels:
            if address and self.draft.addresses.get(other) == address:
                raise AgentError(
                    f"{label} cannot listen at {address}: {other} does; give {label} a port of its own, "
                    f"as in veilsum members add {label}=HOST:PORT"
                )

    def _with(self, pairs: list[tuple[str, str]], former: Mapping[str, int]) -> NextEpoch:
        text = _csv(pairs)
        gone = ", ".join(f"{json.dumps(k)} = {epoch}" for k, epoch in former.items())
        keys = {"former": f"{{ {gone} }}" if gone else "{}"}
        try:
            draft = _edited(self.draft, {self.draft.links_name: text}, keys)
        except VeilsumError as problem:
            raise AgentError(
                f"agents could not follow this change, and nothing was written: {problem}"
            ) from None
        return replace(self, draft=draft)


def _edited(terms: EpochFiles, files: Mapping[str, str], agents: Mapping[str, str]) -> EpochFiles:
    """Terms with other files, and other keys of [agents]."""
    changed = {**terms.files, **files}
    text = changed[terms.scenario.name]
    for key, value in agents.items():
        text = set_key(text, "agents", key, value)
    changed[terms.scenario.name] = text
    # Keys that were collected since count too: those of a member that is added now.
    for name in terms.files:
        path = terms.scenario.parent / name
        if name.endswith(".toml") and name != terms.scenario.name:
            changed[name] = _read(path)
    return EpochFiles._of(terms.scenario, changed, terms.addresses)


def set_key(text: str, table: str, key: str, value: str) -> str:
    """TOML with one key of a table set, and everything else as it was, comments too.

    Parameters
    ----------
    text : str
        TOML, with the table written as [table], or without it.
    table, key : str
        Which key.
    value : str
        As TOML writes it.

    Raises
    ------
    AgentError
        If the table is written in a way that this cannot edit.

    Examples
    --------
    >>> print(set_key('name = "a"  # why\\n\\n[agents]\\nepoch = 1\\n', "agents", "epoch", "2"))
    name = "a"  # why
    <BLANKLINE>
    [agents]
    epoch = 2
    <BLANKLINE>
    """
    lines = text.splitlines()
    heads = [k for k, line in enumerate(lines) if re.match(r"\s*\[", line)]
    start = next(
        (k for k in heads if re.fullmatch(rf"\s*\[\s*{table}\s*\]\s*(#.*)?", lines[k])), None
    )
    if start is None:
        lines += ["", f"[{table}]", f"{key} = {value}"]
    else:
        end = next((k for k in heads if k > start), len(lines))
        at = next((k for k in range(start + 1, end) if re.match(rf"\s*{key}\s*=", lines[k])), None)
        if at is None:
            lines.insert(start + 1, f"{key} = {value}")
        else:
            lines[at] = f"{key} = {value}"
    made = "\n".join(lines) + "\n"
    try:
        found: Any = tomllib.loads(made)[table][key]
        wanted: Any = tomllib.loads(f"x = {value}")["x"]
    except (ValueError, KeyError, TypeError):
        found, wanted = None, 0
    if found != wanted:
        raise AgentError(
            f"the scenario's {table}.{key} cannot be changed; write the table as [{table}], with "
            f"{key} on a line of its own"
        )
    return made


def _links_name(scenario: Scenario) -> str:
    section = scenario.variants[0].network
    source = graph_source(scenario.variants[0], scenario.folder)
    if isinstance(source, Path) and source.suffix == ".csv" and not section.directed:
        return section.graph
    what = "directed links" if section.directed else f"graph = {section.graph!r}"
    raise AgentError(
        f"the scenario has {what}, and members are added to and removed from a file of undirected "
        'links; write them as graph = "links.csv", with lines such as north,east'
    )


def _pairs(terms: EpochFiles) -> list[tuple[str, str]]:
    """The links as the file has them, in its order."""
    rows = csv.reader(io.StringIO(terms.files[terms.links_name]))
    found = [tuple(cell.strip() for cell in row[:2]) for row in rows if row]
    labels = set(terms.manifest.labels)
    return [(a, b) for a, b in (pair for pair in found if len(pair) == 2) if {a, b} <= labels]


def _check_connected(pairs: Iterable[tuple[str, str]], labels: Iterable[str]) -> None:
    """Name the parts that a change would leave, and the option that joins them.

    A member without a link is a part too: the file of links alone would not know of it any more.
    """
    parts = [{label} for label in labels]
    for pair in pairs:
        joined = [part for part in parts if part & set(pair)]
        parts = [part for part in parts if part not in joined]
        parts.append(set(pair).union(*joined))
    if len(parts) > 1:
        named = "; ".join(some_names(sorted(part)) for part in parts)
        one, other = (min(part) for part in parts[:2])
        raise AgentError(
            f"without further links the network falls into {len(parts)} parts ({named}), and nothing was "
            f"written; add a link between them, such as --link {one}={other}"
        )


def _csv(pairs: Iterable[tuple[str, str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([("source", "target"), *pairs])
    return out.getvalue()


def _member_keys(folder: Path, scenario: Scenario) -> str:
    """The text of the signing keys, of members alone: the list may have those of others."""
    spec = scenario.variants[0]
    assert isinstance(spec.agents.signing_keys, str), "the keys are in a file"
    path = folder / spec.agents.signing_keys
    rows = csv.reader(io.StringIO(_read(folder / spec.network.graph)))
    labels = {end.strip() for row in rows for end in row[:2]}
    keys = read_keys(path)
    write_keys(path, {label: key for label, key in keys.items() if label in labels})
    return _read(path)


def known_addresses(home: Path) -> dict[str, str]:
    """Where members listen: of the last signed epoch, and of the sites' files beside the scenario."""
    found: dict[str, str] = {}
    try:
        before = json.loads((home / EPOCH_FILE).read_text("utf-8"))["addresses"]
        found |= {str(label): str(at) for label, at in before.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    for path in sorted(home.glob("sites/*/agent.toml")):
        try:
            peers = tomllib.loads(path.read_text("utf-8")).get("peers", {})
        except (OSError, ValueError):
            continue
        found |= {str(label): str(at) for label, at in peers.items()}
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise AgentError(
            f"{path} cannot be read ({why}); it belongs to the fleet's terms"
        ) from None
