"""The manifest: what all agents of a network must agree on before they exchange anything.

Two agents compare hashes on connecting; if they differ, each reports the first field that differs.
The manifest holds no signal and nothing derived from one.

Two versions of veilsum have the same digest of the same terms: a field that is added has a default,
which means what agents did before there was the field, and is hashed only where its value is another
(`ADDED`). So agents of both versions run under one manifest until an operator uses the new term; then
those who do not know it are refused, which they must be, because they would not obey it. A field is
never removed or renamed, and a default never changed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from veilsum import _validate, algorithms
from veilsum.agents import conservation
from veilsum.agents.derived_terms import (
    MaskedNumbers,
    Numbers,
    WeightedLink,
    batches_of,
    check_pins,
    hops_of,
    links_of,
    mechanism_of,
)
from veilsum.agents.flows import LinkFlows
from veilsum.agents.roles import check_members
from veilsum.agents.versions import MANIFEST
from veilsum.agents.views import ViewGraph
from veilsum.algorithms.base import Algorithm
from veilsum.algorithms.batched import batched
from veilsum.errors import AgentError
from veilsum.privacy import Batches
from veilsum.privacy.batches import LARGEST_GROWTH, LEAST_GROWTH
from veilsum.privacy.mechanisms import MaskedMechanism
from veilsum.privacy.proofs import check_stopping
from veilsum.privacy.requests import Protects
from veilsum.simulation import Problem

ADDED = ("clip",)  # fields that version 1 of the JSON did not have, in the order of adding
WEIGHT_BITS = 53  # a weight is a whole number of 2^-53: exactly the float

GATHERING, LOST_AFTER = 600.0, 3600.0  # seconds
_FLOATS = (
    "epsilon", "delta", "radius", "tolerance", "gathering", "lost_after", "every", "grace",
    "batch_growth", "largest", "clip",
)  # fmt: skip


@dataclass(frozen=True)
class Manifest:
    """The terms of one network in one epoch; its fields are compared in order.

    Parameters
    ----------
    name : str
        Name of the network.
    epoch : int
        Counts changes of membership.
    algorithm : str
        Name of the algorithm.
    options : tuple
        Options of the algorithm as (name, value).
    asynchronous : bool
        Readings enter when they come; there are no common rounds.
    family : str
        The family, as its repr.
    dimension : int
        Components of the statistic.
    protect, sensitivity : str
        The privacy request.
    mechanism : str
        Name of the mechanism; "best" is resolved.
    epsilon, delta, radius : float
        The privacy request.
    rounds : int
        0 if open-ended.
    tolerance : float
        Stop when estimates are this close; 0 to stop only after the last round.
    quorum : int
        Members whose readings a result needs; n - d in a masked sum.
    gathering : float
        Seconds to wait for members that were never heard, if the quorum allows to go without them.
    lost_after : float
        Seconds of silence after which a neighbour counts as lost.
    every, grace : float
        Seconds of a slot of the reading schedule, and how much later a reading may come; 0: none.
    batch_growth : float
        By what factor batches of readings grow; 1: each reading is released by itself.
    longest_batch : int
        Readings of the longest batch; 0: no limit.
    diameter : int
        Hops within which a range report reaches every agent.
    unit : int
        Numbers are in units of 2^-unit.
    largest : float
        No release is larger in absolute value; inf if unknown. In a masked sum, no statistic.
    weights : str
        Name of the weights.
    members : tuple
        (label, name on its certificate) of every agent.
    links : tuple
        (from, to, weight pushed), in both directions.
    colluders, absent, attempts, steps : int
        c, d, A and the grid of a masked sum (`privacy.MaskedDP`); 0 where nothing is masked.
    nonce : str
        32 hexadecimal digits that distinguish this run of a masked sum from all others; empty while
        it is not chosen, and where nothing is masked.
    signing_keys : tuple of str
        The pinned Ed25519 keys, hexadecimal, aligned with `members`; empty like `nonce`.
    clip : float
        The radius of clipped gossip, in units of the statistic: a neighbour changes an agent by at
        most its weight times this in a round, in each component. 0: nothing is clipped.

    Raises
    ------
    AgentError
        If a term is invalid, or the tolerance contradicts the guarantee.

    Examples
    --------
    >>> from veilsum.agents import Manifest
    >>> from veilsum.scenario import Scenario
    >>> scenario = Scenario.parse('''
    ... network = {graph = "ring:4", weights = "lazy-metropolis"}
    ... family = {name = "normal", sigma = 1.0, bounds = [0.0, 1.0]}
    ... signals = {draw = {mu = 0.5}}
    ... privacy = {protect = "signal", epsilon = 1.0}
    ... algorithm = {name = "average", rounds = 20}
    ... ''')
    >>> manifest = Manifest.of(scenario.build().problem, "ring")
    >>> manifest.diameter, len(manifest.links), sorted(manifest.link_weights("0"))
    (2, 8, ['1', '3'])
    >>> Manifest.from_json(manifest.to_json()).digest == manifest.digest
    True
    """

    name: str
    epoch: int
    algorithm: str
    options: tuple[tuple[str, float | int | str], ...]
    asynchronous: bool
    family: str
    dimension: int
    protect: str
    sensitivity: str
    mechanism: str
    epsilon: float
    delta: float
    radius: float
    rounds: int
    tolerance: float
    quorum: int
    gathering: float
    lost_after: float
    every: float
    grace: float
    batch_growth: float
    longest_batch: int
    diameter: int
    unit: int
    largest: float
    weights: str
    members: tuple[tuple[str, str], ...]
    links: tuple[WeightedLink, ...]
    colluders: int = 0
    absent: int = 0
    attempts: int = 0
    steps: int = 0
    nonce: str = ""
    signing_keys: tuple[str, ...] = ()
    clip: float = 0.0

    FIELDS: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        """Raise for terms that contradict their own guarantee, however the manifest was made."""
        if not 0 <= self.tolerance < math.inf:
            raise AgentError(
                f"tolerance must be a finite number of at least 0; found {self.tolerance:g}"
            )
        check_stopping(self.protect, self.tolerance, AgentError)
        _validate.at_least(AgentError, 1, quorum=self.quorum)
        _validate.at_most(AgentError, len(self.members), quorum=self.quorum)
        _validate.positive(AgentError, gathering=self.gathering, lost_after=self.lost_after)
        if not 0 <= self.every < math.inf or not 0 <= self.grace < math.inf:
            raise AgentError(
                "every and grace must be finite numbers of seconds of at least 0; "
                f"found {self.every:g} and {self.grace:g}"
            )
        if self.batch_growth != 1 and not LEAST_GROWTH <= self.batch_growth <= LARGEST_GROWTH:
            raise AgentError(
                f"batch_growth must be 1, or a number from {LEAST_GROWTH:g} to {LARGEST_GROWTH:g}; "
                f"found {self.batch_growth:g}"
            )
        _validate.at_least(AgentError, 0, longest_batch=self.longest_batch)
        check_members(name for _, name in self.members)
        self._check_masked()
        self._check_clip()

    def _check_clip(self) -> None:
        """Rounds are clipped where both ends of a link have the same pair of parts in each."""
        if self.clip == 0:
            return
        _validate.positive(AgentError, clip=self.clip)
        if self.masked:
            raise AgentError(
                "clip bounds what a neighbour changes in a round, and a masked sum has no such "
                "rounds; leave clip out of [agents]"
            )
        if self.hides_neighbours:
            raise AgentError(
                "clip is not for Network DP: its noise is calibrated for rounds that are linear in "
                'the neighbours\' estimates; leave clip out of [agents], or say protect = "signal"'
            )
        if not self.waits:
            which = "asynchronous agents have none" if self.asynchronous else "there is none here"
            raise AgentError(
                "clip needs rounds in common with a last one, in which both ends of a link have the "
                f"same pair of parts, and {which}; leave clip out of [agents], or asynchronous and "
                "open_ended"
            )
        conservation.check_clipping(self.made_algorithm)
        if not self.flows.symmetric:
            raise AgentError(
                f"clip needs symmetric weights, such as metropolis, and {self.weights} has links "
                "whose directions differ: what one end gains would not be what the other loses"
            )
        if not all(all(self.radii(label).values()) for label in self.labels):
            raise AgentError(
                f"clip = {self.clip:g} is below the unit of the network's numbers, 2^-{self.unit}: "
                "nothing would ever move; choose a radius near the differences of honest estimates"
            )

    def _check_masked(self) -> None:
        """The terms of a masked sum fit together; without one there are none."""
        numbers = (self.colluders, self.absent, self.attempts, self.steps)
        if not self.masked:
            if any(numbers) or self.nonce or self.signing_keys:
                raise AgentError(
                    "signing_keys, nonce, colluders, absent and attempts belong to a masked sum, and "
                    f'algorithm {self.algorithm} is none; leave them out, or say mode = "masked"'
                )
            return
        _validate.at_least(AgentError, 0, colluders=self.colluders, absent=self.absent)
        _validate.at_least(AgentError, 1, attempts=self.attempts, steps=self.steps)
        if self.quorum != len(self.members) - self.absent:
            raise AgentError(
                f"quorum must be n - absent = {len(self.members)} - {self.absent} in a masked sum: a "
                f"result is over a roster, and no roster is smaller; found {self.quorum}; leave "
                "quorum out, and state absent in [privacy]"
            )
        if self.asynchronous or self.tolerance:
            raise AgentError(
                "a masked sum has one result for all, from sessions in common; leave asynchronous "
                "and tolerance out"
            )
        if self.rounds == 0 and not self.made_algorithm.online:
            raise AgentError(
                f"{self.algorithm} adds up one reading of each agent; leave open_ended out"
            )
        check_pins(self.labels, self.nonce, self.signing_keys)

    @property
    def masked(self) -> bool:
        """Whether the result is a masked sum, and not made from releases with local noise."""
        return self.protect != Protects.NOTHING and self.mechanism == MaskedMechanism.name

    @property
    def queries(self) -> int:
        """How many masked sums there are: one offline, one for each batch that closes; 0: no end."""
        if not self.made_algorithm.online:
            return 1
        batches = Batches(self.batch_growth, self.longest_batch)
        return batches.count(self.rounds) - (batches.released(self.rounds) < self.rounds)

    @property
    def pinned(self) -> bool:
        """Whether a run can begin: in a masked sum the nonce and all signing keys are there."""
        return not self.masked or bool(self.nonce and self.signing_keys)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of all members, in order."""
        return tuple(label for label, _ in self.members)

    @cached_property
    def graph(self) -> ViewGraph:
        """The links, numbered: bit k of a view stands for the k-th of `graph.pairs`."""
        return ViewGraph(self.labels, self.links)

    @cached_property
    def flows(self) -> LinkFlows:
        """What an honest member can send over each link, net."""
        return LinkFlows(self)

    @property
    def waits(self) -> bool:
        """Whether a result is of a stated set of members: common rounds, and a last one."""
        return self.rounds > 0 and not self.asynchronous

    @cached_property
    def digest(self) -> bytes:
        """sha256 of the whole manifest in canonical JSON."""
        return hashlib.sha256(_canonical(self._stated)).digest()

    @cached_property
    def _stated(self) -> dict[str, Any]:
        """The terms that are hashed: all that every version knows, and others that are used."""
        defaults = {field.name: field.default for field in fields(self) if field.name in ADDED}
        values = {name: getattr(self, name) for name in self.FIELDS}
        return {n: v for n, v in values.items() if n not in defaults or v != defaults[n]}

    @cached_property
    def field_digests(self) -> tuple[bytes, ...]:
        """8 bytes of sha256 for each field: enough to find the first that differs.

        Added fields come last, up to the last one that is used.
        """
        stated = self._stated
        last = max(k for k, name in enumerate(self.FIELDS) if name in stated)
        values = ({name: getattr(self, name)} for name in self.FIELDS[: last + 1])
        return tuple(hashlib.sha256(_canonical(value)).digest()[:8] for value in values)

    def first_difference(self, theirs: tuple[bytes, ...]) -> str:
        """The first field in which a neighbour's manifest differs from this one."""
        for name, own, other in zip(self.FIELDS, self.field_digests, theirs, strict=False):
            if own != other:
                return name
        return "the number of fields (another version of veilsum)"

    @cached_property
    def certificates(self) -> dict[str, str]:
        """The name on each member's certificate, by label."""
        return dict(self.members)

    def lasting_name(self, label: str) -> str:
        """Identifies a member in all epochs: its certificate, with the label if several share it."""
        name = self.certificates[label]
        return f"{name}/{label}" if self._holders[name] > 1 else name

    @cached_property
    def _holders(self) -> Counter[str]:
        """How many members share each certificate."""
        return Counter(name for _, name in self.members)

    @cached_property
    def made_algorithm(self) -> Algorithm:
        """The algorithm as an object."""
        return algorithms.ALGORITHMS[self.algorithm](**dict(self.options))

    @cached_property
    def _weights(self) -> dict[str, dict[str, int]]:
        weights: dict[str, dict[str, int]] = {label: {} for label, _ in self.members}
        for source, to, weight in self.links:
            weights[source][to] = round(weight * 2**WEIGHT_BITS)
            weights[to].setdefault(source, 0)
        if self.clip:  # to the bit the same at both ends
            for source, to, _ in self.links:
                weights[source][to] = min(weights[source][to], weights[to][source])
        return weights

    def link_weights(self, label: str) -> dict[str, int]:
        """The weight that the agent pushes to each neighbour, in units of 2^-53.

        Parameters
        ----------
        label : str
            Label of the agent.

        Returns
        -------
        dict of str to int
            By neighbour; 0 for one that the agent only receives from.

        Raises
        ------
        AgentError
            If there is no such member.
        """
        if label not in self._weights:
            raise AgentError(
                f"no member of {self.name} is called {label!r}; "
                f"its {len(self.members)} members are {_some([m for m, _ in self.members])}"
            )
        return self._weights[label]

    def radii(self, label: str) -> dict[str, int]:
        """By how much a sum may change over each link in a round where `clip` is set.

        Parameters
        ----------
        label : str
            Label of the agent.

        Returns
        -------
        dict of str to int
            floor(weight clip), in units of 2^-unit, by neighbour: the same at both ends.
        """
        radius = int(Fraction(self.clip) * 2**self.unit)
        weights = self.link_weights(label)
        return {peer: weight * radius >> WEIGHT_BITS for peer, weight in weights.items()}

    @cached_property
    def largest_weights(self) -> dict[str, float]:
        """By member, the largest weight with which a neighbour's estimate reaches it."""
        largest = dict.fromkeys(self.labels, 0.0)
        for _, to, weight in self.links:
            largest[to] = max(largest[to], weight)
        return largest

    @property
    def hides_neighbours(self) -> bool:
        """Whether noise must enter in every round (Network DP)."""
        return self.protect == Protects.NETWORK

    @property
    def adds_noise(self) -> bool:
        """Whether anything is protected."""
        return self.protect != Protects.NOTHING

    def to_json(self) -> str:
        """The JSON that is hashed, and its version, which is not."""
        return _canonical({"version": MANIFEST.newest} | self._stated).decode()

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read what `to_json` wrote, in this version or the one before.

        Raises
        ------
        AgentError
            For another version, and for a term that is not known: terms are obeyed or refused.
        """
        data = json.loads(text)
        version = data.pop("version", 1)
        if type(version) is not int or not MANIFEST.reads(version):
            why = MANIFEST.refusal(version) if type(version) is int else "its version is no number"
            raise AgentError(f"this manifest cannot be read: {why}")
        unknown = sorted(set(data) - set(cls.FIELDS))
        if unknown:
            raise AgentError(
                f"this manifest has terms that this version of veilsum does not know: "
                f"{_some(unknown)}; use the version that wrote it"
            )
        for name in ("options", "members", "links"):
            data[name] = tuple(tuple(entry) for entry in data[name])
        data["signing_keys"] = tuple(data["signing_keys"])
        for name in _FLOATS:
            if name in data or name not in ADDED:
                data[name] = float(data[name])
        return cls(**data)

    @classmethod
    def of(
        cls,
        problem: Problem,
        name: str = "veilsum",
        *,
        epoch: int = 1,
        certificates: Mapping[str, str] | None = None,
        asynchronous: bool = False,
        rounds: int | None = None,
        tolerance: float = 0.0,
        quorum: int | None = None,
        gathering: float = GATHERING,
        lost_after: float = LOST_AFTER,
        every: float = 0.0,
        grace: float = 0.0,
        batch_growth: float = 1.0,
        longest_batch: int = 0,
        nonce: str = "",
        signing_keys: Mapping[str, str] | None = None,
        clip: float = 0.0,
    ) -> Manifest:
        """The terms for running a problem with one agent for each of its network's labels.

        Parameters
        ----------
        problem : Problem
            Network, algorithm, family and privacy request.
        name : str
            Name of the network.
        epoch : int
            Counts changes of membership.
        certificates : mapping of str to str, optional
            The name on a member's certificate where it is not its label.
        asynchronous : bool
            Readings enter when they come.
        rounds : int, optional
            The problem's by default; 0 is open-ended.
        tolerance : float
            Stop when estimates are this close; 0 to stop only after the last round.
        quorum : int, optional
            Members whose readings a result needs; all by default.
        gathering, lost_after, every, grace
            As in the manifest.
        batch_growth, longest_batch
            As in the manifest, where the problem's privacy request has no batches; without a
            longest one it is a day of readings, if `every` is known.
        nonce : str
            As in the manifest; a masked sum can be planned without one, and not run.
        signing_keys : mapping of str to str, optional
            The pinned key of every member, hexadecimal; likewise.
        clip : float
            As in the manifest.

        Returns
        -------
        Manifest
            Valid.

        Raises
        ------
        AgentError
            If agents cannot run the problem.
        """
        algorithm = batched(problem.algorithm, None)  # the batches are terms of their own
        if not algorithm.masked:
            conservation.check(algorithm, max(problem.rounds, 2))
        if problem.network.dynamic:
            raise AgentError(
                "a dynamic network simulates links that fail; agents have real links, "
                "so leave link_failures and asleep out"
            )
        labels = [str(label) for label in problem.network.labels]
        if len(set(labels)) < len(labels):
            raise AgentError("agents need labels that differ as text; rename those that do not")
        privacy = problem.privacy
        if privacy.stream is not None:
            raise AgentError(
                'unit = "stream" in [privacy] is for simulations: agents release every reading with noise '
                "of one size; leave unit and horizon out, and bound what a stream costs by unit = "
                '"stream" in [budget]'
            )
        last = problem.rounds if rounds is None else rounds
        batches = privacy.batches or Batches(batch_growth, longest_batch)
        batches = batches_of(batches, every, last, privacy.masked)
        asked = privacy.at(problem.run_epsilons[0]) if problem.run_epsilons else privacy
        masked, numbers = MaskedNumbers.of(asked, problem, batches)
        unit, largest = numbers or Numbers.of(problem)
        return cls(
            name=name,
            epoch=epoch,
            algorithm=problem.algorithm.name,
            options=tuple(sorted(_options(algorithm).items())),
            asynchronous=asynchronous,
            family=repr(problem.family),
            dimension=problem.family.dimension,
            protect=privacy.protects.value,
            sensitivity=str(privacy.sensitivity) if privacy.adds_noise else "none",
            mechanism=mechanism_of(asked, problem.family),
            epsilon=asked.epsilon,
            delta=privacy.delta,
            radius=privacy.reach,
            rounds=last,
            tolerance=tolerance,
            quorum=len(labels) - masked.absent if quorum is None else quorum,
            gathering=gathering,
            lost_after=lost_after,
            every=every,
            grace=grace,
            batch_growth=batches.growth,
            longest_batch=batches.longest,
            diameter=hops_of(problem.network),
            unit=unit,
            largest=largest,
            weights=problem.network.scheme,
            members=tuple((label, (certificates or {}).get(label, label)) for label in labels),
            links=tuple(links_of(problem.network, labels)),
            **masked._asdict(),
            nonce=nonce,
            signing_keys=_aligned(labels, signing_keys or {}),
            clip=clip,
        )


Manifest.FIELDS = tuple(field.name for field in fields(Manifest))


def _canonical(value: Any) -> bytes:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=float
    ).encode()


def _aligned(labels: list[str], keys: Mapping[str, str]) -> tuple[str, ...]:
    """The keys in the order of the members: of all of them, and of nobody else."""
    strangers = [label for label in keys if label not in set(labels)]
    if strangers:
        raise AgentError(
            f"signing_keys names {_some(strangers)}, and the network has no such member; its "
            f"members are {_some(labels)}"
        )
    missing = [label for label in labels if label not in keys]
    if keys and missing:
        raise AgentError(
            f"signing_keys lacks {_some(missing)}; `veilsum keys request NAME` on each site makes "
            "its key, and `veilsum keys sign` collects the public halves in signing-keys.toml"
        )
    return tuple(keys[label] for label in labels if label in keys)


def _options(algorithm: Algorithm) -> dict[str, Any]:
    return {field.name: getattr(algorithm, field.name) for field in fields(algorithm)}


def _some(labels: list[str], most: int = 8) -> str:
    return ", ".join(labels[:most]) + (", ..." if len(labels) > most else "")
